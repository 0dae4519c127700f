// A program of the driver API, linked with libcuda: contexts, memory, streams,
// memory operations, attributes, the forms with per-thread default streams.

#include <cuda.h>

#include <cstring>
#include <thread>

#include "tests/simcuda_programs_test/program.h"

extern "C" CUresult CUDAAPI cuMemcpyHtoD_v2_ptds(CUdeviceptr, const void*,
                                                 size_t);
extern "C" CUresult CUDAAPI cuStreamQuery_ptsz(CUstream);
extern "C" CUresult CUDAAPI cuLaunchHostFunc_ptsz(CUstream, CUhostFn, void*);
extern "C" CUresult CUDAAPI cuStreamSynchronize_ptsz(CUstream);

namespace {

constexpr size_t kBytes = (1 << 20) + 9;

void Copies() {
  void* host = nullptr;
  CUdeviceptr device = 0;
  CUdeviceptr other = 0;
  CUstream stream = nullptr;
  CHECK_CU(CUDA_SUCCESS, cuMemAllocHost(&host, kBytes));
  CHECK_CU(CUDA_SUCCESS, cuMemAlloc(&device, kBytes));
  CHECK_CU(CUDA_SUCCESS, cuMemAlloc(&other, kBytes));
  CHECK_CU(CUDA_SUCCESS, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  auto* bytes = static_cast<char*>(host);
  Fill(bytes, kBytes, 1);
  CHECK_CU(CUDA_SUCCESS, cuMemcpyHtoDAsync(device, host, kBytes, stream));
  CHECK_CU(CUDA_SUCCESS, cuMemcpyDtoDAsync(other, device, kBytes, stream));
  CHECK_CU(CUDA_SUCCESS, cuStreamSynchronize(stream));
  std::memset(host, 0, kBytes);
  CHECK_CU(CUDA_SUCCESS, cuMemcpyDtoH(host, other, kBytes));
  CHECK(Holds(bytes, kBytes, 1));

  CUdeviceptr base = 0;
  size_t range = 0;
  CHECK_CU(CUDA_SUCCESS, cuMemGetAddressRange(&base, &range, device + 77));
  CHECK(base == device && range == kBytes);
  CHECK_CU(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &range, 8));
  unsigned type = 0;
  CHECK_CU(CUDA_SUCCESS,
           cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                 reinterpret_cast<CUdeviceptr>(bytes + 3)));
  CHECK(type == CU_MEMORYTYPE_HOST);
  CHECK_CU(CUDA_ERROR_INVALID_VALUE,
           cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                 reinterpret_cast<CUdeviceptr>(&type)));
  CHECK_CU(CUDA_SUCCESS, cuStreamDestroy(stream));
  CHECK_CU(CUDA_SUCCESS, cuMemFree(device));
  CHECK_CU(CUDA_SUCCESS, cuMemFree(other));
  CHECK_CU(CUDA_SUCCESS, cuMemFreeHost(host));
}

// A stream waits for a flag that the host raises.
void MemoryOperations() {
  void* host = nullptr;
  CUdeviceptr flag = 0;
  CUstream stream = nullptr;
  CHECK_CU(CUDA_SUCCESS, cuMemHostAlloc(&host, 8, CU_MEMHOSTALLOC_DEVICEMAP));
  CHECK_CU(CUDA_SUCCESS, cuMemHostGetDevicePointer(&flag, host, 0));
  CHECK_CU(CUDA_SUCCESS, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  auto* words = static_cast<volatile uint32_t*>(host);
  words[0] = 0;
  words[1] = 0;
  CHECK_CU(CUDA_SUCCESS,
           cuStreamWaitValue32(stream, flag, 5, CU_STREAM_WAIT_VALUE_GEQ));
  CHECK_CU(CUDA_SUCCESS, cuStreamWriteValue32(stream, flag + 4, 6, 0));
  CHECK_CU(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
  CHECK(words[1] == 0);
  words[0] = 5;
  CHECK_CU(CUDA_SUCCESS, cuStreamSynchronize(stream));
  CHECK(words[1] == 6);
  CHECK_CU(CUDA_SUCCESS, cuStreamDestroy(stream));
  CHECK_CU(CUDA_SUCCESS, cuMemFreeHost(host));
}

// The plain names take the legacy default stream, those with a suffix the
// calling thread's.
void DefaultStreams() {
  CUdeviceptr device = 0;
  CHECK_CU(CUDA_SUCCESS, cuMemAlloc(&device, kBytes));
  std::vector<char> bytes(kBytes);
  Fill(bytes.data(), kBytes, 2);
  struct Wait {
    std::mutex mutex;
    bool open = false;
    std::condition_variable opened;
  } wait;
  const auto hold = [](void* data) {
    auto* on = static_cast<Wait*>(data);
    std::unique_lock<std::mutex> lock(on->mutex);
    on->opened.wait(lock, [on] { return on->open; });
  };
  CHECK_CU(CUDA_SUCCESS, cuLaunchHostFunc_ptsz(nullptr, hold, &wait));
  CHECK_CU(CUDA_ERROR_NOT_READY, cuStreamQuery_ptsz(nullptr));
  CUcontext context = nullptr;
  CHECK_CU(CUDA_SUCCESS, cuCtxGetCurrent(&context));
  std::thread([&] {
    CHECK_CU(CUDA_SUCCESS, cuCtxSetCurrent(context));
    CHECK_CU(CUDA_SUCCESS, cuStreamQuery_ptsz(nullptr));
    CHECK_CU(CUDA_SUCCESS, cuMemcpyHtoD_v2_ptds(device, bytes.data(), kBytes));
  }).join();
  // The legacy stream waits for all threads' default streams.
  CHECK_CU(CUDA_ERROR_NOT_READY, cuStreamQuery(nullptr));
  {
    std::lock_guard<std::mutex> lock(wait.mutex);
    wait.open = true;
    wait.opened.notify_all();
  }
  CHECK_CU(CUDA_SUCCESS, cuStreamSynchronize_ptsz(nullptr));
  std::vector<char> back(kBytes);
  CHECK_CU(CUDA_SUCCESS, cuMemcpyDtoH(back.data(), device, kBytes));
  CHECK(Holds(back.data(), kBytes, 2));
  CHECK_CU(CUDA_SUCCESS, cuMemFree(device));
}

}  // namespace

int main() {
  int version = 0;
  const char* name = nullptr;
  CHECK_CU(CUDA_SUCCESS, cuDriverGetVersion(&version));
  CHECK(version >= 12000);
  CHECK_CU(CUDA_SUCCESS, cuGetErrorName(CUDA_ERROR_NOT_INITIALIZED, &name));
  CHECK(std::strcmp(name, "CUDA_ERROR_NOT_INITIALIZED") == 0);
  int count = 0;
  CHECK_CU(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&count));
  CHECK_CU(CUDA_ERROR_INVALID_VALUE, cuInit(1));
  CHECK_CU(CUDA_SUCCESS, cuInit(0));
  CHECK_CU(CUDA_SUCCESS, cuInit(0));
  CHECK_CU(CUDA_SUCCESS, cuDeviceGetCount(&count));
  CHECK(count == 1);
  CUdevice device = -1;
  CHECK_CU(CUDA_SUCCESS, cuDeviceGet(&device, 0));
  CHECK_CU(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, 1));
  CHECK_CU(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize());

  CUcontext context = nullptr;
  CHECK_CU(CUDA_SUCCESS,
           cuDevicePrimaryCtxSetFlags(device, CU_CTX_SCHED_BLOCKING_SYNC));
  CHECK_CU(CUDA_SUCCESS, cuDevicePrimaryCtxRetain(&context, device));
  CHECK_CU(CUDA_SUCCESS, cuCtxPushCurrent(context));
  unsigned flags = 0;
  CHECK_CU(CUDA_SUCCESS, cuCtxGetFlags(&flags));
  CHECK((flags & CU_CTX_SCHED_MASK) == CU_CTX_SCHED_BLOCKING_SYNC);
  Copies();
  MemoryOperations();
  DefaultStreams();
  // No image here has code for the device.
  CUmodule module = nullptr;
  CHECK_CU(CUDA_ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData(&module, "image"));
  CHECK_CU(CUDA_SUCCESS, cuCtxPopCurrent(&context));
  CHECK_CU(CUDA_SUCCESS, cuDevicePrimaryCtxRelease(device));
  return 0;
}
