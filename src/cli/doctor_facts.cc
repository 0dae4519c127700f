#include "src/cli/doctor_facts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/capi/options.h"
#include "src/driver/status.h"
#include "src/os/env.h"
#include "src/os/host_facts.h"
#include "src/os/system_info.h"
#include "src/os/threads.h"

namespace pinring::cli {
namespace {

using Value = decltype(Fact::value);

template <typename T>
Value ValueOf(const absl::StatusOr<T>& value) {
  if (!value.ok()) return value.status();
  return *value;
}

Value LimitValue(const absl::StatusOr<std::optional<uint64_t>>& limit) {
  if (!limit.ok()) return limit.status();
  if (!limit->has_value()) return std::string("none");
  return Bytes{**limit};
}

absl::StatusOr<std::string> DriverCudaVersion(const Driver& driver) {
  int version = 0;
  auto status =
      CudaStatus(driver.DriverGetVersion(&version), "cuDriverGetVersion");
  if (!status.ok()) return status;
  return absl::StrFormat("%d.%d", version / 1000, version % 1000 / 10);
}

std::string LinkText(int generation, int width) {
  return absl::StrCat("PCIe ", generation, " x", width);
}

// NVML first, which knows it on every system.
void AddLink(const DoctorMachine& machine,
             const absl::StatusOr<std::string>& bus, std::vector<Fact>& facts) {
  absl::Status why = machine.nvml().status();
  int generation = 0, width = 0, most_generation = 0, most_width = 0;
  if (!machine.simulated().empty()) {
    why = absl::UnavailableError("the device is simulated");
  } else if (!bus.ok()) {
    why = bus.status();
  } else {
    if (machine.nvml().ok()) {
      const auto link = machine.nvml()->LinkOf(*bus);
      why = link.status();
      if (link.ok()) {
        generation = static_cast<int>(link->generation);
        width = static_cast<int>(link->width);
        most_generation = static_cast<int>(link->generation_at_most);
        most_width = static_cast<int>(link->width_at_most);
      }
    }
    if (width == 0) {
      const auto link = os::PciLinkOf(*bus);
      if (link.ok()) {
        generation = link->generation;
        width = link->width;
        most_generation = link->generation_at_most;
        most_width = link->width_at_most;
      } else if (why.ok()) {
        why = link.status();
      }
    }
  }
  if (width == 0 && why.ok()) {
    why = absl::UnavailableError("the system does not say");
  }
  const Value now = width == 0 ? Value(why) : LinkText(generation, width);
  const Value most =
      most_width == 0
          ? Value(why.ok() ? absl::UnavailableError("the system does not say")
                           : why)
          : LinkText(most_generation, most_width);
  facts.push_back({"link", "link now (it slows down when idle)", now});
  facts.push_back({"link_at_most", "link at most", most});
}

void AddAttributes(const DoctorMachine& machine, int ordinal,
                   std::vector<Fact>& facts) {
  static constexpr struct {
    const char* key;
    const char* title;
    CUdevice_attribute attribute;
  } kSwitches[] = {
      {"can_map_host_memory", "can map host memory",
       CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY},
      {"unified_addressing", "unified addressing",
       CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING},
      {"host_register_supported", "can register host memory",
       CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED},
      {"registered_pointers_usable", "registered pointers usable as they are",
       CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM},
      {"pageable_memory_access", "reads pageable memory",
       CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS},
      {"pageable_by_host_page_tables", "  by the host's page tables",
       CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES},
      {"integrated", "shares the host's memory",
       CU_DEVICE_ATTRIBUTE_INTEGRATED},
  };
  for (const auto& each : kSwitches) {
    const auto value = machine.AttributeOf(ordinal, each.attribute);
    facts.push_back({each.key, each.title,
                     value.ok() ? Value(*value != 0) : Value(value.status())});
  }
  facts.push_back({"stream_memory_operations", "stream memory operations",
                   machine.driver()->StreamWaitValue32 != nullptr &&
                       machine.driver()->StreamWriteValue32 != nullptr});
  const auto engines =
      machine.AttributeOf(ordinal, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT);
  facts.push_back({"copy_engines", "copy engines",
                   engines.ok() ? Value(static_cast<uint64_t>(*engines))
                                : Value(engines.status())});
}

Value NumaNode(const DoctorMachine& machine,
               const absl::StatusOr<std::string>& bus) {
  if (!machine.simulated().empty()) {
    return absl::UnavailableError("the device is simulated");
  }
  if (!bus.ok()) return bus.status();
  const auto node = os::NumaNodeOf(*bus);
  if (!node.ok()) return node.status();
  return static_cast<uint64_t>(*node);
}

const Meter* FindMeter(const std::vector<Meter>& meters,
                       absl::string_view key) {
  for (const Meter& meter : meters) {
    if (meter.key == key && meter.reading.ok()) return &meter;
  }
  return nullptr;
}

std::optional<uint64_t> UsedBy(const std::vector<Meter>& meters,
                               absl::string_view key) {
  const Meter* const meter = FindMeter(meters, key);
  if (meter == nullptr) return std::nullopt;
  return meter->reading->used_bytes;
}

Verdict JudgeDevice(const DoctorMachine& machine, const DeviceReport& report) {
  VerdictInput input;
  for (const char* key : {"cuda_mem_get_info", "nvml"}) {
    const Meter* const meter = FindMeter(report.meters, key);
    if (meter == nullptr) continue;
    input.total_bytes =
        std::max(input.total_bytes, meter->reading->total_bytes.value_or(0));
  }
  input.charges_pinned = machine.ChargesPinned(report.ordinal);
  input.cuda_used_bytes = UsedBy(report.meters, "cuda_mem_get_info");
  input.framebuffer_used_bytes = UsedBy(report.meters, "nvml");
  input.system_used_bytes = UsedBy(report.meters, "windows_dedicated");
  input.pinned_bytes = machine.PinnedBytes();
  if (report.processes.ok()) input.processes = *report.processes;
  return Judge(input);
}

}  // namespace

std::vector<Fact> SystemFacts(const DoctorMachine& machine) {
  std::vector<Fact> facts;
  facts.push_back({"system", "system", os::SystemName()});
  facts.push_back({"processor", "processor", ValueOf(os::ProcessorName())});
  facts.push_back({"wsl", "WSL", os::InWsl()});
  facts.push_back({"container", "container",
                   os::ContainerSign().value_or("none that shows")});
  facts.push_back({"driver_version", "NVIDIA driver",
                   machine.nvml().ok()
                       ? ValueOf(machine.nvml()->DriverVersion())
                       : Value(machine.nvml().status())});
  facts.push_back({"driver_cuda_version", "the driver's CUDA version",
                   machine.driver() != nullptr
                       ? ValueOf(DriverCudaVersion(*machine.driver()))
                       : Value(machine.why())});
  const auto available = os::AvailableMemoryBytes();
  facts.push_back({"available_memory", "host memory available",
                   available.has_value() ? Value(Bytes{*available})
                                         : Value(absl::UnavailableError(
                                               "the system does not say"))});
  facts.push_back({"group_memory_limit", "limit of the control group or job",
                   LimitValue(os::GroupMemoryLimit())});
  facts.push_back({"locked_memory_limit", "limit on locked memory",
                   LimitValue(os::LockedMemoryLimit())});
  facts.push_back({"transparent_huge_pages", "transparent huge pages",
                   ValueOf(os::TransparentHugePages())});
  const auto huge = os::ReservedHugePageBytes();
  facts.push_back({"reserved_huge_pages", "reserved for huge pages",
                   huge.ok() ? Value(Bytes{*huge}) : Value(huge.status())});
  facts.push_back({"usable_cpus", "processors usable",
                   static_cast<uint64_t>(os::UsableCpus())});
  return facts;
}

DeviceReport ExamineDevice(DoctorMachine& machine, int ordinal) {
  DeviceReport report;
  report.ordinal = ordinal;
  report.name = machine.NameOf(ordinal);
  const auto bus = machine.BusIdOf(ordinal);
  report.facts.push_back({"pci_bus_id", "PCI bus id", ValueOf(bus)});
  report.facts.push_back({"driver_model", "driver model",
                          ValueOf(machine.DriverModelOf(ordinal))});
  AddAttributes(machine, ordinal, report.facts);
  AddLink(machine, bus, report.facts);
  report.facts.push_back({"numa_node", "NUMA node", NumaNode(machine, bus)});
  const absl::Status entered = machine.Enter(ordinal);
  report.meters = machine.ReadMeters(ordinal);
  if (!entered.ok()) report.meters[0].reading = entered;
  report.processes = machine.ProcessesOn(ordinal);
  report.verdict = JudgeDevice(machine, report);
  return report;
}

absl::StatusOr<std::vector<HostProcess>> HostProcesses() {
  const auto processes = os::ProcessesOfUser();
  if (!processes.ok()) return processes.status();
  const int64_t own = os::ProcessId();
  std::vector<HostProcess> found;
  for (const os::ProcessMemory& process : *processes) {
    if (!process.uses_cuda && process.pid != own) continue;
    found.push_back({process.pid, process.name, process.resident_bytes,
                     process.shared_bytes, process.pid == own});
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return a.shared_bytes > b.shared_bytes;
  });
  return found;
}

std::vector<Setting> Settings() {
  static constexpr struct {
    const char* name;
    const char* meaning;
  } kKnown[] = {
      {"CUDA_VISIBLE_DEVICES", "which devices the program sees"},
      {"CUDA_MODULE_LOADING",
       "LAZY loads kernels at their first use: less device memory"},
      {"CUDA_DEVICE_MAX_CONNECTIONS",
       "hardware queues: 32 where eight streams or more hold each other up"},
      {"CUDA_LAUNCH_BLOCKING", "1 makes every call wait: for debugging only"},
      {"PYTORCH_CUDA_ALLOC_CONF",
       "device allocator (expandable_segments), and how PyTorch pins "
       "(pinned_use_cuda_host_register, pinned_num_register_threads)"},
      {"PYTORCH_ALLOC_CONF", "the newer name of PYTORCH_CUDA_ALLOC_CONF"},
      {"TF_GPU_HOST_MEM_LIMIT_IN_MB", "how much TensorFlow pins at most"},
      {"TF_FORCE_GPU_ALLOW_GROWTH",
       "true: TensorFlow takes device memory as it needs it"},
      {"XLA_PYTHON_CLIENT_PREALLOCATE",
       "false: JAX takes device memory as it needs it"},
      {"GGML_CUDA_NO_PINNED", "set: llama.cpp does not pin"},
      {"LD_PRELOAD", "where the preload library would stand"},
  };
  std::vector<Setting> settings;
  for (const auto& each : kKnown) {
    settings.push_back({each.name, os::GetEnv(each.name), each.meaning});
  }
  for (const OptionInfo& option : OptionTable()) {
    auto value = os::GetEnv(option.environment);
    if (!value.has_value()) continue;
    settings.push_back({option.environment, std::move(value), option.help});
  }
  return settings;
}

}  // namespace pinring::cli
