#ifndef PINRING_SRC_COPY_KERNELS_H_
#define PINRING_SRC_COPY_KERNELS_H_

// Copying between ordinary memory and the slots of the ring.
//
// The two directions want different stores. Into a slot, plain ones: the device
// then reads the bytes from the processor's cache. Out of a slot, non-temporal
// ones: they do not read the destination first, and leave the cache to the
// slots. The C library's memcpy chooses by size alone, which is wrong for one
// direction or the other, hence kernels of our own.
//
// Every kernel copies as memcpy does: any alignment, any size from 0, ranges
// that do not overlap, no byte outside them touched. When it returns, the bytes
// are ordered before every later store of the calling thread, also where it
// used non-temporal stores: a release store of a flag publishes them.
//
// Thread-safe: kernels have no state.

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace pinring::copy {

// Shorter copies are left to the C library's memcpy, whatever the kernel.
inline constexpr size_t kKernelMinBytes = 8192;

enum class StoreKind {
  kLibrary,      // What memcpy chooses.
  kPlain,        // Through the cache.
  kNonTemporal,  // Around it.
};

// One way to copy. All kernels are listed on every machine of an architecture;
// `supported` says whether this processor can run it.
struct Kernel {
  const char* name;  // "avx2-nt": the instructions, then "-nt" if non-temporal.
  StoreKind stores;
  bool supported;
  void (*copy)(void* dst, const void* src, size_t bytes);
};

// All kernels, the preferred of each store kind first. "memcpy" is always
// there.
[[nodiscard]] absl::Span<const Kernel> AllKernels();

// The kernel of that name. Errors: kInvalidArgument (no such kernel; the text
// lists those there are), kUnimplemented (not on this processor).
[[nodiscard]] absl::StatusOr<const Kernel*> FindKernel(absl::string_view name);

// A kernel for each direction.
class KernelSet {
 public:
  // The best that this processor has.
  KernelSet();

  // Those of the given names; an empty name stands for the best. Errors: as
  // FindKernel.
  [[nodiscard]] static absl::StatusOr<KernelSet> ByName(
      absl::string_view in_name, absl::string_view out_name);

  // Copies ordinary memory into a slot.
  void CopyIn(void* slot, const void* src, size_t bytes) const {
    in_->copy(slot, src, bytes);
  }

  // Copies a slot to ordinary memory.
  void CopyOut(void* dst, const void* slot, size_t bytes) const {
    out_->copy(dst, slot, bytes);
  }

  const Kernel& in() const { return *in_; }
  const Kernel& out() const { return *out_; }

 private:
  const Kernel* in_;
  const Kernel* out_;
};

// What this core has just written to a slot goes to the cache that all cores
// share, where a device reads it several times as fast as from a core's own
// (H200, Xeon of model 207: 2 MiB at 39.6 GB/s, and at 9.4 without). A hint,
// and nothing on processors that do not know it. Costs a core about a third of
// its rate, which is in vain where the slots are more than its own cache holds.
void HandOver(const void* slot, size_t bytes);

// KernelSet().CopyIn and KernelSet().CopyOut.
void CopyIn(void* slot, const void* src, size_t bytes);
void CopyOut(void* dst, const void* slot, size_t bytes);

}  // namespace pinring::copy

#endif  // PINRING_SRC_COPY_KERNELS_H_
