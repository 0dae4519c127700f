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

TEST(DivisionTest, OneFlowingStreamAloneGetsNearlyAllInFourSlots) {
  const Share share =
      DivideRing({}, {.transfer_bytes = kGiB, .flows = true, .alone = true},
                 FreshRing());
  EXPECT_EQ(share.slots, 4u);
  EXPECT_EQ(share.slot_bytes, 12 * kMiB);
  EXPECT_FALSE(share.reserved);
}

TEST(DivisionTest, StreamThatMayBeStalledGetsAnEighthAtMost) {
  const Share share = DivideRing(
      {}, {.transfer_bytes = kGiB, .flows = false, .alone = true}, FreshRing());
  EXPECT_LE(share.slots * share.slot_bytes, 8 * kMiB);
  EXPECT_GE(share.slots * share.slot_bytes, 4 * kMiB);
}

TEST(DivisionTest, HugeStalledTransferGetsChunksThatFitTheDriversQueue) {
  const Share share =
      DivideRing({}, {.transfer_bytes = 8 * kGiB, .flows = false, .alone = true},
                 FreshRing());
  ASSERT_GT(share.slots, 0u);
  EXPECT_LE(8 * kGiB / share.slot_bytes, kMaxChunks);
}

TEST(DivisionTest, SmallTransferTakesOneSmallSlot) {
  const Share share =
      DivideRing({}, {.transfer_bytes = 5000, .flows = true, .alone = true},
                 FreshRing());
  EXPECT_EQ(share.slots, 1u);
  EXPECT_EQ(share.slot_bytes, 8 * kKiB);
}

TEST(DivisionTest, WhoOwnsEnoughTakesNothingMore) {
  const Share share = DivideRing({},
                                 {.transfer_bytes = kGiB,
                                  .flows = false,
                                  .alone = true,
                                  .owned_bytes = 8 * kMiB},
                                 FreshRing());
  EXPECT_EQ(share.slots, 0u);
}

TEST(DivisionTest, ChosenSlotsAreTaken) {
  const DivisionRules rules{.slot_bytes = 4096, .slots_per_stream = 2};
  const Supply supply{64 * kKiB, 4096, 64 * kKiB, 0, 0};
  Share share = DivideRing(
      rules, {.transfer_bytes = kMiB, .flows = false, .alone = false}, supply);
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
