// SmallPool: blocks out of one fixed arena of pinned memory, for the small
// allocations that kernels read flags and mailboxes in.
//
// The arena is somebody else's: pinned before the pool is made, kept until it
// is gone. The pool keeps its books outside of it, since a program and its
// device may write anything there, and touches only the blocks it hands out,
// to zero them: a fresh pinned block reads zero.
//
// Best fit, the lowest address first among equals; neighbours that are free
// are one range. Allocate and Free are O(log n) and take a mutex; the zeroing
// is outside of it. Thread-safe. Whoever frees a block knows that no DMA of it
// is in flight.
#ifndef PINRING_SRC_HOST_SMALL_POOL_H_
#define PINRING_SRC_HOST_SMALL_POOL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "src/usage/category.h"

namespace pinring {

// What the caller wants to know about a block later; the pool only keeps it.
struct SmallBlockLabel {
  CategoryId category = kDefaultCategory;
  int32_t device = 0;
  uint32_t host_flags = 0;
};

struct SmallBlock {
  void* data = nullptr;
  size_t bytes = 0;  // As asked for.
  size_t occupied_bytes = 0;
  SmallBlockLabel label;
};

class SmallPool {
 public:
  // Blocks start at multiples of this, and occupy multiples of it.
  static constexpr size_t kGrainBytes = 256;

  struct Stats {
    size_t arena_bytes = 0;  // Usable: whole grains.
    size_t blocks = 0;
    size_t bytes = 0;  // As asked for.
    size_t occupied_bytes = 0;
    size_t largest_free_bytes = 0;
  };

  // `arena` of `bytes`, readable and writable. What lies before the first
  // multiple of kGrainBytes, or after the last whole grain, stays unused.
  SmallPool(void* arena, size_t bytes);
  SmallPool(const SmallPool&) = delete;
  SmallPool& operator=(const SmallPool&) = delete;

  // A zeroed block. InvalidArgument for 0 bytes, ResourceExhausted when no
  // free range is large enough.
  absl::StatusOr<SmallBlock> Allocate(size_t bytes,
                                      const SmallBlockLabel& label = {})
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Frees the block that starts at `data`, and says what it was.
  // InvalidArgument when none does: freed already, or inside a block.
  absl::StatusOr<SmallBlock> Free(void* data) ABSL_LOCKS_EXCLUDED(mutex_);

  // The block that contains `address`: one past the bytes asked for is
  // outside.
  std::optional<SmallBlock> Find(const void* address) const
      ABSL_LOCKS_EXCLUDED(mutex_);

  // True for every address of the arena, allocated or not. Takes no lock.
  bool InArena(const void* address) const {
    return reinterpret_cast<uintptr_t>(address) - base_ < usable_bytes_;
  }

  Stats stats() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Internal when the books do not tile the arena, or disagree.
  absl::Status CheckInvariants() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Offsets and sizes inside the arena are in grains.
  struct Taken {
    size_t grains = 0;
    size_t bytes = 0;
    SmallBlockLabel label;
  };

  SmallBlock Describe(size_t offset, const Taken& taken) const;
  void AddFree(size_t offset, size_t grains)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveFree(size_t offset, size_t grains)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uintptr_t base_;  // Aligned.
  const size_t usable_bytes_;

  mutable absl::Mutex mutex_;
  // Taken and free ranges tile the arena; no two free ones touch.
  absl::btree_map<size_t, Taken> taken_ ABSL_GUARDED_BY(mutex_);
  absl::btree_map<size_t, size_t> free_ ABSL_GUARDED_BY(mutex_);
  // The same free ranges as (size, offset).
  absl::btree_set<std::pair<size_t, size_t>> free_by_size_
      ABSL_GUARDED_BY(mutex_);
  size_t taken_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t taken_grains_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace pinring

#endif  // PINRING_SRC_HOST_SMALL_POOL_H_
