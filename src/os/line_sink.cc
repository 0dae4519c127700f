#include <atomic>

#include "src/os/env.h"

namespace pinring::os {
namespace {

std::atomic<const LineSink*> current{nullptr};

// All there were. None is destroyed: a thread may be using it.
struct Kept {
  LineSink sink;
  const Kept* next;
};
std::atomic<const Kept*> kept{nullptr};

}  // namespace

void SetLineSink(const LineSink& sink) {
  if (sink.write == nullptr) {
    current.store(nullptr, std::memory_order_release);
    return;
  }
  auto* const mine = new Kept{sink, kept.load(std::memory_order_relaxed)};
  while (!kept.compare_exchange_weak(mine->next, mine)) {
  }
  current.store(&mine->sink, std::memory_order_release);
}

const LineSink* CurrentLineSink() noexcept {
  return current.load(std::memory_order_acquire);
}

}  // namespace pinring::os
