// One program of translation units that differ: with the header in both modes
// of the default stream, in C, and without the header. Blocks of one are
// copied by the others.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdio>

extern "C" {
int RoundTripInC(void* there, void* back, void* device, size_t bytes);
}
int RoundTripLegacy(void* there, void* back, void* device, size_t bytes);
int RoundTripPerThread(void* there, void* back, void* device, size_t bytes);
void* AllocateLegacy(size_t bytes);
void* AllocatePerThread(size_t bytes);
int FreePerThread(void* block);

int main() {
  constexpr size_t kBytes = (size_t{5} << 20) + 3;
  void* const there = AllocateLegacy(kBytes);
  void* const back = AllocatePerThread(kBytes);
  void* device = nullptr;
  // This unit's runtime is the plain one.
  if (there == nullptr || back == nullptr ||
      cudaMalloc(&device, kBytes) != cudaSuccess) {
    std::puts("no memory");
    return 1;
  }
  int wrong = RoundTripLegacy(there, back, device, kBytes) +
              RoundTripPerThread(there, back, device, kBytes) +
              RoundTripInC(there, back, device, kBytes);
  wrong += FreePerThread(there) + FreePerThread(back);
  wrong += cudaFree(device) != cudaSuccess ? 1 : 0;
  std::printf("%d things wrong\n", wrong);
  return wrong == 0 ? 0 : 1;
}
