// Stream capture: what is recorded, what is forbidden meanwhile, and graphs.
//
// Forbidden, as documented: querying or synchronizing a capturing stream or a
// captured event, or the context; using the legacy stream while a blocking
// stream of the context captures, in whatever mode; and, depending on the mode
// of the capture and of the calling thread, calls that may be unsafe
// (allocation, registration, synchronous copies, queries). Each invalidates the
// capture. Ending a capture from a thread that may not ends it all the same,
// without a graph (measured).

#include <algorithm>
#include <utility>

#include "src/simcuda/model.h"

namespace pinring::simcuda {

CUresult Model::Record(const Target& target, const OpRef& op) {
  Capture& capture = *target.stream->capture;
  if (capture.invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  capture.recorded.push_back(op);
  ++capture.appended[target.stream.get()];
  if (target.stream != capture.origin)
    capture.unjoined.insert(target.stream.get());
  return CUDA_SUCCESS;
}

CUresult Model::CheckUnsafe() {
  const ThreadState& thread = Thread();
  if (thread.capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_SUCCESS;
  bool forbidden = false;
  for (const auto& capture : captures_) {
    const bool own = capture->thread == thread.number &&
                     capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    const bool others = thread.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                        capture->thread != thread.number &&
                        capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!own && !others) continue;
    capture->invalidated = true;
    forbidden = true;
  }
  return forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

bool Model::HasImplicitCapture(const Context& context) const {
  for (const auto& capture : captures_) {
    for (const StreamRef& stream : capture->streams) {
      if (stream->device == context.ordinal && stream->implicit()) return true;
    }
  }
  return false;
}

CUresult Model::CheckImplicit(const Target& target) {
  if (target.stream->type != StreamType::kLegacy) return CUDA_SUCCESS;
  bool forbidden = false;
  for (const auto& capture : captures_) {
    for (const StreamRef& stream : capture->streams) {
      if (stream->device != target.context->ordinal || !stream->implicit())
        continue;
      capture->invalidated = true;
      forbidden = true;
    }
  }
  return forbidden ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

CUresult Model::CheckNotCapturing(const Target& target) {
  if (target.stream->capture != nullptr) {
    target.stream->capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return CheckImplicit(target);
}

CUresult Model::JoinCapture(const Target& target, const Event& event) {
  if (event.capture ==
      nullptr) {  // a capturing stream would wait for uncaptured work
    if (target.stream->capture->invalidated)
      return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    target.stream->capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  const std::shared_ptr<Capture> capture = event.capture;
  const bool live =
      std::find(captures_.begin(), captures_.end(), capture) != captures_.end();
  if (!live || target.stream->type == StreamType::kLegacy)
    return CUDA_ERROR_INVALID_VALUE;
  if (capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (target.stream->capture != nullptr && target.stream->capture != capture) {
    capture->invalidated = target.stream->capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (target.stream->capture == nullptr) {
    target.stream->capture = capture;
    capture->streams.insert(target.stream);
  }
  if (capture->appended[event.captured_from] == event.captured_after &&
      target.stream.get() != event.captured_from) {
    capture->unjoined.erase(event.captured_from);
    if (target.stream != capture->origin)
      capture->unjoined.insert(target.stream.get());
  }
  return CUDA_SUCCESS;
}

void Model::EndCaptureOf(const std::shared_ptr<Capture>& capture) {
  for (const StreamRef& stream : capture->streams) stream->capture = nullptr;
  capture->streams.clear();
  captures_.erase(std::find(captures_.begin(), captures_.end(), capture));
}

void Model::DropCaptures(Context& context) {
  const auto all = captures_;
  for (const auto& capture : all) {
    if (capture->origin->device == context.ordinal) EndCaptureOf(capture);
  }
}

CUresult Model::StreamIsCapturing(CUstream handle,
                                  CUstreamCaptureStatus* status) {
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(handle, &target));
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // Documented: asking the legacy stream then is an error, but one that does
  // the capture no harm.
  if (target.stream->type == StreamType::kLegacy &&
      HasImplicitCapture(*target.context)) {
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  const auto& capture = target.stream->capture;
  *status = capture == nullptr     ? CU_STREAM_CAPTURE_STATUS_NONE
            : capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                   : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

CUresult Model::StreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(handle, &target));
  if (mode != CU_STREAM_CAPTURE_MODE_GLOBAL &&
      mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
      mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (target.stream->type == StreamType::kLegacy)
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (target.stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->origin = target.stream;
  capture->thread = Thread().number;
  capture->mode = mode;
  capture->streams.insert(target.stream);
  target.stream->capture = capture;
  captures_.push_back(std::move(capture));
  return CUDA_SUCCESS;
}

CUresult Model::StreamEndCapture(CUstream handle, CUgraph* graph) {
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(handle, &target));
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Capture> capture = target.stream->capture;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->thread != Thread().number) {
    *graph = nullptr;
    EndCaptureOf(capture);
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  if (target.stream != capture->origin) {
    capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  *graph = nullptr;
  EndCaptureOf(capture);
  if (capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!capture->unjoined.empty()) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  *graph = graphs_.Add(Graph{capture->recorded});
  return CUDA_SUCCESS;
}

CUresult Model::ThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (*mode != CU_STREAM_CAPTURE_MODE_GLOBAL &&
      *mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
      *mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::swap(*mode, Thread().capture_mode);
  return CUDA_SUCCESS;
}

CUresult Model::GraphInstantiateWithFlags(CUgraphExec* exec, CUgraph handle,
                                          unsigned long long) {
  Context* context;
  PINRING_SIMCUDA_TRY(Current(&context));
  const Graph* graph = graphs_.Find(handle);
  if (exec == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_shared<GraphExec>();
  made->recorded = graph->recorded;
  Lock lock;
  PINRING_SIMCUDA_TRY(
      lock.Acquire(*this, *context, "cuGraphInstantiateWithFlags"));
  *exec = execs_.Add(std::move(made));
  return CUDA_SUCCESS;
}

// A launch takes one entry in the queue of its first operation; the others
// follow without waiting for room.
CUresult Model::GraphLaunch(CUgraphExec handle, CUstream stream) {
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(stream, &target));
  const std::shared_ptr<GraphExec>* found = execs_.Find(handle);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<GraphExec> exec = *found;
  OpRef last;
  {
    Lock lock;
    PINRING_SIMCUDA_TRY(lock.Acquire(*this, *target.context, "cuGraphLaunch"));
    for (const OpRef& recorded : exec->recorded) {
      OpRef op = recorded->Clone();
      if (last == nullptr) {
        // Room first: another launch of the graph may come in between.
        PINRING_SIMCUDA_TRY(AwaitRoom("cuGraphLaunch", target, *op, lock));
        if (exec->latest != nullptr && !exec->latest->done)
          op->after.push_back(exec->latest);
        PINRING_SIMCUDA_TRY(Submit("cuGraphLaunch", target, op, lock));
      } else if (target.stream->capture != nullptr) {
        PINRING_SIMCUDA_TRY(Record(target, op));
      } else {
        op->entries = 0;
        target.context->device.Enqueue(target.stream, op);
      }
      last = std::move(op);
    }
    if (last == nullptr || last->number == 0) return CUDA_SUCCESS;
    exec->latest = last;
    ++version_;
  }
  return options_.launch_blocking
             ? WaitForOp(*target.context, "cuGraphLaunch", last)
             : CUDA_SUCCESS;
}

CUresult Model::GraphExecDestroy(CUgraphExec exec) {
  return execs_.Remove(exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult Model::GraphDestroy(CUgraph graph) {
  return graphs_.Remove(graph) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace pinring::simcuda
