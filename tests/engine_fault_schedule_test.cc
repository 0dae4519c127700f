// A driver call fails half-way through a transfer, under seeded schedules: what
// was enqueued before arrives whole, what comes after works, nothing hangs, and
// no slot is used again before its copy is over.

#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "src/driver/status.h"
#include "src/engine/engine.h"
#include "src/simcuda/machine.h"
#include "src/simcuda/scheduler.h"
#include "tests/support/scheduled_engine.h"

namespace pinring {
namespace {

using simcuda::Fault;
using simcuda::Machine;
using simcuda::Scheduler;

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
      : scenario_(scenario),
        random_(seed),
        scheduler_(seed),
        machine_(MachineOptionsOf(), &scheduler_),
        driver_(machine_.driver()) {}

  // What went wrong, or nothing.
  std::string Run() {
    SetUp();
    scheduler_.AddCaller("faulty", [this] { Faulty(); });
    scheduler_.AddCaller("neighbour", [this] { Neighbour(); });
    const Scheduler::Outcome outcome = scheduler_.Run(1'000'000);
    if (outcome.kind != Scheduler::Outcome::kCompleted) {
      absl::StrAppend(&wrong_, "hang: ", outcome.detail, machine_.Describe());
    } else {
      engine_->CheckInvariants();
      if (engine_->outstanding() != 0) wrong_ += "transfers are left over\n";
      if (scenario_.end_fails_too != (engine_->quarantined_bytes() != 0) &&
          failed_) {
        wrong_ += "quarantine is not what the failure calls for\n";
      }
    }
    for (const std::string& hazard : machine_.Hazards()) {
      absl::StrAppend(&wrong_, hazard, "\n");
    }
    return wrong_;
  }
  bool failed() const { return failed_; }

 private:
  static simcuda::MachineOptions MachineOptionsOf() {
    simcuda::MachineOptions options;
    options.copy_step_bytes = 512;
    options.small_copy_bytes = 256;
    return options;
  }

  void Must(CUresult code, const char* what) {
    if (code != CUDA_SUCCESS) {
      absl::StrAppend(&wrong_, what, ": ", CudaCodeName(code), "\n");
    }
  }

  std::vector<std::byte> RandomBytes() {
    std::vector<std::byte> bytes(kBytes);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random_());
    return bytes;
  }

  void SetUp() {
    Must(driver_.Init(0), "init");
    Must(driver_.DevicePrimaryCtxRetain(&context_, 0), "retain");
    Must(driver_.CtxSetCurrent(context_), "set current");
    machine_.RegisterKernel("hold", {sizeof(void*)}, [](void** parameters) {
      return (*static_cast<std::atomic<int>**>(parameters[0]))->load() != 0;
    });
    CUmodule module = nullptr;
    Must(driver_.ModuleLoadData(&module, "eager"), "load");
    Must(driver_.ModuleGetFunction(&hold_, module, "hold"), "function");
    for (CUstream& stream : streams_) {
      Must(driver_.StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0),
           "stream");
    }
    for (CUdeviceptr& device : devices_) {
      Must(driver_.MemAlloc(&device, kBytes), "alloc");
    }
    EngineOptions options;
    options.movers = -1;
    options.lines = 8;
    options.piece_bytes = 700;
    options.division = {1024, 2};
    options.ring_bytes = 8 * 1024;
    engine_ = std::make_unique<Engine>(
        options,
        EngineSurroundings{&driver_, &parking_, [](size_t) { return true; },
                           [](size_t) {}});
    for (int i = 0; i < 2; ++i) {
      movers_.push_back(std::make_unique<ScheduledMover>(engine_.get()));
      scheduler_.AddActor(movers_.back().get());
    }
  }

  absl::Status Copy(Direction direction, std::vector<std::byte>& host,
                    CUdeviceptr device, CUstream stream) {
    absl::StatusOr<CopyResult> result = engine_->Copy(CopyRequest{
        direction, host.data(), device, host.size(), stream, false});
    if (result.ok() && result->outcome != CopyOutcome::kDeferred &&
        result->outcome != CopyOutcome::kIdle) {
      return absl::ResourceExhaustedError("no slot");
    }
    return result.status();
  }

  void Expect(const std::vector<std::byte>& host, CUdeviceptr device,
              const char* what) {
    std::vector<std::byte> there(kBytes);
    Must(driver_.MemcpyDtoH(there.data(), device, kBytes), "read back");
    if (there != host) {
      absl::StrAppend(&wrong_, "wrong bytes: ", what, "\n");
    }
  }

  void Faulty() {
    Must(driver_.CtxSetCurrent(context_), "set current");
    const CUstream stream = streams_[0];
    std::vector<std::byte> before = RandomBytes();
    std::vector<std::byte> during = RandomBytes();
    std::vector<std::byte> after = RandomBytes();
    std::vector<std::byte> back(kBytes);
    if (scenario_.gated) {
      std::atomic<int>* gate = &gate_;
      void* parameters[] = {&gate};
      Must(driver_.LaunchKernel(hold_, 1, 1, 1, 1, 1, 1, 0, stream, parameters,
                                nullptr),
           "launch");
    }
    Must(CudaCode(Copy(Direction::kHostToDevice, before, devices_[0], stream)),
         "the copy before");
    Must(CudaCode(Copy(Direction::kDeviceToHost, back, devices_[0], stream)),
         "the copy back before");
    machine_.InjectFault(
        Fault{scenario_.function, scenario_.call, CUDA_ERROR_UNKNOWN, false});
    if (scenario_.end_fails_too) {
      machine_.InjectFault(
          Fault{"cuStreamWriteValue32", 0, CUDA_ERROR_UNKNOWN, false});
    }
    const absl::Status status =
        Copy(scenario_.direction, during, devices_[1], stream);
    machine_.ClearFaults();
    failed_ = !status.ok();
    if (failed_ && CudaCode(status) != CUDA_ERROR_UNKNOWN) {
      absl::StrAppend(&wrong_, "the code: ", status.ToString(), "\n");
    }
    absl::Status next =
        Copy(Direction::kHostToDevice, after, devices_[2], stream);
    if (!next.ok() && !absl::IsResourceExhausted(next)) {
      absl::StrAppend(&wrong_, "the copy after: ", next.ToString(), "\n");
    }
    gate_ = 1;
    Must(driver_.StreamSynchronize(stream), "synchronize");
    Expect(before, devices_[0], "the copy before");
    if (back != before) wrong_ += "wrong bytes: the copy back before\n";
    if (next.ok()) Expect(after, devices_[2], "the copy after");
    engine_->WaitForHost(before.data(), before.size());
    engine_->WaitForHost(during.data(), during.size());
    engine_->WaitForHost(after.data(), after.size());
    engine_->WaitForHost(back.data(), back.size());
  }

  // Another stream, to which slots may go.
  void Neighbour() {
    Must(driver_.CtxSetCurrent(context_), "set current");
    for (int round = 0; round < 3; ++round) {
      std::vector<std::byte> host = RandomBytes();
      // The fault may hit a call of this one: then the bytes are nobody's.
      const absl::Status status =
          Copy(Direction::kHostToDevice, host, devices_[3], streams_[1]);
      Must(driver_.StreamSynchronize(streams_[1]), "synchronize");
      engine_->WaitForHost(host.data(), host.size());
      if (status.ok()) Expect(host, devices_[3], "the neighbour's copy");
    }
  }

  const Scenario scenario_;
  std::mt19937_64 random_;
  Scheduler scheduler_;
  Machine machine_;
  const Driver& driver_;
  ScheduledParking parking_;
  CUcontext context_ = nullptr;
  CUfunction hold_ = nullptr;
  std::atomic<int> gate_{0};
  CUstream streams_[2] = {};
  CUdeviceptr devices_[4] = {};
  std::unique_ptr<Engine> engine_;
  std::vector<std::unique_ptr<ScheduledMover>> movers_;
  std::string wrong_;
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
