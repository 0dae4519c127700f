// Copies between staged blocks and variables of the device, in every form that
// the runtime has; compiled by nvcc, for both modes of the default stream.

#include <pinring/cuda_compat.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

constexpr size_t kBytes = 300'000;
__device__ unsigned char table[kBytes];
__constant__ int numbers[64];

namespace {

int failures = 0;

void Check(bool right, const char* what, int line) {
  if (right) return;
  std::printf("line %d: %s (%s)\n", line, what, pinringGetLastErrorMessage());
  ++failures;
}
#define CHECK(condition) Check(condition, #condition, __LINE__)

uint64_t Promoted() {
  pinringUsage usage = PINRING_USAGE_INIT;
  CHECK(pinringGetUsage(&usage) == cudaSuccess);
  return usage.kinds[pinringUsagePromoted].totalCount;
}

void Run() {
  unsigned char* there = nullptr;
  unsigned char* back = nullptr;
  cudaStream_t stream = nullptr;
  CHECK(cudaMallocHost(&there, kBytes) == cudaSuccess);
  CHECK(cudaMallocHost(&back, kBytes) == cudaSuccess);
  CHECK(cudaStreamCreate(&stream) == cudaSuccess);
  for (size_t i = 0; i < kBytes; ++i)
    there[i] = static_cast<unsigned char>(i * 7 + (i >> 8));
  std::memset(back, 0, kBytes);

  CHECK(cudaMemcpyToSymbol(table, there, kBytes) == cudaSuccess);
  CHECK(cudaMemcpyFromSymbol(back, table, kBytes) == cudaSuccess);
  CHECK(std::memcmp(there, back, kBytes) == 0);

  CHECK(cudaMemcpyToSymbolAsync(table, there + 5, 1000, 77,
                                cudaMemcpyHostToDevice, stream) == cudaSuccess);
  CHECK(cudaMemcpyFromSymbolAsync(back, table, kBytes - 10, 10,
                                  cudaMemcpyDefault, stream) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  std::vector<unsigned char> expected(there, there + kBytes);
  std::memcpy(expected.data() + 77, there + 5, 1000);
  CHECK(std::memcmp(back, expected.data() + 10, kBytes - 10) == 0);

  CHECK(cudaMemcpyToSymbol(numbers, there, sizeof(numbers), 0,
                           cudaMemcpyDefault) == cudaSuccess);
  CHECK(cudaMemcpyFromSymbol(back, numbers, 100, 100, cudaMemcpyDeviceToHost) ==
        cudaSuccess);
  CHECK(std::memcmp(back, there + 100, 100) == 0);
  CHECK(Promoted() == 0);

  // What is wrong is the runtime's to say.
  CHECK(cudaMemcpyToSymbol(table, there, kBytes, 1) == cudaErrorInvalidValue);
  CHECK(cudaMemcpyFromSymbol(back, table, 1, kBytes) == cudaErrorInvalidValue);
  CHECK(cudaMemcpyToSymbol(table, there, 1, 0, cudaMemcpyDeviceToHost) ==
        cudaErrorInvalidMemcpyDirection);
  (void)cudaGetLastError();
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  CHECK(cudaFreeHost(back) == cudaSuccess);
  CHECK(cudaFreeHost(there) == cudaSuccess);
}

}  // namespace

int main() {
  Run();
  std::printf("%d failures\n", failures);
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
