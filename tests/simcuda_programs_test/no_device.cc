// Prints what the first calls answer where there is no device to be had.

#include "tests/simcuda_programs_test/program.h"

int main() {
  int count = 5;
  void* memory = nullptr;
  const cudaError_t counted = cudaGetDeviceCount(&count);
  const cudaError_t allocated = cudaMalloc(&memory, 16);
  std::printf("%d devices, %s, %s\n", count, cudaGetErrorName(counted),
              cudaGetErrorName(allocated));
  return 0;
}
