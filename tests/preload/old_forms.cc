// A driver-API program that asks cuGetProcAddress, in both its forms and for
// itself, for old and new versions of functions in both stream modes, and
// copies with what it gets.

#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>

#include <cstring>
#include <string>

#include "tests/simcuda_programs_test/program.h"

namespace {

constexpr size_t kBytes = (1 << 20) + 13;

using GetV1 = CUresult (*)(const char*, void**, int, cuuint64_t);
using GetV2 = CUresult (*)(const char*, void**, int, cuuint64_t,
                           CUdriverProcAddressQueryResult*);

// A way to look functions up, and the versions to ask it for.
struct LookUp {
  GetV1 v1 = nullptr;
  GetV2 v2 = nullptr;

  void* Get(const char* name, int version, bool per_thread) const {
    void* function = nullptr;
    const cuuint64_t flags = per_thread
                                 ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                 : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
    if (v1 != nullptr) {
      CHECK_CU(CUDA_SUCCESS, v1(name, &function, version, flags));
    } else {
      CUdriverProcAddressQueryResult result;
      CHECK_CU(CUDA_SUCCESS, v2(name, &function, version, flags, &result));
      CHECK(result == CU_GET_PROC_ADDRESS_SUCCESS);
    }
    CHECK(function != nullptr);
    return function;
  }
  template <typename Function>
  Function As(const char* name, int version, bool per_thread = false) const {
    return reinterpret_cast<Function>(Get(name, version, per_thread));
  }
};

// Async copies both ways in the mode's default stream, behind a host function
// that writes the source.
void Copy(const LookUp& get, int version, bool per_thread) {
  const auto alloc =
      get.As<PFN_cuMemHostAlloc_v2020>("cuMemHostAlloc", version);
  const auto free = get.As<PFN_cuMemFreeHost_v2000>("cuMemFreeHost", version);
  const auto alloc_device = get.As<PFN_cuMemAlloc_v3020>("cuMemAlloc", version);
  const auto free_device = get.As<PFN_cuMemFree_v3020>("cuMemFree", version);
  const auto up = get.As<PFN_cuMemcpyHtoDAsync_v3020>("cuMemcpyHtoDAsync",
                                                      version, per_thread);
  const auto down =
      get.As<PFN_cuMemcpyDtoH_v3020>("cuMemcpyDtoH", version, per_thread);
  const auto call = get.As<PFN_cuLaunchHostFunc_v10000>(
      "cuLaunchHostFunc", version > 10000 ? version : 10000, per_thread);
  void* block = nullptr;
  CUdeviceptr device = 0;
  CHECK_CU(CUDA_SUCCESS, alloc(&block, kBytes, 0));
  CHECK_CU(CUDA_SUCCESS, alloc_device(&device, kBytes));
  auto* const bytes = static_cast<char*>(block);
  std::memset(bytes, 0xee, kBytes);
  CHECK_CU(CUDA_SUCCESS,
           call(
               nullptr,
               [](void* data) { Fill(static_cast<char*>(data), kBytes, 7); },
               bytes));
  CHECK_CU(CUDA_SUCCESS, up(device, block, kBytes, nullptr));
  void* back = nullptr;
  CHECK_CU(CUDA_SUCCESS, alloc(&back, kBytes, CU_MEMHOSTALLOC_PORTABLE));
  CHECK_CU(CUDA_SUCCESS, down(back, device, kBytes));
  CHECK(Holds(static_cast<char*>(back), kBytes, 7));
  CHECK_CU(CUDA_SUCCESS, free(block));
  CHECK_CU(CUDA_SUCCESS, free(back));
  CHECK_CU(CUDA_SUCCESS, free_device(device));
}

}  // namespace

int main() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  CHECK(library != nullptr);
  LookUp by_v1{.v1 =
                   reinterpret_cast<GetV1>(dlsym(library, "cuGetProcAddress"))};
  LookUp by_v2{
      .v2 = reinterpret_cast<GetV2>(dlsym(library, "cuGetProcAddress_v2"))};
  CHECK(by_v1.v1 != nullptr && by_v2.v2 != nullptr);
  // Each asked for through the other.
  LookUp by_v1_of_v2{.v1 = by_v2.As<GetV1>("cuGetProcAddress", 11030)};
  LookUp by_v2_of_v1{.v2 = by_v1.As<GetV2>("cuGetProcAddress", 12000)};
  CHECK(by_v1_of_v2.v1 == by_v1.v1 && by_v2_of_v1.v2 == by_v2.v2);

  CHECK_CU(CUDA_SUCCESS, by_v1.As<PFN_cuInit_v2000>("cuInit", 2000)(0));
  CUcontext context = nullptr;
  CHECK_CU(CUDA_SUCCESS, by_v1.As<PFN_cuDevicePrimaryCtxRetain_v7000>(
                             "cuDevicePrimaryCtxRetain", 7000)(&context, 0));
  CHECK_CU(CUDA_SUCCESS, by_v1.As<PFN_cuCtxSetCurrent_v4000>("cuCtxSetCurrent",
                                                             4000)(context));
  for (const LookUp& get : {by_v1, by_v2, by_v1_of_v2, by_v2_of_v1}) {
    for (const int version : {4000, 7000, 11080, 12000, CUDA_VERSION}) {
      Copy(get, version, false);
      if (version >= 7000) Copy(get, version, true);
    }
  }
  // A function is one, whatever it was asked for by.
  CHECK(by_v1.Get("cuMemcpyHtoD", 4000, false) ==
        dlsym(library, "cuMemcpyHtoD_v2"));
  CHECK(by_v2.Get("cuMemcpyHtoD", CUDA_VERSION, true) ==
        dlsym(library, "cuMemcpyHtoD_v2_ptds"));
  return 0;
}
