// What wrappers do with calls that are about blocks: they hand them to the
// default instance, which is made at the first allocation.
//
// Thread-safe. Answers are the driver's codes.

#ifndef PINRING_SRC_PRELOAD_STAGING_H_
#define PINRING_SRC_PRELOAD_STAGING_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "src/capi/instance.h"
#include "src/capi/instances.h"
#include "src/host/block.h"
#include "src/preload/entry_points.h"

namespace pinring::preload {

// For its scope the calling thread is inside the library: calls that come back,
// from a tool that watches the driver, say, go to the driver.
class Inside {
 public:
  Inside() { ++depth_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { --depth_; }

  static bool Now() { return depth_ > 0; }

 private:
  static constinit thread_local int depth_;
};

// Whether a call from `return_address` is none of ours.
inline bool Passes(const void* return_address) {
  return Inside::Now() || EntryPoints::IsDriverCode(return_address);
}

inline const void* Pointer(CUdeviceptr address) {
  return reinterpret_cast<const void*>(address);
}

// The block of an address; null for memory of others.
inline const Block* FindBlock(const void* address) {
  return Blocks().Find(address);
}
inline bool IsStaged(const void* address) {
  const Block* block = FindBlock(address);
  return block != nullptr && block->kind() == BlockKind::kStaged;
}

// Whether the bytes reach beyond the small block that they begin in, which the
// driver does not see: for it the pool is one block.
inline bool ReachesBeyondSmallBlock(const void* address, uint64_t bytes) {
  const Block* const block = FindBlock(address);
  if (block == nullptr || block->kind() != BlockKind::kSmallArena) return false;
  const Instance* const owner = OwnerOf(address);
  return owner != nullptr && owner->ReachesBeyondSmallBlock(address, bytes);
}

// Whether the calling thread has a context. Where it has none the driver
// refuses whatever needs one.
bool HasContext();

// cuMemHostAlloc; none where the request is left to the driver.
std::optional<CUresult> Allocate(void** pointer, size_t bytes, unsigned flags);

// What follows is about addresses in blocks, but for CopyPageable.
CUresult Free(void* pointer);
CUresult GetDevicePointer(CUdeviceptr* device_pointer, void* pointer,
                          unsigned flags);
CUresult GetFlags(unsigned* flags, void* pointer);

// Copies of which at least one end is staged; of rows where copy.rows is set.
CUresult CopyStaged(const Instance::Copy& copy);
CUresult FillStaged(const Instance::Fill& fill);

// A copy of which no end is staged, through the ring where it is between the
// device and memory that is not pinned: it blocks as the driver's own does.
// None where it is left to the driver.
std::optional<CUresult> CopyPageable(const Instance::Copy& copy);
// The same between devices, which the contexts name.
CUresult CopyStagedPeer(const Instance::Copy& copy,
                        const Instance::Peers& peers);

#if CUDA_VERSION >= 12080
// One copy of a batch, of rows or not, whose source is read in that order.
CUresult CopyOfBatch(const Instance::Copy& copy, CUmemcpySrcAccessOrder order);
#endif

// Whether the stream, which is not the legacy one, is being captured.
bool IsCapturing(CUstream stream);

// Pins the staged block, if the address is in one, for the driver's function of
// that name. An error says that the call cannot be made.
CUresult PromoteFor(const char* function, const void* address);

// The same for each word of the memory that looks like an address in a block.
CUresult PromoteWords(const char* function, const void* memory, size_t bytes);

// What the array is; with elements of 0 bytes where they have no fixed size, or
// the driver does not say.
Instance::ArrayFacts DescribeArray(const void* block_address, CUarray array);

// An attribute of an address in a block, into *data. None for those that only
// the driver knows, once the block is pinned.
std::optional<CUresult> GetAttribute(void* data, CUpointer_attribute attribute,
                                     const void* pointer);

}  // namespace pinring::preload

#endif  // PINRING_SRC_PRELOAD_STAGING_H_
