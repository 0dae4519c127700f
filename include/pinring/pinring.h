// pinring: pinned memory for CUDA programs without pinning it.
//
// The functions below stand where a program uses cudaMallocHost,
// cudaHostAlloc, cudaFreeHost, cudaMemcpy and cudaMemcpyAsync. What they hand
// out is ordinary memory (a "staged block"); copies from and to it pass
// through one small pinned buffer (the "ring", 64 MiB by default) in the order
// of their stream, nearly as fast as copies of pinned memory. However much a
// program "pins", the really pinned bytes stay bounded.
//
//   void* block;
//   cudaError_t error = pinringMallocHost(&block, bytes);
//   if (error != cudaSuccess) return error;
//   Fill(block, bytes);
//   pinringMemcpyAsync(device, block, bytes, cudaMemcpyHostToDevice, stream);
//   cudaStreamSynchronize(stream);
//   pinringFreeHost(block);
//
// Same meaning. Each function named after one of the CUDA runtime has that
// function's parameters and codes, and a staged block behaves as a pinned one:
//   * An asynchronous copy reads or writes the block when its stream gets
//     there, not during the call, and the call does not wait for the stream.
//   * When an event, a query, a synchronization or a later host function says
//     that a copy is done, all its bytes are there.
//   * Copies that touch no staged block go to the driver as they are.
// What differs: a kernel cannot dereference the address of a staged block
// (ask for a device pointer, or allocate mapped memory); a copy is several
// operations of its stream; memory that does not exist is found out at the
// first touch, as with malloc. The README has the whole list.
//
// Threads: every function may be called from any thread at any time, but
// pinringConfigure, which comes before all others, and pinringInstanceDestroy,
// which comes after all others of its instance. None is to be called from a
// host function or callback of a stream, as none of CUDA's is.
//
// Streams and devices: a stream of 0 is the legacy default stream;
// cudaStreamPerThread is the calling thread's. pinringMemcpy uses the legacy
// default stream. The current device is that of the calling thread's current
// context; where there is none, device 0 becomes current, as with the runtime.
//
// Errors: the CUDA runtime's own codes, which each function lists. Like the
// runtime, the library keeps the last code that was not cudaSuccess for each
// thread (pinringGetLastError); it also keeps a sentence that names the value
// and the remedy (pinringGetLastErrorMessage). cudaGetLastError does not see
// these codes. Every function can also answer
//   * cudaErrorInsufficientDriver: no usable NVIDIA driver is installed,
//   * cudaErrorNoDevice and whatever else the driver answers to cuInit,
//   * cudaErrorInitializationError: an environment variable PINRING_... has a
//     bad value, or options contradict each other (named on standard error,
//     once); and in a child of fork, where CUDA cannot be used: there, blocks
//     can still be read, written, asked about and freed,
// and, as with the runtime, codes of earlier asynchronous work. Nothing is
// thrown.
//
// Options: the environment variables PINRING_<NAME>, which `pinring options`
// lists, or pinringConfigure; for further instances, pinringInstanceCreate.
//
// Lifetime: the library starts with the first call and never ends: blocks may
// be freed, and copies be in flight, until the process is gone.

#ifndef PINRING_PINRING_H_
#define PINRING_PINRING_H_

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#define PINRING_VERSION_MAJOR 0
#define PINRING_VERSION_MINOR 1
#define PINRING_VERSION_PATCH 0
// One number that grows with every version: 100 for 0.1.0.
#define PINRING_VERSION                                          \
  (PINRING_VERSION_MAJOR * 10000 + PINRING_VERSION_MINOR * 100 + \
   PINRING_VERSION_PATCH)

#if defined(_WIN32)
#if defined(PINRING_BUILDING_SHARED)
#define PINRING_API __declspec(dllexport)
#elif defined(PINRING_SHARED)
#define PINRING_API __declspec(dllimport)
#else
#define PINRING_API
#endif
#elif defined(__GNUC__)
#define PINRING_API __attribute__((visibility("default")))
#else
#define PINRING_API
#endif

#if defined(__cplusplus)
extern "C" {
#endif

// --- Memory ----------------------------------------------------------------

// As cudaMallocHost: a block of `bytes` bytes that the caller owns until
// pinringFreeHost. The same as pinringHostAlloc with flags 0.
PINRING_API cudaError_t pinringMallocHost(void** pointer, size_t bytes);

// As cudaHostAlloc. `flags` is a sum of cudaHostAllocPortable,
// cudaHostAllocMapped and cudaHostAllocWriteCombined.
//
// Mapped or write-combined memory is really pinned, by the driver. Other
// blocks are staged: page-aligned (2 MiB-aligned from 2 MiB up), zero, and not
// resident before they are touched. Blocks up to small_limit_bytes (64 KiB)
// are really pinned in either case, out of a pool of small_pool_bytes, since
// kernels read flags and mailboxes there; when the pool is full they are
// staged.
//
// 0 bytes succeed, and *pointer is null then, as when there is no memory to be
// had. Does not wait for any stream.
//
// Errors: cudaErrorInvalidValue (`pointer` is null, unknown flags),
// cudaErrorMemoryAllocation (no memory, or pinned_limit_bytes is reached).
PINRING_API cudaError_t pinringHostAlloc(void** pointer, size_t bytes,
                                         unsigned int flags);

// As cudaFreeHost, for blocks of this library; other pointers are passed to
// the driver. Waits for copies of the block that are queued or under way, from
// whichever thread and at whichever address inside it, then gives the memory
// back. Null succeeds.
//
// Errors: cudaErrorInvalidValue (not the start of a block, or freed before).
PINRING_API cudaError_t pinringFreeHost(void* pointer);

// As cudaHostRegister: page-locks memory of the program's own in place. Blocks
// of this library cannot be registered, not even a part of one.
//
// Errors: cudaErrorInvalidValue (0 bytes, overlaps a block), and the driver's.
PINRING_API cudaError_t pinringHostRegister(void* pointer, size_t bytes,
                                            unsigned int flags);

// As cudaHostUnregister. Errors: cudaErrorInvalidValue (a block of this
// library, which nobody registered), and the driver's.
PINRING_API cudaError_t pinringHostUnregister(void* pointer);

// --- Copies ----------------------------------------------------------------

// As cudaMemcpy: copies `bytes` bytes in order with the legacy default stream
// and returns when they are at their destination, also from a staged block to
// the device. The addresses decide the direction, whatever `kind` says.
// 0 bytes succeed, also between null pointers.
//
// Errors: cudaErrorInvalidValue (a range reaches beyond its block),
// cudaErrorInvalidMemcpyDirection (`kind` is none of cudaMemcpyKind).
PINRING_API cudaError_t pinringMemcpy(void* dst, const void* src, size_t bytes,
                                      enum cudaMemcpyKind kind);

// As cudaMemcpyAsync: queues the copy on `stream` and returns. A staged block
// is read or written when the stream gets there; the caller may still fill it,
// or have earlier work fill it, until then, and keeps its hands off from then
// until an observer says that the copy is done.
//
// The call waits only where the runtime's would: when the queues of the device
// are full, or for memory that is neither staged nor pinned.
//
// Errors: as pinringMemcpy, and cudaErrorInvalidResourceHandle (`stream`).
PINRING_API cudaError_t pinringMemcpyAsync(void* dst, const void* src,
                                           size_t bytes,
                                           enum cudaMemcpyKind kind,
                                           cudaStream_t stream);

// As cudaMemcpy2D and cudaMemcpy2DAsync: `height` rows of `width` bytes, whose
// beginnings are a pitch apart. What lies between the rows is not written. Rows
// are packed into the ring, many to a chunk.
//
// Errors: as pinringMemcpy and pinringMemcpyAsync, and
// cudaErrorInvalidPitchValue (several rows, longer than a pitch; a single one
// is an invalid value then).
PINRING_API cudaError_t pinringMemcpy2D(void* dst, size_t dst_pitch,
                                        const void* src, size_t src_pitch,
                                        size_t width, size_t height,
                                        enum cudaMemcpyKind kind);
PINRING_API cudaError_t pinringMemcpy2DAsync(void* dst, size_t dst_pitch,
                                             const void* src, size_t src_pitch,
                                             size_t width, size_t height,
                                             enum cudaMemcpyKind kind,
                                             cudaStream_t stream);

// As cudaMemcpy3D and cudaMemcpy3DAsync, between addresses, or an address and
// an array.
//
// Errors: as pinringMemcpy2D, also for slices of more rows than they have, and
// cudaErrorInvalidValue (null, two arrays, no address, beyond the array),
// cudaErrorInvalidResourceHandle (the array), cudaErrorNotSupported (an array
// that is not made of equal channels, such as a compressed one: promote the
// block, and use the runtime's function).
PINRING_API cudaError_t pinringMemcpy3D(const struct cudaMemcpy3DParms* copy);
PINRING_API cudaError_t
pinringMemcpy3DAsync(const struct cudaMemcpy3DParms* copy, cudaStream_t stream);

// As cudaMemcpy2DToArray, cudaMemcpy2DFromArray and their Async forms: `height`
// rows of `width` bytes, in the array from byte `x` of row `y` on.
//
// Errors: as pinringMemcpy2D, and cudaErrorInvalidValue (a range beyond the
// array), cudaErrorInvalidResourceHandle (the array).
PINRING_API cudaError_t pinringMemcpy2DToArray(cudaArray_t dst, size_t x,
                                               size_t y, const void* src,
                                               size_t src_pitch, size_t width,
                                               size_t height,
                                               enum cudaMemcpyKind kind);
PINRING_API cudaError_t pinringMemcpy2DToArrayAsync(
    cudaArray_t dst, size_t x, size_t y, const void* src, size_t src_pitch,
    size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream);
PINRING_API cudaError_t pinringMemcpy2DFromArray(void* dst, size_t dst_pitch,
                                                 cudaArray_const_t src,
                                                 size_t x, size_t y,
                                                 size_t width, size_t height,
                                                 enum cudaMemcpyKind kind);
PINRING_API cudaError_t pinringMemcpy2DFromArrayAsync(
    void* dst, size_t dst_pitch, cudaArray_const_t src, size_t x, size_t y,
    size_t width, size_t height, enum cudaMemcpyKind kind, cudaStream_t stream);

// As cudaMemcpyPeer and cudaMemcpy3DPeer and their Async forms, where an end
// may also be a staged block, as it may be pinned memory: it goes through the
// ring. The ends' addresses say what is copied; the numbers of the devices must
// be some. The synchronous forms come after the work that the current and both
// named devices have, as natively, and return when the data is at its
// destination if an end is a block. A box between a block and an array of
// another device than the current one promotes the block.
//
// Errors: as pinringMemcpy and pinringMemcpy3D, and cudaErrorInvalidDevice,
// cudaErrorInvalidValue (an end that CUDA does not know).
PINRING_API cudaError_t pinringMemcpyPeer(void* dst, int dst_device,
                                          const void* src, int src_device,
                                          size_t bytes);
PINRING_API cudaError_t pinringMemcpyPeerAsync(void* dst, int dst_device,
                                               const void* src, int src_device,
                                               size_t bytes,
                                               cudaStream_t stream);
PINRING_API cudaError_t
pinringMemcpy3DPeer(const struct cudaMemcpy3DPeerParms* copy);
PINRING_API cudaError_t pinringMemcpy3DPeerAsync(
    const struct cudaMemcpy3DPeerParms* copy, cudaStream_t stream);

// --- Filling ---------------------------------------------------------------

// As cudaMemset and its 2D, 3D and Async forms: every byte becomes `value`'s
// low one. In a staged block the bytes are written when the stream gets there,
// by the library's threads; none of them goes over the bus. The synchronous
// forms return when all are written. 0 bytes succeed.
//
// Errors: cudaErrorInvalidValue (a range beyond its block, or memory that is
// neither the device's nor pinned; rows longer than a pitch),
// cudaErrorInvalidResourceHandle (`stream`).
PINRING_API cudaError_t pinringMemset(void* dst, int value, size_t bytes);
PINRING_API cudaError_t pinringMemsetAsync(void* dst, int value, size_t bytes,
                                           cudaStream_t stream);
PINRING_API cudaError_t pinringMemset2D(void* dst, size_t pitch, int value,
                                        size_t width, size_t height);
PINRING_API cudaError_t pinringMemset2DAsync(void* dst, size_t pitch, int value,
                                             size_t width, size_t height,
                                             cudaStream_t stream);
PINRING_API cudaError_t pinringMemset3D(struct cudaPitchedPtr dst, int value,
                                        struct cudaExtent extent);
PINRING_API cudaError_t pinringMemset3DAsync(struct cudaPitchedPtr dst,
                                             int value,
                                             struct cudaExtent extent,
                                             cudaStream_t stream);

// When pinringCopyAsync may access host memory: the values and the meaning of
// cudaMemcpySrcAccessOrder, for sources and destinations in host memory.
enum pinringAccess {
  // When the stream gets there: what earlier work writes is copied, and the
  // memory is the stream's until an observer says that the copy is done.
  pinringAccessStream = 1,
  // Before the call returns: the memory is the caller's again then. A source
  // is read at once, whatever holds the stream, while it fits into the slots
  // that are free for it (several MiB, unless many streams hold some); for the
  // rest, and for a destination, the call waits for the stream.
  pinringAccessDuringCall = 2,
  // A source at any time from the call on, so that it moves while the stream
  // is still busy; it must hold its bytes from then until the copy is done. A
  // destination as with pinringAccessStream.
  pinringAccessAny = 3
};

// Copies `bytes` bytes through the ring, in the order of `stream`, from or to
// any pageable memory: a vector, a mapped file, or a staged block, which need
// not be known to this library or to CUDA. Twice to eight times as fast as
// cudaMemcpyAsync, which reads such memory during the call or waits for the
// stream. Memory that is pinned already, managed, or on the device at both
// ends is the driver's business, with the same rule of access.
//
// pinringAccessDuringCall cannot be captured. Where a stream that captures, or
// a ring that cannot be made, leaves the copy to the driver, it reads pageable
// memory its own way; this is counted (pinringCopyPageableFallback).
//
// Errors: as pinringMemcpyAsync, cudaErrorInvalidValue (`access`), and
// cudaErrorStreamCaptureUnsupported.
PINRING_API cudaError_t pinringCopyAsync(void* dst, const void* src,
                                         size_t bytes, enum cudaMemcpyKind kind,
                                         enum pinringAccess access,
                                         cudaStream_t stream);

// The same for a box, as pinringMemcpy3DAsync describes it.
PINRING_API cudaError_t pinringCopy3DAsync(const struct cudaMemcpy3DParms* copy,
                                           enum pinringAccess access,
                                           cudaStream_t stream);

// pinringCopyAsync, but returns when the data is at its destination.
PINRING_API cudaError_t pinringCopy(void* dst, const void* src, size_t bytes,
                                    enum cudaMemcpyKind kind,
                                    cudaStream_t stream);

// --- Graphs ----------------------------------------------------------------
//
// Copies of staged blocks in graphs go through the ring where the library sees
// the graph from its capture to its end: begun by pinringStreamBeginCapture,
// ended, instantiated, launched and destroyed by the functions below. Every
// replay moves the bytes that the block holds when the replay gets there. In a
// capture that began by cudaStreamBeginCapture a copy promotes its block
// instead, and the graph is an ordinary one.
//
// An executable graph holds a small part of the ring from its instantiation to
// the end of its last replay. Where there is no room, or a copy cannot go
// through the ring, instantiation promotes the blocks and counts it.
//
// A graph that is captured here and instantiated by other means has copies of
// pageable memory, which the driver reads when the graph is launched: call
// pinringGraphPromote before.
//
// All of them are the default instance's, and its blocks' copies only.

// As cudaStreamBeginCapture and cudaStreamEndCapture. Errors: theirs.
PINRING_API cudaError_t
pinringStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode);
PINRING_API cudaError_t pinringStreamEndCapture(cudaStream_t stream,
                                                cudaGraph_t* graph);

// As cudaGraphInstantiateWithFlags. The graph stays as it is, and may be
// instantiated again: no two executable graphs share anything.
//
// Errors: its own, and cudaErrorMemoryAllocation (a block had to be promoted
// and could not be).
PINRING_API cudaError_t pinringGraphInstantiate(cudaGraphExec_t* executable,
                                                cudaGraph_t graph,
                                                unsigned long long flags);

// As cudaGraphLaunch. pinringFreeHost waits for replays that were launched so.
//
// Errors: its own, and cudaErrorNotSupported (the stream is being captured, and
// copies of the executable graph go through the ring).
PINRING_API cudaError_t pinringGraphLaunch(cudaGraphExec_t executable,
                                           cudaStream_t stream);

// As cudaGraphExecDestroy; replays that were launched end as they should.
PINRING_API cudaError_t pinringGraphExecDestroy(cudaGraphExec_t executable);

// Promotes the staged blocks that copies in the graph, and in its child graphs,
// are of, so that CUDA's own functions can be called with it.
//
// Errors: cudaErrorInvalidValue (null), cudaErrorMemoryAllocation (the limit is
// reached, or the system refuses).
PINRING_API cudaError_t pinringGraphPromote(cudaGraph_t graph);

// To be called before cudaGraphExecUpdate: promotes the blocks that copies in
// the graph are of. An executable graph whose copies go through the ring cannot
// be updated; as after any other change that an update does not allow, the
// graph is to be instantiated anew.
//
// Errors: cudaErrorGraphExecUpdateFailure (it cannot be updated), those of
// pinringGraphPromote.
PINRING_API cudaError_t pinringGraphPrepareUpdate(cudaGraphExec_t executable,
                                                  cudaGraph_t graph);

// The node to be named to cudaGraphExec...SetParams for a node of the graph
// that was instantiated: the same one, unless copies of the executable graph go
// through the ring.
//
// Errors: cudaErrorInvalidValue (`found` is null), cudaErrorNotSupported (the
// node is a copy that goes through the ring, or lies in a child graph).
PINRING_API cudaError_t pinringGraphExecNode(cudaGraphExec_t executable,
                                             cudaGraphNode_t node,
                                             cudaGraphNode_t* found);

// --- What a pointer is -----------------------------------------------------

enum pinringBlockKind {
  pinringBlockNone = 0,    // no block of this library
  pinringBlockPinned = 1,  // really pinned when it was made
  pinringBlockStaged = 2   // pageable, and perhaps promoted since
};

// What kind of block `pointer` points into. Makes no call of the driver, takes
// no lock, and costs a few nanoseconds.
PINRING_API enum pinringBlockKind pinringGetBlockKind(const void* pointer);

// As cudaPointerGetAttributes. Any address inside a staged block is host
// memory whose host and device pointers are the address itself; one past its
// end, and a freed block, are unregistered memory (device -2).
//
// Errors: cudaErrorInvalidValue (`attributes` is null).
PINRING_API cudaError_t pinringPointerGetAttributes(
    struct cudaPointerAttributes* attributes, const void* pointer);

// As cudaHostGetDevicePointer. A staged block becomes really pinned
// ("promoted") until it is freed, so that kernels can use it; it is charged
// against pinned_limit_bytes. `flags` must be 0.
//
// Errors: cudaErrorInvalidValue (null, unknown memory, flags),
// cudaErrorMemoryAllocation (the limit is reached, or the system refuses).
PINRING_API cudaError_t pinringHostGetDevicePointer(void** device_pointer,
                                                    void* pointer,
                                                    unsigned int flags);

// Makes the staged block that `pointer` points into really pinned until it is
// freed, as pinringHostGetDevicePointer does. Blocks that are pinned already
// are left as they are.
//
// Errors: cudaErrorInvalidValue (no block), cudaErrorMemoryAllocation (the
// limit is reached, or the system refuses).
PINRING_API cudaError_t pinringPromote(void* pointer);

// As cudaHostGetFlags: the flags that the block was made with, and
// cudaHostAllocMapped, as the runtime adds it.
//
// Errors: cudaErrorInvalidValue (null, or memory that is not pinned).
PINRING_API cudaError_t pinringHostGetFlags(unsigned int* flags, void* pointer);

// Makes sure that the calling thread's current context is one of the device,
// for copies in the default streams and for what new blocks say of their
// device: its primary context, where it has to change. For callers that keep a
// current device of their own, as a CUDA runtime does.
//
// Errors: cudaErrorInvalidDevice (`device`).
PINRING_API cudaError_t pinringSetDevice(int device);

// --- Instances -------------------------------------------------------------

// An instance has its own ring, movers, small-block pool, options, limit and
// usage. Programs need no more than the default one, which the environment and
// pinringConfigure set up; others keep, say, a library's copies apart from
// those of the program that it is part of.
//
// Blocks are their instance's: copies, queries and pinringFreeHost find it by
// the address. What a thread allocates, its categories, its usage, and
// pinringCopyAsync of other memory are its current instance's, which is the
// default one unless it pushed another.
typedef struct pinringInstance_st* pinringInstance_t;

// Makes an instance with the options of `settings`, as pinringConfigure takes
// them ("" for the defaults; the environment is not looked at).
//
// Errors: cudaErrorInvalidValue (null, an unknown name, a bad value).
PINRING_API cudaError_t pinringInstanceCreate(pinringInstance_t* instance,
                                              const char* settings);

// Waits for the instance's copies and gives back all that it holds. No thread
// may be using it or have it pushed.
//
// Errors: cudaErrorInvalidResourceHandle (none that pinringInstanceCreate
// made), cudaErrorIllegalState (blocks of it are not freed).
PINRING_API cudaError_t pinringInstanceDestroy(pinringInstance_t instance);

// Makes `instance` the calling thread's current one, until the matching pop;
// null stands for the default instance. Errors: cudaErrorInvalidResourceHandle
// (none), cudaErrorInvalidValue (more than 64 deep).
PINRING_API cudaError_t pinringPushInstance(pinringInstance_t instance);

// Errors: cudaErrorInvalidValue (nothing was pushed).
PINRING_API cudaError_t pinringPopInstance(void);

// --- Categories ------------------------------------------------------------

// Names what the calling thread allocates from now on, until the matching
// pinringPopCategory: the name under which pinringGetUsage counts it. Scopes
// nest; the innermost counts. The name is copied (1 to 255 bytes).
//
// Errors: cudaErrorInvalidValue (the name), cudaErrorMemoryAllocation (more
// than 65,536 names).
PINRING_API cudaError_t pinringPushCategory(const char* name);

// Ends the calling thread's innermost scope. Errors: cudaErrorInvalidValue
// (the thread is in none).
PINRING_API cudaError_t pinringPopCategory(void);

// Limits what a category may hold, over all kinds of memory, in the current
// instance; 0: no limit. Allocations beyond `soft_bytes` are made, counted
// (pinringEventCategoryOverLimit) and said once on standard error. One that
// would bring it beyond `hard_bytes` answers cudaErrorMemoryAllocation, as
// natively where memory is short; nothing else changes. Blocks that exist stay,
// also above a new limit. The option category_limits does the same.
//
// Errors: cudaErrorInvalidValue (the name), cudaErrorMemoryAllocation (more
// than 65,536 names).
PINRING_API cudaError_t pinringSetCategoryLimit(const char* name,
                                                uint64_t soft_bytes,
                                                uint64_t hard_bytes);

// --- Usage -----------------------------------------------------------------

// What a byte of host memory is: indices of `kinds` below.
enum pinringUsageKind {
  pinringUsageStaged = 0,        // pageable memory in place of pinned memory
  pinringUsageSmallPinned = 1,   // a block inside the small-block pool
  pinringUsageMappedPinned = 2,  // really pinned since the program asked for it
  pinringUsagePromoted = 3,      // a staged block that became really pinned
  pinringUsageRing = 4           // the ring and its flags
};

// Which way bytes went: the first index of `copies` below.
enum pinringCopyDirection {
  pinringCopyHostToDevice = 0,
  pinringCopyDeviceToHost = 1,
  pinringCopyDeviceToDevice = 2,
  pinringCopyHostToHost = 3,
  pinringCopyByAddress = 4  // cudaMemcpyDefault, and no staged block
};

// How they were copied: the second index of `copies` below.
enum pinringCopyPath {
  pinringCopyPassed = 0,           // the driver, untouched: no staged block, or
                                   // a device with the host's page tables
  pinringCopyStagedSync = 1,       // through the ring, the caller waited
  pinringCopyStagedDeferred = 2,   // through the ring, in stream order
  pinringCopyStagedIdle = 3,       // small, on an idle stream: without waits
  pinringCopyPromoted = 4,         // of a promoted block: natively
  pinringCopyPageableFallback = 5  // a staged block the driver's pageable way
};

// What happened that costs speed or pinned memory: indices of `events` below.
enum pinringUsageEvent {
  pinringEventSmallPoolFull = 0,     // a small block was staged
  pinringEventRingRefused = 1,       // the ring could not be made or grown
  pinringEventPromotedNoSlot = 2,    // a block was promoted: no slot was left
  pinringEventPromotionRefused = 3,  // registering a block was refused
  pinringEventPageableFallback = 4,  // a copy took the driver's pageable way
  pinringEventSlotQuarantined = 5,   // a slot whose DMA may not be over
  pinringEventBudgetRefused = 6,     // pinned_limit_bytes refused something
  pinringEventStreamMemoryOpsAbsent = 7,  // the driver lacks them
  pinringEventPromotedOnUse = 8,  // preloaded: a call needed the block pinned
  pinringEventCategoryOverLimit = 9,  // a category went beyond its soft limit
  pinringEventCategoryRefused = 10    // the hard limit of a category refused
};

// Array sizes, with room for what is to come.
#define PINRING_USAGE_KINDS 8
#define PINRING_COPY_DIRECTIONS 8
#define PINRING_COPY_PATHS 8
#define PINRING_USAGE_EVENTS 16
#define PINRING_CATEGORY_NAME_BYTES 256

typedef struct pinringUsageAmount {
  uint64_t currentBytes;
  uint64_t peakBytes;     // the largest currentBytes there ever was
  uint64_t totalBytes;    // of all allocations ever
  uint64_t currentCount;  // blocks
  uint64_t totalCount;
} pinringUsageAmount;

typedef struct pinringCopyAmount {
  uint64_t bytes;
  uint64_t count;
  uint64_t waitNanoseconds;  // spent waiting for slots of the ring
} pinringCopyAmount;

typedef struct pinringCategoryUsage {
  char name[PINRING_CATEGORY_NAME_BYTES];  // ends with a zero byte
  pinringUsageAmount all;                  // over all kinds
  pinringUsageAmount kinds[PINRING_USAGE_KINDS];
  // From version 2 on.
  uint64_t peakSinceMarkBytes;  // of `all`, since pinringMarkUsage
  uint64_t softLimitBytes;      // 0: none
  uint64_t hardLimitBytes;
  pinringCopyAmount copies[PINRING_COPY_DIRECTIONS][PINRING_COPY_PATHS];
} pinringCategoryUsage;

// The figures of one moment. Later versions only append members.
typedef struct pinringUsage {
  size_t structBytes;  // in: sizeof(pinringUsage)
  uint32_t version;    // in: PINRING_USAGE_VERSION; out: the one filled in
  uint32_t reserved;

  // In: where categories are to be written, or null; how many there is room
  // for; sizeof(pinringCategoryUsage). The caller owns the array.
  pinringCategoryUsage* categories;
  size_t categoryCapacity;
  size_t categoryStructBytes;
  // Out: how many categories there are, which may be more than were written.
  size_t categoryCount;

  // Page-locked bytes: ring, small-block pool, mapped and promoted blocks; the
  // most there were at one instant; the limit, or 0.
  uint64_t pinnedBytes;
  uint64_t pinnedPeakBytes;
  uint64_t pinnedLimitBytes;

  pinringUsageAmount all;
  pinringUsageAmount kinds[PINRING_USAGE_KINDS];
  pinringCopyAmount copies[PINRING_COPY_DIRECTIONS][PINRING_COPY_PATHS];
  uint64_t events[PINRING_USAGE_EVENTS];
  // From version 2 on: peaks since pinringMarkUsage.
  uint64_t pinnedPeakSinceMarkBytes;
  uint64_t allPeakSinceMarkBytes;
  uint64_t kindPeaksSinceMarkBytes[PINRING_USAGE_KINDS];
} pinringUsage;

#define PINRING_USAGE_VERSION 2
// pinringUsage usage = PINRING_USAGE_INIT;
#define PINRING_USAGE_INIT                                         \
  {                                                                \
    sizeof(pinringUsage), PINRING_USAGE_VERSION, 0, NULL, 0,       \
        sizeof(pinringCategoryUsage), 0, 0, 0, 0, {0, 0, 0, 0, 0}, \
        {{0, 0, 0, 0, 0}}, {{{0, 0, 0}}}, {0}, 0, 0, {             \
      0                                                            \
    }                                                              \
  }

// Fills `usage` in. Categories come in the order of their first use; nothing
// is rounded, and everything returns to zero. Never stops a copy.
//
// Errors: cudaErrorInvalidValue (null, a size or version that never was).
PINRING_API cudaError_t pinringGetUsage(pinringUsage* usage);

// The peaks "since mark" begin anew, at what is in use now: for the peak of one
// step of a program. The other peaks, since the start, stay.
PINRING_API cudaError_t pinringMarkUsage(void);

// Prints the usage as tables to standard error.
PINRING_API cudaError_t pinringPrintUsage(void);

enum pinringUsageFormat {
  pinringUsageText = 0,  // the tables of pinringPrintUsage
  pinringUsageJson =
      1,  // one JSON object (src/usage/schemas/usage.schema.json)
  pinringUsagePrometheus = 2  // Prometheus' text format, to be served as
                              // text/plain; version=0.0.4
};

// Writes the usage as text, ended by a zero byte and cut to fit, to `buffer`
// (which may be null if `buffer_bytes` is 0), and how many bytes all of it
// takes, the zero byte included, to *needed_bytes (may be null). `format` is
// one of pinringUsageFormat.
//
// Errors: cudaErrorInvalidValue (an unknown format, no buffer).
PINRING_API cudaError_t pinringFormatUsage(int format, char* buffer,
                                           size_t buffer_bytes,
                                           size_t* needed_bytes);

// --- The library itself ----------------------------------------------------

// Sets options: "name=value" pairs, separated by commas or blanks, such as
// "ring_bytes=128MiB, movers=4". Names and values are those that `pinring
// options` lists; they take precedence over the environment. All are set or,
// on error, none. May be called several times, before any other function that
// needs an option.
//
// Errors: cudaErrorInvalidValue (an unknown name, a bad value),
// cudaErrorIllegalState (the library is in use already).
PINRING_API cudaError_t pinringConfigure(const char* settings);

// Has what the library says, which goes to standard error otherwise, go to
// `logger` instead, one call a line: "pinring: ..." with no line end. Null:
// standard error again. It may be called from any thread, in any call of the
// library, also at exit; it must not call the library, nor throw. Tables
// (pinringPrintUsage) are one call.
typedef void (*pinringLogger_t)(void* user, const char* text,
                                size_t text_bytes);
PINRING_API cudaError_t pinringSetLogger(pinringLogger_t logger, void* user);

// The PINRING_VERSION of the library that runs. Errors: cudaErrorInvalidValue
// (null).
PINRING_API cudaError_t pinringGetVersion(int* version);

// As cudaGetLastError, for the functions of this header: the last code of the
// calling thread that was not cudaSuccess; cudaSuccess from then on.
PINRING_API cudaError_t pinringGetLastError(void);

// The same, but keeps the code.
PINRING_API cudaError_t pinringPeekAtLastError(void);

// What the calling thread's last failed call had to say, in words: the value
// that was refused and what to do. Empty when none failed. Never null; valid
// until the thread's next failing call.
PINRING_API const char* pinringGetLastErrorMessage(void);

#if defined(__cplusplus)
}
#endif

#endif  // PINRING_PINRING_H_
