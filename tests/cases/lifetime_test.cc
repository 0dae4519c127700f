// Lifetime: blocks and streams that go while copies of theirs are queued.

#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/support/case_test.h"

namespace pinring {
namespace {

class LifetimeTest : public CaseTest {
 protected:
  // Settings whose ring is `chunks / 3` chunks, and what copies then measure.
  static std::string SmallRing(size_t chunk_bytes) {
    return absl::StrCat("small_limit_bytes=0,ring_bytes=", chunk_bytes * 4,
                        ",slot_bytes=", chunk_bytes, ",slots_per_stream=4");
  }
};

// Case 5.
TEST_F(LifetimeTest, ABlockFreedByAnotherThreadWaitsForItsQueuedCopy) {
  const size_t chunk = Sized(size_t{1} << 20, 32 << 10);
  for (const size_t bytes :
       {size_t{4096}, chunk, 5 * chunk, 12 * chunk, 12 * chunk + 13}) {
    for (const size_t offset : {size_t{0}, size_t{7}}) {
      SCOPED_TRACE(absl::StrCat(bytes, " bytes"));
      Start(SmallRing(chunk));
      const CUstream stream = bed().NonBlockingStream();
      const uint64_t seed = NewSeed();
      Compare([&](PinnedApi& api, Observed& observed) {
        Device device(*this, bytes, offset);
        Host block(api, bytes, offset);
        void* const base = block.base();
        FillRandom(block.data(), bytes, seed);
        Gate gate(bed());
        gate.Hold(stream);
        observed.Add(
            "in", api.CopyAsync(device.pointer(), block.data(), bytes, stream));
        absl::Notification freed;
        std::thread other([&] {
          bed().UseContext();
          EXPECT_EQ(api.Free(base), cudaSuccess);
          freed.Notify();
          void* again = nullptr;
          EXPECT_EQ(api.Alloc(&again, bytes + 256), cudaSuccess);
          std::memset(again, 0xff, bytes + 256);
          EXPECT_EQ(api.Free(again), cudaSuccess);
        });
        observed.Add("free blocks", !freed.WaitForNotificationWithTimeout(
                                        absl::Milliseconds(50)));
        gate.Open();
        other.join();
        block.Forget();
        observed.Add("sync", RuntimeCode(driver().StreamSynchronize(stream)));
        observed.MustBeZero("old bytes", device.Wrong(seed));
        observed.MustBeZero("guards", device.WrongGuards());
      });
      ExpectAllThroughTheRing();
    }
  }
}

// Case 5's neighbour: the device writes the block, and a free of an interior
// pointer is refused meanwhile, as natively.
TEST_F(LifetimeTest, AFreeWaitsForACopyThatWritesTheBlock) {
  const size_t chunk = Sized(size_t{1} << 20, 32 << 10);
  Start(SmallRing(chunk));
  const CUstream stream = bed().NonBlockingStream();
  for (const size_t bytes : {size_t{100}, chunk + 1, 13 * chunk}) {
    const uint64_t seed = NewSeed();
    Compare([&](PinnedApi& api, Observed& observed) {
      Device device(*this, bytes);
      Host block(api, bytes);
      device.Upload(seed);
      Gate gate(bed());
      gate.Hold(stream);
      observed.Add(
          "out", api.CopyAsync(block.data(), device.pointer(), bytes, stream));
      observed.Add("interior", api.Free(block.data() + bytes / 2));
      std::thread opener([&] {
        absl::SleepFor(absl::Milliseconds(10));
        gate.Open();
      });
      block.Free();
      opener.join();
      observed.Add("idle soon",
                   HappensWithin(kHappens, [&] { return bed().Idle(stream); }));
    });
  }
}

// Contract 8.
TEST_F(LifetimeTest, ADestroyedStreamsWorkEndsAndItsHandleIsANewStream) {
  const size_t chunk = Sized(size_t{256} << 10, 16 << 10);
  const size_t bytes = 9 * chunk + 5;
  Start(absl::StrCat("small_limit_bytes=0,ring_bytes=", 64 * chunk,
                     ",slots_per_stream=2,slot_bytes=", chunk));
  for (int round = 0; round < 20; ++round) {
    const uint64_t seed = NewSeed();
    Compare([&](PinnedApi& api, Observed& observed) {
      Device in(*this, bytes);
      Device out(*this, bytes);
      Host source(api, bytes);
      Host target(api, bytes, 3);
      out.Upload(seed);
      FillRandom(source.data(), bytes, ~seed);
      Gate gate(bed());
      CUevent events[2];
      for (CUevent& event : events) {
        CUstream stream = nullptr;
        (void)driver().StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING,
                                                0);
        (void)driver().EventCreate(&event, CU_EVENT_DISABLE_TIMING);
        if (round % 2 == 0) gate.Hold(stream);
        observed.Add(
            "copy",
            &event == events
                ? api.CopyAsync(in.pointer(), source.data(), bytes, stream)
                : api.CopyAsync(target.data(), out.pointer(), bytes, stream));
        (void)driver().EventRecord(event, stream);
        observed.Add("destroy", RuntimeCode(driver().StreamDestroy(stream)));
      }
      gate.Open();
      for (CUevent event : events) {
        observed.Add("event", RuntimeCode(driver().EventSynchronize(event)));
        (void)driver().EventDestroy(event);
      }
      observed.MustBeZero("in", in.Wrong(~seed));
      observed.MustBeZero("out", WrongBytes(target.data(), bytes, seed));
    });
  }
  ExpectAllThroughTheRing();
}

// Contract 7, in earnest: blocks come and go in several threads, and addresses
// come back while copies of others are in flight.
TEST_F(LifetimeTest, AddressesThatComeBackAreNewBlocks) {
  constexpr int kThreads = 4;
  const size_t rounds = Sized(300, 25);
  Start("small_limit_bytes=0");
  std::vector<CUstream> streams;
  for (int i = 0; i < kThreads; ++i) {
    streams.push_back(bed().NonBlockingStream());
  }
  const size_t most_bytes = Sized(size_t{3} << 20, 200 << 10);
  Staged([&](PinnedApi& api, Observed&) {
    std::atomic<size_t> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        bed().UseContext();
        std::mt19937_64 random(static_cast<uint64_t>(t));
        CUdeviceptr device = 0;
        ASSERT_EQ(driver().MemAlloc(&device, most_bytes), CUDA_SUCCESS);
        const CUstream stream = streams[static_cast<size_t>(t)];
        for (size_t round = 0; round < rounds; ++round) {
          const size_t bytes = 1 + random() % most_bytes;
          const uint64_t seed = random();
          void* a = nullptr;
          void* b = nullptr;
          ASSERT_EQ(api.Alloc(&a, bytes), cudaSuccess);
          FillRandom(a, bytes, seed);
          ASSERT_EQ(api.CopyAsync(AsPointer(device), a, bytes, stream),
                    cudaSuccess);
          ASSERT_EQ(api.Free(a), cudaSuccess);
          ASSERT_EQ(api.Alloc(&b, bytes), cudaSuccess);
          ASSERT_EQ(api.CopyAsync(b, AsPointer(device), bytes, stream),
                    cudaSuccess);
          ASSERT_EQ(driver().StreamSynchronize(stream), CUDA_SUCCESS);
          wrong += WrongBytes(b, bytes, seed);
          ASSERT_EQ(api.Free(b), cudaSuccess);
        }
        EXPECT_EQ(driver().MemFree(device), CUDA_SUCCESS);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong.load(), 0u);
  });
  EXPECT_EQ(Usage().kinds[pinringUsageStaged].currentBytes, 0u);
}

}  // namespace
}  // namespace pinring
