#include "src/ring/division.h"

#include <vector>

#include "gtest/gtest.h"
#include "src/ring/slots.h"

namespace pinring {
namespace {

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;
constexpr size_t kGiB = 1024 * kMiB;

Supply FreshRing() {
  return Supply{64 * kMiB, 8 * kKiB, 48 * kMiB, 16 * kMiB, 16 * kMiB};
}

Supply SupplyOf(const SlotArena& arena) {
  return {arena.ring_bytes(), arena.unit_bytes(), arena.free_bytes(),
          arena.reserve_bytes(), arena.free_reserved_bytes()};
}

TEST(DivisionTest, CallerThatWaitsAloneGetsAllButTheReserveInFourSlots) {
  const Share share =
      DivideRing({}, {.transfer_bytes = kGiB, .waits = true}, FreshRing());
  EXPECT_EQ(share.slots, 4u);
  EXPECT_EQ(share.slot_bytes, 12 * kMiB);
  EXPECT_FALSE(share.reserved);
}

TEST(DivisionTest, IdleStreamLeavesSomeForTheNextOne) {
  const Share share =
      DivideRing({}, {.transfer_bytes = kGiB, .idle = true}, FreshRing());
  EXPECT_EQ(share.slots * share.slot_bytes, 32 * kMiB);
}

TEST(DivisionTest, AStreamThatCannotBeAskedIsTakenForIdleWhileItIsAlone) {
  const Demand alone = {.transfer_bytes = kGiB, .may_be_idle = true};
  const Share share = DivideRing({}, alone, FreshRing());
  EXPECT_EQ(share.slots * share.slot_bytes, 24 * kMiB);
  Demand together = alone;
  together.streams = 8;
  const Share less = DivideRing({}, together, FreshRing());
  EXPECT_EQ(less.slots * less.slot_bytes, 6 * kMiB);
}

TEST(DivisionTest, StreamsThatCameTogetherLatelyShareEqually) {
  for (const bool idle : {true, false}) {
    const Share share = DivideRing(
        {}, {.transfer_bytes = kGiB, .idle = idle, .streams = 8}, FreshRing());
    EXPECT_EQ(share.slots * share.slot_bytes, 6 * kMiB);
  }
}

// Takes what each of eight streams gets, one after the other.
std::vector<size_t> SharesOfEight(bool crowd_known) {
  SlotArena arena(64 * kMiB, 16 * kMiB, 8 * kKiB);
  std::vector<size_t> shares;
  for (size_t stream = 0; stream < 8; ++stream) {
    const Supply supply = SupplyOf(arena);
    const Share share = DivideRing({},
                                   {.transfer_bytes = 128 * kMiB,
                                    .idle = true,
                                    .streams = 8,
                                    .crowd_known = crowd_known},
                                   supply);
    for (size_t i = 0; i < share.slots; ++i) {
      EXPECT_TRUE(arena.Take(share.slot_bytes).has_value());
    }
    shares.push_back(share.slots * share.slot_bytes);
  }
  return shares;
}

TEST(DivisionTest, TheLastOfACrowdThatIsKnownGetsAsMuchAsTheFirst) {
  EXPECT_EQ(SharesOfEight(true), std::vector<size_t>(8, 6 * kMiB));
  const std::vector<size_t> growing = SharesOfEight(false);
  EXPECT_EQ(growing.front(), 6 * kMiB);
  EXPECT_LT(growing.back(), 4 * kMiB);
  EXPECT_GE(growing.back(), 1 * kMiB);
}

// Nine streams with 64 MiB each, one of them held and three of them in one
// hardware queue: their calls must not block.
TEST(DivisionTest, ManyStreamsTogetherStayWithinTheDriversQueue) {
  SlotArena arena(64 * kMiB, 16 * kMiB, 8 * kKiB);
  size_t calls[4] = {};  // by hardware queue
  for (size_t streams = 1; streams <= 9; ++streams) {
    const Supply supply = SupplyOf(arena);
    const Share share = DivideRing(
        {},
        {.transfer_bytes = 64 * kMiB, .idle = streams > 1, .streams = streams},
        supply);
    ASSERT_GT(share.slots, 0u);
    for (size_t i = 0; i < share.slots; ++i) {
      ASSERT_TRUE((share.reserved ? arena.TakeReserved(share.slot_bytes)
                                  : arena.Take(share.slot_bytes))
                      .has_value())
          << streams;
    }
    calls[streams % 4] += 2 * (64 * kMiB / share.slot_bytes) + 3;
  }
  for (const size_t sum : calls) EXPECT_LE(sum, 1020u);
}

TEST(DivisionTest, ReserveStillGivesChunksThatFitTheDriversQueue) {
  Supply supply = FreshRing();
  supply.free_bytes = 0;
  const Share share =
      DivideRing({}, {.transfer_bytes = 64 * kMiB, .streams = 3}, supply);
  EXPECT_TRUE(share.reserved);
  EXPECT_LE(64 * kMiB / share.slot_bytes, MaxChunks(3));
}

TEST(DivisionTest, StreamThatMayBeStalledGetsAnEighthAtMost) {
  const Share share =
      DivideRing({}, {.transfer_bytes = kGiB, .idle = false}, FreshRing());
  EXPECT_LE(share.slots * share.slot_bytes, 8 * kMiB);
  EXPECT_GE(share.slots * share.slot_bytes, 4 * kMiB);
}

TEST(DivisionTest, HugeStalledTransferGetsChunksThatFitTheDriversQueue) {
  const Share share =
      DivideRing({}, {.transfer_bytes = 8 * kGiB, .idle = false}, FreshRing());
  ASSERT_GT(share.slots, 0u);
  EXPECT_LE(8 * kGiB / share.slot_bytes, kMaxChunks);
}

TEST(DivisionTest, SmallTransferTakesOneSmallSlot) {
  const Share share =
      DivideRing({}, {.transfer_bytes = 5000, .idle = true}, FreshRing());
  EXPECT_EQ(share.slots, 1u);
  EXPECT_EQ(share.slot_bytes, 8 * kKiB);
}

TEST(DivisionTest, WhoOwnsEnoughTakesNothingMore) {
  const Share share = DivideRing(
      {}, {.transfer_bytes = kGiB, .owned_bytes = 8 * kMiB}, FreshRing());
  EXPECT_EQ(share.slots, 0u);
}

TEST(DivisionTest, ChosenSlotsAreTaken) {
  const DivisionRules rules{.slot_bytes = 4096, .slots_per_stream = 2};
  const Supply supply{64 * kKiB, 4096, 64 * kKiB, 0, 0};
  Share share =
      DivideRing(rules, {.transfer_bytes = kMiB, .idle = false}, supply);
  EXPECT_EQ(share.slots, 2u);
  EXPECT_EQ(share.slot_bytes, 4096u);
  share = HalveShare(rules, share, 4096);
  EXPECT_EQ(share.slots, 1u);
  EXPECT_EQ(HalveShare(rules, share, 4096).slots, 0u);
}

TEST(DivisionTest, HalvingEnds) {
  Share share{.slot_bytes = 12 * kMiB, .slots = 4};
  int halvings = 0;
  while (share.slots > 0 && halvings < 100) {
    share = HalveShare({}, share, 8 * kKiB);
    ++halvings;
  }
  EXPECT_LT(halvings, 30);
}

}  // namespace
}  // namespace pinring
