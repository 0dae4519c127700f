// Pinned, the driver's pageable way, and staged, side by side. Only a real
// device is worth timing.

#ifndef PINRING_SRC_CLI_DEMO_TIMING_H_
#define PINRING_SRC_CLI_DEMO_TIMING_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/capi/instance.h"
#include "src/cli/demo_device.h"
#include "src/cli/progress.h"

namespace pinring::cli {

struct TimedPath {
  const char* key;    // "staged_sync"
  const char* title;  // "staged, synchronous"
  // Medians, in units of 10^9 bytes a second; 0: could not be measured.
  double to_device = 0;
  double to_host = 0;
};

struct Timing {
  size_t bytes = 0;  // of each copy
  int rounds = 0;
  double pinned_allocation_ms = 0;
  double staged_allocation_ms = 0;
  std::vector<TimedPath> paths;
  uint64_t wrong_bytes = 0;  // of the staged copies that were timed

  const TimedPath& Path(const char* key) const;
};

// Times copies of [source, source + bytes), a staged block, to the device and
// back to `destination`, another one; and the same with pinned and with
// pageable memory of its own, pinned by the driver past the instance's
// accounts. Errors: the driver's; where only the comparison cannot be
// allocated, its path is left out.
absl::StatusOr<Timing> TimePaths(const DemoDevice& device, Instance& instance,
                                 const void* source, void* destination,
                                 size_t bytes, Progress* progress);

std::string FormatTiming(const Timing& timing);

}  // namespace pinring::cli

#endif  // PINRING_SRC_CLI_DEMO_TIMING_H_
