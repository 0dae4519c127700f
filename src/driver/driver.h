// The driver seam: every CUDA call that pinring makes goes through one table of
// function pointers.
//
// The table is filled at run time, from the NVIDIA driver (loader.h) or by
// another provider such as the simulated device, so that one build serves every
// driver from CUDA 11.8 on, and a machine without one gets an error rather than
// a program that does not start. Pointers name the driver's own forms: a stream
// handle of 0 is the legacy default stream, CU_STREAM_PER_THREAD is said
// explicitly.
//
// A pointer marked optional is null where the driver lacks it; each user of it
// says what happens then.

#ifndef PINRING_SRC_DRIVER_DRIVER_H_
#define PINRING_SRC_DRIVER_DRIVER_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>

// Headers before CUDA 12.8 do not have it.
struct CUmemcpyAttributes_st;

namespace pinring {

// X(Field, "symbol", oldest CUDA version whose form is asked for, kRequired or
// kOptional, (parameters)). The signatures are written out because cuda.h
// renames its functions to another form with every major version. A function
// that is wanted in two forms has a field for each, with the version's number.
#define PINRING_DRIVER_FUNCTIONS(X)                                           \
  X(Init, "cuInit", 2000, kRequired, (unsigned flags))                        \
  X(DriverGetVersion, "cuDriverGetVersion", 2020, kRequired, (int* version))  \
  X(GetErrorName, "cuGetErrorName", 6000, kRequired,                          \
    (CUresult code, const char** name))                                       \
  X(GetErrorString, "cuGetErrorString", 6000, kRequired,                      \
    (CUresult code, const char** text))                                       \
  X(DeviceGet, "cuDeviceGet", 2000, kRequired,                                \
    (CUdevice * device, int ordinal))                                         \
  X(DeviceGetCount, "cuDeviceGetCount", 2000, kRequired, (int* count))        \
  X(DeviceGetName, "cuDeviceGetName", 2000, kRequired,                        \
    (char* name, int bytes, CUdevice device))                                 \
  X(DeviceTotalMem, "cuDeviceTotalMem", 3020, kRequired,                      \
    (size_t * bytes, CUdevice device))                                        \
  X(DeviceGetAttribute, "cuDeviceGetAttribute", 2000, kRequired,              \
    (int* value, CUdevice_attribute attribute, CUdevice device))              \
  X(DeviceGetLuid, "cuDeviceGetLuid", 10000, kOptional,                       \
    (char* luid, unsigned* node_mask, CUdevice device))                       \
  X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, kRequired,      \
    (CUcontext * context, CUdevice device))                                   \
  X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", 11000, kRequired,   \
    (CUdevice device))                                                        \
  X(DevicePrimaryCtxReset, "cuDevicePrimaryCtxReset", 11000, kRequired,       \
    (CUdevice device))                                                        \
  X(DevicePrimaryCtxGetState, "cuDevicePrimaryCtxGetState", 7000, kRequired,  \
    (CUdevice device, unsigned* flags, int* active))                          \
  X(CtxGetCurrent, "cuCtxGetCurrent", 4000, kRequired, (CUcontext * context)) \
  X(CtxSetCurrent, "cuCtxSetCurrent", 4000, kRequired, (CUcontext context))   \
  X(CtxPushCurrent, "cuCtxPushCurrent", 4000, kRequired, (CUcontext context)) \
  X(CtxPopCurrent, "cuCtxPopCurrent", 4000, kRequired, (CUcontext * context)) \
  X(CtxGetDevice, "cuCtxGetDevice", 2000, kRequired, (CUdevice * device))     \
  X(CtxSynchronize, "cuCtxSynchronize", 2000, kRequired, ())                  \
  X(CtxGetId, "cuCtxGetId", 12000, kOptional,                                 \
    (CUcontext context, unsigned long long* id))                              \
  X(MemGetInfo, "cuMemGetInfo", 3020, kRequired,                              \
    (size_t * free_bytes, size_t * total_bytes))                              \
  X(MemAlloc, "cuMemAlloc", 3020, kRequired,                                  \
    (CUdeviceptr * pointer, size_t bytes))                                    \
  X(MemFree, "cuMemFree", 3020, kRequired, (CUdeviceptr pointer))             \
  X(MemHostAlloc, "cuMemHostAlloc", 2020, kRequired,                          \
    (void** pointer, size_t bytes, unsigned flags))                           \
  X(MemFreeHost, "cuMemFreeHost", 2000, kRequired, (void* pointer))           \
  X(MemHostRegister, "cuMemHostRegister", 6050, kRequired,                    \
    (void* pointer, size_t bytes, unsigned flags))                            \
  X(MemHostUnregister, "cuMemHostUnregister", 4000, kRequired,                \
    (void* pointer))                                                          \
  X(MemHostGetDevicePointer, "cuMemHostGetDevicePointer", 3020, kRequired,    \
    (CUdeviceptr * device_pointer, void* pointer, unsigned flags))            \
  X(MemHostGetFlags, "cuMemHostGetFlags", 2030, kRequired,                    \
    (unsigned* flags, void* pointer))                                         \
  X(PointerGetAttributes, "cuPointerGetAttributes", 7000, kRequired,          \
    (unsigned count, CUpointer_attribute* attributes, void** values,          \
     CUdeviceptr pointer))                                                    \
  X(Memcpy, "cuMemcpy", 4000, kRequired,                                      \
    (CUdeviceptr dst, CUdeviceptr src, size_t bytes))                         \
  X(MemcpyAsync, "cuMemcpyAsync", 4000, kRequired,                            \
    (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream))        \
  X(MemcpyHtoD, "cuMemcpyHtoD", 3020, kRequired,                              \
    (CUdeviceptr dst, const void* src, size_t bytes))                         \
  X(MemcpyDtoH, "cuMemcpyDtoH", 3020, kRequired,                              \
    (void* dst, CUdeviceptr src, size_t bytes))                               \
  X(MemcpyHtoDAsync, "cuMemcpyHtoDAsync", 3020, kRequired,                    \
    (CUdeviceptr dst, const void* src, size_t bytes, CUstream stream))        \
  X(MemcpyDtoHAsync, "cuMemcpyDtoHAsync", 3020, kRequired,                    \
    (void* dst, CUdeviceptr src, size_t bytes, CUstream stream))              \
  X(MemcpyDtoDAsync, "cuMemcpyDtoDAsync", 3020, kRequired,                    \
    (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream))        \
  X(MemcpyPeer, "cuMemcpyPeer", 4000, kRequired,                              \
    (CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,                 \
     CUcontext src_context, size_t bytes))                                    \
  X(MemcpyPeerAsync, "cuMemcpyPeerAsync", 4000, kRequired,                    \
    (CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,                 \
     CUcontext src_context, size_t bytes, CUstream stream))                   \
  X(Memcpy2DUnaligned, "cuMemcpy2DUnaligned", 3020, kRequired,                \
    (const CUDA_MEMCPY2D* copy))                                              \
  X(Memcpy2DAsync, "cuMemcpy2DAsync", 3020, kRequired,                        \
    (const CUDA_MEMCPY2D* copy, CUstream stream))                             \
  X(Memcpy3D, "cuMemcpy3D", 3020, kRequired, (const CUDA_MEMCPY3D* copy))     \
  X(Memcpy3DAsync, "cuMemcpy3DAsync", 3020, kRequired,                        \
    (const CUDA_MEMCPY3D* copy, CUstream stream))                             \
  X(Memcpy3DPeer, "cuMemcpy3DPeer", 4000, kRequired,                          \
    (const CUDA_MEMCPY3D_PEER* copy))                                         \
  X(Memcpy3DPeerAsync, "cuMemcpy3DPeerAsync", 4000, kRequired,                \
    (const CUDA_MEMCPY3D_PEER* copy, CUstream stream))                        \
  X(MemcpyHtoA, "cuMemcpyHtoA", 3020, kRequired,                              \
    (CUarray dst, size_t dst_offset, const void* src, size_t bytes))          \
  X(MemcpyAtoH, "cuMemcpyAtoH", 3020, kRequired,                              \
    (void* dst, CUarray src, size_t src_offset, size_t bytes))                \
  X(MemcpyHtoAAsync, "cuMemcpyHtoAAsync", 3020, kRequired,                    \
    (CUarray dst, size_t dst_offset, const void* src, size_t bytes,           \
     CUstream stream))                                                        \
  X(MemcpyAtoHAsync, "cuMemcpyAtoHAsync", 3020, kRequired,                    \
    (void* dst, CUarray src, size_t src_offset, size_t bytes,                 \
     CUstream stream))                                                        \
  X(MemcpyBatchAsync12, "cuMemcpyBatchAsync", 12080, kOptional,               \
    (CUdeviceptr * dsts, CUdeviceptr * srcs, size_t * sizes, size_t count,    \
     CUmemcpyAttributes_st * attributes, size_t * attribute_indices,          \
     size_t attribute_count, size_t * failed_index, CUstream stream))         \
  X(MemcpyBatchAsync13, "cuMemcpyBatchAsync", 13000, kOptional,               \
    (CUdeviceptr * dsts, CUdeviceptr * srcs, size_t * sizes, size_t count,    \
     CUmemcpyAttributes_st * attributes, size_t * attribute_indices,          \
     size_t attribute_count, CUstream stream))                                \
  X(MemsetD8, "cuMemsetD8", 3020, kRequired,                                  \
    (CUdeviceptr dst, unsigned char value, size_t bytes))                     \
  X(MemsetD8Async, "cuMemsetD8Async", 3020, kRequired,                        \
    (CUdeviceptr dst, unsigned char value, size_t bytes, CUstream stream))    \
  X(MemsetD2D8, "cuMemsetD2D8", 3020, kRequired,                              \
    (CUdeviceptr dst, size_t pitch, unsigned char value, size_t width,        \
     size_t height))                                                          \
  X(MemsetD2D8Async, "cuMemsetD2D8Async", 3020, kRequired,                    \
    (CUdeviceptr dst, size_t pitch, unsigned char value, size_t width,        \
     size_t height, CUstream stream))                                         \
  X(ArrayCreate, "cuArrayCreate", 3020, kRequired,                            \
    (CUarray * array, const CUDA_ARRAY_DESCRIPTOR* descriptor))               \
  X(Array3DCreate, "cuArray3DCreate", 3020, kRequired,                        \
    (CUarray * array, const CUDA_ARRAY3D_DESCRIPTOR* descriptor))             \
  X(ArrayGetDescriptor, "cuArrayGetDescriptor", 3020, kRequired,              \
    (CUDA_ARRAY_DESCRIPTOR * descriptor, CUarray array))                      \
  X(Array3DGetDescriptor, "cuArray3DGetDescriptor", 3020, kRequired,          \
    (CUDA_ARRAY3D_DESCRIPTOR * descriptor, CUarray array))                    \
  X(ArrayDestroy, "cuArrayDestroy", 2000, kRequired, (CUarray array))         \
  X(StreamCreateWithPriority, "cuStreamCreateWithPriority", 5050, kRequired,  \
    (CUstream * stream, unsigned flags, int priority))                        \
  X(StreamDestroy, "cuStreamDestroy", 4000, kRequired, (CUstream stream))     \
  X(StreamQuery, "cuStreamQuery", 2000, kRequired, (CUstream stream))         \
  X(StreamSynchronize, "cuStreamSynchronize", 2000, kRequired,                \
    (CUstream stream))                                                        \
  X(StreamWaitEvent, "cuStreamWaitEvent", 3020, kRequired,                    \
    (CUstream stream, CUevent event, unsigned flags))                         \
  X(StreamGetFlags, "cuStreamGetFlags", 5050, kRequired,                      \
    (CUstream stream, unsigned* flags))                                       \
  X(StreamGetCtx, "cuStreamGetCtx", 9020, kRequired,                          \
    (CUstream stream, CUcontext * context))                                   \
  X(StreamGetId, "cuStreamGetId", 12000, kOptional,                           \
    (CUstream stream, unsigned long long* id))                                \
  X(StreamIsCapturing, "cuStreamIsCapturing", 10000, kRequired,               \
    (CUstream stream, CUstreamCaptureStatus * status))                        \
  X(StreamBeginCapture, "cuStreamBeginCapture", 10010, kRequired,             \
    (CUstream stream, CUstreamCaptureMode mode))                              \
  X(StreamEndCapture, "cuStreamEndCapture", 10000, kRequired,                 \
    (CUstream stream, CUgraph * graph))                                       \
  X(GraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", 11040,          \
    kRequired, (CUgraphExec * exec, CUgraph graph, unsigned long long flags)) \
  X(GraphLaunch, "cuGraphLaunch", 10000, kRequired,                           \
    (CUgraphExec exec, CUstream stream))                                      \
  X(StreamGetCaptureInfo, "cuStreamGetCaptureInfo", 10010, kOptional,         \
    (CUstream stream, CUstreamCaptureStatus * status, cuuint64_t * id))       \
  X(GraphClone, "cuGraphClone", 10000, kOptional,                             \
    (CUgraph * clone, CUgraph original))                                      \
  X(GraphGetNodes, "cuGraphGetNodes", 10000, kOptional,                       \
    (CUgraph graph, CUgraphNode * nodes, size_t * count))                     \
  X(GraphNodeGetType, "cuGraphNodeGetType", 10000, kOptional,                 \
    (CUgraphNode node, CUgraphNodeType * type))                               \
  X(GraphMemcpyNodeGetParams, "cuGraphMemcpyNodeGetParams", 10000, kOptional, \
    (CUgraphNode node, CUDA_MEMCPY3D * copy))                                 \
  X(GraphNodeGetDependencies, "cuGraphNodeGetDependencies", 10000, kOptional, \
    (CUgraphNode node, CUgraphNode * dependencies, size_t * count))           \
  X(GraphNodeGetDependentNodes, "cuGraphNodeGetDependentNodes", 10000,        \
    kOptional, (CUgraphNode node, CUgraphNode * dependents, size_t * count))  \
  X(GraphAddDependencies, "cuGraphAddDependencies", 10000, kOptional,         \
    (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,           \
     size_t count))                                                           \
  X(GraphAddChildGraphNode, "cuGraphAddChildGraphNode", 10000, kOptional,     \
    (CUgraphNode * node, CUgraph graph, const CUgraphNode* dependencies,      \
     size_t count, CUgraph child))                                            \
  X(GraphChildGraphNodeGetGraph, "cuGraphChildGraphNodeGetGraph", 10000,      \
    kOptional, (CUgraphNode node, CUgraph * graph))                           \
  X(GraphDestroyNode, "cuGraphDestroyNode", 10000, kOptional,                 \
    (CUgraphNode node))                                                       \
  X(UserObjectCreate, "cuUserObjectCreate", 11030, kOptional,                 \
    (CUuserObject * object, void* data, CUhostFn destroy, unsigned count,     \
     unsigned flags))                                                         \
  X(UserObjectRelease, "cuUserObjectRelease", 11030, kOptional,               \
    (CUuserObject object, unsigned count))                                    \
  X(GraphRetainUserObject, "cuGraphRetainUserObject", 11030, kOptional,       \
    (CUgraph graph, CUuserObject object, unsigned count, unsigned flags))     \
  X(GraphNodeFindInClone, "cuGraphNodeFindInClone", 10000, kOptional,         \
    (CUgraphNode * node, CUgraphNode original, CUgraph clone))                \
  X(GraphReleaseUserObject, "cuGraphReleaseUserObject", 11030, kOptional,     \
    (CUgraph graph, CUuserObject object, unsigned count))                     \
  X(GraphExecDestroy, "cuGraphExecDestroy", 10000, kRequired,                 \
    (CUgraphExec exec))                                                       \
  X(GraphDestroy, "cuGraphDestroy", 10000, kRequired, (CUgraph graph))        \
  X(ThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode",     \
    10010, kRequired, (CUstreamCaptureMode * mode))                           \
  X(StreamBatchMemOp, "cuStreamBatchMemOp", 11070, kOptional,                 \
    (CUstream stream, unsigned count, CUstreamBatchMemOpParams* ops,          \
     unsigned flags))                                                         \
  X(StreamWriteValue32, "cuStreamWriteValue32", 11070, kOptional,             \
    (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags)) \
  X(StreamWaitValue32, "cuStreamWaitValue32", 11070, kOptional,               \
    (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags)) \
  X(LaunchHostFunc, "cuLaunchHostFunc", 10000, kRequired,                     \
    (CUstream stream, CUhostFn function, void* user_data))                    \
  X(EventCreate, "cuEventCreate", 2000, kRequired,                            \
    (CUevent * event, unsigned flags))                                        \
  X(EventRecord, "cuEventRecord", 2000, kRequired,                            \
    (CUevent event, CUstream stream))                                         \
  X(EventQuery, "cuEventQuery", 2000, kRequired, (CUevent event))             \
  X(EventSynchronize, "cuEventSynchronize", 2000, kRequired, (CUevent event)) \
  X(EventElapsedTime, "cuEventElapsedTime", 2000, kRequired,                  \
    (float* milliseconds, CUevent start, CUevent end))                        \
  X(EventDestroy, "cuEventDestroy", 4000, kRequired, (CUevent event))         \
  X(ModuleLoadData, "cuModuleLoadData", 2000, kRequired,                      \
    (CUmodule * module, const void* image))                                   \
  X(ModuleUnload, "cuModuleUnload", 2000, kRequired, (CUmodule module))       \
  X(ModuleGetFunction, "cuModuleGetFunction", 2000, kRequired,                \
    (CUfunction * function, CUmodule module, const char* name))               \
  X(LaunchKernel, "cuLaunchKernel", 4000, kRequired,                          \
    (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,  \
     unsigned block_x, unsigned block_y, unsigned block_z,                    \
     unsigned shared_bytes, CUstream stream, void** parameters, void** extra))

struct Driver {
#define PINRING_DRIVER_FIELD(field, symbol, version, need, parameters) \
  CUresult(CUDAAPI* field) parameters = nullptr;
  PINRING_DRIVER_FUNCTIONS(PINRING_DRIVER_FIELD)
#undef PINRING_DRIVER_FIELD

  // Work is gathered, and reaches the device when a call asks about it or waits
  // for it (WDDM): whoever waits in another way has to ask first.
  bool batches = false;
};

inline bool IsLegacyStream(CUstream stream) {
  return stream == nullptr || stream == CU_STREAM_LEGACY;
}

}  // namespace pinring

#endif  // PINRING_SRC_DRIVER_DRIVER_H_
