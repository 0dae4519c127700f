// NVML, the NVIDIA management library, as far as pinring asks it: what the card
// itself says about its memory, its processes and its link.
//
// The library is opened at run time; the few declarations that are needed are
// written out here, so that no header of it is. It needs no context and costs
// no device memory. Thread-safe.

#ifndef PINRING_SRC_DRIVER_NVML_H_
#define PINRING_SRC_DRIVER_NVML_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace pinring {

class Nvml {
 public:
  // Errors: kNotFound (no library), what nvmlInit answers.
  [[nodiscard]] static absl::StatusOr<Nvml> Open();

  struct Memory {
    uint64_t total_bytes = 0;
    uint64_t used_bytes = 0;      // without what is reserved, where told apart
    uint64_t reserved_bytes = 0;  // by the driver and the firmware
  };
  struct Process {
    uint32_t pid = 0;
    // Not known under WDDM, and in containers that hide processes: the error.
    absl::StatusOr<uint64_t> used_bytes;
  };
  enum class DriverModel { kWddm, kTcc, kMcdm };
  struct Link {
    unsigned generation = 0;
    unsigned generation_at_most = 0;
    unsigned width = 0;
    unsigned width_at_most = 0;
  };

  // Each takes "0000:01:00.0". Errors: what NVML answers, in words.
  absl::StatusOr<Memory> MemoryOf(const std::string& bus_id) const;
  // Of all users, with compute and with graphics contexts, each once.
  absl::StatusOr<std::vector<Process>> ProcessesOn(
      const std::string& bus_id) const;
  // Windows only.
  absl::StatusOr<DriverModel> DriverModelOf(const std::string& bus_id) const;
  absl::StatusOr<Link> LinkOf(const std::string& bus_id) const;
  absl::StatusOr<std::string> DriverVersion() const;

 private:
  struct Functions;
  using Device = struct nvmlDevice_st*;

  explicit Nvml(const Functions* functions) : functions_(functions) {}
  absl::Status Check(int code, const char* call) const;
  absl::StatusOr<Device> Find(const std::string& bus_id) const;

  const Functions* functions_;  // lives as long as the process
};

}  // namespace pinring

#endif  // PINRING_SRC_DRIVER_NVML_H_
