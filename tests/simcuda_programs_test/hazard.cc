// A wrong program: it rewrites pinned memory while a copy of it is under way.

#include "tests/simcuda_programs_test/program.h"

int main() {
  constexpr size_t kBytes = 64 << 20;
  char* host = nullptr;
  char* device = nullptr;
  cudaStream_t stream = nullptr;
  CHECK_OK(cudaMallocHost(reinterpret_cast<void**>(&host), kBytes));
  CHECK_OK(cudaMalloc(reinterpret_cast<void**>(&device), kBytes));
  CHECK_OK(cudaStreamCreate(&stream));
  CHECK_OK(cudaMemset(host, 0, kBytes));
  CHECK_OK(
      cudaMemcpyAsync(device, host, kBytes, cudaMemcpyHostToDevice, stream));
  auto* first = reinterpret_cast<volatile char*>(host);
  while (cudaStreamQuery(stream) == cudaErrorNotReady) *first = *first + 1;
  CHECK_OK(cudaStreamSynchronize(stream));
  std::puts("the program's own end");
  return 0;
}
