#include "src/capi/contexts.h"

#include "absl/strings/str_cat.h"
#include "src/driver/status.h"

namespace pinring {
namespace {

constexpr int kDefaultDevice = 0;

}  // namespace

Contexts::~Contexts() {
  absl::MutexLock lock(&mutex_);
  for (const auto& [device, context] : retained_) {
    (void)driver_.DevicePrimaryCtxRelease(device);
  }
}

absl::Status Contexts::EnsureCurrent() {
  CUcontext current = nullptr;
  if (const CUresult code = driver_.CtxGetCurrent(&current);
      code != CUDA_SUCCESS) {
    return CudaStatus(code, "cuCtxGetCurrent");
  }
  return current != nullptr ? absl::OkStatus()
                            : MakePrimaryCurrent(kDefaultDevice);
}

absl::Status Contexts::SetDevice(int ordinal) {
  CUcontext current = nullptr;
  CUdevice device = 0;
  if (driver_.CtxGetCurrent(&current) == CUDA_SUCCESS && current != nullptr &&
      driver_.CtxGetDevice(&device) == CUDA_SUCCESS && device == ordinal) {
    return absl::OkStatus();
  }
  return MakePrimaryCurrent(ordinal);
}

absl::StatusOr<CUcontext> Contexts::Primary(int ordinal) {
  CUdevice device = 0;
  if (const CUresult code = driver_.DeviceGet(&device, ordinal);
      code != CUDA_SUCCESS) {
    return CudaStatus(code, absl::StrCat("cuDeviceGet of device ", ordinal));
  }
  absl::MutexLock lock(&mutex_);
  unsigned flags = 0;
  int active = 0;
  if (const CUresult code =
          driver_.DevicePrimaryCtxGetState(device, &flags, &active);
      code != CUDA_SUCCESS) {
    return CudaStatus(code, "cuDevicePrimaryCtxGetState");
  }
  // A reset of the device takes the context away from everyone who retained it.
  const auto known = retained_.find(device);
  if (known == retained_.end() || active == 0) {
    CUcontext context = nullptr;
    if (const CUresult code = driver_.DevicePrimaryCtxRetain(&context, device);
        code != CUDA_SUCCESS) {
      retained_.erase(device);
      return CudaStatus(code, "cuDevicePrimaryCtxRetain");
    }
    retained_[device] = context;
  }
  return retained_[device];
}

absl::Status Contexts::MakePrimaryCurrent(int ordinal) {
  const auto primary = Primary(ordinal);
  if (!primary.ok()) return primary.status();
  return CudaStatus(driver_.CtxSetCurrent(*primary), "cuCtxSetCurrent");
}

absl::Status Contexts::OrderAfter(CUcontext other, CUstream stream) {
  CUcontext current = nullptr;
  absl::Status status =
      CudaStatus(driver_.CtxGetCurrent(&current), "cuCtxGetCurrent");
  if (!status.ok() || other == current) return status;
  status = CudaStatus(driver_.CtxPushCurrent(other), "cuCtxPushCurrent");
  if (!status.ok()) return status;
  CUevent here = nullptr;
  status = CudaStatus(driver_.EventCreate(&here, CU_EVENT_DISABLE_TIMING),
                      "cuEventCreate");
  if (status.ok()) {
    status = CudaStatus(driver_.EventRecord(here, nullptr), "cuEventRecord");
  }
  // A driver that gathers work hands it on when it is asked about it. Nobody
  // may ask the stream.
  if (status.ok()) (void)driver_.EventQuery(here);
  CUcontext popped = nullptr;
  status.Update(CudaStatus(driver_.CtxPopCurrent(&popped), "cuCtxPopCurrent"));
  if (status.ok()) {
    status = CudaStatus(driver_.StreamWaitEvent(stream, here, 0),
                        "cuStreamWaitEvent");
  }
  if (here != nullptr) {
    status.Update(CudaStatus(driver_.EventDestroy(here), "cuEventDestroy"));
  }
  return status;
}

// Freeing memory waits as cuCtxSynchronize does, which ends any capture of the
// context's streams, whatever the mode.
absl::Status Contexts::WaitForCurrent() {
  CUdeviceptr memory = 0;
  const CUresult code = driver_.MemAlloc(&memory, 1);
  if (code == CUDA_SUCCESS) {
    return CudaStatus(driver_.MemFree(memory), "cuMemFree");
  }
  if (code != CUDA_ERROR_OUT_OF_MEMORY) return CudaStatus(code, "cuMemAlloc");
  return CudaStatus(driver_.CtxSynchronize(), "cuCtxSynchronize");
}

absl::Status Contexts::SynchronizePrimary(CUdevice device, CUcontext current) {
  unsigned flags = 0;
  int active = 0;
  if (driver_.DevicePrimaryCtxGetState(device, &flags, &active) !=
          CUDA_SUCCESS ||
      active == 0) {
    return absl::OkStatus();
  }
  // Retained for as long as it is looked at; active, so nothing is made.
  CUcontext primary = nullptr;
  absl::Status status =
      CudaStatus(driver_.DevicePrimaryCtxRetain(&primary, device),
                 "cuDevicePrimaryCtxRetain");
  if (!status.ok()) return status;
  if (primary != current) {
    status = CudaStatus(driver_.CtxPushCurrent(primary), "cuCtxPushCurrent");
    if (status.ok()) {
      status = WaitForCurrent();
      CUcontext popped = nullptr;
      status.Update(
          CudaStatus(driver_.CtxPopCurrent(&popped), "cuCtxPopCurrent"));
    }
  }
  (void)driver_.DevicePrimaryCtxRelease(device);
  return status;
}

absl::Status Contexts::SynchronizeAll() {
  RelaxedCapture relaxed(driver_);
  CUcontext current = nullptr;
  int devices = 0;
  absl::Status status =
      CudaStatus(driver_.CtxGetCurrent(&current), "cuCtxGetCurrent");
  if (status.ok() && current != nullptr) {
    status = WaitForCurrent();
  }
  status.Update(
      CudaStatus(driver_.DeviceGetCount(&devices), "cuDeviceGetCount"));
  for (int ordinal = 0; ordinal < devices; ++ordinal) {
    CUdevice device = 0;
    if (driver_.DeviceGet(&device, ordinal) != CUDA_SUCCESS) continue;
    status.Update(SynchronizePrimary(device, current));
  }
  return status;
}

int Contexts::CurrentDevice() const {
  CUcontext current = nullptr;
  CUdevice device = 0;
  if (driver_.CtxGetCurrent(&current) != CUDA_SUCCESS || current == nullptr ||
      driver_.CtxGetDevice(&device) != CUDA_SUCCESS) {
    return kDefaultDevice;
  }
  // A device's handle is its ordinal.
  return device;
}

}  // namespace pinring
