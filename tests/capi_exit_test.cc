// A program that ends with copies in flight and frees blocks from a static
// destructor: no crash, no hang, no message (but the usage tables, where they
// are asked for). Not a GoogleTest program, since its end is what is tested.

#include <cuda.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "include/pinring/pinring.h"
#include "src/capi/default_instance.h"
#include "src/simcuda/machine.h"

namespace {

constexpr size_t kBytes = size_t{8} << 20;

void Check(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::_Exit(1);
}

// Frees when everything else of the program is gone.
struct LateOwner {
  void* idle = nullptr;
  void* in_flight = nullptr;
  ~LateOwner() {
    Check(pinringFreeHost(idle) == cudaSuccess, "free of an idle block");
    Check(pinringFreeHost(in_flight) == cudaSuccess,
          "free of a block in flight");
  }
};

LateOwner owner;

void UseTheLibrary() {
  // A driver outlives the program that uses it.
  static pinring::simcuda::Machine* machine = nullptr;
  machine = new pinring::simcuda::Machine({}, nullptr);
  const pinring::Driver& driver = machine->driver();
  Check(driver.Init(0) == CUDA_SUCCESS, "cuInit");
  pinring::ResetDefaultInstanceForTesting(&driver);
  Check(pinringMallocHost(&owner.idle, kBytes) == cudaSuccess, "allocation");
  Check(pinringMallocHost(&owner.in_flight, kBytes) == cudaSuccess,
        "allocation");
  std::memset(owner.in_flight, 1, kBytes);
  CUcontext context = nullptr;
  CUdeviceptr device = 0;
  Check(driver.DevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS, "context");
  Check(driver.CtxSetCurrent(context) == CUDA_SUCCESS, "context");
  Check(driver.MemAlloc(&device, kBytes) == CUDA_SUCCESS, "device memory");
  for (int i = 0; i < 4; ++i) {
    Check(pinringMemcpyAsync(reinterpret_cast<void*>(device), owner.in_flight,
                             kBytes, cudaMemcpyHostToDevice,
                             cudaStreamPerThread) == cudaSuccess,
          "copy");
  }
}

}  // namespace

#if defined(PINRING_TEST_LIBRARY)

// In a DLL, whose static objects are destroyed when the movers are gone.
extern "C" __declspec(dllexport) void UseTheLibraryFromALibrary() {
  std::thread(&UseTheLibrary).join();
}

#else

int main() {
  // Not on this thread: what a simulated device knows about a thread goes
  // with the thread's locals, before static destructors run on it.
  std::thread(&UseTheLibrary).join();
  return 0;
}

#endif
