// What else a program does while copies are in flight: above all the calls
// that wait for the device and hold the driver's lock meanwhile.

#include <random>

#include "absl/time/clock.h"
#include "tests/support/random_bytes.h"
#include "tests/support/stress.h"
#include "tests/support/test_kernels.h"

namespace pinring {
namespace {

void Rest(std::mt19937_64& random) {
  absl::SleepFor(absl::Microseconds(random() % 2000));
}

void AllocateDeviceMemory(Stress& stress, StressThread& self) {
  const Driver& driver = stress.bed->driver();
  std::mt19937_64 random(stress.seed + 1);
  while (!stress.stop.load()) {
    CUdeviceptr pointer = 0;
    self.state.store("cuMemAlloc");
    self.Expect("cuMemAlloc",
                driver.MemAlloc(&pointer, 1 + random() % (size_t{1} << 20)));
    self.state.store("cuMemFree");
    self.Expect("cuMemFree", driver.MemFree(pointer));
    self.rounds.fetch_add(1);
    Rest(random);
  }
}

void AllocatePinnedMemory(Stress& stress, StressThread& self) {
  const Driver& driver = stress.bed->driver();
  std::mt19937_64 random(stress.seed + 2);
  while (!stress.stop.load()) {
    void* pointer = nullptr;
    self.state.store("cuMemHostAlloc");
    self.Expect("cuMemHostAlloc",
                driver.MemHostAlloc(&pointer, 1 + random() % 100000, 0));
    self.state.store("cuMemFreeHost");
    self.Expect("cuMemFreeHost", driver.MemFreeHost(pointer));
    self.rounds.fetch_add(1);
    Rest(random);
  }
}

// On streams that share the hardware queues with the workers'.
void CopyNatively(Stress& stress, StressThread& self) {
  const Driver& driver = stress.bed->driver();
  const size_t bytes = stress.most_bytes;
  std::mt19937_64 random(stress.seed + 3);
  CUstream streams[3] = {};
  for (CUstream& stream : streams) {
    self.Expect(
        "cuStreamCreateWithPriority",
        driver.StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
  }
  void* source = nullptr;
  void* target = nullptr;
  CUdeviceptr device = 0;
  self.Expect("cuMemHostAlloc", driver.MemHostAlloc(&source, bytes, 0));
  self.Expect("cuMemHostAlloc", driver.MemHostAlloc(&target, bytes, 0));
  self.Expect("cuMemAlloc", driver.MemAlloc(&device, bytes));
  while (!stress.stop.load()) {
    const CUstream stream = streams[random() % 3];
    const uint64_t seed = random();
    const size_t length = 1 + random() % bytes;
    FillRandom(source, length, seed);
    self.state.store("copies natively");
    self.Expect("cuMemcpyHtoDAsync",
                driver.MemcpyHtoDAsync(device, source, length, stream));
    self.Expect("cuMemcpyDtoHAsync",
                driver.MemcpyDtoHAsync(target, device, length, stream));
    self.state.store("waits for native copies");
    self.Expect("cuStreamSynchronize", driver.StreamSynchronize(stream));
    self.wrong_bytes.fetch_add(WrongBytes(target, length, seed));
    self.bytes.fetch_add(2 * length);
    self.rounds.fetch_add(1);
    Rest(random);
  }
  for (const CUstream stream : streams) {
    self.Expect("cuStreamDestroy", driver.StreamDestroy(stream));
  }
  self.Expect("cuMemFree", driver.MemFree(device));
  self.Expect("cuMemFreeHost", driver.MemFreeHost(source));
  self.Expect("cuMemFreeHost", driver.MemFreeHost(target));
}

// Streams that are destroyed with work queued.
void ReplaceStreams(Stress& stress, StressThread& self) {
  const Driver& driver = stress.bed->driver();
  const size_t bytes = stress.most_bytes / 4 + 1;
  std::mt19937_64 random(stress.seed + 4);
  CUdeviceptr device = 0;
  self.Expect("cuMemAlloc", driver.MemAlloc(&device, 2 * bytes));
  void* source = nullptr;
  void* target = nullptr;
  self.Expect("alloc", stress.api->Alloc(&source, bytes));
  self.Expect("alloc", stress.api->Alloc(&target, bytes));
  while (!stress.stop.load()) {
    CUstream stream = nullptr;
    const uint64_t seed = random();
    FillRandom(source, bytes, seed);
    self.state.store("creates a stream");
    self.Expect(
        "cuStreamCreateWithPriority",
        driver.StreamCreateWithPriority(
            &stream, random() % 2 == 0 ? CU_STREAM_NON_BLOCKING : 0, 0));
    stress.bed->LaunchFill(stream, device + bytes, 100, 1);
    self.Expect("copy in",
                stress.api->CopyAsync(reinterpret_cast<void*>(device), source,
                                      bytes, stream));
    self.Expect("copy out",
                stress.api->CopyAsync(target, reinterpret_cast<void*>(device),
                                      bytes, stream));
    {
      const RecordedEvent event(driver, stream);
      self.state.store("destroys a stream with work queued");
      self.Expect("cuStreamDestroy", driver.StreamDestroy(stream));
      self.state.store("waits for a destroyed stream's event");
      self.Expect("cuEventSynchronize", driver.EventSynchronize(event.get()));
    }
    self.wrong_bytes.fetch_add(WrongBytes(target, bytes, seed));
    self.bytes.fetch_add(2 * bytes);
    self.rounds.fetch_add(1);
    Rest(random);
  }
  self.Expect("free", stress.api->Free(source));
  self.Expect("free", stress.api->Free(target));
  self.Expect("cuMemFree", driver.MemFree(device));
}

void LoadModules(Stress& stress, StressThread& self) {
  const Driver& driver = stress.bed->driver();
  std::mt19937_64 random(stress.seed + 5);
  CUdeviceptr counter = 0;
  CUstream stream = nullptr;
  self.Expect("cuMemAlloc", driver.MemAlloc(&counter, sizeof(uint32_t)));
  self.Expect(
      "cuStreamCreateWithPriority",
      driver.StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
  while (!stress.stop.load()) {
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    self.state.store("loads a module");
    self.Expect("cuModuleLoadData",
                driver.ModuleLoadData(&module, kTestKernelsPtx));
    self.Expect("cuModuleGetFunction",
                driver.ModuleGetFunction(&function, module, kAddOneKernel));
    void* parameters[] = {&counter};
    self.state.store("launches a kernel for the first time");
    self.Expect("cuLaunchKernel",
                driver.LaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream,
                                    parameters, nullptr));
    self.state.store("waits for the kernel");
    self.Expect("cuStreamSynchronize", driver.StreamSynchronize(stream));
    self.state.store("unloads a module");
    self.Expect("cuModuleUnload", driver.ModuleUnload(module));
    self.rounds.fetch_add(1);
    Rest(random);
  }
  self.Expect("cuStreamDestroy", driver.StreamDestroy(stream));
  self.Expect("cuMemFree", driver.MemFree(counter));
}

void SynchronizeTheDevice(Stress& stress, StressThread& self) {
  std::mt19937_64 random(stress.seed + 6);
  while (!stress.stop.load()) {
    self.state.store("cuCtxSynchronize");
    self.Expect("cuCtxSynchronize", stress.bed->driver().CtxSynchronize());
    self.rounds.fetch_add(1);
    Rest(random);
  }
}

}  // namespace

std::vector<StressNeighbour> StressNeighbours() {
  return {{"device allocation", AllocateDeviceMemory},
          {"pinned allocation", AllocatePinnedMemory},
          {"native copies", CopyNatively},
          {"streams", ReplaceStreams},
          {"modules", LoadModules},
          {"device synchronization", SynchronizeTheDevice}};
}

}  // namespace pinring
