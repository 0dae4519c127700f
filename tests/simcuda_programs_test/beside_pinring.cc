// pinring's library beside NVIDIA's runtime in one program, on one driver:
// device memory and streams are the runtime's, staged blocks are pinring's.

#include <pinring/pinring.h>

#include <cstring>

#include "tests/simcuda_programs_test/program.h"

namespace {

constexpr size_t kBytes = (5 << 20) + 123;

}  // namespace

int main() {
  char* staged = nullptr;
  char* back = nullptr;
  char* pinned = nullptr;
  char* device = nullptr;
  cudaStream_t stream = nullptr;
  CHECK_OK(cudaMalloc(reinterpret_cast<void**>(&device), kBytes));
  CHECK_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK_OK(cudaMallocHost(reinterpret_cast<void**>(&pinned), kBytes));
  CHECK_OK(pinringMallocHost(reinterpret_cast<void**>(&staged), kBytes));
  CHECK_OK(pinringMallocHost(reinterpret_cast<void**>(&back), kBytes));

  for (uint64_t seed = 1; seed < 4; ++seed) {
    Gate gate;
    Fill(staged, kBytes, seed + 10);
    gate.Hold(stream);
    CHECK_OK(pinringMemcpyAsync(device, staged, kBytes, cudaMemcpyHostToDevice,
                                stream));
    CHECK_OK(pinringMemcpyAsync(back, device, kBytes, cudaMemcpyDeviceToHost,
                                stream));
    CHECK_OK(cudaMemcpyAsync(pinned, device, kBytes, cudaMemcpyDeviceToHost,
                             stream));
    CHECK_FAILS(cudaErrorNotReady, cudaStreamQuery(stream));
    // Still the host's to write: the stream has not got there.
    Fill(staged, kBytes, seed);
    gate.Open();
    CHECK_OK(cudaStreamSynchronize(stream));
    CHECK(Holds(back, kBytes, seed));
    CHECK(Holds(pinned, kBytes, seed));
  }

  // What pinring knows is its own: to the runtime the block is ordinary memory.
  cudaPointerAttributes attributes;
  CHECK_OK(pinringPointerGetAttributes(&attributes, staged));
  CHECK(attributes.type == cudaMemoryTypeHost);
  CHECK_OK(cudaPointerGetAttributes(&attributes, staged));
  CHECK(attributes.type == cudaMemoryTypeUnregistered);

  CHECK_OK(pinringFreeHost(back));
  CHECK_OK(pinringFreeHost(staged));
  CHECK_OK(cudaFreeHost(pinned));
  CHECK_OK(cudaStreamDestroy(stream));
  CHECK_OK(cudaFree(device));
  return 0;
}
