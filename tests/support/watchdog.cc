#include "tests/support/watchdog.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace pinring {

Watchdog::Watchdog(std::string what, absl::Duration limit,
                   std::function<std::string()> describe)
    : what_(std::move(what)),
      limit_(limit),
      describe_(std::move(describe)),
      thread_([this] { Watch(); }) {}

Watchdog::~Watchdog() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  thread_.join();
}

void Watchdog::Watch() {
  uint64_t seen = progress_.load(std::memory_order_relaxed);
  absl::Time since = absl::Now();
  absl::MutexLock lock(&mutex_);
  while (!mutex_.AwaitWithTimeout(absl::Condition(&stop_),
                                  absl::Milliseconds(100))) {
    const uint64_t now = progress_.load(std::memory_order_relaxed);
    if (now != seen) {
      seen = now;
      since = absl::Now();
    }
    if (absl::Now() - since >= limit_) GiveUp();
  }
}

void Watchdog::GiveUp() {
  std::fprintf(stderr, "HANG: %s: nothing has happened for %s\n", what_.c_str(),
               absl::FormatDuration(limit_).c_str());
  std::fflush(stderr);
  auto* const described = new absl::Notification;  // left to the thread
  std::thread([this, described] {
    std::fprintf(stderr, "%s\n", describe_().c_str());
    described->Notify();
  }).detach();
  if (!described->WaitForNotificationWithTimeout(absl::Seconds(5))) {
    std::fprintf(stderr, "(describing it hangs too: a lock is held)\n");
  }
  std::fflush(stderr);
  std::_Exit(kHangExitStatus);
}

}  // namespace pinring
