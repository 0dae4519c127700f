// HostMemory: the blocks of an instance, from allocation to free.
//
// Several share one map of addresses, so that each range is one block's only
// and a call finds the instance that it is about.
//
// It decides what a block is made of (staged pages, a piece of the small pool,
// memory that the driver pins), keeps the map of their addresses, promotes
// staged blocks, and charges what is really pinned to the budget and to the
// ledger.
//
// Thread-safe. Calls that pin need a current context; each says so. None holds
// a lock across a call that waits for the device, but for the making of the
// pool, which waits for nothing.
//
// In a child of fork, whose copies of the locks nobody may ever release, blocks
// can be read, written, asked about and freed, without a lock and without a
// CUDA call; Allocate and Promote must not be called there.

#ifndef PINRING_SRC_CAPI_HOST_MEMORY_H_
#define PINRING_SRC_CAPI_HOST_MEMORY_H_

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "src/driver/driver.h"
#include "src/host/address_map.h"
#include "src/host/budget.h"
#include "src/host/small_pool.h"
#include "src/usage/usage_ledger.h"

namespace pinring {

class Instance;

class HostMemory {
 public:
  struct Options {
    bool stage = true;  // false: the driver pins every block
    size_t small_limit_bytes = 0;
    size_t small_pool_bytes = 0;
  };
  // What queries answer about an address.
  struct Facts {
    int device = 0;
    unsigned host_flags = 0;
    // The device's address of it: the same, but perhaps for a promoted block.
    uint64_t device_pointer = 0;
    // The block that the address is in.
    uint64_t base = 0;
    size_t bytes = 0;
  };

  // The others outlive it; `instance` is whose blocks they are.
  HostMemory(const Options& options, const Driver* driver, UsageLedger* ledger,
             PinnedBudget* budget, AddressMap* map, Instance* instance);
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  // Blocks that are still there lose their memory; nobody may use them.
  ~HostMemory();

  // A block of `bytes`, not 0, with the flags of cuMemHostAlloc, counted under
  // the calling thread's category. `ensure_context` is called before the
  // driver has to pin something. Errors: kResourceExhausted, the driver's.
  absl::StatusOr<void*> Allocate(
      size_t bytes, unsigned flags, int device,
      absl::FunctionRef<absl::Status()> ensure_context);

  // Whether a block of any instance holds `address`.
  bool Owns(const void* address) const { return map_.Find(address) != nullptr; }

  // Frees the block that starts at `pointer`. `wait` returns when no staged
  // copy of [begin, end) is in flight any more, `synchronize` when nothing is,
  // on any device. Errors: kInvalidArgument (no block starts here); what the
  // driver answers, after which the block is gone all the same.
  absl::Status Free(
      void* pointer,
      absl::FunctionRef<void(const std::byte* begin, const std::byte* end)>
          wait,
      absl::FunctionRef<absl::Status()> synchronize);

  // Makes a staged block really pinned until it is freed, if it is not. Needs
  // a current context. Errors: kResourceExhausted (the limit), the driver's.
  absl::Status Promote(Block& block);

  // What is known about `address`; none for memory that is not ours.
  std::optional<Facts> Describe(const void* address) const;

  // The small block that [address, address + bytes) begins in, if it ends
  // before: the driver, for which the pool is one block, would not notice.
  std::optional<Facts> ShorterSmallBlock(const void* address,
                                         uint64_t bytes) const {
    const Block* block = map_.Find(address);
    if (block == nullptr || block->kind() != BlockKind::kSmallArena) return {};
    return FindShorter(address, bytes);
  }

  // The block of an address that copies must not hand to the driver as it is;
  // empty where the driver knows the memory, or nobody does. The cheap look-up
  // before each copy.
  BlockUse UseStaged(const void* address) const {
    Block* block = map_.Find(address);
    if (block == nullptr || block->kind() != BlockKind::kStaged) return {};
    return map_.Use(address);
  }
  bool IsStaged(const void* address) const {
    Block* block = map_.Find(address);
    return block != nullptr && block->kind() == BlockKind::kStaged;
  }

  const AddressMap& map() const { return map_; }

  // The instance that handed out the block at `address`; null for memory that
  // is in no block of the map.
  static Instance* InstanceOf(const AddressMap& map, const void* address) {
    const Block* block = map.Find(address);
    return block == nullptr
               ? nullptr
               : static_cast<HostMemory*>(block->owner())->instance_;
  }

  // True in a child of fork of the process that made this object.
  bool InForkedChild() const;

 private:
  std::optional<Facts> FindShorter(const void* address, uint64_t bytes) const;
  // Why the category's hard limit refuses: out of memory, as natively.
  absl::Status CategoryFull(CategoryId category, uint64_t bytes) const;
  absl::StatusOr<void*> AllocateStaged(size_t bytes, unsigned flags,
                                       int device);
  absl::StatusOr<void*> AllocatePinned(size_t bytes, unsigned flags,
                                       int device);
  // Adds a block to the map, over what a reset device has left there.
  absl::StatusOr<Block*> Insert(BlockSpec spec);
  void Forget(Block& block);
  // Null where the pool has no room, or cannot be made.
  void* AllocateSmall(size_t bytes, unsigned flags, int device,
                      absl::FunctionRef<absl::Status()> ensure_context);
  SmallPool* Pool(absl::FunctionRef<absl::Status()> ensure_context)
      ABSL_LOCKS_EXCLUDED(pool_mutex_);
  // Whether the driver still knows the arena: a reset of the device frees it.
  bool ArenaIsThere() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(pool_mutex_);
  absl::Status MakePool(absl::FunctionRef<absl::Status()> ensure_context)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(pool_mutex_);
  absl::Status FreeSmall(void* pointer,
                         absl::FunctionRef<absl::Status()> synchronize);
  absl::Status FreePinned(Block& block);
  absl::Status FreeStaged(
      Block& block,
      absl::FunctionRef<void(const std::byte*, const std::byte*)> wait);
  absl::Status FreeInForkedChild(Block& block, void* pointer);

  const Options options_;
  const Driver& driver_;
  UsageLedger& ledger_;
  PinnedBudget& budget_;
  const int64_t process_id_;
  AddressMap& map_;
  Instance* const instance_;

  absl::Mutex pool_mutex_;
  bool pool_refused_ ABSL_GUARDED_BY(pool_mutex_) = false;
  void* arena_ ABSL_GUARDED_BY(pool_mutex_) = nullptr;
  // The pool, and before it those that were lost with their device, which a
  // reader without the lock may still look at.
  std::vector<std::unique_ptr<SmallPool>> pools_ ABSL_GUARDED_BY(pool_mutex_);
  // The pool, for readers without the lock: stored with release when it is
  // complete, loaded with acquire.
  std::atomic<SmallPool*> pool_{nullptr};
};

}  // namespace pinring

#endif  // PINRING_SRC_CAPI_HOST_MEMORY_H_
