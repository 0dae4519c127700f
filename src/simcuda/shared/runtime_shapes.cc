// The runtime's memory, copies and memsets in two and three dimensions.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "src/simcuda/shared/runtime_copies.h"
#include "src/simcuda/shared/runtime_state.h"

namespace pinring::simcudart {
namespace {

// To a 2D copy, without a stream or in one.
struct Submit {
  const DriverTable& driver;
  const CUstream* stream;  // null for a synchronous copy

  cudaError_t operator()(const CUDA_MEMCPY2D& copy) const {
    return Error(stream == nullptr ? driver.Memcpy2DUnaligned(&copy)
                                   : driver.Memcpy2DAsync(&copy, *stream));
  }
  cudaError_t operator()(const CUDA_MEMCPY3D& copy) const {
    return Error(stream == nullptr ? driver.Memcpy3D(&copy)
                                   : driver.Memcpy3DAsync(&copy, *stream));
  }
};

void SetSource(CUDA_MEMCPY2D* copy, CUmemorytype type, const void* pointer,
               size_t pitch) {
  copy->srcMemoryType = type;
  copy->srcHost = pointer;
  copy->srcDevice = Address(pointer);
  copy->srcPitch = pitch;
}

void SetDestination(CUDA_MEMCPY2D* copy, CUmemorytype type, void* pointer,
                    size_t pitch) {
  copy->dstMemoryType = type;
  copy->dstHost = pointer;
  copy->dstDevice = Address(pointer);
  copy->dstPitch = pitch;
}

cudaError_t Copy2D(Submit submit, void* dst, size_t dst_pitch, const void* src,
                   size_t src_pitch, size_t width, size_t height,
                   cudaMemcpyKind kind) {
  if (width == 0 || height == 0) return cudaSuccess;
  if (height > 1 && (dst_pitch < width || src_pitch < width))
    return cudaErrorInvalidPitchValue;
  if (!IsKind(kind)) return cudaErrorInvalidMemcpyDirection;
  CUDA_MEMCPY2D copy = {};
  SetDestination(&copy, DestinationType(kind), dst, dst_pitch);
  SetSource(&copy, SourceType(kind), src, src_pitch);
  copy.WidthInBytes = width;
  copy.Height = height;
  return submit(copy);
}

cudaError_t Copy2DToArray(Submit submit, cudaArray_t dst, size_t column,
                          size_t row, const void* src, size_t pitch,
                          size_t width, size_t height, cudaMemcpyKind kind) {
  if (!IsKind(kind) || DestinationType(kind) == CU_MEMORYTYPE_HOST)
    return cudaErrorInvalidMemcpyDirection;
  if (width != 0 && height != 0 && pitch < width)
    return cudaErrorInvalidPitchValue;
  CUDA_MEMCPY2D copy = {};
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = reinterpret_cast<CUarray>(dst);
  copy.dstXInBytes = column;
  copy.dstY = row;
  SetSource(&copy, SourceType(kind), src, pitch);
  copy.WidthInBytes = width;
  copy.Height = height;
  return submit(copy);
}

CUarray Handle(cudaArray_const_t array) {
  return reinterpret_cast<CUarray>(const_cast<cudaArray_t>(array));
}

cudaError_t Copy2DFromArray(Submit submit, void* dst, size_t pitch,
                            cudaArray_const_t src, size_t column, size_t row,
                            size_t width, size_t height, cudaMemcpyKind kind) {
  if (!IsKind(kind) || SourceType(kind) == CU_MEMORYTYPE_HOST)
    return cudaErrorInvalidMemcpyDirection;
  if (width != 0 && height != 0 && pitch < width)
    return cudaErrorInvalidPitchValue;
  CUDA_MEMCPY2D copy = {};
  SetDestination(&copy, DestinationType(kind), dst, pitch);
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = Handle(src);
  copy.srcXInBytes = column;
  copy.srcY = row;
  copy.WidthInBytes = width;
  copy.Height = height;
  return submit(copy);
}

cudaError_t Copy2DArrayToArray(Submit submit, cudaArray_t dst,
                               size_t dst_column, size_t dst_row,
                               cudaArray_const_t src, size_t src_column,
                               size_t src_row, size_t width, size_t height,
                               cudaMemcpyKind kind) {
  if (kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault)
    return cudaErrorInvalidMemcpyDirection;
  CUDA_MEMCPY2D copy = {};
  copy.dstMemoryType = copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = reinterpret_cast<CUarray>(dst);
  copy.dstXInBytes = dst_column;
  copy.dstY = dst_row;
  copy.srcArray = Handle(src);
  copy.srcXInBytes = src_column;
  copy.srcY = src_row;
  copy.WidthInBytes = width;
  copy.Height = height;
  return submit(copy);
}

cudaError_t ElementBytes(const DriverTable& driver, cudaArray_t array,
                         size_t* bytes) {
  CUDA_ARRAY3D_DESCRIPTOR descriptor;
  const CUresult code = driver.Array3DGetDescriptor(&descriptor, Handle(array));
  if (code != CUDA_SUCCESS) return Error(code);
  size_t format_bytes = 4;
  switch (descriptor.Format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      format_bytes = 1;
      break;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      format_bytes = 2;
      break;
    default:
      break;
  }
  *bytes = format_bytes * descriptor.NumChannels;
  return cudaSuccess;
}

// Documented: positions count the elements of their own object, which are bytes
// where it is no array; the extent those of the array, if there is one.
template <typename SubmitCopy>
cudaError_t Copy3D(SubmitCopy submit, const cudaMemcpy3DParms* parameters) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  const cudaMemcpy3DParms& p = *parameters;
  if (!IsKind(p.kind)) return cudaErrorInvalidMemcpyDirection;
  if ((p.srcArray == nullptr) == (p.srcPtr.ptr == nullptr) ||
      (p.dstArray == nullptr) == (p.dstPtr.ptr == nullptr)) {
    return cudaErrorInvalidValue;
  }
  size_t src_element = 1;
  size_t dst_element = 1;
  if (p.srcArray != nullptr) {
    if (SourceType(p.kind) == CU_MEMORYTYPE_HOST)
      return cudaErrorInvalidMemcpyDirection;
    const cudaError_t code =
        ElementBytes(submit.driver, p.srcArray, &src_element);
    if (code != cudaSuccess) return code;
  }
  if (p.dstArray != nullptr) {
    if (DestinationType(p.kind) == CU_MEMORYTYPE_HOST)
      return cudaErrorInvalidMemcpyDirection;
    const cudaError_t code =
        ElementBytes(submit.driver, p.dstArray, &dst_element);
    if (code != cudaSuccess) return code;
  }
  if (p.srcArray != nullptr && p.dstArray != nullptr &&
      src_element != dst_element) {
    return cudaErrorInvalidValue;
  }
  const size_t element = p.srcArray != nullptr ? src_element : dst_element;
  CUDA_MEMCPY3D copy = {};
  if (__builtin_mul_overflow(p.extent.width, element, &copy.WidthInBytes) ||
      __builtin_mul_overflow(p.srcPos.x, src_element, &copy.srcXInBytes) ||
      __builtin_mul_overflow(p.dstPos.x, dst_element, &copy.dstXInBytes)) {
    return cudaErrorInvalidValue;
  }
  copy.Height = p.extent.height;
  copy.Depth = p.extent.depth;
  const bool empty =
      copy.WidthInBytes == 0 || copy.Height == 0 || copy.Depth == 0;
  const auto too_small = [&copy](const cudaPitchedPtr& memory) {
    return memory.pitch < copy.WidthInBytes ||
           (copy.Depth > 1 && memory.ysize < copy.Height);
  };
  if (!empty && (copy.Height > 1 || copy.Depth > 1) &&
      ((p.srcArray == nullptr && too_small(p.srcPtr)) ||
       (p.dstArray == nullptr && too_small(p.dstPtr)))) {
    return cudaErrorInvalidPitchValue;
  }
  copy.srcMemoryType =
      p.srcArray != nullptr ? CU_MEMORYTYPE_ARRAY : SourceType(p.kind);
  copy.srcArray = Handle(p.srcArray);
  copy.srcHost = p.srcPtr.ptr;
  copy.srcDevice = Address(p.srcPtr.ptr);
  copy.srcPitch = p.srcPtr.pitch;
  copy.srcHeight = p.srcPtr.ysize;
  copy.srcY = p.srcPos.y;
  copy.srcZ = p.srcPos.z;
  copy.dstMemoryType =
      p.dstArray != nullptr ? CU_MEMORYTYPE_ARRAY : DestinationType(p.kind);
  copy.dstArray = Handle(p.dstArray);
  copy.dstHost = p.dstPtr.ptr;
  copy.dstDevice = Address(p.dstPtr.ptr);
  copy.dstPitch = p.dstPtr.pitch;
  copy.dstHeight = p.dstPtr.ysize;
  copy.dstY = p.dstPos.y;
  copy.dstZ = p.dstPos.z;
  return submit(copy);
}

// The same between devices, whose contexts the driver is told.
struct SubmitPeer {
  const DriverTable& driver;
  const CUstream* stream;  // null for a synchronous copy
  CUcontext dst;
  CUcontext src;

  cudaError_t operator()(const CUDA_MEMCPY3D& copy) const {
    CUDA_MEMCPY3D_PEER peer = {};
    peer.srcXInBytes = copy.srcXInBytes;
    peer.srcY = copy.srcY;
    peer.srcZ = copy.srcZ;
    peer.srcMemoryType = copy.srcMemoryType;
    peer.srcDevice = copy.srcDevice;
    peer.srcArray = copy.srcArray;
    peer.srcContext = src;
    peer.srcPitch = copy.srcPitch;
    peer.srcHeight = copy.srcHeight;
    peer.dstXInBytes = copy.dstXInBytes;
    peer.dstY = copy.dstY;
    peer.dstZ = copy.dstZ;
    peer.dstMemoryType = copy.dstMemoryType;
    peer.dstDevice = copy.dstDevice;
    peer.dstArray = copy.dstArray;
    peer.dstContext = dst;
    peer.dstPitch = copy.dstPitch;
    peer.dstHeight = copy.dstHeight;
    peer.WidthInBytes = copy.WidthInBytes;
    peer.Height = copy.Height;
    peer.Depth = copy.Depth;
    return Error(stream == nullptr ? driver.Memcpy3DPeer(&peer)
                                   : driver.Memcpy3DPeerAsync(&peer, *stream));
  }
};

cudaError_t Copy3DPeer(const DriverTable& driver, const CUstream* stream,
                       const cudaMemcpy3DPeerParms* parameters) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  SubmitPeer submit = {driver, stream, nullptr, nullptr};
  cudaError_t code = PrimaryContext(driver, parameters->dstDevice, &submit.dst);
  if (code == cudaSuccess) {
    code = PrimaryContext(driver, parameters->srcDevice, &submit.src);
  }
  if (code != cudaSuccess) return code;
  cudaMemcpy3DParms box = {};
  box.srcArray = parameters->srcArray;
  box.srcPos = parameters->srcPos;
  box.srcPtr = parameters->srcPtr;
  box.dstArray = parameters->dstArray;
  box.dstPos = parameters->dstPos;
  box.dstPtr = parameters->dstPtr;
  box.extent = parameters->extent;
  box.kind = cudaMemcpyDeviceToDevice;
  return Copy3D(submit, &box);
}

cudaError_t Set2D(const DriverTable& driver, CUdeviceptr dst, size_t pitch,
                  int value, size_t width, size_t height,
                  const CUstream* stream) {
  const auto byte = static_cast<unsigned char>(value);
  return Error(
      stream == nullptr
          ? driver.MemsetD2D8(dst, pitch, byte, width, height)
          : driver.MemsetD2D8Async(dst, pitch, byte, width, height, *stream));
}

// Slices without rows between them are set as one; others one by one, after a
// look whether the last one is within the memory too.
cudaError_t Set3D(const DriverTable& driver, const cudaPitchedPtr& to,
                  int value, const cudaExtent& extent, const CUstream* stream) {
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0)
    return cudaSuccess;
  if (to.pitch < extent.width ||
      (extent.depth > 1 && to.ysize < extent.height)) {
    return cudaErrorInvalidValue;
  }
  const CUdeviceptr base = Address(to.ptr);
  if (extent.depth == 1 || to.ysize == extent.height) {
    size_t rows;
    if (__builtin_mul_overflow(extent.height, extent.depth, &rows))
      return cudaErrorInvalidValue;
    return Set2D(driver, base, to.pitch, value, extent.width, rows, stream);
  }
  size_t slice;
  size_t last;
  size_t rows;
  size_t bytes;
  if (__builtin_mul_overflow(to.pitch, to.ysize, &slice) ||
      __builtin_mul_overflow(slice, extent.depth - 1, &last) ||
      __builtin_mul_overflow(to.pitch, extent.height - 1, &rows) ||
      __builtin_add_overflow(last, rows, &bytes) ||
      __builtin_add_overflow(bytes, extent.width, &bytes)) {
    return cudaErrorInvalidValue;
  }
  CUdeviceptr start = 0;
  size_t length = 0;
  if (driver.MemGetAddressRange(&start, &length, base) != CUDA_SUCCESS ||
      bytes > length - (base - start)) {
    return cudaErrorInvalidValue;
  }
  for (size_t z = 0; z < extent.depth; ++z) {
    const cudaError_t code = Set2D(driver, base + z * slice, to.pitch, value,
                                   extent.width, extent.height, stream);
    if (code != cudaSuccess) return code;
  }
  return cudaSuccess;
}

// Of no bytes: success, and no memory, as cudaMalloc does it.
cudaError_t AllocatePitch(const DriverTable& driver, void** pointer,
                          size_t* pitch, size_t width, size_t height) {
  *pointer = nullptr;
  *pitch = 0;
  if (width == 0 || height == 0) return cudaSuccess;
  constexpr unsigned kElementBytes = 4;
  return Error(driver.MemAllocPitch(reinterpret_cast<CUdeviceptr*>(pointer),
                                    pitch, width, height, kElementBytes));
}

}  // namespace

PINRING_EXPORT cudaError_t CUDARTAPI cudaMallocPitch(void** pointer,
                                                     size_t* pitch,
                                                     size_t width,
                                                     size_t height) {
  return InContext([&](const DriverTable& driver) {
    if (pointer == nullptr || pitch == nullptr) return cudaErrorInvalidValue;
    return AllocatePitch(driver, pointer, pitch, width, height);
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaMalloc3D(cudaPitchedPtr* pointer,
                                                  cudaExtent extent) {
  return InContext([&](const DriverTable& driver) {
    size_t rows;
    if (pointer == nullptr ||
        __builtin_mul_overflow(extent.height, extent.depth, &rows)) {
      return cudaErrorInvalidValue;
    }
    cudaPitchedPtr made = {nullptr, 0, extent.width, extent.height};
    const cudaError_t code =
        AllocatePitch(driver, &made.ptr, &made.pitch, extent.width, rows);
    if (code == cudaSuccess) *pointer = made;
    return code;
  });
}

PINRING_CUDART_BOTH(cudaMemcpy2D, _ptds,
                    (void* dst, size_t dst_pitch, const void* src,
                     size_t src_pitch, size_t width, size_t height,
                     cudaMemcpyKind kind),
                    {
                      return Copy2D({driver, nullptr}, dst, dst_pitch, src,
                                    src_pitch, width, height, kind);
                    });

PINRING_CUDART_BOTH(cudaMemcpy2DAsync, _ptsz,
                    (void* dst, size_t dst_pitch, const void* src,
                     size_t src_pitch, size_t width, size_t height,
                     cudaMemcpyKind kind, cudaStream_t stream),
                    {
                      return Copy2D({driver, &stream}, dst, dst_pitch, src,
                                    src_pitch, width, height, kind);
                    });

PINRING_CUDART_BOTH(cudaMemcpy2DToArray, _ptds,
                    (cudaArray_t dst, size_t column, size_t row,
                     const void* src, size_t pitch, size_t width, size_t height,
                     cudaMemcpyKind kind),
                    {
                      return Copy2DToArray({driver, nullptr}, dst, column, row,
                                           src, pitch, width, height, kind);
                    });

PINRING_CUDART_BOTH(cudaMemcpy2DToArrayAsync, _ptsz,
                    (cudaArray_t dst, size_t column, size_t row,
                     const void* src, size_t pitch, size_t width, size_t height,
                     cudaMemcpyKind kind, cudaStream_t stream),
                    {
                      return Copy2DToArray({driver, &stream}, dst, column, row,
                                           src, pitch, width, height, kind);
                    });

PINRING_CUDART_BOTH(cudaMemcpy2DFromArray, _ptds,
                    (void* dst, size_t pitch, cudaArray_const_t src,
                     size_t column, size_t row, size_t width, size_t height,
                     cudaMemcpyKind kind),
                    {
                      return Copy2DFromArray({driver, nullptr}, dst, pitch, src,
                                             column, row, width, height, kind);
                    });

PINRING_CUDART_BOTH(cudaMemcpy2DFromArrayAsync, _ptsz,
                    (void* dst, size_t pitch, cudaArray_const_t src,
                     size_t column, size_t row, size_t width, size_t height,
                     cudaMemcpyKind kind, cudaStream_t stream),
                    {
                      return Copy2DFromArray({driver, &stream}, dst, pitch, src,
                                             column, row, width, height, kind);
                    });

PINRING_CUDART_BOTH(cudaMemcpy2DArrayToArray, _ptds,
                    (cudaArray_t dst, size_t dst_column, size_t dst_row,
                     cudaArray_const_t src, size_t src_column, size_t src_row,
                     size_t width, size_t height, cudaMemcpyKind kind),
                    {
                      return Copy2DArrayToArray(
                          {driver, nullptr}, dst, dst_column, dst_row, src,
                          src_column, src_row, width, height, kind);
                    });

PINRING_CUDART_BOTH(cudaMemcpy3D, _ptds, (const cudaMemcpy3DParms* parameters),
                    {
                      return Copy3D(Submit{driver, nullptr}, parameters);
                    });

PINRING_CUDART_BOTH(cudaMemcpy3DAsync, _ptsz,
                    (const cudaMemcpy3DParms* parameters, cudaStream_t stream),
                    {
                      return Copy3D(Submit{driver, &stream}, parameters);
                    });

PINRING_CUDART_BOTH(
    cudaMemset2D, _ptds,
    (void* dst, size_t pitch, int value, size_t width, size_t height), {
      return Set2D(driver, Address(dst), pitch, value, width, height, nullptr);
    });

PINRING_CUDART_BOTH(cudaMemset2DAsync, _ptsz,
                    (void* dst, size_t pitch, int value, size_t width,
                     size_t height, cudaStream_t stream),
                    {
                      return Set2D(driver, Address(dst), pitch, value, width,
                                   height, &stream);
                    });

PINRING_CUDART_BOTH(cudaMemcpy3DPeer, _ptds,
                    (const cudaMemcpy3DPeerParms* parameters),
                    { return Copy3DPeer(driver, nullptr, parameters); });

PINRING_CUDART_BOTH(cudaMemcpy3DPeerAsync, _ptsz,
                    (const cudaMemcpy3DPeerParms* parameters,
                     cudaStream_t stream),
                    { return Copy3DPeer(driver, &stream, parameters); });

PINRING_CUDART_BOTH(cudaMemset3D, _ptds,
                    (cudaPitchedPtr dst, int value, cudaExtent extent),
                    { return Set3D(driver, dst, value, extent, nullptr); });

PINRING_CUDART_BOTH(cudaMemset3DAsync, _ptsz,
                    (cudaPitchedPtr dst, int value, cudaExtent extent,
                     cudaStream_t stream),
                    { return Set3D(driver, dst, value, extent, &stream); });

}  // namespace pinring::simcudart
