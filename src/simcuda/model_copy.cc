// Copies and memsets. The addresses decide what a copy is, not the name of the
// call; the call's name only says which ends must be memory that the driver
// knows.
//
// Blocking. Copies between pinned and device memory: asynchronous ones return
// at once, synchronous ones when done. From pageable memory to the device: the
// source is read into the driver's staging during the call, after the stream's
// earlier work if the call is synchronous (documented), whatever holds the
// stream if not, up to 1 MiB; more than that waits (measured). To pageable
// memory: done on return. Host to host: the call waits for all the device's
// work, and copies itself. Between devices: never waited for.

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/simcuda/model.h"

namespace pinring::simcuda {

CUresult Model::FindEnds(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
                         bool need_dst, bool need_src, CopyEnds* ends) {
  const auto* to = reinterpret_cast<const void*>(dst);
  const auto* from = reinterpret_cast<const void*>(src);
  ends->dst = memory_.Find(to);
  ends->src = memory_.Find(from);
  if (ends->dst == nullptr ? need_dst || dst == 0
                           : !ends->dst->Contains(to, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  if (ends->src == nullptr ? need_src || src == 0
                           : !ends->src->Contains(from, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

OpRef Model::MakeCopy(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
                      const CopyEnds& ends) {
  auto op = std::make_shared<Op>();
  op->kind = OpKind::kCopy;
  op->dst = reinterpret_cast<char*>(dst);
  op->src = reinterpret_cast<const char*>(src);
  op->bytes = bytes;
  op->step_bytes =
      std::max<size_t>(1, std::min(options_.copy_step_bytes, (bytes + 1) / 2));
  op->dst_is_host = !ends.dst_on_device();
  op->check_hazards =
      options_.check_hazards && ends.dst_on_device() != ends.src_on_device();
  if (ends.src_on_device() && !ends.dst_on_device()) {
    op->route = Route::kDeviceToHost;
  } else if (ends.dst_on_device() && !ends.src_on_device() &&
             bytes > options_.small_copy_bytes) {
    op->route = Route::kHostToDevice;
  } else {
    op->route = Route::kCompute;
  }
  return op;
}

// The driver reads pageable memory now; the operation moves what was read.
void Model::ReadSource(Op& op) {
  op.staging = std::make_shared<std::vector<char>>(op.src, op.src + op.bytes);
  op.src = op.staging->data();
  op.check_hazards = false;
}

CUresult Model::CopyHostToHost(const char* entry, Context& context,
                               CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  Lock lock;
  PINRING_SIMCUDA_TRY(lock.Acquire(*this, context, entry));
  PINRING_SIMCUDA_TRY(WaitForWork(context, entry, false));
  std::memmove(reinterpret_cast<void*>(dst), reinterpret_cast<const void*>(src),
               bytes);
  return CUDA_SUCCESS;
}

CUresult Model::Copy(const char* entry, CUdeviceptr dst, CUdeviceptr src,
                     size_t bytes, bool need_dst, bool need_src) {
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(nullptr, &target));
  PINRING_SIMCUDA_TRY(CheckUnsafe());
  PINRING_SIMCUDA_TRY(CheckNotCapturing(target));
  if (bytes == 0) return CUDA_SUCCESS;
  CopyEnds ends;
  PINRING_SIMCUDA_TRY(FindEnds(dst, src, bytes, need_dst, need_src, &ends));
  if (!ends.dst_on_device() && !ends.src_on_device())
    return CopyHostToHost(entry, *target.context, dst, src, bytes);
  OpRef op = MakeCopy(dst, src, bytes, ends);
  const bool pageable = ends.src == nullptr || ends.dst == nullptr;
  if (pageable) {
    const std::vector<OpRef> before = LatestOps(target);
    PINRING_SIMCUDA_TRY(WaitFor(
        *target.context, entry, "waits for the stream, to copy pageable memory",
        [&] {
          return std::all_of(before.begin(), before.end(),
                             [](const OpRef& one) { return one->done; });
        }));
  }
  const bool staged =
      ends.src == nullptr && bytes <= options_.pageable_staging_bytes;
  {
    Lock lock;
    PINRING_SIMCUDA_TRY(lock.Acquire(*this, *target.context, entry));
    if (staged) ReadSource(*op);
    PINRING_SIMCUDA_TRY(Submit(entry, target, op, lock));
  }
  const bool between_devices = ends.dst_on_device() && ends.src_on_device();
  if ((staged || between_devices) && !options_.launch_blocking)
    return CUDA_SUCCESS;
  return WaitForOp(*target.context, entry, op);
}

CUresult Model::CopyAsync(const char* entry, CUdeviceptr dst, CUdeviceptr src,
                          size_t bytes, bool need_dst, bool need_src,
                          CUstream stream) {
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(stream, &target));
  PINRING_SIMCUDA_TRY(CheckImplicit(target));
  if (bytes == 0) return CUDA_SUCCESS;
  CopyEnds ends;
  PINRING_SIMCUDA_TRY(FindEnds(dst, src, bytes, need_dst, need_src, &ends));
  const bool capturing = target.stream->capture != nullptr;
  if (!ends.dst_on_device() && !ends.src_on_device() && !capturing) {
    return CopyHostToHost(entry, *target.context, dst, src, bytes);
  }
  OpRef op = MakeCopy(dst, src, bytes, ends);
  bool wait = options_.launch_blocking;
  {
    Lock lock;
    PINRING_SIMCUDA_TRY(lock.Acquire(*this, *target.context, entry));
    if (!capturing && ends.src == nullptr) {
      if (bytes <= options_.async_pageable_staging_bytes) {
        ReadSource(*op);
      } else {
        wait = true;
      }
    }
    if (ends.dst == nullptr) wait = true;
    PINRING_SIMCUDA_TRY(Submit(entry, target, op, lock));
  }
  if (!wait || op->number == 0) return CUDA_SUCCESS;
  return WaitForOp(*target.context, entry, op);
}

CUresult Model::Memcpy(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  return Copy("cuMemcpy", dst, src, bytes, false, false);
}

CUresult Model::MemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
                            CUstream stream) {
  return CopyAsync("cuMemcpyAsync", dst, src, bytes, false, false, stream);
}

CUresult Model::MemcpyHtoD(CUdeviceptr dst, const void* src, size_t bytes) {
  return Copy("cuMemcpyHtoD", dst, reinterpret_cast<CUdeviceptr>(src), bytes,
              true, false);
}

CUresult Model::MemcpyDtoH(void* dst, CUdeviceptr src, size_t bytes) {
  return Copy("cuMemcpyDtoH", reinterpret_cast<CUdeviceptr>(dst), src, bytes,
              false, true);
}

CUresult Model::MemcpyHtoDAsync(CUdeviceptr dst, const void* src, size_t bytes,
                                CUstream stream) {
  return CopyAsync("cuMemcpyHtoDAsync", dst, reinterpret_cast<CUdeviceptr>(src),
                   bytes, true, false, stream);
}

CUresult Model::MemcpyDtoHAsync(void* dst, CUdeviceptr src, size_t bytes,
                                CUstream stream) {
  return CopyAsync("cuMemcpyDtoHAsync", reinterpret_cast<CUdeviceptr>(dst), src,
                   bytes, false, true, stream);
}

CUresult Model::MemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
                                CUstream stream) {
  return CopyAsync("cuMemcpyDtoDAsync", dst, src, bytes, true, true, stream);
}

CUresult Model::MemcpyDtoD(CUdeviceptr dst, CUdeviceptr src, size_t bytes) {
  return Copy("cuMemcpyDtoD", dst, src, bytes, true, true);
}

// With unified addressing the addresses say all.
CUresult Model::MemcpyPeer(CUdeviceptr dst, CUcontext dst_context,
                           CUdeviceptr src, CUcontext src_context,
                           size_t bytes) {
  PINRING_SIMCUDA_TRY(CheckHandle(dst_context));
  PINRING_SIMCUDA_TRY(CheckHandle(src_context));
  return Copy("cuMemcpyPeer", dst, src, bytes, true, true);
}

CUresult Model::MemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_context,
                                CUdeviceptr src, CUcontext src_context,
                                size_t bytes, CUstream stream) {
  PINRING_SIMCUDA_TRY(CheckHandle(dst_context));
  PINRING_SIMCUDA_TRY(CheckHandle(src_context));
  return CopyAsync("cuMemcpyPeerAsync", dst, src, bytes, true, true, stream);
}

CUresult Model::MakeMemset(CUdeviceptr dst, unsigned char value, size_t bytes,
                           OpRef* op) {
  auto* to = reinterpret_cast<char*>(dst);
  const Block* block = memory_.Find(to);
  if (block == nullptr || !block->Contains(to, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  *op = std::make_shared<Op>();
  (*op)->kind = OpKind::kMemset;
  (*op)->route = Route::kCompute;
  (*op)->dst = to;
  (*op)->bytes = bytes;
  (*op)->step_bytes = options_.copy_step_bytes;
  (*op)->fill = value;
  (*op)->dst_is_host = block->pinned();
  return CUDA_SUCCESS;
}

CUresult Model::MemsetD8(CUdeviceptr dst, unsigned char value, size_t bytes) {
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(nullptr, &target));
  PINRING_SIMCUDA_TRY(CheckUnsafe());
  PINRING_SIMCUDA_TRY(CheckNotCapturing(target));
  if (bytes == 0) return CUDA_SUCCESS;
  OpRef op;
  PINRING_SIMCUDA_TRY(MakeMemset(dst, value, bytes, &op));
  PINRING_SIMCUDA_TRY(Launch("cuMemsetD8", target, op, true));
  // Documented: asynchronous unless the memory is pinned host memory.
  return op->dst_is_host ? WaitForOp(*target.context, "cuMemsetD8", op)
                         : CUDA_SUCCESS;
}

CUresult Model::MemsetD8Async(CUdeviceptr dst, unsigned char value,
                              size_t bytes, CUstream stream) {
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(stream, &target));
  if (bytes == 0) return CUDA_SUCCESS;
  OpRef op;
  PINRING_SIMCUDA_TRY(MakeMemset(dst, value, bytes, &op));
  return Launch("cuMemsetD8Async", target, op, true);
}

}  // namespace pinring::simcuda
