// The C functions of libcuda.so.1.

#include "src/simcuda/shared/driver_exports.h"

#include <cuda.h>

#include <cstddef>

#include "src/simcuda/errors.h"
#include "src/simcuda/machine.h"
#include "src/simcuda/shared/process_machine.h"

// Both forms are exported; headers rename one to the other.
#undef cuEventElapsedTime
#undef cuMemcpyBatchAsync
#undef cuMemcpy3DBatchAsync
// As they were before edges had data.
#undef cuGraphAddDependencies
#undef cuGraphNodeGetDependencies
#undef cuGraphNodeGetDependentNodes
#undef cuStreamGetCaptureInfo
#undef cuStreamGetCaptureInfo_ptsz

#define PINRING_EXPORT extern "C" __attribute__((visibility("default")))

namespace pinring::simcuda {
namespace {

template <typename Table, typename... Parameters>
CUresult Forward(CUresult (CUDAAPI* Table::*field)(Parameters...),
                 Parameters... arguments) {
  const Table* table = ProcessTable<Table>();
  if (table == nullptr) return CUDA_ERROR_NOT_INITIALIZED;
  if (table->*field == nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  return (table->*field)(arguments...);
}

// Lets a list in brackets follow.
template <auto field>
struct Entry;
template <typename Table, typename... Parameters,
          CUresult (CUDAAPI* Table::*field)(Parameters...)>
struct Entry<field> {
  static CUresult Call(Parameters... arguments) {
    return Forward<Table, Parameters...>(field, arguments...);
  }
  static CUresult CallPerThread(Parameters... arguments) {
    const PerThreadDefaultStream per_thread;
    return Forward<Table, Parameters...>(field, arguments...);
  }
};

}  // namespace
}  // namespace pinring::simcuda

namespace simcuda = pinring::simcuda;
using pinring::Driver;
using pinring::simcuda::ExtraDriver;

#define PINRING_PLAIN(table, field, base, version, symbol, parameters, \
                      arguments)                                       \
  PINRING_EXPORT CUresult CUDAAPI symbol parameters {                  \
    return simcuda::Entry<&table::field>::Call arguments;              \
  }
#define PINRING_DEFAULT_STREAM(table, field, base, version, symbol,         \
                               per_thread_symbol, parameters, arguments)    \
  PINRING_PLAIN(table, field, base, version, symbol, parameters, arguments) \
  PINRING_EXPORT CUresult CUDAAPI per_thread_symbol parameters {            \
    return simcuda::Entry<&table::field>::CallPerThread arguments;          \
  }
PINRING_SIMCUDA_EXPORTS(PINRING_PLAIN, PINRING_DEFAULT_STREAM)
#undef PINRING_PLAIN
#undef PINRING_DEFAULT_STREAM

PINRING_EXPORT CUresult CUDAAPI cuInit(unsigned flags) {
  return simcuda::InitializeProcess(flags);
}

// What follows up to the next remark works before cuInit, and in a child of
// fork.
PINRING_EXPORT CUresult CUDAAPI cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = simcuda::kDriverVersion;
  return CUDA_SUCCESS;
}

PINRING_EXPORT CUresult CUDAAPI cuGetErrorName(CUresult code,
                                               const char** name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = simcuda::ErrorName(code);
  return *name == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

PINRING_EXPORT CUresult CUDAAPI cuGetErrorString(CUresult code,
                                                 const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *text = simcuda::ErrorText(code);
  return *text == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

// Shorter forms of other entry points.
PINRING_EXPORT CUresult CUDAAPI cuMemAllocHost_v2(void** pointer,
                                                  size_t bytes) {
  return simcuda::Entry<&Driver::MemHostAlloc>::Call(pointer, bytes, 0);
}

PINRING_EXPORT CUresult CUDAAPI cuStreamCreate(CUstream* stream,
                                               unsigned flags) {
  return simcuda::Entry<&Driver::StreamCreateWithPriority>::Call(stream, flags,
                                                                 0);
}

// Its options are the compiler's, which has nothing to do here.
PINRING_EXPORT CUresult CUDAAPI cuModuleLoadDataEx(CUmodule* module,
                                                   const void* image, unsigned,
                                                   CUjit_option*, void**) {
  return simcuda::Entry<&Driver::ModuleLoadData>::Call(module, image);
}

// The same function since it went by this name too.
PINRING_EXPORT CUresult CUDAAPI cuEventElapsedTime_v2(float* milliseconds,
                                                      CUevent start,
                                                      CUevent end) {
  return simcuda::Entry<&Driver::EventElapsedTime>::Call(milliseconds, start,
                                                         end);
}
