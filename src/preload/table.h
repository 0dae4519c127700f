// The driver's entry points that take or give host memory, and what becomes of
// a call of each under the preload library.
//
//   kStage    gives out, takes back or copies staged blocks
//   kEmulate  answers for staged blocks as the driver does for pinned memory
//   kPromote  pins the staged blocks that the call names, and calls the driver
//   kRefuse   answers for blocks what the driver answers for memory that it
//             pinned itself: an error
//   kLookUp   calls the driver, and puts functions of this table for its own
//   kPass     calls the driver: no block can be meant, or its bytes are read
//             by the processor, or an answer is no different
//
// A call that touches no staged block is the driver's own, with the arguments
// that the program gave. Forms with 32-bit device addresses are left out: a
// 64-bit program cannot use them.

#ifndef PINRING_SRC_PRELOAD_TABLE_H_
#define PINRING_SRC_PRELOAD_TABLE_H_

#include <cuda.h>
#include <cudaTypedefs.h>

namespace pinring::preload {

enum class Action { kStage, kEmulate, kPromote, kRefuse, kLookUp, kPass };

// PLAIN(symbol, name for cuGetProcAddress, CUDA version of this form, action,
//       handler), of type PFN_<name>_v<version>
// STREAM(the same as far as the version; suffix, version, action, handler):
//       two symbols, the second with the suffix, whose default stream is the
//       calling thread's
#define PINRING_PRELOAD_ROWS_11(PLAIN, STREAM)                                 \
  /* Allocation, free, queries. */                                             \
  PLAIN(cuMemHostAlloc, cuMemHostAlloc, 2020, kStage, HostAlloc)               \
  PLAIN(cuMemAllocHost_v2, cuMemAllocHost, 3020, kStage, AllocHost)            \
  PLAIN(cuMemAllocHost, cuMemAllocHost, 2000, kStage, AllocHost)               \
  PLAIN(cuMemFreeHost, cuMemFreeHost, 2000, kStage, FreeHost)                  \
  PLAIN(cuMemHostGetDevicePointer_v2, cuMemHostGetDevicePointer, 3020,         \
        kPromote, HostGetDevicePointer)                                        \
  PLAIN(cuMemHostGetFlags, cuMemHostGetFlags, 2030, kEmulate, HostGetFlags)    \
  PLAIN(cuMemHostRegister_v2, cuMemHostRegister, 6050, kRefuse, HostRegister)  \
  PLAIN(cuMemHostRegister, cuMemHostRegister, 4000, kRefuse, HostRegister)     \
  PLAIN(cuMemHostUnregister, cuMemHostUnregister, 4000, kRefuse,               \
        HostUnregister)                                                        \
  PLAIN(cuPointerGetAttribute, cuPointerGetAttribute, 4000, kEmulate,          \
        PointerGetAttribute)                                                   \
  PLAIN(cuPointerGetAttributes, cuPointerGetAttributes, 7000, kEmulate,        \
        PointerGetAttributes)                                                  \
  PLAIN(cuPointerSetAttribute, cuPointerSetAttribute, 6000, kPromote,          \
        PromoteArguments)                                                      \
  PLAIN(cuMemGetAddressRange_v2, cuMemGetAddressRange, 3020, kPromote,         \
        PromoteArguments)                                                      \
  /* Copies of bytes in one piece. */                                          \
  STREAM(cuMemcpy, cuMemcpy, 4000, ptds, 7000, kStage, Copy)                   \
  STREAM(cuMemcpyAsync, cuMemcpyAsync, 4000, ptsz, 7000, kStage, CopyAsync)    \
  STREAM(cuMemcpyHtoD_v2, cuMemcpyHtoD, 3020, ptds, 7000, kStage,              \
         CopyToDevice)                                                         \
  STREAM(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync, 3020, ptsz, 7000, kStage,    \
         CopyToDeviceAsync)                                                    \
  STREAM(cuMemcpyDtoH_v2, cuMemcpyDtoH, 3020, ptds, 7000, kStage, CopyToHost)  \
  STREAM(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync, 3020, ptsz, 7000, kStage,    \
         CopyToHostAsync)                                                      \
  STREAM(cuMemcpyDtoD_v2, cuMemcpyDtoD, 3020, ptds, 7000, kStage,              \
         CopyOnDevice)                                                         \
  STREAM(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync, 3020, ptsz, 7000, kStage,    \
         CopyOnDeviceAsync)                                                    \
  STREAM(cuMemcpyPeer, cuMemcpyPeer, 4000, ptds, 7000, kStage, CopyPeer)       \
  STREAM(cuMemcpyPeerAsync, cuMemcpyPeerAsync, 4000, ptsz, 7000, kStage,       \
         CopyPeerAsync)                                                        \
  /* Rows, boxes, arrays. */                                                   \
  STREAM(cuMemcpy2D_v2, cuMemcpy2D, 3020, ptds, 7000, kStage, CopyRows)        \
  STREAM(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned, 3020, ptds, 7000,        \
         kStage, CopyRows)                                                     \
  STREAM(cuMemcpy2DAsync_v2, cuMemcpy2DAsync, 3020, ptsz, 7000, kStage,        \
         CopyRowsAsync)                                                        \
  STREAM(cuMemcpy3D_v2, cuMemcpy3D, 3020, ptds, 7000, kStage, CopyRows)        \
  STREAM(cuMemcpy3DAsync_v2, cuMemcpy3DAsync, 3020, ptsz, 7000, kStage,        \
         CopyRowsAsync)                                                        \
  STREAM(cuMemcpy3DPeer, cuMemcpy3DPeer, 4000, ptds, 7000, kStage,             \
         CopyPeerRows)                                                         \
  STREAM(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync, 4000, ptsz, 7000, kStage,   \
         CopyPeerRowsAsync)                                                    \
  STREAM(cuMemcpyHtoA_v2, cuMemcpyHtoA, 3020, ptds, 7000, kStage, CopyToArray) \
  STREAM(cuMemcpyHtoAAsync_v2, cuMemcpyHtoAAsync, 3020, ptsz, 7000, kStage,    \
         CopyToArrayAsync)                                                     \
  STREAM(cuMemcpyAtoH_v2, cuMemcpyAtoH, 3020, ptds, 7000, kStage,              \
         CopyFromArray)                                                        \
  STREAM(cuMemcpyAtoHAsync_v2, cuMemcpyAtoHAsync, 3020, ptsz, 7000, kStage,    \
         CopyFromArrayAsync)                                                   \
  PLAIN(cuMemcpyHtoA, cuMemcpyHtoA, 2000, kStage, CopyToArray)                 \
  PLAIN(cuMemcpyHtoAAsync, cuMemcpyHtoAAsync, 2000, kStage, CopyToArrayAsync)  \
  PLAIN(cuMemcpyAtoH, cuMemcpyAtoH, 2000, kStage, CopyFromArray)               \
  PLAIN(cuMemcpyAtoHAsync, cuMemcpyAtoHAsync, 2000, kStage,                    \
        CopyFromArrayAsync)                                                    \
  STREAM(cuMemcpyDtoA_v2, cuMemcpyDtoA, 3020, ptds, 7000, kStage,              \
         CopyDeviceToArray)                                                    \
  STREAM(cuMemcpyAtoD_v2, cuMemcpyAtoD, 3020, ptds, 7000, kStage,              \
         CopyArrayToDevice)                                                    \
  /* Memsets. */                                                               \
  STREAM(cuMemsetD8_v2, cuMemsetD8, 3020, ptds, 7000, kStage, Fill)            \
  STREAM(cuMemsetD8Async, cuMemsetD8Async, 3020, ptsz, 7000, kStage,           \
         FillAsync)                                                            \
  STREAM(cuMemsetD16_v2, cuMemsetD16, 3020, ptds, 7000, kStage, Fill)          \
  STREAM(cuMemsetD16Async, cuMemsetD16Async, 3020, ptsz, 7000, kStage,         \
         FillAsync)                                                            \
  STREAM(cuMemsetD32_v2, cuMemsetD32, 3020, ptds, 7000, kStage, Fill)          \
  STREAM(cuMemsetD32Async, cuMemsetD32Async, 3020, ptsz, 7000, kStage,         \
         FillAsync)                                                            \
  STREAM(cuMemsetD2D8_v2, cuMemsetD2D8, 3020, ptds, 7000, kStage, FillRows)    \
  STREAM(cuMemsetD2D8Async, cuMemsetD2D8Async, 3020, ptsz, 7000, kStage,       \
         FillRowsAsync)                                                        \
  STREAM(cuMemsetD2D16_v2, cuMemsetD2D16, 3020, ptds, 7000, kStage, FillRows)  \
  STREAM(cuMemsetD2D16Async, cuMemsetD2D16Async, 3020, ptsz, 7000, kStage,     \
         FillRowsAsync)                                                        \
  STREAM(cuMemsetD2D32_v2, cuMemsetD2D32, 3020, ptds, 7000, kStage, FillRows)  \
  STREAM(cuMemsetD2D32Async, cuMemsetD2D32Async, 3020, ptsz, 7000, kStage,     \
         FillRowsAsync)                                                        \
  /* Launches. */                                                              \
  STREAM(cuLaunchKernel, cuLaunchKernel, 4000, ptsz, 7000, kPromote, Launch)   \
  STREAM(cuLaunchKernelEx, cuLaunchKernelEx, 11060, ptsz, 11060, kPromote,     \
         LaunchEx)                                                             \
  STREAM(cuLaunchCooperativeKernel, cuLaunchCooperativeKernel, 9000, ptsz,     \
         9000, kPromote, LaunchCooperative)                                    \
  PLAIN(cuLaunchCooperativeKernelMultiDevice,                                  \
        cuLaunchCooperativeKernelMultiDevice, 9000, kPromote,                  \
        LaunchMultiDevice)                                                     \
  PLAIN(cuParamSetv, cuParamSetv, 2000, kPromote, ParamSetv)                   \
  PLAIN(cuModuleUnload, cuModuleUnload, 2000, kPass, UnloadCode)               \
  /* Operations on memory words in streams. */                                 \
  STREAM(cuStreamWriteValue32_v2, cuStreamWriteValue32, 11070, ptsz, 11070,    \
         kPromote, PromoteArguments)                                           \
  STREAM(cuStreamWriteValue32, cuStreamWriteValue32, 8000, ptsz, 8000,         \
         kPromote, PromoteArguments)                                           \
  STREAM(cuStreamWaitValue32_v2, cuStreamWaitValue32, 11070, ptsz, 11070,      \
         kPromote, PromoteArguments)                                           \
  STREAM(cuStreamWaitValue32, cuStreamWaitValue32, 8000, ptsz, 8000, kPromote, \
         PromoteArguments)                                                     \
  STREAM(cuStreamWriteValue64_v2, cuStreamWriteValue64, 11070, ptsz, 11070,    \
         kPromote, PromoteArguments)                                           \
  STREAM(cuStreamWriteValue64, cuStreamWriteValue64, 9000, ptsz, 9000,         \
         kPromote, PromoteArguments)                                           \
  STREAM(cuStreamWaitValue64_v2, cuStreamWaitValue64, 11070, ptsz, 11070,      \
         kPromote, PromoteArguments)                                           \
  STREAM(cuStreamWaitValue64, cuStreamWaitValue64, 9000, ptsz, 9000, kPromote, \
         PromoteArguments)                                                     \
  STREAM(cuStreamBatchMemOp_v2, cuStreamBatchMemOp, 11070, ptsz, 11070,        \
         kPromote, BatchMemOp)                                                 \
  STREAM(cuStreamBatchMemOp, cuStreamBatchMemOp, 8000, ptsz, 8000, kPromote,   \
         BatchMemOp)                                                           \
  /* Nodes of graphs that are built by hand. */                                \
  PLAIN(cuGraphAddKernelNode, cuGraphAddKernelNode, 10000, kPromote,           \
        KernelNode)                                                            \
  PLAIN(cuGraphKernelNodeSetParams, cuGraphKernelNodeSetParams, 10000,         \
        kPromote, KernelNode)                                                  \
  PLAIN(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams, 10010, \
        kPromote, KernelNode)                                                  \
  PLAIN(cuGraphAddMemcpyNode, cuGraphAddMemcpyNode, 10000, kPromote,           \
        PromoteArguments)                                                      \
  PLAIN(cuGraphMemcpyNodeSetParams, cuGraphMemcpyNodeSetParams, 10000,         \
        kPromote, PromoteArguments)                                            \
  PLAIN(cuGraphExecMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams, 10020, \
        kPromote, PromoteArguments)                                            \
  PLAIN(cuGraphAddMemsetNode, cuGraphAddMemsetNode, 10000, kPromote,           \
        PromoteArguments)                                                      \
  PLAIN(cuGraphMemsetNodeSetParams, cuGraphMemsetNodeSetParams, 10000,         \
        kPromote, PromoteArguments)                                            \
  PLAIN(cuGraphExecMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams, 10020, \
        kPromote, PromoteArguments)                                            \
  PLAIN(cuGraphAddBatchMemOpNode, cuGraphAddBatchMemOpNode, 11070, kPromote,   \
        BatchMemOpNode)                                                        \
  PLAIN(cuGraphBatchMemOpNodeSetParams, cuGraphBatchMemOpNodeSetParams, 11070, \
        kPromote, BatchMemOpNode)                                              \
  PLAIN(cuGraphExecBatchMemOpNodeSetParams,                                    \
        cuGraphExecBatchMemOpNodeSetParams, 11070, kPromote, BatchMemOpNode)   \
  /* Textures. */                                                              \
  PLAIN(cuTexRefSetAddress_v2, cuTexRefSetAddress, 3020, kPromote,             \
        PromoteArguments)                                                      \
  PLAIN(cuTexRefSetAddress2D_v3, cuTexRefSetAddress2D, 4010, kPromote,         \
        PromoteArguments)                                                      \
  PLAIN(cuTexRefSetAddress2D_v2, cuTexRefSetAddress2D, 3020, kPromote,         \
        PromoteArguments)                                                      \
  PLAIN(cuTexObjectCreate, cuTexObjectCreate, 5000, kPromote,                  \
        PromoteArguments)                                                      \
  /* The driver's own look-up, which answers with the functions of this table. \
   */                                                                          \
  PLAIN(cuGetProcAddress, cuGetProcAddress, 11030, kLookUp, GetProcAddress)

#if CUDA_VERSION >= 12000
#define PINRING_PRELOAD_ROWS_12(PLAIN, STREAM)                                 \
  PLAIN(cuGetProcAddress_v2, cuGetProcAddress, 12000, kLookUp, GetProcAddress) \
  PLAIN(cuLibraryUnload, cuLibraryUnload, 12000, kPass, UnloadCode)            \
  PLAIN(cuGraphAddKernelNode_v2, cuGraphAddKernelNode, 12000, kPromote,        \
        KernelNode)                                                            \
  PLAIN(cuGraphKernelNodeSetParams_v2, cuGraphKernelNodeSetParams, 12000,      \
        kPromote, KernelNode)                                                  \
  PLAIN(cuGraphExecKernelNodeSetParams_v2, cuGraphExecKernelNodeSetParams,     \
        12000, kPromote, KernelNode)                                           \
  PLAIN(cuTensorMapEncodeTiled, cuTensorMapEncodeTiled, 12000, kPromote,       \
        PromoteArguments)                                                      \
  PLAIN(cuTensorMapEncodeIm2col, cuTensorMapEncodeIm2col, 12000, kPromote,     \
        PromoteArguments)                                                      \
  PLAIN(cuTensorMapReplaceAddress, cuTensorMapReplaceAddress, 12000, kPromote, \
        PromoteArguments)
#else
#define PINRING_PRELOAD_ROWS_12(PLAIN, STREAM)
#endif

#if CUDA_VERSION >= 12030
#define PINRING_PRELOAD_ROWS_12_3(PLAIN, STREAM)                             \
  PLAIN(cuGraphAddNode, cuGraphAddNode, 12020, kPromote, GraphNode)          \
  PLAIN(cuGraphAddNode_v2, cuGraphAddNode, 12030, kPromote, GraphNode)       \
  PLAIN(cuGraphNodeSetParams, cuGraphNodeSetParams, 12020, kPromote,         \
        GraphNode)                                                           \
  PLAIN(cuGraphExecNodeSetParams, cuGraphExecNodeSetParams, 12020, kPromote, \
        GraphNode)
#else
#define PINRING_PRELOAD_ROWS_12_3(PLAIN, STREAM)
#endif

#if CUDA_VERSION >= 12080
#define PINRING_PRELOAD_ROWS_12_8(PLAIN, STREAM)                             \
  STREAM(cuMemBatchDecompressAsync, cuMemBatchDecompressAsync, 12060, ptsz,  \
         12060, kPromote, Decompress)                                        \
  STREAM(cuMemcpyBatchAsync, cuMemcpyBatchAsync, 12080, ptsz, 12080, kStage, \
         CopyBatch)                                                          \
  STREAM(cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync, 12080, ptsz, 12080,     \
         kStage, BoxBatch)                                                   \
  PLAIN(cuTensorMapEncodeIm2colWide, cuTensorMapEncodeIm2colWide, 12080,     \
        kPromote, PromoteArguments)
#else
#define PINRING_PRELOAD_ROWS_12_8(PLAIN, STREAM)
#endif

#if CUDA_VERSION >= 13000
#define PINRING_PRELOAD_ROWS_13(PLAIN, STREAM)                              \
  STREAM(cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync, 13000, ptsz, 13000,     \
         kStage, CopyBatch)                                                 \
  STREAM(cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync, 13000, ptsz, 13000, \
         kStage, BoxBatch)
#else
#define PINRING_PRELOAD_ROWS_13(PLAIN, STREAM)
#endif

// Newer than the headers may be, which do not matter for their parameters.
#if CUDA_VERSION >= 12080
#define PINRING_PRELOAD_ROWS_13_2(PLAIN, STREAM)                              \
  STREAM(cuMemcpyWithAttributesAsync, cuMemcpyWithAttributesAsync, 13020,     \
         ptsz, 13020, kStage, CopyWithAttributes)                             \
  STREAM(cuMemcpy3DWithAttributesAsync, cuMemcpy3DWithAttributesAsync, 13020, \
         ptsz, 13020, kStage, BoxBatch)                                       \
  PLAIN(cuGraphAddNode_v3, cuGraphAddNode, 13040, kPromote, GraphNode)        \
  PLAIN(cuGraphNodeSetParams_v2, cuGraphNodeSetParams, 13040, kPromote,       \
        GraphNode)
#else
#define PINRING_PRELOAD_ROWS_13_2(PLAIN, STREAM)
#endif

#define PINRING_PRELOAD_ROWS(PLAIN, STREAM) \
  PINRING_PRELOAD_ROWS_11(PLAIN, STREAM)    \
  PINRING_PRELOAD_ROWS_12(PLAIN, STREAM)    \
  PINRING_PRELOAD_ROWS_12_3(PLAIN, STREAM)  \
  PINRING_PRELOAD_ROWS_12_8(PLAIN, STREAM)  \
  PINRING_PRELOAD_ROWS_13(PLAIN, STREAM)    \
  PINRING_PRELOAD_ROWS_13_2(PLAIN, STREAM)

// The rest passes, in all forms: PASS(name).
#define PINRING_PRELOAD_PASSED(PASS)                     \
  PASS(cuCoredumpGetAttribute)                           \
  PASS(cuCoredumpGetAttributeGlobal)                     \
  PASS(cuCoredumpRegisterCompleteCallback)               \
  PASS(cuCoredumpRegisterStartCallback)                  \
  PASS(cuCoredumpSetAttribute)                           \
  PASS(cuCoredumpSetAttributeGlobal)                     \
  PASS(cuDeviceGetGraphMemAttribute)                     \
  PASS(cuDeviceGetNvSciSyncAttributes)                   \
  PASS(cuDeviceRegisterAsyncNotification)                \
  PASS(cuDeviceSetGraphMemAttribute)                     \
  PASS(cuExternalMemoryGetMappedBuffer)                  \
  PASS(cuGetExportTable)                                 \
  PASS(cuGraphAddExternalSemaphoresSignalNode)           \
  PASS(cuGraphAddExternalSemaphoresWaitNode)             \
  PASS(cuGraphAddHostNode)                               \
  PASS(cuGraphAddMemAllocNode)                           \
  PASS(cuGraphAddMemFreeNode)                            \
  PASS(cuGraphBatchMemOpNodeGetParams)                   \
  PASS(cuGraphExecExternalSemaphoresSignalNodeSetParams) \
  PASS(cuGraphExecExternalSemaphoresWaitNodeSetParams)   \
  PASS(cuGraphExecHostNodeSetParams)                     \
  PASS(cuGraphExternalSemaphoresSignalNodeGetParams)     \
  PASS(cuGraphExternalSemaphoresSignalNodeSetParams)     \
  PASS(cuGraphExternalSemaphoresWaitNodeGetParams)       \
  PASS(cuGraphExternalSemaphoresWaitNodeSetParams)       \
  PASS(cuGraphHostNodeGetParams)                         \
  PASS(cuGraphHostNodeSetParams)                         \
  PASS(cuGraphKernelNodeGetParams)                       \
  PASS(cuGraphMemAllocNodeGetParams)                     \
  PASS(cuGraphMemFreeNodeGetParams)                      \
  PASS(cuGraphMemcpyNodeGetParams)                       \
  PASS(cuGraphMemsetNodeGetParams)                       \
  PASS(cuGraphNodeGetParams)                             \
  PASS(cuGraphicsResourceGetMappedPointer)               \
  PASS(cuIpcCloseMemHandle)                              \
  PASS(cuIpcGetMemHandle)                                \
  PASS(cuIpcOpenMemHandle)                               \
  PASS(cuLaunchHostFunc)                                 \
  PASS(cuLibraryGetGlobal)                               \
  PASS(cuLibraryGetManaged)                              \
  PASS(cuLibraryGetUnifiedFunction)                      \
  PASS(cuLibraryLoadData)                                \
  PASS(cuLibraryLoadFromFile)                            \
  PASS(cuLinkAddData)                                    \
  PASS(cuLinkAddFile)                                    \
  PASS(cuLinkComplete)                                   \
  PASS(cuLinkCreate)                                     \
  PASS(cuLogicalEndpointBindAddr)                        \
  PASS(cuLogicalEndpointExport)                          \
  PASS(cuLogicalEndpointImport)                          \
  PASS(cuLogsRegisterCallback)                           \
  PASS(cuMemAddressFree)                                 \
  PASS(cuMemAddressReserve)                              \
  PASS(cuMemAdvise)                                      \
  PASS(cuMemAlloc)                                       \
  PASS(cuMemAllocAsync)                                  \
  PASS(cuMemAllocFromPoolAsync)                          \
  PASS(cuMemAllocManaged)                                \
  PASS(cuMemAllocPitch)                                  \
  PASS(cuMemDiscardAndPrefetchBatchAsync)                \
  PASS(cuMemDiscardBatchAsync)                           \
  PASS(cuMemExportToShareableHandle)                     \
  PASS(cuMemFree)                                        \
  PASS(cuMemFreeAsync)                                   \
  PASS(cuMemGetAccess)                                   \
  PASS(cuMemGetHandleForAddressRange)                    \
  PASS(cuMemGetLocationInfo)                             \
  PASS(cuMemImportFromShareableHandle)                   \
  PASS(cuMemMap)                                         \
  PASS(cuMemPoolExportPointer)                           \
  PASS(cuMemPoolExportToShareableHandle)                 \
  PASS(cuMemPoolGetAttribute)                            \
  PASS(cuMemPoolImportFromShareableHandle)               \
  PASS(cuMemPoolImportPointer)                           \
  PASS(cuMemPoolSetAttribute)                            \
  PASS(cuMemPrefetchAsync)                               \
  PASS(cuMemPrefetchBatchAsync)                          \
  PASS(cuMemRangeGetAttribute)                           \
  PASS(cuMemRangeGetAttributes)                          \
  PASS(cuMemRetainAllocationHandle)                      \
  PASS(cuMemSetAccess)                                   \
  PASS(cuMemUnmap)                                       \
  PASS(cuModuleGetGlobal)                                \
  PASS(cuModuleLoadData)                                 \
  PASS(cuModuleLoadDataEx)                               \
  PASS(cuModuleLoadFatBinary)                            \
  PASS(cuMulticastBindAddr)                              \
  PASS(cuOccupancyMaxActiveClusters)                     \
  PASS(cuOccupancyMaxPotentialClusterSize)               \
  PASS(cuStreamAddCallback)                              \
  PASS(cuStreamAttachMemAsync)                           \
  PASS(cuStreamBeginRecaptureToGraph)                    \
  PASS(cuSurfObjectCreate)                               \
  PASS(cuSurfObjectGetResourceDesc)                      \
  PASS(cuTensorMapSetAllocationClass)                    \
  PASS(cuTexObjectGetResourceDesc)                       \
  PASS(cuTexRefGetAddress)                               \
  PASS(cuUserObjectCreate)

// What one row says, for tests and messages.
struct RowInfo {
  const char* symbol;
  const char* name;
  int version;      // 0: all of them
  bool per_thread;  // the default stream is the calling thread's
  Action action;
};

// Puts the rows in an order of their own; the first kRows have wrappers.
#define PINRING_PRELOAD_INDEX(symbol, name, version, action, handler) \
  kRow_##symbol,
#define PINRING_PRELOAD_INDICES(symbol, name, version, form, form_version, \
                                action, handler)                           \
  kRow_##symbol, kRow_##symbol##_##form,
enum RowIndex : int {
  PINRING_PRELOAD_ROWS(PINRING_PRELOAD_INDEX, PINRING_PRELOAD_INDICES) kRows
};
#undef PINRING_PRELOAD_INDEX
#undef PINRING_PRELOAD_INDICES

// kRows of them, in the order of the indices.
extern const RowInfo kRowTable[];
// The names that pass, and how many.
extern const char* const kPassedNames[];
extern const int kPassedCount;

}  // namespace pinring::preload

#endif  // PINRING_SRC_PRELOAD_TABLE_H_
