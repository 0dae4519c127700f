// A simulated machine under a scheduler, for tests of what only it has.

#ifndef PINRING_TESTS_SUPPORT_SCHEDULED_MACHINE_H_
#define PINRING_TESTS_SUPPORT_SCHEDULED_MACHINE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include "src/simcuda/machine.h"
#include "src/simcuda/scheduler.h"
#include "tests/support/test_kernels.h"

namespace pinring::simcuda {

#define EXPECT_CU(call) EXPECT_EQ((call), CUDA_SUCCESS)
#define ASSERT_CU(call) ASSERT_EQ((call), CUDA_SUCCESS)

inline MachineOptions SmallMachine() {
  MachineOptions options;
  options.device_bytes = 1 << 20;
  options.copy_step_bytes = 64;
  options.small_copy_bytes = 256;
  return options;
}

// A machine under a scheduler, with a context, memory and a flag for gates.
class Scheduled {
 public:
  explicit Scheduled(uint64_t seed,
                     const MachineOptions& options = SmallMachine())
      : scheduler(seed), machine(options, &scheduler), cu(machine.driver()) {
    RegisterTestKernels(machine);
    EXPECT_CU(cu.Init(0));
    EXPECT_CU(cu.DevicePrimaryCtxRetain(&context, 0));
    EXPECT_CU(cu.CtxSetCurrent(context));
    EXPECT_CU(cu.MemHostAlloc(reinterpret_cast<void**>(&host), 8192, 0));
    EXPECT_CU(cu.MemAlloc(&device, 8192));
    std::memset(host, 0, 8192);
    flag = reinterpret_cast<uint32_t*>(host + 8128);
    CUmodule module = nullptr;
    EXPECT_CU(cu.ModuleLoadData(&module, "eager"));
    EXPECT_CU(cu.ModuleGetFunction(&hold, module, kHoldKernel));
  }

  CUstream NewStream() {
    CUstream stream = nullptr;
    EXPECT_CU(cu.StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    return stream;
  }
  void Hold(CUstream stream) {
    uint32_t value = 1;
    void* parameters[] = {&flag, &value};
    EXPECT_CU(cu.LaunchKernel(hold, 1, 1, 1, 1, 1, 1, 0, stream, parameters,
                              nullptr));
  }
  void Open() {
    std::atomic_ref<uint32_t>(*flag).store(1, std::memory_order_release);
  }
  void Add(std::string name, std::function<void()> body) {
    scheduler.AddCaller(std::move(name), [this, body = std::move(body)] {
      EXPECT_CU(cu.CtxSetCurrent(context));
      body();
    });
  }
  Scheduler::Outcome Run() { return scheduler.Run(100000); }

  Scheduler scheduler;
  Machine machine;
  const Driver& cu;
  CUcontext context = nullptr;
  char* host = nullptr;
  CUdeviceptr device = 0;
  uint32_t* flag = nullptr;
  CUfunction hold = nullptr;
};

}  // namespace pinring::simcuda

#endif  // PINRING_TESTS_SUPPORT_SCHEDULED_MACHINE_H_
