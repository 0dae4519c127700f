// The smallest program with pinned memory: a block goes to the device and
// back. before.cc uses CUDA's, after.cc pinring's: their difference is the
// include below.
#include <pinring/cuda_compat.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

}  // namespace

int main() {
  constexpr size_t kBytes = size_t{256} << 20;
  unsigned char* there = nullptr;
  unsigned char* back = nullptr;
  void* device = nullptr;
  cudaStream_t stream = nullptr;
  Check(cudaMallocHost(&there, kBytes), "cudaMallocHost");
  Check(cudaMallocHost(&back, kBytes), "cudaMallocHost");
  Check(cudaMalloc(&device, kBytes), "cudaMalloc");
  Check(cudaStreamCreate(&stream), "cudaStreamCreate");

  for (size_t i = 0; i < kBytes; ++i) {
    there[i] = static_cast<unsigned char>(i * 31 + (i >> 8));
  }
  Check(cudaMemcpyAsync(device, there, kBytes, cudaMemcpyHostToDevice, stream),
        "cudaMemcpyAsync");
  Check(cudaMemcpyAsync(back, device, kBytes, cudaMemcpyDeviceToHost, stream),
        "cudaMemcpyAsync");
  Check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  const bool same = std::memcmp(there, back, kBytes) == 0;

  Check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  Check(cudaFree(device), "cudaFree");
  Check(cudaFreeHost(back), "cudaFreeHost");
  Check(cudaFreeHost(there), "cudaFreeHost");
  std::puts(same ? "256 MiB there and back: every byte is right"
                 : "WRONG BYTES");
  return same ? 0 : 1;
}
