// Entry points of the driver that pinring itself never calls, but whole
// programs and the runtime over simcuda (shared/) do. In the form of
// PINRING_DRIVER_FUNCTIONS (src/driver/driver.h), and behind the machine as
// those are.

#ifndef PINRING_SRC_SIMCUDA_EXTRA_FUNCTIONS_H_
#define PINRING_SRC_SIMCUDA_EXTRA_FUNCTIONS_H_

#include <cuda.h>

#include <cstddef>

#include "src/driver/driver.h"

// Headers before CUDA 12.8 do not have it.
struct CUDA_MEMCPY3D_BATCH_OP_st;

namespace pinring::simcuda {

#define PINRING_SIMCUDA_EXTRA_FUNCTIONS(X)                                     \
  X(DeviceGetPCIBusId, "cuDeviceGetPCIBusId", 4010, kRequired,                 \
    (char* id, int bytes, CUdevice device))                                    \
  X(DeviceGetByPCIBusId, "cuDeviceGetByPCIBusId", 4010, kRequired,             \
    (CUdevice * device, const char* id))                                       \
  X(DeviceGetUuid, "cuDeviceGetUuid", 11040, kRequired,                        \
    (CUuuid * uuid, CUdevice device))                                          \
  X(DeviceCanAccessPeer, "cuDeviceCanAccessPeer", 4000, kRequired,             \
    (int* can, CUdevice device, CUdevice peer))                                \
  X(DevicePrimaryCtxSetFlags, "cuDevicePrimaryCtxSetFlags", 11000, kRequired,  \
    (CUdevice device, unsigned flags))                                         \
  X(CtxGetFlags, "cuCtxGetFlags", 7000, kRequired, (unsigned* flags))          \
  X(CtxGetApiVersion, "cuCtxGetApiVersion", 3020, kRequired,                   \
    (CUcontext context, unsigned* version))                                    \
  X(CtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange", 5050, kRequired, \
    (int* least, int* greatest))                                               \
  X(MemGetAddressRange, "cuMemGetAddressRange", 3020, kRequired,               \
    (CUdeviceptr * base, size_t * bytes, CUdeviceptr pointer))                 \
  X(PointerGetAttribute, "cuPointerGetAttribute", 4000, kRequired,             \
    (void* value, CUpointer_attribute attribute, CUdeviceptr pointer))         \
  X(MemcpyDtoD, "cuMemcpyDtoD", 3020, kRequired,                               \
    (CUdeviceptr dst, CUdeviceptr src, size_t bytes))                          \
  X(MemAllocPitch, "cuMemAllocPitch", 3020, kRequired,                         \
    (CUdeviceptr * pointer, size_t * pitch, size_t width, size_t height,       \
     unsigned element_bytes))                                                  \
  X(Memcpy2D, "cuMemcpy2D", 3020, kRequired, (const CUDA_MEMCPY2D* copy))      \
  X(Memcpy3DBatchAsync12, "cuMemcpy3DBatchAsync", 12080, kOptional,            \
    (size_t count, CUDA_MEMCPY3D_BATCH_OP_st * boxes, size_t * failed_index,   \
     unsigned long long flags, CUstream stream))                               \
  X(Memcpy3DBatchAsync13, "cuMemcpy3DBatchAsync", 13000, kOptional,            \
    (size_t count, CUDA_MEMCPY3D_BATCH_OP_st * boxes,                          \
     unsigned long long flags, CUstream stream))                               \
  X(MemcpyDtoA, "cuMemcpyDtoA", 3020, kRequired,                               \
    (CUarray dst, size_t dst_offset, CUdeviceptr src, size_t bytes))           \
  X(MemcpyAtoD, "cuMemcpyAtoD", 3020, kRequired,                               \
    (CUdeviceptr dst, CUarray src, size_t src_offset, size_t bytes))           \
  X(MemcpyAtoA, "cuMemcpyAtoA", 3020, kRequired,                               \
    (CUarray dst, size_t dst_offset, CUarray src, size_t src_offset,           \
     size_t bytes))                                                            \
  X(MemsetD16, "cuMemsetD16", 3020, kRequired,                                 \
    (CUdeviceptr dst, unsigned short value, size_t count))                     \
  X(MemsetD16Async, "cuMemsetD16Async", 3020, kRequired,                       \
    (CUdeviceptr dst, unsigned short value, size_t count, CUstream stream))    \
  X(MemsetD32, "cuMemsetD32", 3020, kRequired,                                 \
    (CUdeviceptr dst, unsigned value, size_t count))                           \
  X(MemsetD32Async, "cuMemsetD32Async", 3020, kRequired,                       \
    (CUdeviceptr dst, unsigned value, size_t count, CUstream stream))          \
  X(MemsetD2D16, "cuMemsetD2D16", 3020, kRequired,                             \
    (CUdeviceptr dst, size_t pitch, unsigned short value, size_t width,        \
     size_t height))                                                           \
  X(MemsetD2D16Async, "cuMemsetD2D16Async", 3020, kRequired,                   \
    (CUdeviceptr dst, size_t pitch, unsigned short value, size_t width,        \
     size_t height, CUstream stream))                                          \
  X(MemsetD2D32, "cuMemsetD2D32", 3020, kRequired,                             \
    (CUdeviceptr dst, size_t pitch, unsigned value, size_t width,              \
     size_t height))                                                           \
  X(MemsetD2D32Async, "cuMemsetD2D32Async", 3020, kRequired,                   \
    (CUdeviceptr dst, size_t pitch, unsigned value, size_t width,              \
     size_t height, CUstream stream))                                          \
  X(StreamGetPriority, "cuStreamGetPriority", 5050, kRequired,                 \
    (CUstream stream, int* priority))                                          \
  X(StreamGetDevice, "cuStreamGetDevice", 12080, kRequired,                    \
    (CUstream stream, CUdevice * device))                                      \
  X(StreamAddCallback, "cuStreamAddCallback", 5000, kRequired,                 \
    (CUstream stream, CUstreamCallback function, void* user_data,              \
     unsigned flags))                                                          \
  X(FuncGetParamInfo, "cuFuncGetParamInfo", 12040, kRequired,                  \
    (CUfunction function, size_t index, size_t * offset, size_t * bytes))

// All entry points of a machine.
#define PINRING_SIMCUDA_FUNCTIONS(X) \
  PINRING_DRIVER_FUNCTIONS(X)        \
  PINRING_SIMCUDA_EXTRA_FUNCTIONS(X)

struct ExtraDriver {
#define PINRING_SIMCUDA_EXTRA_FIELD(field, symbol, version, need, parameters) \
  CUresult(CUDAAPI* field) parameters = nullptr;
  PINRING_SIMCUDA_EXTRA_FUNCTIONS(PINRING_SIMCUDA_EXTRA_FIELD)
#undef PINRING_SIMCUDA_EXTRA_FIELD
};

}  // namespace pinring::simcuda

#endif  // PINRING_SRC_SIMCUDA_EXTRA_FUNCTIONS_H_
