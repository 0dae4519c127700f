#include "tests/support/testbed.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "src/driver/loader.h"
#include "src/driver/status.h"
#include "src/os/check.h"
#include "tests/support/test_kernels.h"

namespace pinring {
namespace {

constexpr size_t kFlagBytes = 64;
constexpr size_t kFlags = 4096;

// A testbed that cannot be set up ends the program: no test means anything.
void Must(CUresult code, const char* call) {
  if (code == CUDA_SUCCESS) return;
  PINRING_CHECK(code == CUDA_SUCCESS,
                absl::StrCat(call, ": ", CudaCodeName(code)).c_str());
}

const absl::StatusOr<Driver>& NativeDriver() {
  static const auto* const driver = new absl::StatusOr<Driver>(LoadDriver());
  return *driver;
}

}  // namespace

bool TestsRunNatively() {
  const char* choice = std::getenv("PINRING_TEST_DRIVER");
  if (choice == nullptr || std::strcmp(choice, "simcuda") == 0) return false;
  PINRING_CHECK(std::strcmp(choice, "native") == 0,
                "PINRING_TEST_DRIVER must be simcuda or native");
  return true;
}

bool HappensWithin(absl::Duration limit, absl::FunctionRef<bool()> ready) {
  const absl::Time end = absl::Now() + limit;
  while (!ready()) {
    if (absl::Now() >= end) return ready();
    absl::SleepFor(absl::Microseconds(200));
  }
  return true;
}

std::string Testbed::WhySkip() {
  if (!TestsRunNatively() || NativeDriver().ok()) return "";
  return absl::StrCat(
      "SKIPPED: nothing here was tested on a GPU, as the NVIDIA driver cannot "
      "be used (",
      NativeDriver().status().ToString(),
      "). On a machine with one, run this program with "
      "PINRING_TEST_DRIVER=native; without that variable it tests the "
      "simulated device.");
}

Testbed::Testbed(simcuda::MachineOptions options) {
  compute_queues_ = options.compute_queues;
  h2d_queues_ = options.h2d_queues;
  int connections = 0;
  const char* text = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  if (text != nullptr && absl::SimpleAtoi(text, &connections)) {
    compute_queues_ = h2d_queues_ = std::clamp(connections, 1, 32);
    options.compute_queues = compute_queues_;
    options.h2d_queues = options.d2h_queues = h2d_queues_;
  }
  if (TestsRunNatively()) {
    driver_ = *NativeDriver();
  } else {
    machine_ = std::make_unique<simcuda::Machine>(options, nullptr);
    RegisterTestKernels(*machine_);
    driver_ = machine_->driver();
  }
  Must(driver_.Init(0), "cuInit");
  Must(driver_.DeviceGet(&device_, 0), "cuDeviceGet");
  Must(driver_.DevicePrimaryCtxRetain(&context_, device_),
       "cuDevicePrimaryCtxRetain");
  UseContext();
  Must(driver_.ModuleLoadData(&module_, kTestKernelsPtx), "cuModuleLoadData");
  Must(driver_.ModuleGetFunction(&hold_, module_, kHoldKernel), kHoldKernel);
  Must(driver_.ModuleGetFunction(&fill_, module_, kFillKernel), kFillKernel);
  Must(driver_.ModuleGetFunction(&add_one_, module_, kAddOneKernel),
       kAddOneKernel);
  flags_ = PinnedBuffer(kFlags * kFlagBytes);
  // Loaded now, so that no first launch waits for a gate later.
  const CUdeviceptr scratch = DeviceBuffer(sizeof(uint32_t));
  LaunchHold(nullptr, PinnedFlag(), 0);
  LaunchFill(nullptr, scratch, sizeof(uint32_t), 0);
  LaunchAddOne(nullptr, scratch);
  Must(driver_.CtxSynchronize(), "cuCtxSynchronize");
}

Testbed::~Testbed() {
  OpenGates();
  // A test may have left the context broken; then nothing here can be done, and
  // the reset frees all.
  if (driver_.CtxSynchronize() == CUDA_SUCCESS) {
    for (CUstream stream : streams_) driver_.StreamDestroy(stream);
    for (CUdeviceptr buffer : device_buffers_) driver_.MemFree(buffer);
    for (void* buffer : pinned_buffers_) driver_.MemFreeHost(buffer);
    driver_.ModuleUnload(module_);
  } else {
    driver_.DevicePrimaryCtxReset(device_);
  }
  driver_.CtxSetCurrent(nullptr);
  driver_.DevicePrimaryCtxRelease(device_);
}

void Testbed::OpenGates() const {
  for (uint32_t* flag : gate_flags_) {
    std::atomic_ref<uint32_t>(*flag).store(1, std::memory_order_release);
  }
}

void Testbed::UseContext() const {
  Must(driver_.CtxSetCurrent(context_), "cuCtxSetCurrent");
}

CUstream Testbed::Stream(unsigned flags) {
  CUstream stream = nullptr;
  Must(driver_.StreamCreateWithPriority(&stream, flags, 0),
       "cuStreamCreateWithPriority");
  streams_.push_back(stream);
  return stream;
}

CUdeviceptr Testbed::DeviceBuffer(size_t bytes) {
  CUdeviceptr buffer = 0;
  Must(driver_.MemAlloc(&buffer, bytes), "cuMemAlloc");
  device_buffers_.push_back(buffer);
  return buffer;
}

char* Testbed::PinnedBuffer(size_t bytes) {
  void* buffer = nullptr;
  Must(driver_.MemHostAlloc(&buffer, bytes, 0), "cuMemHostAlloc");
  pinned_buffers_.push_back(buffer);
  std::memset(buffer, 0, bytes);
  return static_cast<char*>(buffer);
}

uint32_t* Testbed::PinnedFlag() {
  PINRING_CHECK(flags_used_ < kFlags, "a test uses too many flags");
  return reinterpret_cast<uint32_t*>(flags_ + kFlagBytes * flags_used_++);
}

void Testbed::Launch(CUfunction function, unsigned blocks, CUstream stream,
                     void** parameters) {
  Must(driver_.LaunchKernel(function, blocks, 1, 1, blocks == 1 ? 1 : 256, 1, 1,
                            0, stream, parameters, nullptr),
       "cuLaunchKernel");
}

void Testbed::LaunchHold(CUstream stream, const uint32_t* flag,
                         uint32_t value) {
  void* parameters[] = {&flag, &value};
  Launch(hold_, 1, stream, parameters);
}

void Testbed::LaunchFill(CUstream stream, CUdeviceptr dst, size_t bytes,
                         uint32_t seed) {
  uint64_t length = bytes;
  void* parameters[] = {&dst, &length, &seed};
  Launch(fill_, bytes <= 4096 ? 1 : 64, stream, parameters);
}

void Testbed::LaunchAddOne(CUstream stream, CUdeviceptr counter) {
  void* parameters[] = {&counter};
  Launch(add_one_, 1, stream, parameters);
}

PointerAttributes Testbed::AttributesOf(const void* pointer) const {
  PointerAttributes a;
  CUpointer_attribute names[] = {
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
      CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER};
  void* values[] = {&a.type, &a.device, &a.device_pointer, &a.host_pointer};
  Must(driver_.PointerGetAttributes(4, names, values,
                                    reinterpret_cast<CUdeviceptr>(pointer)),
       "cuPointerGetAttributes");
  return a;
}

bool Testbed::Idle(CUstream stream) const {
  return driver_.StreamQuery(stream) == CUDA_SUCCESS;
}

Gate::Gate(Testbed& testbed) : testbed_(testbed), flag_(testbed.PinnedFlag()) {
  testbed_.gate_flags_.push_back(flag_);
}

void Gate::Open() {
  std::atomic_ref<uint32_t>(*flag_).store(1, std::memory_order_release);
}

CallOnThread::CallOnThread(const Testbed& testbed,
                           std::function<CUresult()> call)
    : testbed_(testbed), thread_([this, &testbed, call = std::move(call)] {
        testbed.UseContext();
        result_ = call();
        done_.Notify();
      }) {}

CallOnThread::~CallOnThread() {
  if (!done_.HasBeenNotified()) {
    testbed_.OpenGates();
    result();
  }
  thread_.join();
}

CUresult CallOnThread::result() {
  PINRING_CHECK(done_.WaitForNotificationWithTimeout(absl::Minutes(2)),
                "a call on a thread of its own never returned");
  return result_;
}

}  // namespace pinring
