// What nvcc puts into a program that has kernels. They are registered, so that
// the program loads; no device here has code for them, so that a launch answers
// what it does on a device that the program was not compiled for.

#include <cuda_runtime_api.h>
#include <vector_types.h>

#include <cstddef>
#include <set>
#include <vector>

#include "absl/base/const_init.h"
#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "src/simcuda/shared/runtime_state.h"

namespace pinring::simcudart {
namespace {

ABSL_CONST_INIT absl::Mutex mutex(absl::kConstInit);

// Made at the first registration, which is before the program's statics, and
// left: programs unregister from their last destructors.
std::set<const void*>& Functions() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
  static auto* const functions = new std::set<const void*>;
  return *functions;
}

bool IsRegistered(const void* function) {
  absl::MutexLock lock(&mutex);
  return Functions().count(function) != 0;
}

cudaError_t Launch(DefaultStream default_stream, const void* function) {
  return InContext(default_stream, [&](const DriverTable&) {
    return IsRegistered(function) ? cudaErrorNoKernelImageForDevice
                                  : cudaErrorInvalidDeviceFunction;
  });
}

struct Configuration {
  dim3 grid;
  dim3 block;
  size_t shared_bytes;
  void* stream;
};
thread_local std::vector<Configuration> configurations;

}  // namespace

PINRING_EXPORT void** CUDARTAPI __cudaRegisterFatBinary(void* binary) {
  return new void*(binary);
}

PINRING_EXPORT void CUDARTAPI __cudaRegisterFatBinaryEnd(void**) {}

PINRING_EXPORT void CUDARTAPI __cudaUnregisterFatBinary(void** handle) {
  delete handle;
}

PINRING_EXPORT char CUDARTAPI __cudaInitModule(void**) { return 1; }

PINRING_EXPORT void CUDARTAPI __cudaRegisterFunction(void**,
                                                     const char* function,
                                                     char*, const char*, int,
                                                     uint3*, uint3*, dim3*,
                                                     dim3*, int*) {
  absl::MutexLock lock(&mutex);
  Functions().insert(function);
}

PINRING_EXPORT void CUDARTAPI __cudaRegisterManagedVar(void**, void**, char*,
                                                       const char*, int, size_t,
                                                       int, int) {}

PINRING_EXPORT unsigned CUDARTAPI __cudaPushCallConfiguration(
    dim3 grid, dim3 block, size_t shared_bytes, void* stream) {
  configurations.push_back({grid, block, shared_bytes, stream});
  return 0;
}

PINRING_EXPORT cudaError_t CUDARTAPI __cudaPopCallConfiguration(
    dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
  if (configurations.empty()) return Keep(cudaErrorMissingConfiguration);
  const Configuration& top = configurations.back();
  *grid = top.grid;
  *block = top.block;
  *shared_bytes = top.shared_bytes;
  *static_cast<void**>(stream) = top.stream;
  configurations.pop_back();
  return cudaSuccess;
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaLaunchKernel(const void* function,
                                                      dim3, dim3, void**,
                                                      size_t, cudaStream_t) {
  return Launch(DefaultStream::kLegacy, function);
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaLaunchKernel_ptsz(const void* function,
                                                           dim3, dim3, void**,
                                                           size_t,
                                                           cudaStream_t) {
  return Launch(DefaultStream::kPerThread, function);
}

#if CUDART_VERSION >= 11080
PINRING_EXPORT cudaError_t CUDARTAPI
cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void* function, void**) {
  return Launch(DefaultStream::kLegacy, function);
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaLaunchKernelExC_ptsz(
    const cudaLaunchConfig_t*, const void* function, void**) {
  return Launch(DefaultStream::kPerThread, function);
}
#endif

PINRING_EXPORT cudaError_t CUDARTAPI
cudaFuncGetAttributes(cudaFuncAttributes*, const void* function) {
  return Launch(DefaultStream::kLegacy, function);
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaFuncSetAttribute(const void* function,
                                                          cudaFuncAttribute,
                                                          int) {
  return Launch(DefaultStream::kLegacy, function);
}

#if CUDART_VERSION >= 12010
// A kernel's handle is its function.
PINRING_EXPORT cudaError_t CUDARTAPI __cudaGetKernel(cudaKernel_t* kernel,
                                                     const void* function) {
  if (!IsRegistered(function)) return Keep(cudaErrorInvalidDeviceFunction);
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(function));
  return cudaSuccess;
}

PINRING_EXPORT cudaError_t CUDARTAPI __cudaLaunchKernel(cudaKernel_t kernel,
                                                        dim3, dim3, void**,
                                                        size_t, cudaStream_t) {
  return Launch(DefaultStream::kLegacy, kernel);
}

PINRING_EXPORT cudaError_t CUDARTAPI __cudaLaunchKernel_ptsz(
    cudaKernel_t kernel, dim3, dim3, void**, size_t, cudaStream_t) {
  return Launch(DefaultStream::kPerThread, kernel);
}
#endif

}  // namespace pinring::simcudart
