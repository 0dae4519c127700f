#include "src/ring/slots.h"

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace pinring {
namespace {

TEST(SlotsTest, TakesTheLowestAndMostRecentlyFreedFirst) {
  SlotArena arena(1024, 0, 16);
  const std::optional<Slot> a = arena.Take(100);
  const std::optional<Slot> b = arena.Take(16);
  ASSERT_TRUE(a.has_value() && b.has_value());
  EXPECT_EQ(a->offset, 0u);
  EXPECT_EQ(a->bytes, 112u);  // rounded up to units
  EXPECT_EQ(b->offset, 112u);
  arena.Give(*a);
  EXPECT_EQ(arena.Take(64)->offset, 0u);
}

TEST(SlotsTest, ReserveIsForSmallSlotsOnly) {
  SlotArena arena(1024, 256, 16);
  EXPECT_EQ(arena.general_bytes(), 768u);
  EXPECT_FALSE(arena.Take(769).has_value());
  const std::optional<Slot> all = arena.Take(768);
  ASSERT_TRUE(all.has_value());
  EXPECT_FALSE(arena.Take(1).has_value());
  const std::optional<Slot> small = arena.TakeReserved(16);
  ASSERT_TRUE(small.has_value());
  EXPECT_EQ(small->offset, 768u);
  arena.Give(*all);
  arena.Give(*small);
  EXPECT_EQ(arena.free_bytes(), 768u);
  EXPECT_EQ(arena.free_reserved_bytes(), 256u);
}

TEST(SlotsTest, SizesThatAreNoMultipleOfTheUnitAreRoundedDown) {
  SlotArena arena(1000, 100, 64);
  EXPECT_EQ(arena.ring_bytes(), 960u);
  EXPECT_EQ(arena.reserve_bytes(), 64u);
  EXPECT_FALSE(arena.Take(0).has_value());
}

TEST(SlotsTest, RandomTakesAndGivesNeverOverlapAndComeBackWhole) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    std::mt19937 random(seed);
    SlotArena arena(1 << 16, 1 << 14, 64);
    std::vector<Slot> held;
    std::vector<bool> used((1 << 16) / 64, false);
    for (int step = 0; step < 2000; ++step) {
      if (random() % 2 == 0) {
        const size_t bytes = 1 + random() % 5000;
        const std::optional<Slot> slot =
            random() % 3 == 0 ? arena.TakeReserved(bytes) : arena.Take(bytes);
        if (slot.has_value()) {
          ASSERT_GE(slot->bytes, bytes) << "seed " << seed;
          for (size_t unit = slot->offset / 64;
               unit < (slot->offset + slot->bytes) / 64; ++unit) {
            ASSERT_FALSE(used[unit]) << "seed " << seed << " step " << step;
            used[unit] = true;
          }
          held.push_back(*slot);
        }
      } else if (!held.empty()) {
        const size_t i = random() % held.size();
        for (size_t unit = held[i].offset / 64;
             unit < (held[i].offset + held[i].bytes) / 64; ++unit) {
          used[unit] = false;
        }
        arena.Give(held[i]);
        held[i] = held.back();
        held.pop_back();
      }
      arena.CheckInvariants();
    }
    for (const Slot& slot : held) arena.Give(slot);
    EXPECT_EQ(arena.free_bytes() + arena.free_reserved_bytes(), 1u << 16);
    EXPECT_TRUE(arena.Take(arena.general_bytes()).has_value());
  }
}

}  // namespace
}  // namespace pinring
