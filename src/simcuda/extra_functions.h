// Entry points of the driver that pinring itself never calls, but whole
// programs and the runtime over simcuda (shared/) do. In the form of
// PINRING_DRIVER_FUNCTIONS (src/driver/driver.h), and behind the machine as
// those are.

#ifndef PINRING_SRC_SIMCUDA_EXTRA_FUNCTIONS_H_
#define PINRING_SRC_SIMCUDA_EXTRA_FUNCTIONS_H_

#include <cuda.h>

#include <cstddef>

#include "src/driver/driver.h"

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
  X(MemcpyPeer, "cuMemcpyPeer", 4000, kRequired,                               \
    (CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,                  \
     CUcontext src_context, size_t bytes))                                     \
  X(MemcpyPeerAsync, "cuMemcpyPeerAsync", 4000, kRequired,                     \
    (CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,                  \
     CUcontext src_context, size_t bytes, CUstream stream))                    \
  X(StreamGetPriority, "cuStreamGetPriority", 5050, kRequired,                 \
    (CUstream stream, int* priority))                                          \
  X(StreamGetDevice, "cuStreamGetDevice", 12080, kRequired,                    \
    (CUstream stream, CUdevice * device))                                      \
  X(StreamAddCallback, "cuStreamAddCallback", 5000, kRequired,                 \
    (CUstream stream, CUstreamCallback function, void* user_data,              \
     unsigned flags))

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
