// How a thread of the engine blocks.
//
// The engine waits only here, so that a test can run it under a scheduler of
// its own: with real threads a wait ends when another thread leaves the lock or
// time has passed; under a scheduler when a step has made the condition true.

#ifndef PINRING_SRC_ENGINE_PARKING_H_
#define PINRING_SRC_ENGINE_PARKING_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "src/engine/flag_watch.h"

namespace pinring {

class Parking {
 public:
  virtual ~Parking() = default;

  // Waits, without the lock meanwhile, until ready() (evaluated under the lock,
  // changes nothing) or until max_nanos have passed where there is a clock.
  // Returns ready(). With a watch, which ready() may renew, there is nothing to
  // ask until it has changed, but for what it may have missed.
  virtual bool Await(absl::Mutex& mutex, const char* why,
                     absl::FunctionRef<bool()> ready, uint64_t max_nanos,
                     const FlagWatch* watch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) = 0;
  bool Await(absl::Mutex& mutex, const char* why,
             absl::FunctionRef<bool()> ready, uint64_t max_nanos)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return Await(mutex, why, ready, max_nanos, nullptr);
  }
  // The clock that waits are measured with, in nanoseconds; 0 where there is
  // none.
  virtual uint64_t NowNanos() = 0;
};

// Real threads and the real clock.
class ThreadParking final : public Parking {
 public:
  using Parking::Await;
  bool Await(absl::Mutex& mutex, const char* why,
             absl::FunctionRef<bool()> ready, uint64_t max_nanos,
             const FlagWatch* watch) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  uint64_t NowNanos() override;
};

}  // namespace pinring

#endif  // PINRING_SRC_ENGINE_PARKING_H_
