// The runtime's streams, events, captures and graphs. Handles are the driver's.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <memory>

#include "src/simcuda/shared/runtime_state.h"

namespace pinring::simcudart {
namespace {

struct Callback {
  cudaStreamCallback_t function;
  void* user_data;
};

void CUDA_CB RunCallback(CUstream stream, CUresult code, void* data) {
  const std::unique_ptr<Callback> callback(static_cast<Callback*>(data));
  callback->function(stream, Error(code), callback->user_data);
}

CUresult AddCallback(const DriverTable& driver, CUstream stream,
                     cudaStreamCallback_t function, void* user_data,
                     unsigned flags) {
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto callback = std::make_unique<Callback>(Callback{function, user_data});
  const CUresult code =
      driver.StreamAddCallback(stream, &RunCallback, callback.get(), flags);
  // From then on it is RunCallback's, which may be through with it already.
  if (code == CUDA_SUCCESS) static_cast<void>(callback.release());
  return code;
}

}  // namespace

PINRING_EXPORT cudaError_t CUDARTAPI cudaStreamCreateWithPriority(
    cudaStream_t* stream, unsigned flags, int priority) {
  return InContext([&](const DriverTable& driver) {
    return driver.StreamCreateWithPriority(stream, flags, priority);
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI
cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return InContext([&](const DriverTable& driver) {
    return driver.StreamCreateWithPriority(stream, flags, 0);
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaStreamCreate(cudaStream_t* stream) {
  return InContext([&](const DriverTable& driver) {
    return driver.StreamCreateWithPriority(stream, CU_STREAM_DEFAULT, 0);
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t stream) {
  return InContext(
      [&](const DriverTable& driver) { return driver.StreamDestroy(stream); });
}

PINRING_CUDART_BOTH(cudaStreamQuery, _ptsz, (cudaStream_t stream),
                    { return driver.StreamQuery(stream); });

PINRING_CUDART_BOTH(cudaStreamSynchronize, _ptsz, (cudaStream_t stream),
                    { return driver.StreamSynchronize(stream); });

PINRING_CUDART_BOTH(cudaStreamWaitEvent, _ptsz,
                    (cudaStream_t stream, cudaEvent_t event, unsigned flags),
                    { return driver.StreamWaitEvent(stream, event, flags); });

PINRING_CUDART_BOTH(cudaStreamGetFlags, _ptsz,
                    (cudaStream_t stream, unsigned* flags),
                    { return driver.StreamGetFlags(stream, flags); });

PINRING_CUDART_BOTH(cudaStreamGetPriority, _ptsz,
                    (cudaStream_t stream, int* priority),
                    { return driver.StreamGetPriority(stream, priority); });

#if CUDART_VERSION >= 12000
PINRING_CUDART_BOTH(cudaStreamGetId, _ptsz,
                    (cudaStream_t stream, unsigned long long* id),
                    { return driver.StreamGetId(stream, id); });
#endif

PINRING_CUDART_BOTH(cudaStreamAddCallback, _ptsz,
                    (cudaStream_t stream, cudaStreamCallback_t callback,
                     void* user_data, unsigned flags),
                    {
                      return AddCallback(driver, stream, callback, user_data,
                                         flags);
                    });

PINRING_CUDART_BOTH(cudaLaunchHostFunc, _ptsz,
                    (cudaStream_t stream, cudaHostFn_t function,
                     void* user_data),
                    {
                      return driver.LaunchHostFunc(stream, function, user_data);
                    });

PINRING_CUDART_BOTH(cudaStreamIsCapturing, _ptsz,
                    (cudaStream_t stream, cudaStreamCaptureStatus* status), {
                      return driver.StreamIsCapturing(
                          stream,
                          reinterpret_cast<CUstreamCaptureStatus*>(status));
                    });

PINRING_CUDART_BOTH(cudaStreamBeginCapture, _ptsz,
                    (cudaStream_t stream, cudaStreamCaptureMode mode), {
                      return driver.StreamBeginCapture(
                          stream, static_cast<CUstreamCaptureMode>(mode));
                    });

PINRING_CUDART_BOTH(cudaStreamEndCapture, _ptsz,
                    (cudaStream_t stream, cudaGraph_t* graph),
                    { return driver.StreamEndCapture(stream, graph); });

PINRING_EXPORT cudaError_t CUDARTAPI
cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return WithDriver([&](const DriverTable& driver) {
    return driver.ThreadExchangeStreamCaptureMode(
        reinterpret_cast<CUstreamCaptureMode*>(mode));
  });
}

#if CUDART_VERSION >= 12000
PINRING_EXPORT cudaError_t CUDARTAPI cudaGraphInstantiate(
    cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
#else
PINRING_EXPORT cudaError_t CUDARTAPI cudaGraphInstantiate(cudaGraphExec_t* exec,
                                                          cudaGraph_t graph,
                                                          cudaGraphNode_t*,
                                                          char*, size_t) {
  constexpr unsigned long long flags = 0;
#endif
  return InContext([&](const DriverTable& driver) {
    return driver.GraphInstantiateWithFlags(exec, graph, flags);
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaGraphInstantiateWithFlags(
    cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long flags) {
  return InContext([&](const DriverTable& driver) {
    return driver.GraphInstantiateWithFlags(exec, graph, flags);
  });
}

PINRING_CUDART_BOTH(cudaGraphLaunch, _ptsz,
                    (cudaGraphExec_t exec, cudaStream_t stream),
                    { return driver.GraphLaunch(exec, stream); });

PINRING_EXPORT cudaError_t CUDARTAPI
cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return InContext(
      [&](const DriverTable& driver) { return driver.GraphExecDestroy(exec); });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaGraphDestroy(cudaGraph_t graph) {
  return InContext(
      [&](const DriverTable& driver) { return driver.GraphDestroy(graph); });
}

PINRING_EXPORT cudaError_t CUDARTAPI
cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return InContext([&](const DriverTable& driver) {
    return driver.EventCreate(event, flags);
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaEventCreate(cudaEvent_t* event) {
  return InContext([&](const DriverTable& driver) {
    return driver.EventCreate(event, CU_EVENT_DEFAULT);
  });
}

PINRING_CUDART_BOTH(cudaEventRecord, _ptsz,
                    (cudaEvent_t event, cudaStream_t stream),
                    { return driver.EventRecord(event, stream); });

PINRING_EXPORT cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t event) {
  return InContext(
      [&](const DriverTable& driver) { return driver.EventQuery(event); });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t event) {
  return InContext([&](const DriverTable& driver) {
    return driver.EventSynchronize(event);
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaEventElapsedTime(float* milliseconds,
                                                          cudaEvent_t start,
                                                          cudaEvent_t end) {
  return InContext([&](const DriverTable& driver) {
    return driver.EventElapsedTime(milliseconds, start, end);
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event) {
  return InContext(
      [&](const DriverTable& driver) { return driver.EventDestroy(event); });
}

}  // namespace pinring::simcudart
