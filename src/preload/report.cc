#include "src/preload/report.h"

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "src/capi/instances.h"
#include "src/capi/options.h"
#include "src/os/env.h"
#include "src/os/threads.h"
#include "src/preload/entry_points.h"
#include "src/usage/usage_print.h"

namespace pinring::preload {
namespace {

// The process that loaded the library, not its children.
int64_t process_id = 0;

// Raised by the signal's handler; the thread that prints waits for it. Neither
// is there unless a signal was asked for.
sem_t asked;
bool signal_set = false;

Options EnvironmentOptions() {
  Options options;
  // Options that make no sense are told where blocks are asked for.
  if (!ReadEnvironment(os::GetEnv, &options).ok()) options = Options();
  return options;
}

void OnSignal(int) {
  const int saved_errno = errno;
  (void)sem_post(&asked);
  errno = saved_errno;
}

void AnswerSignals() {
  while (true) {
    if (sem_wait(&asked) != 0) continue;  // A debugger's doing.
    ForEachInstance([](Instance& made) {
      os::WriteErrorLine(
          absl::StripSuffix(FormatUsageText(made.Usage()), "\n"));
    });
  }
}

// With PINRING_SHOW_USAGE, says at exit that the library was there also where
// there is no usage to show: in a program that has a driver and pinned nothing.
// One without CUDA is told nothing.
void SayThatNothingWasPinned() {
  if (os::ProcessId() != process_id || !EntryPoints::DriverIsLoaded()) return;
  bool made = false;
  ForEachInstance([&](Instance&) { made = true; });
  const Options options = EnvironmentOptions();
  if (made || !options.show_usage) return;
  os::WriteErrorLine(
      options.enabled
          ? "pinring: preloaded; the program asked for no pinned memory"
          : "pinring: preloaded, and switched off by PINRING_ENABLED");
}

bool IsSet(const char* name) {
  const std::optional<std::string> value = os::GetEnv(name);
  return value.has_value() && !value->empty();
}

// A signal that came to nobody would end the program: the handler is there from
// the beginning.
void SetSignal(int number) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = &OnSignal;
  action.sa_flags = SA_RESTART;
  if (sem_init(&asked, 0, 0) == 0 && sigaction(number, &action, nullptr) == 0) {
    signal_set = true;
    return;
  }
  os::WriteErrorLine(absl::StrCat("pinring: PINRING_USAGE_SIGNAL=", number,
                                  ": ", strerror(errno)));
}

__attribute__((constructor)) void Begin() {
  if (IsSet("PINRING_SHOW_USAGE")) {
    process_id = os::ProcessId();
    (void)std::atexit(&SayThatNothingWasPinned);
  }
  if (IsSet("PINRING_USAGE_SIGNAL")) {
    const uint64_t number = EnvironmentOptions().usage_signal;
    if (number > 0) SetSignal(static_cast<int>(number));
  }
}

}  // namespace

void StartAnsweringSignal() {
  static const bool started = [] {
    if (!signal_set) return false;
    // It lives as long as the process.
    static auto& thread = *new os::Thread;
    auto made = os::Thread::Start("pinring-usage", &AnswerSignals);
    if (!made.ok()) {
      os::WriteErrorLine(absl::StrCat("pinring: ", made.status().message()));
      return false;
    }
    thread = *std::move(made);
    return true;
  }();
  (void)started;
}

}  // namespace pinring::preload
