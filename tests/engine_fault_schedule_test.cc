// A driver call fails half-way through a transfer, under seeded schedules: what
// was enqueued before arrives whole, what comes after works, nothing hangs, and
// no slot is used again before its copy is over.

#include <atomic>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "src/driver/status.h"
#include "src/engine/engine.h"
#include "src/simcuda/machine.h"
#include "tests/support/scheduled_engine.h"

namespace pinring {
namespace {

using simcuda::Fault;

constexpr size_t kBytes = 5 * 1024 + 7;

struct Scenario {
  const char* function;  // the call that fails
  uint64_t call;
  bool end_fails_too;  // and the write that would say that the transfer is over
  Direction direction;
  bool gated;
};

class FaultRun {
 public:
  FaultRun(const Scenario& scenario, uint64_t seed)
      : scenario_(scenario), bench_(seed, 2) {
    for (CUstream& stream : streams_) stream = bench_.NewStream();
    for (CUdeviceptr& device : devices_) device = bench_.NewMemory(kBytes);
  }

  // What went wrong, or nothing.
  std::string Run() {
    bench_.AddCaller("faulty", [this] { Faulty(); });
    bench_.AddCaller("neighbour", [this] { Neighbour(); });
    return bench_.Run([this] {
      const bool quarantined = bench_.engine().quarantined_bytes() != 0;
      if (failed_ && scenario_.end_fails_too != quarantined) {
        bench_.Wrong("quarantine is not what the failure calls for");
      }
    });
  }
  bool failed() const { return failed_; }

 private:
  void Faulty() {
    const CUstream stream = streams_[0];
    std::vector<std::byte> before = bench_.RandomBytes(kBytes);
    std::vector<std::byte> during = bench_.RandomBytes(kBytes);
    std::vector<std::byte> after = bench_.RandomBytes(kBytes);
    std::vector<std::byte> back(kBytes);
    if (scenario_.gated) bench_.Hold(stream, &gate_);
    bench_.Must(CudaCode(bench_.Copy(Direction::kHostToDevice, before,
                                     devices_[0], stream)),
                "the copy before");
    bench_.Must(CudaCode(bench_.Copy(Direction::kDeviceToHost, back,
                                     devices_[0], stream)),
                "the copy back before");
    bench_.machine().InjectFault(
        Fault{scenario_.function, scenario_.call, CUDA_ERROR_UNKNOWN, false});
    if (scenario_.end_fails_too) {
      bench_.machine().InjectFault(
          Fault{"cuStreamWriteValue32", 0, CUDA_ERROR_UNKNOWN, false});
    }
    const absl::Status status =
        bench_.Copy(scenario_.direction, during, devices_[1], stream);
    bench_.machine().ClearFaults();
    failed_ = !status.ok();
    if (failed_ && CudaCode(status) != CUDA_ERROR_UNKNOWN) {
      bench_.Wrong(absl::StrCat("the code: ", status.ToString()));
    }
    absl::Status next =
        bench_.Copy(Direction::kHostToDevice, after, devices_[2], stream);
    if (!next.ok() && !absl::IsResourceExhausted(next)) {
      bench_.Wrong(absl::StrCat("the copy after: ", next.ToString()));
    }
    gate_ = 1;
    bench_.Must(bench_.driver().StreamSynchronize(stream), "synchronize");
    bench_.Expect(before, devices_[0], "the copy before");
    if (back != before) bench_.Wrong("wrong bytes: the copy back before");
    if (next.ok()) bench_.Expect(after, devices_[2], "the copy after");
    for (const auto* host : {&before, &during, &after, &back}) {
      bench_.engine().WaitForHost(host->data(), host->size());
    }
  }

  // Another stream, to which slots may go.
  void Neighbour() {
    for (int round = 0; round < 3; ++round) {
      std::vector<std::byte> host = bench_.RandomBytes(kBytes);
      // The fault may hit a call of this one: then the bytes are nobody's.
      const absl::Status status =
          bench_.Copy(Direction::kHostToDevice, host, devices_[3], streams_[1]);
      bench_.Must(bench_.driver().StreamSynchronize(streams_[1]),
                  "synchronize");
      bench_.engine().WaitForHost(host.data(), host.size());
      if (status.ok()) {
        bench_.Expect(host, devices_[3], "the neighbour's copy");
      }
    }
  }

  const Scenario scenario_;
  EngineBench bench_;
  std::atomic<int> gate_{0};
  CUstream streams_[2] = {};
  CUdeviceptr devices_[4] = {};
  bool failed_ = false;
};

class EngineFaultScheduleTest : public testing::TestWithParam<bool> {};

TEST_P(EngineFaultScheduleTest, OneFailedCallHarmsNoOtherTransfer) {
  const bool end_fails_too = GetParam();
  uint64_t failed = 0;
  for (const char* function :
       {"cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync", "cuStreamBatchMemOp"}) {
    for (const Direction direction :
         {Direction::kHostToDevice, Direction::kDeviceToHost}) {
      for (uint64_t call = 0; call < 8; ++call) {
        for (uint64_t seed = 1; seed <= 12; ++seed) {
          FaultRun run(
              {function, call, end_fails_too, direction, seed % 3 != 0},
              seed * 1000 + call);
          ASSERT_EQ(run.Run(), "")
              << function << " call " << call << " to the "
              << (direction == Direction::kHostToDevice ? "device" : "host")
              << " seed " << seed;
          failed += run.failed() ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(failed, 100u);
}

INSTANTIATE_TEST_SUITE_P(Ends, EngineFaultScheduleTest, testing::Bool(),
                         [](const auto& param) {
                           return param.param ? "TheEndFailsToo"
                                              : "TheEndIsAccepted";
                         });

}  // namespace
}  // namespace pinring
