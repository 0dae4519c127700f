#include "src/engine/chunk_copy.h"

#include <cstring>

#include "src/driver/status.h"

namespace pinring {
namespace {

// Both ends of a copy of rows. In the slot they lie packed.
template <typename DriverCopy>
void SetEnds(const CopyRequest& request, uint64_t offset,
             const ChunkShape& part, std::byte* slot, DriverCopy* copy) {
  const Shape& shape = request.shape;
  const bool in = request.direction == Direction::kHostToDevice;
  (in ? copy->srcMemoryType : copy->dstMemoryType) = CU_MEMORYTYPE_HOST;
  (in ? copy->srcPitch : copy->dstPitch) = part.width;
  if (in) {
    copy->srcHost = slot;
  } else {
    copy->dstHost = slot;
  }
  CUmemorytype& type = in ? copy->dstMemoryType : copy->srcMemoryType;
  if (request.array.has_value()) {
    type = CU_MEMORYTYPE_ARRAY;
    (in ? copy->dstArray : copy->srcArray) = request.array->array;
    (in ? copy->dstXInBytes : copy->srcXInBytes) =
        request.array->x + offset % shape.width;
    (in ? copy->dstY : copy->srcY) =
        request.array->y + offset / shape.width % shape.height;
  } else {
    type = CU_MEMORYTYPE_DEVICE;
    (in ? copy->dstDevice : copy->srcDevice) =
        request.device + shape.At(offset, shape.device);
    (in ? copy->dstPitch : copy->srcPitch) = shape.device.row;
  }
  copy->WidthInBytes = part.width;
  copy->Height = part.height;
}

absl::Status CopyPlain(const Driver& driver, const CopyRequest& request,
                       CUdeviceptr device, size_t bytes, std::byte* slot) {
  return request.direction == Direction::kHostToDevice
             ? CudaStatus(
                   driver.MemcpyHtoDAsync(device, slot, bytes, request.stream),
                   "cuMemcpyHtoDAsync")
             : CudaStatus(
                   driver.MemcpyDtoHAsync(slot, device, bytes, request.stream),
                   "cuMemcpyDtoHAsync");
}

}  // namespace

uint64_t ArrayElementBytes(const CUDA_ARRAY3D_DESCRIPTOR& array) {
  switch (array.Format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return array.NumChannels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return uint64_t{2} * array.NumChannels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return uint64_t{4} * array.NumChannels;
    default:
      return 0;
  }
}

absl::Status CopyChunk(const Driver& driver, const CopyRequest& request,
                       uint64_t offset, size_t bytes, std::byte* slot) {
  const Shape& shape = request.shape;
  const ChunkShape part = ShapeOfChunk(shape, offset, bytes);
  if (part.height == 1 && part.depth == 1 && !request.array.has_value()) {
    return CopyPlain(driver, request,
                     request.device + shape.At(offset, shape.device), bytes,
                     slot);
  }
  const uint64_t z = offset / shape.slice_bytes();
  if (part.depth == 1 &&
      (!request.array.has_value() || request.array->z + z == 0)) {
    CUDA_MEMCPY2D copy;
    std::memset(&copy, 0, sizeof(copy));
    SetEnds(request, offset, part, slot, &copy);
    return CudaStatus(driver.Memcpy2DAsync(&copy, request.stream),
                      "cuMemcpy2DAsync");
  }
  CUDA_MEMCPY3D copy;
  std::memset(&copy, 0, sizeof(copy));
  SetEnds(request, offset, part, slot, &copy);
  const bool in = request.direction == Direction::kHostToDevice;
  (in ? copy.srcHeight : copy.dstHeight) = part.height;
  if (request.array.has_value()) {
    (in ? copy.dstZ : copy.srcZ) = request.array->z + z;
  } else {
    // A whole number: slices are said in rows.
    (in ? copy.dstHeight : copy.srcHeight) =
        shape.device.slice / shape.device.row;
  }
  copy.Depth = part.depth;
  return CudaStatus(driver.Memcpy3DAsync(&copy, request.stream),
                    "cuMemcpy3DAsync");
}

}  // namespace pinring
