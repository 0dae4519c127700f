#include "src/cli/progress.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/str_format.h"
#include "src/os/system_info.h"
#include "src/os/threads.h"
#include "src/usage/usage_print.h"

namespace pinring::cli {
namespace {

constexpr uint64_t kRedrawNanos = 50'000'000;
constexpr int kMaxBarColumns = 40;

}  // namespace

Progress Progress::ForCommand(FILE* plain) {
  const bool terminal = os::IsTerminal(os::StandardStream::kError);
  return Progress(terminal ? stderr : plain, terminal,
                  os::TerminalColumns(os::StandardStream::kError));
}

void Progress::Begin(std::string what, uint64_t total_bytes) {
  what_ = std::move(what);
  total_bytes_ = total_bytes;
  done_bytes_.store(0, std::memory_order_relaxed);
  if (!terminal_) {
    absl::FPrintF(out_, "%s: %s\n", what_, HumanBytes(total_bytes_));
    std::fflush(out_);
    return;
  }
  absl::MutexLock lock(&draw_mutex_);
  Draw(0);
}

void Progress::Add(uint64_t bytes) {
  const uint64_t done =
      done_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (!terminal_) return;
  // Whoever finds the pen taken has something better to do than to wait.
  if (!draw_mutex_.TryLock()) return;
  if (os::MonotonicNanos() - drawn_nanos_ >= kRedrawNanos) Draw(done);
  draw_mutex_.Unlock();
}

void Progress::End() {
  if (!terminal_) return;
  absl::MutexLock lock(&draw_mutex_);
  Draw(done_bytes_.load(std::memory_order_relaxed));
  std::fputc('\n', out_);
  std::fflush(out_);
}

void Progress::Draw(uint64_t done) {
  drawn_nanos_ = os::MonotonicNanos();
  const double part =
      total_bytes_ == 0 ? 1.0
                        : std::min(1.0, static_cast<double>(done) /
                                            static_cast<double>(total_bytes_));
  const std::string figures =
      absl::StrFormat("%3.0f %%  %10s of %s", part * 100, HumanBytes(done),
                      HumanBytes(total_bytes_));
  const std::string head = absl::StrFormat("%-9s", what_);
  const int room =
      columns_ - static_cast<int>(head.size() + figures.size()) - 6;
  const int bar = std::clamp(room, 0, kMaxBarColumns);
  const int full = static_cast<int>(std::lround(part * bar));
  absl::FPrintF(out_, "\r%s [%s%s]  %s\x1b[K", head, std::string(full, '#'),
                std::string(bar - full, '.'), figures);
  std::fflush(out_);
}

}  // namespace pinring::cli
