#include "src/simcuda/shared/runtime_state.h"

#include <array>
#include <cstddef>
#include <utility>

#include "absl/base/const_init.h"
#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace pinring::simcudart {
namespace {

constexpr int kMaxDevices = 64;

struct Primary {
  CUcontext context = nullptr;
  bool live = false;  // held by this runtime, and not reset by it since
};

ABSL_CONST_INIT absl::Mutex mutex(absl::kConstInit);
std::array<Primary, kMaxDevices> primaries ABSL_GUARDED_BY(mutex);

struct Thread {
  cudaError_t last_error = cudaSuccess;
  int device = 0;
};
thread_local Thread thread;

enum class Kind {
  kPrimary,  // held by this runtime
  kReset,    // was, before its device was reset
  kForeign,  // the program's own
};

// Of a context, and its device unless it is foreign. Asks nobody, so that it
// works for a context that is lost.
Kind KindOf(CUcontext context, int* device) {
  absl::MutexLock lock(&mutex);
  for (size_t i = 0; i < primaries.size(); ++i) {
    if (primaries[i].context != context) continue;
    *device = static_cast<int>(i);
    return primaries[i].live ? Kind::kPrimary : Kind::kReset;
  }
  return Kind::kForeign;
}

cudaError_t MakeCurrent(const DriverTable& driver, int device) {
  CUcontext context = nullptr;
  const cudaError_t code = PrimaryContext(driver, device, &context);
  return code != cudaSuccess ? code : Error(driver.CtxSetCurrent(context));
}

}  // namespace

cudaError_t Keep(cudaError_t code) {
  if (code != cudaSuccess) thread.last_error = code;
  return code;
}

cudaError_t PeekError() { return thread.last_error; }

cudaError_t TakeError() {
  return std::exchange(thread.last_error, cudaSuccess);
}

cudaError_t PrimaryContext(const DriverTable& driver, int device,
                           CUcontext* context) {
  int count = 0;
  if (const CUresult code = driver.DeviceGetCount(&count); code != CUDA_SUCCESS)
    return Error(code);
  if (count == 0) return cudaErrorNoDevice;
  if (device < 0 || device >= count || device >= kMaxDevices)
    return cudaErrorInvalidDevice;
  absl::MutexLock lock(&mutex);
  Primary& primary = primaries[static_cast<size_t>(device)];
  if (!primary.live) {
    const CUresult code =
        driver.DevicePrimaryCtxRetain(&primary.context, device);
    if (code != CUDA_SUCCESS) return Error(code);
    primary.live = true;
  }
  *context = primary.context;
  return cudaSuccess;
}

cudaError_t EnsureContext(const DriverTable& driver) {
  CUcontext context = nullptr;
  if (const CUresult code = driver.CtxGetCurrent(&context);
      code != CUDA_SUCCESS) {
    return Error(code);
  }
  int device = thread.device;
  if (context != nullptr && KindOf(context, &device) != Kind::kReset)
    return cudaSuccess;
  return MakeCurrent(driver, device);
}

cudaError_t SetThreadDevice(const DriverTable& driver, int device) {
  const cudaError_t code = MakeCurrent(driver, device);
  if (code == cudaSuccess) thread.device = device;
  return code;
}

cudaError_t ThreadDevice(const DriverTable& driver, int* device) {
  if (device == nullptr) return cudaErrorInvalidValue;
  CUcontext context = nullptr;
  if (const CUresult code = driver.CtxGetCurrent(&context);
      code != CUDA_SUCCESS) {
    return Error(code);
  }
  *device = thread.device;
  if (context == nullptr || KindOf(context, device) != Kind::kForeign)
    return cudaSuccess;
  return Error(driver.CtxGetDevice(device));
}

cudaError_t ResetThreadDevice(const DriverTable& driver) {
  int device = 0;
  if (const cudaError_t code = ThreadDevice(driver, &device);
      code != cudaSuccess) {
    return code;
  }
  // Also one that somebody else has made is known by it afterwards.
  CUcontext context = nullptr;
  if (const cudaError_t code = PrimaryContext(driver, device, &context);
      code != cudaSuccess) {
    return code;
  }
  const CUresult code = driver.DevicePrimaryCtxReset(device);
  if (code != CUDA_SUCCESS) return Error(code);
  absl::MutexLock lock(&mutex);
  primaries[static_cast<size_t>(device)].live = false;
  return cudaSuccess;
}

}  // namespace pinring::simcudart
