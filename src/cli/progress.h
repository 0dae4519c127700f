// What a long command is doing: a bar that is drawn in place on a terminal, a
// line for each phase elsewhere. It shows bytes, never a rate.

#ifndef PINRING_SRC_CLI_PROGRESS_H_
#define PINRING_SRC_CLI_PROGRESS_H_

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace pinring::cli {

// Begin and End are for one thread; Add is for any.
class Progress {
 public:
  // Draws bars of at most `columns` on `out`, where `terminal`; prints plain
  // lines otherwise.
  Progress(FILE* out, bool terminal, int columns)
      : out_(out), terminal_(terminal), columns_(columns) {}
  // A bar on standard error, or plain lines on `plain` where that is none.
  static Progress ForCommand(FILE* plain);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // A phase called `what` that is over after `total_bytes`.
  void Begin(std::string what, uint64_t total_bytes);
  void Add(uint64_t bytes);
  void End();

 private:
  void Draw(uint64_t done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(draw_mutex_);

  FILE* const out_;
  const bool terminal_;
  const int columns_;
  std::string what_;
  uint64_t total_bytes_ = 0;
  std::atomic<uint64_t> done_bytes_{0};
  absl::Mutex draw_mutex_;
  uint64_t drawn_nanos_ ABSL_GUARDED_BY(draw_mutex_) = 0;
};

}  // namespace pinring::cli

#endif  // PINRING_SRC_CLI_PROGRESS_H_
