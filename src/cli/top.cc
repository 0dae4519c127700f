#include "src/cli/top.h"

#include <cstdio>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/os/env.h"
#include "src/os/system_info.h"
#include "src/os/terminal.h"
#include "src/os/threads.h"

namespace pinring::cli {
namespace {

constexpr uint64_t kDefaultIntervalMs = 1000;
// How often processes are asked: what one does after its last answer and before
// it falls idle is not seen, and is at most of this time.
constexpr uint64_t kAskMs = 50;

absl::StatusOr<TopSample> Look() {
  auto processes = ReadPublished();
  if (!processes.ok()) return processes.status();
  return TopSample{os::MonotonicNanos(), *std::move(processes)};
}

// Asks until the time is over, or a key comes.
absl::StatusOr<std::optional<char>> Wait(uint64_t interval_ms,
                                         os::KeyReader* keys) {
  const uint64_t end = os::MonotonicNanos() + interval_ms * 1'000'000;
  for (;;) {
    if (auto status = RequestPublished(); !status.ok()) return status;
    const uint64_t now = os::MonotonicNanos();
    if (now >= end) return std::optional<char>();
    const uint64_t left_ms = (end - now) / 1'000'000 + 1;
    const uint64_t wait_ms = std::min(left_ms, kAskMs);
    if (keys == nullptr) {
      os::SleepMicros(wait_ms * 1000);
    } else if (auto key = keys->Read(wait_ms); key.has_value()) {
      return key;
    }
  }
}

bool Print(const std::string& text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() &&
         std::fflush(stdout) == 0;
}

int Fail(const absl::Status& status) {
  os::WriteErrorLine(absl::StrCat("pinring top: ", status.message()));
  return 1;
}

int Once(const TopOptions& options) {
  std::optional<TopSample> before;
  if (options.interval_ms.has_value()) {
    // The first look is as fresh as the second.
    if (auto waited = Wait(kAskMs, nullptr); !waited.ok()) {
      return Fail(waited.status());
    }
    auto first = Look();
    if (!first.ok()) return Fail(first.status());
    before = *std::move(first);
  }
  if (auto waited = Wait(options.interval_ms.value_or(kAskMs), nullptr);
      !waited.ok()) {
    return Fail(waited.status());
  }
  const auto now = Look();
  if (!now.ok()) return Fail(now.status());
  const TopSample* const earlier = before.has_value() ? &*before : nullptr;
  return Print(options.json ? FormatTopJson(*now, earlier) + "\n"
                            : FormatTop(*now, earlier, TopOrder::kMemory,
                                        /*paths=*/true, 0, 0))
             ? 0
             : 1;
}

// One object a line, until the reader goes.
int Stream(uint64_t interval_ms) {
  std::optional<TopSample> before;
  for (;;) {
    if (auto waited = Wait(interval_ms, nullptr); !waited.ok()) {
      return Fail(waited.status());
    }
    auto now = Look();
    if (!now.ok()) return Fail(now.status());
    if (!Print(FormatTopJson(*now, before.has_value() ? &*before : nullptr) +
               "\n")) {
      return 1;
    }
    before = *std::move(now);
  }
}

// The terminal's other screen, and back.
class Screen {
 public:
  Screen() { (void)Print("\x1b[?1049h\x1b[?25l"); }
  ~Screen() { (void)Print("\x1b[?25h\x1b[?1049l"); }
};

int Live(uint64_t interval_ms, os::KeyReader& keys) {
  Screen screen;
  TopOrder order = TopOrder::kMemory;
  bool paths = false;
  std::optional<TopSample> before;
  auto now = Look();
  for (;;) {
    if (!now.ok()) return Fail(now.status());
    const std::string text = FormatTop(
        *now, before.has_value() ? &*before : nullptr, order, paths,
        os::TerminalRows(), os::TerminalColumns(os::StandardStream::kOutput));
    if (!Print(absl::StrCat("\x1b[H\x1b[2J", text))) return 1;
    auto key = Wait(interval_ms, &keys);
    if (!key.ok()) return Fail(key.status());
    switch (key->value_or('\0')) {
      case 'q':
        return 0;
      case 'm':
        order = TopOrder::kMemory;
        continue;
      case 'k':
        order = TopOrder::kPeak;
        continue;
      case 'c':
        order = TopOrder::kCopies;
        continue;
      case 'n':
        order = TopOrder::kPid;
        continue;
      case 'p':
        paths = !paths;
        continue;
      case '\0':
        break;
      default:
        continue;
    }
    before = *std::move(now);
    now = Look();
  }
}

}  // namespace

int RunTop(const TopOptions& options) {
  if (options.once) return Once(options);
  const uint64_t interval_ms = options.interval_ms.value_or(kDefaultIntervalMs);
  if (options.json) return Stream(interval_ms);
  auto keys = os::KeyReader::Open();
  if (!keys.ok() || !os::IsTerminal(os::StandardStream::kOutput)) {
    return Fail(absl::FailedPreconditionError(
        "there is no terminal to fill; use --once or --json"));
  }
  return Live(interval_ms, *keys);
}

}  // namespace pinring::cli
