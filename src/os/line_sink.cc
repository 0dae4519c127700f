#include <atomic>

#include "src/os/env.h"

namespace pinring::os {
namespace {

std::atomic<const LineSink*> current{nullptr};

}  // namespace

void SetLineSink(const LineSink& sink) {
  // The one before is not destroyed: a thread may be using it.
  current.store(sink.write == nullptr ? nullptr : new LineSink(sink),
                std::memory_order_release);
}

const LineSink* CurrentLineSink() noexcept {
  return current.load(std::memory_order_acquire);
}

}  // namespace pinring::os
