// A device to test on: the simulated one with real threads, or a GPU.
//
// PINRING_TEST_DRIVER chooses: "simcuda" (when unset) or "native". The same
// tests run on both; that is what shows that the simulated device behaves as
// the real one does. CUDA_DEVICE_MAX_CONNECTIONS means the same to both.
//
// A test creates its testbed first and destroys it last. What it made through
// the testbed is freed by it; gates are opened before.

#ifndef PINRING_TESTS_SUPPORT_TESTBED_H_
#define PINRING_TESTS_SUPPORT_TESTBED_H_

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "src/driver/driver.h"
#include "src/simcuda/machine.h"

namespace pinring {

// True when tests are to run on a GPU.
bool TestsRunNatively();

// How long a test waits before it says that something is stuck, and before it
// gives up on something that should happen.
inline constexpr absl::Duration kStuck = absl::Milliseconds(500);
inline constexpr absl::Duration kHappens = absl::Seconds(20);

// Asks until `ready` or `limit` has passed; returns what it answered last.
bool HappensWithin(absl::Duration limit, absl::FunctionRef<bool()> ready);

// What cuPointerGetAttributes says.
struct PointerAttributes {
  unsigned type = 0;  // CUmemorytype; 0 for memory the driver does not know
  int device = 0;
  CUdeviceptr device_pointer = 0;
  CUdeviceptr host_pointer = 0;
};

class Testbed {
 public:
  // Empty when a testbed can be made. Otherwise what is missing, what is not
  // tested then and how to run it: for GTEST_SKIP.
  static std::string WhySkip();

  // `options` is for the simulated device; its numbers of queues are replaced
  // as CUDA_DEVICE_MAX_CONNECTIONS says, if that is set. The primary context of
  // device 0 is made current, and the test kernels are loaded and were
  // launched.
  explicit Testbed(simcuda::MachineOptions options = {});
  ~Testbed();
  Testbed(const Testbed&) = delete;
  Testbed& operator=(const Testbed&) = delete;

  const Driver& driver() const { return driver_; }
  simcuda::Machine* machine() const { return machine_.get(); }  // null natively
  CUdevice device() const { return device_; }
  CUcontext context() const { return context_; }
  // Hardware queues for kernels and for copies to the device, as the driver
  // makes them.
  int compute_queues() const { return compute_queues_; }
  int h2d_queues() const { return h2d_queues_; }

  CUstream NonBlockingStream() { return Stream(CU_STREAM_NON_BLOCKING); }
  CUstream BlockingStream() { return Stream(CU_STREAM_DEFAULT); }
  CUdeviceptr DeviceBuffer(size_t bytes);
  char* PinnedBuffer(size_t bytes);  // zeroed
  uint32_t* PinnedFlag();            // zero, in a cache line of its own

  // cuLaunchKernel of the test kernels (test_kernels.h).
  void LaunchHold(CUstream stream, const uint32_t* flag, uint32_t value);
  void LaunchFill(CUstream stream, CUdeviceptr dst, size_t bytes,
                  uint32_t seed);
  void LaunchAddOne(CUstream stream, CUdeviceptr counter);

  PointerAttributes AttributesOf(const void* pointer) const;
  // Whether the stream's work is done now.
  bool Idle(CUstream stream) const;
  // Makes the context current on the calling thread.
  void UseContext() const;
  // Opens every gate made so far.
  void OpenGates() const;

 private:
  friend class Gate;

  CUstream Stream(unsigned flags);
  void Launch(CUfunction function, unsigned blocks, CUstream stream,
              void** parameters);

  std::unique_ptr<simcuda::Machine> machine_;
  Driver driver_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUmodule module_ = nullptr;
  CUfunction hold_ = nullptr;
  CUfunction fill_ = nullptr;
  CUfunction add_one_ = nullptr;
  int compute_queues_ = 0;
  int h2d_queues_ = 0;
  std::vector<CUstream> streams_;
  std::vector<CUdeviceptr> device_buffers_;
  std::vector<void*> pinned_buffers_;
  char* flags_ = nullptr;
  size_t flags_used_ = 0;
  std::vector<uint32_t*> gate_flags_;
};

// Holds streams until it is opened, with a kernel that spins on a flag in
// pinned memory. Anyone may open it, any number of times. The testbed opens it
// before it goes.
class Gate {
 public:
  explicit Gate(Testbed& testbed);
  void Hold(CUstream stream) { testbed_.LaunchHold(stream, flag_, 1); }
  void Open();

 private:
  Testbed& testbed_;
  uint32_t* const flag_;
};

// A call made on a thread of its own, to see whether it returns. Destroying it
// opens the testbed's gates if the call has not returned, and waits for it. A
// call that does not return for two minutes with nothing left to hold it ends
// the program.
class CallOnThread {
 public:
  CallOnThread(const Testbed& testbed, std::function<CUresult()> call);
  ~CallOnThread();

  bool Returns() { return done_.WaitForNotificationWithTimeout(kHappens); }
  bool Blocks() { return !done_.WaitForNotificationWithTimeout(kStuck); }
  // Waits for the call.
  CUresult result();

 private:
  const Testbed& testbed_;
  absl::Notification done_;
  CUresult result_ = CUDA_SUCCESS;
  std::thread thread_;
};

// Does something when `limit` passes before it is destroyed: opens what a call
// of the test itself would otherwise wait for without end. Give it a limit that
// no passing test comes near.
class After {
 public:
  After(absl::Duration limit, std::function<void()> action)
      : thread_([this, limit, action = std::move(action)] {
          if (!over_.WaitForNotificationWithTimeout(limit)) action();
        }) {}
  ~After() {
    over_.Notify();
    thread_.join();
  }

 private:
  absl::Notification over_;
  std::thread thread_;
};

}  // namespace pinring

#endif  // PINRING_TESTS_SUPPORT_TESTBED_H_
