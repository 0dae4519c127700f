// Flags that somebody waits for, looked at without the engine's lock.

#ifndef PINRING_SRC_ENGINE_FLAG_WATCH_H_
#define PINRING_SRC_ENGINE_FLAG_WATCH_H_

#include <algorithm>
#include <atomic>
#include <vector>

#include "src/ring/flags.h"

namespace pinring {

// Only a hint: whoever waits looks under the lock when a flag has changed, and
// after a while all the same. Asking under the lock every time would keep it
// from those who have something to report.
class FlagWatch {
 public:
  void Clear() { seen_.clear(); }
  // What the device says about a line, from now on; with `all`, what movers say
  // too. The line outlives the watch.
  void Note(const FlagLine& line, bool all) {
    seen_.push_back({&line, all, line.ready.load(std::memory_order_relaxed),
                     line.done.load(std::memory_order_relaxed),
                     line.permitted.load(std::memory_order_relaxed),
                     line.drained.load(std::memory_order_relaxed)});
  }
  [[nodiscard]] bool Changed() const {
    return std::any_of(seen_.begin(), seen_.end(), [](const Seen& seen) {
      const FlagLine& line = *seen.line;
      return line.ready.load(std::memory_order_relaxed) != seen.ready ||
             line.done.load(std::memory_order_relaxed) != seen.done ||
             (seen.all &&
              (line.permitted.load(std::memory_order_relaxed) !=
                   seen.permitted ||
               line.drained.load(std::memory_order_relaxed) != seen.drained));
    });
  }

 private:
  struct Seen {
    const FlagLine* line;
    bool all;
    Sequence ready, done, permitted, drained;
  };
  std::vector<Seen> seen_;
};

}  // namespace pinring

#endif  // PINRING_SRC_ENGINE_FLAG_WATCH_H_
