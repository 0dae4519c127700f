// A context that is lost: every call answers the error until the device is
// reset. Runs with PINRING_SIMCUDA_FAULTS=cuMemAlloc:1:2,
// cuStreamSynchronize:2:719:sticky.

#include "tests/simcuda_programs_test/program.h"

int main() {
  constexpr size_t kBytes = 1 << 16;
  char* host = nullptr;
  char* device = nullptr;
  void* more = nullptr;
  cudaStream_t stream = nullptr;
  CHECK_OK(cudaMalloc(reinterpret_cast<void**>(&device), kBytes));
  CHECK_OK(cudaMallocHost(reinterpret_cast<void**>(&host), kBytes));
  CHECK_OK(cudaStreamCreate(&stream));
  // An error of one call, which is over with it.
  CHECK_FAILS(cudaErrorMemoryAllocation, cudaMalloc(&more, kBytes));
  CHECK_OK(cudaMalloc(&more, kBytes));
  CHECK_OK(cudaFree(more));

  CHECK_OK(cudaStreamSynchronize(stream));
  CHECK_OK(cudaStreamSynchronize(stream));
  CHECK_FAILS(cudaErrorLaunchFailure, cudaStreamSynchronize(stream));
  CHECK_FAILS(cudaErrorLaunchFailure, cudaStreamSynchronize(stream));
  CHECK_FAILS(cudaErrorLaunchFailure, cudaMalloc(&more, kBytes));
  CHECK_FAILS(cudaErrorLaunchFailure,
              cudaMemcpy(device, host, kBytes, cudaMemcpyHostToDevice));
  CHECK_FAILS(cudaErrorLaunchFailure, cudaDeviceSynchronize());
  CHECK_FAILS(cudaErrorLaunchFailure, cudaFree(device));

  CHECK_OK(cudaDeviceReset());
  CHECK_FAILS(cudaErrorInvalidValue, cudaFree(device));
  CHECK_OK(cudaMalloc(reinterpret_cast<void**>(&device), kBytes));
  CHECK_OK(cudaMallocHost(reinterpret_cast<void**>(&host), kBytes));
  Fill(host, kBytes, 1);
  CHECK_OK(cudaMemcpy(device, host, kBytes, cudaMemcpyHostToDevice));
  CHECK_OK(cudaMemset(host, 0, kBytes));
  CHECK_OK(cudaMemcpy(host, device, kBytes, cudaMemcpyDeviceToHost));
  CHECK(Holds(host, kBytes, 1));
  CHECK_OK(cudaFreeHost(host));
  CHECK_OK(cudaFree(device));
  return 0;
}
