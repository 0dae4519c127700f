// What a kind of copy, as the runtime's calls name it, says of the two ends,
// and plain copies of a kind.

#ifndef PINRING_SRC_SIMCUDA_SHARED_RUNTIME_COPIES_H_
#define PINRING_SRC_SIMCUDA_SHARED_RUNTIME_COPIES_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>

#include "src/simcuda/shared/runtime_state.h"

namespace pinring::simcudart {

inline CUdeviceptr Address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

inline bool IsKind(cudaMemcpyKind kind) {
  return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault;
}
inline CUmemorytype DestinationType(cudaMemcpyKind kind) {
  return kind == cudaMemcpyDefault ? CU_MEMORYTYPE_UNIFIED
         : kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice
             ? CU_MEMORYTYPE_DEVICE
             : CU_MEMORYTYPE_HOST;
}
inline CUmemorytype SourceType(cudaMemcpyKind kind) {
  return kind == cudaMemcpyDefault ? CU_MEMORYTYPE_UNIFIED
         : kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice
             ? CU_MEMORYTYPE_DEVICE
             : CU_MEMORYTYPE_HOST;
}

// With unified addressing the addresses say what a copy is; the kind says which
// ends must be memory that CUDA knows.
inline cudaError_t Copy(const DriverTable& driver, void* dst, const void* src,
                        size_t bytes, cudaMemcpyKind kind) {
  if (!IsKind(kind)) return cudaErrorInvalidMemcpyDirection;
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return Error(driver.MemcpyHtoD(Address(dst), src, bytes));
    case cudaMemcpyDeviceToHost:
      return Error(driver.MemcpyDtoH(dst, Address(src), bytes));
    case cudaMemcpyDeviceToDevice:
      return Error(driver.MemcpyDtoD(Address(dst), Address(src), bytes));
    default:
      return Error(driver.Memcpy(Address(dst), Address(src), bytes));
  }
}

inline cudaError_t CopyAsync(const DriverTable& driver, void* dst,
                             const void* src, size_t bytes, cudaMemcpyKind kind,
                             CUstream stream) {
  if (!IsKind(kind)) return cudaErrorInvalidMemcpyDirection;
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return Error(driver.MemcpyHtoDAsync(Address(dst), src, bytes, stream));
    case cudaMemcpyDeviceToHost:
      return Error(driver.MemcpyDtoHAsync(dst, Address(src), bytes, stream));
    case cudaMemcpyDeviceToDevice:
      return Error(
          driver.MemcpyDtoDAsync(Address(dst), Address(src), bytes, stream));
    default:
      return Error(
          driver.MemcpyAsync(Address(dst), Address(src), bytes, stream));
  }
}

}  // namespace pinring::simcudart

#endif  // PINRING_SRC_SIMCUDA_SHARED_RUNTIME_COPIES_H_
