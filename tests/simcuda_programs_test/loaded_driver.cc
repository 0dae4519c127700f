// A program that is linked with nothing of CUDA's and loads the driver: the
// forms that cuGetProcAddress gives, and what it says where there is none.

#include <cuda.h>
#include <dlfcn.h>

#include <cstring>

#include "tests/simcuda_programs_test/program.h"

#undef cuGetProcAddress
#undef cuMemAlloc
#undef cuMemcpyHtoD

namespace {

void* library = nullptr;

void* Symbol(const char* name) {
  void* symbol = dlsym(library, name);
  if (symbol == nullptr) std::fprintf(stderr, "no %s\n", name);
  CHECK(symbol != nullptr);
  return symbol;
}

using GetProcAddressV1 = CUresult (*)(const char*, void**, int, cuuint64_t);
using GetProcAddressV2 = CUresult (*)(const char*, void**, int, cuuint64_t,
                                      CUdriverProcAddressQueryResult*);

constexpr cuuint64_t kLegacy = CU_GET_PROC_ADDRESS_LEGACY_STREAM;
constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;

struct Case {
  const char* name;
  int version;
  cuuint64_t flags;
  const char* symbol;  // null: there is none
  CUdriverProcAddressQueryResult status;
};

constexpr Case kCases[] = {
    {"cuMemAlloc", 12000, 0, "cuMemAlloc_v2", CU_GET_PROC_ADDRESS_SUCCESS},
    {"cuMemAlloc", 3020, kLegacy, "cuMemAlloc_v2", CU_GET_PROC_ADDRESS_SUCCESS},
    {"cuMemAlloc", 13000, kPerThread, "cuMemAlloc_v2",
     CU_GET_PROC_ADDRESS_SUCCESS},
    {"cuMemAlloc", 2000, kLegacy, nullptr,
     CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT},
    {"cuMemAlloc_v2", 12000, kLegacy, nullptr,
     CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND},
    {"cuNoSuchThing", 12000, kLegacy, nullptr,
     CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND},
    {"cuMemcpyHtoD", 12000, 0, "cuMemcpyHtoD_v2", CU_GET_PROC_ADDRESS_SUCCESS},
    {"cuMemcpyHtoD", 12000, kPerThread, "cuMemcpyHtoD_v2_ptds",
     CU_GET_PROC_ADDRESS_SUCCESS},
    {"cuMemcpyAsync", 12000, kPerThread, "cuMemcpyAsync_ptsz",
     CU_GET_PROC_ADDRESS_SUCCESS},
    {"cuStreamBeginCapture", 12000, kLegacy, "cuStreamBeginCapture_v2",
     CU_GET_PROC_ADDRESS_SUCCESS},
    {"cuStreamWaitValue32", 12000, kPerThread, "cuStreamWaitValue32_v2_ptsz",
     CU_GET_PROC_ADDRESS_SUCCESS},
    {"cuEventElapsedTime", 12000, kLegacy, "cuEventElapsedTime",
     CU_GET_PROC_ADDRESS_SUCCESS},
    {"cuEventElapsedTime", 12080, kLegacy, "cuEventElapsedTime_v2",
     CU_GET_PROC_ADDRESS_SUCCESS},
    {"cuGetProcAddress", 11030, kLegacy, "cuGetProcAddress",
     CU_GET_PROC_ADDRESS_SUCCESS},
    {"cuGetProcAddress", 12000, kLegacy, "cuGetProcAddress_v2",
     CU_GET_PROC_ADDRESS_SUCCESS},
};

}  // namespace

int main() {
  library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) std::fprintf(stderr, "%s\n", dlerror());
  CHECK(library != nullptr);
  const auto get =
      reinterpret_cast<GetProcAddressV2>(Symbol("cuGetProcAddress_v2"));
  const auto get_v1 =
      reinterpret_cast<GetProcAddressV1>(Symbol("cuGetProcAddress"));
  for (const Case& one : kCases) {
    void* const nothing = &library;
    void* pointer = nothing;
    auto status = static_cast<CUdriverProcAddressQueryResult>(77);
    const CUresult code =
        get(one.name, &pointer, one.version, one.flags, &status);
    std::printf("%s %d %d: %d, status %d\n", one.name, one.version,
                static_cast<int>(one.flags), code, status);
    CHECK(status == one.status);
    CHECK_CU(one.symbol == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS, code);
    CHECK(pointer == (one.symbol == nullptr ? nullptr : Symbol(one.symbol)));
    void* old = nothing;
    CHECK_CU(code, get_v1(one.name, &old, one.version, one.flags));
    CHECK(old == pointer);
  }
  void* pointer = nullptr;
  CHECK_CU(CUDA_ERROR_INVALID_VALUE,
           get(nullptr, &pointer, 12000, kLegacy, nullptr));
  CHECK_CU(CUDA_ERROR_INVALID_VALUE,
           get("cuInit", nullptr, 12000, kLegacy, nullptr));
  CHECK_CU(CUDA_ERROR_INVALID_VALUE,
           get("cuInit", &pointer, 12000, 64, nullptr));

  // And they are the real thing.
  CHECK_CU(CUDA_SUCCESS, get("cuInit", &pointer, 12000, kLegacy, nullptr));
  CHECK_CU(CUDA_SUCCESS, reinterpret_cast<CUresult (*)(unsigned)>(pointer)(0));
  CHECK_CU(CUDA_SUCCESS,
           get("cuDeviceGetCount", &pointer, 12000, kLegacy, nullptr));
  int count = 0;
  CHECK_CU(CUDA_SUCCESS, reinterpret_cast<CUresult (*)(int*)>(pointer)(&count));
  CHECK(count == 1);
  return 0;
}
