// A seeded scheduler that runs a whole program (its threads, pinring's movers,
// the device) one step at a time.
//
// Exactly one step runs at any moment and a pseudo-random generator picks
// which, so a schedule is replayed by its seed, and "deadlock" or "this call
// blocked" mean that no step can run, not that a timer expired. There is no
// clock.
//
// Two kinds of participants:
//  * Callers: functions with a stack of their own (each on a thread that runs
//  only while it holds the baton). A caller
//    gives the baton back in Yield and BlockUntil, which the simulated driver
//    calls at every entry point.
//  * Actors: objects without a thread that offer steps (the device, the
//  host-function thread, a mover).
//
// Thread-safety: AddCaller, AddActor and Run are for the thread that owns the
// scheduler; Yield and BlockUntil are for callers of this scheduler, and for
// actor steps never.

#ifndef PINRING_SRC_SIMCUDA_SCHEDULER_H_
#define PINRING_SRC_SIMCUDA_SCHEDULER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"

namespace pinring::simcuda {

// Thrown out of Yield and BlockUntil when a run ends before its callers do, so
// that their stacks unwind.
struct ScheduleAborted {};

class Actor {
 public:
  virtual ~Actor() = default;
  // How many different steps could run now. Evaluated between steps, must not
  // change anything.
  virtual int EnabledSteps() = 0;
  // Runs step `which`, 0 <= which < EnabledSteps(), as of the latest call of
  // it.
  virtual void Step(int which) = 0;
};

class Scheduler {
 public:
  struct Outcome {
    enum Kind { kCompleted, kDeadlock, kStepLimit };
    Kind kind = kCompleted;
    uint64_t steps = 0;
    // For a deadlock or the step limit: one line per caller that had not
    // finished, with what it waited for.
    std::string detail;
    // Of all choices made: equal for equal schedules.
    uint64_t trace = 0;
  };

  explicit Scheduler(uint64_t seed);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  void AddCaller(std::string name, std::function<void()> body);
  void AddActor(Actor* actor);  // not owned, outlives Run
  // Relative weight of an actor's steps against one caller's (1 by default);
  // lets a test starve the device or the movers. Steps of weight 0 run only
  // when nothing else can.
  void SetWeight(Actor* actor, double weight);

  // Runs until every caller has returned and no actor has an enabled step, or
  // no step can run while a caller has not finished (deadlock), or after
  // max_steps. A caller's exception other than ScheduleAborted ends the run and
  // is rethrown here.
  Outcome Run(uint64_t max_steps);

  // For callers: lets anyone run. No-op where the calling thread belongs to no
  // scheduler.
  static void Yield();
  // For callers: runs others until ready() is true. ready is evaluated between
  // steps and must not change anything.
  void BlockUntil(std::string_view why, absl::FunctionRef<bool()> ready);
  // The scheduler that the calling thread is a caller of, or null; null also
  // within an actor's step.
  static Scheduler* Current();
  // Whether the calling thread runs an actor's step at this moment.
  static bool InStep();
  // The running caller's number, unique in the process, or 0 where Current() is
  // null.
  static uint64_t CurrentCaller();
  // True once a run has ended before its callers did: BlockUntil may then
  // return without its condition in a caller that is already unwinding, so that
  // destructors can still make calls.
  bool Aborting() const;

  // For actors whose step can turn out to change nothing (asking a kernel that
  // spins on a flag): Fruitless says so from within the step, and Epoch counts
  // the steps of which that was not said. Such a step is worth repeating only
  // when the epoch has moved on; offering it only then lets a deadlock be seen.
  void Fruitless();
  uint64_t Epoch() const;

  // True while that caller is blocked in BlockUntil: for tests that ask "did
  // this call block?".
  bool IsBlocked(std::string_view caller) const;

  // The schedule's own generator, so that a program's random choices can share
  // the seed.
  uint64_t Random();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pinring::simcuda

#endif  // PINRING_SRC_SIMCUDA_SCHEDULER_H_
