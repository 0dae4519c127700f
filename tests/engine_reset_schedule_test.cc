// The context that pins the ring is reset, under seeded schedules: whoever
// waits is woken with an error, and copies in other contexts, and in the new
// one, are right.

#include <atomic>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "src/driver/status.h"
#include "src/engine/engine.h"
#include "tests/support/scheduled_engine.h"

namespace pinring {
namespace {

// Makes the primary context of the device, new after a reset, the thread's.
void Enter(EngineBench& bench, CUdevice device) {
  CUcontext context = nullptr;
  bench.Must(bench.driver().DevicePrimaryCtxRetain(&context, device), "retain");
  bench.Must(bench.driver().CtxSetCurrent(context), "set current");
}

// Copies both ways, whose source is filled behind a gate.
void ExpectGatedCopies(EngineBench& bench, const std::string& where) {
  const CUstream stream = bench.NewStream();
  std::atomic<int> gate{0};
  std::vector<std::byte> source = bench.RandomBytes(2500);
  const std::vector<std::byte> late = bench.RandomBytes(2500);
  std::vector<std::byte> back(2500);
  const CUdeviceptr device = bench.NewMemory(2500);
  bench.Hold(stream, &gate, bench.LoadHold());
  bench.Must(
      CudaCode(bench.Copy(Direction::kHostToDevice, source, device, stream)),
      "copy in");
  bench.Must(
      CudaCode(bench.Copy(Direction::kDeviceToHost, back, device, stream)),
      "copy out");
  source = late;
  gate = 1;
  bench.Must(bench.driver().StreamSynchronize(stream), "synchronize");
  if (back != late) bench.Wrong(absl::StrCat("wrong bytes ", where));
  bench.Expect(late, device, where);
  bench.engine().WaitForHost(source.data(), source.size());
  bench.engine().WaitForHost(back.data(), back.size());
}

TEST(EngineResetScheduleTest, TheNewContextGetsANewRing) {
  int failed = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    EngineBench bench(seed, 2);
    std::atomic<bool> copying{false};
    bench.AddCaller("copies", [&] {
      const CUstream stream = bench.NewStream();
      std::vector<std::vector<std::byte>> hosts;
      for (int i = 0; i < 4; ++i) hosts.push_back(bench.RandomBytes(2500));
      const CUdeviceptr device = bench.NewMemory(2500);
      if (seed % 3 == 0) {  // the ring is there before
        bench.Must(CudaCode(bench.Copy(Direction::kHostToDevice, hosts[0],
                                       device, stream)),
                   "the first copy");
      }
      copying = true;
      for (size_t i = 0; i < hosts.size(); ++i) {
        const absl::Status status = bench.Copy(
            i % 2 == 0 ? Direction::kHostToDevice : Direction::kDeviceToHost,
            hosts[i], device, stream);
        // With which code depends on what was gone first.
        failed += status.ok() ? 0 : 1;
      }
      for (std::vector<std::byte>& host : hosts)
        bench.engine().WaitForHost(host.data(), host.size());
    });
    bench.AddCaller("resets", [&] {
      simcuda::Scheduler::Current()->BlockUntil("copies are made",
                                                [&] { return copying.load(); });
      for (uint64_t i = bench.random()() % 40; i > 0; --i)
        simcuda::Scheduler::Yield();
      bench.Must(bench.driver().DevicePrimaryCtxReset(0), "reset");
      Enter(bench, 0);
      ExpectGatedCopies(bench, "after the reset");
      ExpectGatedCopies(bench, "after the reset, again");
    });
    ASSERT_EQ(bench.Run([&] {
      EXPECT_EQ(bench.machine().PinnedBytes(), bench.engine().pinned_bytes());
      EXPECT_EQ(bench.engine().quarantined_bytes(), 0u);
    }),
              "")
        << "seed " << seed;
  }
  EXPECT_GT(failed, 50);  // the reset came between
}

// The ring was pinned by device 0's context; device 1 goes on.
TEST(EngineResetScheduleTest, CopiesOfAnotherDeviceGoOn) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    EngineBench bench(seed, 2, 2);
    enum Stage { kNone, kFirstUsed, kSecondUsed, kReset };
    std::atomic<int> stage{kNone};
    const auto wait_for = [&](int wanted) {
      simcuda::Scheduler::Current()->BlockUntil(
          "the other device's part", [&, wanted] { return stage >= wanted; });
    };
    bench.AddCaller("device 0", [&] {
      ExpectGatedCopies(bench, "of device 0");
      stage = kFirstUsed;
      wait_for(kSecondUsed);
      bench.Must(bench.driver().DevicePrimaryCtxReset(0), "reset");
      stage = kReset;
      if (seed % 2 == 0) return;
      Enter(bench, 0);
      ExpectGatedCopies(bench, "of device 0 after its reset");
    });
    bench.AddCaller("device 1", [&] {
      Enter(bench, 1);
      wait_for(kFirstUsed);
      ExpectGatedCopies(bench, "of device 1");
      stage = kSecondUsed;
      wait_for(kReset);
      ExpectGatedCopies(bench, "of device 1 after device 0's reset");
      ExpectGatedCopies(bench, "of device 1, again");
    });
    ASSERT_EQ(bench.Run([&] {
      EXPECT_EQ(bench.machine().PinnedBytes(), bench.engine().pinned_bytes());
    }),
              "")
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace pinring
