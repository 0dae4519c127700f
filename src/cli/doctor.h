// `pinring doctor`: what pinning costs on this machine, and whether "GPU memory
// is full" is true.

#ifndef PINRING_SRC_CLI_DOCTOR_H_
#define PINRING_SRC_CLI_DOCTOR_H_

#include <cstdint>
#include <optional>

namespace pinring::cli {

struct DoctorOptions {
  bool json = false;
  bool simulate = false;
  std::optional<uint64_t> probe_bytes;  // none: no probe
};

// The exit status: 0 nothing is wrong, 1 it could not look (no driver, no
// device, output that cannot be written), 3 it found something. (2: arguments
// that make no sense.)
inline constexpr int kDoctorFound = 3;

int RunDoctor(const DoctorOptions& options);

}  // namespace pinring::cli

#endif  // PINRING_SRC_CLI_DOCTOR_H_
