// Refers to functions of the runtime that are not simulated: it starts, and
// they say so.

#include "tests/simcuda_programs_test/program.h"

int main() {
  char host[16] = {};
  void* device = nullptr;
  CHECK_FAILS(cudaErrorNotSupported,
              cudaStreamAttachMemAsync(nullptr, host, sizeof host, 1));
  CHECK_FAILS(cudaErrorNotSupported,
              cudaStreamAttachMemAsync(nullptr, host, sizeof host, 1));
  CHECK_OK(cudaMalloc(&device, sizeof host));
  CHECK_FAILS(cudaErrorNotSupported, cudaMallocManaged(&device, 16));
  CHECK_OK(cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice));
  CHECK_OK(cudaFree(device));
  return 0;
}
