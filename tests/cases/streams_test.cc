// Many streams: some held, some not, and who waits for whom.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/barrier.h"
#include "tests/support/case_test.h"

namespace pinring {
namespace {

class StreamsTest : public CaseTest {
 protected:
  struct Lane {
    CUstream stream;
    bool out;
    uint64_t seed;
    std::unique_ptr<Device> device;
    std::unique_ptr<Host> block;
  };

  // A stream with a copy of its own to make; every second one to the host.
  std::unique_ptr<Lane> MakeLane(PinnedApi& api, size_t bytes, bool out,
                                 CUstream stream) {
    auto lane = std::make_unique<Lane>();
    lane->stream = stream;
    lane->out = out;
    lane->seed = NewSeed();
    lane->device = std::make_unique<Device>(*this, bytes, 1);
    lane->block = std::make_unique<Host>(api, bytes, 3);
    if (out) {
      lane->device->Upload(lane->seed);
    } else {
      FillRandom(lane->block->data(), bytes, lane->seed);
    }
    return lane;
  }
  static cudaError_t Copy(PinnedApi& api, const Lane& lane) {
    return lane.out ? api.CopyAsync(lane.block->data(), lane.device->pointer(),
                                    lane.block->bytes(), lane.stream)
                    : api.CopyAsync(lane.device->pointer(), lane.block->data(),
                                    lane.block->bytes(), lane.stream);
  }
  static size_t Wrong(const Lane& lane) {
    return (lane.out
                ? WrongBytes(lane.block->data(), lane.block->bytes(), lane.seed)
                : lane.device->Wrong(lane.seed)) +
           lane.device->WrongGuards() + lane.block->WrongGuards();
  }

  // Whether a kernel and a copy on one more stream end beside `held` streams
  // that are held with a kernel and a copy queued on each.
  bool OneMoreStreamEnds(bool staged, int held, bool held_out, bool more_out,
                         const simcuda::MachineOptions& options);
};

// Case 6b, first part.
TEST_F(StreamsTest, TheOldestOfManyStreamsIsHeldAndReleased) {
  const size_t bytes = Sized(size_t{64} << 20, size_t{1} << 20);
  for (const int streams : {5, 6, 9}) {
    for (const int directions : {0, 1, 2}) {  // in, out, both
      SCOPED_TRACE(absl::StrCat(streams, " streams, directions ", directions));
      Start(TestsRunNatively() ? "" : "ring_bytes=4MiB,small_limit_bytes=0");
      std::vector<CUstream> handles;
      for (int i = 0; i < streams; ++i) {
        handles.push_back(bed().NonBlockingStream());
      }
      Compare([&](PinnedApi& api, Observed& observed) {
        std::vector<std::unique_ptr<Lane>> lanes;
        for (int i = 0; i < streams; ++i) {
          const bool out = directions == 2 ? i % 2 == 1 : directions == 1;
          lanes.push_back(
              MakeLane(api, bytes, out, handles[static_cast<size_t>(i)]));
        }
        Gate gate(bed());
        gate.Hold(handles[0]);
        for (const auto& lane : lanes) observed.Add("copy", Copy(api, *lane));
        gate.Open();
        for (const auto& lane : lanes) {
          observed.Add("sync",
                       RuntimeCode(driver().StreamSynchronize(lane->stream)));
        }
        for (const auto& lane : lanes)
          observed.MustBeZero("wrong", Wrong(*lane));
      });
      ExpectAllThroughTheRing();
    }
  }
}

// Case 6b, second part.
TEST_F(StreamsTest, SixteenHeldStreamsAreReleasedInAnyOrder) {
  constexpr int kStreams = 16;
  const size_t bytes = Sized(size_t{16} << 20, 300 << 10);
  std::mt19937 random(11);
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    Start(TestsRunNatively() ? "" : "ring_bytes=4MiB,small_limit_bytes=0");
    std::vector<CUstream> handles;
    for (int i = 0; i < kStreams; ++i) {
      handles.push_back(i % 4 == 3 ? bed().BlockingStream()
                                   : bed().NonBlockingStream());
    }
    std::vector<size_t> order(kStreams);
    for (size_t i = 0; i < kStreams; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    Compare([&](PinnedApi& api, Observed& observed) {
      std::vector<std::unique_ptr<Lane>> in;
      std::vector<std::unique_ptr<Lane>> out;
      for (const CUstream stream : handles) {
        in.push_back(MakeLane(api, bytes, false, stream));
        out.push_back(MakeLane(api, bytes, true, stream));
      }
      std::vector<std::unique_ptr<Gate>> gates;
      for (size_t i = 0; i < kStreams; ++i) {
        gates.push_back(std::make_unique<Gate>(bed()));
        gates.back()->Hold(handles[i]);
        observed.Add("in", Copy(api, *in[i]));
        observed.Add("out", Copy(api, *out[i]));
      }
      for (const size_t i : order) {
        gates[i]->Open();
        absl::SleepFor(absl::Milliseconds(random() % 3));
      }
      for (size_t i = 0; i < kStreams; ++i) {
        observed.Add("sync",
                     RuntimeCode(driver().StreamSynchronize(handles[i])));
      }
      for (size_t i = 0; i < kStreams; ++i) {
        observed.MustBeZero("wrong", Wrong(*in[i]) + Wrong(*out[i]));
      }
    });
    ExpectAllThroughTheRing();
  }
}

bool StreamsTest::OneMoreStreamEnds(bool staged, int held, bool held_out,
                                    bool more_out,
                                    const simcuda::MachineOptions& options) {
  Start(TestsRunNatively() ? "" : "ring_bytes=8MiB,small_limit_bytes=0",
        options);
  const size_t bytes = Sized(size_t{8} << 20, 200 << 10);
  DriverPinned native(driver());
  RingPinned ring;
  PinnedApi& api = staged ? static_cast<PinnedApi&>(ring) : native;
  std::vector<std::unique_ptr<Lane>> lanes;
  for (int i = 0; i < held; ++i) {
    lanes.push_back(MakeLane(api, bytes, held_out, bed().NonBlockingStream()));
  }
  const auto more = MakeLane(api, bytes, more_out, bed().NonBlockingStream());
  const CUdeviceptr counter = bed().DeviceBuffer(sizeof(uint32_t));
  Gate gate(bed());
  for (const auto& lane : lanes) {
    gate.Hold(lane->stream);
    bed().LaunchAddOne(lane->stream, counter);
    EXPECT_EQ(Copy(api, *lane), cudaSuccess);
  }
  bed().LaunchAddOne(more->stream, counter);
  EXPECT_EQ(Copy(api, *more), cudaSuccess);
  // Natively a look; staged it is to end, and may take its time.
  const bool ends = HappensWithin(staged ? kHappens : kStuck,
                                  [&] { return bed().Idle(more->stream); });
  gate.Open();
  for (const auto& lane : lanes) {
    EXPECT_EQ(driver().StreamSynchronize(lane->stream), CUDA_SUCCESS);
  }
  EXPECT_EQ(driver().StreamSynchronize(more->stream), CUDA_SUCCESS);
  for (const auto& lane : lanes) EXPECT_EQ(Wrong(*lane), 0u);
  EXPECT_EQ(Wrong(*more), 0u);
  return ends;
}

// Case 6b, third part: each held stream, natively and staged, on a fresh
// device.
TEST_F(StreamsTest, OneMoreStreamEndsWheneverItWouldNatively) {
  std::vector<simcuda::MachineOptions> machines(1);
  if (!TestsRunNatively()) {
    machines.push_back(
        {.compute_queues = 32, .h2d_queues = 32, .d2h_queues = 32});
  }
  for (const simcuda::MachineOptions& machine : machines) {
    for (const int held : {1, 3, 4, 7, 8, 15, 16}) {
      for (const bool held_out : {false, true}) {
        for (const bool more_out : {false, true}) {
          const bool natively =
              OneMoreStreamEnds(false, held, held_out, more_out, machine);
          const bool staged =
              natively &&
              OneMoreStreamEnds(true, held, held_out, more_out, machine);
          std::printf(
              "%2d streams held, copies %s; one more, %s: %s natively, "
              "%s staged\n",
              held, held_out ? "to the host  " : "to the device",
              more_out ? "to the host  " : "to the device",
              natively ? "ends" : "stuck",
              staged     ? "ends"
              : natively ? "stuck"
                         : "not tried");
          EXPECT_TRUE(staged || !natively)
              << held << " streams held, held_out " << held_out << ", more_out "
              << more_out << ", compute queues " << bed().compute_queues();
        }
      }
    }
  }
}

// Case 9.
TEST_F(StreamsTest, EightThreadsUseTheirOwnDefaultStreams) {
  constexpr int kThreads = 8;
  const size_t rounds = Sized(30, 3);
  const size_t bytes = Sized(size_t{3} << 20, 200 << 10);
  for (const char* const settings :
       {"small_limit_bytes=0",
        "small_limit_bytes=0,ring_bytes=8MiB,slot_bytes=64KiB,"
        "slots_per_stream=2"}) {
    SCOPED_TRACE(settings);
    Start(settings);
    std::vector<uint32_t*> flags;
    for (int i = 0; i < kThreads; ++i) flags.push_back(bed().PinnedFlag());
    uint32_t opened = 0;
    Compare([&](PinnedApi& api, Observed& observed) {
      std::vector<size_t> wrong(kThreads, 0);
      std::vector<size_t> errors(kThreads, 0);
      const uint32_t before = opened;
      auto* const all_rounds_done = new absl::Barrier(kThreads);
      std::vector<std::thread> threads;
      for (size_t t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
          bed().UseContext();
          const CUstream mine = CU_STREAM_PER_THREAD;
          void* source = nullptr;
          void* target = nullptr;
          CUdeviceptr device = 0;
          errors[t] += api.Alloc(&source, bytes) != cudaSuccess;
          errors[t] += api.Alloc(&target, bytes) != cudaSuccess;
          errors[t] += driver().MemAlloc(&device, bytes) != CUDA_SUCCESS;
          for (uint32_t round = 1; round <= rounds; ++round) {
            const uint64_t seed = (t + 1) * 1000003 + round + before;
            bed().LaunchHold(mine, flags[t], before + round);
            errors[t] += api.CopyAsync(AsPointer(device), source, bytes,
                                       mine) != cudaSuccess;
            errors[t] += api.CopyAsync(target, AsPointer(device), bytes,
                                       mine) != cudaSuccess;
            FillRandom(source, bytes, seed);
            std::memset(target, 0, bytes);
            std::atomic_ref<uint32_t>(*flags[t]).store(
                before + round, std::memory_order_release);
            errors[t] += driver().StreamSynchronize(mine) != CUDA_SUCCESS;
            wrong[t] += WrongBytes(target, bytes, seed);
          }
          // Freeing waits for everybody's gates, and holds the lock that they
          // need to queue copies behind them: natively a deadlock.
          if (all_rounds_done->Block()) delete all_rounds_done;
          errors[t] += api.Free(source) != cudaSuccess;
          errors[t] += api.Free(target) != cudaSuccess;
          errors[t] += driver().MemFree(device) != CUDA_SUCCESS;
        });
      }
      for (std::thread& thread : threads) thread.join();
      opened += static_cast<uint32_t>(rounds);
      for (size_t t = 0; t < kThreads; ++t) {
        observed.MustBeZero("wrong", wrong[t]);
        observed.MustBeZero("errors", errors[t]);
      }
    });
    ExpectAllThroughTheRing();
  }
}

}  // namespace
}  // namespace pinring
