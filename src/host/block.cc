#include "src/host/block.h"

#include "src/os/threads.h"

namespace pinring {

bool Block::AcquireUse() {
  uint32_t life = life_.load(std::memory_order_relaxed);
  do {
    if ((life & kLive) == 0) return false;
    assert((life & kUseMask) != kUseMask);
    // Acquire pairs with the release in AddressMap::Fill: the fields are those
    // of the block whose use this is.
  } while (!life_.compare_exchange_weak(
      life, life + 1, std::memory_order_acquire, std::memory_order_relaxed));
  return true;
}

void Block::ReleaseUse() {
  // Release pairs with the acquire in WaitUntilUnused and in Erase: what was
  // done to the memory under this use is over when it is freed.
  const uint32_t before = life_.fetch_sub(1, std::memory_order_release);
  assert((before & kUseMask) != 0);
  // Only who frees waits. The record outlives this call, whatever they do.
  if (before == (kFreeing | 1)) os::WakeAll(life_);
}

bool Block::BeginFree() {
  uint32_t life = life_.load(std::memory_order_relaxed);
  do {
    if ((life & kLive) == 0) return false;
  } while (!life_.compare_exchange_weak(life, (life & kUseMask) | kFreeing,
                                        std::memory_order_acq_rel,
                                        std::memory_order_relaxed));
  return true;
}

void Block::WaitUntilUnused() const {
  for (;;) {
    const uint32_t life = life_.load(std::memory_order_acquire);
    if ((life & kUseMask) == 0) return;
    assert((life & kFreeing) != 0);
    os::WaitWhile(life_, life);
  }
}

Block::PromotionTurn Block::BeginPromotion() {
  for (;;) {
    uint32_t state = kUnpromoted;
    if (promotion_.compare_exchange_strong(state, kPromoting,
                                           std::memory_order_acquire)) {
      return PromotionTurn::kMine;
    }
    if (state == kPromoted) return PromotionTurn::kDone;
    os::WaitWhile(promotion_, state);
  }
}

void Block::FinishPromotion(uint64_t device_pointer) {
  device_pointer_.store(device_pointer, std::memory_order_relaxed);
  promotion_.store(kPromoted, std::memory_order_release);
  os::WakeAll(promotion_);
}

void Block::AbandonPromotion() {
  promotion_.store(kUnpromoted, std::memory_order_release);
  os::WakeAll(promotion_);
}

}  // namespace pinring
