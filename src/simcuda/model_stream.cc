// Streams and events.

#include <algorithm>
#include <utility>

#include "src/simcuda/model.h"

namespace pinring::simcuda {

CUresult Model::StreamCreateWithPriority(CUstream* handle, unsigned flags,
                                         int priority) {
  Context* context;
  PINRING_SIMCUDA_TRY(Current(&context));
  if (handle == nullptr || (flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  Lock lock;
  PINRING_SIMCUDA_TRY(
      lock.Acquire(*this, *context, "cuStreamCreateWithPriority"));
  const StreamType type = flags == CU_STREAM_NON_BLOCKING
                              ? StreamType::kNonBlocking
                              : StreamType::kBlocking;
  int least = 0;
  int greatest = 0;
  PINRING_SIMCUDA_TRY(CtxGetStreamPriorityRange(&least, &greatest));
  StreamRef stream =
      NewStream(*context, type, flags, std::clamp(priority, greatest, least));
  *handle = streams_.Add(stream);
  return CUDA_SUCCESS;
}

// What is queued still runs, and the handle may come back at once.
CUresult Model::StreamDestroy(CUstream handle) {
  const StreamRef* found = streams_.Find(handle);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const StreamRef stream = *found;
  Context& context = *contexts_[static_cast<size_t>(stream->device)];
  Lock lock;
  if (stream->generation == context.generation &&
      Check(context) == CUDA_SUCCESS) {
    PINRING_SIMCUDA_TRY(lock.Acquire(*this, context, "cuStreamDestroy"));
    if (stream->capture != nullptr) stream->capture->invalidated = true;
    context.device.Flush();
  }
  if (!streams_.Remove(handle))
    return CUDA_ERROR_INVALID_HANDLE;  // another thread's destroy came first
  return stream->generation == context.generation
             ? Check(context)
             : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult Model::StreamQuery(CUstream handle) {
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(handle, &target));
  PINRING_SIMCUDA_TRY(CheckNotCapturing(target));
  PINRING_SIMCUDA_TRY(CheckUnsafe());
  target.context->device.Flush();
  ++version_;
  return LatestOps(target).empty() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult Model::StreamSynchronize(CUstream handle) {
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(handle, &target));
  PINRING_SIMCUDA_TRY(CheckNotCapturing(target));
  PINRING_SIMCUDA_TRY(CheckUnsafe());
  const std::vector<OpRef> ops = LatestOps(target);
  return WaitFor(*target.context, "cuStreamSynchronize", "waits for its stream",
                 [&] {
                   return std::all_of(ops.begin(), ops.end(),
                                      [](const OpRef& op) { return op->done; });
                 });
}

CUresult Model::StreamGetFlags(CUstream handle, unsigned* flags) {
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(handle, &target));
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = target.stream->flags;
  return CUDA_SUCCESS;
}

CUresult Model::StreamGetPriority(CUstream handle, int* priority) {
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(handle, &target));
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *priority = target.stream->priority;
  return CUDA_SUCCESS;
}

CUresult Model::StreamGetDevice(CUstream handle, CUdevice* device) {
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(handle, &target));
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = target.context->ordinal;
  return CUDA_SUCCESS;
}

CUresult Model::StreamGetCtx(CUstream handle, CUcontext* context) {
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(handle, &target));
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = reinterpret_cast<CUcontext>(target.context);
  return CUDA_SUCCESS;
}

CUresult Model::StreamGetId(CUstream handle, unsigned long long* id) {
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(handle, &target));
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = target.stream->id;
  return CUDA_SUCCESS;
}

CUresult Model::EventCreate(CUevent* handle, unsigned flags) {
  Context* context;
  PINRING_SIMCUDA_TRY(Current(&context));
  if (handle == nullptr || (flags & ~7u) != 0) return CUDA_ERROR_INVALID_VALUE;
  auto event = std::make_shared<Event>();
  event->device = context->ordinal;
  event->generation = context->generation;
  event->flags = flags;
  *handle = events_.Add(std::move(event));
  return CUDA_SUCCESS;
}

CUresult Model::EventDestroy(CUevent handle) {
  return events_.Remove(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult Model::EventRecord(CUevent handle, CUstream stream) {
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(stream, &target));
  const std::shared_ptr<Event>* found = events_.Find(handle);
  if (found == nullptr || (*found)->device != target.context->ordinal)
    return CUDA_ERROR_INVALID_HANDLE;
  const std::shared_ptr<Event> event = *found;
  PINRING_SIMCUDA_TRY(CheckImplicit(target));
  if (const auto& capture = target.stream->capture) {
    if (capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    event->record = nullptr;
    event->capture = capture;
    event->captured_from = target.stream.get();
    event->captured_after = capture->appended[target.stream.get()];
    return CUDA_SUCCESS;
  }
  auto op = std::make_shared<Op>();
  op->kind = OpKind::kEventRecord;
  op->route = Route::kLatest;
  Lock lock;
  PINRING_SIMCUDA_TRY(Submit("cuEventRecord", target, op, lock));
  event->record = std::move(op);
  event->capture = nullptr;
  return CUDA_SUCCESS;
}

CUresult Model::EventQuery(CUevent handle) {
  const std::shared_ptr<Event>* found = events_.Find(handle);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::shared_ptr<Event> event = *found;
  Context& context = *contexts_[static_cast<size_t>(event->device)];
  if (event->generation != context.generation)
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  PINRING_SIMCUDA_TRY(Check(context));
  if (event->capture != nullptr) {
    event->capture->invalidated = true;
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  PINRING_SIMCUDA_TRY(CheckUnsafe());
  context.device.Flush();
  ++version_;
  return event->record == nullptr || event->record->done ? CUDA_SUCCESS
                                                         : CUDA_ERROR_NOT_READY;
}

CUresult Model::EventSynchronize(CUevent handle) {
  const std::shared_ptr<Event>* found = events_.Find(handle);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::shared_ptr<Event> event = *found;
  Context& context = *contexts_[static_cast<size_t>(event->device)];
  if (event->generation != context.generation)
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  PINRING_SIMCUDA_TRY(Check(context));
  if (event->capture != nullptr) {
    event->capture->invalidated = true;
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  PINRING_SIMCUDA_TRY(CheckUnsafe());
  if (event->record == nullptr) return CUDA_SUCCESS;
  const OpRef record = event->record;
  return WaitFor(context, "cuEventSynchronize", "waits for its event",
                 [&] { return record->done; });
}

// There is no clock: what is told is how many operations were enqueued between
// the two.
CUresult Model::EventElapsedTime(float* milliseconds, CUevent start,
                                 CUevent end) {
  const std::shared_ptr<Event>* first = events_.Find(start);
  const std::shared_ptr<Event>* last = events_.Find(end);
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (first == nullptr || last == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  for (const auto* event : {first, last}) {
    if ((*event)->record == nullptr ||
        ((*event)->flags & CU_EVENT_DISABLE_TIMING) != 0) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
  }
  if (!(*first)->record->done || !(*last)->record->done)
    return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>((*last)->record->number) -
                  static_cast<float>((*first)->record->number);
  return CUDA_SUCCESS;
}

CUresult Model::StreamWaitEvent(CUstream stream, CUevent handle,
                                unsigned flags) {
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(stream, &target));
  const std::shared_ptr<Event>* found = events_.Find(handle);
  if (found == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (flags > 1) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Event> event = *found;
  PINRING_SIMCUDA_TRY(CheckImplicit(target));
  if (event->capture != nullptr || target.stream->capture != nullptr)
    return JoinCapture(target, *event);
  if (event->record == nullptr || event->record->done) return CUDA_SUCCESS;
  auto op = std::make_shared<Op>();
  op->kind = OpKind::kEventWait;
  op->route = Route::kNone;
  op->after.push_back(event->record);
  Lock lock;
  return Submit("cuStreamWaitEvent", target, op, lock);
}

}  // namespace pinring::simcuda
