// Batches of copies: each copy is one operation of the stream, in the order of
// the lists, which is one of the orders that a batch may take. The whole batch
// is checked before any of it is enqueued.

#include <cstring>
#include <limits>
#include <vector>

#include "src/simcuda/model.h"

namespace pinring::simcuda {
namespace {

constexpr size_t kNoCopy = std::numeric_limits<size_t>::max();

// CUmemcpyAttributes, for headers that do not have it yet.
enum Order : int { kStreamOrder = 1, kDuringCall = 2, kAnyOrder = 3 };
constexpr unsigned kOverlapWithCompute = 1;
struct Location {
  int type;
  int id;
};
struct Attributes {
  Order source_order;
  Location source_hint;
  Location destination_hint;
  unsigned flags;
};
#if CUDA_VERSION >= 12080
static_assert(sizeof(Attributes) == sizeof(CUmemcpyAttributes));
static_assert(int{kDuringCall} ==
              int{CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL});
#endif

bool ReadAttributes(const CUmemcpyAttributes_st* program_attributes,
                    const size_t* indices, size_t attribute_count, size_t count,
                    std::vector<Attributes>* attributes) {
  if (program_attributes == nullptr || indices == nullptr ||
      attribute_count == 0 || attribute_count > count || indices[0] != 0) {
    return false;
  }
  attributes->resize(attribute_count);
  std::memcpy(attributes->data(), program_attributes,
              attribute_count * sizeof(Attributes));
  for (size_t i = 0; i < attribute_count; ++i) {
    const Order order = (*attributes)[i].source_order;
    if (order < kStreamOrder || order > kAnyOrder ||
        ((*attributes)[i].flags & ~kOverlapWithCompute) != 0 ||
        indices[i] >= count || (i > 0 && indices[i] <= indices[i - 1])) {
      return false;
    }
  }
  return true;
}

}  // namespace

CUresult Model::CopyBatch(const CUdeviceptr* dsts, const CUdeviceptr* srcs,
                          const size_t* sizes, size_t count,
                          const CUmemcpyAttributes_st* program_attributes,
                          const size_t* attribute_indices,
                          size_t attribute_count, CUstream stream,
                          size_t* failed) {
  constexpr char kEntry[] = "cuMemcpyBatchAsync";
  *failed = kNoCopy;
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(stream, &target));
  std::vector<Attributes> attributes;
  // Documented: not in the legacy stream.
  if (target.stream->type == StreamType::kLegacy || dsts == nullptr ||
      srcs == nullptr || sizes == nullptr || count == 0 ||
      !ReadAttributes(program_attributes, attribute_indices, attribute_count,
                      count, &attributes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  PINRING_SIMCUDA_TRY(CheckNotCapturing(target));
  std::vector<BatchCopy> copies;
  size_t attribute = 0;
  for (size_t i = 0; i < count; ++i) {
    if (attribute + 1 < attribute_count &&
        attribute_indices[attribute + 1] == i) {
      ++attribute;
    }
    BatchCopy copy = {Linear(dsts[i], srcs[i], sizes[i], false, false),
                      attributes[attribute].source_order == kDuringCall};
    if (const CUresult code =
            copy.request.shape.empty() ? CUDA_SUCCESS : Locate(&copy.request);
        code != CUDA_SUCCESS) {
      *failed = i;
      return code;
    }
    copies.push_back(copy);
  }
  return SubmitBatch(kEntry, target, copies);
}

CUresult Model::SubmitBatch(const char* entry, const Target& target,
                            const std::vector<BatchCopy>& copies) {
  OpRef awaited;  // the last one that the call waits for
  OpRef latest;
  {
    Lock lock;
    PINRING_SIMCUDA_TRY(lock.Acquire(*this, *target.context, entry));
    for (const auto& [request, during_call] : copies) {
      if (request.shape.empty()) continue;
      const OpRef op = MakeCopy(request);
      bool wait = request.dst.memory == CopyEnd::kPageable;
      if (request.src.memory == CopyEnd::kDevice) {
        wait = wait || during_call;
      } else if (during_call) {
        ReadSource(*op);
      } else if (request.src.memory == CopyEnd::kPageable) {
        if (op->bytes <= options_.async_pageable_staging_bytes) {
          ReadSource(*op);
        } else {
          wait = true;
        }
      }
      PINRING_SIMCUDA_TRY(Submit(entry, target, op, lock));
      latest = op;
      if (wait) awaited = op;
    }
  }
  if (options_.launch_blocking) awaited = latest;
  if (awaited == nullptr || awaited->number == 0) return CUDA_SUCCESS;
  return WaitForOp(*target.context, entry, awaited);
}

#if CUDA_VERSION >= 12080
// Documented: extents and lengths count elements, of the array if there is one;
// none of them is 0, and a length or height of 0 is the copy's own.
CUresult Model::CopyBoxes(size_t count, const CUDA_MEMCPY3D_BATCH_OP_st* boxes,
                          unsigned long long flags, CUstream stream,
                          size_t* failed) {
  constexpr char kEntry[] = "cuMemcpy3DBatchAsync";
  *failed = kNoCopy;
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(stream, &target));
  if (target.stream->type == StreamType::kLegacy || boxes == nullptr ||
      count == 0 || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  PINRING_SIMCUDA_TRY(CheckNotCapturing(target));
  std::vector<BatchCopy> copies;
  for (size_t i = 0; i < count; ++i) {
    BatchCopy copy = {
        {},
        boxes[i].srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL};
    CUresult code = MakeRequest(boxes[i], &copy.request);
    if (code == CUDA_SUCCESS) code = Locate(&copy.request);
    if (code != CUDA_SUCCESS) {
      *failed = i;
      return code;
    }
    copies.push_back(copy);
  }
  return SubmitBatch(kEntry, target, copies);
}

CUresult Model::MakeRequest(const CUDA_MEMCPY3D_BATCH_OP_st& box,
                            CopyRequest* request) {
  if (box.srcAccessOrder < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
      box.srcAccessOrder > CU_MEMCPY_SRC_ACCESS_ORDER_ANY ||
      (box.flags & ~kOverlapWithCompute) != 0 || box.extent.width == 0 ||
      box.extent.height == 0 || box.extent.depth == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  size_t element = 1;
  bool known = false;
  for (const CUmemcpy3DOperand* operand : {&box.src, &box.dst}) {
    if (operand->type != CU_MEMCPY_OPERAND_TYPE_ARRAY) continue;
    const Array* array = nullptr;
    PINRING_SIMCUDA_TRY(FindArray(operand->op.array.array, &array));
    if (known && array->element_bytes != element)
      return CUDA_ERROR_INVALID_VALUE;
    element = array->element_bytes;
    known = true;
  }
  const auto width = Product(box.extent.width, element);
  if (!width) return CUDA_ERROR_INVALID_VALUE;
  request->shape = {*width, box.extent.height, box.extent.depth};
  const auto describe = [&](const CUmemcpy3DOperand& operand,
                            CopyEnd* end) -> CUresult {
    Operand described = {};
    if (operand.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
      const auto x = Product(operand.op.array.offset.x, element);
      if (!x) return CUDA_ERROR_INVALID_VALUE;
      described.type = CU_MEMORYTYPE_ARRAY;
      described.array = operand.op.array.array;
      described.x = *x;
      described.y = operand.op.array.offset.y;
      described.z = operand.op.array.offset.z;
      return MakeEnd(described, request->shape, end);
    }
    if (operand.type != CU_MEMCPY_OPERAND_TYPE_POINTER)
      return CUDA_ERROR_INVALID_VALUE;
    const auto pitch =
        Product(operand.op.ptr.rowLength == 0 ? box.extent.width
                                              : operand.op.ptr.rowLength,
                element);
    if (!pitch) return CUDA_ERROR_INVALID_VALUE;
    described.type = CU_MEMORYTYPE_UNIFIED;
    described.device = operand.op.ptr.ptr;
    described.pitch = *pitch;
    described.height = operand.op.ptr.layerHeight == 0
                           ? box.extent.height
                           : operand.op.ptr.layerHeight;
    return MakeEnd(described, request->shape, end);
  };
  PINRING_SIMCUDA_TRY(describe(box.dst, &request->dst));
  return describe(box.src, &request->src);
}
#else
CUresult Model::CopyBoxes(size_t, const CUDA_MEMCPY3D_BATCH_OP_st*,
                          unsigned long long, CUstream, size_t*) {
  return CUDA_ERROR_NOT_SUPPORTED;
}
#endif

CUresult Model::Memcpy3DBatchAsync12(size_t count,
                                     CUDA_MEMCPY3D_BATCH_OP_st* boxes,
                                     size_t* failed_index,
                                     unsigned long long flags,
                                     CUstream stream) {
  size_t failed = kNoCopy;
  const CUresult code = CopyBoxes(count, boxes, flags, stream, &failed);
  if (failed_index != nullptr && code != CUDA_SUCCESS) *failed_index = failed;
  return code;
}

CUresult Model::Memcpy3DBatchAsync13(size_t count,
                                     CUDA_MEMCPY3D_BATCH_OP_st* boxes,
                                     unsigned long long flags,
                                     CUstream stream) {
  size_t failed = kNoCopy;
  return CopyBoxes(count, boxes, flags, stream, &failed);
}

CUresult Model::MemcpyBatchAsync12(CUdeviceptr* dsts, CUdeviceptr* srcs,
                                   size_t* sizes, size_t count,
                                   CUmemcpyAttributes_st* attributes,
                                   size_t* attribute_indices,
                                   size_t attribute_count, size_t* failed_index,
                                   CUstream stream) {
  size_t failed = kNoCopy;
  const CUresult code =
      CopyBatch(dsts, srcs, sizes, count, attributes, attribute_indices,
                attribute_count, stream, &failed);
  if (failed_index != nullptr && code != CUDA_SUCCESS) *failed_index = failed;
  return code;
}

CUresult Model::MemcpyBatchAsync13(CUdeviceptr* dsts, CUdeviceptr* srcs,
                                   size_t* sizes, size_t count,
                                   CUmemcpyAttributes_st* attributes,
                                   size_t* attribute_indices,
                                   size_t attribute_count, CUstream stream) {
  size_t failed = kNoCopy;
  return CopyBatch(dsts, srcs, sizes, count, attributes, attribute_indices,
                   attribute_count, stream, &failed);
}

}  // namespace pinring::simcuda
