#include "src/host/budget.h"

#include <atomic>
#include <cstdint>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace pinring {
namespace {

TEST(PinnedBudgetTest, RefusesWhatDoesNotFit) {
  PinnedBudget budget(100);
  EXPECT_TRUE(budget.TryCharge(60));
  EXPECT_FALSE(budget.TryCharge(41));
  EXPECT_EQ(budget.current_bytes(), 60u);
  EXPECT_EQ(budget.peak_bytes(), 60u) << "a refusal leaves no trace";
  EXPECT_TRUE(budget.TryCharge(40));
  EXPECT_FALSE(budget.TryCharge(1));
  EXPECT_TRUE(budget.TryCharge(0));
  budget.Release(100);
  EXPECT_EQ(budget.current_bytes(), 0u);
  EXPECT_EQ(budget.peak_bytes(), 100u);
  EXPECT_EQ(budget.limit_bytes(), 100u);
}

TEST(PinnedBudgetTest, HugeRequestsDoNotWrapAround) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  PinnedBudget budget(100);
  ASSERT_TRUE(budget.TryCharge(10));
  EXPECT_FALSE(budget.TryCharge(kMax));
  EXPECT_FALSE(budget.TryCharge(kMax - 5));
  PinnedBudget unlimited;
  ASSERT_TRUE(unlimited.TryCharge(10));
  EXPECT_FALSE(unlimited.TryCharge(kMax - 5));
  EXPECT_EQ(unlimited.current_bytes(), 10u);
}

TEST(PinnedBudgetTest, NoLimitCountsEverything) {
  PinnedBudget budget;
  EXPECT_TRUE(budget.TryCharge(uint64_t{1} << 40));
  EXPECT_EQ(budget.peak_bytes(), uint64_t{1} << 40);
}

TEST(PinnedChargeTest, EndsWithItsScope) {
  PinnedBudget budget(100);
  {
    PinnedCharge charge = PinnedCharge::Try(&budget, 70);
    ASSERT_TRUE(charge);
    EXPECT_EQ(charge.bytes(), 70u);
    EXPECT_FALSE(PinnedCharge::Try(&budget, 31));
    PinnedCharge moved = std::move(charge);
    EXPECT_EQ(budget.current_bytes(), 70u);
    PinnedCharge other = PinnedCharge::Try(&budget, 30);
    ASSERT_TRUE(other);
    other = std::move(moved);
    EXPECT_EQ(budget.current_bytes(), 70u) << "the assigned-to charge ended";
  }
  EXPECT_EQ(budget.current_bytes(), 0u);
}

TEST(PinnedChargeTest, KeptChargeStays) {
  PinnedBudget budget(100);
  uint64_t bytes = 0;
  {
    PinnedCharge charge = PinnedCharge::Try(&budget, 70);
    bytes = charge.Keep();
    EXPECT_FALSE(charge);
  }
  EXPECT_EQ(budget.current_bytes(), 70u);
  budget.Release(bytes);
  EXPECT_EQ(budget.current_bytes(), 0u);
}

TEST(PinnedBudgetTest, NoInstantExceedsTheLimit) {
  constexpr uint64_t kLimit = 1000;
  PinnedBudget budget(kLimit);
  // Raised after each charge and lowered before each release: never more than
  // what is charged, so beyond the limit it would prove an overshoot.
  std::atomic<uint64_t> pinned{0};
  std::atomic<bool> over{false};
  std::atomic<uint64_t> granted{0};
  std::atomic<uint64_t> refused{0};
  std::atomic<bool> done{false};
  std::thread watcher([&] {
    while (!done.load(std::memory_order_relaxed)) {
      if (budget.current_bytes() > kLimit) over = true;
    }
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<uint64_t> held;
      for (int i = 0; i < 30000; ++i) {
        const uint64_t bytes = 1 + (i * 37 + t * 101) % 400;
        if (held.size() < 3 && budget.TryCharge(bytes)) {
          if (pinned.fetch_add(bytes) + bytes > kLimit) over = true;
          held.push_back(bytes);
          granted.fetch_add(1, std::memory_order_relaxed);
        } else if (!held.empty()) {
          refused.fetch_add(1, std::memory_order_relaxed);
          pinned.fetch_sub(held.back());
          budget.Release(held.back());
          held.pop_back();
        }
      }
      for (uint64_t bytes : held) {
        pinned.fetch_sub(bytes);
        budget.Release(bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  done = true;
  watcher.join();
  EXPECT_FALSE(over);
  EXPECT_GT(granted.load(), 0u);
  EXPECT_GT(refused.load(), 0u);
  EXPECT_LE(budget.peak_bytes(), kLimit);
  EXPECT_GT(budget.peak_bytes(), kLimit / 2);
  EXPECT_EQ(budget.current_bytes(), 0u);
}

}  // namespace
}  // namespace pinring
