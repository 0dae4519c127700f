// Streams and events: order, host functions, callbacks, waiting across streams,
// what a stream says of itself.

#include <atomic>
#include <thread>

#include "tests/simcuda_programs_test/program.h"

namespace {

constexpr size_t kBytes = 1 << 20;

void HostFunctionsRunInOrder() {
  cudaStream_t stream = nullptr;
  CHECK_OK(cudaStreamCreate(&stream));
  static std::vector<int> ran;
  static int numbers[20];
  for (int i = 0; i < 20; ++i) {
    numbers[i] = i;
    CHECK_OK(cudaLaunchHostFunc(
        stream, [](void* number) { ran.push_back(*static_cast<int*>(number)); },
        &numbers[i]));
  }
  CHECK_OK(cudaStreamSynchronize(stream));
  CHECK(ran.size() == 20);
  for (int i = 0; i < 20; ++i) CHECK(ran[static_cast<size_t>(i)] == i);
  CHECK_OK(cudaStreamDestroy(stream));
}

void CallbacksAreToldTheirStream() {
  struct Told {
    cudaStream_t stream;
    cudaError_t status;
    const char* text;
  };
  cudaStream_t stream = nullptr;
  CHECK_OK(cudaStreamCreate(&stream));
  Told told = {nullptr, cudaErrorUnknown, nullptr};
  const auto callback = [](cudaStream_t of, cudaError_t status, void* data) {
    // The error queries are legal here.
    *static_cast<Told*>(data) = {of, status, cudaGetErrorString(status)};
  };
  CHECK_OK(cudaStreamAddCallback(stream, callback, &told, 0));
  CHECK_OK(cudaStreamSynchronize(stream));
  CHECK(told.stream == stream);
  CHECK(told.status == cudaSuccess);
  CHECK(told.text != nullptr);
  CHECK_FAILS(cudaErrorInvalidValue,
              cudaStreamAddCallback(stream, nullptr, nullptr, 0));
  CHECK_FAILS(cudaErrorInvalidValue,
              cudaStreamAddCallback(stream, callback, &told, 1));
  CHECK_OK(cudaStreamDestroy(stream));
}

// What a host function writes, a later copy of another stream that waits for it
// reads.
void StreamsWaitForEvents() {
  struct Write {
    char* bytes;
    uint64_t seed;
  };
  cudaStream_t first = nullptr;
  cudaStream_t second = nullptr;
  cudaEvent_t written = nullptr;
  char* host = nullptr;
  char* back = nullptr;
  char* device = nullptr;
  CHECK_OK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  CHECK_OK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  CHECK_OK(cudaEventCreate(&written));
  CHECK_OK(cudaMallocHost(reinterpret_cast<void**>(&host), kBytes));
  CHECK_OK(cudaMallocHost(reinterpret_cast<void**>(&back), kBytes));
  CHECK_OK(cudaMalloc(reinterpret_cast<void**>(&device), kBytes));
  for (uint64_t seed = 1; seed < 8; ++seed) {
    Gate gate;
    Write write = {host, seed};
    gate.Hold(first);
    CHECK_OK(cudaLaunchHostFunc(
        first,
        [](void* data) {
          const auto* what = static_cast<const Write*>(data);
          Fill(what->bytes, kBytes, what->seed);
        },
        &write));
    CHECK_OK(cudaEventRecord(written, first));
    CHECK_OK(cudaStreamWaitEvent(second, written, 0));
    CHECK_OK(
        cudaMemcpyAsync(device, host, kBytes, cudaMemcpyHostToDevice, second));
    CHECK_OK(
        cudaMemcpyAsync(back, device, kBytes, cudaMemcpyDeviceToHost, second));
    CHECK_FAILS(cudaErrorNotReady, cudaStreamQuery(second));
    gate.Open();
    CHECK_OK(cudaStreamSynchronize(second));
    CHECK(Holds(back, kBytes, seed));
  }
  CHECK_OK(cudaFree(device));
  CHECK_OK(cudaFreeHost(back));
  CHECK_OK(cudaFreeHost(host));
  CHECK_OK(cudaEventDestroy(written));
  CHECK_OK(cudaStreamDestroy(second));
  CHECK_OK(cudaStreamDestroy(first));
}

// Blocking streams wait for the legacy default stream, others do not.
void TheLegacyStreamOrdersBlockingStreams() {
  cudaStream_t blocking = nullptr;
  cudaStream_t other = nullptr;
  CHECK_OK(cudaStreamCreate(&blocking));
  CHECK_OK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  std::atomic<int> after{0};
  const auto count = [](void* counter) {
    static_cast<std::atomic<int>*>(counter)->fetch_add(1);
  };
  cudaEvent_t reached = nullptr;
  CHECK_OK(cudaEventCreateWithFlags(&reached, cudaEventDisableTiming));
  char* host = nullptr;
  char* device = nullptr;
  CHECK_OK(cudaMallocHost(reinterpret_cast<void**>(&host), kBytes));
  CHECK_OK(cudaMalloc(reinterpret_cast<void**>(&device), kBytes));
  Gate gate;
  gate.Hold(nullptr);
  CHECK_OK(
      cudaMemcpyAsync(device, host, kBytes, cudaMemcpyHostToDevice, blocking));
  CHECK_OK(cudaEventRecord(reached, blocking));
  CHECK_OK(cudaLaunchHostFunc(blocking, count, &after));
  CHECK_OK(
      cudaMemcpyAsync(device, host, kBytes, cudaMemcpyHostToDevice, other));
  CHECK_OK(cudaStreamSynchronize(other));
  CHECK_FAILS(cudaErrorNotReady, cudaEventQuery(reached));
  CHECK(after.load() == 0);
  gate.Open();
  CHECK_OK(cudaStreamSynchronize(blocking));
  CHECK(after.load() == 1);
  CHECK_OK(cudaStreamSynchronize(nullptr));
  CHECK_OK(cudaFree(device));
  CHECK_OK(cudaFreeHost(host));
  CHECK_OK(cudaEventDestroy(reached));
  CHECK_OK(cudaStreamDestroy(other));
  CHECK_OK(cudaStreamDestroy(blocking));
}

void StreamsSayWhatTheyAre() {
  int least = -1;
  int greatest = 1;
  CHECK_OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CHECK(greatest <= least);
  cudaStream_t stream = nullptr;
  // A priority out of range becomes the nearest one.
  CHECK_OK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                        greatest - 5));
  unsigned flags = 99;
  int priority = 99;
  CHECK_OK(cudaStreamGetFlags(stream, &flags));
  CHECK(flags == cudaStreamNonBlocking);
  CHECK_OK(cudaStreamGetPriority(stream, &priority));
  CHECK(priority == greatest);
#if CUDART_VERSION >= 12000
  unsigned long long id = 0;
  unsigned long long default_id = 0;
  CHECK_OK(cudaStreamGetId(stream, &id));
  CHECK_OK(cudaStreamGetId(nullptr, &default_id));
  CHECK(id != default_id);
#endif
  CHECK_OK(cudaStreamDestroy(stream));
  CHECK_FAILS(cudaErrorInvalidValue, cudaStreamCreateWithFlags(&stream, 64));
}

void EventsMeasureOnlyWhatTheyMay() {
  cudaStream_t stream = nullptr;
  cudaEvent_t start = nullptr;
  cudaEvent_t end = nullptr;
  cudaEvent_t untimed = nullptr;
  CHECK_OK(cudaStreamCreate(&stream));
  CHECK_OK(cudaEventCreate(&start));
  CHECK_OK(cudaEventCreate(&end));
  CHECK_OK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
  float milliseconds = -1;
  CHECK_FAILS(cudaErrorInvalidResourceHandle,
              cudaEventElapsedTime(&milliseconds, start, end));
  CHECK_OK(cudaEventRecord(start, stream));
  CHECK_OK(cudaEventRecord(untimed, stream));
  CHECK_OK(cudaEventRecord(end, stream));
  CHECK_OK(cudaStreamSynchronize(stream));
  CHECK_OK(cudaEventElapsedTime(&milliseconds, start, end));
  CHECK(milliseconds >= 0);
  CHECK_FAILS(cudaErrorInvalidResourceHandle,
              cudaEventElapsedTime(&milliseconds, start, untimed));
  CHECK_OK(cudaEventDestroy(untimed));
  CHECK_OK(cudaEventDestroy(end));
  CHECK_OK(cudaEventDestroy(start));
  CHECK_OK(cudaStreamDestroy(stream));
}

}  // namespace

int main() {
  HostFunctionsRunInOrder();
  CallbacksAreToldTheirStream();
  StreamsWaitForEvents();
  TheLegacyStreamOrdersBlockingStreams();
  StreamsSayWhatTheyAre();
  EventsMeasureOnlyWhatTheyMay();
  return 0;
}
