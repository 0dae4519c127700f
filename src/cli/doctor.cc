#include "src/cli/doctor.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/cli/doctor_facts.h"
#include "src/cli/doctor_machine.h"
#include "src/cli/doctor_probe.h"
#include "src/cli/doctor_report.h"
#include "src/os/env.h"

namespace pinring::cli {
namespace {

Verdict NoDevice(const absl::Status& why) {
  Verdict verdict;
  verdict.kind = VerdictKind::kNoDevice;
  verdict.text = absl::StrCat("There is no device to look at: ", why.message());
  verdict.advice = {
      "install NVIDIA's driver, or look at a simulated device: "
      "pinring doctor --simulate"};
  return verdict;
}

DoctorReport Examine(DoctorMachine& machine, const DoctorOptions& options) {
  DoctorReport report;
  report.simulated = machine.simulated();
  report.system = SystemFacts(machine);
  report.driver = machine.why();
  for (int i = 0; i < machine.device_count(); ++i) {
    report.devices.push_back(ExamineDevice(machine, i));
  }
  report.host_processes = HostProcesses();
  report.settings = Settings();
  report.verdict = NoDevice(machine.why());
  for (const DeviceReport& device : report.devices) {
    const bool first = report.verdict.kind == VerdictKind::kNoDevice;
    if (first || device.verdict.kind > report.verdict.kind) {
      report.verdict = device.verdict;
    }
  }
  if (options.probe_bytes.has_value() && !report.devices.empty()) {
    if (auto status = machine.Enter(0); status.ok()) {
      report.probe = RunProbe(machine, *options.probe_bytes);
    } else {
      report.probe.emplace().status = status;
    }
  }
  return report;
}

}  // namespace

int RunDoctor(const DoctorOptions& options) {
  auto machine = DoctorMachine::Open(options.simulate);
  if (!machine.ok()) {
    os::WriteErrorLine(
        absl::StrCat("pinring doctor: ", machine.status().message()));
    return 1;
  }
  const DoctorReport report = Examine(**machine, options);
  absl::PrintF("%s", options.json ? FormatDoctorJson(report) + "\n"
                                  : FormatDoctorText(report));
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) return 1;
  switch (report.verdict.kind) {
    case VerdictKind::kNothingWrong:
      return report.probe.has_value() && !report.probe->status.ok() ? 1 : 0;
    case VerdictKind::kNoDevice:
      return 1;
    default:
      return kDoctorFound;
  }
}

}  // namespace pinring::cli
