#include "src/cli/doctor_probe.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "src/capi/instance.h"
#include "src/capi/options.h"
#include "src/driver/status.h"
#include "src/host/address_map.h"
#include "src/os/env.h"
#include "src/os/host_facts.h"
#include "src/os/system_info.h"
#include "src/os/threads.h"

namespace pinring::cli {
namespace {

constexpr uint64_t kSteps = 4;
constexpr uint64_t kLeastStepBytes = 1 * kMiB;
// Meters of Windows follow after a while.
constexpr uint64_t kSettleMicros = 200 * 1000;

class Prober {
 public:
  Prober(const DoctorMachine& machine, Probe& probe)
      : machine_(machine), probe_(probe) {
    for (const Meter& meter : machine.ReadMeters(0)) {
      probe_.columns.push_back({meter.key, meter.title});
    }
    probe_.columns.push_back({"process_shared", "shared memory, this process"});
    probe_.columns.push_back({"process_resident", "resident, this process"});
  }

  void Record(const char* phase, uint64_t bytes) {
    if (machine_.simulated().empty()) os::SleepMicros(kSettleMicros);
    ProbeStep step;
    step.phase = phase;
    step.bytes = bytes;
    for (const Meter& meter : machine_.ReadMeters(0)) {
      step.meters.push_back(meter.reading.ok() ? absl::StatusOr<uint64_t>(
                                                     meter.reading->used_bytes)
                                               : meter.reading.status());
    }
    const auto self = os::ThisProcess();
    step.meters.push_back(self.ok()
                              ? absl::StatusOr<uint64_t>(self->shared_bytes)
                              : self.status());
    step.meters.push_back(self.ok()
                              ? absl::StatusOr<uint64_t>(self->resident_bytes)
                              : self.status());
    probe_.steps.push_back(std::move(step));
  }

  absl::Status Pin() {
    const Driver& driver = *machine_.driver();
    std::vector<void*> blocks;
    absl::Cleanup free = [&driver, &blocks] {
      for (void* block : blocks) (void)driver.MemFreeHost(block);
    };
    const uint64_t step = StepBytes();
    for (uint64_t bytes = step; bytes <= probe_.bound_bytes; bytes += step) {
      void* block = nullptr;
      if (auto status =
              CudaStatus(driver.MemHostAlloc(&block, step, 0),
                         absl::StrCat("cuMemHostAlloc of ", step, " bytes"));
          !status.ok()) {
        return status;
      }
      blocks.push_back(block);
      Record("pinned", bytes);
    }
    std::move(free).Cancel();
    absl::Status status;
    for (void* block : blocks) {
      status.Update(CudaStatus(driver.MemFreeHost(block), "cuMemFreeHost"));
    }
    Record("freed", 0);
    return status;
  }

  // Blocks that are used: written, and a piece of each copied to the device, so
  // that the ring is there and counted.
  absl::Status Stage() {
    Options options;
    if (auto status = ReadEnvironment(os::GetEnv, &options); !status.ok()) {
      return status;
    }
    AddressMap map;
    auto instance = Instance::Create(machine_.driver(), options, &map);
    if (!instance.ok()) return instance.status();
    const Driver& driver = *machine_.driver();
    CUdeviceptr device = 0;
    auto status = CudaStatus(driver.MemAlloc(&device, kMiB), "cuMemAlloc");
    if (!status.ok()) return status;
    const uint64_t step = StepBytes();
    std::vector<void*> blocks;
    for (uint64_t bytes = step; status.ok() && bytes <= probe_.bound_bytes;
         bytes += step) {
      void* block = nullptr;
      status = (*instance)->HostAlloc(&block, step, 0);
      if (!status.ok()) break;
      blocks.push_back(block);
      std::memset(block, 1, step);
      status = (*instance)->Memcpy(reinterpret_cast<void*>(device), block, kMiB,
                                   cudaMemcpyHostToDevice);
      if (status.ok()) Record("staged", bytes);
    }
    for (void* block : blocks) status.Update((*instance)->FreeHost(block));
    status.Update(CudaStatus(driver.MemFree(device), "cuMemFree"));
    instance->reset();
    Record("released", 0);
    return status;
  }

 private:
  uint64_t StepBytes() const {
    return std::max(probe_.bound_bytes / kSteps / kMiB * kMiB, kLeastStepBytes);
  }

  const DoctorMachine& machine_;
  Probe& probe_;
};

}  // namespace

ProbeBound BoundProbe(uint64_t wanted_bytes,
                      std::optional<uint64_t> host_available_bytes,
                      const std::vector<Meter>& meters) {
  ProbeBound bound{wanted_bytes, "as much as was asked for"};
  const auto lower = [&bound](uint64_t free, absl::string_view whose) {
    if (free / 4 >= bound.bytes) return;
    bound.bytes = free / 4;
    bound.reason = absl::StrCat("a quarter of what is free by ", whose);
  };
  if (!host_available_bytes.has_value()) {
    bound.bytes = std::min(bound.bytes, 64 * kMiB);
    bound.reason = "64 MiB, since the host's free memory is not known";
  } else {
    lower(*host_available_bytes, "the host's memory");
  }
  uint64_t total = 0;
  for (const Meter& meter : meters) {
    if (meter.scope != "device" || !meter.reading.ok()) continue;
    total = std::max(total, meter.reading->total_bytes.value_or(0));
  }
  for (const Meter& meter : meters) {
    if (meter.scope != "device" || !meter.reading.ok()) continue;
    // Of the host's memory, not of the card's.
    if (meter.key == "windows_shared") continue;
    const uint64_t of = meter.reading->total_bytes.value_or(total);
    lower(of - std::min(of, meter.reading->used_bytes), meter.title);
  }
  return bound;
}

Probe RunProbe(const DoctorMachine& machine, uint64_t wanted_bytes) {
  Probe probe;
  probe.wanted_bytes = wanted_bytes;
  const ProbeBound bound = BoundProbe(wanted_bytes, os::AvailableMemoryBytes(),
                                      machine.ReadMeters(0));
  probe.bound_bytes = bound.bytes / kMiB * kMiB;
  probe.bound_reason = bound.reason;
  Prober prober(machine, probe);
  if (probe.bound_bytes < kLeastStepBytes) {
    probe.status = absl::ResourceExhaustedError(
        "not even 1 MiB is free enough to be pinned for a probe");
    return probe;
  }
  prober.Record("before", 0);
  probe.status = prober.Pin();
  if (probe.status.ok()) probe.status = prober.Stage();
  return probe;
}

}  // namespace pinring::cli
