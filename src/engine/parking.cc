#include "src/engine/parking.h"

#include <algorithm>

#include "src/engine/brief_lock.h"
#include "src/os/threads.h"

namespace pinring {
namespace {

// What is waited for is mostly a flag that the device writes, which wakes
// nobody: look often for as long as a copy of some MiB takes, then ever less
// often.
constexpr uint64_t kSpinNanos = 200'000;
constexpr int kPausesPerLook = 64;
constexpr uint64_t kSleepMicros = 50;

}  // namespace

bool ThreadParking::Await(absl::Mutex& mutex, const char* /*why*/,
                          absl::FunctionRef<bool()> ready, uint64_t max_nanos,
                          const FlagWatch* watch) {
  const uint64_t begin = os::MonotonicNanos();
  uint64_t waited = 0;
  while (!ready() && waited < max_nanos) {
    mutex.Unlock();
    if (waited >= kSpinNanos) {
      os::SleepMicros(std::min(kSleepMicros, (max_nanos - waited) / 1000 + 1));
    } else if (watch != nullptr) {
      SpinUntil([watch] { return watch->Changed(); });
    } else {
      for (int i = 0; i < kPausesPerLook; ++i) os::CpuPause();
    }
    LockBriefly(mutex);
    waited = os::MonotonicNanos() - begin;
  }
  return ready();
}

uint64_t ThreadParking::NowNanos() { return os::MonotonicNanos(); }

}  // namespace pinring
