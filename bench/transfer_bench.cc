// Copies between host and device: pinned, the driver's pageable way, and
// staged through the ring. On a GPU with PINRING_TEST_DRIVER=native; on the
// simulated device it shows that the benchmark works and measures nothing.
//
// The instance is configured from the environment (`pinring options`). Every
// staged benchmark copies fresh bytes first and compares all of them.

#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "src/capi/instance.h"
#include "src/capi/instances.h"
#include "src/capi/options.h"
#include "src/copy/worker_pool.h"
#include "src/driver/status.h"
#include "src/os/env.h"
#include "src/os/pages.h"
#include "src/os/threads.h"
#include "tests/support/testbed.h"

namespace pinring {
namespace {

enum class Memory { kPinned, kPageable, kStaged };

Testbed& Bed() {
  static Testbed& bed = *new Testbed();
  return bed;
}

Instance& Pinring() {
  static Instance& instance = *[] {
    Options options;
    absl::Status status = ReadEnvironment(os::GetEnv, &options);
    absl::StatusOr<std::unique_ptr<Instance>> made =
        Instance::Create(&Bed().driver(), options, &Blocks());
    if (!status.ok() || !made.ok()) std::abort();
    return made->release();
  }();
  return instance;
}

void Check(CUresult code, benchmark::State& state) {
  if (code != CUDA_SUCCESS) state.SkipWithError("the driver refused a call");
}
void Check(const absl::Status& status, benchmark::State& state) {
  if (!status.ok()) state.SkipWithError(std::string(status.message()).c_str());
}

void FillRandom(char* at, size_t bytes) {
  static std::atomic<uint64_t> seed{std::random_device()()};
  copy::ParallelFor(
      os::UsableCpus(), bytes, size_t{1} << 20, [&](size_t begin, size_t end) {
        std::mt19937_64 random(seed++);
        for (size_t i = begin; i < end; i += 8) {
          const uint64_t value = random();
          std::memcpy(at + i, &value, std::min<size_t>(8, end - i));
        }
      });
}

enum class Path { kInto, kOut, kBoth };

// How one benchmark copies.
struct Plan {
  Memory memory = Memory::kPinned;
  Path path = Path::kInto;
  bool wait = false;  // synchronous copies, of one lane only
  int streams = 1;
};

// A host block, a device buffer and a stream, and copies between them.
class Lane {
 public:
  Lane(Memory memory, size_t bytes, bool to_device, benchmark::State& state)
      : memory_(memory), bytes_(bytes), to_device_(to_device), state_(state) {
    Check(driver_.MemAlloc(&device_, bytes), state);
    Check(driver_.StreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0),
          state);
    host_ = Allocate();
    if (!state.error_occurred()) FillRandom(host_, bytes);
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane() {
    Free(host_);
    (void)driver_.StreamDestroy(stream_);
    (void)driver_.MemFree(device_);
  }

  void Start() { CopyOf(host_, to_device_, false); }
  void Wait() { Check(driver_.StreamSynchronize(stream_), state_); }
  void CopyAndWait() { CopyOf(host_, to_device_, true); }

  // Fresh bytes there, then back into another block: all of them the same.
  void Verify(bool wait) {
    char* back = Allocate();
    if (state_.error_occurred()) return;
    FillRandom(host_, bytes_);
    std::memset(back, 0xEE, bytes_);
    CopyOf(host_, true, wait);
    CopyOf(back, false, wait);
    Wait();
    if (std::memcmp(host_, back, bytes_) != 0) {
      state_.SkipWithError("WRONG BYTES");
    }
    Free(back);
  }

 private:
  void CopyOf(char* host, bool to_device, bool wait) {
    if (memory_ == Memory::kStaged) {
      void* dst = to_device ? reinterpret_cast<void*>(device_) : host;
      void* src = to_device ? host : reinterpret_cast<void*>(device_);
      Check(wait ? Pinring().Memcpy(dst, src, bytes_, cudaMemcpyDefault)
                 : Pinring().MemcpyAsync(dst, src, bytes_, cudaMemcpyDefault,
                                         stream_),
            state_);
    } else if (wait) {
      Check(to_device ? driver_.MemcpyHtoD(device_, host, bytes_)
                      : driver_.MemcpyDtoH(host, device_, bytes_),
            state_);
    } else {
      Check(to_device ? driver_.MemcpyHtoDAsync(device_, host, bytes_, stream_)
                      : driver_.MemcpyDtoHAsync(host, device_, bytes_, stream_),
            state_);
    }
  }

  char* Allocate() {
    void* block = nullptr;
    if (memory_ == Memory::kPinned) {
      Check(driver_.MemHostAlloc(&block, bytes_, 0), state_);
    } else if (memory_ == Memory::kStaged) {
      Check(Pinring().HostAlloc(&block, bytes_, 0), state_);
    } else {
      const auto pages = os::ReservePages(bytes_, size_t{2} << 20);
      Check(pages.status(), state_);
      if (pages.ok()) {
        block = *pages;
        os::AdviseHuge(block, bytes_).IgnoreError();
      }
    }
    return static_cast<char*>(block);
  }
  void Free(char* block) {
    if (block == nullptr) return;
    if (memory_ == Memory::kPinned) {
      (void)driver_.MemFreeHost(block);
    } else if (memory_ == Memory::kStaged) {
      (void)Pinring().FreeHost(block);
    } else {
      os::ReleasePages(block, bytes_).IgnoreError();
    }
  }

  const Driver& driver_ = Bed().driver();
  const Memory memory_;
  const size_t bytes_;
  const bool to_device_;
  benchmark::State& state_;
  CUdeviceptr device_ = 0;
  CUstream stream_ = nullptr;
  char* host_ = nullptr;
};

// state.range(0) bytes on each stream; both ways at once, on half of the
// streams each.
void Transfer(benchmark::State& state, const Plan& plan) {
  Bed().UseContext();
  const auto bytes = static_cast<size_t>(state.range(0));
  std::vector<std::unique_ptr<Lane>> lanes;
  for (int i = 0; i < plan.streams; ++i) {
    const bool to_device =
        plan.path == Path::kBoth ? i % 2 == 0 : plan.path == Path::kInto;
    lanes.push_back(
        std::make_unique<Lane>(plan.memory, bytes, to_device, state));
    if (state.error_occurred()) return;
    if (plan.memory == Memory::kStaged) lanes.back()->Verify(plan.wait);
    lanes.back()->CopyAndWait();
    if (state.error_occurred()) return;
  }
  for (auto _ : state) {
    if (plan.wait) {
      lanes.front()->CopyAndWait();
      continue;
    }
    for (auto& lane : lanes) lane->Start();
    for (auto& lane : lanes) lane->Wait();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * plan.streams);
}

// A block of pinned or of staged memory, allocated, its first byte of each page
// written where state.range(1) says so, and freed.
void Allocation(benchmark::State& state, Memory memory) {
  Bed().UseContext();
  const Driver& driver = Bed().driver();
  const auto bytes = static_cast<size_t>(state.range(0));
  for (auto _ : state) {
    void* block = nullptr;
    Check(memory == Memory::kStaged
              ? Pinring().HostAlloc(&block, bytes, 0)
              : CudaStatus(driver.MemHostAlloc(&block, bytes, 0), "pinning"),
          state);
    if (state.error_occurred()) return;
    if (state.range(1) != 0) {
      copy::ParallelFor(os::UsableCpus(), bytes, size_t{2} << 20,
                        [block](size_t begin, size_t end) {
                          for (size_t i = begin; i < end; i += 4096) {
                            static_cast<volatile char*>(block)[i] = 1;
                          }
                        });
    }
    Check(memory == Memory::kStaged
              ? Pinring().FreeHost(block)
              : CudaStatus(driver.MemFreeHost(block), "freeing"),
          state);
  }
}

// How long the call of a deferred copy takes, apart from the copy.
void BM_DeferredCall(benchmark::State& state) {
  const size_t bytes = static_cast<size_t>(state.range(0));
  Bed().UseContext();
  const Driver& driver = Bed().driver();
  CUdeviceptr device = 0;
  CUstream stream = nullptr;
  void* host = nullptr;
  Check(driver.MemAlloc(&device, bytes), state);
  Check(driver.StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0),
        state);
  Check(Pinring().HostAlloc(&host, bytes, 0), state);
  if (state.error_occurred()) return;
  FillRandom(static_cast<char*>(host), bytes);
  for (auto _ : state) {
    Check(Pinring().MemcpyAsync(host, reinterpret_cast<void*>(device), bytes,
                                cudaMemcpyDefault, stream),
          state);
    state.PauseTiming();
    Check(driver.StreamSynchronize(stream), state);
    state.ResumeTiming();
  }
  Check(Pinring().FreeHost(host), state);
  (void)driver.StreamDestroy(stream);
  (void)driver.MemFree(device);
}

// The ring of a fresh instance, against pinning as much.
void BM_MakeRing(benchmark::State& state) {
  Bed().UseContext();
  const Driver& driver = Bed().driver();
  for (auto _ : state) {
    absl::StatusOr<std::unique_ptr<RingMemory>> ring =
        RingMemory::Create(driver, static_cast<size_t>(state.range(0)), 2048, 0,
                           std::min(8, os::UsableCpus()));
    if (!ring.ok()) {
      state.SkipWithError("no ring");
      return;
    }
    state.PauseTiming();
    Check((*ring)->Release(driver), state);
    state.ResumeTiming();
  }
}

void BM_PinAsMuch(benchmark::State& state) {
  Bed().UseContext();
  const Driver& driver = Bed().driver();
  for (auto _ : state) {
    void* block = nullptr;
    Check(driver.MemHostAlloc(&block, static_cast<size_t>(state.range(0)), 0),
          state);
    state.PauseTiming();
    Check(driver.MemFreeHost(block), state);
    state.ResumeTiming();
  }
}

// The sizes of one copy: 4 KiB to 1 GiB on a GPU, and what
// PINRING_BENCH_BYTES asks for ("8GiB").
std::vector<int64_t> Sizes() {
  std::vector<int64_t> sizes = {4 << 10, 64 << 10, 1 << 20};
  if (TestsRunNatively()) {
    sizes.insert(sizes.end(), {4 << 20, 16 << 20, 64 << 20, 1 << 30});
  }
  if (const auto wanted = os::GetEnv("PINRING_BENCH_BYTES")) {
    const auto bytes = ParseBytes(*wanted);
    if (bytes.ok()) {
      sizes.push_back(static_cast<int64_t>(*bytes));
    } else {
      std::fprintf(stderr,
                   "PINRING_BENCH_BYTES=%s: a size is wanted, as 8GiB\n",
                   wanted->c_str());
      std::exit(2);
    }
  }
  return sizes;
}

void RegisterTransfers() {
  const std::pair<const char*, Path> paths[] = {
      {"BM_HostToDevice", Path::kInto},
      {"BM_DeviceToHost", Path::kOut},
      {"BM_BothWays", Path::kBoth}};
  const std::tuple<const char*, Memory, bool> ways[] = {
      {"pinned", Memory::kPinned, true},
      {"pinned_async", Memory::kPinned, false},
      {"pageable", Memory::kPageable, true},
      {"staged_sync", Memory::kStaged, true},
      {"staged_async", Memory::kStaged, false}};
  for (const auto& [direction, path] : paths) {
    for (const auto& [way, memory, wait] : ways) {
      for (const int streams : {1, 8}) {
        // A caller's synchronous copies go one at a time, and a stream one way
        // at a time.
        if (streams > 1 && wait) continue;
        if (streams == 1 && path == Path::kBoth) continue;
        for (const int64_t bytes : Sizes()) {
          // Eight streams share what one would copy, and no more memory.
          if (streams > 1 && bytes > (128 << 20)) continue;
          const Plan plan = {memory, path, wait, streams};
          benchmark::RegisterBenchmark(
              absl::StrCat(direction, "/", way, "/streams:", streams, "/bytes")
                  .c_str(),
              [plan](benchmark::State& state) { Transfer(state, plan); })
              ->Arg(bytes)
              ->UseRealTime()
              ->MeasureProcessCPUTime();
        }
      }
    }
  }
}

void RegisterAllocations() {
  const int64_t most = TestsRunNatively() ? int64_t{1} << 30 : 1 << 20;
  for (const auto& [name, memory] :
       {std::pair{"BM_Allocate/pinned", Memory::kPinned},
        std::pair{"BM_Allocate/staged", Memory::kStaged}}) {
    for (const int64_t bytes : {int64_t{256} << 10, most}) {
      for (const int64_t touched : {0, 1}) {
        benchmark::RegisterBenchmark(
            name, [memory = memory](
                      benchmark::State& state) { Allocation(state, memory); })
            ->ArgNames({"bytes", "touched"})
            ->Args({bytes, touched})
            ->UseRealTime();
      }
    }
  }
}

void Register() {
  RegisterTransfers();
  RegisterAllocations();
  const int64_t ring = TestsRunNatively() ? 64 << 20 : 1 << 20;
  benchmark::RegisterBenchmark("BM_DeferredCall", BM_DeferredCall)
      ->Arg(256 << 10)
      ->Arg(1 << 20)
      ->UseRealTime()
      ->Iterations(TestsRunNatively() ? 2000 : 20);
  benchmark::RegisterBenchmark("BM_MakeRing", BM_MakeRing)
      ->Arg(ring)
      ->UseRealTime()
      ->Iterations(10);
  benchmark::RegisterBenchmark("BM_PinAsMuch", BM_PinAsMuch)
      ->Arg(ring)
      ->UseRealTime()
      ->Iterations(10);
}

}  // namespace
}  // namespace pinring

int main(int argc, char** argv) {
  if (const std::string why = pinring::Testbed::WhySkip(); !why.empty()) {
    std::fprintf(stderr, "SKIPPED: %s\n", why.c_str());
    return 0;
  }
  pinring::Register();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
