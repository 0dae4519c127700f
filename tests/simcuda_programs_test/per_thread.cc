// Built with CUDA_API_PER_THREAD_DEFAULT_STREAM: a thread's default stream is
// its own, for every call that names no stream.

#include <thread>

#include "tests/simcuda_programs_test/program.h"

namespace {

constexpr size_t kBytes = (1 << 20) + 3;

// While another thread's default stream is held, this one's moves.
void CopyBesideAHeldStream(uint64_t seed) {
  char* host = nullptr;
  char* device = nullptr;
  cudaEvent_t done = nullptr;
  CHECK_OK(cudaMallocHost(reinterpret_cast<void**>(&host), kBytes));
  CHECK_OK(cudaMalloc(reinterpret_cast<void**>(&device), kBytes));
  CHECK_OK(cudaEventCreate(&done));
  Fill(host, kBytes, seed);
  CHECK_OK(
      cudaMemcpyAsync(device, host, kBytes, cudaMemcpyHostToDevice, nullptr));
  CHECK_OK(cudaEventRecord(done, nullptr));
  CHECK_OK(cudaEventSynchronize(done));
  CHECK_OK(cudaMemset(host, 0, kBytes));
  CHECK_OK(cudaMemcpy(host, device, kBytes, cudaMemcpyDeviceToHost));
  CHECK(Holds(host, kBytes, seed));
  CHECK_OK(cudaMemsetAsync(device, 7, kBytes, nullptr));
  CHECK_OK(cudaStreamSynchronize(nullptr));
  CHECK_OK(cudaStreamQuery(nullptr));
  CHECK_OK(cudaMemcpy(host, device, kBytes, cudaMemcpyDefault));
  for (size_t i = 0; i < kBytes; ++i) CHECK(host[i] == 7);
  CHECK_OK(cudaEventDestroy(done));
  // Not freed: that waits for the whole device.
}

}  // namespace

int main() {
  CHECK_OK(cudaFree(nullptr));
  Gate gate;
  gate.Hold(nullptr);
  CHECK_FAILS(cudaErrorNotReady, cudaStreamQuery(nullptr));
  CHECK_FAILS(cudaErrorNotReady, cudaStreamQuery(cudaStreamPerThread));
  std::thread first([] { CopyBesideAHeldStream(1); });
  std::thread second([] { CopyBesideAHeldStream(2); });
  first.join();
  second.join();
  CHECK_FAILS(cudaErrorNotReady, cudaStreamQuery(nullptr));
  gate.Open();
  CHECK_OK(cudaStreamSynchronize(nullptr));
  CHECK_OK(cudaDeviceSynchronize());
  return 0;
}
