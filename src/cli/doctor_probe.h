// `pinring doctor --probe`: pins on purpose, and shows what each meter makes of
// it; then the same with staged memory.

#ifndef PINRING_SRC_CLI_DOCTOR_PROBE_H_
#define PINRING_SRC_CLI_DOCTOR_PROBE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/cli/doctor_machine.h"
#include "src/cli/doctor_report.h"

namespace pinring::cli {

inline constexpr uint64_t kDefaultProbeBytes = uint64_t{512} << 20;

struct ProbeBound {
  uint64_t bytes = 0;
  std::string reason;
};

// Never to failure, since one refused pin makes every later one of a process
// fail under WDDM: a quarter of what is free, of the host's memory and of each
// meter's, is all that is pinned. Pure.
ProbeBound BoundProbe(uint64_t wanted_bytes,
                      std::optional<uint64_t> host_available_bytes,
                      const std::vector<Meter>& meters);

// On device 0, whose context is current. Everything is given back.
Probe RunProbe(const DoctorMachine& machine, uint64_t wanted_bytes);

}  // namespace pinring::cli

#endif  // PINRING_SRC_CLI_DOCTOR_PROBE_H_
