// What a kind of copy, as the runtime's calls name it, says of the two ends.

#ifndef PINRING_SRC_SIMCUDA_SHARED_RUNTIME_COPIES_H_
#define PINRING_SRC_SIMCUDA_SHARED_RUNTIME_COPIES_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

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

}  // namespace pinring::simcudart

#endif  // PINRING_SRC_SIMCUDA_SHARED_RUNTIME_COPIES_H_
