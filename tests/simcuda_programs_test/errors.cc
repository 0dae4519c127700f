// Codes: what each wrong call answers, and what cudaGetLastError tells whom.
// The values are those of a device that was measured.

#include <cstring>
#include <thread>

#include "tests/simcuda_programs_test/program.h"

namespace {

constexpr size_t kBytes = 1 << 16;

void WrongMemoryCalls() {
  void* host = nullptr;
  CHECK_OK(cudaMallocHost(&host, kBytes));
  auto* inside = static_cast<char*>(host) + 8;
  void* ordinary = std::malloc(kBytes);
  CHECK(ordinary != nullptr);

  void* left = host;
  CHECK_OK(cudaMallocHost(&left, 0));
  CHECK(left == nullptr);
  CHECK_FAILS(cudaErrorInvalidValue, cudaMallocHost(nullptr, 16));
  CHECK_FAILS(cudaErrorMemoryAllocation, cudaMallocHost(&left, SIZE_MAX));
  CHECK_FAILS(cudaErrorMemoryAllocation, cudaMalloc(&left, SIZE_MAX / 2));
  CHECK_FAILS(cudaErrorInvalidValue, cudaHostAlloc(&left, 16, 1 << 10));
  CHECK_OK(cudaFree(nullptr));
  CHECK_OK(cudaFreeHost(nullptr));
  CHECK_FAILS(cudaErrorInvalidValue, cudaFree(ordinary));
  CHECK_FAILS(cudaErrorInvalidValue, cudaFreeHost(inside));
  CHECK_FAILS(cudaErrorInvalidValue, cudaFreeHost(ordinary));
  CHECK_FAILS(cudaErrorInvalidValue, cudaHostRegister(inside, 16, 0));
  CHECK_FAILS(cudaErrorInvalidValue, cudaHostUnregister(host));
  CHECK_FAILS(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(ordinary));
  CHECK_OK(cudaHostRegister(ordinary, kBytes, 0));
  CHECK_FAILS(cudaErrorHostMemoryAlreadyRegistered,
              cudaHostRegister(ordinary, kBytes, 0));
  CHECK_OK(cudaHostUnregister(ordinary));
  CHECK_OK(cudaFreeHost(host));
  CHECK_FAILS(cudaErrorInvalidValue, cudaFreeHost(host));
  std::free(ordinary);
}

void WrongCopies() {
  char* host = nullptr;
  char* device = nullptr;
  char ordinary[64] = {};
  CHECK_OK(cudaMallocHost(reinterpret_cast<void**>(&host), kBytes));
  CHECK_OK(cudaMalloc(reinterpret_cast<void**>(&device), kBytes));
  CHECK_OK(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyHostToDevice));
  CHECK_FAILS(cudaErrorInvalidMemcpyDirection,
              cudaMemcpy(device, host, 4, static_cast<cudaMemcpyKind>(7)));
  CHECK_FAILS(cudaErrorInvalidMemcpyDirection,
              cudaMemcpyAsync(device, host, 4, static_cast<cudaMemcpyKind>(-1),
                              nullptr));
  // One byte too many moves nothing.
  Fill(host, kBytes, 1);
  CHECK_OK(cudaMemset(device, 3, kBytes));
  CHECK_FAILS(cudaErrorInvalidValue,
              cudaMemcpy(device + 1, host, kBytes, cudaMemcpyHostToDevice));
  CHECK_FAILS(cudaErrorInvalidValue,
              cudaMemcpyAsync(host + 1, device, kBytes, cudaMemcpyDeviceToHost,
                              nullptr));
  CHECK_OK(cudaStreamSynchronize(nullptr));
  CHECK(Holds(host, kBytes, 1));
  CHECK_OK(cudaMemcpy(host, device, kBytes, cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < kBytes; ++i) CHECK(host[i] == 3);
  // The kind says which end CUDA must know.
  CHECK_FAILS(cudaErrorInvalidValue,
              cudaMemcpy(ordinary, ordinary + 32, 16, cudaMemcpyDeviceToHost));
  CHECK_FAILS(cudaErrorInvalidValue, cudaMemset(ordinary, 0, sizeof ordinary));
  CHECK_OK(cudaFree(device));
  CHECK_FAILS(cudaErrorInvalidValue,
              cudaMemcpy(device, host, 4, cudaMemcpyHostToDevice));
  CHECK_OK(cudaFreeHost(host));
}

void WrongHandles() {
  int place = 0;
  auto* stream = reinterpret_cast<cudaStream_t>(&place);
  auto* event = reinterpret_cast<cudaEvent_t>(&place);
  CHECK_FAILS(cudaErrorInvalidResourceHandle, cudaStreamDestroy(nullptr));
  CHECK_FAILS(cudaErrorInvalidResourceHandle, cudaStreamQuery(stream));
  CHECK_FAILS(cudaErrorInvalidResourceHandle, cudaEventQuery(event));
  CHECK_FAILS(cudaErrorInvalidResourceHandle, cudaEventDestroy(event));
  CHECK_FAILS(cudaErrorInvalidDevice, cudaSetDevice(99));
  CHECK_FAILS(cudaErrorInvalidDevice, cudaSetDevice(-1));
  cudaDeviceProp properties;
  CHECK_FAILS(cudaErrorInvalidDevice, cudaGetDeviceProperties(&properties, 99));
}

void PointersSayWhatTheyAre() {
  char* host = nullptr;
  char* device = nullptr;
  auto* ordinary = static_cast<char*>(std::malloc(kBytes));
  CHECK_OK(cudaMallocHost(reinterpret_cast<void**>(&host), kBytes));
  CHECK_OK(cudaMalloc(reinterpret_cast<void**>(&device), kBytes));
  cudaPointerAttributes attributes;
  for (char* at : {host, host + 1, host + kBytes - 1}) {
    CHECK_OK(cudaPointerGetAttributes(&attributes, at));
    CHECK(attributes.type == cudaMemoryTypeHost);
    CHECK(attributes.device == 0);
    CHECK(attributes.hostPointer == at && attributes.devicePointer == at);
  }
  CHECK_OK(cudaPointerGetAttributes(&attributes, device + 5));
  CHECK(attributes.type == cudaMemoryTypeDevice);
  CHECK(attributes.device == 0);
  CHECK(attributes.devicePointer == device + 5);
  CHECK(attributes.hostPointer == nullptr);
  CHECK_OK(cudaPointerGetAttributes(&attributes, ordinary));
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  CHECK(attributes.device == -2);
  CHECK(attributes.hostPointer == ordinary);
  CHECK(attributes.devicePointer == nullptr);
  CHECK_FAILS(cudaErrorInvalidValue, cudaPointerGetAttributes(nullptr, host));
  unsigned flags = 0;
  CHECK_OK(cudaHostGetFlags(&flags, host + 9));
  CHECK(flags == cudaHostAllocMapped);
  CHECK_FAILS(cudaErrorInvalidValue, cudaHostGetFlags(&flags, ordinary));
  void* mapped = nullptr;
  CHECK_OK(cudaHostGetDevicePointer(&mapped, host, 0));
  CHECK(mapped == host);
  CHECK_FAILS(cudaErrorInvalidValue,
              cudaHostGetDevicePointer(&mapped, ordinary, 0));
  CHECK_OK(cudaFree(device));
  CHECK_OK(cudaFreeHost(host));
  CHECK_OK(cudaPointerGetAttributes(&attributes, host));
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  std::free(ordinary);
}

// A later success leaves the error; another thread has its own.
void TheLastErrorIsTheThreads() {
  CHECK_CODE(cudaErrorInvalidValue, cudaMallocHost(nullptr, 16));
  CHECK_OK(cudaFree(nullptr));
  std::thread([] {
    CHECK_CODE(cudaSuccess, cudaPeekAtLastError());
    CHECK_CODE(cudaErrorInvalidDevice, cudaSetDevice(99));
    CHECK_CODE(cudaErrorInvalidDevice, cudaPeekAtLastError());
  }).join();
  CHECK_CODE(cudaErrorInvalidValue, cudaPeekAtLastError());
  CHECK_CODE(cudaErrorInvalidValue, cudaGetLastError());
  CHECK_CODE(cudaSuccess, cudaGetLastError());
}

void ErrorsHaveNames() {
  CHECK(std::strcmp(cudaGetErrorName(cudaErrorInvalidValue),
                    "cudaErrorInvalidValue") == 0);
  CHECK(std::strcmp(cudaGetErrorString(cudaErrorInvalidValue),
                    "invalid argument") == 0);
  CHECK(std::strcmp(cudaGetErrorName(cudaErrorNoKernelImageForDevice),
                    "cudaErrorNoKernelImageForDevice") == 0);
  CHECK(std::strcmp(cudaGetErrorString(static_cast<cudaError_t>(123456)),
                    "unrecognized error code") == 0);
}

}  // namespace

int main() {
  ErrorsHaveNames();
  WrongMemoryCalls();
  WrongCopies();
  WrongHandles();
  PointersSayWhatTheyAre();
  TheLastErrorIsTheThreads();
  return 0;
}
