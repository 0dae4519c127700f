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
  std::vector<CopyRequest> requests;
  for (size_t i = 0; i < count; ++i) {
    CopyRequest request = Linear(dsts[i], srcs[i], sizes[i], false, false);
    if (const CUresult code =
            request.shape.empty() ? CUDA_SUCCESS : Locate(&request);
        code != CUDA_SUCCESS) {
      *failed = i;
      return code;
    }
    requests.push_back(request);
  }
  OpRef awaited;  // the last one that the call waits for
  OpRef latest;
  {
    Lock lock;
    PINRING_SIMCUDA_TRY(lock.Acquire(*this, *target.context, kEntry));
    size_t attribute = 0;
    for (size_t i = 0; i < count; ++i) {
      if (attribute + 1 < attribute_count &&
          attribute_indices[attribute + 1] == i)
        ++attribute;
      const CopyRequest& request = requests[i];
      if (request.shape.empty()) continue;
      const bool during_call =
          attributes[attribute].source_order == kDuringCall;
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
      PINRING_SIMCUDA_TRY(Submit(kEntry, target, op, lock));
      latest = op;
      if (wait) awaited = op;
    }
  }
  if (options_.launch_blocking) awaited = latest;
  if (awaited == nullptr || awaited->number == 0) return CUDA_SUCCESS;
  return WaitForOp(*target.context, kEntry, awaited);
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
