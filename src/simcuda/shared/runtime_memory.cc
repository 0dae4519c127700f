// The runtime's memory and copies.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>

#include "src/simcuda/shared/runtime_copies.h"
#include "src/simcuda/shared/runtime_state.h"

namespace pinring::simcudart {
namespace {

// Of no bytes: success, and the pointer stays as it was (measured).
cudaError_t AllocateHost(const DriverTable& driver, void** pointer,
                         size_t bytes, unsigned flags) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  return Error(driver.MemHostAlloc(pointer, bytes, flags));
}

cudaError_t GetAttributes(const DriverTable& driver,
                          cudaPointerAttributes* attributes,
                          const void* pointer) {
  if (attributes == nullptr) return cudaErrorInvalidValue;
  unsigned type = 0;
  int device = -2;
  CUdeviceptr device_pointer = 0;
  void* host_pointer = nullptr;
  CUpointer_attribute wanted[] = {
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
      CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER};
  void* values[] = {&type, &device, &device_pointer, &host_pointer};
  const CUresult code =
      driver.PointerGetAttributes(4, wanted, values, Address(pointer));
  if (code != CUDA_SUCCESS) return Error(code);
  *attributes = {};
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      attributes->type = cudaMemoryTypeHost;
      break;
    case CU_MEMORYTYPE_DEVICE:
      attributes->type = cudaMemoryTypeDevice;
      break;
    default:  // the queried address comes back (measured)
      attributes->type = cudaMemoryTypeUnregistered;
      host_pointer = const_cast<void*>(pointer);
      break;
  }
  attributes->device = device;
  attributes->devicePointer = reinterpret_cast<void*>(device_pointer);
  attributes->hostPointer = host_pointer;
  return cudaSuccess;
}

}  // namespace

PINRING_EXPORT cudaError_t CUDARTAPI cudaMalloc(void** pointer, size_t bytes) {
  return InContext([&](const DriverTable& driver) {
    if (pointer == nullptr) return cudaErrorInvalidValue;
    *pointer = nullptr;
    if (bytes == 0) return cudaSuccess;
    return Error(
        driver.MemAlloc(reinterpret_cast<CUdeviceptr*>(pointer), bytes));
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaFree(void* pointer) {
  return InContext([&](const DriverTable& driver) {
    return driver.MemFree(reinterpret_cast<CUdeviceptr>(pointer));
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaMallocHost(void** pointer,
                                                    size_t bytes) {
  return InContext([&](const DriverTable& driver) {
    return AllocateHost(driver, pointer, bytes, 0);
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaHostAlloc(void** pointer, size_t bytes,
                                                   unsigned flags) {
  return InContext([&](const DriverTable& driver) {
    return AllocateHost(driver, pointer, bytes, flags);
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaFreeHost(void* pointer) {
  return InContext([&](const DriverTable& driver) {
    return pointer == nullptr ? CUDA_SUCCESS : driver.MemFreeHost(pointer);
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaHostRegister(void* pointer,
                                                      size_t bytes,
                                                      unsigned flags) {
  return InContext([&](const DriverTable& driver) {
    return driver.MemHostRegister(pointer, bytes, flags);
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaHostUnregister(void* pointer) {
  return InContext([&](const DriverTable& driver) {
    return driver.MemHostUnregister(pointer);
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaHostGetDevicePointer(void** to,
                                                              void* pointer,
                                                              unsigned flags) {
  return InContext([&](const DriverTable& driver) {
    return driver.MemHostGetDevicePointer(reinterpret_cast<CUdeviceptr*>(to),
                                          pointer, flags);
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaHostGetFlags(unsigned* flags,
                                                      void* pointer) {
  return InContext([&](const DriverTable& driver) {
    return driver.MemHostGetFlags(flags, pointer);
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaMemGetInfo(size_t* free_bytes,
                                                    size_t* total_bytes) {
  return InContext([&](const DriverTable& driver) {
    return driver.MemGetInfo(free_bytes, total_bytes);
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaPointerGetAttributes(
    cudaPointerAttributes* attributes, const void* pointer) {
  return InContext([&](const DriverTable& driver) {
    return GetAttributes(driver, attributes, pointer);
  });
}

PINRING_CUDART_BOTH(cudaMemcpy, _ptds,
                    (void* dst, const void* src, size_t bytes,
                     cudaMemcpyKind kind),
                    { return Copy(driver, dst, src, bytes, kind); });

PINRING_CUDART_BOTH(cudaMemcpyAsync, _ptsz,
                    (void* dst, const void* src, size_t bytes,
                     cudaMemcpyKind kind, cudaStream_t stream),
                    {
                      return CopyAsync(driver, dst, src, bytes, kind, stream);
                    });

PINRING_EXPORT cudaError_t CUDARTAPI cudaMemcpyPeer(void* dst, int dst_device,
                                                    const void* src,
                                                    int src_device,
                                                    size_t bytes) {
  return InContext([&](const DriverTable& driver) {
    CUcontext to = nullptr;
    CUcontext from = nullptr;
    cudaError_t code = PrimaryContext(driver, dst_device, &to);
    if (code == cudaSuccess) code = PrimaryContext(driver, src_device, &from);
    if (code != cudaSuccess) return code;
    return Error(driver.MemcpyPeer(reinterpret_cast<CUdeviceptr>(dst), to,
                                   reinterpret_cast<CUdeviceptr>(src), from,
                                   bytes));
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI
cudaMemcpyPeerAsync(void* dst, int dst_device, const void* src, int src_device,
                    size_t bytes, cudaStream_t stream) {
  return InContext([&](const DriverTable& driver) {
    CUcontext to = nullptr;
    CUcontext from = nullptr;
    cudaError_t code = PrimaryContext(driver, dst_device, &to);
    if (code == cudaSuccess) code = PrimaryContext(driver, src_device, &from);
    if (code != cudaSuccess) return code;
    return Error(driver.MemcpyPeerAsync(reinterpret_cast<CUdeviceptr>(dst), to,
                                        reinterpret_cast<CUdeviceptr>(src),
                                        from, bytes, stream));
  });
}

PINRING_CUDART_BOTH(cudaMemset, _ptds, (void* dst, int value, size_t bytes), {
  return driver.MemsetD8(reinterpret_cast<CUdeviceptr>(dst),
                         static_cast<unsigned char>(value), bytes);
});

PINRING_CUDART_BOTH(cudaMemsetAsync, _ptsz,
                    (void* dst, int value, size_t bytes, cudaStream_t stream), {
                      return driver.MemsetD8Async(
                          reinterpret_cast<CUdeviceptr>(dst),
                          static_cast<unsigned char>(value), bytes, stream);
                    });

#if CUDART_VERSION >= 12080
// A pointer of one API's structure is the other's.
static_assert(sizeof(cudaMemcpyAttributes) == sizeof(CUmemcpyAttributes));

#if CUDART_VERSION >= 13000
PINRING_CUDART_BOTH(
    cudaMemcpyBatchAsync, _ptsz,
    (void* const* dsts, const void* const* srcs, const size_t* sizes,
     size_t count, cudaMemcpyAttributes* attributes, size_t* attribute_indices,
     size_t attribute_count, cudaStream_t stream),
    {
      return driver.MemcpyBatchAsync(
          reinterpret_cast<CUdeviceptr*>(const_cast<void**>(dsts)),
          reinterpret_cast<CUdeviceptr*>(const_cast<const void**>(srcs)),
          const_cast<size_t*>(sizes), count,
          reinterpret_cast<CUmemcpyAttributes*>(attributes), attribute_indices,
          attribute_count, stream);
    });
#else
PINRING_CUDART_BOTH(cudaMemcpyBatchAsync, _ptsz,
                    (void** dsts, void** srcs, size_t* sizes, size_t count,
                     cudaMemcpyAttributes* attributes,
                     size_t* attribute_indices, size_t attribute_count,
                     size_t* failed_index, cudaStream_t stream),
                    {
                      return driver.MemcpyBatchAsync(
                          reinterpret_cast<CUdeviceptr*>(dsts),
                          reinterpret_cast<CUdeviceptr*>(srcs), sizes, count,
                          reinterpret_cast<CUmemcpyAttributes*>(attributes),
                          attribute_indices, attribute_count, failed_index,
                          stream);
                    });
#endif

// Here too, and the enumerations have the driver's values.
static_assert(sizeof(cudaMemcpy3DBatchOp) == sizeof(CUDA_MEMCPY3D_BATCH_OP));
static_assert(int{cudaMemcpyOperandTypeArray} ==
              int{CU_MEMCPY_OPERAND_TYPE_ARRAY});

#if CUDART_VERSION >= 13000
PINRING_CUDART_BOTH(cudaMemcpy3DBatchAsync, _ptsz,
                    (size_t count, cudaMemcpy3DBatchOp* boxes,
                     unsigned long long flags, cudaStream_t stream),
                    {
                      return driver.Memcpy3DBatchAsync(
                          count,
                          reinterpret_cast<CUDA_MEMCPY3D_BATCH_OP*>(boxes),
                          flags, stream);
                    });
#else
PINRING_CUDART_BOTH(cudaMemcpy3DBatchAsync, _ptsz,
                    (size_t count, cudaMemcpy3DBatchOp* boxes,
                     size_t* failed_index, unsigned long long flags,
                     cudaStream_t stream),
                    {
                      return driver.Memcpy3DBatchAsync(
                          count,
                          reinterpret_cast<CUDA_MEMCPY3D_BATCH_OP*>(boxes),
                          failed_index, flags, stream);
                    });
#endif
#endif  // CUDART_VERSION >= 12080

}  // namespace pinring::simcudart
