#include "src/cli/demo_device.h"

#include "src/driver/loader.h"
#include "src/driver/status.h"

namespace pinring::cli {

absl::StatusOr<std::unique_ptr<DemoDevice>> DemoDevice::Open(
    size_t simulated_bytes) {
  auto device = std::unique_ptr<DemoDevice>(new DemoDevice);
  auto loaded = LoadDriver();
  if (loaded.ok()) {
    device->loaded_ = *loaded;
    device->driver_ = &device->loaded_;
  } else {
    device->reason_ = std::string(loaded.status().message());
    simcuda::MachineOptions options;
    options.device_bytes = simulated_bytes;
    device->machine_ = std::make_unique<simcuda::Machine>(options, nullptr);
    device->driver_ = &device->machine_->driver();
    if (auto status = CudaStatus(device->driver_->Init(0), "cuInit");
        !status.ok()) {
      return status;
    }
  }
  if (auto status = device->OpenContext(); !status.ok()) return status;
  return device;
}

absl::Status DemoDevice::OpenContext() {
  char name[256] = {};
  size_t total_bytes = 0;
  absl::Status status =
      CudaStatus(driver_->DeviceGet(&device_, 0), "cuDeviceGet");
  if (status.ok()) {
    status = CudaStatus(driver_->DeviceGetName(name, sizeof(name), device_),
                        "cuDeviceGetName");
  }
  if (status.ok()) {
    status = CudaStatus(driver_->DevicePrimaryCtxRetain(&context_, device_),
                        "cuDevicePrimaryCtxRetain");
  }
  if (status.ok()) status = Enter();
  if (status.ok()) {
    status = CudaStatus(driver_->MemGetInfo(&free_bytes_, &total_bytes),
                        "cuMemGetInfo");
  }
  name_ = name;
  return status;
}

DemoDevice::~DemoDevice() {
  if (context_ != nullptr) (void)driver_->DevicePrimaryCtxRelease(device_);
}

absl::Status DemoDevice::Enter() const {
  return CudaStatus(driver_->CtxSetCurrent(context_), "cuCtxSetCurrent");
}

std::vector<std::string> DemoDevice::Hazards() const {
  return machine_ == nullptr ? std::vector<std::string>() : machine_->Hazards();
}

}  // namespace pinring::cli
