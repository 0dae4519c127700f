// AddressMap: which block does this address belong to?
//
// Find takes no lock, waits for nobody and costs a few nanoseconds: it stands
// before each copy of a program. Insert and Erase are serialized by a mutex.
//
// The map is a radix tree over 57-bit addresses. Three levels of directories
// lead to one entry for each 2 MiB span. The entry holds the only block of
// its span, whatever part of it that covers, so that a block of 8 GiB costs
// 4,096 entries; or a node with an entry for each 4 KiB page, which holds the
// only block of its page, or a node with an entry for each 256 bytes, for the
// driver places its own small allocations that close together. Whatever an
// entry says, the block's own range decides.
//
// Directories are freed with the map. Nodes and block records are reused, but
// as what they were: a look-up that was overtaken by an Erase reads old or
// new facts, and checks them against the record.
//
//   AddressMap map;
//   absl::StatusOr<Block*> block = map.Insert(
//       {.base = base, .bytes = bytes, .mapped_bytes = rounded});
//   ...
//   if (BlockUse use = map.Use(address)) { ... it stays until the scope ends }
//   ...
//   if ((*block)->BeginFree()) {
//     (*block)->WaitUntilUnused();
//     map.Erase(*block);      // before the memory goes back to the system,
//     ReleaseStagedPages(...);  // which may give its address to another block
//   }
#ifndef PINRING_SRC_HOST_ADDRESS_MAP_H_
#define PINRING_SRC_HOST_ADDRESS_MAP_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "src/host/block.h"

namespace pinring {

class AddressMap {
 public:
  static constexpr int kAddressBits = 57;
  // What base and mapped_bytes must be multiples of.
  static constexpr size_t kGrainBytes = 256;

  AddressMap() = default;
  AddressMap(const AddressMap&) = delete;
  AddressMap& operator=(const AddressMap&) = delete;
  ~AddressMap();

  // Adds a live block, found from here on by every look-up that happens after.
  // InvalidArgument for an empty or unaligned range or one beyond
  // kAddressBits; AlreadyExists when it overlaps another block's.
  absl::StatusOr<Block*> Insert(const BlockSpec& spec)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Removes a block that is being freed (BeginFree) and has no uses left;
  // FailedPrecondition otherwise. The record may be another block's at once.
  absl::Status Erase(Block* block) ABSL_LOCKS_EXCLUDED(mutex_);

  // The block that contains `address`, or null. The answer can be out of date
  // when it is read, if another thread frees the block; a program that is
  // right never asks about a block it is freeing. Use() keeps it.
  Block* Find(uintptr_t address) const;
  Block* Find(const void* address) const {
    return Find(reinterpret_cast<uintptr_t>(address));
  }

  // Find, with a use of the block. Empty also when it is being freed.
  BlockUse Use(uintptr_t address) const;
  BlockUse Use(const void* address) const {
    return Use(reinterpret_cast<uintptr_t>(address));
  }

  // A block whose mapped range shares a byte with [begin, begin + bytes), or
  // null. Takes the lock.
  Block* FindOverlap(uintptr_t begin, size_t bytes) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  size_t size() const ABSL_LOCKS_EXCLUDED(mutex_);

  // False only where there is no block. Takes no lock.
  bool MayHoldBlocks() const {
    return highest_.load(std::memory_order_relaxed) != 0;
  }

  // Calls `visit` for each block, by address, under the lock: it must not call
  // the map, nor CUDA.
  void ForEach(const std::function<void(Block&)>& visit) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // What directories, nodes and records take, in use or kept for reuse.
  size_t overhead_bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Internal when tree, list and records disagree.
  absl::Status CheckInvariants() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  static constexpr int kDirectoryBits = 12;
  static constexpr int kSpanShift = 21;
  static constexpr int kPageShift = 12;
  static constexpr int kGrainShift = 8;
  static constexpr size_t kDirectorySize = size_t{1} << kDirectoryBits;
  static constexpr int kMiddleShift = kSpanShift + kDirectoryBits;
  static constexpr int kRootShift = kMiddleShift + kDirectoryBits;
  static_assert(kRootShift + kDirectoryBits == kAddressBits);

  // 0: no block here. Lowest bit set: a node, one level finer. Else the only
  // block of this range. Stored with release, loaded with acquire: who sees an
  // entry sees the node or the record behind it.
  using Entry = std::atomic<uintptr_t>;
  static constexpr uintptr_t kNodeTag = 1;

  struct GrainNode {
    static constexpr int kShift = kGrainShift;
    static constexpr size_t kEntries = size_t{1} << (kPageShift - kGrainShift);
    std::array<Entry, kEntries> entries{};
    size_t used = 0;  // Entries that are not 0; guarded by the map's mutex.
  };
  struct PageNode {
    static constexpr int kShift = kPageShift;
    static constexpr size_t kEntries = size_t{1} << (kSpanShift - kPageShift);
    std::array<Entry, kEntries> entries{};
    size_t used = 0;  // As above.
  };
  struct SpanDirectory {
    std::array<Entry, kDirectorySize> entries{};
  };
  struct MiddleDirectory {
    std::array<std::atomic<SpanDirectory*>, kDirectorySize> children{};
  };

  // All nodes of one type there are, and which of them are free. A free node's
  // entries are all 0.
  template <typename Node>
  struct NodeStore {
    std::deque<Node> nodes;
    std::vector<Node*> free;

    Node* Take();
  };
  template <typename Node>
  NodeStore<Node>& Store() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  static size_t DirectoryIndex(uintptr_t address, int shift) {
    return (address >> shift) & (kDirectorySize - 1);
  }
  template <typename Node>
  static const Entry& EntryOf(uintptr_t node, uintptr_t address) {
    return reinterpret_cast<const Node*>(node - kNodeTag)
        ->entries[(address >> Node::kShift) & (Node::kEntries - 1)];
  }

  Entry& SpanEntry(uintptr_t address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  const Entry* SpanEntryIfAny(uintptr_t address) const;
  template <typename Node>
  void InsertAt(Entry& entry, uintptr_t begin, uintptr_t end, Block* block)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <typename Node>
  void InsertInto(Node* node, uintptr_t begin, uintptr_t end, Block* block)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <typename Node>
  void EraseAt(Entry& entry, uintptr_t begin, uintptr_t end, Block* block)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  template <typename Node>
  absl::Status CheckEntry(const Entry& entry, uintptr_t begin,
                          uintptr_t* covered, size_t* nodes_used) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Block* OverlapLocked(uintptr_t begin, uintptr_t end) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Block* NewRecord() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Fill(Block* block, const BlockSpec& spec)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Every block lies in [lowest_, highest_): most addresses that a program
  // copies from are outside, and need no look into the tree. The range only
  // grows while there are blocks; it is written before the entries.
  std::atomic<uintptr_t> lowest_{UINTPTR_MAX};
  std::atomic<uintptr_t> highest_{0};
  std::array<std::atomic<MiddleDirectory*>, kDirectorySize> root_{};

  mutable absl::Mutex mutex_;
  absl::btree_map<uintptr_t, Block*> by_base_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<SpanDirectory>> span_directories_
      ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<MiddleDirectory>> middle_directories_
      ABSL_GUARDED_BY(mutex_);
  NodeStore<PageNode> page_nodes_ ABSL_GUARDED_BY(mutex_);
  NodeStore<GrainNode> grain_nodes_ ABSL_GUARDED_BY(mutex_);
  std::deque<Block> records_ ABSL_GUARDED_BY(mutex_);
  std::vector<Block*> free_records_ ABSL_GUARDED_BY(mutex_);
};

inline const AddressMap::Entry* AddressMap::SpanEntryIfAny(
    uintptr_t address) const {
  const MiddleDirectory* middle =
      root_[address >> kRootShift].load(std::memory_order_acquire);
  if (middle == nullptr) return nullptr;
  const SpanDirectory* spans =
      middle->children[DirectoryIndex(address, kMiddleShift)].load(
          std::memory_order_acquire);
  if (spans == nullptr) return nullptr;
  return &spans->entries[DirectoryIndex(address, kSpanShift)];
}

inline Block* AddressMap::Find(uintptr_t address) const {
  // Relaxed is enough: a look-up that happens after an Insert sees its bounds,
  // and highest_ never exceeds what the tree can index.
  if (address < lowest_.load(std::memory_order_relaxed) ||
      address >= highest_.load(std::memory_order_relaxed)) {
    return nullptr;
  }
  const Entry* span = SpanEntryIfAny(address);
  if (span == nullptr) return nullptr;
  uintptr_t entry = span->load(std::memory_order_acquire);
  if ((entry & kNodeTag) != 0) {
    entry = EntryOf<PageNode>(entry, address).load(std::memory_order_acquire);
    if ((entry & kNodeTag) != 0) {
      entry =
          EntryOf<GrainNode>(entry, address).load(std::memory_order_acquire);
    }
  }
  if (entry == 0) return nullptr;
  Block* block = reinterpret_cast<Block*>(entry);
  return block->HoldsNow(address) ? block : nullptr;
}

inline BlockUse AddressMap::Use(uintptr_t address) const {
  Block* block = Find(address);
  if (block == nullptr || !block->AcquireUse()) return BlockUse();
  BlockUse use(block);
  // Between the two the record may have become another block's; from the use
  // on it cannot.
  return block->Contains(address) ? std::move(use) : BlockUse();
}

}  // namespace pinring

#endif  // PINRING_SRC_HOST_ADDRESS_MAP_H_
