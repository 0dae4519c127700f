// CUDA arrays. Their memory is the device's, in rows without a gap; no pointer
// to it is ever given out.

#include <algorithm>

#include "src/simcuda/model.h"

namespace pinring::simcuda {
namespace {

constexpr unsigned kArrayFlags = CUDA_ARRAY3D_LAYERED |
                                 CUDA_ARRAY3D_SURFACE_LDST |
                                 CUDA_ARRAY3D_TEXTURE_GATHER;
// What cuMemAllocPitch rounds rows up to.
constexpr size_t kPitchAlignment = 512;

// 0 for formats that have no single one, or that are not simulated.
size_t FormatBytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return 0;
  }
}

}  // namespace

CUresult Model::FindArray(CUarray handle, const Array** array) {
  const Array* found = arrays_.Find(handle);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (found->generation != found->context->generation)
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *array = found;
  return CUDA_SUCCESS;
}

CUresult Model::Array3DCreate(CUarray* handle,
                              const CUDA_ARRAY3D_DESCRIPTOR* descriptor) {
  Context* context;
  PINRING_SIMCUDA_TRY(Current(&context));
  if (handle == nullptr || descriptor == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  const size_t format_bytes = FormatBytes(descriptor->Format);
  const unsigned channels = descriptor->NumChannels;
  const bool layered = (descriptor->Flags & CUDA_ARRAY3D_LAYERED) != 0;
  if (format_bytes == 0 || (channels != 1 && channels != 2 && channels != 4) ||
      (descriptor->Flags & ~kArrayFlags) != 0 || descriptor->Width == 0 ||
      (descriptor->Depth != 0 && descriptor->Height == 0 && !layered) ||
      (layered && descriptor->Depth == 0)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Array array;
  array.context = context;
  array.generation = context->generation;
  array.descriptor = *descriptor;
  array.element_bytes = format_bytes * channels;
  const auto width = Product(descriptor->Width, array.element_bytes);
  if (!width) return CUDA_ERROR_INVALID_VALUE;
  array.shape = {*width, std::max<size_t>(1, descriptor->Height),
                 std::max<size_t>(1, descriptor->Depth)};
  const auto slice = Product(*width, array.shape.height);
  const auto bytes = slice ? Product(*slice, array.shape.depth) : slice;
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  array.strides = {*width, *slice};
  CUdeviceptr memory = 0;
  PINRING_SIMCUDA_TRY(AllocateDevice("cuArray3DCreate", *bytes, &memory));
  array.memory = reinterpret_cast<char*>(memory);
  *handle = arrays_.Add(array);
  return CUDA_SUCCESS;
}

CUresult Model::ArrayCreate(CUarray* handle,
                            const CUDA_ARRAY_DESCRIPTOR* descriptor) {
  if (descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR same = {};
  same.Width = descriptor->Width;
  same.Height = descriptor->Height;
  same.Format = descriptor->Format;
  same.NumChannels = descriptor->NumChannels;
  return Array3DCreate(handle, &same);
}

CUresult Model::Array3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR* descriptor,
                                     CUarray handle) {
  Context* context;
  PINRING_SIMCUDA_TRY(Current(&context));
  if (descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Array* array = nullptr;
  PINRING_SIMCUDA_TRY(FindArray(handle, &array));
  *descriptor = array->descriptor;
  return CUDA_SUCCESS;
}

CUresult Model::ArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR* descriptor,
                                   CUarray handle) {
  if (descriptor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR same;
  PINRING_SIMCUDA_TRY(Array3DGetDescriptor(&same, handle));
  *descriptor = {same.Width, same.Height, same.Format, same.NumChannels};
  return CUDA_SUCCESS;
}

// Waits as freeing any device memory does. Others may have destroyed the array
// meanwhile.
CUresult Model::ArrayDestroy(CUarray handle) {
  const Array* array = nullptr;
  PINRING_SIMCUDA_TRY(FindArray(handle, &array));
  PINRING_SIMCUDA_TRY(CheckUnsafe());
  const Block* block = memory_.Find(array->memory);
  PINRING_SIMCUDA_TRY(FreeBlock(
      "cuArrayDestroy", *contexts_[static_cast<size_t>(block->device)], block));
  return arrays_.Remove(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult Model::MemAllocPitch(CUdeviceptr* pointer, size_t* pitch, size_t width,
                              size_t height, unsigned element_bytes) {
  if (pointer == nullptr || pitch == nullptr || width == 0 || height == 0 ||
      (element_bytes != 4 && element_bytes != 8 && element_bytes != 16)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto rounded = Sum(width, kPitchAlignment - 1);
  if (!rounded) return CUDA_ERROR_INVALID_VALUE;
  const size_t row = *rounded / kPitchAlignment * kPitchAlignment;
  const auto bytes = Product(row, height);
  if (!bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  PINRING_SIMCUDA_TRY(AllocateDevice("cuMemAllocPitch", *bytes, pointer));
  *pitch = row;
  return CUDA_SUCCESS;
}

// An end of a one-dimensional copy: within the array's first row.
CUresult Model::MakeRowEnd(CUarray handle, size_t offset, size_t bytes,
                           CopyEnd* end) {
  const Operand operand = {
      CU_MEMORYTYPE_ARRAY, nullptr, 0, handle, offset, 0, 0, 0, 0};
  return bytes == 0 ? CUDA_SUCCESS : MakeEnd(operand, Shape{bytes, 1, 1}, end);
}

CUresult Model::MemcpyHtoA(CUarray dst, size_t dst_offset, const void* src,
                           size_t bytes) {
  CopyRequest request =
      Linear(0, reinterpret_cast<CUdeviceptr>(src), bytes, true, false);
  PINRING_SIMCUDA_TRY(MakeRowEnd(dst, dst_offset, bytes, &request.dst));
  return Copy("cuMemcpyHtoA", request);
}

CUresult Model::MemcpyHtoAAsync(CUarray dst, size_t dst_offset, const void* src,
                                size_t bytes, CUstream stream) {
  CopyRequest request =
      Linear(0, reinterpret_cast<CUdeviceptr>(src), bytes, true, false);
  PINRING_SIMCUDA_TRY(MakeRowEnd(dst, dst_offset, bytes, &request.dst));
  return CopyAsync("cuMemcpyHtoAAsync", request, stream);
}

CUresult Model::MemcpyAtoH(void* dst, CUarray src, size_t src_offset,
                           size_t bytes) {
  CopyRequest request =
      Linear(reinterpret_cast<CUdeviceptr>(dst), 0, bytes, false, true);
  PINRING_SIMCUDA_TRY(MakeRowEnd(src, src_offset, bytes, &request.src));
  return Copy("cuMemcpyAtoH", request);
}

CUresult Model::MemcpyAtoHAsync(void* dst, CUarray src, size_t src_offset,
                                size_t bytes, CUstream stream) {
  CopyRequest request =
      Linear(reinterpret_cast<CUdeviceptr>(dst), 0, bytes, false, true);
  PINRING_SIMCUDA_TRY(MakeRowEnd(src, src_offset, bytes, &request.src));
  return CopyAsync("cuMemcpyAtoHAsync", request, stream);
}

CUresult Model::MemcpyDtoA(CUarray dst, size_t dst_offset, CUdeviceptr src,
                           size_t bytes) {
  CopyRequest request = Linear(0, src, bytes, true, true);
  PINRING_SIMCUDA_TRY(MakeRowEnd(dst, dst_offset, bytes, &request.dst));
  return Copy("cuMemcpyDtoA", request);
}

CUresult Model::MemcpyAtoD(CUdeviceptr dst, CUarray src, size_t src_offset,
                           size_t bytes) {
  CopyRequest request = Linear(dst, 0, bytes, true, true);
  PINRING_SIMCUDA_TRY(MakeRowEnd(src, src_offset, bytes, &request.src));
  return Copy("cuMemcpyAtoD", request);
}

CUresult Model::MemcpyAtoA(CUarray dst, size_t dst_offset, CUarray src,
                           size_t src_offset, size_t bytes) {
  CopyRequest request = Linear(0, 0, bytes, true, true);
  PINRING_SIMCUDA_TRY(MakeRowEnd(dst, dst_offset, bytes, &request.dst));
  PINRING_SIMCUDA_TRY(MakeRowEnd(src, src_offset, bytes, &request.src));
  return Copy("cuMemcpyAtoA", request);
}

}  // namespace pinring::simcuda
