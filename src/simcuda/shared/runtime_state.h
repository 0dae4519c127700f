// What the simulated runtime keeps: each thread's last error and device, and
// which primary contexts it holds.
//
// A runtime call goes through InContext, or WithDriver if it must not make a
// context. Either loads the driver first, and keeps an error for
// cudaGetLastError. As natively, a context that the program has made current by
// the driver API is used as it is; otherwise the primary context of the
// thread's device becomes current, made now if need be.

#ifndef PINRING_SRC_SIMCUDA_SHARED_RUNTIME_STATE_H_
#define PINRING_SRC_SIMCUDA_SHARED_RUNTIME_STATE_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "src/simcuda/shared/runtime_driver.h"

#define PINRING_EXPORT extern "C" __attribute__((visibility("default")))

namespace pinring::simcudart {

// The two APIs share their codes.
inline cudaError_t Error(CUresult code) {
  return static_cast<cudaError_t>(code);
}
inline cudaError_t Error(cudaError_t code) { return code; }

// Keeps an error for the calling thread's cudaGetLastError, and returns it.
cudaError_t Keep(cudaError_t code);
cudaError_t PeekError();
cudaError_t TakeError();

// Makes sure that the calling thread has a context.
cudaError_t EnsureContext(const DriverTable& driver);
// The primary context of a device.
cudaError_t PrimaryContext(const DriverTable& driver, int device,
                           CUcontext* context);

cudaError_t SetThreadDevice(const DriverTable& driver, int device);
cudaError_t ThreadDevice(const DriverTable& driver, int* device);
cudaError_t ResetThreadDevice(const DriverTable& driver);

template <typename Body>
cudaError_t WithDriver(Body body) {
  const LoadedDriver& driver = GetDriver();
  if (driver.status != cudaSuccess) return Keep(driver.status);
  return Keep(Error(body(driver.legacy)));
}

template <typename Body>
cudaError_t InContext(DefaultStream default_stream, Body body) {
  const LoadedDriver& driver = GetDriver();
  if (driver.status != cudaSuccess) return Keep(driver.status);
  const DriverTable& table = driver.table(default_stream);
  const cudaError_t code = EnsureContext(table);
  return Keep(code != cudaSuccess ? code : Error(body(table)));
}

template <typename Body>
cudaError_t InContext(Body body) {
  return InContext(DefaultStream::kLegacy, body);
}

// Defines `name` and its form with the per-thread default stream, which has a
// suffix. The rest is the body, in which `driver` is the table to call. For use
// in this namespace.
#define PINRING_CUDART_BOTH(name, suffix, parameters, ...)                     \
  PINRING_EXPORT cudaError_t CUDARTAPI name parameters {                       \
    return InContext(                                                          \
        DefaultStream::kLegacy, [&](const DriverTable& driver) __VA_ARGS__);   \
  }                                                                            \
  PINRING_EXPORT cudaError_t CUDARTAPI name##suffix parameters {               \
    return InContext(DefaultStream::kPerThread, [&](const DriverTable& driver) \
                                                    __VA_ARGS__);              \
  }                                                                            \
  static_assert(true)

}  // namespace pinring::simcudart

#endif  // PINRING_SRC_SIMCUDA_SHARED_RUNTIME_STATE_H_
