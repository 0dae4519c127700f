// A program with kernels, compiled by nvcc: it loads and moves bytes as far as
// it needs no kernel, and a launch tells why it cannot be.

#include <cuda_runtime.h>

#include <cstring>

#include "tests/simcuda_programs_test/program.h"

__constant__ int shift[4];
__device__ int counter;

__global__ void Add(int* values, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) values[i] += shift[i % 4] + counter;
}

int main() {
  constexpr size_t kBytes = 1 << 20;
  char* host = nullptr;
  int* device = nullptr;
  CHECK_OK(cudaMallocHost(&host, kBytes));
  CHECK_OK(cudaMalloc(&device, kBytes));
  Fill(host, kBytes, 1);
  CHECK_OK(cudaMemcpy(device, host, kBytes, cudaMemcpyHostToDevice));
  std::memset(host, 0, kBytes);
  CHECK_OK(cudaMemcpy(host, device, kBytes, cudaMemcpyDeviceToHost));
  CHECK(Holds(host, kBytes, 1));
  cudaDeviceProp properties;
  CHECK_OK(cudaGetDeviceProperties(&properties, 0));
  if (std::strstr(properties.name, "imulated") != nullptr) {
    Add<<<4, 256>>>(device, 1024);
    CHECK_CODE(cudaErrorNoKernelImageForDevice, cudaGetLastError());
    cudaFuncAttributes attributes;
    CHECK_FAILS(cudaErrorNoKernelImageForDevice,
                cudaFuncGetAttributes(&attributes, Add));
    // That is no error of the context's.
    CHECK_OK(cudaMemcpy(host, device, kBytes, cudaMemcpyDeviceToHost));
    CHECK_OK(cudaDeviceSynchronize());
  }
  CHECK_OK(cudaFree(device));
  CHECK_OK(cudaFreeHost(host));
  return 0;
}
