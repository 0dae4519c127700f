#include "src/engine/poll_turn.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "src/os/threads.h"

namespace pinring {
namespace {

using Work = Core::Work;

bool Never() { return false; }

// A processor that is taken away for a second between any two instructions.
uint64_t LateClock() {
  static std::atomic<uint64_t> now{0};
  return now.fetch_add(1'000'000'000) + 1'000'000'000;
}

// Lets a mover that sleeps go on, again and again until it has.
class Waker {
 public:
  Waker(PollTurn& turn, Work work)
      : thread_([this, &turn, work] {
          while (!over_) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            turn.Wake(work);
          }
        }) {}
  ~Waker() {
    over_ = true;
    thread_.join();
  }
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

TEST(PollTurnTest, IsForOneAtATime) {
  PollTurn turn;
  ASSERT_TRUE(turn.Await(Work::kAll, &Never));
  {
    const Waker waker(turn, Work::kAll);
    EXPECT_FALSE(turn.Await(Work::kAll, &Never));
  }
  turn.Give();
  EXPECT_TRUE(turn.Await(Work::kAll, &Never));
}

// Otherwise nobody would look at the flags any more.
TEST(PollTurnTest, NobodySleepsWhileNobodyPollsHoweverLateItIs) {
  PollTurn turn(&LateClock);
  const Waker waker(turn, Work::kAll);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(turn.Await(Work::kAll, &Never)) << i;
    turn.Give();
  }
}

TEST(PollTurnTest, NobodySleepsWhileNobodyPollsThoughTheLastOneWasQuiet) {
  PollTurn turn;
  turn.SetQuiet(true);
  const Waker waker(turn, Work::kAll);
  EXPECT_TRUE(turn.Await(Work::kAll, &Never));
}

TEST(PollTurnTest, OneThatOnlyFillsNeverPolls) {
  PollTurn turn;
  const Waker waker(turn, Work::kFill);
  EXPECT_FALSE(turn.Await(Work::kFill, &Never));
}

TEST(PollTurnTest, StoppingEndsTheWait) {
  PollTurn turn;
  ASSERT_TRUE(turn.Await(Work::kAll, &Never));
  EXPECT_FALSE(turn.Await(Work::kAll, [] { return true; }));
}

TEST(PollTurnTest, EachKindOfWorkIsWokenByItself) {
  PollTurn turn(&LateClock);  // to bed at once
  ASSERT_TRUE(turn.Await(Work::kAll, &Never));
  std::atomic<bool> filler_is_up{false};
  std::thread filler([&] {
    EXPECT_FALSE(turn.Await(Work::kFill, &Never));
    filler_is_up = true;
  });
  for (int i = 0; i < 20; ++i) {
    turn.Wake(Work::kAll);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_FALSE(filler_is_up);
  // Also one that has not fallen asleep yet.
  while (!filler_is_up) turn.Wake(Work::kFill);
  filler.join();
}

// Work comes in at random; whoever polls takes it, wakes the others, and does
// what it took without the turn, as movers do.
TEST(PollTurnTest, WorkIsNeverLeftLying) {
  constexpr int kMovers = 4;
  constexpr uint64_t kPieces = 20'000;
  PollTurn turn(&LateClock);
  std::atomic<uint64_t> offered{0};
  std::atomic<uint64_t> taken{0};
  std::atomic<bool> stopping{false};
  const auto stop = [&] { return stopping.load(); };
  const auto take = [&] {
    uint64_t before = taken.load();
    while (before < offered.load()) {
      if (taken.compare_exchange_weak(before, before + 1)) return true;
    }
    return false;
  };
  std::vector<std::thread> movers;
  for (int i = 0; i < kMovers; ++i) {
    movers.emplace_back([&, i] {
      while (!stop()) {
        if (take()) continue;
        if (!turn.Await(Work::kAll, stop)) continue;
        while (!take() && !stop()) std::this_thread::yield();
        turn.Give();
        turn.Wake(Work::kAll, static_cast<uint64_t>(i));
      }
    });
  }
  bool left = false;
  for (uint64_t piece = 1; piece <= kPieces && !left; ++piece) {
    offered = piece;
    const uint64_t since = os::MonotonicNanos();
    while (taken.load() < piece && !left) {
      std::this_thread::yield();
      left = os::MonotonicNanos() - since > 20'000'000'000;
    }
  }
  EXPECT_FALSE(left) << "piece " << offered << " is left lying";
  stopping = true;
  turn.Wake(Work::kAll);
  for (std::thread& mover : movers) mover.join();
}

}  // namespace
}  // namespace pinring
