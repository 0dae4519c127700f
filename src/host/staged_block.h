// The memory of staged blocks: fresh pages of the operating system.
//
// Thread-safe. A block costs its size rounded up to a page, and nothing before
// it is touched; it reads zero when fresh, and its pages go back to the system
// at once when it is released. Registering it in an AddressMap, accounting and
// copies are other people's business.
#ifndef PINRING_SRC_HOST_STAGED_BLOCK_H_
#define PINRING_SRC_HOST_STAGED_BLOCK_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace pinring {

// From this size on a block starts at a multiple of this size, and the system
// is asked for huge pages.
inline constexpr size_t kHugeBlockBytes = size_t{2} << 20;

struct StagedPages {
  void* base = nullptr;
  size_t bytes = 0;         // As asked for.
  size_t mapped_bytes = 0;  // Rounded up to pages.
};

// InvalidArgument for 0 bytes; ResourceExhausted when the system refuses or
// the size overflows.
absl::StatusOr<StagedPages> AllocateStagedPages(size_t bytes);

// What an allocation of `bytes` maps: a whole number of pages.
absl::StatusOr<size_t> StagedMappedBytes(size_t bytes);

// Nobody may use the pages from here on: no copy in flight, no registration,
// and no entry in an address map (the system may hand out the same addresses
// to another thread before this returns). On error the pages stay.
absl::Status ReleaseStagedPages(const StagedPages& pages);

}  // namespace pinring

#endif  // PINRING_SRC_HOST_STAGED_BLOCK_H_
