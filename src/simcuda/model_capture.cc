// Stream capture: what is recorded, and what is forbidden meanwhile.
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

// The id is told of an active capture only.
CUresult Model::StreamGetCaptureInfo(CUstream handle,
                                     CUstreamCaptureStatus* status,
                                     cuuint64_t* id) {
  PINRING_SIMCUDA_TRY(StreamIsCapturing(handle, status));
  if (id == nullptr || *status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return CUDA_SUCCESS;
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(handle, &target));
  *id = target.stream->capture->id;
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
  capture->id = next_capture_id_++;
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
  const std::shared_ptr<Graph> made = NewGraph();
  for (const OpRef& op : capture->recorded) {
    GraphNode* const before =
        made->nodes.empty() ? nullptr : made->nodes.back().get();
    GraphNode* const node = AddNode(*made, op, nullptr);
    if (before != nullptr) node->after.push_back(before);
  }
  *graph = made->handle;
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

}  // namespace pinring::simcuda
