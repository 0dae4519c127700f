// Which mover watches the flags, and how the others sleep.

#ifndef PINRING_SRC_ENGINE_POLL_TURN_H_
#define PINRING_SRC_ENGINE_POLL_TURN_H_

#include <atomic>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "src/engine/core.h"
#include "src/os/threads.h"

namespace pinring {

// The flags are written by the device, which wakes nobody: one mover polls
// them, and the others sleep until it, or a caller, has work for them. Nobody
// sleeps here while nobody polls, so nothing that the device says is missed.
// Lock-free, so that one call wakes them all at once. Thread-safe.
class PollTurn {
 public:
  // `now` is a clock in nanoseconds.
  explicit PollTurn(uint64_t (*now)() = &os::MonotonicNanos) : now_(now) {}
  PollTurn(const PollTurn&) = delete;
  PollTurn& operator=(const PollTurn&) = delete;

  // Waits, spinning at first, until the caller, for which only such work is,
  // has been woken, `stopping` (Wake follows it) or nobody polls. True in that
  // last case, for one mover: it polls from now on, and gives its turn back
  // before it moves anything. One that only fills never polls.
  [[nodiscard]] bool Await(Core::Work work, absl::FunctionRef<bool()> stopping);
  void Give() { taken_.store(false, std::memory_order_release); }

  // Wakes at least so many of those that sleep.
  void Wake(Core::Work work, uint64_t movers = UINT64_MAX);

  // A hint: the one that polls sleeps itself, so spinning is in vain.
  void SetQuiet(bool quiet) { quiet_.store(quiet, std::memory_order_relaxed); }
  [[nodiscard]] bool quiet() const {
    return quiet_.load(std::memory_order_relaxed);
  }

 private:
  bool Take();
  std::atomic<uint32_t>& EpochOf(Core::Work work) {
    return work == Core::Work::kFill ? fill_epoch_ : work_epoch_;
  }

  uint64_t (*const now_)();
  std::atomic<bool> taken_{false};
  std::atomic<bool> quiet_{false};
  // Raised to wake.
  std::atomic<uint32_t> work_epoch_{0};
  std::atomic<uint32_t> fill_epoch_{0};
};

}  // namespace pinring

#endif  // PINRING_SRC_ENGINE_POLL_TURN_H_
