// Block: what is known about one range of host memory that pinring handed out.
//
// Records belong to an AddressMap and live as long as it does: a pointer to
// one may be stale (the block was freed, the record describes another block
// now), never dangling. Whoever needs a block to stay takes a use of it.
#ifndef PINRING_SRC_HOST_BLOCK_H_
#define PINRING_SRC_HOST_BLOCK_H_

#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "src/usage/category.h"

namespace pinring {

enum class BlockKind : uint8_t {
  kStaged,        // Pageable pages of our own.
  kSmallArena,    // The small pool's arena: ask the pool about addresses in it.
  kMappedPinned,  // Allocated pinned by the driver, because it had to be.
};

// What a block is made from.
struct BlockSpec {
  uintptr_t base = 0;
  // As the program asked for it: base + bytes is outside.
  size_t bytes = 0;
  // The range that nobody else may have; at least `bytes`.
  size_t mapped_bytes = 0;
  BlockKind kind = BlockKind::kStaged;
  CategoryId category = kDefaultCategory;
  // What attribute and flags queries answer.
  int32_t device = 0;
  uint32_t host_flags = 0;
  // Whoever handed the block out, where several share a map.
  void* owner = nullptr;
};

class alignas(64) Block {
 public:
  // Outcome of BeginPromotion for the calling thread.
  enum class PromotionTurn {
    kMine,  // The caller registers it, then finishes or abandons.
    kDone,  // Promoted already.
  };

  Block() = default;
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  // These are constant while the block is live and the caller's use, or its
  // knowledge that nobody frees it, keeps it so.
  uintptr_t base() const { return base_.load(std::memory_order_acquire); }
  size_t bytes() const { return bytes_.load(std::memory_order_acquire); }
  size_t mapped_bytes() const { return mapped_bytes_; }
  BlockKind kind() const { return kind_.load(std::memory_order_relaxed); }
  CategoryId category() const { return category_; }
  int32_t device() const { return device_; }
  uint32_t host_flags() const { return host_flags_; }
  void* owner() const { return owner_.load(std::memory_order_relaxed); }
  void* data() const { return reinterpret_cast<void*>(base()); }

  // True for the bytes the program asked for, not for the rest of their page.
  bool Contains(uintptr_t address) const {
    return address - base() < bytes();  // Below base wraps to a large number.
  }
  // True when all of [address, address + n) lies inside; of an empty range,
  // that its address does.
  bool ContainsRange(uintptr_t address, size_t n) const {
    const uintptr_t offset = address - base();
    const size_t size = bytes();
    return offset < size && n <= size - offset;
  }

  // Uses: one for each transfer in flight, and whatever else needs the memory
  // to stay. False when the block is being freed, or was.
  [[nodiscard]] bool AcquireUse();
  void ReleaseUse();
  uint32_t uses() const {
    return life_.load(std::memory_order_acquire) & kUseMask;
  }

  // The first step of freeing: from here on no use can be acquired. True for
  // exactly one caller; false says that it is being freed already.
  [[nodiscard]] bool BeginFree();
  bool freeing() const {
    return (life_.load(std::memory_order_acquire) & kFreeing) != 0;
  }
  // Blocks until the uses that were there at BeginFree are released.
  void WaitUntilUnused() const;

  // Promotion: registering the block in place, so that it is really pinned
  // until it is freed. One thread at a time does it; others wait here for the
  // outcome. Needs a use, so that the block is not freed meanwhile.
  [[nodiscard]] PromotionTurn BeginPromotion();
  void FinishPromotion(uint64_t device_pointer);
  void AbandonPromotion();
  bool promoted() const {
    // Pairs with the release in FinishPromotion: device_pointer() is set.
    return promotion_.load(std::memory_order_acquire) == kPromoted;
  }
  // Also while it is being promoted, before anything is pinned.
  bool may_be_pinned() const {
    return promotion_.load(std::memory_order_acquire) != kUnpromoted;
  }
  // The device's address of base(): of a promoted or a mapped block.
  uint64_t device_pointer() const {
    return device_pointer_.load(std::memory_order_relaxed);
  }
  void set_device_pointer(uint64_t device_pointer) {
    device_pointer_.store(device_pointer, std::memory_order_relaxed);
  }

 private:
  friend class AddressMap;

  static constexpr uint32_t kLive = uint32_t{1} << 30;
  static constexpr uint32_t kFreeing = uint32_t{1} << 31;
  static constexpr uint32_t kUseMask = kLive - 1;

  static constexpr uint32_t kUnpromoted = 0;
  static constexpr uint32_t kPromoting = 1;
  static constexpr uint32_t kPromoted = 2;

  // For a reader without a use: does the record, at one moment, describe a
  // block that contains `address`? A record in the middle of being rewritten
  // does not.
  bool HoldsNow(uintptr_t address) const {
    const uint32_t before = generation_.load(std::memory_order_acquire);
    // Both loads are acquire, so the second look at the generation is after
    // them; they pair with the release stores in AddressMap::Fill, before
    // which the generation was made odd.
    const bool contains = Contains(address);
    return contains && (before & 1) == 0 &&
           generation_.load(std::memory_order_relaxed) == before;
  }

  // A record's life: unused (0) -> live, with uses -> freeing, while uses
  // drain -> unused. Insert makes it live, BeginFree freeing, Erase unused.
  // The low bits count the uses; they are 0 when unused.
  std::atomic<uint32_t> life_{0};
  // Odd while base_ and bytes_ change, which they do only when unused.
  std::atomic<uint32_t> generation_{0};
  std::atomic<uintptr_t> base_{0};
  std::atomic<size_t> bytes_{0};
  std::atomic<BlockKind> kind_{BlockKind::kStaged};
  std::atomic<void*> owner_{nullptr};
  // Written when unused, before the release that makes the record live.
  size_t mapped_bytes_ = 0;
  CategoryId category_ = kDefaultCategory;
  int32_t device_ = 0;
  uint32_t host_flags_ = 0;
  // kUnpromoted -> kPromoting -> kPromoted, or back when abandoned. It never
  // leaves kPromoted before the record is reused: unregistering waits for the
  // device, so it is left until the free.
  std::atomic<uint32_t> promotion_{kUnpromoted};
  std::atomic<uint64_t> device_pointer_{0};
};

// A use of a block, given back at the end of the scope. Empty when the address
// belonged to none.
class [[nodiscard]] BlockUse {
 public:
  BlockUse() = default;
  // Takes over a use that was acquired.
  explicit BlockUse(Block* block) : block_(block) {}
  BlockUse(BlockUse&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)) {}
  BlockUse& operator=(BlockUse&& other) noexcept {
    if (this != &other) {
      Reset();
      block_ = std::exchange(other.block_, nullptr);
    }
    return *this;
  }
  ~BlockUse() { Reset(); }

  explicit operator bool() const { return block_ != nullptr; }
  Block* get() const { return block_; }
  Block* operator->() const { return block_; }
  Block& operator*() const { return *block_; }

  void Reset() {
    if (Block* block = std::exchange(block_, nullptr)) block->ReleaseUse();
  }
  // Hands the use to the caller, who calls ReleaseUse later.
  [[nodiscard]] Block* Detach() { return std::exchange(block_, nullptr); }

 private:
  Block* block_ = nullptr;
};

}  // namespace pinring

#endif  // PINRING_SRC_HOST_BLOCK_H_
