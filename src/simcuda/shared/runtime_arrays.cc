// The runtime's arrays. Handles are the driver's. (What copies to and from them
// is in runtime_shapes.cc.)

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>

#include "src/simcuda/shared/runtime_state.h"

namespace pinring::simcudart {
namespace {

// All channels that there are have the same number of bits, and none comes
// after one that there is not.
bool ReadChannels(const cudaChannelFormatDesc& channels,
                  CUDA_ARRAY3D_DESCRIPTOR* descriptor) {
  const int bits[] = {channels.x, channels.y, channels.z, channels.w};
  unsigned count = 0;
  while (count < 4 && bits[count] != 0) ++count;
  for (unsigned i = 0; i < 4; ++i) {
    if (bits[i] != (i < count ? bits[0] : 0)) return false;
  }
  descriptor->NumChannels = count;
  switch (channels.f) {
    case cudaChannelFormatKindSigned:
      descriptor->Format = bits[0] == 8    ? CU_AD_FORMAT_SIGNED_INT8
                           : bits[0] == 16 ? CU_AD_FORMAT_SIGNED_INT16
                                           : CU_AD_FORMAT_SIGNED_INT32;
      return bits[0] == 8 || bits[0] == 16 || bits[0] == 32;
    case cudaChannelFormatKindUnsigned:
      descriptor->Format = bits[0] == 8    ? CU_AD_FORMAT_UNSIGNED_INT8
                           : bits[0] == 16 ? CU_AD_FORMAT_UNSIGNED_INT16
                                           : CU_AD_FORMAT_UNSIGNED_INT32;
      return bits[0] == 8 || bits[0] == 16 || bits[0] == 32;
    case cudaChannelFormatKindFloat:
      descriptor->Format =
          bits[0] == 16 ? CU_AD_FORMAT_HALF : CU_AD_FORMAT_FLOAT;
      return bits[0] == 16 || bits[0] == 32;
    default:
      return false;
  }
}

cudaChannelFormatDesc Channels(const CUDA_ARRAY3D_DESCRIPTOR& descriptor) {
  int bits = 32;
  cudaChannelFormatKind kind = cudaChannelFormatKindFloat;
  switch (descriptor.Format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
      bits = 8;
      kind = cudaChannelFormatKindUnsigned;
      break;
    case CU_AD_FORMAT_UNSIGNED_INT16:
      bits = 16;
      kind = cudaChannelFormatKindUnsigned;
      break;
    case CU_AD_FORMAT_UNSIGNED_INT32:
      kind = cudaChannelFormatKindUnsigned;
      break;
    case CU_AD_FORMAT_SIGNED_INT8:
      bits = 8;
      kind = cudaChannelFormatKindSigned;
      break;
    case CU_AD_FORMAT_SIGNED_INT16:
      bits = 16;
      kind = cudaChannelFormatKindSigned;
      break;
    case CU_AD_FORMAT_SIGNED_INT32:
      kind = cudaChannelFormatKindSigned;
      break;
    case CU_AD_FORMAT_HALF:
      bits = 16;
      break;
    default:
      break;
  }
  const unsigned count = descriptor.NumChannels;
  return {bits, count > 1 ? bits : 0, count > 2 ? bits : 0,
          count > 3 ? bits : 0, kind};
}

cudaError_t MakeArray(const DriverTable& driver, cudaArray_t* array,
                      const cudaChannelFormatDesc* channels,
                      const cudaExtent& extent, unsigned flags) {
  if (array == nullptr || channels == nullptr) return cudaErrorInvalidValue;
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
  if (!ReadChannels(*channels, &descriptor))
    return cudaErrorInvalidChannelDescriptor;
  descriptor.Width = extent.width;
  descriptor.Height = extent.height;
  descriptor.Depth = extent.depth;
  descriptor.Flags = flags;  // the two APIs' bits are the same
  return Error(
      driver.Array3DCreate(reinterpret_cast<CUarray*>(array), &descriptor));
}

cudaError_t Describe(const DriverTable& driver, cudaArray_const_t array,
                     CUDA_ARRAY3D_DESCRIPTOR* descriptor) {
  return Error(driver.Array3DGetDescriptor(
      descriptor, reinterpret_cast<CUarray>(const_cast<cudaArray_t>(array))));
}

}  // namespace

PINRING_EXPORT cudaChannelFormatDesc CUDARTAPI
cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}

PINRING_EXPORT cudaError_t CUDARTAPI
cudaMallocArray(cudaArray_t* array, const cudaChannelFormatDesc* channels,
                size_t width, size_t height, unsigned flags) {
  return InContext([&](const DriverTable& driver) {
    return MakeArray(driver, array, channels, {width, height, 0}, flags);
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI
cudaMalloc3DArray(cudaArray_t* array, const cudaChannelFormatDesc* channels,
                  cudaExtent extent, unsigned flags) {
  return InContext([&](const DriverTable& driver) {
    return MakeArray(driver, array, channels, extent, flags);
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaFreeArray(cudaArray_t array) {
  return InContext([&](const DriverTable& driver) {
    return array == nullptr
               ? CUDA_SUCCESS
               : driver.ArrayDestroy(reinterpret_cast<CUarray>(array));
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI
cudaGetChannelDesc(cudaChannelFormatDesc* channels, cudaArray_const_t array) {
  return InContext([&](const DriverTable& driver) {
    if (channels == nullptr) return cudaErrorInvalidValue;
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    const cudaError_t code = Describe(driver, array, &descriptor);
    if (code == cudaSuccess) *channels = Channels(descriptor);
    return code;
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI
cudaArrayGetInfo(cudaChannelFormatDesc* channels, cudaExtent* extent,
                 unsigned* flags, cudaArray_t array) {
  return InContext([&](const DriverTable& driver) {
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    const cudaError_t code = Describe(driver, array, &descriptor);
    if (code != cudaSuccess) return code;
    if (channels != nullptr) *channels = Channels(descriptor);
    if (extent != nullptr)
      *extent = {descriptor.Width, descriptor.Height, descriptor.Depth};
    if (flags != nullptr) *flags = descriptor.Flags;
    return cudaSuccess;
  });
}

}  // namespace pinring::simcudart
