// Ends the program when a test hangs, after printing what hangs.

#ifndef PINRING_TESTS_SUPPORT_WATCHDOG_H_
#define PINRING_TESTS_SUPPORT_WATCHDOG_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace pinring {

// Exit status of a program that a watchdog ended.
inline constexpr int kHangExitStatus = 3;

// From construction to destruction: when `limit` passes without a call of
// Progress, prints `what` and what `describe` says, and exits the process.
// `describe` runs on a thread of its own; if it hangs too, the exit does not
// wait for it. Thread-safe.
class Watchdog {
 public:
  Watchdog(std::string what, absl::Duration limit,
           std::function<std::string()> describe);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void Progress() { progress_.fetch_add(1, std::memory_order_relaxed); }

 private:
  void Watch();
  [[noreturn]] void GiveUp();

  const std::string what_;
  const absl::Duration limit_;
  const std::function<std::string()> describe_;
  std::atomic<uint64_t> progress_{0};
  absl::Mutex mutex_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace pinring

#endif  // PINRING_TESTS_SUPPORT_WATCHDOG_H_
