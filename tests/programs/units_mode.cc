// Compiled once for each mode of the default stream; UNIT says which.

#include <pinring/cuda_compat.h>

#include <cstddef>
#include <cstring>

#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)

int PASTE(RoundTrip, UNIT)(void* there, void* back, void* device,
                           size_t bytes) {
  std::memset(there, static_cast<int>(sizeof(__FILE__)) + __LINE__, bytes);
  std::memset(back, 0, bytes);
  int wrong = 0;
  wrong += cudaMemcpyAsync(device, there, bytes, cudaMemcpyHostToDevice) !=
                   cudaSuccess
               ? 1
               : 0;
  wrong +=
      cudaMemcpy(back, device, bytes, cudaMemcpyDeviceToHost) != cudaSuccess
          ? 1
          : 0;
  wrong += std::memcmp(there, back, bytes) != 0 ? 1 : 0;
  return wrong + (cudaGetLastError() != cudaSuccess ? 1 : 0);
}

void* PASTE(Allocate, UNIT)(size_t bytes) {
  void* block = nullptr;
  return cudaMallocHost(&block, bytes) == cudaSuccess ? block : nullptr;
}

int PASTE(Free, UNIT)(void* block) {
  return cudaFreeHost(block) == cudaSuccess ? 0 : 1;
}
