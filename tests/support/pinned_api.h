// Pinned memory two ways, so that one program runs with both and what it
// observes can be compared: the driver's own, and pinring's C functions.

#ifndef PINRING_TESTS_SUPPORT_PINNED_API_H_
#define PINRING_TESTS_SUPPORT_PINNED_API_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>

#include "include/pinring/pinring.h"
#include "src/capi/error_codes.h"
#include "src/driver/driver.h"

namespace pinring {

// Thread-safe.
class PinnedApi {
 public:
  virtual ~PinnedApi() = default;
  virtual const char* name() const = 0;
  virtual bool staged() const = 0;
  virtual cudaError_t Alloc(void** pointer, size_t bytes) = 0;
  virtual cudaError_t Free(void* pointer) = 0;
  virtual cudaError_t CopyAsync(void* dst, const void* src, size_t bytes,
                                CUstream stream) = 0;
  virtual cudaError_t Copy(void* dst, const void* src, size_t bytes) = 0;
};

class DriverPinned final : public PinnedApi {
 public:
  explicit DriverPinned(const Driver& driver) : driver_(driver) {}
  const char* name() const override { return "the driver's pinned memory"; }
  bool staged() const override { return false; }
  cudaError_t Alloc(void** pointer, size_t bytes) override {
    return RuntimeCode(driver_.MemHostAlloc(pointer, bytes, 0));
  }
  cudaError_t Free(void* pointer) override {
    return RuntimeCode(driver_.MemFreeHost(pointer));
  }
  cudaError_t CopyAsync(void* dst, const void* src, size_t bytes,
                        CUstream stream) override {
    const auto to = reinterpret_cast<CUdeviceptr>(dst);
    const auto from = reinterpret_cast<CUdeviceptr>(src);
    if (bytes == 0 || OnDevice(to))
      return RuntimeCode(driver_.MemcpyHtoDAsync(to, src, bytes, stream));
    if (OnDevice(from))
      return RuntimeCode(driver_.MemcpyDtoHAsync(dst, from, bytes, stream));
    return RuntimeCode(driver_.MemcpyAsync(to, from, bytes, stream));
  }
  // By its direction, both, as the runtime does where it knows it.
  cudaError_t Copy(void* dst, const void* src, size_t bytes) override {
    const auto to = reinterpret_cast<CUdeviceptr>(dst);
    const auto from = reinterpret_cast<CUdeviceptr>(src);
    if (bytes == 0 || OnDevice(to))
      return RuntimeCode(driver_.MemcpyHtoD(to, src, bytes));
    if (OnDevice(from))
      return RuntimeCode(driver_.MemcpyDtoH(dst, from, bytes));
    return RuntimeCode(driver_.Memcpy(to, from, bytes));
  }

 private:
  bool OnDevice(CUdeviceptr address) const {
    unsigned type = 0;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
    void* values[] = {&type};
    return driver_.PointerGetAttributes(1, attributes, values, address) ==
               CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_DEVICE;
  }

  const Driver& driver_;
};

class RingPinned final : public PinnedApi {
 public:
  const char* name() const override { return "pinring"; }
  bool staged() const override { return true; }
  cudaError_t Alloc(void** pointer, size_t bytes) override {
    return pinringMallocHost(pointer, bytes);
  }
  cudaError_t Free(void* pointer) override { return pinringFreeHost(pointer); }
  cudaError_t CopyAsync(void* dst, const void* src, size_t bytes,
                        CUstream stream) override {
    return pinringMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream);
  }
  cudaError_t Copy(void* dst, const void* src, size_t bytes) override {
    return pinringMemcpy(dst, src, bytes, cudaMemcpyDefault);
  }
};

}  // namespace pinring

#endif  // PINRING_TESTS_SUPPORT_PINNED_API_H_
