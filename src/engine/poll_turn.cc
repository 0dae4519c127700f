#include "src/engine/poll_turn.h"

namespace pinring {
namespace {

// Longer than a large chunk is under DMA, since waking up takes a good part of
// that time.
constexpr uint64_t kSpinNanos = 500'000;
constexpr int kPausesPerLook = 32;
// More than so many are woken all at once.
constexpr uint64_t kManyMovers = 6;

}  // namespace

// Only one tries, so that not all of them go for the lock afterwards.
bool PollTurn::Take() {
  return !taken_.load(std::memory_order_acquire) &&
         !taken_.exchange(true, std::memory_order_acq_rel);
}

bool PollTurn::Await(Core::Work work, absl::FunctionRef<bool()> stopping) {
  const std::atomic<uint32_t>& epoch = EpochOf(work);
  const uint32_t seen = epoch.load(std::memory_order_acquire);
  const bool may_poll = work == Core::Work::kAll;
  const uint64_t since = now_();
  // However late it is by the clock, this is looked at before the sleep:
  // whoever gave the turn back just now is awake and comes here itself.
  do {
    if (may_poll && Take()) return true;
    if (epoch.load(std::memory_order_acquire) != seen || stopping()) {
      return false;
    }
    if (quiet()) break;
    for (int i = 0; i < kPausesPerLook; ++i) os::CpuPause();
  } while (now_() - since < kSpinNanos);
  os::WaitWhile(epoch, seen);
  return false;
}

void PollTurn::Wake(Core::Work work, uint64_t movers) {
  std::atomic<uint32_t>& epoch = EpochOf(work);
  epoch.fetch_add(1, std::memory_order_release);
  if (movers > kManyMovers) {
    os::WakeAll(epoch);
    return;
  }
  for (uint64_t i = 0; i < movers; ++i) os::WakeOne(epoch);
}

}  // namespace pinring
