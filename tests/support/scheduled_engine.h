// What the engine needs to run under the scheduler of simcuda.

#ifndef PINRING_TESTS_SUPPORT_SCHEDULED_ENGINE_H_
#define PINRING_TESTS_SUPPORT_SCHEDULED_ENGINE_H_

#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "src/engine/engine.h"
#include "src/engine/parking.h"
#include "src/simcuda/scheduler.h"

namespace pinring {

// Waits are steps of the schedule; there is no clock.
class ScheduledParking final : public Parking {
 public:
  // give_up: where it answers true, waits end without their condition, as they
  // do by time with real threads. May be empty.
  explicit ScheduledParking(std::function<bool()> give_up = nullptr)
      : give_up_(std::move(give_up)) {}

  bool Await(absl::Mutex& mutex, const char* why,
             absl::FunctionRef<bool()> ready, uint64_t /*max_nanos*/) override
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

}  // namespace pinring

#endif  // PINRING_TESTS_SUPPORT_SCHEDULED_ENGINE_H_
