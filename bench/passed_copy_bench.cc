// What pinring adds to a copy that is none of its business: the same call on
// the driver's table, on an Instance, and through the C function. The driver
// does nothing here, so that the difference is all that is measured.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "benchmark/benchmark.h"
#include "include/pinring/pinring.h"
#include "src/capi/default_instance.h"
#include "src/capi/instance.h"
#include "src/capi/options.h"
#include "src/driver/driver.h"

namespace pinring {
namespace {

constexpr size_t kBytes = 4096;
// So that the address map is not empty.
constexpr size_t kBlockBytes = size_t{8} << 20;
constexpr CUdeviceptr kDevice = 0x7fff00000000;

CUresult CUDAAPI CopyNothing(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
                             CUstream) {
  benchmark::DoNotOptimize(dst);
  benchmark::DoNotOptimize(src);
  benchmark::DoNotOptimize(bytes);
  return CUDA_SUCCESS;
}

// A driver whose copies return at once. Nothing else of it may be called, but
// for what an allocation asks.
const Driver& IdleDriver() {
  static const Driver driver = [] {
    Driver idle;
    idle.MemcpyAsync = &CopyNothing;
    idle.CtxGetCurrent = [](CUcontext* context) {
      *context = nullptr;
      return CUDA_SUCCESS;
    };
    return idle;
  }();
  return driver;
}

void BM_PassedCopyDriver(benchmark::State& state) {
  std::vector<char> heap(kBytes);
  const Driver& driver = IdleDriver();
  for (auto _ : state) {
    const CUresult code = driver.MemcpyAsync(
        kDevice, reinterpret_cast<CUdeviceptr>(heap.data()), kBytes, nullptr);
    benchmark::DoNotOptimize(code);
  }
}
BENCHMARK(BM_PassedCopyDriver);

// What it takes longer than BM_PassedCopyDriver should be at most 30 ns.
void BM_PassedCopyOverhead(benchmark::State& state, cudaMemcpyKind kind) {
  AddressMap blocks;
  const auto instance = Instance::Create(&IdleDriver(), Options(), &blocks);
  void* block = nullptr;
  if (!instance.ok() || !(*instance)->HostAlloc(&block, kBlockBytes, 0).ok()) {
    state.SkipWithError("no instance with a block");
    return;
  }
  std::vector<char> heap(kBytes);
  for (auto _ : state) {
    const absl::Status status = (*instance)->MemcpyAsync(
        reinterpret_cast<void*>(kDevice), heap.data(), kBytes, kind, nullptr);
    benchmark::DoNotOptimize(status.ok());
  }
}
BENCHMARK_CAPTURE(BM_PassedCopyOverhead, host_to_device,
                  cudaMemcpyHostToDevice);
BENCHMARK_CAPTURE(BM_PassedCopyOverhead, default, cudaMemcpyDefault);

// Through pinringMemcpyAsync.
void BM_PassedCopyCFunction(benchmark::State& state) {
  ResetDefaultInstanceForTesting(&IdleDriver());
  std::vector<char> heap(kBytes);
  void* block = nullptr;
  if (pinringMallocHost(&block, kBlockBytes) != cudaSuccess) {
    state.SkipWithError("no instance with a block");
    return;
  }
  for (auto _ : state) {
    const cudaError_t code =
        pinringMemcpyAsync(reinterpret_cast<void*>(kDevice), heap.data(),
                           kBytes, cudaMemcpyHostToDevice, nullptr);
    benchmark::DoNotOptimize(code);
  }
  (void)pinringFreeHost(block);
  ResetDefaultInstanceForTesting(nullptr);
}
BENCHMARK(BM_PassedCopyCFunction);

}  // namespace
}  // namespace pinring
