// A program that uses pinring until its standard input ends: for `pinring top`
// to look at. On the simulated device.

#include <cstddef>
#include <cstdio>
#include <cstdlib>

#include "include/pinring/pinring.h"
#include "src/capi/default_instance.h"
#include "src/os/threads.h"
#include "src/simcuda/machine.h"

int main() {
  pinring::simcuda::MachineOptions options;
  options.check_hazards = false;
  auto* machine = new pinring::simcuda::Machine(options, nullptr);
  pinring::ResetDefaultInstanceForTesting(&machine->driver());
  constexpr size_t kBytes = size_t{1} << 20;
  CUdeviceptr device = 0;
  CUcontext context = nullptr;
  const auto& driver = machine->driver();
  void* block = nullptr;
  if (driver.Init(0) != CUDA_SUCCESS ||
      driver.DevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
      driver.CtxSetCurrent(context) != CUDA_SUCCESS ||
      driver.MemAlloc(&device, kBytes) != CUDA_SUCCESS ||
      pinringPushCategory("weights") != cudaSuccess ||
      pinringMallocHost(&block, kBytes) != cudaSuccess) {
    std::fprintf(stderr, "%s\n", pinringGetLastErrorMessage());
    return 1;
  }
  std::puts("ready");
  std::fflush(stdout);
  auto reader = pinring::os::Thread::Start("reader", [] {
    while (std::getchar() != EOF) {
    }
    std::exit(0);
  });
  if (!reader.ok()) return 1;
  for (;;) {
    if (pinringMemcpy(reinterpret_cast<void*>(device), block, kBytes,
                      cudaMemcpyHostToDevice) != cudaSuccess) {
      return 1;
    }
    pinring::os::SleepMicros(2000);
  }
}
