#include "src/simcuda/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

namespace pinring::simcuda {
namespace {

// Offers a step as long as there are some left, and notes that it ran.
class Countdown : public Actor {
 public:
  Countdown(int steps, char name, std::string* trace)
      : left_(steps), name_(name), trace_(trace) {}
  int EnabledSteps() override { return left_ > 0 ? 1 : 0; }
  void Step(int) override {
    --left_;
    trace_->push_back(name_);
  }

 private:
  int left_;
  const char name_;
  std::string* const trace_;
};

std::string TraceOf(uint64_t seed, uint64_t* hash = nullptr) {
  std::string trace;
  Scheduler scheduler(seed);
  Countdown actor(10, 'x', &trace);
  scheduler.AddActor(&actor);
  for (char name : {'a', 'b', 'c'}) {
    scheduler.AddCaller(std::string(1, name), [&trace, name] {
      for (int i = 0; i < 10; ++i) {
        Scheduler::Yield();
        trace.push_back(name);
      }
    });
  }
  const Scheduler::Outcome outcome = scheduler.Run(1000);
  EXPECT_EQ(outcome.kind, Scheduler::Outcome::kCompleted);
  EXPECT_EQ(trace.size(), 40u);
  if (hash != nullptr) *hash = outcome.trace;
  return trace;
}

TEST(SchedulerTest, ASeedReplaysItsSchedule) {
  uint64_t first_hash = 0;
  uint64_t second_hash = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(TraceOf(seed, &first_hash), TraceOf(seed, &second_hash));
    EXPECT_EQ(first_hash, second_hash);
  }
}

TEST(SchedulerTest, SeedsDiffer) {
  uint64_t first_hash = 0;
  uint64_t second_hash = 0;
  EXPECT_NE(TraceOf(1, &first_hash), TraceOf(2, &second_hash));
  EXPECT_NE(first_hash, second_hash);
}

TEST(SchedulerTest, ABlockedCallerRunsWhenItsConditionHolds) {
  Scheduler scheduler(1);
  bool open = false;
  bool blocked_before = false;
  bool passed = false;
  scheduler.AddCaller("waiter", [&] {
    scheduler.BlockUntil("waits for the door", [&] { return open; });
    passed = true;
  });
  scheduler.AddCaller("opener", [&] {
    for (int i = 0; i < 20; ++i) Scheduler::Yield();
    blocked_before = scheduler.IsBlocked("waiter");
    EXPECT_FALSE(passed);
    open = true;
  });
  EXPECT_EQ(scheduler.Run(1000).kind, Scheduler::Outcome::kCompleted);
  EXPECT_TRUE(blocked_before);
  EXPECT_TRUE(passed);
}

TEST(SchedulerTest, ADeadlockIsFoundAndDescribed) {
  Scheduler scheduler(7);
  bool never = false;
  int unwound = 0;
  scheduler.AddCaller("first", [&] {
    struct Unwind {
      ~Unwind() { ++*count; }
      int* count;
    } unwind{&unwound};
    scheduler.BlockUntil("waits for Godot", [&] { return never; });
    ADD_FAILURE() << "went past a condition that does not hold";
  });
  scheduler.AddCaller("second", [&] { Scheduler::Yield(); });
  const Scheduler::Outcome outcome = scheduler.Run(1000);
  EXPECT_EQ(outcome.kind, Scheduler::Outcome::kDeadlock);
  EXPECT_EQ(outcome.detail, "first: waits for Godot\n");
  EXPECT_EQ(unwound, 1);
}

TEST(SchedulerTest, CallsFromDestructorsOfAnAbortedCallerReturn) {
  Scheduler scheduler(7);
  bool returned = false;
  scheduler.AddCaller("caller", [&] {
    struct Unwind {
      ~Unwind() {
        Scheduler::Yield();
        scheduler->BlockUntil("cleans up", [] { return false; });
        *returned = scheduler->Aborting();
      }
      Scheduler* scheduler;
      bool* returned;
    } unwind{&scheduler, &returned};
    scheduler.BlockUntil("waits", [] { return false; });
  });
  EXPECT_EQ(scheduler.Run(1000).kind, Scheduler::Outcome::kDeadlock);
  EXPECT_TRUE(returned);
}

TEST(SchedulerTest, AStepLimitEndsTheRun) {
  Scheduler scheduler(3);
  scheduler.AddCaller("spinner", [] {
    for (;;) Scheduler::Yield();
  });
  const Scheduler::Outcome outcome = scheduler.Run(500);
  EXPECT_EQ(outcome.kind, Scheduler::Outcome::kStepLimit);
  EXPECT_EQ(outcome.steps, 500u);
  EXPECT_EQ(outcome.detail, "spinner: can run\n");
}

TEST(SchedulerTest, ACallersExceptionIsRethrown) {
  Scheduler scheduler(3);
  scheduler.AddCaller("thrower", [] { throw std::runtime_error("oops"); });
  scheduler.AddCaller("other", [] {
    for (;;) Scheduler::Yield();
  });
  EXPECT_THROW(scheduler.Run(1000), std::runtime_error);
}

TEST(SchedulerTest, ARunEndsOnlyWhenNoActorHasAStep) {
  Scheduler scheduler(3);
  std::string trace;
  Countdown actor(25, 'x', &trace);
  scheduler.AddActor(&actor);
  scheduler.AddCaller("short", [] {});
  EXPECT_EQ(scheduler.Run(1000).kind, Scheduler::Outcome::kCompleted);
  EXPECT_EQ(trace.size(), 25u);
}

TEST(SchedulerTest, AWeightOfZeroStarvesAnActorUntilNothingElseCanRun) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Scheduler scheduler(seed);
    std::string trace;
    Countdown starved(3, 's', &trace);
    Countdown favoured(30, 'f', &trace);
    scheduler.AddActor(&starved);
    scheduler.AddActor(&favoured);
    scheduler.SetWeight(&starved, 0);
    EXPECT_EQ(scheduler.Run(1000).kind, Scheduler::Outcome::kCompleted);
    EXPECT_EQ(trace, std::string(30, 'f') + "sss");
  }
}

TEST(SchedulerTest, WeightsDecideHowOftenAnActorIsChosen) {
  Scheduler scheduler(11);
  std::string trace;
  Countdown heavy(100000, 'h', &trace);
  Countdown light(100000, 'l', &trace);
  scheduler.AddActor(&heavy);
  scheduler.AddActor(&light);
  scheduler.SetWeight(&heavy, 9);
  scheduler.Run(10000);
  const auto heavy_steps = std::count(trace.begin(), trace.end(), 'h');
  EXPECT_GT(heavy_steps, 8700);
  EXPECT_LT(heavy_steps, 9300);
}

// Spins on a condition: every step asks and most change nothing.
class Poller : public Actor {
 public:
  Poller(Scheduler* scheduler, const bool* flag)
      : scheduler_(scheduler), flag_(flag) {}
  int EnabledSteps() override {
    return !done && asked_ != scheduler_->Epoch() ? 1 : 0;
  }
  void Step(int) override {
    ++steps;
    asked_ = scheduler_->Epoch();
    if (*flag_) {
      done = true;
    } else {
      scheduler_->Fruitless();
    }
  }

  bool done = false;
  int steps = 0;

 private:
  Scheduler* const scheduler_;
  const bool* const flag_;
  uint64_t asked_ = ~uint64_t{0};
};

TEST(SchedulerTest, ActorsThatOnlyPollAreADeadlock) {
  Scheduler scheduler(5);
  bool flag = false;
  Poller one(&scheduler, &flag);
  Poller two(&scheduler, &flag);
  scheduler.AddActor(&one);
  scheduler.AddActor(&two);
  scheduler.AddCaller("waiter", [&] {
    scheduler.BlockUntil("waits for both",
                         [&] { return one.done && two.done; });
  });
  const Scheduler::Outcome outcome = scheduler.Run(1000);
  EXPECT_EQ(outcome.kind, Scheduler::Outcome::kDeadlock);
  EXPECT_LT(outcome.steps, 20u);
}

TEST(SchedulerTest, APollingActorIsAskedAgainWhenSomethingHasHappened) {
  Scheduler scheduler(5);
  bool flag = false;
  Poller poller(&scheduler, &flag);
  scheduler.AddActor(&poller);
  scheduler.AddCaller("opener", [&] {
    for (int i = 0; i < 10; ++i) Scheduler::Yield();
    flag = true;
  });
  EXPECT_EQ(scheduler.Run(1000).kind, Scheduler::Outcome::kCompleted);
  EXPECT_TRUE(poller.done);
}

TEST(SchedulerTest, StepsSeeNoCaller) {
  class Asker : public Actor {
   public:
    int EnabledSteps() override {
      saw_caller = saw_caller || Scheduler::Current() != nullptr;
      return left > 0 ? 1 : 0;
    }
    void Step(int) override {
      --left;
      saw_caller = saw_caller || Scheduler::Current() != nullptr ||
                   !Scheduler::InStep() || Scheduler::CurrentCaller() != 0;
    }
    int left = 20;
    bool saw_caller = false;
  };
  Scheduler scheduler(5);
  Asker asker;
  scheduler.AddActor(&asker);
  std::vector<uint64_t> numbers;
  for (int i = 0; i < 2; ++i) {
    scheduler.AddCaller("caller", [&] {
      for (int j = 0; j < 20; ++j) {
        Scheduler::Yield();
        EXPECT_EQ(Scheduler::Current(), &scheduler);
        EXPECT_FALSE(Scheduler::InStep());
      }
      numbers.push_back(Scheduler::CurrentCaller());
    });
  }
  scheduler.Run(1000);
  EXPECT_FALSE(asker.saw_caller);
  ASSERT_EQ(numbers.size(), 2u);
  EXPECT_NE(numbers[0], numbers[1]);
  EXPECT_EQ(Scheduler::CurrentCaller(), 0u);
}

TEST(SchedulerTest, RunsFollowEachOther) {
  Scheduler scheduler(5);
  int ran = 0;
  for (int i = 0; i < 3; ++i) {
    scheduler.AddCaller("caller", [&] { ++ran; });
    EXPECT_EQ(scheduler.Run(1000).kind, Scheduler::Outcome::kCompleted);
    EXPECT_EQ(ran, i + 1);
  }
}

}  // namespace
}  // namespace pinring::simcuda
