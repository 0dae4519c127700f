// Copies of rows and boxes in the driver's words, handed to the instance in its
// own.

#include <cuda.h>

#include <cstdint>
#include <optional>

#include "src/engine/shape.h"
#include "src/preload/handlers_shapes.h"
#include "src/preload/staging.h"

namespace pinring::preload {
namespace {

template <typename Parameters>
RowsCopy DescribeRows(const Parameters& copy) {
  RowsCopy rows;
  rows.dst.type = copy.dstMemoryType;
  rows.dst.host = copy.dstHost;
  rows.dst.device = copy.dstDevice;
  rows.dst.array = copy.dstArray;
  rows.dst.x = copy.dstXInBytes;
  rows.dst.y = copy.dstY;
  rows.dst.pitch = copy.dstPitch;
  rows.src.type = copy.srcMemoryType;
  rows.src.host = copy.srcHost;
  rows.src.device = copy.srcDevice;
  rows.src.array = copy.srcArray;
  rows.src.x = copy.srcXInBytes;
  rows.src.y = copy.srcY;
  rows.src.pitch = copy.srcPitch;
  rows.width = copy.WidthInBytes;
  rows.height = copy.Height;
  return rows;
}

// Whether what is cut out lies within the pitches that it is cut out of. Where
// it does not, the driver has an error to tell.
bool Fits(const CopyEnd& end, const RowsCopy& copy) {
  if (end.is_array()) return true;
  if (copy.height > 1 || copy.depth > 1) {
    if (end.x > end.pitch || copy.width > end.pitch - end.x) return false;
  }
  return copy.depth <= 1 ||
         (end.y <= end.height && copy.height <= end.height - end.y);
}

cudaMemcpyKind KindOf(const RowsCopy& copy) {
  const auto is = [](const CopyEnd& end, CUmemorytype type) {
    return end.type == type;
  };
  if (is(copy.src, CU_MEMORYTYPE_HOST) && is(copy.dst, CU_MEMORYTYPE_DEVICE)) {
    return cudaMemcpyHostToDevice;
  }
  if (is(copy.src, CU_MEMORYTYPE_DEVICE) && is(copy.dst, CU_MEMORYTYPE_HOST)) {
    return cudaMemcpyDeviceToHost;
  }
  return cudaMemcpyDefault;
}

}  // namespace

RowsCopy Describe(const CUDA_MEMCPY2D& copy) { return DescribeRows(copy); }

RowsCopy Describe(const CUDA_MEMCPY3D& copy) {
  RowsCopy rows = DescribeRows(copy);
  rows.dst.z = copy.dstZ;
  rows.dst.height = copy.dstHeight;
  rows.src.z = copy.srcZ;
  rows.src.height = copy.srcHeight;
  rows.depth = copy.Depth;
  rows.special = copy.dstLOD != 0 || copy.srcLOD != 0;
  return rows;
}

bool TouchesStaged(const RowsCopy& copy) {
  return IsStaged(copy.dst.start()) || IsStaged(copy.src.start()) ||
         IsStaged(copy.dst.first()) || IsStaged(copy.src.first());
}

bool CopyRowsStaged(const RowsCopy& copy, CUstream stream, bool wait,
                    CUresult* code) {
  if (copy.special || copy.empty() ||
      (copy.dst.is_array() && copy.src.is_array()) || !Fits(copy.dst, copy) ||
      !Fits(copy.src, copy)) {
    return false;
  }
  const void* const dst = copy.dst.first();
  const void* const src = copy.src.first();
  if (!IsStaged(dst) && !IsStaged(src)) return false;
  Instance::Rows rows;
  rows.width = copy.width;
  rows.height = copy.height;
  rows.depth = copy.depth;
  rows.dst = {copy.dst.pitch, copy.dst.pitch * copy.dst.height};
  rows.src = {copy.src.pitch, copy.src.pitch * copy.src.height};
  std::optional<ArrayPlace> place;
  if (copy.dst.is_array() || copy.src.is_array()) {
    const CopyEnd& end = copy.dst.is_array() ? copy.dst : copy.src;
    if (ArrayElement(copy.dst.is_array() ? src : dst, end.array) == 0) {
      return false;
    }
    place = ArrayPlace{end.array, end.x, end.y, end.z};
  }
  *code = CopyStaged({.dst = const_cast<void*>(dst),
                      .src = src,
                      .rows = &rows,
                      .array = place,
                      .kind = KindOf(copy),
                      .stream = stream,
                      .wait = wait});
  return true;
}

}  // namespace pinring::preload
