#include "src/cli/doctor_machine.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/driver/loader.h"
#include "src/driver/status.h"
#include "src/os/env.h"
#include "src/os/host_facts.h"
#include "src/os/system_info.h"
#include "src/os/threads.h"
#include "src/os/video_memory.h"
#include "src/simcuda/shared/machine_options.h"

namespace pinring::cli {
namespace {

Meter Missing(std::string key, std::string title, std::string scope,
              absl::Status why) {
  return {std::move(key), std::move(title), std::move(scope), std::move(why)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<DoctorMachine>> DoctorMachine::Open(
    bool simulate) {
  auto machine = std::unique_ptr<DoctorMachine>(new DoctorMachine);
  if (simulate) {
    if (auto status = machine->Simulate(); !status.ok()) return status;
  } else if (auto loaded = LoadDriver(); loaded.ok()) {
    machine->loaded_ = *loaded;
    machine->driver_ = &machine->loaded_;
    machine->nvml_ = Nvml::Open();
  } else {
    machine->why_ = loaded.status();
    machine->nvml_ = Nvml::Open();
  }
  if (machine->driver_ == nullptr) return machine;
  if (auto status =
          CudaStatus(machine->driver_->DeviceGetCount(&machine->device_count_),
                     "cuDeviceGetCount");
      !status.ok()) {
    machine->why_ = status;
    machine->device_count_ = 0;
  } else if (machine->device_count_ == 0) {
    machine->why_ = absl::NotFoundError("the driver has no device");
  }
  // A driver library for whole programs that is a simulated device, too.
  if (machine->simulated_.empty() && machine->device_count_ > 0 &&
      absl::StrContains(machine->NameOf(0), "Simulated")) {
    machine->simulated_wddm_ =
        os::GetEnv("PINRING_SIMCUDA_WDDM").value_or("0") == "1";
    machine->simulated_ =
        absl::StrCat("the driver's library is a simulated device",
                     machine->simulated_wddm_ ? " in its WDDM mode" : "");
    machine->nvml_ = absl::UnavailableError(
        "NVML knows nothing of a device that another library simulates");
  }
  return machine;
}

absl::Status DoctorMachine::Simulate() {
  auto options = simcuda::ReadProcessOptions(os::GetEnv);
  if (!options.ok()) return options.status();
  simulated_bytes_ = options->machine.device_bytes;
  simulated_wddm_ = options->machine.wddm;
  machine_ = std::make_unique<simcuda::Machine>(options->machine, nullptr);
  for (const simcuda::Fault& fault : options->faults) {
    machine_->InjectFault(fault);
  }
  simulated_ = absl::StrCat("a device simulated in this process",
                            simulated_wddm_ ? " in its WDDM mode" : "");
  nvml_ = absl::UnavailableError("the device is simulated");
  driver_ = &machine_->driver();
  if (auto status = CudaStatus(driver_->Init(0), "cuInit"); !status.ok()) {
    why_ = status;
    driver_ = nullptr;
  }
  return absl::OkStatus();
}

DoctorMachine::~DoctorMachine() {
  for (const CUdevice device : retained_) {
    (void)driver_->DevicePrimaryCtxRelease(device);
  }
}

std::string DoctorMachine::NameOf(int ordinal) const {
  CUdevice device = 0;
  char name[256] = {};
  if (driver_->DeviceGet(&device, ordinal) != CUDA_SUCCESS ||
      driver_->DeviceGetName(name, sizeof(name), device) != CUDA_SUCCESS) {
    return absl::StrCat("device ", ordinal);
  }
  return name;
}

absl::StatusOr<int> DoctorMachine::AttributeOf(
    int ordinal, CUdevice_attribute attribute) const {
  CUdevice device = 0;
  int value = 0;
  auto status = CudaStatus(driver_->DeviceGet(&device, ordinal), "cuDeviceGet");
  if (status.ok()) {
    status = CudaStatus(driver_->DeviceGetAttribute(&value, attribute, device),
                        absl::StrCat("cuDeviceGetAttribute(",
                                     static_cast<int>(attribute), ")"));
  }
  if (!status.ok()) return status;
  return value;
}

absl::StatusOr<std::string> DoctorMachine::BusIdOf(int ordinal) const {
  const auto domain = AttributeOf(ordinal, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
  const auto bus = AttributeOf(ordinal, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
  const auto device = AttributeOf(ordinal, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
  for (const auto* part : {&domain, &bus, &device}) {
    if (!part->ok()) return part->status();
  }
  return absl::StrFormat("%04x:%02x:%02x.0", *domain, *bus, *device);
}

absl::StatusOr<std::string> DoctorMachine::DriverModelOf(int ordinal) const {
  if (!simulated_.empty()) {
    return std::string(simulated_wddm_ ? "WDDM (simulated)"
                                       : "none (simulated)");
  }
#if defined(_WIN32)
  if (nvml_.ok()) {
    if (const auto bus_id = BusIdOf(ordinal); bus_id.ok()) {
      const auto model = nvml_->DriverModelOf(*bus_id);
      if (model.ok()) {
        switch (*model) {
          case Nvml::DriverModel::kWddm:
            return std::string("WDDM");
          case Nvml::DriverModel::kTcc:
            return std::string("TCC");
          case Nvml::DriverModel::kMcdm:
            return std::string("MCDM");
        }
      }
    }
  }
  const auto tcc = AttributeOf(ordinal, CU_DEVICE_ATTRIBUTE_TCC_DRIVER);
  if (!tcc.ok()) return tcc.status();
  return std::string(*tcc != 0 ? "TCC" : "WDDM or MCDM");
#else
  (void)ordinal;
  return std::string(os::GpusBehindWddm() ? "WDDM (behind WSL)"
                                          : "none (Linux)");
#endif
}

bool DoctorMachine::ChargesPinned(int ordinal) const {
  if (!simulated_.empty()) return simulated_wddm_;
  const auto model = DriverModelOf(ordinal);
  return model.ok() && absl::StartsWith(*model, "WDDM");
}

absl::Status DoctorMachine::Enter(int ordinal) {
  CUdevice device = 0;
  CUcontext context = nullptr;
  auto status = CudaStatus(driver_->DeviceGet(&device, ordinal), "cuDeviceGet");
  if (!status.ok()) return status;
  status = CudaStatus(driver_->DevicePrimaryCtxRetain(&context, device),
                      "cuDevicePrimaryCtxRetain");
  if (!status.ok()) return status;
  retained_.push_back(device);
  return CudaStatus(driver_->CtxSetCurrent(context), "cuCtxSetCurrent");
}

absl::StatusOr<MeterReading> DoctorMachine::CudaMemGetInfo() const {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  auto status = CudaStatus(driver_->MemGetInfo(&free_bytes, &total_bytes),
                           "cuMemGetInfo");
  if (!status.ok()) return status;
  return MeterReading{total_bytes - std::min(free_bytes, total_bytes),
                      total_bytes};
}

std::vector<Meter> DoctorMachine::ReadMeters(int ordinal) const {
  std::vector<Meter> meters;
  meters.push_back(
      {"cuda_mem_get_info", "cuMemGetInfo", "device", CudaMemGetInfo()});
  if (machine_ != nullptr) {
    AddSimulatedMeters(ordinal, meters);
    return meters;
  }
  const auto bus_id = BusIdOf(ordinal);
  absl::StatusOr<MeterReading> nvml = MeterReading{};
  if (!nvml_.ok()) {
    nvml = nvml_.status();
  } else if (!bus_id.ok()) {
    nvml = bus_id.status();
  } else if (const auto memory = nvml_->MemoryOf(*bus_id); memory.ok()) {
    nvml = MeterReading{memory->used_bytes, memory->total_bytes};
  } else {
    nvml = memory.status();
  }
  meters.push_back({"nvml", "NVML (nvidia-smi)", "device", nvml});
  AddSystemMeters(ordinal, meters);
  return meters;
}

// What Windows and NVML would say of the simulated device: the framebuffer
// holds device memory, and in WDDM mode the system counts pinned bytes too.
void DoctorMachine::AddSimulatedMeters(int ordinal,
                                       std::vector<Meter>& meters) const {
  const uint64_t framebuffer = machine_->DeviceBytes(ordinal);
  meters.push_back({"nvml", "framebuffer, as NVML (simulated)", "device",
                    MeterReading{framebuffer, simulated_bytes_}});
  const std::string title = "dedicated, as the task manager (simulated)";
  if (!simulated_wddm_) {
    meters.push_back(Missing(
        "windows_dedicated", title, "device",
        absl::UnimplementedError("PINRING_SIMCUDA_WDDM is not 1: pinned "
                                 "memory is not charged to the device")));
    return;
  }
  meters.push_back(
      {"windows_dedicated", title, "device",
       MeterReading{framebuffer + machine_->PinnedBytes(), simulated_bytes_}});
}

void DoctorMachine::AddSystemMeters(int ordinal,
                                    std::vector<Meter>& meters) const {
  struct View {
    const char* key;
    const char* title;
    const char* scope;
    std::optional<uint64_t> os::VideoAdapter::*used;
    std::optional<uint64_t> os::VideoAdapter::*total;
  };
  static constexpr View kViews[] = {
      {"windows_dedicated", "Windows, dedicated (task manager)", "device",
       &os::VideoAdapter::dedicated_used, nullptr},
      {"windows_shared", "Windows, shared (task manager)", "device",
       &os::VideoAdapter::shared_used, nullptr},
      {"dxgi_local", "DXGI, local segment", "process",
       &os::VideoAdapter::local_used, &os::VideoAdapter::local_budget},
      {"dxgi_non_local", "DXGI, non-local segment", "process",
       &os::VideoAdapter::non_local_used, &os::VideoAdapter::non_local_budget},
  };
  const auto adapters =
      simulated_.empty()
          ? os::VideoAdapters()
          : absl::UnavailableError("the device is simulated by a library");
  absl::Status why = adapters.status();
  const os::VideoAdapter* mine = nullptr;
  if (adapters.ok()) {
    CUdevice device = 0;
    uint64_t luid = 0;
    unsigned node_mask = 0;
    char bytes[8] = {};
    why = absl::NotFoundError("the driver does not name the adapter");
    if (driver_->DeviceGetLuid != nullptr &&
        driver_->DeviceGet(&device, ordinal) == CUDA_SUCCESS &&
        driver_->DeviceGetLuid(bytes, &node_mask, device) == CUDA_SUCCESS) {
      std::memcpy(&luid, bytes, sizeof(luid));
      for (const os::VideoAdapter& adapter : *adapters) {
        if (adapter.luid == luid) mine = &adapter;
      }
      why = absl::NotFoundError("DXGI has no such adapter");
    }
  }
  for (const View& view : kViews) {
    Meter meter = Missing(view.key, view.title, view.scope, why);
    if (mine != nullptr) {
      const auto& used = mine->*view.used;
      if (used.has_value()) {
        MeterReading reading{*used, std::nullopt};
        if (view.total != nullptr) reading.total_bytes = mine->*view.total;
        meter.reading = reading;
      } else {
        meter.reading = absl::UnavailableError("Windows did not say");
      }
    }
    meters.push_back(std::move(meter));
  }
}

absl::StatusOr<std::vector<DeviceProcess>> DoctorMachine::ProcessesOn(
    int ordinal) const {
  const int64_t own = os::ProcessId();
  if (machine_ != nullptr) {
    return std::vector<DeviceProcess>{
        {own, "pinring", machine_->DeviceBytes(ordinal), true}};
  }
  if (!nvml_.ok()) return nvml_.status();
  const auto bus_id = BusIdOf(ordinal);
  if (!bus_id.ok()) return bus_id.status();
  const auto processes = nvml_->ProcessesOn(*bus_id);
  if (!processes.ok()) return processes.status();
  const auto known = os::ProcessesOfUser();
  std::vector<DeviceProcess> found;
  for (const Nvml::Process& process : *processes) {
    DeviceProcess entry;
    entry.pid = process.pid;
    entry.own = process.pid == own;
    if (process.used_bytes.ok()) entry.used_bytes = *process.used_bytes;
    if (known.ok()) {
      for (const os::ProcessMemory& memory : *known) {
        if (memory.pid == entry.pid) entry.name = memory.name;
      }
    }
    found.push_back(std::move(entry));
  }
  return found;
}

std::optional<uint64_t> DoctorMachine::PinnedBytes() const {
  if (machine_ != nullptr) return machine_->PinnedBytes();
  return std::nullopt;
}

}  // namespace pinring::cli
