// PinnedBudget: a limit over really pinned bytes that no instant exceeds.
//
// Charge before pinning, release after unpinning. A charge that does not fit
// is refused without having been counted for a moment. Thread-safe, lock-free.
//
//   PinnedBudget budget(96 << 20);
//   PinnedCharge charge = PinnedCharge::Try(&budget, bytes);
//   if (!charge) return absl::ResourceExhaustedError(...);
//   ... pin; on failure the charge ends with the scope ...
//   bytes_to_release_later = charge.Keep();
#ifndef PINRING_SRC_HOST_BUDGET_H_
#define PINRING_SRC_HOST_BUDGET_H_

#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace pinring {

class PinnedBudget {
 public:
  // A limit of 0 bytes is none: everything is counted, nothing refused.
  explicit PinnedBudget(uint64_t limit_bytes = 0) : limit_bytes_(limit_bytes) {}
  PinnedBudget(const PinnedBudget&) = delete;
  PinnedBudget& operator=(const PinnedBudget&) = delete;

  // Counts `bytes`, unless they would exceed the limit.
  [[nodiscard]] bool TryCharge(uint64_t bytes) {
    const uint64_t limit = limit_bytes_ == 0 ? UINT64_MAX : limit_bytes_;
    uint64_t current = current_.load(std::memory_order_relaxed);
    do {
      if (current > limit || bytes > limit - current) return false;
      // Acquire pairs with the release in Release: the bytes that made room
      // are unpinned before these are pinned.
    } while (!current_.compare_exchange_weak(current, current + bytes,
                                             std::memory_order_acquire,
                                             std::memory_order_relaxed));
    RaisePeak(current + bytes);
    return true;
  }

  // Uncounts what was charged.
  void Release(uint64_t bytes) {
    [[maybe_unused]] const uint64_t before =
        current_.fetch_sub(bytes, std::memory_order_release);
    assert(before >= bytes && "more bytes released than were charged");
  }

  uint64_t limit_bytes() const { return limit_bytes_; }
  uint64_t current_bytes() const {
    return current_.load(std::memory_order_relaxed);
  }
  // The largest current_bytes() of any instant.
  uint64_t peak_bytes() const {
    const uint64_t current = current_bytes();
    const uint64_t peak = peak_.load(std::memory_order_relaxed);
    return peak < current ? current : peak;
  }

 private:
  void RaisePeak(uint64_t bytes) {
    uint64_t peak = peak_.load(std::memory_order_relaxed);
    while (peak < bytes && !peak_.compare_exchange_weak(
                               peak, bytes, std::memory_order_relaxed)) {
    }
  }

  const uint64_t limit_bytes_;
  // Never above the limit: only a compare-exchange that checked it raises it.
  std::atomic<uint64_t> current_{0};
  std::atomic<uint64_t> peak_{0};
};

// A charge that is released at the end of the scope unless it is kept.
class [[nodiscard]] PinnedCharge {
 public:
  PinnedCharge() = default;
  // Empty when the budget refuses.
  static PinnedCharge Try(PinnedBudget* budget, uint64_t bytes) {
    return budget->TryCharge(bytes) ? PinnedCharge(budget, bytes)
                                    : PinnedCharge();
  }
  PinnedCharge(PinnedCharge&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  PinnedCharge& operator=(PinnedCharge&& other) noexcept {
    if (this != &other) {
      Reset();
      budget_ = std::exchange(other.budget_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
  }
  ~PinnedCharge() { Reset(); }

  explicit operator bool() const { return budget_ != nullptr; }
  uint64_t bytes() const { return bytes_; }

  void Reset() {
    if (budget_ != nullptr) budget_->Release(bytes_);
    budget_ = nullptr;
    bytes_ = 0;
  }
  // Leaves the bytes charged; whoever unpins them calls Release with the
  // number returned here.
  uint64_t Keep() {
    budget_ = nullptr;
    return std::exchange(bytes_, 0);
  }

 private:
  PinnedCharge(PinnedBudget* budget, uint64_t bytes)
      : budget_(budget), bytes_(bytes) {}

  PinnedBudget* budget_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace pinring

#endif  // PINRING_SRC_HOST_BUDGET_H_
