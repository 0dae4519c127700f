// Copies. The addresses decide what a copy is, not the name of the call; the
// call's name only says which ends must be memory that the driver knows. A copy
// is checked as a whole before anything of it moves.
//
// Blocking. Copies between pinned and device memory: asynchronous ones return
// at once, synchronous ones when done. From pageable memory to the device: the
// source is read into the driver's staging during the call, after the stream's
// earlier work if the call is synchronous (documented), whatever holds the
// stream if not, up to 1 MiB; more than that waits (measured). To pageable
// memory: done on return. Host to host: the call waits for all the device's
// work, and copies itself. Between devices: never waited for.

#include <algorithm>
#include <cstdint>
#include <utility>

#include "src/simcuda/model.h"

namespace pinring::simcuda {

Model::CopyRequest Model::Linear(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
                                 bool dst_must_be_known,
                                 bool src_must_be_known) {
  CopyRequest request;
  request.shape.width = bytes;
  request.dst.at = reinterpret_cast<char*>(dst);
  request.dst.must_be_known = dst_must_be_known;
  request.src.at = reinterpret_cast<char*>(src);
  request.src.must_be_known = src_must_be_known;
  return request;
}

CUresult Model::LocateEnd(const Shape& shape, CopyEnd* end) {
  const std::optional<size_t> span = Span(shape, end->strides);
  if (!span || !Sum(reinterpret_cast<uintptr_t>(end->at), *span))
    return CUDA_ERROR_INVALID_VALUE;
  const Block* block = memory_.Find(end->at);
  if (block == nullptr) {
    end->memory = CopyEnd::kPageable;
    return end->must_be_known || end->at == nullptr ? CUDA_ERROR_INVALID_VALUE
                                                    : CUDA_SUCCESS;
  }
  end->memory = block->pinned() ? CopyEnd::kPinned : CopyEnd::kDevice;
  return block->Contains(end->at, *span) ? CUDA_SUCCESS
                                         : CUDA_ERROR_INVALID_VALUE;
}

CUresult Model::Locate(CopyRequest* request) {
  PINRING_SIMCUDA_TRY(LocateEnd(request->shape, &request->dst));
  return LocateEnd(request->shape, &request->src);
}

OpRef Model::MakeCopy(const CopyRequest& request) {
  const size_t bytes = request.shape.bytes();
  const bool to_device = request.dst.memory == CopyEnd::kDevice;
  const bool from_device = request.src.memory == CopyEnd::kDevice;
  auto op = std::make_shared<Op>();
  op->kind = OpKind::kCopy;
  op->dst = request.dst.at;
  op->src = request.src.at;
  op->shape = request.shape;
  op->dst_strides = request.dst.strides;
  op->src_strides = request.src.strides;
  op->bytes = bytes;
  op->step_bytes =
      std::max<size_t>(1, std::min(options_.copy_step_bytes, (bytes + 1) / 2));
  op->step_rows = std::max<size_t>(1, options_.copy_step_rows);
  op->dst_is_host = !to_device;
  op->check_hazards = options_.check_hazards && to_device != from_device;
  if (from_device && !to_device) {
    op->route = Route::kDeviceToHost;
  } else if (to_device && !from_device && bytes > options_.small_copy_bytes) {
    op->route = Route::kHostToDevice;
  } else {
    op->route = Route::kCompute;
  }
  return op;
}

// The driver reads pageable memory now; the operation moves what was read.
void Model::ReadSource(Op& op) {
  auto staging = std::make_shared<std::vector<char>>(op.bytes);
  for (size_t at = 0; at < op.bytes; at += op.shape.width) {
    const char* row = op.src + Offset(op.shape, op.src_strides, at);
    std::copy_n(row, op.shape.width,
                staging->begin() + static_cast<std::ptrdiff_t>(at));
  }
  op.staging = std::move(staging);
  op.src = op.staging->data();
  op.src_strides = {op.shape.width, op.shape.width * op.shape.height};
  op.check_hazards = false;
}

CUresult Model::CopyHostToHost(const char* entry, Context& context,
                               const CopyRequest& request) {
  const OpRef op = MakeCopy(request);
  Lock lock;
  PINRING_SIMCUDA_TRY(lock.Acquire(*this, context, entry));
  PINRING_SIMCUDA_TRY(WaitForWork(context, entry, false));
  PerformWhole(*op);
  return CUDA_SUCCESS;
}

CUresult Model::Copy(const char* entry, CopyRequest request) {
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(nullptr, &target));
  PINRING_SIMCUDA_TRY(CheckNotCapturing(target));
  if (request.shape.empty()) return CUDA_SUCCESS;
  PINRING_SIMCUDA_TRY(Locate(&request));
  if (request.on_host()) return CopyHostToHost(entry, *target.context, request);
  OpRef op = MakeCopy(request);
  const bool from_pageable = request.src.memory == CopyEnd::kPageable;
  if (from_pageable || request.dst.memory == CopyEnd::kPageable) {
    const std::vector<OpRef> before = LatestOps(target);
    PINRING_SIMCUDA_TRY(WaitFor(
        *target.context, entry, "waits for the stream, to copy pageable memory",
        [&] {
          return std::all_of(before.begin(), before.end(),
                             [](const OpRef& one) { return one->done; });
        }));
  }
  const bool staged =
      from_pageable && op->bytes <= options_.pageable_staging_bytes;
  {
    Lock lock;
    PINRING_SIMCUDA_TRY(lock.Acquire(*this, *target.context, entry));
    if (staged) ReadSource(*op);
    PINRING_SIMCUDA_TRY(Submit(entry, target, op, lock));
  }
  if ((staged || request.on_device()) && !options_.launch_blocking)
    return CUDA_SUCCESS;
  return WaitForOp(*target.context, entry, op);
}

CUresult Model::CopyAsync(const char* entry, CopyRequest request,
                          CUstream stream) {
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(stream, &target));
  PINRING_SIMCUDA_TRY(CheckImplicit(target));
  if (request.shape.empty()) return CUDA_SUCCESS;
  PINRING_SIMCUDA_TRY(Locate(&request));
  const bool capturing = target.stream->capture != nullptr;
  if (request.on_host() && !capturing)
    return CopyHostToHost(entry, *target.context, request);
  OpRef op = MakeCopy(request);
  bool wait = options_.launch_blocking;
  {
    Lock lock;
    PINRING_SIMCUDA_TRY(lock.Acquire(*this, *target.context, entry));
    if (!capturing && request.src.memory == CopyEnd::kPageable) {
      if (op->bytes <= options_.async_pageable_staging_bytes) {
        ReadSource(*op);
      } else {
        wait = true;
      }
    }
    if (request.dst.memory == CopyEnd::kPageable) wait = true;
    PINRING_SIMCUDA_TRY(Submit(entry, target, op, lock));
  }
  if (!wait || op->number == 0) return CUDA_SUCCESS;
  return WaitForOp(*target.context, entry, op);
}

CUresult Model::Memcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  return Copy("cuMemcpy", Linear(dst, src, bytes, false, false));
}

CUresult Model::MemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
                            CUstream stream) {
  return CopyAsync("cuMemcpyAsync", Linear(dst, src, bytes, false, false),
                   stream);
}

CUresult Model::MemcpyHtoD(CUdeviceptr dst, const void* src, size_t bytes) {
  return Copy("cuMemcpyHtoD", Linear(dst, reinterpret_cast<CUdeviceptr>(src),
                                     bytes, true, false));
}

CUresult Model::MemcpyDtoH(void* dst, CUdeviceptr src, size_t bytes) {
  return Copy("cuMemcpyDtoH", Linear(reinterpret_cast<CUdeviceptr>(dst), src,
                                     bytes, false, true));
}

CUresult Model::MemcpyHtoDAsync(CUdeviceptr dst, const void* src, size_t bytes,
                                CUstream stream) {
  return CopyAsync(
      "cuMemcpyHtoDAsync",
      Linear(dst, reinterpret_cast<CUdeviceptr>(src), bytes, true, false),
      stream);
}

CUresult Model::MemcpyDtoHAsync(void* dst, CUdeviceptr src, size_t bytes,
                                CUstream stream) {
  return CopyAsync(
      "cuMemcpyDtoHAsync",
      Linear(reinterpret_cast<CUdeviceptr>(dst), src, bytes, false, true),
      stream);
}

CUresult Model::MemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
                                CUstream stream) {
  return CopyAsync("cuMemcpyDtoDAsync", Linear(dst, src, bytes, true, true),
                   stream);
}

CUresult Model::MemcpyDtoD(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  return Copy("cuMemcpyDtoD", Linear(dst, src, bytes, true, true));
}

// With unified addressing the addresses say all.
CUresult Model::MemcpyPeer(CUdeviceptr dst, CUcontext dst_context,
                           CUdeviceptr src, CUcontext src_context,
                           size_t bytes) {
  PINRING_SIMCUDA_TRY(CheckHandle(dst_context));
  PINRING_SIMCUDA_TRY(CheckHandle(src_context));
  return Copy("cuMemcpyPeer", Linear(dst, src, bytes, true, true));
}

// As an H200 answers to cuMemcpyPeerAsync. That boxes are answered the same,
// and that the capture is void then, was not measured.
CUresult Model::CheckPeerCapture(CUstream stream) {
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(stream, &target));
  return target.stream->capture == nullptr ? CUDA_SUCCESS
                                           : CheckNotCapturing(target);
}

CUresult Model::MemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_context,
                                CUdeviceptr src, CUcontext src_context,
                                size_t bytes, CUstream stream) {
  PINRING_SIMCUDA_TRY(CheckHandle(dst_context));
  PINRING_SIMCUDA_TRY(CheckHandle(src_context));
  PINRING_SIMCUDA_TRY(CheckPeerCapture(stream));
  return CopyAsync("cuMemcpyPeerAsync", Linear(dst, src, bytes, true, true),
                   stream);
}

}  // namespace pinring::simcuda
