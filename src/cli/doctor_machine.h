// What the doctor looks at: the installed driver and every meter of device
// memory beside it, or a simulated device with meters of its own.

#ifndef PINRING_SRC_CLI_DOCTOR_MACHINE_H_
#define PINRING_SRC_CLI_DOCTOR_MACHINE_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/cli/doctor_report.h"
#include "src/driver/driver.h"
#include "src/driver/nvml.h"
#include "src/simcuda/machine.h"

namespace pinring::cli {

// Not thread-safe.
class DoctorMachine {
 public:
  // With `simulate` a device simulated in this process, which obeys the
  // variables PINRING_SIMCUDA_*; otherwise the machine's own driver, whose
  // absence is no error here. Errors: kInvalidArgument, for such a variable.
  static absl::StatusOr<std::unique_ptr<DoctorMachine>> Open(bool simulate);
  DoctorMachine(const DoctorMachine&) = delete;
  DoctorMachine& operator=(const DoctorMachine&) = delete;
  ~DoctorMachine();

  // Null where there is none; why().
  const Driver* driver() const { return driver_; }
  const absl::Status& why() const { return why_; }
  // Empty on a real device.
  const std::string& simulated() const { return simulated_; }
  int device_count() const { return device_count_; }

  std::string NameOf(int ordinal) const;
  // "0000:01:00.0".
  absl::StatusOr<std::string> BusIdOf(int ordinal) const;
  absl::StatusOr<int> AttributeOf(int ordinal,
                                  CUdevice_attribute attribute) const;
  // Errors: why NVML does not answer here.
  const absl::StatusOr<Nvml>& nvml() const { return nvml_; }

  // Whether host memory that is pinned is charged to the device.
  bool ChargesPinned(int ordinal) const;
  // "WDDM", "TCC", "MCDM", "none (Linux)".
  absl::StatusOr<std::string> DriverModelOf(int ordinal) const;

  // Makes the device's primary context current, which costs device memory
  // (until the machine goes). Errors: the driver's.
  absl::Status Enter(int ordinal);
  // Every meter there is, read now; Enter comes first.
  std::vector<Meter> ReadMeters(int ordinal) const;
  absl::StatusOr<std::vector<DeviceProcess>> ProcessesOn(int ordinal) const;
  // Host memory that is known to be pinned, and charged to the card.
  std::optional<uint64_t> PinnedBytes() const;

 private:
  DoctorMachine() = default;
  absl::Status Simulate();
  absl::StatusOr<MeterReading> CudaMemGetInfo() const;
  void AddSimulatedMeters(int ordinal, std::vector<Meter>& meters) const;
  void AddSystemMeters(int ordinal, std::vector<Meter>& meters) const;

  Driver loaded_;
  std::unique_ptr<simcuda::Machine> machine_;
  const Driver* driver_ = nullptr;  // loaded_, or the machine's
  absl::Status why_;
  std::string simulated_;
  size_t simulated_bytes_ = 0;
  bool simulated_wddm_ = false;
  int device_count_ = 0;
  absl::StatusOr<Nvml> nvml_ = absl::UnavailableError("not asked");
  std::vector<CUdevice> retained_;
};

}  // namespace pinring::cli

#endif  // PINRING_SRC_CLI_DOCTOR_MACHINE_H_
