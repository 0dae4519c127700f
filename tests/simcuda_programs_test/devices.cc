// Several devices: each thread has a current one, contexts appear where they
// are used and nowhere else, copies go between devices.

#include <cuda.h>

#include <cstring>
#include <thread>

#include "tests/simcuda_programs_test/program.h"

namespace {

constexpr size_t kBytes = (1 << 20) + 1;

// Asks the driver, by the runtime's way to it.
bool HasContext(int device) {
  void* function = nullptr;
#if CUDART_VERSION >= 12050
  CHECK_OK(cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState",
                                            &function, 7000, cudaEnableDefault,
                                            nullptr));
#else
  CHECK_OK(cudaGetDriverEntryPoint("cuDevicePrimaryCtxGetState", &function,
                                   cudaEnableDefault, nullptr));
#endif
  const auto get_state =
      reinterpret_cast<CUresult (*)(CUdevice, unsigned*, int*)>(function);
  CHECK(get_state != nullptr);
  unsigned flags = 0;
  int active = -1;
  CHECK_CU(CUDA_SUCCESS, get_state(device, &flags, &active));
  return active != 0;
}

int Current() {
  int device = -1;
  CHECK_OK(cudaGetDevice(&device));
  return device;
}

void QueriesMakeNoContext(int count) {
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties;
    CHECK_OK(cudaGetDeviceProperties(&properties, i));
    CHECK(std::strlen(properties.name) > 0);
    CHECK(properties.totalGlobalMem > 0 && properties.warpSize == 32);
    CHECK(properties.unifiedAddressing == 1);
    int engines = 0;
    CHECK_OK(cudaDeviceGetAttribute(&engines, cudaDevAttrAsyncEngineCount, i));
    CHECK(engines == properties.asyncEngineCount);
    char id[32];
    int again = -1;
    CHECK_OK(cudaDeviceGetPCIBusId(id, sizeof id, i));
    CHECK_OK(cudaDeviceGetByPCIBusId(&again, id));
    CHECK(again == i);
  }
  int runtime = 0;
  int driver = 0;
  CHECK_OK(cudaRuntimeGetVersion(&runtime));
  CHECK_OK(cudaDriverGetVersion(&driver));
  CHECK(runtime == CUDART_VERSION && driver >= runtime);
  CHECK(Current() == 0);
  for (int i = 0; i < count; ++i) CHECK(!HasContext(i));
}

void EachThreadHasItsDevice() {
  CHECK_OK(cudaSetDevice(1));
  CHECK(Current() == 1);
  std::thread([] {
    CHECK(Current() == 0);
    CHECK_OK(cudaSetDevice(1));
    CHECK(Current() == 1);
  }).join();
  CHECK(!HasContext(0));
  void* memory = nullptr;
  CHECK_OK(cudaMalloc(&memory, 16));
  cudaPointerAttributes attributes;
  CHECK_OK(cudaPointerGetAttributes(&attributes, memory));
  CHECK(attributes.device == 1);
  CHECK_OK(cudaFree(memory));
  CHECK(HasContext(1));
}

void CopiesGoBetweenDevices() {
  char* host = nullptr;
  char* first = nullptr;
  char* second = nullptr;
  CHECK_OK(cudaSetDevice(0));
  CHECK_OK(cudaMalloc(reinterpret_cast<void**>(&first), kBytes));
  CHECK_OK(cudaHostAlloc(reinterpret_cast<void**>(&host), kBytes,
                         cudaHostAllocPortable));
  CHECK_OK(cudaSetDevice(1));
  CHECK_OK(cudaMalloc(reinterpret_cast<void**>(&second), kBytes));
  cudaStream_t stream = nullptr;
  CHECK_OK(cudaStreamCreate(&stream));
  Fill(host, kBytes, 1);
  CHECK_OK(cudaMemcpy(first, host, kBytes, cudaMemcpyHostToDevice));
  CHECK_OK(cudaMemcpyPeer(second, 1, first, 0, kBytes));
  CHECK_OK(cudaDeviceSynchronize());
  std::memset(host, 0, kBytes);
  CHECK_OK(cudaMemcpy(host, second, kBytes, cudaMemcpyDeviceToHost));
  CHECK(Holds(host, kBytes, 1));
  Fill(host, kBytes, 2);
  CHECK_OK(
      cudaMemcpyAsync(second, host, kBytes, cudaMemcpyHostToDevice, stream));
  CHECK_OK(cudaMemcpyPeerAsync(first, 0, second, 1, kBytes, stream));
  CHECK_OK(cudaStreamSynchronize(stream));
  std::memset(host, 0, kBytes);
  // A stream of another device than the current one takes work as well.
  CHECK_OK(cudaSetDevice(0));
  CHECK_OK(
      cudaMemcpyAsync(host, first, kBytes, cudaMemcpyDeviceToHost, stream));
  CHECK_OK(cudaStreamSynchronize(stream));
  CHECK(Holds(host, kBytes, 2));
  CHECK_FAILS(cudaErrorInvalidDevice,
              cudaMemcpyPeer(second, 9, first, 0, kBytes));
  CHECK_OK(cudaStreamDestroy(stream));
  CHECK_OK(cudaFreeHost(host));
  CHECK_OK(cudaFree(first));
  CHECK_OK(cudaFree(second));
}

void AResetDeviceStartsAfresh() {
  CHECK_OK(cudaSetDevice(1));
  void* memory = nullptr;
  CHECK_OK(cudaMalloc(&memory, 16));
  CHECK_OK(cudaDeviceReset());
  CHECK(Current() == 1);
  CHECK(!HasContext(1));
  CHECK_FAILS(cudaErrorInvalidValue, cudaFree(memory));
  CHECK_OK(cudaMalloc(&memory, 16));
  CHECK(HasContext(1));
  CHECK_OK(cudaFree(memory));
}

}  // namespace

int main() {
  int count = 0;
  CHECK_OK(cudaGetDeviceCount(&count));
  if (count < 3) {
    std::puts("Skipped: needs three devices");
    return 0;
  }
  QueriesMakeNoContext(count);
  EachThreadHasItsDevice();
  CopiesGoBetweenDevices();
  AResetDeviceStartsAfresh();
  CHECK(!HasContext(2));
  return 0;
}
