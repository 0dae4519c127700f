#ifndef PINRING_SRC_OS_PAGES_H_
#define PINRING_SRC_OS_PAGES_H_

// Whole pages of ordinary memory: reserving, populating and describing them.
//
// Thread-safe: every function may be called from any thread at any time, as
// long as nobody releases a range while it is in use. No function here holds a
// lock of its own.

#include <cstddef>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace pinring::os {

// The size of a page: the unit in which memory is reserved.
[[nodiscard]] size_t PageBytes();

// The size of the huge pages that the system gives to ordinary memory: 2 MiB on
// x86-64; elsewhere it can be far larger (512 MiB with 64 KiB pages on arm64),
// so do not align small blocks to it blindly. 2 MiB where it is not known.
[[nodiscard]] size_t HugePageBytes();

// `value` rounded up to a multiple of `alignment` (a power of two), or nullopt
// when that does not fit in size_t.
[[nodiscard]] constexpr std::optional<size_t> RoundUp(size_t value,
                                                      size_t alignment) {
  const size_t mask = alignment - 1;
  if (value > static_cast<size_t>(-1) - mask) return std::nullopt;
  return (value + mask) & ~mask;
}

// `value` rounded down to a multiple of `alignment` (a power of two).
[[nodiscard]] constexpr size_t RoundDown(size_t value, size_t alignment) {
  return value & ~(alignment - 1);
}

// `a + b`, or nullopt when the sum does not fit in size_t.
[[nodiscard]] constexpr std::optional<size_t> CheckedAdd(size_t a, size_t b) {
  if (a > static_cast<size_t>(-1) - b) return std::nullopt;
  return a + b;
}

// Reserves `bytes`, rounded up to whole pages, of private memory that reads
// zero, at an address that is a multiple of `alignment` (a power of two; at
// least a page is given). No memory is used before it is touched; memory that
// does not exist is found out then, as with malloc. A request that the system
// can see to be hopeless is refused at once.
//
// Errors: kInvalidArgument (`bytes` is 0, `alignment` no power of two),
// kResourceExhausted (the system refuses, or the size overflows).
[[nodiscard]] absl::StatusOr<void*> ReservePages(size_t bytes,
                                                 size_t alignment);

// Gives a whole range from ReservePages back; `bytes` is what was asked for
// there. On error the range stays as it was.
absl::Status ReleasePages(void* base, size_t bytes);

// Gives the memory of whole pages of a range from ReservePages back, not their
// addresses: they may still be accessed, and hold nothing of value.
absl::Status DiscardPages(void* base, size_t bytes);

// Asks for huge pages when [base, base + bytes), starting at a page, is
// touched. A hint: kUnimplemented where there are none.
absl::Status AdviseHuge(void* base, size_t bytes);

// Makes every page that [base, base + bytes) touches resident and writable
// without changing what it holds, also while others write to it. Several
// threads may populate parts of one range at once.
//
// Errors: kResourceExhausted (the system knows that the memory does not exist;
// where it cannot tell, the process ends as at any first touch).
absl::Status Populate(void* base, size_t bytes);

// Keeps [base, base + bytes), starting at a page, out of the children of fork,
// where touching it then faults. A child that had the pages would otherwise
// make the parent's next write move to other pages, away from a DMA in flight.
absl::Status DontFork(void* base, size_t bytes);

// How much of the pages that [base, base + bytes) touches is resident now.
[[nodiscard]] absl::StatusOr<size_t> ResidentBytes(const void* base,
                                                   size_t bytes);

}  // namespace pinring::os

#endif  // PINRING_SRC_OS_PAGES_H_
