// What `pinring doctor` found out: plain values, and their printed forms.

#ifndef PINRING_SRC_CLI_DOCTOR_REPORT_H_
#define PINRING_SRC_CLI_DOCTOR_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/cli/doctor_verdict.h"
#include "src/usage/json_writer.h"

namespace pinring::cli {

// The version of the JSON form, src/usage/schemas/doctor.schema.json. It rises
// when a key changes its meaning or goes, not when one is added.
inline constexpr uint64_t kDoctorJsonVersion = 1;

struct Bytes {
  uint64_t bytes = 0;
};

// A fact that could not be found out is a status whose text says why: it is
// shown as missing, never guessed.
struct Fact {
  std::string key;    // "numa_node"
  std::string title;  // "NUMA node"
  std::variant<absl::Status, bool, uint64_t, Bytes, std::string> value;
};

// One source's view of a device's memory.
struct MeterReading {
  uint64_t used_bytes = 0;
  std::optional<uint64_t> total_bytes;
};
struct Meter {
  std::string key;
  std::string title;
  std::string scope;  // whose memory it counts: "device" or "process"
  absl::StatusOr<MeterReading> reading;
};

struct DeviceReport {
  int ordinal = 0;
  std::string name;
  std::vector<Fact> facts;
  std::vector<Meter> meters;
  absl::StatusOr<std::vector<DeviceProcess>> processes;
  Verdict verdict;
};

// A process of the user and the host memory that may be pinned.
struct HostProcess {
  int64_t pid = 0;
  std::string name;
  uint64_t resident_bytes = 0;
  uint64_t shared_bytes = 0;  // pinned CUDA memory is part of it
  bool own = false;           // this command
};

struct Setting {
  std::string name;
  std::optional<std::string> value;  // none: not set
  std::string meaning;
};

// What every meter said at one moment of the probe.
struct ProbeStep {
  std::string phase;  // "before", "pinned", "freed", "staged", "released"
  uint64_t bytes = 0;
  std::vector<absl::StatusOr<uint64_t>> meters;  // as probe.columns
};
struct Probe {
  uint64_t wanted_bytes = 0;
  uint64_t bound_bytes = 0;
  std::string bound_reason;
  struct Column {
    std::string key;
    std::string title;
  };
  std::vector<Column> columns;
  std::vector<ProbeStep> steps;
  absl::Status status;  // what ended it early
};

struct DoctorReport {
  // Not empty: the device is simulated, and this says how.
  std::string simulated;
  std::vector<Fact> system;
  absl::Status driver;  // not OK: why there is none
  std::vector<DeviceReport> devices;
  absl::StatusOr<std::vector<HostProcess>> host_processes;
  std::vector<Setting> settings;
  Verdict verdict;  // the gravest of the devices'
  std::optional<Probe> probe;
};

std::string FormatDoctorText(const DoctorReport& report);
// One JSON object, as src/usage/schemas/doctor.schema.json describes it.
std::string FormatDoctorJson(const DoctorReport& report);

// The facts as one JSON object, by their keys, as the value that comes next.
void WriteFacts(const std::vector<Fact>& facts, JsonWriter& json);

}  // namespace pinring::cli

#endif  // PINRING_SRC_CLI_DOCTOR_REPORT_H_
