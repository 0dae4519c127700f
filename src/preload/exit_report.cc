// With PINRING_SHOW_USAGE, says at exit that the library was there also where
// there is no usage to show: in a program that has a driver and pinned nothing.
// One without CUDA is told nothing.

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include "src/capi/instances.h"
#include "src/capi/options.h"
#include "src/os/env.h"
#include "src/os/threads.h"
#include "src/preload/entry_points.h"

namespace pinring::preload {
namespace {

// The process that loaded the library, not its children.
int64_t process_id = 0;

void SayThatNothingWasPinned() {
  if (os::ProcessId() != process_id || !EntryPoints::DriverIsLoaded()) return;
  bool made = false;
  ForEachInstance([&](Instance&) { made = true; });
  Options options;
  if (made || !ReadEnvironment(os::GetEnv, &options).ok() ||
      !options.show_usage) {
    return;
  }
  os::WriteErrorLine(
      options.enabled
          ? "pinring: preloaded; the program asked for no pinned memory"
          : "pinring: preloaded, and switched off by PINRING_ENABLED");
}

__attribute__((constructor)) void Begin() {
  const std::optional<std::string> asked = os::GetEnv("PINRING_SHOW_USAGE");
  if (!asked.has_value() || asked->empty()) return;
  process_id = os::ProcessId();
  (void)std::atexit(&SayThatNothingWasPinned);
}

}  // namespace
}  // namespace pinring::preload
