// The doctor's questions to the system, to the driver and to the environment.

#ifndef PINRING_SRC_CLI_DOCTOR_FACTS_H_
#define PINRING_SRC_CLI_DOCTOR_FACTS_H_

#include <vector>

#include "src/cli/doctor_machine.h"
#include "src/cli/doctor_report.h"

namespace pinring::cli {

std::vector<Fact> SystemFacts(const DoctorMachine& machine);

// Enters the device. What fails is a missing fact, with its reason.
DeviceReport ExamineDevice(DoctorMachine& machine, int ordinal);

// The processes of the user that have the driver loaded, and this one.
absl::StatusOr<std::vector<HostProcess>> HostProcesses();

// The variables that decide what is pinned and how device memory looks.
std::vector<Setting> Settings();

}  // namespace pinring::cli

#endif  // PINRING_SRC_CLI_DOCTOR_FACTS_H_
