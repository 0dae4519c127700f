// Memsets, of device memory and of pinned host memory by its device address.

#include <algorithm>
#include <cstring>

#include "src/simcuda/model.h"

namespace pinring::simcuda {

CUresult Model::MakeMemset(const Fill& fill, OpRef* op) {
  const std::optional<size_t> width = Product(fill.width, fill.element_bytes);
  if (!width) return CUDA_ERROR_INVALID_VALUE;
  const Shape shape{*width, fill.height, 1};
  // The pitch means nothing where there is but one row (documented).
  const bool rows = fill.height > 1;
  if (rows && (fill.pitch < *width || fill.pitch % fill.element_bytes != 0))
    return CUDA_ERROR_INVALID_VALUE;
  CopyEnd end;
  end.at = reinterpret_cast<char*>(fill.dst);
  end.strides.row = rows ? fill.pitch : *width;
  end.must_be_known = true;
  if (fill.dst % fill.element_bytes != 0) return CUDA_ERROR_INVALID_VALUE;
  PINRING_SIMCUDA_TRY(LocateEnd(shape, &end));
  *op = std::make_shared<Op>();
  Op& memset = **op;
  memset.kind = OpKind::kMemset;
  memset.route = Route::kCompute;
  memset.dst = end.at;
  memset.shape = shape;
  memset.dst_strides = end.strides;
  memset.bytes = shape.bytes();
  memset.step_bytes = options_.copy_step_bytes;
  memset.step_rows = std::max<size_t>(1, options_.copy_step_rows);
  for (size_t i = 0; i < sizeof memset.fill; i += fill.element_bytes)
    std::memcpy(memset.fill + i, &fill.value, fill.element_bytes);
  memset.dst_is_host = end.memory != CopyEnd::kDevice;
  return CUDA_SUCCESS;
}

CUresult Model::Memset(const char* entry, const Fill& fill) {
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(nullptr, &target));
  PINRING_SIMCUDA_TRY(CheckNotCapturing(target));
  if (fill.width == 0 || fill.height == 0) return CUDA_SUCCESS;
  OpRef op;
  PINRING_SIMCUDA_TRY(MakeMemset(fill, &op));
  PINRING_SIMCUDA_TRY(Launch(entry, target, op, true));
  // Documented: asynchronous unless the memory is pinned host memory.
  return op->dst_is_host ? WaitForOp(*target.context, entry, op) : CUDA_SUCCESS;
}

CUresult Model::MemsetAsync(const char* entry, const Fill& fill,
                            CUstream stream) {
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(stream, &target));
  if (fill.width == 0 || fill.height == 0) return CUDA_SUCCESS;
  OpRef op;
  PINRING_SIMCUDA_TRY(MakeMemset(fill, &op));
  return Launch(entry, target, op, true);
}

#define PINRING_SIMCUDA_MEMSET(bits, Value)                                    \
  CUresult Model::MemsetD##bits(CUdeviceptr dst, Value value, size_t count) {  \
    return Memset("cuMemsetD" #bits, {dst, 0, value, sizeof value, count, 1}); \
  }                                                                            \
  CUresult Model::MemsetD##bits##Async(CUdeviceptr dst, Value value,           \
                                       size_t count, CUstream stream) {        \
    return MemsetAsync("cuMemsetD" #bits "Async",                              \
                       {dst, 0, value, sizeof value, count, 1}, stream);       \
  }                                                                            \
  CUresult Model::MemsetD2D##bits(CUdeviceptr dst, size_t pitch, Value value,  \
                                  size_t width, size_t height) {               \
    return Memset("cuMemsetD2D" #bits,                                         \
                  {dst, pitch, value, sizeof value, width, height});           \
  }                                                                            \
  CUresult Model::MemsetD2D##bits##Async(CUdeviceptr dst, size_t pitch,        \
                                         Value value, size_t width,            \
                                         size_t height, CUstream stream) {     \
    return MemsetAsync("cuMemsetD2D" #bits "Async",                            \
                       {dst, pitch, value, sizeof value, width, height},       \
                       stream);                                                \
  }
PINRING_SIMCUDA_MEMSET(8, unsigned char)
PINRING_SIMCUDA_MEMSET(16, unsigned short)
PINRING_SIMCUDA_MEMSET(32, unsigned)
#undef PINRING_SIMCUDA_MEMSET

}  // namespace pinring::simcuda
