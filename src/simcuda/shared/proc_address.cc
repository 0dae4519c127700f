// cuGetProcAddress: an entry point by its name without suffix, a CUDA version
// and a kind of default stream.

#include <cuda.h>

#include <string_view>
#include <vector>

#include "src/simcuda/machine.h"
#include "src/simcuda/shared/driver_exports.h"
#include "src/simcuda/shared/process_machine.h"

// The header renames these to later forms of them.
#undef cuEventElapsedTime
#undef cuGetProcAddress
#undef cuGraphAddDependencies
#undef cuGraphNodeGetDependencies
#undef cuGraphNodeGetDependentNodes
#undef cuStreamGetCaptureInfo
#undef cuStreamGetCaptureInfo_ptsz
#undef cuMemcpyBatchAsync
#undef cuMemcpy3DBatchAsync

#define PINRING_EXPORT extern "C" __attribute__((visibility("default")))

#if CUDA_VERSION < 12000
enum CUdriverProcAddressQueryResult {
  CU_GET_PROC_ADDRESS_SUCCESS = 0,
  CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
  CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2,
};
#endif

// Declared here, as older headers do not know all of them, and none knows the
// forms for per-thread default streams.
#define PINRING_PLAIN(table, field, base, version, symbol, parameters, \
                      arguments)                                       \
  extern "C" CUresult CUDAAPI symbol parameters;
#define PINRING_DEFAULT_STREAM(table, field, base, version, symbol,      \
                               per_thread_symbol, parameters, arguments) \
  extern "C" CUresult CUDAAPI symbol parameters;                         \
  extern "C" CUresult CUDAAPI per_thread_symbol parameters;
PINRING_SIMCUDA_EXPORTS(PINRING_PLAIN, PINRING_DEFAULT_STREAM)
#undef PINRING_PLAIN
#undef PINRING_DEFAULT_STREAM
extern "C" CUresult CUDAAPI cuEventElapsedTime_v2(float* milliseconds,
                                                  CUevent start, CUevent end);
extern "C" CUresult CUDAAPI
cuGetProcAddress_v2(const char* symbol, void** pointer, int version,
                    cuuint64_t flags, CUdriverProcAddressQueryResult* status);
extern "C" CUresult CUDAAPI cuEventElapsedTime(float* milliseconds,
                                               CUevent start, CUevent end);
extern "C" CUresult CUDAAPI cuMemcpyBatchAsync(
    CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
    CUmemcpyAttributes_st* attributes, size_t* attribute_indices,
    size_t attribute_count, size_t* failed_index, CUstream stream);
extern "C" CUresult CUDAAPI cuMemcpyBatchAsync_v2(
    CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
    CUmemcpyAttributes_st* attributes, size_t* attribute_indices,
    size_t attribute_count, CUstream stream);
extern "C" CUresult CUDAAPI cuMemcpy3DBatchAsync(
    size_t count, CUDA_MEMCPY3D_BATCH_OP_st* boxes, size_t* failed_index,
    unsigned long long flags, CUstream stream);
extern "C" CUresult CUDAAPI
cuMemcpy3DBatchAsync_v2(size_t count, CUDA_MEMCPY3D_BATCH_OP_st* boxes,
                        unsigned long long flags, CUstream stream);
extern "C" CUresult CUDAAPI cuGetProcAddress(const char* symbol, void** pointer,
                                             int version, cuuint64_t flags);

namespace pinring::simcuda {
namespace {

struct Form {
  std::string_view base;
  int version;  // from which on a request gets this form
  void* legacy;
  void* per_thread;
};

template <typename Function>
Form One(std::string_view base, int version, Function* function,
         Function* per_thread) {
  return {base, version, reinterpret_cast<void*>(function),
          reinterpret_cast<void*>(per_thread)};
}
template <typename Function>
Form One(std::string_view base, int version, Function* function) {
  return One(base, version, function, function);
}

const std::vector<Form>& Forms() {
#define PINRING_PLAIN(table, field, base, version, symbol, parameters, \
                      arguments)                                       \
  One(base, version, &symbol),
#define PINRING_DEFAULT_STREAM(table, field, base, version, symbol,      \
                               per_thread_symbol, parameters, arguments) \
  One(base, version, &symbol, &per_thread_symbol),
  static const auto* const forms = new std::vector<Form>{
      PINRING_SIMCUDA_EXPORTS(PINRING_PLAIN, PINRING_DEFAULT_STREAM)
          One("cuInit", 2000, &cuInit),
      One("cuDriverGetVersion", 2020, &cuDriverGetVersion),
      One("cuGetErrorName", 6000, &cuGetErrorName),
      One("cuGetErrorString", 6000, &cuGetErrorString),
      One("cuMemAllocHost", 3020, &cuMemAllocHost_v2),
      One("cuStreamCreate", 2000, &cuStreamCreate),
      One("cuModuleLoadDataEx", 2010, &cuModuleLoadDataEx),
      One("cuEventElapsedTime", 12080, &cuEventElapsedTime_v2),
      One("cuGraphInstantiate", 12000, &cuGraphInstantiateWithFlags),
      One("cuGetProcAddress", 11030, &cuGetProcAddress),
      One("cuGetProcAddress", 12000, &cuGetProcAddress_v2),
  };
#undef PINRING_PLAIN
#undef PINRING_DEFAULT_STREAM
  return *forms;
}

bool Offered(std::string_view base) {
  return ProcessHasStreamMemoryOperations() ||
         (base != "cuStreamBatchMemOp" && base != "cuStreamWriteValue32" &&
          base != "cuStreamWaitValue32");
}

CUresult GetProcAddress(const char* symbol, void** pointer, int version,
                        cuuint64_t flags,
                        CUdriverProcAddressQueryResult* status) {
  constexpr cuuint64_t kFlags = CU_GET_PROC_ADDRESS_LEGACY_STREAM |
                                CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  if (symbol == nullptr || *symbol == '\0' || pointer == nullptr ||
      (flags & ~kFlags) != 0 || flags == kFlags || version > kDriverVersion) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::string_view base = symbol;
  const Form* best = nullptr;
  bool known = false;
  for (const Form& form : Forms()) {
    if (form.base != base || !Offered(base)) continue;
    known = true;
    if (form.version <= version &&
        (best == nullptr || best->version < form.version)) {
      best = &form;
    }
  }
  *pointer = best == nullptr ? nullptr
             : (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0
                 ? best->per_thread
                 : best->legacy;
  if (status != nullptr) {
    *status = best != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS
              : known         ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                              : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  // Documented is success with a null pointer; drivers answer this.
  return best == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

}  // namespace
}  // namespace pinring::simcuda

PINRING_EXPORT CUresult CUDAAPI
cuGetProcAddress_v2(const char* symbol, void** pointer, int version,
                    cuuint64_t flags, CUdriverProcAddressQueryResult* status) {
  return pinring::simcuda::GetProcAddress(symbol, pointer, version, flags,
                                          status);
}

PINRING_EXPORT CUresult CUDAAPI cuGetProcAddress(const char* symbol,
                                                 void** pointer, int version,
                                                 cuuint64_t flags) {
  return pinring::simcuda::GetProcAddress(symbol, pointer, version, flags,
                                          nullptr);
}
