// Capture and replay: a graph moves the bytes that are there when it runs.

#include <thread>

#include "tests/simcuda_programs_test/program.h"

namespace {

constexpr size_t kBytes = (1 << 20) + 5;

struct Memory {
  Memory() {
    CHECK_OK(cudaMallocHost(reinterpret_cast<void**>(&source), kBytes));
    CHECK_OK(cudaMallocHost(reinterpret_cast<void**>(&target), kBytes));
    CHECK_OK(cudaMalloc(reinterpret_cast<void**>(&device), kBytes));
  }
  ~Memory() {
    CHECK_OK(cudaFree(device));
    CHECK_OK(cudaFreeHost(target));
    CHECK_OK(cudaFreeHost(source));
  }
  char* source = nullptr;
  char* target = nullptr;
  char* device = nullptr;
};

cudaStreamCaptureStatus StatusOf(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusInvalidated;
  CHECK_OK(cudaStreamIsCapturing(stream, &status));
  return status;
}

void ReplaysMoveTheBytesOfTheMoment(cudaStream_t stream) {
  Memory memory;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  CHECK(StatusOf(stream) == cudaStreamCaptureStatusNone);
  CHECK_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(StatusOf(stream) == cudaStreamCaptureStatusActive);
  CHECK_OK(cudaMemcpyAsync(memory.device, memory.source, kBytes,
                           cudaMemcpyHostToDevice, stream));
  CHECK_OK(cudaMemsetAsync(memory.device, 9, 100, stream));
  CHECK_OK(cudaMemcpyAsync(memory.target, memory.device, kBytes,
                           cudaMemcpyDeviceToHost, stream));
  CHECK_OK(cudaStreamEndCapture(stream, &graph));
  CHECK_OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
  CHECK_OK(cudaGraphDestroy(graph));
  for (uint64_t seed = 1; seed < 6; ++seed) {
    Fill(memory.source, kBytes, seed);
    CHECK_OK(cudaMemset(memory.target, 0, kBytes));
    CHECK_OK(cudaGraphLaunch(exec, stream));
    CHECK_OK(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < 100; ++i) CHECK(memory.target[i] == 9);
    CHECK(Holds(memory.target + 100, kBytes - 100, seed, 100));
  }
  CHECK_OK(cudaGraphExecDestroy(exec));
}

// What is not legal while somebody captures says so, and spoils the capture.
void UnsafeCallsSpoilACapture(cudaStream_t stream) {
  void* unused = nullptr;
  cudaGraph_t graph = nullptr;
  CHECK_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK_FAILS(cudaErrorStreamCaptureUnsupported, cudaMalloc(&unused, 16));
  CHECK(StatusOf(stream) == cudaStreamCaptureStatusInvalidated);
  CHECK_FAILS(cudaErrorStreamCaptureInvalidated,
              cudaStreamEndCapture(stream, &graph));
  CHECK(graph == nullptr);

  CHECK_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  std::thread([&] {
    CHECK_OK(cudaMalloc(&unused, 16));
    CHECK_OK(cudaFree(unused));
  }).join();
  CHECK(StatusOf(stream) == cudaStreamCaptureStatusActive);
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  CHECK_OK(cudaThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == cudaStreamCaptureModeGlobal);
  CHECK_OK(cudaMalloc(&unused, 16));
  CHECK_OK(cudaThreadExchangeStreamCaptureMode(&mode));
  CHECK_OK(cudaStreamEndCapture(stream, &graph));
  CHECK_OK(cudaGraphDestroy(graph));
  CHECK_OK(cudaFree(unused));

  CHECK_FAILS(cudaErrorIllegalState, cudaStreamEndCapture(stream, &graph));
  CHECK_FAILS(cudaErrorStreamCaptureUnsupported,
              cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal));
}

// A second stream joins a capture by an event, and must come back.
void StreamsJoinACapture(cudaStream_t stream) {
  Memory memory;
  cudaStream_t other = nullptr;
  cudaEvent_t event = nullptr;
  cudaGraph_t graph = nullptr;
  CHECK_OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  CHECK_OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  for (const bool joins : {false, true}) {
    CHECK_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    CHECK_OK(cudaMemcpyAsync(memory.device, memory.source, kBytes,
                             cudaMemcpyHostToDevice, stream));
    CHECK_OK(cudaEventRecord(event, stream));
    CHECK_OK(cudaStreamWaitEvent(other, event, 0));
    CHECK_OK(cudaMemcpyAsync(memory.target, memory.device, kBytes,
                             cudaMemcpyDeviceToHost, other));
    CHECK(StatusOf(other) == cudaStreamCaptureStatusActive);
    if (joins) {
      CHECK_OK(cudaEventRecord(event, other));
      CHECK_OK(cudaStreamWaitEvent(stream, event, 0));
      CHECK_OK(cudaStreamEndCapture(stream, &graph));
    } else {
      CHECK_FAILS(cudaErrorStreamCaptureUnjoined,
                  cudaStreamEndCapture(stream, &graph));
    }
  }
  cudaGraphExec_t exec = nullptr;
  CHECK_OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
  Fill(memory.source, kBytes, 50);
  CHECK_OK(cudaGraphLaunch(exec, stream));
  CHECK_OK(cudaStreamSynchronize(stream));
  CHECK(Holds(memory.target, kBytes, 50));
  CHECK_OK(cudaGraphExecDestroy(exec));
  CHECK_OK(cudaGraphDestroy(graph));
  CHECK_OK(cudaEventDestroy(event));
  CHECK_OK(cudaStreamDestroy(other));
}

}  // namespace

int main() {
  cudaStream_t stream = nullptr;
  CHECK_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  ReplaysMoveTheBytesOfTheMoment(stream);
  UnsafeCallsSpoilACapture(stream);
  StreamsJoinACapture(stream);
  CHECK_OK(cudaStreamDestroy(stream));
  CHECK_CODE(cudaSuccess, cudaGetLastError());
  return 0;
}
