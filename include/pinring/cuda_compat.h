// Makes a CUDA runtime program use pinring without a change of its source.
//
// Include this header after or instead of cuda_runtime.h, or compile with
// `-include pinring/cuda_compat.h`, and link pinring. In that translation unit
// cudaMallocHost, cudaHostAlloc, cudaFreeHost, cudaMemcpy, cudaMemcpyAsync and
// the other functions that give or take host memory then mean those below,
// which have the same overloads, templates and default arguments:
//   * Allocation, free and queries of pinned memory are pinring's.
//   * Copies from or to a staged block in one, two and three dimensions, with
//     arrays, symbols and peers and in batches, and memsets of one, are
//     pinring's. Those that touch none go to the program's own runtime as they
//     are, after a look-up.
//   * The rest pins the staged blocks that it touches ("promotes" them), then
//     goes to the runtime: right, but the block counts as pinned until it is
//     freed. These are nodes of graphs built by hand, batches in a capturing
//     stream, boxes of arrays of compressed formats or of another device's, and
//     the deprecated cudaMemcpyToArray and cudaMemcpyFromArray.
//   * Captures, and graphs from instantiation to destruction, are pinring's:
//     captured copies of staged blocks go through the ring (pinring.h, Graphs).
//   * cudaGetLastError and cudaPeekAtLastError report pinring's errors too.
//
// The current device is the runtime's. Both --default-stream modes work, each
// translation unit in its own, as with CUDA's own headers. C11 and C++17, with
// nvcc or any host compiler; device code is left alone.
//
// A library that was not recompiled takes a staged block for pageable memory,
// which is right but slow, and cannot free one.

#ifndef PINRING_CUDA_COMPAT_H_
#define PINRING_CUDA_COMPAT_H_

#include <cuda_runtime.h>
#include <pinring/pinring.h>
#include <string.h>

#if !defined(__CUDA_ARCH__)

// Two translation units of one program may differ in their default stream, and
// then need functions of different names.
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define PINRING_COMPAT_NAME(function) pinring_compat_per_thread_##function
#define PINRING_COMPAT_STREAM(stream) \
  ((stream) == NULL ? cudaStreamPerThread : (stream))
#else
#define PINRING_COMPAT_NAME(function) pinring_compat_##function
#define PINRING_COMPAT_STREAM(stream) (stream)
#endif

#if defined(__cplusplus)
#define PINRING_COMPAT_INLINE inline
#define PINRING_COMPAT_DEFAULT(value) = value
#else
#define PINRING_COMPAT_INLINE static inline
#define PINRING_COMPAT_DEFAULT(value)
#endif
#define PINRING_COMPAT_FUNCTION PINRING_COMPAT_INLINE cudaError_t

// --- What all of them need -------------------------------------------------

// Returns a code of pinring's. Where it is an error it is the newest, so that
// an error of the runtime's, where there is one, always came later.
PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(Ours)(cudaError_t error) {
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error;
}

// The runtime keeps a current device of its own, and makes its context current
// when it needs it.
PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(UseDevice)(void) {
  int device = 0;
  const cudaError_t error = cudaGetDevice(&device);
  return error != cudaSuccess
             ? error
             : PINRING_COMPAT_NAME(Ours)(pinringSetDevice(device));
}

// Whether either pointer is into any block of pinring's: copies of those go
// there, also of small blocks, whose ends the runtime does not know.
PINRING_COMPAT_INLINE int PINRING_COMPAT_NAME(TouchesBlock)(
    const void* first, const void* second) {
  return pinringGetBlockKind(first) != pinringBlockNone ||
         pinringGetBlockKind(second) != pinringBlockNone;
}

// Really pins what a staged pointer points to.
PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(Pin)(const void* pointer) {
  cudaError_t error = cudaSuccess;
  if (pinringGetBlockKind(pointer) != pinringBlockStaged) return cudaSuccess;
  error = PINRING_COMPAT_NAME(UseDevice)();
  return error != cudaSuccess
             ? error
             : PINRING_COMPAT_NAME(Ours)(pinringPromote((void*)pointer));
}
PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(PinBoth)(const void* first,
                                                     const void* second) {
  const cudaError_t error = PINRING_COMPAT_NAME(Pin)(first);
  return error != cudaSuccess ? error : PINRING_COMPAT_NAME(Pin)(second);
}

// pinring's form of a synchronous function, in the stream of the mode.
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(Finish)(cudaError_t error) {
  return error != cudaSuccess ? error
                              : cudaStreamSynchronize(cudaStreamPerThread);
}
#define PINRING_COMPAT_CALL(function, ...) \
  PINRING_COMPAT_NAME(Finish)              \
  (PINRING_COMPAT_NAME(Ours)(function##Async(__VA_ARGS__, cudaStreamPerThread)))
#else
#define PINRING_COMPAT_CALL(function, ...) \
  PINRING_COMPAT_NAME(Ours)(function(__VA_ARGS__))
#endif

// --- Memory ----------------------------------------------------------------

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(HostAlloc)(void** pointer,
                                                       size_t bytes,
                                                       unsigned int flags) {
  const cudaError_t error = PINRING_COMPAT_NAME(UseDevice)();
  return error != cudaSuccess ? error
                              : PINRING_COMPAT_NAME(Ours)(
                                    pinringHostAlloc(pointer, bytes, flags));
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(MallocHost)(
    void** pointer, size_t bytes
#if defined(__cplusplus)
    ,
    unsigned int flags = cudaHostAllocDefault
#endif
) {
#if !defined(__cplusplus)
  const unsigned int flags = cudaHostAllocDefault;
#endif
  return PINRING_COMPAT_NAME(HostAlloc)(pointer, bytes, flags);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(FreeHost)(void* pointer) {
  return pinringGetBlockKind(pointer) != pinringBlockNone
             ? PINRING_COMPAT_NAME(Ours)(pinringFreeHost(pointer))
             : cudaFreeHost(pointer);
}

// pinring looks whether the range overlaps a block, then registers it.
PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(HostRegister)(void* pointer,
                                                          size_t bytes,
                                                          unsigned int flags) {
  const cudaError_t error = PINRING_COMPAT_NAME(UseDevice)();
  return error != cudaSuccess ? error
                              : PINRING_COMPAT_NAME(Ours)(
                                    pinringHostRegister(pointer, bytes, flags));
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(HostUnregister)(void* pointer) {
  return pinringGetBlockKind(pointer) != pinringBlockNone
             ? PINRING_COMPAT_NAME(Ours)(pinringHostUnregister(pointer))
             : cudaHostUnregister(pointer);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(HostGetDevicePointer)(
    void** device_pointer, void* pointer, unsigned int flags) {
  return pinringGetBlockKind(pointer) != pinringBlockNone
             ? PINRING_COMPAT_NAME(Ours)(
                   pinringHostGetDevicePointer(device_pointer, pointer, flags))
             : cudaHostGetDevicePointer(device_pointer, pointer, flags);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(HostGetFlags)(unsigned int* flags,
                                                          void* pointer) {
  return pinringGetBlockKind(pointer) != pinringBlockNone
             ? PINRING_COMPAT_NAME(Ours)(pinringHostGetFlags(flags, pointer))
             : cudaHostGetFlags(flags, pointer);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(PointerGetAttributes)(
    struct cudaPointerAttributes* attributes, const void* pointer) {
  return pinringGetBlockKind(pointer) != pinringBlockNone
             ? PINRING_COMPAT_NAME(Ours)(
                   pinringPointerGetAttributes(attributes, pointer))
             : cudaPointerGetAttributes(attributes, pointer);
}

// --- 1D copies -------------------------------------------------------------

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(Memcpy)(void* dst, const void* src,
                                                    size_t bytes,
                                                    enum cudaMemcpyKind kind) {
  cudaError_t error = cudaSuccess;
  if (!PINRING_COMPAT_NAME(TouchesBlock)(dst, src)) {
    return cudaMemcpy(dst, src, bytes, kind);
  }
  error = PINRING_COMPAT_NAME(UseDevice)();
  if (error != cudaSuccess) return error;
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
  return PINRING_COMPAT_NAME(Ours)(
      pinringCopy(dst, src, bytes, kind, cudaStreamPerThread));
#else
  return PINRING_COMPAT_NAME(Ours)(pinringMemcpy(dst, src, bytes, kind));
#endif
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(MemcpyAsync)(
    void* dst, const void* src, size_t bytes, enum cudaMemcpyKind kind,
    cudaStream_t stream PINRING_COMPAT_DEFAULT(0)) {
  cudaError_t error = cudaSuccess;
  if (!PINRING_COMPAT_NAME(TouchesBlock)(dst, src)) {
    return cudaMemcpyAsync(dst, src, bytes, kind, stream);
  }
  error = PINRING_COMPAT_NAME(UseDevice)();
  if (error != cudaSuccess) return error;
  return PINRING_COMPAT_NAME(Ours)(
      pinringMemcpyAsync(dst, src, bytes, kind, PINRING_COMPAT_STREAM(stream)));
}

// --- 2D and 3D copies ------------------------------------------------------

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(Memcpy2D)(
    void* dst, size_t dst_pitch, const void* src, size_t src_pitch,
    size_t width, size_t height, enum cudaMemcpyKind kind) {
  cudaError_t error = cudaSuccess;
  if (!PINRING_COMPAT_NAME(TouchesBlock)(dst, src)) {
    return cudaMemcpy2D(dst, dst_pitch, src, src_pitch, width, height, kind);
  }
  error = PINRING_COMPAT_NAME(UseDevice)();
  if (error != cudaSuccess) return error;
  return PINRING_COMPAT_CALL(pinringMemcpy2D, dst, dst_pitch, src, src_pitch,
                             width, height, kind);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(Memcpy2DAsync)(
    void* dst, size_t dst_pitch, const void* src, size_t src_pitch,
    size_t width, size_t height, enum cudaMemcpyKind kind,
    cudaStream_t stream PINRING_COMPAT_DEFAULT(0)) {
  cudaError_t error = cudaSuccess;
  if (!PINRING_COMPAT_NAME(TouchesBlock)(dst, src)) {
    return cudaMemcpy2DAsync(dst, dst_pitch, src, src_pitch, width, height,
                             kind, stream);
  }
  error = PINRING_COMPAT_NAME(UseDevice)();
  if (error != cudaSuccess) return error;
  return PINRING_COMPAT_NAME(Ours)(
      pinringMemcpy2DAsync(dst, dst_pitch, src, src_pitch, width, height, kind,
                           PINRING_COMPAT_STREAM(stream)));
}

// Bytes of an element of the array; 0 where its channels are none that pinring
// knows, as in compressed formats.
PINRING_COMPAT_INLINE size_t
PINRING_COMPAT_NAME(ArrayElement)(cudaArray_const_t array) {
  struct cudaChannelFormatDesc channels;
  struct cudaExtent extent;
  unsigned int flags = 0;
  if (cudaArrayGetInfo(&channels, &extent, &flags, (cudaArray_t)array) !=
          cudaSuccess ||
      channels.f > cudaChannelFormatKindFloat) {
    return 0;
  }
  return (size_t)(channels.x + channels.y + channels.z + channels.w) / 8;
}

// Whether pinring copies the box: between addresses, or an address and an array
// whose elements it knows.
PINRING_COMPAT_INLINE int PINRING_COMPAT_NAME(BoxIsOurs)(
    const struct cudaMemcpy3DParms* copy) {
  const cudaArray_t array =
      copy->dstArray != NULL ? copy->dstArray : copy->srcArray;
  if (array == NULL) return 1;
  return (copy->srcArray == NULL || copy->dstArray == NULL) &&
         PINRING_COMPAT_NAME(ArrayElement)(array) != 0;
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(Memcpy3DAsync)(
    const struct cudaMemcpy3DParms* copy,
    cudaStream_t stream PINRING_COMPAT_DEFAULT(0)) {
  cudaError_t error = cudaSuccess;
  if (copy == NULL ||
      !PINRING_COMPAT_NAME(TouchesBlock)(copy->dstPtr.ptr, copy->srcPtr.ptr)) {
    return cudaMemcpy3DAsync(copy, stream);
  }
  error = PINRING_COMPAT_NAME(UseDevice)();
  if (error != cudaSuccess) return error;
  if (PINRING_COMPAT_NAME(BoxIsOurs)(copy)) {
    return PINRING_COMPAT_NAME(Ours)(
        pinringMemcpy3DAsync(copy, PINRING_COMPAT_STREAM(stream)));
  }
  error = PINRING_COMPAT_NAME(PinBoth)(copy->dstPtr.ptr, copy->srcPtr.ptr);
  return error != cudaSuccess ? error : cudaMemcpy3DAsync(copy, stream);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(Memcpy3D)(
    const struct cudaMemcpy3DParms* copy) {
  cudaError_t error = cudaSuccess;
  if (copy == NULL ||
      !PINRING_COMPAT_NAME(TouchesBlock)(copy->dstPtr.ptr, copy->srcPtr.ptr)) {
    return cudaMemcpy3D(copy);
  }
  error = PINRING_COMPAT_NAME(UseDevice)();
  if (error != cudaSuccess) return error;
  if (PINRING_COMPAT_NAME(BoxIsOurs)(copy)) {
    return PINRING_COMPAT_CALL(pinringMemcpy3D, copy);
  }
  error = PINRING_COMPAT_NAME(PinBoth)(copy->dstPtr.ptr, copy->srcPtr.ptr);
  return error != cudaSuccess ? error : cudaMemcpy3D(copy);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(Memcpy2DToArray)(
    cudaArray_t dst, size_t x, size_t y, const void* src, size_t src_pitch,
    size_t width, size_t height, enum cudaMemcpyKind kind) {
  cudaError_t error = cudaSuccess;
  if (!PINRING_COMPAT_NAME(TouchesBlock)(src, NULL)) {
    return cudaMemcpy2DToArray(dst, x, y, src, src_pitch, width, height, kind);
  }
  error = PINRING_COMPAT_NAME(UseDevice)();
  if (error != cudaSuccess) return error;
  return PINRING_COMPAT_CALL(pinringMemcpy2DToArray, dst, x, y, src, src_pitch,
                             width, height, kind);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(Memcpy2DToArrayAsync)(
    cudaArray_t dst, size_t x, size_t y, const void* src, size_t src_pitch,
    size_t width, size_t height, enum cudaMemcpyKind kind,
    cudaStream_t stream PINRING_COMPAT_DEFAULT(0)) {
  cudaError_t error = cudaSuccess;
  if (!PINRING_COMPAT_NAME(TouchesBlock)(src, NULL)) {
    return cudaMemcpy2DToArrayAsync(dst, x, y, src, src_pitch, width, height,
                                    kind, stream);
  }
  error = PINRING_COMPAT_NAME(UseDevice)();
  if (error != cudaSuccess) return error;
  return PINRING_COMPAT_NAME(Ours)(
      pinringMemcpy2DToArrayAsync(dst, x, y, src, src_pitch, width, height,
                                  kind, PINRING_COMPAT_STREAM(stream)));
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(Memcpy2DFromArray)(
    void* dst, size_t dst_pitch, cudaArray_const_t src, size_t x, size_t y,
    size_t width, size_t height, enum cudaMemcpyKind kind) {
  cudaError_t error = cudaSuccess;
  if (!PINRING_COMPAT_NAME(TouchesBlock)(dst, NULL)) {
    return cudaMemcpy2DFromArray(dst, dst_pitch, src, x, y, width, height,
                                 kind);
  }
  error = PINRING_COMPAT_NAME(UseDevice)();
  if (error != cudaSuccess) return error;
  return PINRING_COMPAT_CALL(pinringMemcpy2DFromArray, dst, dst_pitch, src, x,
                             y, width, height, kind);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(Memcpy2DFromArrayAsync)(
    void* dst, size_t dst_pitch, cudaArray_const_t src, size_t x, size_t y,
    size_t width, size_t height, enum cudaMemcpyKind kind,
    cudaStream_t stream PINRING_COMPAT_DEFAULT(0)) {
  cudaError_t error = cudaSuccess;
  if (!PINRING_COMPAT_NAME(TouchesBlock)(dst, NULL)) {
    return cudaMemcpy2DFromArrayAsync(dst, dst_pitch, src, x, y, width, height,
                                      kind, stream);
  }
  error = PINRING_COMPAT_NAME(UseDevice)();
  if (error != cudaSuccess) return error;
  return PINRING_COMPAT_NAME(Ours)(
      pinringMemcpy2DFromArrayAsync(dst, dst_pitch, src, x, y, width, height,
                                    kind, PINRING_COMPAT_STREAM(stream)));
}

// --- Copies between devices ------------------------------------------------

// The runtime has one form each of these two, in either mode.
PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(MemcpyPeer)(
    void* dst, int dst_device, const void* src, int src_device, size_t bytes) {
  cudaError_t error = cudaSuccess;
  if (!PINRING_COMPAT_NAME(TouchesBlock)(dst, src)) {
    return cudaMemcpyPeer(dst, dst_device, src, src_device, bytes);
  }
  error = PINRING_COMPAT_NAME(UseDevice)();
  if (error != cudaSuccess) return error;
  return PINRING_COMPAT_NAME(Ours)(
      pinringMemcpyPeer(dst, dst_device, src, src_device, bytes));
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(MemcpyPeerAsync)(
    void* dst, int dst_device, const void* src, int src_device, size_t bytes,
    cudaStream_t stream PINRING_COMPAT_DEFAULT(0)) {
  cudaError_t error = cudaSuccess;
  if (!PINRING_COMPAT_NAME(TouchesBlock)(dst, src)) {
    return cudaMemcpyPeerAsync(dst, dst_device, src, src_device, bytes, stream);
  }
  error = PINRING_COMPAT_NAME(UseDevice)();
  if (error != cudaSuccess) return error;
  return PINRING_COMPAT_NAME(Ours)(
      pinringMemcpyPeerAsync(dst, dst_device, src, src_device, bytes, stream));
}

// How a copy of a box between devices is made: by pinring, by the runtime once
// its blocks are pinned, or by the runtime as it is.
PINRING_COMPAT_INLINE int PINRING_COMPAT_NAME(PeerBoxTouchesBlock)(
    const struct cudaMemcpy3DPeerParms* copy) {
  return copy != NULL &&
         PINRING_COMPAT_NAME(TouchesBlock)(copy->dstPtr.ptr, copy->srcPtr.ptr);
}
PINRING_COMPAT_INLINE int PINRING_COMPAT_NAME(PeerBoxIsOurs)(
    const struct cudaMemcpy3DPeerParms* copy) {
  return copy->dstArray != NULL
             ? copy->srcArray == NULL &&
                   PINRING_COMPAT_NAME(ArrayElement)(copy->dstArray) != 0
             : copy->srcArray == NULL ||
                   PINRING_COMPAT_NAME(ArrayElement)(copy->srcArray) != 0;
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(Memcpy3DPeer)(
    const struct cudaMemcpy3DPeerParms* copy) {
  cudaError_t error = cudaSuccess;
  if (!PINRING_COMPAT_NAME(PeerBoxTouchesBlock)(copy)) {
    return cudaMemcpy3DPeer(copy);
  }
  error = PINRING_COMPAT_NAME(UseDevice)();
  if (error != cudaSuccess) return error;
  if (PINRING_COMPAT_NAME(PeerBoxIsOurs)(copy)) {
    return PINRING_COMPAT_CALL(pinringMemcpy3DPeer, copy);
  }
  error = PINRING_COMPAT_NAME(PinBoth)(copy->dstPtr.ptr, copy->srcPtr.ptr);
  return error != cudaSuccess ? error : cudaMemcpy3DPeer(copy);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(Memcpy3DPeerAsync)(
    const struct cudaMemcpy3DPeerParms* copy,
    cudaStream_t stream PINRING_COMPAT_DEFAULT(0)) {
  cudaError_t error = cudaSuccess;
  if (!PINRING_COMPAT_NAME(PeerBoxTouchesBlock)(copy)) {
    return cudaMemcpy3DPeerAsync(copy, stream);
  }
  error = PINRING_COMPAT_NAME(UseDevice)();
  if (error != cudaSuccess) return error;
  if (PINRING_COMPAT_NAME(PeerBoxIsOurs)(copy)) {
    return PINRING_COMPAT_NAME(Ours)(
        pinringMemcpy3DPeerAsync(copy, PINRING_COMPAT_STREAM(stream)));
  }
  error = PINRING_COMPAT_NAME(PinBoth)(copy->dstPtr.ptr, copy->srcPtr.ptr);
  return error != cudaSuccess ? error : cudaMemcpy3DPeerAsync(copy, stream);
}

// --- Memsets ---------------------------------------------------------------

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(Memset)(void* dst, int value,
                                                    size_t bytes) {
  cudaError_t error = cudaSuccess;
  if (!PINRING_COMPAT_NAME(TouchesBlock)(dst, NULL)) {
    return cudaMemset(dst, value, bytes);
  }
  error = PINRING_COMPAT_NAME(UseDevice)();
  if (error != cudaSuccess) return error;
  return PINRING_COMPAT_CALL(pinringMemset, dst, value, bytes);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(MemsetAsync)(
    void* dst, int value, size_t bytes,
    cudaStream_t stream PINRING_COMPAT_DEFAULT(0)) {
  cudaError_t error = cudaSuccess;
  if (!PINRING_COMPAT_NAME(TouchesBlock)(dst, NULL)) {
    return cudaMemsetAsync(dst, value, bytes, stream);
  }
  error = PINRING_COMPAT_NAME(UseDevice)();
  if (error != cudaSuccess) return error;
  return PINRING_COMPAT_NAME(Ours)(
      pinringMemsetAsync(dst, value, bytes, PINRING_COMPAT_STREAM(stream)));
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(Memset2D)(void* dst, size_t pitch,
                                                      int value, size_t width,
                                                      size_t height) {
  cudaError_t error = cudaSuccess;
  if (!PINRING_COMPAT_NAME(TouchesBlock)(dst, NULL)) {
    return cudaMemset2D(dst, pitch, value, width, height);
  }
  error = PINRING_COMPAT_NAME(UseDevice)();
  if (error != cudaSuccess) return error;
  return PINRING_COMPAT_CALL(pinringMemset2D, dst, pitch, value, width, height);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(Memset2DAsync)(
    void* dst, size_t pitch, int value, size_t width, size_t height,
    cudaStream_t stream PINRING_COMPAT_DEFAULT(0)) {
  cudaError_t error = cudaSuccess;
  if (!PINRING_COMPAT_NAME(TouchesBlock)(dst, NULL)) {
    return cudaMemset2DAsync(dst, pitch, value, width, height, stream);
  }
  error = PINRING_COMPAT_NAME(UseDevice)();
  if (error != cudaSuccess) return error;
  return PINRING_COMPAT_NAME(Ours)(pinringMemset2DAsync(
      dst, pitch, value, width, height, PINRING_COMPAT_STREAM(stream)));
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(Memset3D)(
    struct cudaPitchedPtr dst, int value, struct cudaExtent extent) {
  cudaError_t error = cudaSuccess;
  if (!PINRING_COMPAT_NAME(TouchesBlock)(dst.ptr, NULL)) {
    return cudaMemset3D(dst, value, extent);
  }
  error = PINRING_COMPAT_NAME(UseDevice)();
  if (error != cudaSuccess) return error;
  return PINRING_COMPAT_CALL(pinringMemset3D, dst, value, extent);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(Memset3DAsync)(
    struct cudaPitchedPtr dst, int value, struct cudaExtent extent,
    cudaStream_t stream PINRING_COMPAT_DEFAULT(0)) {
  cudaError_t error = cudaSuccess;
  if (!PINRING_COMPAT_NAME(TouchesBlock)(dst.ptr, NULL)) {
    return cudaMemset3DAsync(dst, value, extent, stream);
  }
  error = PINRING_COMPAT_NAME(UseDevice)();
  if (error != cudaSuccess) return error;
  return PINRING_COMPAT_NAME(Ours)(
      pinringMemset3DAsync(dst, value, extent, PINRING_COMPAT_STREAM(stream)));
}

// --- Errors ----------------------------------------------------------------

// Both are asked, so that neither is left behind.
PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(GetLastError)(void) {
  const cudaError_t ours = pinringGetLastError();
  const cudaError_t theirs = cudaGetLastError();
  return theirs != cudaSuccess ? theirs : ours;
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(PeekAtLastError)(void) {
  const cudaError_t theirs = cudaPeekAtLastError();
  return theirs != cudaSuccess ? theirs : pinringPeekAtLastError();
}

// --- Copies whose blocks are pinned first ----------------------------------

// cudaMemcpyToArray and cudaMemcpyFromArray are deprecated, which is for their
// callers to hear.
#if defined(__NVCC__)
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1444
#pragma nv_diag_suppress 1215
#endif
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#elif defined(_MSC_VER)
#pragma warning(push)
#pragma warning(disable : 4996)
#endif

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(MemcpyToArray)(
    cudaArray_t dst, size_t x, size_t y, const void* src, size_t bytes,
    enum cudaMemcpyKind kind) {
  const cudaError_t error = PINRING_COMPAT_NAME(Pin)(src);
  return error != cudaSuccess ? error
                              : cudaMemcpyToArray(dst, x, y, src, bytes, kind);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(MemcpyFromArray)(
    void* dst, cudaArray_const_t src, size_t x, size_t y, size_t bytes,
    enum cudaMemcpyKind kind) {
  const cudaError_t error = PINRING_COMPAT_NAME(Pin)(dst);
  return error != cudaSuccess
             ? error
             : cudaMemcpyFromArray(dst, src, x, y, bytes, kind);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(MemcpyToArrayAsync)(
    cudaArray_t dst, size_t x, size_t y, const void* src, size_t bytes,
    enum cudaMemcpyKind kind, cudaStream_t stream PINRING_COMPAT_DEFAULT(0)) {
  const cudaError_t error = PINRING_COMPAT_NAME(Pin)(src);
  return error != cudaSuccess
             ? error
             : cudaMemcpyToArrayAsync(dst, x, y, src, bytes, kind, stream);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(MemcpyFromArrayAsync)(
    void* dst, cudaArray_const_t src, size_t x, size_t y, size_t bytes,
    enum cudaMemcpyKind kind, cudaStream_t stream PINRING_COMPAT_DEFAULT(0)) {
  const cudaError_t error = PINRING_COMPAT_NAME(Pin)(dst);
  return error != cudaSuccess
             ? error
             : cudaMemcpyFromArrayAsync(dst, src, x, y, bytes, kind, stream);
}

#if defined(__GNUC__)
#pragma GCC diagnostic pop
#elif defined(_MSC_VER)
#pragma warning(pop)
#endif
#if defined(__NVCC__)
#pragma nv_diagnostic pop
#endif

// --- Symbols ---------------------------------------------------------------

// Where a copy begins in a symbol; null where the range is not in it, which is
// for the runtime to say.
PINRING_COMPAT_INLINE char* PINRING_COMPAT_NAME(InSymbol)(const void* symbol,
                                                          size_t bytes,
                                                          size_t offset) {
  void* address = NULL;
  size_t all = 0;
  if (cudaGetSymbolAddress(&address, symbol) != cudaSuccess ||
      cudaGetSymbolSize(&all, symbol) != cudaSuccess || offset > all ||
      bytes > all - offset) {
    return NULL;
  }
  return (char*)address + offset;
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(MemcpyToSymbol)(
    const void* symbol, const void* src, size_t bytes,
    size_t offset PINRING_COMPAT_DEFAULT(0),
    enum cudaMemcpyKind kind PINRING_COMPAT_DEFAULT(cudaMemcpyHostToDevice)) {
  char* dst = NULL;
  if (PINRING_COMPAT_NAME(TouchesBlock)(src, NULL) &&
      (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDefault)) {
    dst = PINRING_COMPAT_NAME(InSymbol)(symbol, bytes, offset);
  }
  return dst == NULL ? cudaMemcpyToSymbol(symbol, src, bytes, offset, kind)
                     : PINRING_COMPAT_NAME(Memcpy)(dst, src, bytes, kind);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(MemcpyFromSymbol)(
    void* dst, const void* symbol, size_t bytes,
    size_t offset PINRING_COMPAT_DEFAULT(0),
    enum cudaMemcpyKind kind PINRING_COMPAT_DEFAULT(cudaMemcpyDeviceToHost)) {
  const char* src = NULL;
  if (PINRING_COMPAT_NAME(TouchesBlock)(dst, NULL) &&
      (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDefault)) {
    src = PINRING_COMPAT_NAME(InSymbol)(symbol, bytes, offset);
  }
  return src == NULL ? cudaMemcpyFromSymbol(dst, symbol, bytes, offset, kind)
                     : PINRING_COMPAT_NAME(Memcpy)(dst, src, bytes, kind);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(MemcpyToSymbolAsync)(
    const void* symbol, const void* src, size_t bytes, size_t offset,
    enum cudaMemcpyKind kind, cudaStream_t stream PINRING_COMPAT_DEFAULT(0)) {
  char* dst = NULL;
  if (PINRING_COMPAT_NAME(TouchesBlock)(src, NULL) &&
      (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDefault)) {
    dst = PINRING_COMPAT_NAME(InSymbol)(symbol, bytes, offset);
  }
  return dst == NULL
             ? cudaMemcpyToSymbolAsync(symbol, src, bytes, offset, kind, stream)
             : PINRING_COMPAT_NAME(MemcpyAsync)(dst, src, bytes, kind, stream);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(MemcpyFromSymbolAsync)(
    void* dst, const void* symbol, size_t bytes, size_t offset,
    enum cudaMemcpyKind kind, cudaStream_t stream PINRING_COMPAT_DEFAULT(0)) {
  const char* src = NULL;
  if (PINRING_COMPAT_NAME(TouchesBlock)(dst, NULL) &&
      (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDefault)) {
    src = PINRING_COMPAT_NAME(InSymbol)(symbol, bytes, offset);
  }
  return src == NULL
             ? cudaMemcpyFromSymbolAsync(dst, symbol, bytes, offset, kind,
                                         stream)
             : PINRING_COMPAT_NAME(MemcpyAsync)(dst, src, bytes, kind, stream);
}

// --- Graphs ----------------------------------------------------------------

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(StreamBeginCapture)(
    cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  const cudaError_t error = PINRING_COMPAT_NAME(UseDevice)();
  return error != cudaSuccess
             ? error
             : PINRING_COMPAT_NAME(Ours)(pinringStreamBeginCapture(
                   PINRING_COMPAT_STREAM(stream), mode));
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(StreamEndCapture)(
    cudaStream_t stream, cudaGraph_t* graph) {
  return PINRING_COMPAT_NAME(Ours)(
      pinringStreamEndCapture(PINRING_COMPAT_STREAM(stream), graph));
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(GraphInstantiateWithFlags)(
    cudaGraphExec_t* executable, cudaGraph_t graph,
    unsigned long long flags PINRING_COMPAT_DEFAULT(0)) {
  const cudaError_t error = PINRING_COMPAT_NAME(UseDevice)();
  return error != cudaSuccess
             ? error
             : PINRING_COMPAT_NAME(Ours)(
                   pinringGraphInstantiate(executable, graph, flags));
}

// The runtime's form before CUDA 12, which C++ still has. The node and the text
// are about errors, of which the code tells.
#if defined(__cplusplus) || CUDART_VERSION < 12000
PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(GraphInstantiate)(
    cudaGraphExec_t* executable, cudaGraph_t graph, cudaGraphNode_t* error_node,
    char* text, size_t text_bytes) {
  if (error_node != NULL) *error_node = NULL;
  if (text != NULL && text_bytes > 0) text[0] = '\0';
  return PINRING_COMPAT_NAME(GraphInstantiateWithFlags)(executable, graph, 0);
}
#endif
#if CUDART_VERSION >= 12000
PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(GraphInstantiate)(
    cudaGraphExec_t* executable, cudaGraph_t graph,
    unsigned long long flags PINRING_COMPAT_DEFAULT(0)) {
  return PINRING_COMPAT_NAME(GraphInstantiateWithFlags)(executable, graph,
                                                        flags);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(GraphInstantiateWithParams)(
    cudaGraphExec_t* executable, cudaGraph_t graph,
    cudaGraphInstantiateParams* parameters) {
  const cudaError_t error =
      PINRING_COMPAT_NAME(Ours)(pinringGraphPromote(graph));
  return error != cudaSuccess
             ? error
             : cudaGraphInstantiateWithParams(executable, graph, parameters);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(GraphExecUpdate)(
    cudaGraphExec_t executable, cudaGraph_t graph,
    cudaGraphExecUpdateResultInfo* result) {
  const cudaError_t error =
      PINRING_COMPAT_NAME(Ours)(pinringGraphPrepareUpdate(executable, graph));
  if (error == cudaErrorGraphExecUpdateFailure && result != NULL) {
    result->result = cudaGraphExecUpdateErrorTopologyChanged;
    result->errorNode = NULL;
    result->errorFromNode = NULL;
  }
  return error != cudaSuccess ? error
                              : cudaGraphExecUpdate(executable, graph, result);
}
#else
PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(GraphExecUpdate)(
    cudaGraphExec_t executable, cudaGraph_t graph, cudaGraphNode_t* error_node,
    enum cudaGraphExecUpdateResult* result) {
  const cudaError_t error =
      PINRING_COMPAT_NAME(Ours)(pinringGraphPrepareUpdate(executable, graph));
  if (error == cudaErrorGraphExecUpdateFailure) {
    if (error_node != NULL) *error_node = NULL;
    if (result != NULL) *result = cudaGraphExecUpdateErrorTopologyChanged;
  }
  return error != cudaSuccess
             ? error
             : cudaGraphExecUpdate(executable, graph, error_node, result);
}
#endif

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(GraphLaunch)(
    cudaGraphExec_t executable, cudaStream_t stream) {
  return PINRING_COMPAT_NAME(Ours)(
      pinringGraphLaunch(executable, PINRING_COMPAT_STREAM(stream)));
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(GraphExecDestroy)(
    cudaGraphExec_t executable) {
  return PINRING_COMPAT_NAME(Ours)(pinringGraphExecDestroy(executable));
}

// The node that the driver knows in an executable graph.
PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(ExecNode)(
    cudaGraphExec_t executable, cudaGraphNode_t node, cudaGraphNode_t* found) {
  return PINRING_COMPAT_NAME(Ours)(
      pinringGraphExecNode(executable, node, found));
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(GraphExecKernelNodeSetParams)(
    cudaGraphExec_t executable, cudaGraphNode_t node,
    const struct cudaKernelNodeParams* parameters) {
  cudaGraphNode_t found = NULL;
  const cudaError_t error =
      PINRING_COMPAT_NAME(ExecNode)(executable, node, &found);
  return error != cudaSuccess
             ? error
             : cudaGraphExecKernelNodeSetParams(executable, found, parameters);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(GraphExecHostNodeSetParams)(
    cudaGraphExec_t executable, cudaGraphNode_t node,
    const struct cudaHostNodeParams* parameters) {
  cudaGraphNode_t found = NULL;
  const cudaError_t error =
      PINRING_COMPAT_NAME(ExecNode)(executable, node, &found);
  return error != cudaSuccess
             ? error
             : cudaGraphExecHostNodeSetParams(executable, found, parameters);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(GraphExecMemsetNodeSetParams)(
    cudaGraphExec_t executable, cudaGraphNode_t node,
    const struct cudaMemsetParams* fill) {
  cudaGraphNode_t found = NULL;
  cudaError_t error = PINRING_COMPAT_NAME(ExecNode)(executable, node, &found);
  if (error == cudaSuccess && fill != NULL) {
    error = PINRING_COMPAT_NAME(Pin)(fill->dst);
  }
  return error != cudaSuccess
             ? error
             : cudaGraphExecMemsetNodeSetParams(executable, found, fill);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(GraphExecChildGraphNodeSetParams)(
    cudaGraphExec_t executable, cudaGraphNode_t node, cudaGraph_t child) {
  cudaGraphNode_t found = NULL;
  cudaError_t error = PINRING_COMPAT_NAME(ExecNode)(executable, node, &found);
  if (error == cudaSuccess) {
    error = PINRING_COMPAT_NAME(Ours)(pinringGraphPromote(child));
  }
  return error != cudaSuccess
             ? error
             : cudaGraphExecChildGraphNodeSetParams(executable, found, child);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(GraphExecEventRecordNodeSetEvent)(
    cudaGraphExec_t executable, cudaGraphNode_t node, cudaEvent_t event) {
  cudaGraphNode_t found = NULL;
  const cudaError_t error =
      PINRING_COMPAT_NAME(ExecNode)(executable, node, &found);
  return error != cudaSuccess
             ? error
             : cudaGraphExecEventRecordNodeSetEvent(executable, found, event);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(GraphExecEventWaitNodeSetEvent)(
    cudaGraphExec_t executable, cudaGraphNode_t node, cudaEvent_t event) {
  cudaGraphNode_t found = NULL;
  const cudaError_t error =
      PINRING_COMPAT_NAME(ExecNode)(executable, node, &found);
  return error != cudaSuccess
             ? error
             : cudaGraphExecEventWaitNodeSetEvent(executable, found, event);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(GraphNodeSetEnabled)(
    cudaGraphExec_t executable, cudaGraphNode_t node, unsigned int enabled) {
  cudaGraphNode_t found = NULL;
  const cudaError_t error =
      PINRING_COMPAT_NAME(ExecNode)(executable, node, &found);
  return error != cudaSuccess
             ? error
             : cudaGraphNodeSetEnabled(executable, found, enabled);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(GraphNodeGetEnabled)(
    cudaGraphExec_t executable, cudaGraphNode_t node, unsigned int* enabled) {
  cudaGraphNode_t found = NULL;
  const cudaError_t error =
      PINRING_COMPAT_NAME(ExecNode)(executable, node, &found);
  return error != cudaSuccess
             ? error
             : cudaGraphNodeGetEnabled(executable, found, enabled);
}

// --- Nodes of graphs that are built by hand --------------------------------

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(GraphAddMemcpyNode)(
    cudaGraphNode_t* node, cudaGraph_t graph,
    const cudaGraphNode_t* dependencies, size_t dependency_count,
    const struct cudaMemcpy3DParms* copy) {
  const cudaError_t error =
      copy == NULL
          ? cudaSuccess
          : PINRING_COMPAT_NAME(PinBoth)(copy->dstPtr.ptr, copy->srcPtr.ptr);
  return error != cudaSuccess
             ? error
             : cudaGraphAddMemcpyNode(node, graph, dependencies,
                                      dependency_count, copy);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(GraphAddMemcpyNode1D)(
    cudaGraphNode_t* node, cudaGraph_t graph,
    const cudaGraphNode_t* dependencies, size_t dependency_count, void* dst,
    const void* src, size_t bytes, enum cudaMemcpyKind kind) {
  const cudaError_t error = PINRING_COMPAT_NAME(PinBoth)(dst, src);
  return error != cudaSuccess ? error
                              : cudaGraphAddMemcpyNode1D(
                                    node, graph, dependencies, dependency_count,
                                    dst, src, bytes, kind);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(GraphMemcpyNodeSetParams)(
    cudaGraphNode_t node, const struct cudaMemcpy3DParms* copy) {
  const cudaError_t error =
      copy == NULL
          ? cudaSuccess
          : PINRING_COMPAT_NAME(PinBoth)(copy->dstPtr.ptr, copy->srcPtr.ptr);
  return error != cudaSuccess ? error
                              : cudaGraphMemcpyNodeSetParams(node, copy);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(GraphMemcpyNodeSetParams1D)(
    cudaGraphNode_t node, void* dst, const void* src, size_t bytes,
    enum cudaMemcpyKind kind) {
  const cudaError_t error = PINRING_COMPAT_NAME(PinBoth)(dst, src);
  return error != cudaSuccess
             ? error
             : cudaGraphMemcpyNodeSetParams1D(node, dst, src, bytes, kind);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(GraphExecMemcpyNodeSetParams)(
    cudaGraphExec_t graph, cudaGraphNode_t node,
    const struct cudaMemcpy3DParms* copy) {
  cudaGraphNode_t found = NULL;
  cudaError_t error = PINRING_COMPAT_NAME(ExecNode)(graph, node, &found);
  if (error == cudaSuccess && copy != NULL) {
    error = PINRING_COMPAT_NAME(PinBoth)(copy->dstPtr.ptr, copy->srcPtr.ptr);
  }
  return error != cudaSuccess
             ? error
             : cudaGraphExecMemcpyNodeSetParams(graph, found, copy);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(GraphExecMemcpyNodeSetParams1D)(
    cudaGraphExec_t graph, cudaGraphNode_t node, void* dst, const void* src,
    size_t bytes, enum cudaMemcpyKind kind) {
  cudaGraphNode_t found = NULL;
  cudaError_t error = PINRING_COMPAT_NAME(ExecNode)(graph, node, &found);
  if (error == cudaSuccess) error = PINRING_COMPAT_NAME(PinBoth)(dst, src);
  return error != cudaSuccess ? error
                              : cudaGraphExecMemcpyNodeSetParams1D(
                                    graph, found, dst, src, bytes, kind);
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(GraphAddMemsetNode)(
    cudaGraphNode_t* node, cudaGraph_t graph,
    const cudaGraphNode_t* dependencies, size_t dependency_count,
    const struct cudaMemsetParams* fill) {
  const cudaError_t error =
      fill == NULL ? cudaSuccess : PINRING_COMPAT_NAME(Pin)(fill->dst);
  return error != cudaSuccess
             ? error
             : cudaGraphAddMemsetNode(node, graph, dependencies,
                                      dependency_count, fill);
}

// --- Batches ---------------------------------------------------------------

#if CUDART_VERSION >= 12080
#if CUDART_VERSION >= 13000
#define PINRING_COMPAT_FAILED_PARAMETER
#define PINRING_COMPAT_FAILED
#define PINRING_COMPAT_CONST const
#else
#define PINRING_COMPAT_FAILED_PARAMETER , size_t* failed
#define PINRING_COMPAT_FAILED , failed
#define PINRING_COMPAT_CONST
#endif

// How a batch that touches a block is copied: by pinring, by the runtime
// once its blocks are pinned, or by the runtime as it is.
enum PINRING_COMPAT_NAME(BatchWay) {
  PINRING_COMPAT_NAME(BatchRing),
  PINRING_COMPAT_NAME(BatchPinned),
  PINRING_COMPAT_NAME(BatchRuntime)
};

// A batch with something wrong about it is the runtime's, which says so.
PINRING_COMPAT_INLINE enum PINRING_COMPAT_NAME(BatchWay)
    PINRING_COMPAT_NAME(WayOfBatch)(
        const void* const* dsts, const void* const* srcs, const size_t* sizes,
        size_t count, const struct cudaMemcpyAttributes* attributes,
        const size_t* indices, size_t attribute_count, cudaStream_t stream) {
  enum cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  int ours = 0;
  size_t i = 0;
  if (dsts == NULL || srcs == NULL || sizes == NULL) {
    return PINRING_COMPAT_NAME(BatchRuntime);
  }
  for (i = 0; i < count && !ours; ++i) {
    ours = PINRING_COMPAT_NAME(TouchesBlock)(dsts[i], srcs[i]);
  }
  if (!ours) return PINRING_COMPAT_NAME(BatchRuntime);
  if (attributes == NULL || indices == NULL || attribute_count == 0 ||
      attribute_count > count || indices[0] != 0 || stream == NULL ||
      stream == cudaStreamLegacy) {
    return PINRING_COMPAT_NAME(BatchPinned);
  }
  for (i = 0; i < attribute_count; ++i) {
    if (attributes[i].srcAccessOrder < cudaMemcpySrcAccessOrderStream ||
        attributes[i].srcAccessOrder > cudaMemcpySrcAccessOrderAny ||
        indices[i] >= count || (i > 0 && indices[i] <= indices[i - 1])) {
      return PINRING_COMPAT_NAME(BatchPinned);
    }
  }
  return cudaStreamIsCapturing(stream, &capturing) == cudaSuccess &&
                 capturing == cudaStreamCaptureStatusNone
             ? PINRING_COMPAT_NAME(BatchRing)
             : PINRING_COMPAT_NAME(BatchPinned);
}

// Each copy by itself, in the order of the lists, which is one of those that a
// batch may take.
PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(CopyBatch)(
    void* const* dsts, const void* const* srcs, const size_t* sizes,
    size_t count, const struct cudaMemcpyAttributes* attributes,
    const size_t* indices, size_t attribute_count, size_t* failed,
    cudaStream_t stream) {
  size_t attribute = 0;
  size_t i = 0;
  cudaError_t error = PINRING_COMPAT_NAME(UseDevice)();
  if (failed != NULL) *failed = (size_t)-1;
  for (i = 0; i < count && error == cudaSuccess; ++i) {
    if (attribute + 1 < attribute_count && indices[attribute + 1] == i) {
      ++attribute;
    }
    error = PINRING_COMPAT_NAME(Ours)(pinringCopyAsync(
        dsts[i], srcs[i], sizes[i], cudaMemcpyDefault,
        (enum pinringAccess)attributes[attribute].srcAccessOrder, stream));
    if (error != cudaSuccess && failed != NULL) *failed = i;
  }
  return error;
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(MemcpyBatchAsync)(
    void* PINRING_COMPAT_CONST* dsts,
    PINRING_COMPAT_CONST void* PINRING_COMPAT_CONST* srcs,
    PINRING_COMPAT_CONST size_t* sizes, size_t count,
    struct cudaMemcpyAttributes* attributes, size_t* attribute_indices,
    size_t attribute_count PINRING_COMPAT_FAILED_PARAMETER,
    cudaStream_t stream) {
#if CUDART_VERSION >= 13000
  size_t* const failed = NULL;
#endif
  size_t i = 0;
  const enum PINRING_COMPAT_NAME(BatchWay) way = PINRING_COMPAT_NAME(
      WayOfBatch)((const void* const*)dsts, (const void* const*)srcs, sizes,
                  count, attributes, attribute_indices, attribute_count,
                  PINRING_COMPAT_STREAM(stream));
  if (way == PINRING_COMPAT_NAME(BatchRing)) {
    return PINRING_COMPAT_NAME(CopyBatch)(
        (void* const*)dsts, (const void* const*)srcs, sizes, count, attributes,
        attribute_indices, attribute_count, failed,
        PINRING_COMPAT_STREAM(stream));
  }
  for (i = 0; way == PINRING_COMPAT_NAME(BatchPinned) && i < count; ++i) {
    const cudaError_t error = PINRING_COMPAT_NAME(PinBoth)(dsts[i], srcs[i]);
    if (error != cudaSuccess) return error;
  }
  return cudaMemcpyBatchAsync(dsts, srcs, sizes, count, attributes,
                              attribute_indices,
                              attribute_count PINRING_COMPAT_FAILED, stream);
}

// A batch of boxes. What one operand is in the words of cudaMemcpy3DParms.
PINRING_COMPAT_INLINE const void* PINRING_COMPAT_NAME(OperandPointer)(
    const struct cudaMemcpy3DOperand* operand) {
  return operand->type == cudaMemcpyOperandTypePointer ? operand->op.ptr.ptr
                                                       : NULL;
}
PINRING_COMPAT_INLINE int PINRING_COMPAT_NAME(SetOperand)(
    const struct cudaMemcpy3DOperand* operand, const struct cudaExtent* extent,
    size_t element, struct cudaPitchedPtr* pointer, cudaArray_t* array,
    struct cudaPos* position) {
  if (operand->type == cudaMemcpyOperandTypePointer) {
    const size_t length = operand->op.ptr.rowLength;
    const size_t height = operand->op.ptr.layerHeight;
    const size_t row = length == 0 ? extent->width : length;
    if (operand->op.ptr.ptr == NULL || row < extent->width ||
        (height != 0 && height < extent->height) ||
        row > (size_t)-1 / element) {
      return 0;
    }
    pointer->ptr = operand->op.ptr.ptr;
    pointer->pitch = row * element;
    pointer->xsize = pointer->pitch;
    pointer->ysize = height == 0 ? extent->height : height;
    return 1;
  }
  *array = operand->op.array.array;
  position->x = operand->op.array.offset.x;
  position->y = operand->op.array.offset.y;
  position->z = operand->op.array.offset.z;
  return operand->type == cudaMemcpyOperandTypeArray && *array != NULL;
}

// Says in those words what one copy of a batch is; 0 where only the runtime can
// judge or make it.
PINRING_COMPAT_INLINE int PINRING_COMPAT_NAME(DescribeBatchBox)(
    const struct cudaMemcpy3DBatchOp* box, struct cudaMemcpy3DParms* copy) {
  const int to_array = box->dst.type == cudaMemcpyOperandTypeArray;
  const int from_array = box->src.type == cudaMemcpyOperandTypeArray;
  size_t element = 1;
  memset(copy, 0, sizeof(*copy));
  copy->extent = box->extent;
  copy->kind = cudaMemcpyDefault;
  if (box->extent.width == 0 || box->extent.height == 0 ||
      box->extent.depth == 0 || (to_array && from_array) ||
      box->srcAccessOrder < cudaMemcpySrcAccessOrderStream ||
      box->srcAccessOrder > cudaMemcpySrcAccessOrderAny) {
    return 0;
  }
  if (to_array || from_array) {
    element = PINRING_COMPAT_NAME(ArrayElement)(
        to_array ? box->dst.op.array.array : box->src.op.array.array);
    if (element == 0) return 0;
  }
  return PINRING_COMPAT_NAME(SetOperand)(&box->src, &box->extent, element,
                                         &copy->srcPtr, &copy->srcArray,
                                         &copy->srcPos) &&
         PINRING_COMPAT_NAME(SetOperand)(&box->dst, &box->extent, element,
                                         &copy->dstPtr, &copy->dstArray,
                                         &copy->dstPos);
}

PINRING_COMPAT_INLINE enum PINRING_COMPAT_NAME(BatchWay)
    PINRING_COMPAT_NAME(WayOfBoxes)(size_t count,
                                    const struct cudaMemcpy3DBatchOp* copies,
                                    unsigned long long flags,
                                    cudaStream_t stream) {
  enum cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  struct cudaMemcpy3DParms copy;
  int ours = 0;
  size_t i = 0;
  if (copies == NULL) return PINRING_COMPAT_NAME(BatchRuntime);
  for (i = 0; i < count && !ours; ++i) {
    ours = PINRING_COMPAT_NAME(TouchesBlock)(
        PINRING_COMPAT_NAME(OperandPointer)(&copies[i].dst),
        PINRING_COMPAT_NAME(OperandPointer)(&copies[i].src));
  }
  if (!ours) return PINRING_COMPAT_NAME(BatchRuntime);
  if (flags != 0 || stream == NULL || stream == cudaStreamLegacy) {
    return PINRING_COMPAT_NAME(BatchPinned);
  }
  for (i = 0; i < count; ++i) {
    if (!PINRING_COMPAT_NAME(DescribeBatchBox)(&copies[i], &copy)) {
      return PINRING_COMPAT_NAME(BatchPinned);
    }
  }
  return cudaStreamIsCapturing(stream, &capturing) == cudaSuccess &&
                 capturing == cudaStreamCaptureStatusNone
             ? PINRING_COMPAT_NAME(BatchRing)
             : PINRING_COMPAT_NAME(BatchPinned);
}

// Each copy by itself, in the order of the list.
PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(CopyBoxes)(
    size_t count, const struct cudaMemcpy3DBatchOp* copies, size_t* failed,
    cudaStream_t stream) {
  struct cudaMemcpy3DParms copy;
  size_t i = 0;
  cudaError_t error = PINRING_COMPAT_NAME(UseDevice)();
  if (failed != NULL) *failed = (size_t)-1;
  for (i = 0; i < count && error == cudaSuccess; ++i) {
    (void)PINRING_COMPAT_NAME(DescribeBatchBox)(&copies[i], &copy);
    error = PINRING_COMPAT_NAME(Ours)(pinringCopy3DAsync(
        &copy, (enum pinringAccess)copies[i].srcAccessOrder, stream));
    if (error != cudaSuccess && failed != NULL) *failed = i;
  }
  return error;
}

PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(Memcpy3DBatchAsync)(
    size_t count,
    struct cudaMemcpy3DBatchOp* copies PINRING_COMPAT_FAILED_PARAMETER,
    unsigned long long flags, cudaStream_t stream) {
#if CUDART_VERSION >= 13000
  size_t* const failed = NULL;
#endif
  size_t i = 0;
  const enum PINRING_COMPAT_NAME(BatchWay) way = PINRING_COMPAT_NAME(
      WayOfBoxes)(count, copies, flags, PINRING_COMPAT_STREAM(stream));
  if (way == PINRING_COMPAT_NAME(BatchRing)) {
    return PINRING_COMPAT_NAME(CopyBoxes)(count, copies, failed,
                                          PINRING_COMPAT_STREAM(stream));
  }
  for (i = 0; way == PINRING_COMPAT_NAME(BatchPinned) && i < count; ++i) {
    const cudaError_t error = PINRING_COMPAT_NAME(PinBoth)(
        PINRING_COMPAT_NAME(OperandPointer)(&copies[i].dst),
        PINRING_COMPAT_NAME(OperandPointer)(&copies[i].src));
    if (error != cudaSuccess) return error;
  }
  return cudaMemcpy3DBatchAsync(count, copies PINRING_COMPAT_FAILED, flags,
                                stream);
}
#endif

// --- The overloads of C++ --------------------------------------------------

#if defined(__cplusplus)
template <typename T>
PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(MallocHost)(
    T** pointer, size_t bytes, unsigned int flags = cudaHostAllocDefault) {
  return PINRING_COMPAT_NAME(HostAlloc)((void**)(void*)pointer, bytes, flags);
}

template <typename T>
PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(HostAlloc)(T** pointer,
                                                       size_t bytes,
                                                       unsigned int flags) {
  return PINRING_COMPAT_NAME(HostAlloc)((void**)(void*)pointer, bytes, flags);
}

template <typename T>
PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(HostGetDevicePointer)(
    T** device_pointer, void* pointer, unsigned int flags) {
  return PINRING_COMPAT_NAME(HostGetDevicePointer)(
      (void**)(void*)device_pointer, pointer, flags);
}

template <typename T>
PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(MemcpyToSymbol)(
    const T& symbol, const void* src, size_t bytes, size_t offset = 0,
    enum cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
  return PINRING_COMPAT_NAME(MemcpyToSymbol)((const void*)&symbol, src, bytes,
                                             offset, kind);
}

template <typename T>
PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(MemcpyToSymbolAsync)(
    const T& symbol, const void* src, size_t bytes, size_t offset = 0,
    enum cudaMemcpyKind kind = cudaMemcpyHostToDevice,
    cudaStream_t stream = 0) {
  return PINRING_COMPAT_NAME(MemcpyToSymbolAsync)((const void*)&symbol, src,
                                                  bytes, offset, kind, stream);
}

template <typename T>
PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(MemcpyFromSymbol)(
    void* dst, const T& symbol, size_t bytes, size_t offset = 0,
    enum cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
  return PINRING_COMPAT_NAME(MemcpyFromSymbol)(dst, (const void*)&symbol, bytes,
                                               offset, kind);
}

template <typename T>
PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(MemcpyFromSymbolAsync)(
    void* dst, const T& symbol, size_t bytes, size_t offset = 0,
    enum cudaMemcpyKind kind = cudaMemcpyDeviceToHost,
    cudaStream_t stream = 0) {
  return PINRING_COMPAT_NAME(MemcpyFromSymbolAsync)(
      dst, (const void*)&symbol, bytes, offset, kind, stream);
}

#if CUDART_VERSION >= 13000
template <typename T, typename U>
PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(MemcpyBatchAsync)(
    T* const* dsts, U* const* srcs, const size_t* sizes, size_t count,
    struct cudaMemcpyAttributes* attributes, size_t* attribute_indices,
    size_t attribute_count, cudaStream_t stream) {
  return PINRING_COMPAT_NAME(MemcpyBatchAsync)(
      (void* const*)dsts, (const void* const*)srcs, sizes, count, attributes,
      attribute_indices, attribute_count, stream);
}

template <typename T, typename U>
PINRING_COMPAT_FUNCTION PINRING_COMPAT_NAME(MemcpyBatchAsync)(
    T* const* dsts, U* const* srcs, const size_t* sizes, size_t count,
    struct cudaMemcpyAttributes attributes, cudaStream_t stream) {
  size_t index = 0;
  return PINRING_COMPAT_NAME(MemcpyBatchAsync)(
      (void* const*)dsts, (const void* const*)srcs, sizes, count, &attributes,
      &index, 1, stream);
}
#endif
#endif  // defined(__cplusplus)

// --- The names -------------------------------------------------------------
//
// Each is replaced by one identifier: qualified names, explicit template
// arguments and addresses of functions go on working.

#undef cudaHostAlloc
#define cudaHostAlloc PINRING_COMPAT_NAME(HostAlloc)
#undef cudaMallocHost
#define cudaMallocHost PINRING_COMPAT_NAME(MallocHost)
#undef cudaFreeHost
#define cudaFreeHost PINRING_COMPAT_NAME(FreeHost)
#undef cudaHostRegister
#define cudaHostRegister PINRING_COMPAT_NAME(HostRegister)
#undef cudaHostUnregister
#define cudaHostUnregister PINRING_COMPAT_NAME(HostUnregister)
#undef cudaHostGetDevicePointer
#define cudaHostGetDevicePointer PINRING_COMPAT_NAME(HostGetDevicePointer)
#undef cudaHostGetFlags
#define cudaHostGetFlags PINRING_COMPAT_NAME(HostGetFlags)
#undef cudaPointerGetAttributes
#define cudaPointerGetAttributes PINRING_COMPAT_NAME(PointerGetAttributes)
#undef cudaMemcpy
#define cudaMemcpy PINRING_COMPAT_NAME(Memcpy)
#undef cudaMemcpyAsync
#define cudaMemcpyAsync PINRING_COMPAT_NAME(MemcpyAsync)
#undef cudaGetLastError
#define cudaGetLastError PINRING_COMPAT_NAME(GetLastError)
#undef cudaPeekAtLastError
#define cudaPeekAtLastError PINRING_COMPAT_NAME(PeekAtLastError)
#undef cudaMemcpy2D
#define cudaMemcpy2D PINRING_COMPAT_NAME(Memcpy2D)
#undef cudaMemcpy2DToArray
#define cudaMemcpy2DToArray PINRING_COMPAT_NAME(Memcpy2DToArray)
#undef cudaMemcpy2DFromArray
#define cudaMemcpy2DFromArray PINRING_COMPAT_NAME(Memcpy2DFromArray)
#undef cudaMemcpyToArray
#define cudaMemcpyToArray PINRING_COMPAT_NAME(MemcpyToArray)
#undef cudaMemcpyFromArray
#define cudaMemcpyFromArray PINRING_COMPAT_NAME(MemcpyFromArray)
#undef cudaMemcpy3D
#define cudaMemcpy3D PINRING_COMPAT_NAME(Memcpy3D)
#undef cudaMemcpy3DPeer
#define cudaMemcpy3DPeer PINRING_COMPAT_NAME(Memcpy3DPeer)
#undef cudaMemcpyPeer
#define cudaMemcpyPeer PINRING_COMPAT_NAME(MemcpyPeer)
#undef cudaMemset
#define cudaMemset PINRING_COMPAT_NAME(Memset)
#undef cudaMemset2D
#define cudaMemset2D PINRING_COMPAT_NAME(Memset2D)
#undef cudaMemset3D
#define cudaMemset3D PINRING_COMPAT_NAME(Memset3D)
#undef cudaMemcpy2DAsync
#define cudaMemcpy2DAsync PINRING_COMPAT_NAME(Memcpy2DAsync)
#undef cudaMemcpy2DToArrayAsync
#define cudaMemcpy2DToArrayAsync PINRING_COMPAT_NAME(Memcpy2DToArrayAsync)
#undef cudaMemcpy2DFromArrayAsync
#define cudaMemcpy2DFromArrayAsync PINRING_COMPAT_NAME(Memcpy2DFromArrayAsync)
#undef cudaMemcpyToArrayAsync
#define cudaMemcpyToArrayAsync PINRING_COMPAT_NAME(MemcpyToArrayAsync)
#undef cudaMemcpyFromArrayAsync
#define cudaMemcpyFromArrayAsync PINRING_COMPAT_NAME(MemcpyFromArrayAsync)
#undef cudaMemcpy3DAsync
#define cudaMemcpy3DAsync PINRING_COMPAT_NAME(Memcpy3DAsync)
#undef cudaMemcpy3DPeerAsync
#define cudaMemcpy3DPeerAsync PINRING_COMPAT_NAME(Memcpy3DPeerAsync)
#undef cudaMemcpyPeerAsync
#define cudaMemcpyPeerAsync PINRING_COMPAT_NAME(MemcpyPeerAsync)
#undef cudaMemsetAsync
#define cudaMemsetAsync PINRING_COMPAT_NAME(MemsetAsync)
#undef cudaMemset2DAsync
#define cudaMemset2DAsync PINRING_COMPAT_NAME(Memset2DAsync)
#undef cudaMemset3DAsync
#define cudaMemset3DAsync PINRING_COMPAT_NAME(Memset3DAsync)
#undef cudaMemcpyToSymbol
#define cudaMemcpyToSymbol PINRING_COMPAT_NAME(MemcpyToSymbol)
#undef cudaMemcpyFromSymbol
#define cudaMemcpyFromSymbol PINRING_COMPAT_NAME(MemcpyFromSymbol)
#undef cudaMemcpyToSymbolAsync
#define cudaMemcpyToSymbolAsync PINRING_COMPAT_NAME(MemcpyToSymbolAsync)
#undef cudaMemcpyFromSymbolAsync
#define cudaMemcpyFromSymbolAsync PINRING_COMPAT_NAME(MemcpyFromSymbolAsync)
#undef cudaStreamBeginCapture
#define cudaStreamBeginCapture PINRING_COMPAT_NAME(StreamBeginCapture)
#undef cudaStreamEndCapture
#define cudaStreamEndCapture PINRING_COMPAT_NAME(StreamEndCapture)
#undef cudaGraphInstantiate
#define cudaGraphInstantiate PINRING_COMPAT_NAME(GraphInstantiate)
#undef cudaGraphInstantiateWithFlags
#define cudaGraphInstantiateWithFlags \
  PINRING_COMPAT_NAME(GraphInstantiateWithFlags)
#if CUDART_VERSION >= 12000
#undef cudaGraphInstantiateWithParams
#define cudaGraphInstantiateWithParams \
  PINRING_COMPAT_NAME(GraphInstantiateWithParams)
#endif
#undef cudaGraphExecUpdate
#define cudaGraphExecUpdate PINRING_COMPAT_NAME(GraphExecUpdate)
#undef cudaGraphLaunch
#define cudaGraphLaunch PINRING_COMPAT_NAME(GraphLaunch)
#undef cudaGraphExecDestroy
#define cudaGraphExecDestroy PINRING_COMPAT_NAME(GraphExecDestroy)
#undef cudaGraphExecKernelNodeSetParams
#define cudaGraphExecKernelNodeSetParams \
  PINRING_COMPAT_NAME(GraphExecKernelNodeSetParams)
#undef cudaGraphExecHostNodeSetParams
#define cudaGraphExecHostNodeSetParams \
  PINRING_COMPAT_NAME(GraphExecHostNodeSetParams)
#undef cudaGraphExecMemsetNodeSetParams
#define cudaGraphExecMemsetNodeSetParams \
  PINRING_COMPAT_NAME(GraphExecMemsetNodeSetParams)
#undef cudaGraphExecChildGraphNodeSetParams
#define cudaGraphExecChildGraphNodeSetParams \
  PINRING_COMPAT_NAME(GraphExecChildGraphNodeSetParams)
#undef cudaGraphExecEventRecordNodeSetEvent
#define cudaGraphExecEventRecordNodeSetEvent \
  PINRING_COMPAT_NAME(GraphExecEventRecordNodeSetEvent)
#undef cudaGraphExecEventWaitNodeSetEvent
#define cudaGraphExecEventWaitNodeSetEvent \
  PINRING_COMPAT_NAME(GraphExecEventWaitNodeSetEvent)
#undef cudaGraphNodeSetEnabled
#define cudaGraphNodeSetEnabled PINRING_COMPAT_NAME(GraphNodeSetEnabled)
#undef cudaGraphNodeGetEnabled
#define cudaGraphNodeGetEnabled PINRING_COMPAT_NAME(GraphNodeGetEnabled)
#undef cudaGraphAddMemcpyNode
#define cudaGraphAddMemcpyNode PINRING_COMPAT_NAME(GraphAddMemcpyNode)
#undef cudaGraphAddMemcpyNode1D
#define cudaGraphAddMemcpyNode1D PINRING_COMPAT_NAME(GraphAddMemcpyNode1D)
#undef cudaGraphMemcpyNodeSetParams
#define cudaGraphMemcpyNodeSetParams \
  PINRING_COMPAT_NAME(GraphMemcpyNodeSetParams)
#undef cudaGraphMemcpyNodeSetParams1D
#define cudaGraphMemcpyNodeSetParams1D \
  PINRING_COMPAT_NAME(GraphMemcpyNodeSetParams1D)
#undef cudaGraphExecMemcpyNodeSetParams
#define cudaGraphExecMemcpyNodeSetParams \
  PINRING_COMPAT_NAME(GraphExecMemcpyNodeSetParams)
#undef cudaGraphExecMemcpyNodeSetParams1D
#define cudaGraphExecMemcpyNodeSetParams1D \
  PINRING_COMPAT_NAME(GraphExecMemcpyNodeSetParams1D)
#undef cudaGraphAddMemsetNode
#define cudaGraphAddMemsetNode PINRING_COMPAT_NAME(GraphAddMemsetNode)
#if CUDART_VERSION >= 12080
#undef cudaMemcpyBatchAsync
#define cudaMemcpyBatchAsync PINRING_COMPAT_NAME(MemcpyBatchAsync)
#endif
#if CUDART_VERSION >= 12080
#undef cudaMemcpy3DBatchAsync
#define cudaMemcpy3DBatchAsync PINRING_COMPAT_NAME(Memcpy3DBatchAsync)
#endif

#endif  // !defined(__CUDA_ARCH__)

#endif  // PINRING_CUDA_COMPAT_H_
