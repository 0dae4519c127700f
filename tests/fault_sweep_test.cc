// Every driver call of representative transfers fails, one at a time, at each
// call index: the code comes back from the call, nothing hangs or leaks, later
// copies are right. On the simulated device with real threads; a real driver
// does not fail on demand.

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "src/driver/status.h"
#include "tests/support/fault_bench.h"
#include "tests/support/watchdog.h"

namespace pinring {
namespace {

enum class FaultKind {
  kOnce,
  kAndNoEnd,  // and the write that would tell the end of what was enqueued
  kSticky,
};

class FaultSweep : public testing::Test {
 protected:
  void SetUp() override {
    if (TestsRunNatively()) {
      GTEST_SKIP() << "SIMULATED ONLY: a real driver cannot be told to fail";
    }
  }

  void Sweep(const FaultScenario& scenario, FaultKind kind, bool warm);

 private:
  using Calls = std::map<std::string, uint64_t>;
  static Calls CountCalls(FaultBench& bench) {
    Calls calls;
    for (const auto& [name, count] : bench.machine().AllCalls()) {
      calls[name] = count;
    }
    return calls;
  }

  static void Prepare(const FaultScenario& scenario, bool warm,
                      FaultBench& bench) {
    if (warm) bench.Warm();
    scenario.prepare(bench);
  }
  // A gate is opened by time, as a refused ring makes the calls behind it wait.
  static void RunAndOpen(const FaultScenario& scenario, FaultBench& bench) {
    std::thread opener([&] {
      absl::SleepFor(absl::Milliseconds(2));
      bench.Open();
    });
    scenario.run(bench);
    opener.join();
  }

  void RunOnce(const FaultScenario& scenario, FaultKind kind, bool warm,
               const simcuda::Fault& fault);
  void ExpectRecovery(FaultKind kind, FaultBench& bench);
  void ExpectNothingHangsAfterLoss(FaultBench& bench, CUresult code);
};

void FaultSweep::Sweep(const FaultScenario& scenario, FaultKind kind,
                       bool warm) {
  Calls calls;
  {
    FaultBench bench;
    Prepare(scenario, warm, bench);
    calls = CountCalls(bench);
    RunAndOpen(scenario, bench);
    for (auto& [name, count] : calls) {
      count = bench.machine().Calls(name) - count;
    }
    bench.FreeBlocks();
  }
  for (const auto& [name, count] : calls) {
    for (uint64_t call = 0; call < count; ++call) {
      RunOnce(scenario, kind, warm,
              {name, call,
               call % 2 == 0 ? CUDA_ERROR_LAUNCH_FAILED : CUDA_ERROR_UNKNOWN,
               kind == FaultKind::kSticky});
      if (HasFailure()) return;  // the first one tells; others would hide it
    }
  }
}

void FaultSweep::RunOnce(const FaultScenario& scenario, FaultKind kind,
                         bool warm, const simcuda::Fault& fault) {
  const std::string what =
      absl::StrCat(scenario.name, warm ? ", ring there" : ", ring not there",
                   ": ", fault.function, " call ", fault.call, " answers ",
                   CudaCodeName(fault.code), fault.sticky ? " for good" : "");
  SCOPED_TRACE(what);
  // An abort says nothing of where the sweep is.
  if (std::getenv("PINRING_TEST_VERBOSE") != nullptr) {
    std::printf("%s\n", what.c_str());
    std::fflush(stdout);
  }
  FaultBench bench;
  Watchdog watchdog(what, absl::Seconds(30), [&] {
    return absl::StrCat(
        "transfers outstanding: ", bench.instance().engine().outstanding(),
        "\n", bench.machine().Describe());
  });
  Prepare(scenario, warm, bench);
  bench.machine().InjectFault(fault);
  if (kind == FaultKind::kAndNoEnd) {
    for (uint64_t call = 0; call < 50; ++call) {
      bench.machine().InjectFault(
          {"cuStreamWriteValue32", call, CUDA_ERROR_UNKNOWN});
    }
  }
  RunAndOpen(scenario, bench);
  bench.machine().ClearFaults();
  for (const FaultBench::Copy& copy : bench.copies()) {
    if (copy.status.ok()) continue;
    const CUresult code = CudaCode(copy.status);
    EXPECT_TRUE(code == fault.code ||
                (kind == FaultKind::kAndNoEnd && code == CUDA_ERROR_UNKNOWN))
        << copy.status;
  }
  if (kind == FaultKind::kSticky) {
    ExpectNothingHangsAfterLoss(bench, fault.code);
  } else {
    ExpectRecovery(kind, bench);
  }
}

void FaultSweep::ExpectRecovery(FaultKind kind, FaultBench& bench) {
  Engine& engine = bench.instance().engine();
  for (int i = 0; i < FaultBench::kStreams; ++i) {
    EXPECT_EQ(bench.driver().StreamSynchronize(bench.stream(i)), CUDA_SUCCESS);
  }
  EXPECT_TRUE(
      HappensWithin(kHappens, [&] { return engine.outstanding() == 0; }))
      << engine.outstanding() << " transfers are outstanding";
  const bool quarantined = engine.quarantined_bytes() != 0;
  if (kind == FaultKind::kOnce) {
    EXPECT_FALSE(quarantined);
  }
  EXPECT_EQ(bench.WrongBytes(), 0u);

  // The next copies, more than the ring holds, on every stream.
  std::vector<FaultBench::Copy*> next;
  for (int stream = 0; stream < FaultBench::kStreams; ++stream) {
    next.push_back(bench.Prepare(false, 70000, stream));
    next.push_back(bench.Prepare(true, 70000, stream));
    next.push_back(bench.Prepare(stream % 2 == 0, 20000, 0, true));
  }
  for (FaultBench::Copy* copy : next) {
    bench.Issue(copy);
    EXPECT_TRUE(copy->status.ok()) << copy->status;
  }
  for (int i = 0; i < FaultBench::kStreams; ++i) {
    EXPECT_EQ(bench.driver().StreamSynchronize(bench.stream(i)), CUDA_SUCCESS);
  }
  EXPECT_EQ(bench.WrongBytes(), 0u);
  EXPECT_TRUE(
      HappensWithin(kHappens, [&] { return engine.outstanding() == 0; }));
  engine.CheckInvariants();

  bench.FreeBlocks();
  const UsageSnapshot usage = bench.instance().Usage();
  EXPECT_EQ(usage.kinds[static_cast<size_t>(UsageKind::kStaged)].current_bytes,
            0u);
  EXPECT_EQ(
      usage.kinds[static_cast<size_t>(UsageKind::kPromoted)].current_bytes, 0u);
  EXPECT_EQ(
      usage.kinds[static_cast<size_t>(UsageKind::kMappedPinned)].current_bytes,
      0u);
  EXPECT_EQ(engine.pinned_bytes() + bench.pinned_before(),
            bench.machine().PinnedBytes());
  bench.DropInstance();
  if (!quarantined) {
    EXPECT_EQ(bench.machine().PinnedBytes(), bench.pinned_before());
  }
  const std::vector<std::string> hazards = bench.machine().Hazards();
  EXPECT_TRUE(hazards.empty()) << absl::StrJoin(hazards, "\n");
}

void FaultSweep::ExpectNothingHangsAfterLoss(FaultBench& bench, CUresult code) {
  // A call that fails for good was reached, or the program ended before it.
  const CUresult now = bench.driver().CtxSynchronize();
  EXPECT_TRUE(now == code || now == CUDA_SUCCESS) << now;
  FaultBench::Copy copy = bench.copies().front();
  if (copy.block != nullptr && now != CUDA_SUCCESS) {
    for (const bool wait : {false, true}) {
      copy.wait = wait;
      bench.Issue(&copy);
      EXPECT_EQ(CudaCode(copy.status), code) << copy.status;
    }
  }
  bench.FreeBlocks();
  EXPECT_TRUE(HappensWithin(
      kHappens, [&] { return bench.instance().engine().outstanding() == 0; }))
      << bench.instance().engine().outstanding()
      << " transfers of a lost context are outstanding";
  const UsageSnapshot usage = bench.instance().Usage();
  EXPECT_EQ(usage.kinds[static_cast<size_t>(UsageKind::kStaged)].current_bytes,
            0u);
  bench.DropInstance();
}

// One scenario, one kind of fault, and whether the ring is there before.
class FaultSweepTest
    : public FaultSweep,
      public testing::WithParamInterface<std::tuple<size_t, FaultKind, bool>> {
};

TEST_P(FaultSweepTest, NothingHangsLeaksOrIsWrong) {
  const auto [scenario, kind, warm] = GetParam();
  Sweep(FaultScenarios()[scenario], kind, warm);
}

std::string Label(
    const testing::TestParamInfo<FaultSweepTest::ParamType>& info) {
  const auto [scenario, kind, warm] = info.param;
  std::string label =
      absl::StrCat(FaultScenarios()[scenario].name,
                   kind == FaultKind::kOnce       ? "_one call"
                   : kind == FaultKind::kAndNoEnd ? "_one call and the end"
                                                  : "_the context",
                   warm ? "" : "_while the ring is made");
  for (char& c : label) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return label;
}

INSTANTIATE_TEST_SUITE_P(
    Calls, FaultSweepTest,
    testing::Combine(testing::Range<size_t>(0, FaultScenarios().size()),
                     testing::Values(FaultKind::kOnce, FaultKind::kAndNoEnd,
                                     FaultKind::kSticky),
                     testing::Bool()),
    Label);

}  // namespace
}  // namespace pinring
