// The copy kernels over direction, size and threads.
//
// BM_Copy/in/<kernel>: each thread copies its part of a large buffer into a
// 4 MiB slot of its own, as a mover does; BM_Copy/out/<kernel>: the other way.
// BM_SmallCopy: sizes at which what a call costs counts.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "benchmark/benchmark.h"
#include "src/copy/kernels.h"
#include "src/os/pages.h"
#include "src/os/threads.h"

namespace pinring::copy {
namespace {

constexpr size_t kSlotBytes = size_t{4} << 20;
constexpr size_t kBufferBytes = size_t{64} << 20;  // For each thread.

// Populated memory in huge pages where there are any.
class Memory {
 public:
  explicit Memory(size_t bytes) : bytes_(bytes) {
    const auto base = os::ReservePages(bytes, size_t{2} << 20);
    if (!base.ok()) return;
    data_ = static_cast<char*>(*base);
    os::AdviseHuge(data_, bytes).IgnoreError();
    std::memset(data_, 1, bytes);
  }
  ~Memory() {
    if (data_ != nullptr) os::ReleasePages(data_, bytes_).IgnoreError();
  }
  char* data() const { return data_; }

 private:
  size_t bytes_;
  char* data_ = nullptr;
};

void BM_Copy(benchmark::State& state, const Kernel* kernel, bool in) {
  const Memory buffer(kBufferBytes);
  const Memory slot(kSlotBytes);
  if (buffer.data() == nullptr || slot.data() == nullptr) {
    state.SkipWithError("not enough memory");
    return;
  }
  size_t offset = 0;
  for (auto _ : state) {
    char* const part = buffer.data() + offset;
    if (in) {
      kernel->copy(slot.data(), part, kSlotBytes);
    } else {
      kernel->copy(part, slot.data(), kSlotBytes);
    }
    offset = (offset + kSlotBytes) % kBufferBytes;
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(kSlotBytes));
}

void BM_SmallCopy(benchmark::State& state, const Kernel* kernel) {
  const auto bytes = static_cast<size_t>(state.range(0));
  const Memory memory(size_t{4} << 20);
  if (memory.data() == nullptr) {
    state.SkipWithError("not enough memory");
    return;
  }
  for (auto _ : state) {
    kernel->copy(memory.data(), memory.data() + (size_t{2} << 20), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(bytes));
}

void RegisterAll() {
  const int cpus = os::UsableCpus();
  for (const Kernel& kernel : AllKernels()) {
    if (!kernel.supported) continue;
    for (const bool in : {true, false}) {
      const std::string name =
          std::string("BM_Copy/") + (in ? "in/" : "out/") + kernel.name;
      auto* const benchmark =
          benchmark::RegisterBenchmark(name.c_str(), BM_Copy, &kernel, in)
              ->UseRealTime();
      for (int threads = 1; threads < cpus; threads *= 2) {
        benchmark->Threads(threads);
      }
      benchmark->Threads(cpus);
    }
    benchmark::RegisterBenchmark(
        (std::string("BM_SmallCopy/") + kernel.name).c_str(), BM_SmallCopy,
        &kernel)
        ->ArgName("bytes")
        ->Arg(64)
        ->Arg(4096)
        ->Arg(8192)
        ->Arg(65536);
  }
}

}  // namespace
}  // namespace pinring::copy

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  pinring::copy::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
