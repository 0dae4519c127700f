// The driver as the simulated runtime sees it: whatever this process finds as
// libcuda.so.1, asked for its entry points by name, as NVIDIA's runtime does.

#ifndef PINRING_SRC_SIMCUDA_SHARED_RUNTIME_DRIVER_H_
#define PINRING_SRC_SIMCUDA_SHARED_RUNTIME_DRIVER_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace pinring::simcudart {

// X(Field, name as programs write it)
#define PINRING_CUDART_DRIVER_FUNCTIONS(X)                              \
  X(Init, cuInit)                                                       \
  X(DriverGetVersion, cuDriverGetVersion)                               \
  X(DeviceGetCount, cuDeviceGetCount)                                   \
  X(DeviceGetName, cuDeviceGetName)                                     \
  X(DeviceGetUuid, cuDeviceGetUuid)                                     \
  X(DeviceTotalMem, cuDeviceTotalMem)                                   \
  X(DeviceGetAttribute, cuDeviceGetAttribute)                           \
  X(DeviceGetPCIBusId, cuDeviceGetPCIBusId)                             \
  X(DeviceGetByPCIBusId, cuDeviceGetByPCIBusId)                         \
  X(DeviceCanAccessPeer, cuDeviceCanAccessPeer)                         \
  X(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)                   \
  X(DevicePrimaryCtxReset, cuDevicePrimaryCtxReset)                     \
  X(DevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags)               \
  X(DevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState)               \
  X(CtxGetCurrent, cuCtxGetCurrent)                                     \
  X(CtxSetCurrent, cuCtxSetCurrent)                                     \
  X(CtxGetDevice, cuCtxGetDevice)                                       \
  X(CtxSynchronize, cuCtxSynchronize)                                   \
  X(CtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange)             \
  X(MemGetInfo, cuMemGetInfo)                                           \
  X(MemAlloc, cuMemAlloc)                                               \
  X(MemFree, cuMemFree)                                                 \
  X(MemHostAlloc, cuMemHostAlloc)                                       \
  X(MemFreeHost, cuMemFreeHost)                                         \
  X(MemHostRegister, cuMemHostRegister)                                 \
  X(MemHostUnregister, cuMemHostUnregister)                             \
  X(MemHostGetDevicePointer, cuMemHostGetDevicePointer)                 \
  X(MemHostGetFlags, cuMemHostGetFlags)                                 \
  X(PointerGetAttributes, cuPointerGetAttributes)                       \
  X(Memcpy, cuMemcpy)                                                   \
  X(MemcpyAsync, cuMemcpyAsync)                                         \
  X(MemcpyHtoD, cuMemcpyHtoD)                                           \
  X(MemcpyDtoH, cuMemcpyDtoH)                                           \
  X(MemcpyDtoD, cuMemcpyDtoD)                                           \
  X(MemcpyHtoDAsync, cuMemcpyHtoDAsync)                                 \
  X(MemcpyDtoHAsync, cuMemcpyDtoHAsync)                                 \
  X(MemcpyDtoDAsync, cuMemcpyDtoDAsync)                                 \
  X(MemcpyPeer, cuMemcpyPeer)                                           \
  X(MemcpyPeerAsync, cuMemcpyPeerAsync)                                 \
  X(Memcpy3DPeer, cuMemcpy3DPeer)                                       \
  X(Memcpy3DPeerAsync, cuMemcpy3DPeerAsync)                             \
  X(MemsetD8, cuMemsetD8)                                               \
  X(MemsetD8Async, cuMemsetD8Async)                                     \
  X(Memcpy2DUnaligned, cuMemcpy2DUnaligned)                             \
  X(Memcpy2DAsync, cuMemcpy2DAsync)                                     \
  X(Memcpy3D, cuMemcpy3D)                                               \
  X(Memcpy3DAsync, cuMemcpy3DAsync)                                     \
  X(MemsetD2D8, cuMemsetD2D8)                                           \
  X(MemsetD2D8Async, cuMemsetD2D8Async)                                 \
  X(MemAllocPitch, cuMemAllocPitch)                                     \
  X(MemGetAddressRange, cuMemGetAddressRange)                           \
  X(Array3DCreate, cuArray3DCreate)                                     \
  X(Array3DGetDescriptor, cuArray3DGetDescriptor)                       \
  X(ArrayDestroy, cuArrayDestroy)                                       \
  X(StreamCreateWithPriority, cuStreamCreateWithPriority)               \
  X(StreamDestroy, cuStreamDestroy)                                     \
  X(StreamQuery, cuStreamQuery)                                         \
  X(StreamSynchronize, cuStreamSynchronize)                             \
  X(StreamWaitEvent, cuStreamWaitEvent)                                 \
  X(StreamGetFlags, cuStreamGetFlags)                                   \
  X(StreamGetPriority, cuStreamGetPriority)                             \
  X(StreamAddCallback, cuStreamAddCallback)                             \
  X(StreamIsCapturing, cuStreamIsCapturing)                             \
  X(StreamBeginCapture, cuStreamBeginCapture)                           \
  X(StreamEndCapture, cuStreamEndCapture)                               \
  X(ThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode) \
  X(LaunchHostFunc, cuLaunchHostFunc)                                   \
  X(GraphInstantiateWithFlags, cuGraphInstantiateWithFlags)             \
  X(GraphLaunch, cuGraphLaunch)                                         \
  X(GraphExecDestroy, cuGraphExecDestroy)                               \
  X(GraphDestroy, cuGraphDestroy)                                       \
  X(EventCreate, cuEventCreate)                                         \
  X(EventRecord, cuEventRecord)                                         \
  X(EventQuery, cuEventQuery)                                           \
  X(EventSynchronize, cuEventSynchronize)                               \
  X(EventElapsedTime, cuEventElapsedTime)                               \
  X(EventDestroy, cuEventDestroy)                                       \
  PINRING_CUDART_DRIVER_FUNCTIONS_12(X)

#if CUDART_VERSION >= 12080
#define PINRING_CUDART_DRIVER_FUNCTIONS_12(X) \
  X(StreamGetId, cuStreamGetId)               \
  X(MemcpyBatchAsync, cuMemcpyBatchAsync)     \
  X(Memcpy3DBatchAsync, cuMemcpy3DBatchAsync)
#elif CUDART_VERSION >= 12000
#define PINRING_CUDART_DRIVER_FUNCTIONS_12(X) X(StreamGetId, cuStreamGetId)
#else
#define PINRING_CUDART_DRIVER_FUNCTIONS_12(X)
#endif

struct DriverTable {
#define PINRING_CUDART_FIELD(field, name) decltype(&::name) field = nullptr;
  PINRING_CUDART_DRIVER_FUNCTIONS(PINRING_CUDART_FIELD)
#undef PINRING_CUDART_FIELD
};

// Which stream a null handle, or a copy that names none, means.
enum class DefaultStream { kLegacy, kPerThread };

using GetProcAddress = CUresult(CUDAAPI*)(const char*, void**, int, cuuint64_t);

struct LoadedDriver {
  // cudaSuccess, or why there is no driver.
  cudaError_t status = cudaErrorInsufficientDriver;
  DriverTable legacy;
  DriverTable per_thread;
  GetProcAddress get_proc_address = nullptr;

  const DriverTable& table(DefaultStream default_stream) const {
    return default_stream == DefaultStream::kLegacy ? legacy : per_thread;
  }
};

// Loads the driver and initializes it at the first call. Thread-safe.
const LoadedDriver& GetDriver();

}  // namespace pinring::simcudart

#endif  // PINRING_SRC_SIMCUDA_SHARED_RUNTIME_DRIVER_H_
