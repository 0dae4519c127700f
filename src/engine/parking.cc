#include "src/engine/parking.h"

#include "absl/time/time.h"
#include "src/os/threads.h"

namespace pinring {

bool ThreadParking::Await(absl::Mutex& mutex, const char* /*why*/, absl::FunctionRef<bool()> ready,
                          uint64_t max_nanos) {
  return mutex.AwaitWithTimeout(absl::Condition(
                                    +[](absl::FunctionRef<bool()>* condition) { return (*condition)(); }, &ready),
                                absl::Nanoseconds(max_nanos));
}

uint64_t ThreadParking::NowNanos() { return os::MonotonicNanos(); }

}  // namespace pinring
