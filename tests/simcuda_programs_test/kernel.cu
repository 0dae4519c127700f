// A program with kernels, compiled by nvcc: it loads and moves bytes as far as
// it needs no kernel, and a launch tells why it cannot be.

#include <cuda_runtime.h>

#include <cstring>

#include "tests/simcuda_programs_test/program.h"

__constant__ int shift[4];
__device__ int counter;
__device__ int recorded;

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
  // Variables of the device.
  const int shifts[4] = {3, 1, 4, 1};
  int read[4] = {};
  CHECK_OK(cudaMemcpyToSymbol(shift, shifts, sizeof shifts));
  CHECK_OK(cudaMemcpyToSymbol(shift, shifts + 2, sizeof(int), sizeof(int)));
  CHECK_OK(cudaMemcpyFromSymbol(read, shift, sizeof read));
  CHECK(read[0] == 3 && read[1] == 4 && read[2] == 4 && read[3] == 1);
  CHECK_OK(cudaMemcpyFromSymbol(read, counter, sizeof counter));
  CHECK(read[0] == 0);
  size_t bytes = 0;
  CHECK_OK(cudaGetSymbolSize(&bytes, shift));
  CHECK(bytes == sizeof shift);
  int* address = nullptr;
  CHECK_OK(cudaGetSymbolAddress(reinterpret_cast<void**>(&address), counter));
  CHECK_OK(cudaMemset(address, 1, sizeof counter));
  CHECK_OK(cudaDeviceSynchronize());
  cudaStream_t stream = nullptr;
  CHECK_OK(cudaStreamCreate(&stream));
  CHECK_OK(cudaMemcpyFromSymbolAsync(read, counter, sizeof counter, 0,
                                     cudaMemcpyDeviceToHost, stream));
  CHECK_OK(cudaStreamSynchronize(stream));
  CHECK(read[0] == 0x01010101);
  // One that is first named in a capture does not break it.
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  int* pinned = reinterpret_cast<int*>(host);
  *pinned = 77;
  CHECK_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK_OK(cudaMemcpyToSymbolAsync(recorded, pinned, sizeof recorded, 0,
                                   cudaMemcpyHostToDevice, stream));
  CHECK_OK(cudaStreamEndCapture(stream, &graph));
  CHECK_OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
  CHECK_OK(cudaGraphLaunch(exec, stream));
  CHECK_OK(cudaStreamSynchronize(stream));
  CHECK_OK(cudaMemcpyFromSymbol(read, recorded, sizeof recorded));
  CHECK(read[0] == 77);
  CHECK_OK(cudaGraphExecDestroy(exec));
  CHECK_OK(cudaGraphDestroy(graph));
  CHECK_OK(cudaStreamDestroy(stream));
  CHECK_FAILS(cudaErrorInvalidValue,
              cudaMemcpyToSymbol(shift, shifts, sizeof shifts, sizeof(int)));
  CHECK_FAILS(cudaErrorInvalidMemcpyDirection,
              cudaMemcpyToSymbol(shift, shifts, sizeof shifts, 0,
                                 cudaMemcpyDeviceToHost));
  CHECK_FAILS(cudaErrorInvalidSymbol,
              cudaMemcpyToSymbol(static_cast<const void*>(shifts), shifts, 4));
  CHECK_OK(cudaFree(device));
  CHECK_OK(cudaFreeHost(host));
  return 0;
}
