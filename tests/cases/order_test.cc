// Order: a copy reads and writes its block when the stream gets there, and
// whoever says that it is done is right.

#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "tests/support/case_test.h"

namespace pinring {
namespace {

constexpr char kJunk = static_cast<char>(0xee);

// Every block is staged; few or many chunks.
std::vector<std::string> Settings() {
  const std::string chunk = TestsRunNatively() ? "512KiB" : "32KiB";
  return {"small_limit_bytes=0",
          "small_limit_bytes=0,ring_bytes=8MiB,slots_per_stream=1,slot_bytes=" +
              chunk,
          "small_limit_bytes=0,ring_bytes=8MiB,slots_per_stream=3,slot_bytes=" +
              chunk};
}

struct Shape {
  size_t bytes;
  size_t offset;
};

class OrderTest : public CaseTest {
 protected:
  static std::vector<Shape> Shapes() {
    return {{1, 0},
            {4095, 3},
            {Sized(size_t{1} << 20, 96 << 10) + 13, 1},
            {Sized(size_t{12} << 20, 512 << 10), 0},
            {Sized(size_t{64} << 20, size_t{2} << 20), 0}};
  }
};

// Case 1.
TEST_F(OrderTest, BytesOfTheDeviceGoBackThroughABlockWithoutASynchronization) {
  for (const std::string& settings : Settings()) {
    SCOPED_TRACE(settings);
    Start(settings);
    for (const Shape& shape : Shapes()) {
      const size_t bytes = shape.bytes;
      const size_t offset = shape.offset;
      for (const bool blocking : {false, true}) {
        for (const bool gated : {false, true}) {
          SCOPED_TRACE(absl::StrCat(bytes, " bytes, blocking ", blocking,
                                    ", gated ", gated));
          const uint64_t seed = NewSeed();
          const CUstream stream =
              blocking ? bed().BlockingStream() : bed().NonBlockingStream();
          Compare([&](PinnedApi& api, Observed& observed) {
            Device first(*this, bytes, offset);
            Device second(*this, bytes, offset + 1);
            Host block(api, bytes, offset);
            first.Upload(seed);
            std::memset(block.data(), kJunk, bytes);
            Gate gate(bed());
            if (gated) gate.Hold(stream);
            observed.Add("out", api.CopyAsync(block.data(), first.pointer(),
                                              bytes, stream));
            observed.Add("in", api.CopyAsync(second.pointer(), block.data(),
                                             bytes, stream));
            if (gated) {
              observed.MustBeZero("bytes before the gate opens",
                                  BytesThatAreNot(block.data(), bytes, kJunk));
            }
            gate.Open();
            observed.Add("sync",
                         RuntimeCode(driver().StreamSynchronize(stream)));
            observed.MustBeZero("host", WrongBytes(block.data(), bytes, seed));
            observed.MustBeZero("device", second.Wrong(seed));
            observed.MustBeZero("guards",
                                block.WrongGuards() + second.WrongGuards());
          });
        }
      }
    }
    ExpectAllThroughTheRing();
  }
}

// Case 1, second part.
TEST_F(OrderTest, ASynchronousCopyOfTheLegacyStreamComesAfterBlockingStreams) {
  for (const std::string& settings : Settings()) {
    SCOPED_TRACE(settings);
    Start(settings);
    const CUstream stream = bed().BlockingStream();
    for (const Shape& shape : Shapes()) {
      const size_t bytes = shape.bytes;
      const size_t offset = shape.offset;
      for (const bool gated : {false, true}) {
        SCOPED_TRACE(absl::StrCat(bytes, " bytes, gated ", gated));
        const uint64_t seed = NewSeed();
        Compare([&](PinnedApi& api, Observed& observed) {
          Device first(*this, bytes, offset);
          Device second(*this, bytes, offset);
          Host block(api, bytes, offset + 5);
          first.Upload(seed);
          std::memset(block.data(), kJunk, bytes);
          Gate gate(bed());
          if (gated) gate.Hold(stream);
          observed.Add("out", api.CopyAsync(block.data(), first.pointer(),
                                            bytes, stream));
          std::thread opener([&] {
            absl::SleepFor(absl::Milliseconds(5));
            gate.Open();
          });
          observed.Add("in", api.Copy(second.pointer(), block.data(), bytes));
          opener.join();
          // It has returned: the bytes are there, and the stream was waited
          // for.
          observed.MustBeZero("host", WrongBytes(block.data(), bytes, seed));
          observed.Add("idle", bed().Idle(stream));
          observed.MustBeZero("device", second.Wrong(seed));
        });
      }
    }
    ExpectAllThroughTheRing();
  }
}

struct HostFill {
  char* at;
  size_t bytes;
  uint64_t seed;
};

void RunHostFill(void* data) {
  const auto* fill = static_cast<const HostFill*>(data);
  FillRandom(fill->at, fill->bytes, fill->seed);
}

struct HostGate {
  std::atomic<bool> open{false};
  static void Wait(void* data) {
    auto* gate = static_cast<HostGate*>(data);
    while (!gate->open.load(std::memory_order_acquire)) {
      absl::SleepFor(absl::Microseconds(50));
    }
  }
};

// Case 2.
TEST_F(OrderTest, WhatAHostFunctionWritesBehindAGateIsWhatArrives) {
  for (const std::string& settings : Settings()) {
    SCOPED_TRACE(settings);
    Start(settings);
    const CUstream stream = bed().NonBlockingStream();
    for (const Shape& shape : Shapes()) {
      const size_t bytes = shape.bytes;
      const size_t offset = shape.offset;
      for (const bool host_gate : {false, true}) {
        SCOPED_TRACE(absl::StrCat(bytes, " bytes, host gate ", host_gate));
        const uint64_t seed = NewSeed();
        Compare([&](PinnedApi& api, Observed& observed) {
          Device device(*this, bytes, offset);
          Host block(api, bytes, offset);
          std::memset(block.data(), kJunk, bytes);
          Gate gate(bed());
          HostGate other_gate;
          if (host_gate) {
            (void)driver().LaunchHostFunc(stream, HostGate::Wait, &other_gate);
          } else {
            gate.Hold(stream);
          }
          HostFill fill = {block.data(), bytes, seed};
          observed.Add("fill", RuntimeCode(driver().LaunchHostFunc(
                                   stream, RunHostFill, &fill)));
          observed.Add("in", api.CopyAsync(device.pointer(), block.data(),
                                           bytes, stream));
          other_gate.open.store(true, std::memory_order_release);
          gate.Open();
          observed.Add("sync", RuntimeCode(driver().StreamSynchronize(stream)));
          observed.MustBeZero("device", device.Wrong(seed));
          observed.MustBeZero("guards", device.WrongGuards());
        });
      }
    }
    ExpectAllThroughTheRing();
  }
}

// Case 2's neighbour: the host itself fills the block after the call.
TEST_F(OrderTest, TheHostMayFillABlockAfterTheCallWhileAGateHoldsTheStream) {
  for (const std::string& settings : Settings()) {
    Start(settings);
    const CUstream stream = bed().NonBlockingStream();
    for (const Shape& shape : Shapes()) {
      const size_t bytes = shape.bytes;
      const size_t offset = shape.offset;
      const uint64_t seed = NewSeed();
      Compare([&](PinnedApi& api, Observed& observed) {
        Device device(*this, bytes, offset);
        Host block(api, bytes, offset);
        std::memset(block.data(), kJunk, bytes);
        Gate gate(bed());
        gate.Hold(stream);
        observed.Add(
            "in", api.CopyAsync(device.pointer(), block.data(), bytes, stream));
        FillRandom(block.data(), bytes, seed);
        gate.Open();
        observed.Add("sync", RuntimeCode(driver().StreamSynchronize(stream)));
        observed.MustBeZero("device", device.Wrong(seed));
      });
    }
  }
}

struct HostLook {
  const char* at;
  size_t bytes;
  uint64_t seed;
  size_t wrong;
};

// Case 2's neighbour: a later host function is an observer.
TEST_F(OrderTest, ALaterHostFunctionSeesAllBytes) {
  for (const std::string& settings : Settings()) {
    Start(settings);
    const CUstream stream = bed().NonBlockingStream();
    for (const Shape& shape : Shapes()) {
      const size_t bytes = shape.bytes;
      const size_t offset = shape.offset;
      const uint64_t seed = NewSeed();
      Compare([&](PinnedApi& api, Observed& observed) {
        Device device(*this, bytes, offset);
        Host block(api, bytes, offset);
        device.Upload(seed);
        std::memset(block.data(), kJunk, bytes);
        Gate gate(bed());
        gate.Hold(stream);
        observed.Add("out", api.CopyAsync(block.data(), device.pointer(), bytes,
                                          stream));
        HostLook look = {block.data(), bytes, seed, ~size_t{0}};
        (void)driver().LaunchHostFunc(
            stream,
            [](void* data) {
              auto* l = static_cast<HostLook*>(data);
              l->wrong = WrongBytes(l->at, l->bytes, l->seed);
            },
            &look);
        gate.Open();
        observed.Add("sync", RuntimeCode(driver().StreamSynchronize(stream)));
        observed.MustBeZero("seen by the host function", look.wrong);
        observed.MustBeZero("guards", block.WrongGuards());
      });
    }
  }
}

// Case 3.
TEST_F(OrderTest, AnEventIsDoneWithItsStreamsBytesAndLeavesOthersAlone) {
  for (const std::string& settings : Settings()) {
    SCOPED_TRACE(settings);
    Start(settings);
    const CUstream first = bed().NonBlockingStream();
    const CUstream second = bed().NonBlockingStream();
    for (const Shape& shape : Shapes()) {
      const size_t bytes = shape.bytes;
      const size_t offset = shape.offset;
      SCOPED_TRACE(bytes);
      const uint64_t seed = NewSeed();
      Compare([&](PinnedApi& api, Observed& observed) {
        Device p_source(*this, bytes, offset);
        Device q_source(*this, bytes, offset);
        Host p(api, bytes, offset);
        Host q(api, bytes, offset);
        p_source.Upload(seed);
        q_source.Upload(seed + 1000000);
        std::memset(p.data(), kJunk, bytes);
        std::memset(q.data(), kJunk, bytes);
        // The one that stays held comes last, so that nothing stands behind it
        // even where all streams share a hardware queue.
        Gate first_gate(bed());
        Gate gate(bed());
        first_gate.Hold(first);
        observed.Add("p",
                     api.CopyAsync(p.data(), p_source.pointer(), bytes, first));
        CUevent event = nullptr;
        (void)driver().EventCreate(&event, CU_EVENT_DISABLE_TIMING);
        (void)driver().EventRecord(event, first);
        gate.Hold(second);
        observed.Add(
            "q", api.CopyAsync(q.data(), q_source.pointer(), bytes, second));
        first_gate.Open();
        observed.Add("event", RuntimeCode(driver().EventSynchronize(event)));
        observed.MustBeZero("p", WrongBytes(p.data(), bytes, seed));
        observed.MustBeZero("q before",
                            BytesThatAreNot(q.data(), bytes, kJunk));
        observed.Add("second idle", bed().Idle(second));
        gate.Open();
        observed.Add("sync", RuntimeCode(driver().StreamSynchronize(second)));
        observed.MustBeZero("q", WrongBytes(q.data(), bytes, seed + 1000000));
        (void)driver().EventDestroy(event);
      });
    }
    ExpectAllThroughTheRing();
  }
}

// Case 3, second part: four blocking streams and the legacy stream's event.
TEST_F(OrderTest, AnEventOfTheLegacyStreamWaitsForBlockingStreamsOnly) {
  constexpr int kStreams = 4;
  const size_t bytes = Sized(size_t{16} << 20, 512 << 10);
  for (const std::string& settings : Settings()) {
    SCOPED_TRACE(settings);
    Start(settings);
    std::vector<CUstream> streams;
    for (int i = 0; i < kStreams; ++i)
      streams.push_back(bed().BlockingStream());
    const CUstream apart = bed().NonBlockingStream();
    for (const bool query : {false, true}) {
      const uint64_t seed = NewSeed() * 100;
      Compare([&](PinnedApi& api, Observed& observed) {
        std::vector<std::unique_ptr<Device>> devices;
        std::vector<std::unique_ptr<Host>> blocks;
        for (uint64_t i = 0; i <= kStreams; ++i) {
          devices.push_back(std::make_unique<Device>(*this, bytes));
          devices.back()->Upload(seed + i);
          blocks.push_back(std::make_unique<Host>(api, bytes));
          std::memset(blocks.back()->data(), kJunk, bytes);
        }
        Gate first_gate(bed());
        Gate gate(bed());
        for (size_t i = 0; i < kStreams; ++i) {
          first_gate.Hold(streams[i]);
          observed.Add("out",
                       api.CopyAsync(blocks[i]->data(), devices[i]->pointer(),
                                     bytes, streams[i]));
        }
        CUevent event = nullptr;
        (void)driver().EventCreate(&event, CU_EVENT_DISABLE_TIMING);
        (void)driver().EventRecord(event, nullptr);
        gate.Hold(apart);
        observed.Add("apart",
                     api.CopyAsync(blocks[kStreams]->data(),
                                   devices[kStreams]->pointer(), bytes, apart));
        first_gate.Open();
        CUresult code = CUDA_ERROR_NOT_READY;
        while (query && code == CUDA_ERROR_NOT_READY) {
          code = driver().EventQuery(event);
        }
        if (!query) code = driver().EventSynchronize(event);
        for (uint64_t i = 0; i < kStreams; ++i) {
          observed.MustBeZero("whole",
                              WrongBytes(blocks[i]->data(), bytes, seed + i));
        }
        observed.Add("event", RuntimeCode(code));
        observed.MustBeZero(
            "apart", BytesThatAreNot(blocks[kStreams]->data(), bytes, kJunk));
        observed.Add("apart idle", bed().Idle(apart));
        gate.Open();
        (void)driver().StreamSynchronize(apart);
        observed.MustBeZero("apart", WrongBytes(blocks[kStreams]->data(), bytes,
                                                seed + kStreams));
        (void)driver().EventDestroy(event);
      });
    }
    ExpectAllThroughTheRing();
  }
}

// Case 3's neighbour: another stream that waited for an event.
TEST_F(OrderTest, AStreamThatWaitedForAnEventSeesTheBytes) {
  for (const std::string& settings : Settings()) {
    SCOPED_TRACE(settings);
    Start(settings);
    const CUstream from = bed().NonBlockingStream();
    const CUstream to = bed().BlockingStream();
    for (const Shape& shape : Shapes()) {
      const size_t bytes = shape.bytes;
      const size_t offset = shape.offset;
      const uint64_t seed = NewSeed();
      Compare([&](PinnedApi& api, Observed& observed) {
        Device source(*this, bytes, offset);
        Device target(*this, bytes, offset + 3);
        Host block(api, bytes, offset);
        source.Upload(seed);
        std::memset(block.data(), kJunk, bytes);
        CUevent event = nullptr;
        (void)driver().EventCreate(&event, CU_EVENT_DISABLE_TIMING);
        Gate gate(bed());
        gate.Hold(from);
        observed.Add(
            "out", api.CopyAsync(block.data(), source.pointer(), bytes, from));
        (void)driver().EventRecord(event, from);
        observed.Add("wait",
                     RuntimeCode(driver().StreamWaitEvent(to, event, 0)));
        observed.Add("in",
                     api.CopyAsync(target.pointer(), block.data(), bytes, to));
        gate.Open();
        observed.Add("sync", RuntimeCode(driver().StreamSynchronize(to)));
        observed.MustBeZero("target", target.Wrong(seed));
        (void)driver().EventDestroy(event);
      });
    }
    ExpectAllThroughTheRing();
  }
}

// Case 4.
TEST_F(OrderTest, TwoSmallBlocksBackToBackInOneSlotAreNeverSwapped) {
  constexpr size_t kBytes = 2048;
  const size_t rounds = Sized(10000, 400);
  for (const char* const slots : {"1", "2"}) {
    Start(
        absl::StrCat("small_limit_bytes=0,ring_bytes=1MiB,slot_bytes=4KiB,"
                     "slots_per_stream=",
                     slots));
    for (const bool blocking : {false, true}) {
      const CUstream stream =
          blocking ? bed().BlockingStream() : bed().NonBlockingStream();
      Staged([&](PinnedApi& api, Observed& observed) {
        Host a(api, kBytes, 1);
        Host b(api, kBytes);
        Device to_a(*this, kBytes);
        Device to_b(*this, kBytes, 7);
        char* const seen = bed().PinnedBuffer(2 * kBytes);
        uint32_t* const flag = bed().PinnedFlag();
        std::mt19937 random(17);
        size_t wrong = 0;
        uint32_t gates = 0;
        for (size_t round = 0; round < rounds && wrong == 0; ++round) {
          const uint64_t seed = NewSeed();
          FillRandom(a.data(), kBytes, seed);
          FillRandom(b.data(), kBytes, ~seed);
          const bool gated = random() % 2 == 0;
          if (gated) bed().LaunchHold(stream, flag, ++gates);
          ASSERT_EQ(api.CopyAsync(to_a.pointer(), a.data(), kBytes, stream),
                    cudaSuccess);
          const absl::Time until =
              absl::Now() + absl::Microseconds(random() % 101);
          while (absl::Now() < until) {
          }
          ASSERT_EQ(api.CopyAsync(to_b.pointer(), b.data(), kBytes, stream),
                    cudaSuccess);
          if (gated) {
            std::atomic_ref<uint32_t>(*flag).store(gates,
                                                   std::memory_order_release);
          }
          (void)driver().MemcpyDtoHAsync(seen, to_a.at(), kBytes, stream);
          (void)driver().MemcpyDtoHAsync(seen + kBytes, to_b.at(), kBytes,
                                         stream);
          ASSERT_EQ(driver().StreamSynchronize(stream), CUDA_SUCCESS);
          wrong += WrongBytes(seen, kBytes, seed);
          wrong += WrongBytes(seen + kBytes, kBytes, ~seed);
        }
        observed.MustBeZero("wrong bytes", wrong);
        observed.MustBeZero("guards", to_a.WrongGuards() + to_b.WrongGuards());
      });
    }
    ExpectAllThroughTheRing();
  }
}

}  // namespace
}  // namespace pinring
