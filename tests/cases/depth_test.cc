// Depth: how much can be queued behind a gate before a call waits, and how many
// streams may hold staged work at once. A call that waits behind its own gate
// hangs, and the watchdog says so.

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/case_test.h"

namespace pinring {
namespace {

class DepthTest : public CaseTest {};

// Case 5: R/C + 1 and 3 R/C chunks, opened by the thread that queued them.
TEST_F(DepthTest, MoreThanTheRingIsQueuedBehindAGate) {
  const size_t chunk = Sized(size_t{2} << 20, 64 << 10);
  for (const size_t chunks : {size_t{9}, size_t{24}}) {
    Start(absl::StrCat("small_limit_bytes=0,ring_bytes=", 8 * chunk,
                       ",slots_per_stream=8,slot_bytes=", chunk));
    const CUstream stream = bed().NonBlockingStream();
    const size_t bytes = chunks * chunk - 1;
    const uint64_t seed = NewSeed();
    Compare([&](PinnedApi& api, Observed& observed) {
      Device device(*this, bytes, 1);
      Host in(api, bytes, 3);
      Host out(api, bytes);
      Gate gate(bed());
      gate.Hold(stream);
      observed.Add("in",
                   api.CopyAsync(device.pointer(), in.data(), bytes, stream));
      observed.Add("out",
                   api.CopyAsync(out.data(), device.pointer(), bytes, stream));
      FillRandom(in.data(), bytes, seed);
      gate.Open();
      observed.Add("sync", RuntimeCode(driver().StreamSynchronize(stream)));
      observed.MustBeZero("wrong", WrongBytes(out.data(), bytes, seed));
      observed.MustBeZero("guards", out.WrongGuards() + device.WrongGuards());
    });
    ExpectAllThroughTheRing();
  }
}

// Case 5 and contract 2: one transfer, far larger than the ring.
TEST_F(DepthTest, AHugeTransferIsQueuedBehindAGate) {
  const size_t bytes = Sized(size_t{8} << 30, size_t{48} << 20) + 13;
  simcuda::MachineOptions options;
  options.copy_step_bytes = size_t{1} << 20;
  for (const bool out : {false, true}) {
    SCOPED_TRACE(out ? "to the host" : "to the device");
    Start(TestsRunNatively() ? "" : "ring_bytes=4MiB", options);
    const CUstream stream = bed().NonBlockingStream();
    const uint64_t seed = NewSeed();
    Staged([&](PinnedApi& api, Observed& observed) {
      CUdeviceptr device = bed().DeviceBuffer(bytes);
      Host in(api, bytes);
      if (out) {
        FillRandom(in.data(), bytes, seed);
        ASSERT_EQ(api.Copy(AsPointer(device), in.data(), bytes), cudaSuccess);
        std::memset(in.data(), 0, bytes);
      }
      Gate gate(bed());
      gate.Hold(stream);
      ASSERT_EQ(
          out ? api.CopyAsync(in.data(), AsPointer(device), bytes, stream)
              : api.CopyAsync(AsPointer(device), in.data(), bytes, stream),
          cudaSuccess);
      if (!out) FillRandom(in.data(), bytes, seed);
      gate.Open();
      ASSERT_EQ(driver().StreamSynchronize(stream), CUDA_SUCCESS);
      if (!out) {
        std::memset(in.data(), 0, bytes);
        ASSERT_EQ(api.Copy(in.data(), AsPointer(device), bytes), cudaSuccess);
      }
      observed.MustBeZero("wrong", WrongBytes(in.data(), bytes, seed));
      observed.MustBeZero("guards", in.WrongGuards());
    });
    ExpectAllThroughTheRing();
    EXPECT_LE(Usage().pinnedPeakBytes, size_t{96} << 20);
  }
}

// Contract 2.
TEST_F(DepthTest, ThreeHundredCopiesOfOneChunkAreQueuedBehindAGate) {
  constexpr size_t kCopies = 300;
  for (const size_t bytes : {size_t{1000}, Sized(256 << 10, 24 << 10)}) {
    for (const bool out : {false, true}) {
      SCOPED_TRACE(absl::StrCat(bytes, " bytes, out ", out));
      Start("small_limit_bytes=0");
      const CUstream stream = bed().NonBlockingStream();
      const uint64_t seed = NewSeed();
      Compare([&](PinnedApi& api, Observed& observed) {
        Device device(*this, kCopies * bytes);
        Host block(api, kCopies * bytes);
        if (out) device.Upload(seed);
        Gate gate(bed());
        gate.Hold(stream);
        size_t failed = 0;
        for (size_t i = 0; i < kCopies; ++i) {
          char* const host = block.data() + i * bytes;
          void* const there = AsPointer(device.at() + i * bytes);
          failed +=
              (out ? api.CopyAsync(host, there, bytes, stream)
                   : api.CopyAsync(there, host, bytes, stream)) != cudaSuccess;
        }
        if (!out) FillRandom(block.data(), kCopies * bytes, seed);
        gate.Open();
        observed.Add("failed", failed);
        observed.Add("sync", RuntimeCode(driver().StreamSynchronize(stream)));
        observed.MustBeZero("wrong",
                            out ? WrongBytes(block.data(), block.bytes(), seed)
                                : device.Wrong(seed));
        observed.MustBeZero("guards",
                            block.WrongGuards() + device.WrongGuards());
      });
      ExpectAllThroughTheRing();
    }
  }
}

// Contract 2.
TEST_F(DepthTest, FourHundredSlotsWorthAreQueuedBehindAGate) {
  const size_t slot = Sized(64 << 10, 16 << 10);
  for (const size_t slots : {size_t{1}, size_t{2}}) {
    for (const bool out : {false, true}) {
      SCOPED_TRACE(absl::StrCat(slots, " slots, out ", out));
      Start(absl::StrCat("small_limit_bytes=0,ring_bytes=1MiB,slot_bytes=",
                         slot, ",slots_per_stream=", slots));
      const CUstream stream = bed().NonBlockingStream();
      const size_t bytes = 400 * slot;
      const uint64_t seed = NewSeed();
      Compare([&](PinnedApi& api, Observed& observed) {
        Device device(*this, bytes, 9);
        Host block(api, bytes, 2);
        if (out) device.Upload(seed);
        Gate gate(bed());
        gate.Hold(stream);
        observed.Add(
            "copy",
            out ? api.CopyAsync(block.data(), device.pointer(), bytes, stream)
                : api.CopyAsync(device.pointer(), block.data(), bytes, stream));
        if (!out) FillRandom(block.data(), bytes, seed);
        gate.Open();
        observed.Add("sync", RuntimeCode(driver().StreamSynchronize(stream)));
        observed.MustBeZero("wrong", out ? WrongBytes(block.data(), bytes, seed)
                                         : device.Wrong(seed));
      });
      ExpectAllThroughTheRing();
    }
  }
}

// Together they are more than the driver's queue takes: what no longer fits is
// pinned in place, where natively nothing blocks either.
TEST_F(DepthTest, SeveralLargeCopiesAreQueuedBehindAGate) {
  const size_t bytes = Sized(size_t{100} << 20, size_t{2} << 20);
  constexpr size_t kCopies = 12;
  for (const bool out : {false, true}) {
    SCOPED_TRACE(out ? "to the host" : "to the device");
    Start(TestsRunNatively() ? "" : "ring_bytes=1MiB,small_limit_bytes=0");
    const CUstream stream = bed().NonBlockingStream();
    const uint64_t seed = NewSeed();
    Staged([&](PinnedApi& api, Observed& observed) {
      Device device(*this, bytes);
      if (out) device.Upload(seed);
      std::vector<std::unique_ptr<Host>> blocks;
      for (size_t i = 0; i < kCopies; ++i)
        blocks.push_back(std::make_unique<Host>(api, bytes));
      Gate gate(bed());
      gate.Hold(stream);
      for (const auto& block : blocks) {
        ASSERT_EQ(
            out ? api.CopyAsync(block->data(), device.pointer(), bytes, stream)
                : api.CopyAsync(device.pointer(), block->data(), bytes, stream),
            cudaSuccess);
      }
      // The last one stays.
      if (!out) FillRandom(blocks.back()->data(), bytes, seed);
      gate.Open();
      ASSERT_EQ(driver().StreamSynchronize(stream), CUDA_SUCCESS);
      if (!out) observed.MustBeZero("wrong", device.Wrong(seed));
      for (const auto& block : blocks) {
        if (out)
          observed.MustBeZero("wrong", WrongBytes(block->data(), bytes, seed));
        observed.MustBeZero("guards", block->WrongGuards());
      }
    });
    EXPECT_GT(
        Usage()
            .copies[out ? pinringCopyDeviceToHost : pinringCopyHostToDevice]
                   [pinringCopyStagedDeferred]
            .count,
        0u);
  }
}

// A stream that moves on is waited for, and nothing is pinned.
TEST_F(DepthTest, ThousandsOfCopiesThatNothingHoldsPinNothing) {
  constexpr size_t kCopies = 3000;
  const size_t bytes = 24 << 10;
  Start("small_limit_bytes=0");
  const CUstream stream = bed().NonBlockingStream();
  const uint64_t seed = NewSeed();
  Staged([&](PinnedApi& api, Observed& observed) {
    Device device(*this, bytes);
    Host block(api, bytes);
    FillRandom(block.data(), bytes, seed);
    for (size_t i = 0; i < kCopies; ++i) {
      ASSERT_EQ(
          i % 2 == 0
              ? api.CopyAsync(device.pointer(), block.data(), bytes, stream)
              : api.CopyAsync(block.data(), device.pointer(), bytes, stream),
          cudaSuccess);
    }
    ASSERT_EQ(driver().StreamSynchronize(stream), CUDA_SUCCESS);
    observed.MustBeZero("wrong", WrongBytes(block.data(), bytes, seed));
    observed.MustBeZero("there", device.Wrong(seed));
  });
  ExpectAllThroughTheRing();
}

// Contract 2, the smallest share: one slot of the least size.
TEST_F(DepthTest, ManySmallTransfersOfTheSmallestShareAreQueuedBehindAGate) {
  constexpr size_t kCopies = 300;
  constexpr size_t kBytes = 4096;
  Start(
      "small_limit_bytes=0,ring_bytes=64KiB,slot_bytes=4KiB,"
      "slots_per_stream=1");
  const CUstream stream = bed().NonBlockingStream();
  const uint64_t seed = NewSeed();
  Staged([&](PinnedApi& api, Observed& observed) {
    Device device(*this, kCopies * kBytes);
    Host block(api, kCopies * kBytes);
    Gate gate(bed());
    gate.Hold(stream);
    for (size_t i = 0; i < kCopies; ++i) {
      ASSERT_EQ(api.CopyAsync(AsPointer(device.at() + i * kBytes),
                              block.data() + i * kBytes, kBytes, stream),
                cudaSuccess);
    }
    FillRandom(block.data(), block.bytes(), seed);
    gate.Open();
    ASSERT_EQ(driver().StreamSynchronize(stream), CUDA_SUCCESS);
    observed.MustBeZero("wrong", device.Wrong(seed));
  });
  ExpectAllThroughTheRing();
}

// Design: a test reaches the number of streams that the README states.
TEST_F(DepthTest, AThousandStreamsHoldStagedWorkAtOnce) {
  // Each stream takes a handful of entries of its hardware queue, which holds
  // 1,021, natively too.
  const int queues = (Start("small_limit_bytes=0"), bed().compute_queues());
  const size_t streams =
      std::min<size_t>(1024, static_cast<size_t>(queues) * 128);
  if (streams < 1024) {
    std::printf("with %d hardware queues only %zu streams are tried\n", queues,
                streams);
  }
  for (const size_t bytes : {size_t{8192}, size_t{5000}}) {
    for (const bool one_gate : {false, true}) {
      SCOPED_TRACE(absl::StrCat(bytes, " bytes, one gate ", one_gate));
      Start("small_limit_bytes=0");
      std::vector<CUstream> all;
      for (size_t i = 0; i < streams; ++i) {
        all.push_back(bed().NonBlockingStream());
      }
      const uint64_t seed = NewSeed();
      Staged([&](PinnedApi& api, Observed& observed) {
        Device in(*this, streams / 2 * bytes);
        Device out(*this, streams / 2 * bytes);
        Host source(api, streams / 2 * bytes);
        Host target(api, streams / 2 * bytes);
        out.Upload(~seed);
        std::vector<std::unique_ptr<Gate>> gates;
        for (size_t i = 0; i < streams; ++i) {
          if (gates.empty() || !one_gate) {
            gates.push_back(std::make_unique<Gate>(bed()));
          }
          gates.back()->Hold(all[i]);
          const size_t at = i / 2 * bytes;
          ASSERT_EQ(
              i % 2 == 0
                  ? api.CopyAsync(AsPointer(in.at() + at), source.data() + at,
                                  bytes, all[i])
                  : api.CopyAsync(target.data() + at, AsPointer(out.at() + at),
                                  bytes, all[i]),
              cudaSuccess)
              << i;
        }
        EXPECT_EQ(instance().engine().outstanding(), streams);
        FillRandom(source.data(), source.bytes(), seed);
        std::shuffle(gates.begin(), gates.end(), std::mt19937(5));
        for (const auto& gate : gates) gate->Open();
        for (const CUstream stream : all) {
          ASSERT_EQ(driver().StreamSynchronize(stream), CUDA_SUCCESS);
        }
        observed.MustBeZero("in", in.Wrong(seed));
        observed.MustBeZero("out",
                            WrongBytes(target.data(), target.bytes(), ~seed));
      });
      ExpectAllThroughTheRing();
      EXPECT_LE(Usage().pinnedPeakBytes, size_t{96} << 20);
    }
  }
}

}  // namespace
}  // namespace pinring
