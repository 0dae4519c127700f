// The current context, as the CUDA runtime keeps it: a thread that has none
// gets the primary context of device 0 at its first call that needs one.

#ifndef PINRING_SRC_CAPI_CONTEXTS_H_
#define PINRING_SRC_CAPI_CONTEXTS_H_

#include <cuda.h>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "src/driver/driver.h"

namespace pinring {

// Thread-safe.
class Contexts {
 public:
  // The driver outlives it.
  explicit Contexts(const Driver* driver) : driver_(*driver) {}
  Contexts(const Contexts&) = delete;
  Contexts& operator=(const Contexts&) = delete;
  // Gives the primary contexts back that this object retained.
  ~Contexts();

  // Makes sure that the calling thread has a current context. Errors: the
  // driver's.
  absl::Status EnsureCurrent() ABSL_LOCKS_EXCLUDED(mutex_);

  // Makes sure that the calling thread's current context is of the device; its
  // primary one, where it has to change. Errors: the driver's.
  absl::Status SetDevice(int ordinal) ABSL_LOCKS_EXCLUDED(mutex_);

  // The device's primary context, which this object then retains. Errors: the
  // driver's.
  absl::StatusOr<CUcontext> Primary(int ordinal) ABSL_LOCKS_EXCLUDED(mutex_);

  // Lets what is enqueued in `stream`, of the current context, from now on come
  // after the work that the other context has now, as far as its legacy stream
  // does. Errors: the driver's.
  absl::Status OrderAfter(CUcontext other, CUstream stream);

  // Waits for all work of the current context and of every device's primary
  // context that is active. Leaves captures alone. Errors: the driver's first
  // one.
  absl::Status SynchronizeAll();

  // The device of the calling thread's context; 0 where it has none. Makes no
  // context.
  int CurrentDevice() const;

 private:
  absl::Status MakePrimaryCurrent(int ordinal) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status SynchronizePrimary(CUdevice device, CUcontext current);
  absl::Status WaitForCurrent();

  const Driver& driver_;
  absl::Mutex mutex_;
  // The primary contexts that this object retained, by their device.
  absl::flat_hash_map<CUdevice, CUcontext> retained_ ABSL_GUARDED_BY(mutex_);
};

// For its scope, calls of this thread do not disturb captures in progress, of
// this thread or others: what the library does for itself is no part of them.
class RelaxedCapture {
 public:
  explicit RelaxedCapture(const Driver& driver) : driver_(driver) {
    changed_ = driver_.ThreadExchangeStreamCaptureMode(&mode_) == CUDA_SUCCESS;
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() {
    if (changed_) (void)driver_.ThreadExchangeStreamCaptureMode(&mode_);
  }

 private:
  const Driver& driver_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool changed_ = false;
};

}  // namespace pinring

#endif  // PINRING_SRC_CAPI_CONTEXTS_H_
