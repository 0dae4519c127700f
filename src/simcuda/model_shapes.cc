// Copies in two and three dimensions: what their descriptions say, and what is
// wrong with them. How they then run, block and are recorded is the same for
// all copies (model_copy.cc).

#include <limits>

#include "src/simcuda/model.h"

namespace pinring::simcuda {
namespace {

// CU_DEVICE_ATTRIBUTE_MAX_PITCH.
constexpr size_t kMaxPitch = std::numeric_limits<int>::max();

bool IsMemoryType(CUmemorytype type) {
  return type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_DEVICE ||
         type == CU_MEMORYTYPE_ARRAY || type == CU_MEMORYTYPE_UNIFIED;
}

// Whether `length` from `from` on is within `all`.
bool Within(size_t from, size_t length, size_t all) {
  return from <= all && length <= all - from;
}

// The bytes from the described base address to the first one of the copy.
std::optional<size_t> FirstByte(size_t x, size_t y, size_t z,
                                const Strides& strides) {
  const auto slices = Product(z, strides.slice);
  const auto rows = Product(y, strides.row);
  if (!slices || !rows) return std::nullopt;
  const auto row = Sum(*slices, *rows);
  return row ? Sum(*row, x) : std::nullopt;
}

}  // namespace

CUresult Model::MakeEnd(const Operand& operand, const Shape& shape,
                        CopyEnd* end) {
  if (operand.type == CU_MEMORYTYPE_ARRAY) {
    const Array* array = nullptr;
    PINRING_SIMCUDA_TRY(FindArray(operand.array, &array));
    if (operand.x % array->element_bytes != 0 ||
        shape.width % array->element_bytes != 0 ||
        !Within(operand.x, shape.width, array->shape.width) ||
        !Within(operand.y, shape.height, array->shape.height) ||
        !Within(operand.z, shape.depth, array->shape.depth)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    end->strides = array->strides;
    end->at = array->memory +
              *FirstByte(operand.x, operand.y, operand.z, end->strides);
    end->must_be_known = true;
    return CUDA_SUCCESS;
  }
  const bool host = operand.type == CU_MEMORYTYPE_HOST;
  const CUdeviceptr base =
      host ? reinterpret_cast<CUdeviceptr>(operand.host) : operand.device;
  if (base == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::optional<size_t> row = Sum(operand.x, shape.width);
  const std::optional<size_t> rows = Sum(operand.y, shape.height);
  if (!row || !rows) return CUDA_ERROR_INVALID_VALUE;
  const bool apart = shape.height > 1 || shape.depth > 1;
  if (operand.pitch != 0 &&
      ((apart && operand.pitch > kMaxPitch) || operand.pitch < *row)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool slices = shape.depth > 1 || operand.z != 0;
  if (operand.height == 0 ? slices : operand.height < *rows)
    return CUDA_ERROR_INVALID_VALUE;
  end->strides.row = operand.pitch == 0 ? *row : operand.pitch;
  const auto slice = Product(end->strides.row, operand.height);
  if (!slice) return CUDA_ERROR_INVALID_VALUE;
  end->strides.slice = *slice;
  const auto first = FirstByte(operand.x, operand.y, operand.z, end->strides);
  const auto at = first ? Sum(base, *first) : std::nullopt;
  if (!at) return CUDA_ERROR_INVALID_VALUE;
  end->at = reinterpret_cast<char*>(*at);
  end->must_be_known = operand.type == CU_MEMORYTYPE_DEVICE;
  return CUDA_SUCCESS;
}

CUresult Model::MakeRequest(const CUDA_MEMCPY3D* copy, CopyRequest* request) {
  if (copy == nullptr || !IsMemoryType(copy->srcMemoryType) ||
      !IsMemoryType(copy->dstMemoryType) || copy->srcLOD != 0 ||
      copy->dstLOD != 0 || copy->reserved0 != nullptr ||
      copy->reserved1 != nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  request->shape = {copy->WidthInBytes, copy->Height, copy->Depth};
  if (request->shape.empty()) return CUDA_SUCCESS;
  const Operand dst = {copy->dstMemoryType, copy->dstHost,     copy->dstDevice,
                       copy->dstArray,      copy->dstXInBytes, copy->dstY,
                       copy->dstZ,          copy->dstPitch,    copy->dstHeight};
  const Operand src = {copy->srcMemoryType, copy->srcHost,     copy->srcDevice,
                       copy->srcArray,      copy->srcXInBytes, copy->srcY,
                       copy->srcZ,          copy->srcPitch,    copy->srcHeight};
  PINRING_SIMCUDA_TRY(MakeEnd(dst, request->shape, &request->dst));
  return MakeEnd(src, request->shape, &request->src);
}

CUresult Model::MakeRequest(const CUDA_MEMCPY2D* copy, CopyRequest* request) {
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_MEMCPY3D same = {};
  same.srcXInBytes = copy->srcXInBytes;
  same.srcY = copy->srcY;
  same.srcMemoryType = copy->srcMemoryType;
  same.srcHost = copy->srcHost;
  same.srcDevice = copy->srcDevice;
  same.srcArray = copy->srcArray;
  same.srcPitch = copy->srcPitch;
  same.dstXInBytes = copy->dstXInBytes;
  same.dstY = copy->dstY;
  same.dstMemoryType = copy->dstMemoryType;
  same.dstHost = copy->dstHost;
  same.dstDevice = copy->dstDevice;
  same.dstArray = copy->dstArray;
  same.dstPitch = copy->dstPitch;
  same.WidthInBytes = copy->WidthInBytes;
  same.Height = copy->Height;
  same.Depth = 1;
  return MakeRequest(&same, request);
}

// With unified addressing the addresses say all; the contexts must be some.
CUresult Model::MakeRequest(const CUDA_MEMCPY3D_PEER* copy,
                            CopyRequest* request) {
  if (copy == nullptr) return CUDA_ERROR_INVALID_VALUE;
  PINRING_SIMCUDA_TRY(CheckHandle(copy->dstContext));
  PINRING_SIMCUDA_TRY(CheckHandle(copy->srcContext));
  CUDA_MEMCPY3D same = {};
  same.srcXInBytes = copy->srcXInBytes;
  same.srcY = copy->srcY;
  same.srcZ = copy->srcZ;
  same.srcLOD = copy->srcLOD;
  same.srcMemoryType = copy->srcMemoryType;
  same.srcHost = copy->srcHost;
  same.srcDevice = copy->srcDevice;
  same.srcArray = copy->srcArray;
  same.srcPitch = copy->srcPitch;
  same.srcHeight = copy->srcHeight;
  same.dstXInBytes = copy->dstXInBytes;
  same.dstY = copy->dstY;
  same.dstZ = copy->dstZ;
  same.dstLOD = copy->dstLOD;
  same.dstMemoryType = copy->dstMemoryType;
  same.dstHost = copy->dstHost;
  same.dstDevice = copy->dstDevice;
  same.dstArray = copy->dstArray;
  same.dstPitch = copy->dstPitch;
  same.dstHeight = copy->dstHeight;
  same.WidthInBytes = copy->WidthInBytes;
  same.Height = copy->Height;
  same.Depth = copy->Depth;
  return MakeRequest(&same, request);
}

CUresult Model::Memcpy2D(const CUDA_MEMCPY2D* copy) {
  CopyRequest request;
  PINRING_SIMCUDA_TRY(MakeRequest(copy, &request));
  return Copy("cuMemcpy2D", request);
}

// cuMemcpy2D may refuse pitches between two places of a device; here it does
// not, and the two are the same.
CUresult Model::Memcpy2DUnaligned(const CUDA_MEMCPY2D* copy) {
  CopyRequest request;
  PINRING_SIMCUDA_TRY(MakeRequest(copy, &request));
  return Copy("cuMemcpy2DUnaligned", request);
}

CUresult Model::Memcpy2DAsync(const CUDA_MEMCPY2D* copy, CUstream stream) {
  CopyRequest request;
  PINRING_SIMCUDA_TRY(MakeRequest(copy, &request));
  return CopyAsync("cuMemcpy2DAsync", request, stream);
}

CUresult Model::Memcpy3D(const CUDA_MEMCPY3D* copy) {
  CopyRequest request;
  PINRING_SIMCUDA_TRY(MakeRequest(copy, &request));
  return Copy("cuMemcpy3D", request);
}

CUresult Model::Memcpy3DAsync(const CUDA_MEMCPY3D* copy, CUstream stream) {
  CopyRequest request;
  PINRING_SIMCUDA_TRY(MakeRequest(copy, &request));
  return CopyAsync("cuMemcpy3DAsync", request, stream);
}

CUresult Model::Memcpy3DPeer(const CUDA_MEMCPY3D_PEER* copy) {
  CopyRequest request;
  PINRING_SIMCUDA_TRY(MakeRequest(copy, &request));
  return Copy("cuMemcpy3DPeer", request);
}

CUresult Model::Memcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* copy,
                                  CUstream stream) {
  CopyRequest request;
  PINRING_SIMCUDA_TRY(MakeRequest(copy, &request));
  PINRING_SIMCUDA_TRY(CheckPeerCapture(stream));
  return CopyAsync("cuMemcpy3DPeerAsync", request, stream);
}

}  // namespace pinring::simcuda
