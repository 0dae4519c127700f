// What the engine needs to run under the scheduler of simcuda.

#ifndef PINRING_TESTS_SUPPORT_SCHEDULED_ENGINE_H_
#define PINRING_TESTS_SUPPORT_SCHEDULED_ENGINE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "src/driver/status.h"
#include "src/engine/engine.h"
#include "src/engine/parking.h"
#include "src/simcuda/machine.h"
#include "src/simcuda/scheduler.h"

namespace pinring {

// Waits are steps of the schedule; there is no clock.
class ScheduledParking final : public Parking {
 public:
  // give_up: where it answers true, waits end without their condition, as they
  // do by time with real threads. May be empty.
  explicit ScheduledParking(std::function<bool()> give_up = nullptr)
      : give_up_(std::move(give_up)) {}

  using Parking::Await;
  bool Await(absl::Mutex& mutex, const char* why,
             absl::FunctionRef<bool()> ready, uint64_t /*max_nanos*/,
             const FlagWatch* /*watch*/) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (ready()) return true;
    mutex.Unlock();
    struct Relock {
      absl::Mutex& mutex;
      ~Relock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex.Lock(); }
    } relock{mutex};
    if (simcuda::Scheduler* scheduler = simcuda::Scheduler::Current()) {
      scheduler->BlockUntil(why, [&] { return ready() || GivesUp(); });
    }
    return ready();
  }

  uint64_t NowNanos() override { return 0; }

 private:
  bool GivesUp() const { return give_up_ && give_up_(); }

  const std::function<bool()> give_up_;
};

// One mover: takes a move in one step, carries it out in another, so that
// everything can happen in between.
class ScheduledMover final : public simcuda::Actor {
 public:
  explicit ScheduledMover(Engine* engine) : engine_(*engine) {}

  int EnabledSteps() override {
    return move_.has_value() || engine_.CanStep() ? 1 : 0;
  }
  void Step(int /*which*/) override {
    if (move_.has_value()) {
      if (!carried_out_) {
        engine_.CarryOut(*move_);
        carried_out_ = true;
        return;
      }
      engine_.FinishMove(*move_);
      move_.reset();
      carried_out_ = false;
      return;
    }
    Move move;
    if (engine_.StepTake(&move)) move_ = move;
    engine_.CheckInvariants();
  }

 private:
  Engine& engine_;
  std::optional<Move> move_;
  bool carried_out_ = false;
};

// An engine with movers on a simulated device, all under one schedule, and the
// steps that tests of single transfers are made of. What goes wrong is
// gathered in words.
class EngineBench {
 public:
  // Chunks of 1 KiB, two slots for each stream, four streams' worth of them,
  // but for what `adjust` says otherwise.
  EngineBench(
      uint64_t seed, int movers, int devices = 1,
      absl::FunctionRef<void(EngineOptions*)> adjust = [](EngineOptions*) {})
      : random_(seed),
        scheduler_(seed),
        machine_(SmallMachine(devices), &scheduler_),
        driver_(machine_.driver()) {
    Must(driver_.Init(0), "init");
    Must(driver_.DevicePrimaryCtxRetain(&context_, 0), "retain");
    Must(driver_.CtxSetCurrent(context_), "set current");
    machine_.RegisterKernel("hold", {sizeof(void*)}, [](void** parameters) {
      return (*static_cast<std::atomic<int>**>(parameters[0]))->load() != 0;
    });
    hold_ = LoadHold();
    EngineOptions options;
    options.movers = -1;
    options.lines = 8;
    options.piece_bytes = 700;
    options.smallest_chunk_bytes = 200;
    options.division = {1024, 2};
    options.ring_bytes = 8 * 1024;
    adjust(&options);
    engine_ = std::make_unique<Engine>(
        options,
        EngineSurroundings{&driver_, &parking_, [](size_t) { return true; },
                           [](size_t) {}});
    for (int i = 0; i < movers; ++i) {
      movers_.push_back(std::make_unique<ScheduledMover>(engine_.get()));
      scheduler_.AddActor(movers_.back().get());
    }
  }

  simcuda::Machine& machine() { return machine_; }
  const Driver& driver() const { return driver_; }
  Engine& engine() { return *engine_; }
  std::mt19937_64& random() { return random_; }

  void Must(CUresult code, const char* what) {
    if (code != CUDA_SUCCESS) {
      absl::StrAppend(&wrong_, what, ": ", CudaCodeName(code), "\n");
    }
  }
  void Check(const absl::Status& status) {
    if (!status.ok()) Wrong(status.ToString());
  }
  void Wrong(absl::string_view what) { absl::StrAppend(&wrong_, what, "\n"); }

  CUstream NewStream() {
    CUstream stream = nullptr;
    Must(driver_.StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0),
         "stream");
    return stream;
  }
  CUdeviceptr NewMemory(size_t bytes) {
    CUdeviceptr memory = 0;
    Must(driver_.MemAlloc(&memory, bytes), "alloc");
    return memory;
  }
  std::vector<std::byte> RandomBytes(size_t n) {
    std::vector<std::byte> bytes(n);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random_());
    return bytes;
  }

  // The stream stops here until the gate is not 0. `hold` is the kernel in the
  // stream's context; null in the bench's own.
  void Hold(CUstream stream, std::atomic<int>* gate,
            CUfunction hold = nullptr) {
    void* parameters[] = {&gate};
    Must(driver_.LaunchKernel(hold != nullptr ? hold : hold_, 1, 1, 1, 1, 1, 1,
                              0, stream, parameters, nullptr),
         "launch");
  }
  // That kernel, in the current context.
  CUfunction LoadHold() {
    CUmodule module = nullptr;
    CUfunction hold = nullptr;
    Must(driver_.ModuleLoadData(&module, "eager"), "load");
    Must(driver_.ModuleGetFunction(&hold, module, "hold"), "function");
    return hold;
  }

  // ResourceExhausted where the ring had no room.
  absl::Status Copy(Direction direction, std::vector<std::byte>& host,
                    CUdeviceptr device, CUstream stream,
                    HostAccess access = HostAccess::kInStreamOrder,
                    bool wait = false) {
    return CopyShape(direction, host, device, Shape::Flat(host.size()), stream,
                     access, wait);
  }
  absl::Status CopyShape(Direction direction, std::vector<std::byte>& host,
                         CUdeviceptr device, const Shape& shape,
                         CUstream stream,
                         HostAccess access = HostAccess::kInStreamOrder,
                         bool wait = false) {
    return Outcome(engine_->Copy({.direction = direction,
                                  .host = host.data(),
                                  .device = device,
                                  .shape = shape,
                                  .stream = stream,
                                  .wait = wait,
                                  .access = access}));
  }
  // Writes `value` to the bytes of the shape.
  absl::Status Fill(std::vector<std::byte>& host, const Shape& shape,
                    unsigned char value, CUstream stream) {
    return Outcome(engine_->Copy({.direction = Direction::kDeviceToHost,
                                  .host = host.data(),
                                  .shape = shape,
                                  .stream = stream,
                                  .fill = value}));
  }
  static absl::Status Outcome(const absl::StatusOr<CopyResult>& result) {
    if (result.ok() && result->outcome != CopyOutcome::kDeferred &&
        result->outcome != CopyOutcome::kIdle &&
        result->outcome != CopyOutcome::kSync) {
      return absl::ResourceExhaustedError("no slot");
    }
    return result.status();
  }

  void Expect(const std::vector<std::byte>& host, CUdeviceptr device,
              absl::string_view what) {
    std::vector<std::byte> there(host.size());
    Must(driver_.MemcpyDtoH(there.data(), device, there.size()), "read back");
    if (there != host) Wrong(absl::StrCat("wrong bytes: ", what));
  }

  // A thread of the program.
  void AddCaller(std::string name, std::function<void()> body) {
    scheduler_.AddCaller(std::move(name), [this, body = std::move(body)] {
      Must(driver_.CtxSetCurrent(context_), "set current");
      body();
    });
  }

  // What went wrong, or nothing. `look` is called once all threads are done.
  std::string Run(absl::FunctionRef<void()> look) {
    const simcuda::Scheduler::Outcome outcome = scheduler_.Run(1'000'000);
    if (outcome.kind != simcuda::Scheduler::Outcome::kCompleted) {
      absl::StrAppend(&wrong_, "hang: ", outcome.detail, machine_.Describe());
    } else {
      engine_->CheckInvariants();
      if (engine_->outstanding() != 0) Wrong("transfers are left over");
      look();
    }
    for (const std::string& hazard : machine_.Hazards()) Wrong(hazard);
    return wrong_;
  }

 private:
  static simcuda::MachineOptions SmallMachine(int devices) {
    simcuda::MachineOptions options;
    options.devices = devices;
    options.copy_step_bytes = 512;
    options.small_copy_bytes = 256;
    return options;
  }

  std::mt19937_64 random_;
  simcuda::Scheduler scheduler_;
  simcuda::Machine machine_;
  const Driver& driver_;
  ScheduledParking parking_;
  CUcontext context_ = nullptr;
  CUfunction hold_ = nullptr;
  std::unique_ptr<Engine> engine_;
  std::vector<std::unique_ptr<ScheduledMover>> movers_;
  std::string wrong_;
};

}  // namespace pinring

#endif  // PINRING_TESTS_SUPPORT_SCHEDULED_ENGINE_H_
