// Copies of rows and boxes in the driver's words, handed to the instance in its
// own.

#include <cuda.h>

#include <cstdint>
#include <optional>

#include "absl/numeric/int128.h"
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

template <typename Parameters>
RowsCopy DescribeBox(const Parameters& copy) {
  RowsCopy rows = DescribeRows(copy);
  rows.dst.z = copy.dstZ;
  rows.dst.height = copy.dstHeight;
  rows.src.z = copy.srcZ;
  rows.src.height = copy.srcHeight;
  rows.depth = copy.Depth;
  rows.special = copy.dstLOD != 0 || copy.srcLOD != 0;
  return rows;
}

#if CUDA_VERSION >= 12080
// An operand of a batch, in elements. A length or height of 0 is the copy's.
void SetPointer(const CUmemcpy3DOperand& operand, const RowsCopy& copy,
                CopyEnd* end) {
  if (operand.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
    end->type = CU_MEMORYTYPE_ARRAY;
    end->array = operand.op.array.array;
    end->x = operand.op.array.offset.x;
    end->y = operand.op.array.offset.y;
    end->z = operand.op.array.offset.z;
    return;
  }
  end->device = operand.op.ptr.ptr;
  end->pitch =
      operand.op.ptr.rowLength == 0 ? copy.width : operand.op.ptr.rowLength;
  end->height = operand.op.ptr.layerHeight == 0 ? copy.height
                                                : operand.op.ptr.layerHeight;
}
#endif

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

RowsCopy Describe(const CUDA_MEMCPY3D& copy) { return DescribeBox(copy); }

RowsCopy Describe(const CUDA_MEMCPY3D_PEER& copy) { return DescribeBox(copy); }

#if CUDA_VERSION >= 12080
RowsCopy Describe(const CUDA_MEMCPY3D_BATCH_OP& box) {
  RowsCopy rows;
  const bool to_array = box.dst.type == CU_MEMCPY_OPERAND_TYPE_ARRAY;
  const bool from_array = box.src.type == CU_MEMCPY_OPERAND_TYPE_ARRAY;
  const bool known_types =
      (to_array || box.dst.type == CU_MEMCPY_OPERAND_TYPE_POINTER) &&
      (from_array || box.src.type == CU_MEMCPY_OPERAND_TYPE_POINTER);
  rows.width = box.extent.width;
  rows.height = box.extent.height;
  rows.depth = box.extent.depth;
  if (!known_types) {
    rows.special = true;
    return rows;
  }
  SetPointer(box.dst, rows, &rows.dst);
  SetPointer(box.src, rows, &rows.src);
  rows.special = rows.empty() ||
                 box.srcAccessOrder < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
                 box.srcAccessOrder > CU_MEMCPY_SRC_ACCESS_ORDER_ANY ||
                 !Fits(rows.dst, rows) || !Fits(rows.src, rows);
  const void* const memory = to_array ? rows.src.start() : rows.dst.start();
  if (to_array == from_array || FindBlock(memory) == nullptr) return rows;
  // Lengths so far are in elements.
  const uint64_t element =
      DescribeArray(memory, to_array ? rows.dst.array : rows.src.array)
          .element_bytes;
  if (element == 0) {
    rows.special = true;
    return rows;
  }
  for (uint64_t* const length : {&rows.width, &rows.dst.pitch, &rows.src.pitch,
                                 &rows.dst.x, &rows.src.x}) {
    if (*length > UINT64_MAX / element) rows.special = true;
    *length *= element;
  }
  return rows;
}
#endif

bool TouchesStaged(const RowsCopy& copy) {
  return IsStaged(copy.dst.start()) || IsStaged(copy.src.start()) ||
         IsStaged(copy.dst.first()) || IsStaged(copy.src.first());
}

uint64_t Reach(uint64_t width, uint64_t rows, uint64_t pitch) {
  const absl::uint128 reach = absl::uint128(rows - 1) * pitch + width;
  return reach > UINT64_MAX ? UINT64_MAX : static_cast<uint64_t>(reach);
}

bool ReachesBeyondSmallBlock(const RowsCopy& copy) {
  const auto reaches = [&](const CopyEnd& end) {
    if (end.is_array()) return false;
    // Slices are as many rows apart as the memory that they are cut out of has.
    const uint64_t between = copy.depth > 1
                                 ? Reach(copy.height, copy.depth, end.height)
                                 : copy.height;
    return ReachesBeyondSmallBlock(end.first(),
                                   Reach(copy.width, between, end.pitch));
  };
  return reaches(copy.dst) || reaches(copy.src);
}

bool CopyRowsStaged(
    const RowsCopy& copy,
    absl::FunctionRef<CUresult(Instance::Copy& described)> copy_it,
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
    if (DescribeArray(copy.dst.is_array() ? src : dst, end.array)
            .element_bytes == 0) {
      return false;
    }
    place = ArrayPlace{end.array, end.x, end.y, end.z};
  }
  Instance::Copy described = {.dst = const_cast<void*>(dst),
                              .src = src,
                              .rows = &rows,
                              .array = place,
                              .kind = KindOf(copy)};
  *code = copy_it(described);
  return true;
}

}  // namespace pinring::preload
