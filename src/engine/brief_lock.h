// The engine's lock is held for a moment only, and by many threads in turn:
// what costs is that all it guards moves from one processor to the next (1.4 us
// a turn with twelve movers on a virtual machine of 16 processors).

#ifndef PINRING_SRC_ENGINE_BRIEF_LOCK_H_
#define PINRING_SRC_ENGINE_BRIEF_LOCK_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "src/os/threads.h"

namespace pinring {

// Tries for a while before it sleeps: a thread that fell asleep on the lock
// takes some 100 us to come back (measured on a virtual machine), and what it
// was about to report, a filled slot, is what the device waits for. The lock
// itself is held for about 1 us.
inline void LockBriefly(absl::Mutex& mutex)
    ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  constexpr int kTries = 1000;
  constexpr int kMostPauses = 8;
  int pauses = 1;
  for (int tries = 0; tries < kTries; ++tries) {
    if (mutex.TryLock()) return;
    for (int i = 0; i < pauses; ++i) os::CpuPause();
    if (pauses < kMostPauses) ++pauses;
  }
  mutex.Lock();
}

// Asks without the lock until `changed` or some 20 us have passed.
template <typename Changed>
void SpinUntil(Changed changed) {
  constexpr int kLooks = 60;
  constexpr int kPausesPerLook = 8;
  for (int look = 0; look < kLooks && !changed(); ++look) {
    for (int i = 0; i < kPausesPerLook; ++i) os::CpuPause();
  }
}

class ABSL_SCOPED_LOCKABLE BriefLock {
 public:
  explicit BriefLock(absl::Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex)
      : mutex_(mutex) {
    LockBriefly(mutex);
  }
  ~BriefLock() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }
  BriefLock(const BriefLock&) = delete;
  BriefLock& operator=(const BriefLock&) = delete;

 private:
  absl::Mutex& mutex_;
};

}  // namespace pinring

#endif  // PINRING_SRC_ENGINE_BRIEF_LOCK_H_
