// A wrong program: it rewrites pinned memory while copies of it are under way.
// Several, since it may not get a processor during one of them.

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
  auto* first = reinterpret_cast<volatile char*>(host);
  for (int i = 0; i < 20; ++i) {
    CHECK_OK(
        cudaMemcpyAsync(device, host, kBytes, cudaMemcpyHostToDevice, stream));
    while (cudaStreamQuery(stream) == cudaErrorNotReady) *first = *first + 1;
    CHECK_OK(cudaStreamSynchronize(stream));
  }
  std::puts("the program's own end");
  return 0;
}
