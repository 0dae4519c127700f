// Variables of the device (__device__ and __constant__): their memory, and the
// copies that name them. The memory is made when a context first needs it, and
// is zero then: what the program's image says of it nobody reads here.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <map>
#include <utility>

#include "absl/base/const_init.h"
#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "src/simcuda/shared/runtime_copies.h"
#include "src/simcuda/shared/runtime_state.h"

namespace pinring::simcudart {
namespace {

struct Memory {
  CUdeviceptr address = 0;
  // Another one, or none, once a reset of the device has taken the memory.
  unsigned long long buffer_id = 0;
};

struct Variable {
  size_t bytes = 0;
  std::map<CUcontext, Memory> memory;
};

ABSL_CONST_INIT absl::Mutex mutex(absl::kConstInit);

// Made at the first registration, which is before the program's statics, and
// left: programs may copy from their last destructors.
std::map<const void*, Variable>& Variables()
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
  static auto* const variables = new std::map<const void*, Variable>;
  return *variables;
}

// Zeroes memory without a word to the program's streams, the default one among
// them.
CUresult Zero(const DriverTable& driver, CUdeviceptr memory, size_t bytes) {
  CUstream stream = nullptr;
  CUresult code =
      driver.StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0);
  if (code != CUDA_SUCCESS) return code;
  code = driver.MemsetD8Async(memory, 0, bytes, stream);
  if (code == CUDA_SUCCESS) code = driver.StreamSynchronize(stream);
  const CUresult destroyed = driver.StreamDestroy(stream);
  return code != CUDA_SUCCESS ? code : destroyed;
}

// Natively the memory is there when the module is: what makes it here must not
// disturb a capture.
CUresult MakeMemory(const DriverTable& driver, size_t bytes,
                    CUdeviceptr* memory) {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  CUresult code = driver.ThreadExchangeStreamCaptureMode(&mode);
  if (code != CUDA_SUCCESS) return code;
  code = driver.MemAlloc(memory, bytes);
  if (code == CUDA_SUCCESS) code = Zero(driver, *memory, bytes);
  const CUresult restored = driver.ThreadExchangeStreamCaptureMode(&mode);
  return code != CUDA_SUCCESS ? code : restored;
}

CUresult BufferId(const DriverTable& driver, CUdeviceptr address,
                  unsigned long long* id) {
  CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_BUFFER_ID;
  void* value = id;
  return driver.PointerGetAttributes(1, &attribute, &value, address);
}

cudaError_t Find(const DriverTable& driver, const void* symbol,
                 CUdeviceptr* address, size_t* bytes) {
  CUcontext context = nullptr;
  CUresult code = driver.CtxGetCurrent(&context);
  if (code != CUDA_SUCCESS) return Error(code);
  absl::MutexLock lock(&mutex);
  const auto found = Variables().find(symbol);
  if (found == Variables().end()) return cudaErrorInvalidSymbol;
  *bytes = found->second.bytes;
  Memory& memory = found->second.memory[context];
  unsigned long long id = 0;
  if (memory.address != 0) code = BufferId(driver, memory.address, &id);
  if (code == CUDA_SUCCESS && (id == 0 || id != memory.buffer_id)) {
    code = MakeMemory(driver, *bytes, &memory.address);
    if (code == CUDA_SUCCESS)
      code = BufferId(driver, memory.address, &memory.buffer_id);
  }
  *address = memory.address;
  return Error(code);
}

cudaError_t FindPart(const DriverTable& driver, const void* symbol,
                     size_t offset, size_t count, CUdeviceptr* address) {
  size_t bytes = 0;
  const cudaError_t code = Find(driver, symbol, address, &bytes);
  if (code != cudaSuccess) return code;
  if (offset > bytes || count > bytes - offset) return cudaErrorInvalidValue;
  *address += offset;
  return cudaSuccess;
}

cudaError_t CopyTo(const DriverTable& driver, const void* symbol,
                   const void* src, size_t count, size_t offset,
                   cudaMemcpyKind kind, const CUstream* stream) {
  if (kind != cudaMemcpyHostToDevice && kind != cudaMemcpyDeviceToDevice &&
      kind != cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  CUdeviceptr to = 0;
  const cudaError_t code = FindPart(driver, symbol, offset, count, &to);
  if (code != cudaSuccess) return code;
  void* const dst = reinterpret_cast<void*>(to);
  return stream == nullptr ? Copy(driver, dst, src, count, kind)
                           : CopyAsync(driver, dst, src, count, kind, *stream);
}

cudaError_t CopyFrom(const DriverTable& driver, void* dst, const void* symbol,
                     size_t count, size_t offset, cudaMemcpyKind kind,
                     const CUstream* stream) {
  if (kind != cudaMemcpyDeviceToHost && kind != cudaMemcpyDeviceToDevice &&
      kind != cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  CUdeviceptr from = 0;
  const cudaError_t code = FindPart(driver, symbol, offset, count, &from);
  if (code != cudaSuccess) return code;
  const void* const src = reinterpret_cast<const void*>(from);
  return stream == nullptr ? Copy(driver, dst, src, count, kind)
                           : CopyAsync(driver, dst, src, count, kind, *stream);
}

}  // namespace

PINRING_EXPORT void CUDARTAPI __cudaRegisterVar(void**, char* variable, char*,
                                                const char*, int, size_t bytes,
                                                int, int) {
  absl::MutexLock lock(&mutex);
  Variables()[variable].bytes = bytes;
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaGetSymbolAddress(void** pointer,
                                                          const void* symbol) {
  return InContext([&](const DriverTable& driver) {
    if (pointer == nullptr) return cudaErrorInvalidValue;
    size_t bytes = 0;
    return Find(driver, symbol, reinterpret_cast<CUdeviceptr*>(pointer),
                &bytes);
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaGetSymbolSize(size_t* bytes,
                                                       const void* symbol) {
  return InContext([&](const DriverTable& driver) {
    if (bytes == nullptr) return cudaErrorInvalidValue;
    CUdeviceptr address = 0;
    return Find(driver, symbol, &address, bytes);
  });
}

PINRING_CUDART_BOTH(cudaMemcpyToSymbol, _ptds,
                    (const void* symbol, const void* src, size_t count,
                     size_t offset, cudaMemcpyKind kind),
                    {
                      return CopyTo(driver, symbol, src, count, offset, kind,
                                    nullptr);
                    });

PINRING_CUDART_BOTH(cudaMemcpyToSymbolAsync, _ptsz,
                    (const void* symbol, const void* src, size_t count,
                     size_t offset, cudaMemcpyKind kind, cudaStream_t stream),
                    {
                      return CopyTo(driver, symbol, src, count, offset, kind,
                                    &stream);
                    });

PINRING_CUDART_BOTH(cudaMemcpyFromSymbol, _ptds,
                    (void* dst, const void* symbol, size_t count, size_t offset,
                     cudaMemcpyKind kind),
                    {
                      return CopyFrom(driver, dst, symbol, count, offset, kind,
                                      nullptr);
                    });

PINRING_CUDART_BOTH(cudaMemcpyFromSymbolAsync, _ptsz,
                    (void* dst, const void* symbol, size_t count, size_t offset,
                     cudaMemcpyKind kind, cudaStream_t stream),
                    {
                      return CopyFrom(driver, dst, symbol, count, offset, kind,
                                      &stream);
                    });

}  // namespace pinring::simcudart
