// A program that pins nothing: copies between the device and memory of malloc,
// of a stack and of a mapped file's kind, synchronous and asynchronous, with
// bytes that change right after each call. Linked with the driver.

#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "tests/simcuda_programs_test/program.h"

namespace {

void Fill(std::vector<unsigned char>& bytes, uint32_t seed) {
  for (unsigned char& byte : bytes) {
    seed = seed * 1664525u + 1013904223u;
    byte = static_cast<unsigned char>(seed >> 24);
  }
}

CUdeviceptr Address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

// One way there and back.
void RoundTrip(size_t bytes, size_t offset, int way, CUstream stream) {
  CUdeviceptr device = 0;
  CHECK_CU(CUDA_SUCCESS, cuMemAlloc(&device, bytes + offset));
  std::vector<unsigned char> source(bytes + offset);
  std::vector<unsigned char> back(bytes + offset + 1, 0xEE);
  Fill(source, static_cast<uint32_t>(bytes + static_cast<size_t>(way)));
  const std::vector<unsigned char> expected = source;
  unsigned char* const from = source.data() + offset;
  unsigned char* const to = back.data() + offset;
  const bool async = way % 2 == 1;
  const bool unified = way / 2 == 1;
  if (unified) {
    CHECK_CU(CUDA_SUCCESS,
             async ? cuMemcpyAsync(device, Address(from), bytes, stream)
                   : cuMemcpy(device, Address(from), bytes));
  } else {
    CHECK_CU(CUDA_SUCCESS, async
                               ? cuMemcpyHtoDAsync(device, from, bytes, stream)
                               : cuMemcpyHtoD(device, from, bytes));
  }
  // It has been read: memory that is not pinned is read during the call.
  Fill(source, 1);
  if (unified) {
    CHECK_CU(CUDA_SUCCESS,
             async ? cuMemcpyAsync(Address(to), device, bytes, stream)
                   : cuMemcpy(Address(to), device, bytes));
  } else {
    CHECK_CU(CUDA_SUCCESS, async ? cuMemcpyDtoHAsync(to, device, bytes, stream)
                                 : cuMemcpyDtoH(to, device, bytes));
  }
  // And written.
  CHECK(std::memcmp(to, expected.data() + offset, bytes) == 0);
  for (size_t i = 0; i < offset; ++i) CHECK(back[i] == 0xEE);
  CHECK(back[bytes + offset] == 0xEE);
  CHECK_CU(CUDA_SUCCESS, cuMemFree(device));
}

}  // namespace

int main() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  CHECK_CU(CUDA_SUCCESS, cuInit(0));
  CHECK_CU(CUDA_SUCCESS, cuDeviceGet(&device, 0));
  CHECK_CU(CUDA_SUCCESS, cuDevicePrimaryCtxRetain(&context, device));
  CHECK_CU(CUDA_SUCCESS, cuCtxSetCurrent(context));
  CUstream stream = nullptr;
  CHECK_CU(CUDA_SUCCESS, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  constexpr size_t kKiB = 1024;
  for (const size_t bytes : {1 * kKiB, 64 * kKiB, 100 * kKiB + 1, 1024 * kKiB,
                             4096 * kKiB, 5000 * kKiB + 3}) {
    for (const size_t offset : {0, 13}) {
      for (int way = 0; way < 4; ++way) RoundTrip(bytes, offset, way, stream);
    }
  }
  // A captured copy is a node of the graph, and moves nothing now.
  std::vector<unsigned char> source(8192 * kKiB, 1);
  CUdeviceptr memory = 0;
  CUgraph graph = nullptr;
  CHECK_CU(CUDA_SUCCESS, cuMemAlloc(&memory, source.size()));
  CHECK_CU(CUDA_SUCCESS,
           cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK_CU(CUDA_SUCCESS,
           cuMemcpyHtoDAsync(memory, source.data(), source.size(), stream));
  CHECK_CU(CUDA_SUCCESS, cuStreamEndCapture(stream, &graph));
  size_t nodes = 0;
  CHECK_CU(CUDA_SUCCESS, cuGraphGetNodes(graph, nullptr, &nodes));
  CHECK(nodes == 1);
  CHECK_CU(CUDA_SUCCESS, cuGraphDestroy(graph));
  // What the driver refuses is refused with its code.
  CHECK_CU(CUDA_ERROR_INVALID_VALUE,
           cuMemcpyHtoD(memory + 1, source.data(), source.size()));
  CHECK_CU(CUDA_SUCCESS, cuMemFree(memory));
  CHECK_CU(CUDA_SUCCESS, cuStreamDestroy(stream));
  std::puts("done");
  return 0;
}
