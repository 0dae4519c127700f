// Copies between host and device: pinned, the driver's pageable way, and
// staged through the ring. On a GPU with PINRING_TEST_DRIVER=native; on the
// simulated device it shows that the benchmark works and measures nothing.
//
// The instance is configured from the environment (`pinring options`). Every
// staged benchmark copies fresh bytes first and compares all of them.

#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "src/capi/instance.h"
#include "src/capi/instances.h"
#include "src/capi/options.h"
#include "src/copy/worker_pool.h"
#include "src/os/env.h"
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

// A host block and a device buffer, and copies between them.
class Fixture {
 public:
  Fixture(Memory memory, size_t bytes, bool wait, benchmark::State& state)
      : memory_(memory), bytes_(bytes), wait_(wait), state_(state) {
    Bed().UseContext();
    Check(driver_.MemAlloc(&device_, bytes), state);
    Check(driver_.StreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0),
          state);
    host_ = Allocate();
    if (!state.error_occurred()) FillRandom(host_, bytes);
  }
  ~Fixture() {
    Free(host_);
    (void)driver_.StreamDestroy(stream_);
    (void)driver_.MemFree(device_);
  }

  void Copy(bool to_device) { CopyOf(host_, to_device); }

  void CopyOf(char* host, bool to_device) {
    if (memory_ == Memory::kStaged) {
      void* dst = to_device ? reinterpret_cast<void*>(device_) : host;
      void* src = to_device ? host : reinterpret_cast<void*>(device_);
      Check(wait_ ? Pinring().Memcpy(dst, src, bytes_, cudaMemcpyDefault)
                  : Pinring().MemcpyAsync(dst, src, bytes_, cudaMemcpyDefault,
                                          stream_),
            state_);
    } else if (wait_) {
      Check(to_device ? driver_.MemcpyHtoD(device_, host, bytes_)
                      : driver_.MemcpyDtoH(host, device_, bytes_),
            state_);
    } else {
      Check(to_device ? driver_.MemcpyHtoDAsync(device_, host, bytes_, stream_)
                      : driver_.MemcpyDtoHAsync(host, device_, bytes_, stream_),
            state_);
    }
    if (!wait_) Check(driver_.StreamSynchronize(stream_), state_);
  }

  // Fresh bytes there and back into another block: all of them the same.
  void Verify() {
    char* back = Allocate();
    if (state_.error_occurred()) return;
    std::memset(back, 0xEE, bytes_);
    Copy(true);
    CopyOf(back, false);
    if (std::memcmp(host_, back, bytes_) != 0) {
      state_.SkipWithError("WRONG BYTES");
    }
    Free(back);
  }

 private:
  char* Allocate() {
    void* block = nullptr;
    if (memory_ == Memory::kPinned) {
      Check(driver_.MemHostAlloc(&block, bytes_, 0), state_);
    } else if (memory_ == Memory::kStaged) {
      Check(Pinring().HostAlloc(&block, bytes_, 0), state_);
    } else {
      block = std::aligned_alloc(size_t{2} << 20,
                                 (bytes_ + (size_t{2} << 20) - 1) >> 21 << 21);
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
      std::free(block);
    }
  }

  const Driver& driver_ = Bed().driver();
  const Memory memory_;
  const size_t bytes_;
  const bool wait_;
  benchmark::State& state_;
  CUdeviceptr device_ = 0;
  CUstream stream_ = nullptr;
  char* host_ = nullptr;
};

void Transfer(benchmark::State& state, Memory memory, bool to_device,
              bool wait) {
  const size_t bytes = static_cast<size_t>(state.range(0));
  Fixture fixture(memory, bytes, wait, state);
  if (memory == Memory::kStaged) {
    fixture.Verify();
  } else {
    fixture.Copy(true);
  }
  if (state.error_occurred()) return;
  for (auto _ : state) fixture.Copy(to_device);
  state.SetBytesProcessed(state.iterations() * state.range(0));
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

void Register() {
  const std::vector<int64_t> sizes =
      TestsRunNatively()
          ? std::vector<int64_t>{4 << 10, 64 << 10, 1 << 20, 16 << 20, 1 << 30}
          : std::vector<int64_t>{4 << 10, 1 << 20};
  for (const bool to_device : {true, false}) {
    const std::string direction =
        to_device ? "BM_HostToDevice/" : "BM_DeviceToHost/";
    const auto add = [&](const char* name, Memory memory, bool wait) {
      for (const int64_t bytes : sizes) {
        benchmark::RegisterBenchmark((direction + name + "/bytes").c_str(),
                                     [=](benchmark::State& state) {
                                       Transfer(state, memory, to_device, wait);
                                     })
            ->Arg(bytes)
            ->UseRealTime()
            ->MeasureProcessCPUTime();
      }
    };
    add("pinned", Memory::kPinned, true);
    add("pageable", Memory::kPageable, true);
    add("staged_sync", Memory::kStaged, true);
    add("staged_deferred", Memory::kStaged, false);
  }
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
