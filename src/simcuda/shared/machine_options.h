// The machine of a whole program, as the environment describes it.

#ifndef PINRING_SRC_SIMCUDA_SHARED_MACHINE_OPTIONS_H_
#define PINRING_SRC_SIMCUDA_SHARED_MACHINE_OPTIONS_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/simcuda/machine.h"

namespace pinring::simcuda {

struct ProcessOptions {
  MachineOptions machine;
  // The process ends with an error of its own when it has seen a hazard.
  bool fail_on_hazard = false;
  std::vector<Fault> faults;
};

// The value of an environment variable, or nothing.
using Lookup = std::function<std::optional<std::string>(const char* name)>;

// From PINRING_SIMCUDA_<OPTION> for the fields of MachineOptions, in capitals,
// PINRING_SIMCUDA_FAIL_ON_HAZARD, and PINRING_SIMCUDA_FAULTS, a list of what to
// inject, such as "cuMemAlloc:3:2,cuStreamSynchronize:0:719:sticky" (function,
// call from 0, code). Counts and sizes as decimal numbers, sizes also with KiB,
// MiB or GiB behind; switches as 0 or 1. Besides, what the driver itself looks
// at: CUDA_DEVICE_MAX_CONNECTIONS, CUDA_LAUNCH_BLOCKING,
// CUDA_VISIBLE_DEVICES (by number; as natively, the list ends before the first
// entry that is no device). pinring's own variables come last, and win.
//
// Error: kInvalidArgument, which names the variable and its value.
[[nodiscard]] absl::StatusOr<ProcessOptions> ReadProcessOptions(
    const Lookup& lookup);

}  // namespace pinring::simcuda

#endif  // PINRING_SRC_SIMCUDA_SHARED_MACHINE_OPTIONS_H_
