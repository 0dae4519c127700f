// What libcuda.so.1 exports, under NVIDIA's names, besides the few entry points
// that are written out in driver_exports.cc.
//
// PLAIN(table, field, base name, CUDA version from which on cuGetProcAddress
//       gives this form, symbol, (parameters), (arguments))
// DEFAULT_STREAM(the same as far as symbol, symbol of the form in which the
//                default stream is the calling thread's, (...), (...))

#ifndef PINRING_SRC_SIMCUDA_SHARED_DRIVER_EXPORTS_H_
#define PINRING_SRC_SIMCUDA_SHARED_DRIVER_EXPORTS_H_

#define PINRING_SIMCUDA_EXPORTS(PLAIN, DEFAULT_STREAM)                         \
  PLAIN(Driver, DeviceGet, "cuDeviceGet", 2000, cuDeviceGet,                   \
        (CUdevice * device, int ordinal), (device, ordinal))                   \
  PLAIN(Driver, DeviceGetCount, "cuDeviceGetCount", 2000, cuDeviceGetCount,    \
        (int* count), (count))                                                 \
  PLAIN(Driver, DeviceGetName, "cuDeviceGetName", 2000, cuDeviceGetName,       \
        (char* name, int bytes, CUdevice device), (name, bytes, device))       \
  PLAIN(Driver, DeviceTotalMem, "cuDeviceTotalMem", 3020, cuDeviceTotalMem_v2, \
        (size_t * bytes, CUdevice device), (bytes, device))                    \
  PLAIN(Driver, DeviceGetLuid, "cuDeviceGetLuid", 10000, cuDeviceGetLuid,      \
        (char* luid, unsigned* node_mask, CUdevice device),                    \
        (luid, node_mask, device))                                             \
  PLAIN(Driver, DeviceGetAttribute, "cuDeviceGetAttribute", 2000,              \
        cuDeviceGetAttribute,                                                  \
        (int* value, CUdevice_attribute attribute, CUdevice device),           \
        (value, attribute, device))                                            \
  PLAIN(Driver, DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000,      \
        cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device),      \
        (context, device))                                                     \
  PLAIN(Driver, DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", 11000,   \
        cuDevicePrimaryCtxRelease_v2, (CUdevice device), (device))             \
  PLAIN(Driver, DevicePrimaryCtxReset, "cuDevicePrimaryCtxReset", 11000,       \
        cuDevicePrimaryCtxReset_v2, (CUdevice device), (device))               \
  PLAIN(Driver, DevicePrimaryCtxGetState, "cuDevicePrimaryCtxGetState", 7000,  \
        cuDevicePrimaryCtxGetState,                                            \
        (CUdevice device, unsigned* flags, int* active),                       \
        (device, flags, active))                                               \
  PLAIN(Driver, CtxGetCurrent, "cuCtxGetCurrent", 4000, cuCtxGetCurrent,       \
        (CUcontext * context), (context))                                      \
  PLAIN(Driver, CtxSetCurrent, "cuCtxSetCurrent", 4000, cuCtxSetCurrent,       \
        (CUcontext context), (context))                                        \
  PLAIN(Driver, CtxPushCurrent, "cuCtxPushCurrent", 4000, cuCtxPushCurrent_v2, \
        (CUcontext context), (context))                                        \
  PLAIN(Driver, CtxPopCurrent, "cuCtxPopCurrent", 4000, cuCtxPopCurrent_v2,    \
        (CUcontext * context), (context))                                      \
  PLAIN(Driver, CtxGetDevice, "cuCtxGetDevice", 2000, cuCtxGetDevice,          \
        (CUdevice * device), (device))                                         \
  PLAIN(Driver, CtxSynchronize, "cuCtxSynchronize", 2000, cuCtxSynchronize,    \
        (), ())                                                                \
  PLAIN(Driver, CtxGetId, "cuCtxGetId", 12000, cuCtxGetId,                     \
        (CUcontext context, unsigned long long* id), (context, id))            \
  PLAIN(Driver, MemGetInfo, "cuMemGetInfo", 3020, cuMemGetInfo_v2,             \
        (size_t * free_bytes, size_t * total_bytes),                           \
        (free_bytes, total_bytes))                                             \
  PLAIN(Driver, MemAlloc, "cuMemAlloc", 3020, cuMemAlloc_v2,                   \
        (CUdeviceptr * pointer, size_t bytes), (pointer, bytes))               \
  PLAIN(Driver, MemFree, "cuMemFree", 3020, cuMemFree_v2,                      \
        (CUdeviceptr pointer), (pointer))                                      \
  PLAIN(Driver, MemHostAlloc, "cuMemHostAlloc", 2020, cuMemHostAlloc,          \
        (void** pointer, size_t bytes, unsigned flags),                        \
        (pointer, bytes, flags))                                               \
  PLAIN(Driver, MemFreeHost, "cuMemFreeHost", 2000, cuMemFreeHost,             \
        (void* pointer), (pointer))                                            \
  PLAIN(Driver, MemHostRegister, "cuMemHostRegister", 6050,                    \
        cuMemHostRegister_v2, (void* pointer, size_t bytes, unsigned flags),   \
        (pointer, bytes, flags))                                               \
  PLAIN(Driver, MemHostUnregister, "cuMemHostUnregister", 4000,                \
        cuMemHostUnregister, (void* pointer), (pointer))                       \
  PLAIN(Driver, MemHostGetDevicePointer, "cuMemHostGetDevicePointer", 3020,    \
        cuMemHostGetDevicePointer_v2,                                          \
        (CUdeviceptr * device_pointer, void* pointer, unsigned flags),         \
        (device_pointer, pointer, flags))                                      \
  PLAIN(Driver, MemHostGetFlags, "cuMemHostGetFlags", 2030, cuMemHostGetFlags, \
        (unsigned* flags, void* pointer), (flags, pointer))                    \
  PLAIN(Driver, PointerGetAttributes, "cuPointerGetAttributes", 7000,          \
        cuPointerGetAttributes,                                                \
        (unsigned count, CUpointer_attribute* attributes, void** values,       \
         CUdeviceptr pointer),                                                 \
        (count, attributes, values, pointer))                                  \
  DEFAULT_STREAM(Driver, Memcpy, "cuMemcpy", 4000, cuMemcpy, cuMemcpy_ptds,    \
                 (CUdeviceptr dst, CUdeviceptr src, size_t bytes),             \
                 (dst, src, bytes))                                            \
  DEFAULT_STREAM(                                                              \
      Driver, MemcpyAsync, "cuMemcpyAsync", 4000, cuMemcpyAsync,               \
      cuMemcpyAsync_ptsz,                                                      \
      (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),       \
      (dst, src, bytes, stream))                                               \
  DEFAULT_STREAM(Driver, MemcpyHtoD, "cuMemcpyHtoD", 3020, cuMemcpyHtoD_v2,    \
                 cuMemcpyHtoD_v2_ptds,                                         \
                 (CUdeviceptr dst, const void* src, size_t bytes),             \
                 (dst, src, bytes))                                            \
  DEFAULT_STREAM(Driver, MemcpyDtoH, "cuMemcpyDtoH", 3020, cuMemcpyDtoH_v2,    \
                 cuMemcpyDtoH_v2_ptds,                                         \
                 (void* dst, CUdeviceptr src, size_t bytes),                   \
                 (dst, src, bytes))                                            \
  DEFAULT_STREAM(                                                              \
      Driver, MemcpyHtoDAsync, "cuMemcpyHtoDAsync", 3020,                      \
      cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz,                         \
      (CUdeviceptr dst, const void* src, size_t bytes, CUstream stream),       \
      (dst, src, bytes, stream))                                               \
  DEFAULT_STREAM(Driver, MemcpyDtoHAsync, "cuMemcpyDtoHAsync", 3020,           \
                 cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz,              \
                 (void* dst, CUdeviceptr src, size_t bytes, CUstream stream),  \
                 (dst, src, bytes, stream))                                    \
  DEFAULT_STREAM(                                                              \
      Driver, MemcpyDtoDAsync, "cuMemcpyDtoDAsync", 3020,                      \
      cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz,                         \
      (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),       \
      (dst, src, bytes, stream))                                               \
  DEFAULT_STREAM(Driver, MemsetD8, "cuMemsetD8", 3020, cuMemsetD8_v2,          \
                 cuMemsetD8_v2_ptds,                                           \
                 (CUdeviceptr dst, unsigned char value, size_t bytes),         \
                 (dst, value, bytes))                                          \
  DEFAULT_STREAM(                                                              \
      Driver, MemsetD8Async, "cuMemsetD8Async", 3020, cuMemsetD8Async,         \
      cuMemsetD8Async_ptsz,                                                    \
      (CUdeviceptr dst, unsigned char value, size_t bytes, CUstream stream),   \
      (dst, value, bytes, stream))                                             \
  DEFAULT_STREAM(Driver, Memcpy2DUnaligned, "cuMemcpy2DUnaligned", 3020,       \
                 cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds,          \
                 (const CUDA_MEMCPY2D* copy), (copy))                          \
  DEFAULT_STREAM(Driver, Memcpy2DAsync, "cuMemcpy2DAsync", 3020,               \
                 cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz,                  \
                 (const CUDA_MEMCPY2D* copy, CUstream stream), (copy, stream)) \
  DEFAULT_STREAM(Driver, Memcpy3D, "cuMemcpy3D", 3020, cuMemcpy3D_v2,          \
                 cuMemcpy3D_v2_ptds, (const CUDA_MEMCPY3D* copy), (copy))      \
  DEFAULT_STREAM(Driver, Memcpy3DAsync, "cuMemcpy3DAsync", 3020,               \
                 cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz,                  \
                 (const CUDA_MEMCPY3D* copy, CUstream stream), (copy, stream)) \
  DEFAULT_STREAM(                                                              \
      Driver, MemcpyHtoA, "cuMemcpyHtoA", 3020, cuMemcpyHtoA_v2,               \
      cuMemcpyHtoA_v2_ptds,                                                    \
      (CUarray dst, size_t dst_offset, const void* src, size_t bytes),         \
      (dst, dst_offset, src, bytes))                                           \
  DEFAULT_STREAM(Driver, MemcpyAtoH, "cuMemcpyAtoH", 3020, cuMemcpyAtoH_v2,    \
                 cuMemcpyAtoH_v2_ptds,                                         \
                 (void* dst, CUarray src, size_t src_offset, size_t bytes),    \
                 (dst, src, src_offset, bytes))                                \
  DEFAULT_STREAM(Driver, MemcpyHtoAAsync, "cuMemcpyHtoAAsync", 3020,           \
                 cuMemcpyHtoAAsync_v2, cuMemcpyHtoAAsync_v2_ptsz,              \
                 (CUarray dst, size_t dst_offset, const void* src,             \
                  size_t bytes, CUstream stream),                              \
                 (dst, dst_offset, src, bytes, stream))                        \
  DEFAULT_STREAM(Driver, MemcpyAtoHAsync, "cuMemcpyAtoHAsync", 3020,           \
                 cuMemcpyAtoHAsync_v2, cuMemcpyAtoHAsync_v2_ptsz,              \
                 (void* dst, CUarray src, size_t src_offset, size_t bytes,     \
                  CUstream stream),                                            \
                 (dst, src, src_offset, bytes, stream))                        \
  DEFAULT_STREAM(                                                              \
      Driver, MemcpyBatchAsync12, "cuMemcpyBatchAsync", 12080,                 \
      cuMemcpyBatchAsync, cuMemcpyBatchAsync_ptsz,                             \
      (CUdeviceptr * dsts, CUdeviceptr * srcs, size_t * sizes, size_t count,   \
       CUmemcpyAttributes_st * attributes, size_t * attribute_indices,         \
       size_t attribute_count, size_t * failed_index, CUstream stream),        \
      (dsts, srcs, sizes, count, attributes, attribute_indices,                \
       attribute_count, failed_index, stream))                                 \
  DEFAULT_STREAM(                                                              \
      Driver, MemcpyBatchAsync13, "cuMemcpyBatchAsync", 13000,                 \
      cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync_v2_ptsz,                       \
      (CUdeviceptr * dsts, CUdeviceptr * srcs, size_t * sizes, size_t count,   \
       CUmemcpyAttributes_st * attributes, size_t * attribute_indices,         \
       size_t attribute_count, CUstream stream),                               \
      (dsts, srcs, sizes, count, attributes, attribute_indices,                \
       attribute_count, stream))                                               \
  DEFAULT_STREAM(Driver, MemsetD2D8, "cuMemsetD2D8", 3020, cuMemsetD2D8_v2,    \
                 cuMemsetD2D8_v2_ptds,                                         \
                 (CUdeviceptr dst, size_t pitch, unsigned char value,          \
                  size_t width, size_t height),                                \
                 (dst, pitch, value, width, height))                           \
  DEFAULT_STREAM(Driver, MemsetD2D8Async, "cuMemsetD2D8Async", 3020,           \
                 cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz,                    \
                 (CUdeviceptr dst, size_t pitch, unsigned char value,          \
                  size_t width, size_t height, CUstream stream),               \
                 (dst, pitch, value, width, height, stream))                   \
  PLAIN(Driver, ArrayCreate, "cuArrayCreate", 3020, cuArrayCreate_v2,          \
        (CUarray * array, const CUDA_ARRAY_DESCRIPTOR* descriptor),            \
        (array, descriptor))                                                   \
  PLAIN(Driver, Array3DCreate, "cuArray3DCreate", 3020, cuArray3DCreate_v2,    \
        (CUarray * array, const CUDA_ARRAY3D_DESCRIPTOR* descriptor),          \
        (array, descriptor))                                                   \
  PLAIN(Driver, ArrayGetDescriptor, "cuArrayGetDescriptor", 3020,              \
        cuArrayGetDescriptor_v2,                                               \
        (CUDA_ARRAY_DESCRIPTOR * descriptor, CUarray array),                   \
        (descriptor, array))                                                   \
  PLAIN(Driver, Array3DGetDescriptor, "cuArray3DGetDescriptor", 3020,          \
        cuArray3DGetDescriptor_v2,                                             \
        (CUDA_ARRAY3D_DESCRIPTOR * descriptor, CUarray array),                 \
        (descriptor, array))                                                   \
  PLAIN(Driver, ArrayDestroy, "cuArrayDestroy", 2000, cuArrayDestroy,          \
        (CUarray array), (array))                                              \
  PLAIN(Driver, StreamCreateWithPriority, "cuStreamCreateWithPriority", 5050,  \
        cuStreamCreateWithPriority,                                            \
        (CUstream * stream, unsigned flags, int priority),                     \
        (stream, flags, priority))                                             \
  PLAIN(Driver, StreamDestroy, "cuStreamDestroy", 4000, cuStreamDestroy_v2,    \
        (CUstream stream), (stream))                                           \
  DEFAULT_STREAM(Driver, StreamQuery, "cuStreamQuery", 2000, cuStreamQuery,    \
                 cuStreamQuery_ptsz, (CUstream stream), (stream))              \
  DEFAULT_STREAM(Driver, StreamSynchronize, "cuStreamSynchronize", 2000,       \
                 cuStreamSynchronize, cuStreamSynchronize_ptsz,                \
                 (CUstream stream), (stream))                                  \
  DEFAULT_STREAM(Driver, StreamWaitEvent, "cuStreamWaitEvent", 3020,           \
                 cuStreamWaitEvent, cuStreamWaitEvent_ptsz,                    \
                 (CUstream stream, CUevent event, unsigned flags),             \
                 (stream, event, flags))                                       \
  DEFAULT_STREAM(Driver, StreamGetFlags, "cuStreamGetFlags", 5050,             \
                 cuStreamGetFlags, cuStreamGetFlags_ptsz,                      \
                 (CUstream stream, unsigned* flags), (stream, flags))          \
  DEFAULT_STREAM(Driver, StreamGetCtx, "cuStreamGetCtx", 9020, cuStreamGetCtx, \
                 cuStreamGetCtx_ptsz, (CUstream stream, CUcontext * context),  \
                 (stream, context))                                            \
  DEFAULT_STREAM(Driver, StreamGetId, "cuStreamGetId", 12000, cuStreamGetId,   \
                 cuStreamGetId_ptsz,                                           \
                 (CUstream stream, unsigned long long* id), (stream, id))      \
  DEFAULT_STREAM(Driver, StreamIsCapturing, "cuStreamIsCapturing", 10000,      \
                 cuStreamIsCapturing, cuStreamIsCapturing_ptsz,                \
                 (CUstream stream, CUstreamCaptureStatus * status),            \
                 (stream, status))                                             \
  DEFAULT_STREAM(Driver, StreamBeginCapture, "cuStreamBeginCapture", 10010,    \
                 cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz,        \
                 (CUstream stream, CUstreamCaptureMode mode), (stream, mode))  \
  DEFAULT_STREAM(Driver, StreamEndCapture, "cuStreamEndCapture", 10000,        \
                 cuStreamEndCapture, cuStreamEndCapture_ptsz,                  \
                 (CUstream stream, CUgraph * graph), (stream, graph))          \
  PLAIN(Driver, GraphInstantiateWithFlags, "cuGraphInstantiateWithFlags",      \
        11040, cuGraphInstantiateWithFlags,                                    \
        (CUgraphExec * exec, CUgraph graph, unsigned long long flags),         \
        (exec, graph, flags))                                                  \
  DEFAULT_STREAM(Driver, GraphLaunch, "cuGraphLaunch", 10000, cuGraphLaunch,   \
                 cuGraphLaunch_ptsz, (CUgraphExec exec, CUstream stream),      \
                 (exec, stream))                                               \
  DEFAULT_STREAM(                                                              \
      Driver, StreamGetCaptureInfo, "cuStreamGetCaptureInfo", 10010,           \
      cuStreamGetCaptureInfo, cuStreamGetCaptureInfo_ptsz,                     \
      (CUstream stream, CUstreamCaptureStatus * status, cuuint64_t * id),      \
      (stream, status, id))                                                    \
  PLAIN(Driver, GraphNodeFindInClone, "cuGraphNodeFindInClone", 10000,         \
        cuGraphNodeFindInClone,                                                \
        (CUgraphNode * node, CUgraphNode original, CUgraph clone),             \
        (node, original, clone))                                               \
  PLAIN(Driver, GraphReleaseUserObject, "cuGraphReleaseUserObject", 11030,     \
        cuGraphReleaseUserObject,                                              \
        (CUgraph graph, CUuserObject object, unsigned count),                  \
        (graph, object, count))                                                \
  PLAIN(Driver, GraphClone, "cuGraphClone", 10000, cuGraphClone,               \
        (CUgraph * clone, CUgraph original), (clone, original))                \
  PLAIN(Driver, GraphGetNodes, "cuGraphGetNodes", 10000, cuGraphGetNodes,      \
        (CUgraph graph, CUgraphNode * nodes, size_t * count),                  \
        (graph, nodes, count))                                                 \
  PLAIN(Driver, GraphNodeGetType, "cuGraphNodeGetType", 10000,                 \
        cuGraphNodeGetType, (CUgraphNode node, CUgraphNodeType * type),        \
        (node, type))                                                          \
  PLAIN(Driver, GraphMemcpyNodeGetParams, "cuGraphMemcpyNodeGetParams", 10000, \
        cuGraphMemcpyNodeGetParams, (CUgraphNode node, CUDA_MEMCPY3D * copy),  \
        (node, copy))                                                          \
  PLAIN(Driver, GraphNodeGetDependencies, "cuGraphNodeGetDependencies", 10000, \
        cuGraphNodeGetDependencies,                                            \
        (CUgraphNode node, CUgraphNode * dependencies, size_t * count),        \
        (node, dependencies, count))                                           \
  PLAIN(Driver, GraphNodeGetDependentNodes, "cuGraphNodeGetDependentNodes",    \
        10000, cuGraphNodeGetDependentNodes,                                   \
        (CUgraphNode node, CUgraphNode * dependents, size_t * count),          \
        (node, dependents, count))                                             \
  PLAIN(Driver, GraphAddDependencies, "cuGraphAddDependencies", 10000,         \
        cuGraphAddDependencies,                                                \
        (CUgraph graph, const CUgraphNode* from, const CUgraphNode* to,        \
         size_t count),                                                        \
        (graph, from, to, count))                                              \
  PLAIN(Driver, GraphAddChildGraphNode, "cuGraphAddChildGraphNode", 10000,     \
        cuGraphAddChildGraphNode,                                              \
        (CUgraphNode * node, CUgraph graph, const CUgraphNode* dependencies,   \
         size_t count, CUgraph child),                                         \
        (node, graph, dependencies, count, child))                             \
  PLAIN(Driver, GraphChildGraphNodeGetGraph, "cuGraphChildGraphNodeGetGraph",  \
        10000, cuGraphChildGraphNodeGetGraph,                                  \
        (CUgraphNode node, CUgraph * graph), (node, graph))                    \
  PLAIN(Driver, GraphDestroyNode, "cuGraphDestroyNode", 10000,                 \
        cuGraphDestroyNode, (CUgraphNode node), (node))                        \
  PLAIN(Driver, UserObjectCreate, "cuUserObjectCreate", 11030,                 \
        cuUserObjectCreate,                                                    \
        (CUuserObject * object, void* data, CUhostFn destroy,                  \
         unsigned references, unsigned flags),                                 \
        (object, data, destroy, references, flags))                            \
  PLAIN(Driver, UserObjectRelease, "cuUserObjectRelease", 11030,               \
        cuUserObjectRelease, (CUuserObject object, unsigned count),            \
        (object, count))                                                       \
  PLAIN(Driver, GraphRetainUserObject, "cuGraphRetainUserObject", 11030,       \
        cuGraphRetainUserObject,                                               \
        (CUgraph graph, CUuserObject object, unsigned count, unsigned flags),  \
        (graph, object, count, flags))                                         \
  PLAIN(Driver, GraphExecDestroy, "cuGraphExecDestroy", 10000,                 \
        cuGraphExecDestroy, (CUgraphExec exec), (exec))                        \
  PLAIN(Driver, GraphDestroy, "cuGraphDestroy", 10000, cuGraphDestroy,         \
        (CUgraph graph), (graph))                                              \
  PLAIN(Driver, ThreadExchangeStreamCaptureMode,                               \
        "cuThreadExchangeStreamCaptureMode", 10010,                            \
        cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode),       \
        (mode))                                                                \
  DEFAULT_STREAM(Driver, StreamBatchMemOp, "cuStreamBatchMemOp", 11070,        \
                 cuStreamBatchMemOp_v2, cuStreamBatchMemOp_v2_ptsz,            \
                 (CUstream stream, unsigned count,                             \
                  CUstreamBatchMemOpParams* ops, unsigned flags),              \
                 (stream, count, ops, flags))                                  \
  DEFAULT_STREAM(Driver, StreamWriteValue32, "cuStreamWriteValue32", 11070,    \
                 cuStreamWriteValue32_v2, cuStreamWriteValue32_v2_ptsz,        \
                 (CUstream stream, CUdeviceptr address, cuuint32_t value,      \
                  unsigned flags),                                             \
                 (stream, address, value, flags))                              \
  DEFAULT_STREAM(Driver, StreamWaitValue32, "cuStreamWaitValue32", 11070,      \
                 cuStreamWaitValue32_v2, cuStreamWaitValue32_v2_ptsz,          \
                 (CUstream stream, CUdeviceptr address, cuuint32_t value,      \
                  unsigned flags),                                             \
                 (stream, address, value, flags))                              \
  DEFAULT_STREAM(Driver, LaunchHostFunc, "cuLaunchHostFunc", 10000,            \
                 cuLaunchHostFunc, cuLaunchHostFunc_ptsz,                      \
                 (CUstream stream, CUhostFn function, void* user_data),        \
                 (stream, function, user_data))                                \
  PLAIN(Driver, EventCreate, "cuEventCreate", 2000, cuEventCreate,             \
        (CUevent * event, unsigned flags), (event, flags))                     \
  DEFAULT_STREAM(Driver, EventRecord, "cuEventRecord", 2000, cuEventRecord,    \
                 cuEventRecord_ptsz, (CUevent event, CUstream stream),         \
                 (event, stream))                                              \
  PLAIN(Driver, EventQuery, "cuEventQuery", 2000, cuEventQuery,                \
        (CUevent event), (event))                                              \
  PLAIN(Driver, EventSynchronize, "cuEventSynchronize", 2000,                  \
        cuEventSynchronize, (CUevent event), (event))                          \
  PLAIN(Driver, EventElapsedTime, "cuEventElapsedTime", 2000,                  \
        cuEventElapsedTime, (float* milliseconds, CUevent start, CUevent end), \
        (milliseconds, start, end))                                            \
  PLAIN(Driver, EventDestroy, "cuEventDestroy", 4000, cuEventDestroy_v2,       \
        (CUevent event), (event))                                              \
  PLAIN(Driver, ModuleLoadData, "cuModuleLoadData", 2000, cuModuleLoadData,    \
        (CUmodule * module, const void* image), (module, image))               \
  PLAIN(Driver, ModuleUnload, "cuModuleUnload", 2000, cuModuleUnload,          \
        (CUmodule module), (module))                                           \
  PLAIN(Driver, ModuleGetFunction, "cuModuleGetFunction", 2000,                \
        cuModuleGetFunction,                                                   \
        (CUfunction * function, CUmodule module, const char* name),            \
        (function, module, name))                                              \
  DEFAULT_STREAM(Driver, LaunchKernel, "cuLaunchKernel", 4000, cuLaunchKernel, \
                 cuLaunchKernel_ptsz,                                          \
                 (CUfunction function, unsigned grid_x, unsigned grid_y,       \
                  unsigned grid_z, unsigned block_x, unsigned block_y,         \
                  unsigned block_z, unsigned shared_bytes, CUstream stream,    \
                  void** parameters, void** extra),                            \
                 (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, \
                  shared_bytes, stream, parameters, extra))                    \
  PLAIN(ExtraDriver, DeviceGetPCIBusId, "cuDeviceGetPCIBusId", 4010,           \
        cuDeviceGetPCIBusId, (char* id, int bytes, CUdevice device),           \
        (id, bytes, device))                                                   \
  PLAIN(ExtraDriver, DeviceGetByPCIBusId, "cuDeviceGetByPCIBusId", 4010,       \
        cuDeviceGetByPCIBusId, (CUdevice * device, const char* id),            \
        (device, id))                                                          \
  PLAIN(ExtraDriver, DeviceGetUuid, "cuDeviceGetUuid", 11040,                  \
        cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice device), (uuid, device))  \
  PLAIN(ExtraDriver, DeviceCanAccessPeer, "cuDeviceCanAccessPeer", 4000,       \
        cuDeviceCanAccessPeer, (int* can, CUdevice device, CUdevice peer),     \
        (can, device, peer))                                                   \
  PLAIN(ExtraDriver, DevicePrimaryCtxSetFlags, "cuDevicePrimaryCtxSetFlags",   \
        11000, cuDevicePrimaryCtxSetFlags_v2,                                  \
        (CUdevice device, unsigned flags), (device, flags))                    \
  PLAIN(ExtraDriver, CtxGetFlags, "cuCtxGetFlags", 7000, cuCtxGetFlags,        \
        (unsigned* flags), (flags))                                            \
  PLAIN(ExtraDriver, CtxGetApiVersion, "cuCtxGetApiVersion", 3020,             \
        cuCtxGetApiVersion, (CUcontext context, unsigned* version),            \
        (context, version))                                                    \
  PLAIN(ExtraDriver, CtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange", \
        5050, cuCtxGetStreamPriorityRange, (int* least, int* greatest),        \
        (least, greatest))                                                     \
  PLAIN(ExtraDriver, MemGetAddressRange, "cuMemGetAddressRange", 3020,         \
        cuMemGetAddressRange_v2,                                               \
        (CUdeviceptr * base, size_t * bytes, CUdeviceptr pointer),             \
        (base, bytes, pointer))                                                \
  PLAIN(ExtraDriver, PointerGetAttribute, "cuPointerGetAttribute", 4000,       \
        cuPointerGetAttribute,                                                 \
        (void* value, CUpointer_attribute attribute, CUdeviceptr pointer),     \
        (value, attribute, pointer))                                           \
  DEFAULT_STREAM(ExtraDriver, MemcpyDtoD, "cuMemcpyDtoD", 3020,                \
                 cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds,                        \
                 (CUdeviceptr dst, CUdeviceptr src, size_t bytes),             \
                 (dst, src, bytes))                                            \
  DEFAULT_STREAM(Driver, MemcpyPeer, "cuMemcpyPeer", 4000, cuMemcpyPeer,       \
                 cuMemcpyPeer_ptds,                                            \
                 (CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,     \
                  CUcontext src_context, size_t bytes),                        \
                 (dst, dst_context, src, src_context, bytes))                  \
  DEFAULT_STREAM(Driver, MemcpyPeerAsync, "cuMemcpyPeerAsync", 4000,           \
                 cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz,                    \
                 (CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,     \
                  CUcontext src_context, size_t bytes, CUstream stream),       \
                 (dst, dst_context, src, src_context, bytes, stream))          \
  PLAIN(ExtraDriver, FuncGetParamInfo, "cuFuncGetParamInfo", 12040,            \
        cuFuncGetParamInfo,                                                    \
        (CUfunction function, size_t index, size_t * offset, size_t * bytes),  \
        (function, index, offset, bytes))                                      \
  PLAIN(ExtraDriver, MemAllocPitch, "cuMemAllocPitch", 3020,                   \
        cuMemAllocPitch_v2,                                                    \
        (CUdeviceptr * pointer, size_t * pitch, size_t width, size_t height,   \
         unsigned element_bytes),                                              \
        (pointer, pitch, width, height, element_bytes))                        \
  DEFAULT_STREAM(ExtraDriver, Memcpy2D, "cuMemcpy2D", 3020, cuMemcpy2D_v2,     \
                 cuMemcpy2D_v2_ptds, (const CUDA_MEMCPY2D* copy), (copy))      \
  DEFAULT_STREAM(Driver, Memcpy3DPeer, "cuMemcpy3DPeer", 4000, cuMemcpy3DPeer, \
                 cuMemcpy3DPeer_ptds, (const CUDA_MEMCPY3D_PEER* copy),        \
                 (copy))                                                       \
  DEFAULT_STREAM(Driver, Memcpy3DPeerAsync, "cuMemcpy3DPeerAsync", 4000,       \
                 cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz,                \
                 (const CUDA_MEMCPY3D_PEER* copy, CUstream stream),            \
                 (copy, stream))                                               \
  DEFAULT_STREAM(                                                              \
      ExtraDriver, Memcpy3DBatchAsync12, "cuMemcpy3DBatchAsync", 12080,        \
      cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync_ptsz,                         \
      (size_t count, CUDA_MEMCPY3D_BATCH_OP_st * boxes, size_t * failed_index, \
       unsigned long long flags, CUstream stream),                             \
      (count, boxes, failed_index, flags, stream))                             \
  DEFAULT_STREAM(ExtraDriver, Memcpy3DBatchAsync13, "cuMemcpy3DBatchAsync",    \
                 13000, cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync_v2_ptsz, \
                 (size_t count, CUDA_MEMCPY3D_BATCH_OP_st * boxes,             \
                  unsigned long long flags, CUstream stream),                  \
                 (count, boxes, flags, stream))                                \
  DEFAULT_STREAM(                                                              \
      ExtraDriver, MemcpyDtoA, "cuMemcpyDtoA", 3020, cuMemcpyDtoA_v2,          \
      cuMemcpyDtoA_v2_ptds,                                                    \
      (CUarray dst, size_t dst_offset, CUdeviceptr src, size_t bytes),         \
      (dst, dst_offset, src, bytes))                                           \
  DEFAULT_STREAM(                                                              \
      ExtraDriver, MemcpyAtoD, "cuMemcpyAtoD", 3020, cuMemcpyAtoD_v2,          \
      cuMemcpyAtoD_v2_ptds,                                                    \
      (CUdeviceptr dst, CUarray src, size_t src_offset, size_t bytes),         \
      (dst, src, src_offset, bytes))                                           \
  DEFAULT_STREAM(ExtraDriver, MemcpyAtoA, "cuMemcpyAtoA", 3020,                \
                 cuMemcpyAtoA_v2, cuMemcpyAtoA_v2_ptds,                        \
                 (CUarray dst, size_t dst_offset, CUarray src,                 \
                  size_t src_offset, size_t bytes),                            \
                 (dst, dst_offset, src, src_offset, bytes))                    \
  DEFAULT_STREAM(ExtraDriver, MemsetD16, "cuMemsetD16", 3020, cuMemsetD16_v2,  \
                 cuMemsetD16_v2_ptds,                                          \
                 (CUdeviceptr dst, unsigned short value, size_t count),        \
                 (dst, value, count))                                          \
  DEFAULT_STREAM(                                                              \
      ExtraDriver, MemsetD16Async, "cuMemsetD16Async", 3020, cuMemsetD16Async, \
      cuMemsetD16Async_ptsz,                                                   \
      (CUdeviceptr dst, unsigned short value, size_t count, CUstream stream),  \
      (dst, value, count, stream))                                             \
  DEFAULT_STREAM(ExtraDriver, MemsetD32, "cuMemsetD32", 3020, cuMemsetD32_v2,  \
                 cuMemsetD32_v2_ptds,                                          \
                 (CUdeviceptr dst, unsigned value, size_t count),              \
                 (dst, value, count))                                          \
  DEFAULT_STREAM(                                                              \
      ExtraDriver, MemsetD32Async, "cuMemsetD32Async", 3020, cuMemsetD32Async, \
      cuMemsetD32Async_ptsz,                                                   \
      (CUdeviceptr dst, unsigned value, size_t count, CUstream stream),        \
      (dst, value, count, stream))                                             \
  DEFAULT_STREAM(ExtraDriver, MemsetD2D16, "cuMemsetD2D16", 3020,              \
                 cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds,                      \
                 (CUdeviceptr dst, size_t pitch, unsigned short value,         \
                  size_t width, size_t height),                                \
                 (dst, pitch, value, width, height))                           \
  DEFAULT_STREAM(ExtraDriver, MemsetD2D16Async, "cuMemsetD2D16Async", 3020,    \
                 cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz,                  \
                 (CUdeviceptr dst, size_t pitch, unsigned short value,         \
                  size_t width, size_t height, CUstream stream),               \
                 (dst, pitch, value, width, height, stream))                   \
  DEFAULT_STREAM(ExtraDriver, MemsetD2D32, "cuMemsetD2D32", 3020,              \
                 cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds,                      \
                 (CUdeviceptr dst, size_t pitch, unsigned value, size_t width, \
                  size_t height),                                              \
                 (dst, pitch, value, width, height))                           \
  DEFAULT_STREAM(ExtraDriver, MemsetD2D32Async, "cuMemsetD2D32Async", 3020,    \
                 cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz,                  \
                 (CUdeviceptr dst, size_t pitch, unsigned value, size_t width, \
                  size_t height, CUstream stream),                             \
                 (dst, pitch, value, width, height, stream))                   \
  DEFAULT_STREAM(ExtraDriver, StreamGetPriority, "cuStreamGetPriority", 5050,  \
                 cuStreamGetPriority, cuStreamGetPriority_ptsz,                \
                 (CUstream stream, int* priority), (stream, priority))         \
  DEFAULT_STREAM(ExtraDriver, StreamGetDevice, "cuStreamGetDevice", 12080,     \
                 cuStreamGetDevice, cuStreamGetDevice_ptsz,                    \
                 (CUstream stream, CUdevice * device), (stream, device))       \
  DEFAULT_STREAM(ExtraDriver, StreamAddCallback, "cuStreamAddCallback", 5000,  \
                 cuStreamAddCallback, cuStreamAddCallback_ptsz,                \
                 (CUstream stream, CUstreamCallback function, void* user_data, \
                  unsigned flags),                                             \
                 (stream, function, user_data, flags))

#endif  // PINRING_SRC_SIMCUDA_SHARED_DRIVER_EXPORTS_H_
