/* The header in C. */
#include <pinring/cuda_compat.h>
#include <string.h>

int RoundTripInC(void* there, void* back, void* device, size_t bytes) {
  cudaStream_t stream = NULL;
  void* block = NULL;
  unsigned int flags = 1;
  struct cudaPointerAttributes attributes;
  int wrong = 0;
  memset(there, 0x7e, bytes);
  memset(back, 0, bytes);
  wrong += cudaStreamCreate(&stream) != cudaSuccess;
  wrong += cudaMemcpyAsync(device, there, bytes, cudaMemcpyHostToDevice,
                           stream) != cudaSuccess;
  wrong += cudaMemcpyAsync(back, device, bytes, cudaMemcpyDeviceToHost,
                           stream) != cudaSuccess;
  wrong += cudaStreamSynchronize(stream) != cudaSuccess;
  wrong += memcmp(there, back, bytes) != 0;
  wrong += cudaMallocHost(&block, 1 << 20) != cudaSuccess;
  wrong += pinringGetBlockKind(block) != pinringBlockStaged;
  wrong += cudaHostGetFlags(&flags, block) != cudaSuccess;
  wrong += cudaPointerGetAttributes(&attributes, block) != cudaSuccess;
  wrong += attributes.type != cudaMemoryTypeHost;
  wrong += cudaFreeHost(block) != cudaSuccess;
  wrong += cudaHostAlloc(&block, 1 << 20, cudaHostAllocMapped) != cudaSuccess;
  wrong += cudaFreeHost(block) != cudaSuccess;
  wrong += cudaStreamDestroy(stream) != cudaSuccess;
  return wrong + (cudaGetLastError() != cudaSuccess);
}
