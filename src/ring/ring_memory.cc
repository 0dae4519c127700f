#include "src/ring/ring_memory.h"

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/copy/worker_pool.h"
#include "src/driver/status.h"
#include "src/os/pages.h"

namespace pinring {
namespace {

constexpr size_t kHugeBytes = size_t{2} << 20;

size_t RingSpan(size_t ring_bytes) {
  return (ring_bytes + 4095) & ~size_t{4095};
}

// Pages that are resident, huge where there are such, and not given to children
// of fork.
absl::StatusOr<void*> MakePages(size_t bytes, int threads) {
  absl::StatusOr<void*> base = os::ReservePages(bytes, kHugeBytes);
  if (!base.ok()) return base.status();
  // Only a hint: without huge pages registering takes longer, and that is all.
  os::AdviseHuge(*base, bytes).IgnoreError();
  absl::Status status = os::DontFork(*base, bytes);
  if (status.ok()) {
    status = copy::TryParallelFor(
        threads, bytes, kHugeBytes, [&](size_t begin, size_t end) {
          return os::Populate(static_cast<std::byte*>(*base) + begin,
                              end - begin);
        });
  }
  if (!status.ok()) {
    os::ReleasePages(*base, bytes)
        .IgnoreError();  // the first error is the one to tell
    return status;
  }
  return base;
}

}  // namespace

size_t RingMemory::PinnedBytes(size_t ring_bytes, uint32_t lines) {
  const size_t page = os::PageBytes();
  return (RingSpan(ring_bytes) + lines * sizeof(FlagLine) + page - 1) / page *
         page;
}

absl::StatusOr<std::unique_ptr<RingMemory>> RingMemory::Create(
    const Driver& driver, size_t ring_bytes, uint32_t lines,
    Sequence first_sequence, int threads) {
  std::unique_ptr<RingMemory> ring(new RingMemory());
  ring->pinned_bytes_ = PinnedBytes(ring_bytes, lines);
  absl::StatusOr<void*> pages = MakePages(ring->pinned_bytes_, threads);
  if (!pages.ok()) return pages.status();
  void* base = *pages;
  CUresult code = driver.MemHostRegister(
      base, ring->pinned_bytes_,
      CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
  ring->registered_ = code == CUDA_SUCCESS;
  if (!ring->registered_) {
    if (absl::Status status = os::ReleasePages(base, ring->pinned_bytes_);
        !status.ok())
      return status;
    // Only where registering as such is not to be had: after a refusal for want
    // of memory one more try makes things worse.
    if (code != CUDA_ERROR_NOT_SUPPORTED)
      return CudaStatus(code, "cuMemHostRegister of the ring");
    code = driver.MemHostAlloc(
        &base, ring->pinned_bytes_,
        CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (code != CUDA_SUCCESS)
      return CudaStatus(code, "cuMemHostAlloc of the ring");
    if (absl::Status status = os::DontFork(base, ring->pinned_bytes_);
        !status.ok()) {
      driver.MemFreeHost(base);
      return status;
    }
  }
  ring->base_ = static_cast<std::byte*>(base);
  std::byte* const flags = ring->base_ + RingSpan(ring_bytes);
  ring->lines_ = reinterpret_cast<FlagLine*>(flags);
  for (uint32_t line = 0; line < lines; ++line) {
    auto* const made = new (flags + line * sizeof(FlagLine)) FlagLine;
    made->ready.store(first_sequence, std::memory_order_relaxed);
    made->done.store(first_sequence, std::memory_order_relaxed);
    made->permitted.store(first_sequence, std::memory_order_relaxed);
    made->drained.store(first_sequence, std::memory_order_release);
  }
  return ring;
}

absl::Status RingMemory::Release(const Driver& driver) {
  if (base_ == nullptr) return absl::OkStatus();
  if (!registered_) {
    absl::Status status =
        CudaStatus(driver.MemFreeHost(base_), "cuMemFreeHost of the ring");
    if (status.ok()) base_ = nullptr;
    return status;
  }
  if (absl::Status status = CudaStatus(driver.MemHostUnregister(base_),
                                       "cuMemHostUnregister of the ring");
      !status.ok()) {
    return status;
  }
  return os::ReleasePages(std::exchange(base_, nullptr), pinned_bytes_);
}

absl::Status RingMemory::Abandon() {
  // The driver's own allocation went with the context.
  if (!registered_) return absl::OkStatus();
  abandoned_ = true;
  return os::DiscardPages(base_, pinned_bytes_);
}

RingMemory::~RingMemory() {
  if (abandoned_) os::ReleasePages(base_, pinned_bytes_).IgnoreError();
}

absl::StatusOr<CUdeviceptr> RingMemory::DeviceLines(
    const Driver& driver) const {
  CUdeviceptr address = 0;
  if (absl::Status status =
          CudaStatus(driver.MemHostGetDevicePointer(&address, base_, 0),
                     "cuMemHostGetDevicePointer of the ring");
      !status.ok()) {
    return status;
  }
  return address +
         static_cast<CUdeviceptr>(reinterpret_cast<std::byte*>(lines_) - base_);
}

}  // namespace pinring
