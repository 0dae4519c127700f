// The decisions for copies in executable graphs, with the test in the place of
// the stream: it writes the stream's flags and sees what movers may do.

#include "src/engine/graph_core.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

namespace pinring {
namespace {

class GraphCoreTest : public testing::Test {
 protected:
  static constexpr size_t kSlotBytes = 1024;

  std::shared_ptr<GraphCopy> Add(Direction direction, size_t bytes) {
    return core_.Add({.direction = direction,
                      .host = memory_.data(),
                      .shape = Shape::Flat(bytes),
                      .context = &context_});
  }
  FlagLine& Flags(const GraphCopy& copy) { return flags_[copy.transfer->line]; }

  // What the stream does: reaches a copy, copies a chunk, ends the replay.
  void Reach(const GraphCopy& copy) {
    Flags(copy).done.store(0);
    Flags(copy).ready.store(1);
  }
  void CopyChunk(const GraphCopy& copy, uint32_t chunk) {
    ASSERT_GE(Flags(copy).permitted.load(), chunk + 1);
    Flags(copy).done.store(chunk + 1);
  }
  void End(const GraphCopy& copy) {
    if (copy.transfer->direction == Direction::kDeviceToHost) {
      ASSERT_EQ(Flags(copy).drained.load(), copy.transfer->chunks);
    }
    Flags(copy).ready.store(0);
    Flags(copy).drained.store(0);
    Flags(copy).permitted.store(0);
  }
  // What movers do: all that there is to move now. Returns how many chunks.
  uint32_t MoveAll() {
    uint32_t moves = 0;
    std::shared_ptr<Transfer> transfer;
    uint32_t chunk = 0;
    size_t offset = 0;
    size_t bytes = 0;
    while (core_.Take(&transfer, &chunk, &offset, &bytes)) {
      core_.Finish(*transfer, chunk, bytes);
      ++moves;
    }
    core_.CheckInvariants();
    return moves;
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(1 << 20);
  int context_ = 0;
  std::vector<FlagLine> flags_ = std::vector<FlagLine>(6);
  SlotArena arena_{16 * kSlotBytes, 0, kSlotBytes};
  std::vector<std::shared_ptr<Transfer>> lost_;
  GraphCore core_{{.first_line = 2,
                   .lines = 4,
                   .most_bytes = 8 * kSlotBytes,
                   .slot_bytes = kSlotBytes,
                   .slots = 2,
                   .piece_bytes = kSlotBytes},
                  flags_.data(),
                  &arena_,
                  &lost_};
};

TEST_F(GraphCoreTest, NothingMovesUntilTheStreamGetsThere) {
  const auto copy = Add(Direction::kHostToDevice, 3 * kSlotBytes);
  ASSERT_NE(copy, nullptr);
  EXPECT_FALSE(core_.CanProgress());
  EXPECT_EQ(MoveAll(), 0u);
  Reach(*copy);
  EXPECT_TRUE(core_.CanProgress());
  EXPECT_EQ(MoveAll(), 2u);  // as many as it has slots
  EXPECT_EQ(Flags(*copy).permitted.load(), 2u);
  EXPECT_EQ(core_.outstanding(), 1u);
}

TEST_F(GraphCoreTest, EveryReplayMovesAllChunksAgain) {
  const auto copy = Add(Direction::kHostToDevice, 3 * kSlotBytes);
  ASSERT_NE(copy, nullptr);
  for (uint64_t replay = 0; replay < 3; ++replay) {
    Reach(*copy);
    EXPECT_EQ(MoveAll(), 2u);
    CopyChunk(*copy, 0);
    EXPECT_EQ(MoveAll(), 1u);
    CopyChunk(*copy, 1);
    CopyChunk(*copy, 2);
    EXPECT_EQ(MoveAll(), 0u);
    EXPECT_EQ(copy->replays, replay);
    End(*copy);
    EXPECT_EQ(MoveAll(), 0u);
    EXPECT_EQ(copy->replays, replay + 1);
  }
  EXPECT_EQ(core_.outstanding(), 0u);
}

TEST_F(GraphCoreTest, AReplayThatBeginsUnseenBehindAnotherIsNotMissed) {
  const auto copy = Add(Direction::kHostToDevice, kSlotBytes);
  ASSERT_NE(copy, nullptr);
  Reach(*copy);
  EXPECT_EQ(MoveAll(), 1u);
  CopyChunk(*copy, 0);
  End(*copy);
  Reach(*copy);  // no mover has looked since
  EXPECT_EQ(MoveAll(), 1u);
  EXPECT_EQ(copy->replays, 1u);
  EXPECT_EQ(Flags(*copy).permitted.load(), 1u);
}

TEST_F(GraphCoreTest, DeviceToHostIsDrainedChunkByChunk) {
  const auto copy = Add(Direction::kDeviceToHost, 3 * kSlotBytes);
  ASSERT_NE(copy, nullptr);
  for (int replay = 0; replay < 2; ++replay) {
    Reach(*copy);
    EXPECT_EQ(MoveAll(), 0u);
    EXPECT_EQ(Flags(*copy).permitted.load(), 2u);
    CopyChunk(*copy, 0);
    EXPECT_EQ(MoveAll(), 1u);
    EXPECT_EQ(Flags(*copy).drained.load(), 1u);
    CopyChunk(*copy, 1);
    CopyChunk(*copy, 2);
    EXPECT_EQ(MoveAll(), 2u);
    End(*copy);
  }
  EXPECT_EQ(MoveAll(), 0u);
  EXPECT_EQ(copy->replays, 2u);
}

TEST_F(GraphCoreTest, EachCopyHasSlotsAndALineOfItsOwn) {
  const auto one = Add(Direction::kHostToDevice, 2 * kSlotBytes);
  const auto other = Add(Direction::kHostToDevice, 2 * kSlotBytes);
  ASSERT_NE(one, nullptr);
  ASSERT_NE(other, nullptr);
  EXPECT_NE(one->transfer->line, other->transfer->line);
  for (const Slot& a : one->transfer->slots) {
    for (const Slot& b : other->transfer->slots) EXPECT_NE(a.offset, b.offset);
  }
  Reach(*other);
  EXPECT_EQ(MoveAll(), 2u);
  EXPECT_FALSE(one->replaying);
}

TEST_F(GraphCoreTest, GraphsHoldNoMoreThanTheirShareOfTheRing) {
  std::vector<std::shared_ptr<GraphCopy>> copies;
  for (int i = 0; i < 4; ++i)
    copies.push_back(Add(Direction::kHostToDevice, 2 * kSlotBytes));
  ASSERT_NE(copies.back(), nullptr);
  EXPECT_EQ(core_.held_bytes(), 8 * kSlotBytes);
  EXPECT_EQ(arena_.free_bytes(), 8 * kSlotBytes);
  EXPECT_EQ(Add(Direction::kHostToDevice, kSlotBytes), nullptr);
  core_.Remove(*copies.front());
  EXPECT_NE(Add(Direction::kHostToDevice, kSlotBytes), nullptr);
  core_.CheckInvariants();
}

TEST_F(GraphCoreTest, ACopyOfTooManyChunksIsRefusedAndHoldsNothing) {
  EXPECT_EQ(
      Add(Direction::kHostToDevice, (GraphCore::kMostChunks + 1) * kSlotBytes),
      nullptr);
  EXPECT_EQ(core_.held_bytes(), 0u);
  core_.CheckInvariants();
}

TEST_F(GraphCoreTest, AGraphThatGoesInTheMiddleOfAReplayKeepsItsSlotsForGood) {
  const auto copy = Add(Direction::kHostToDevice, 2 * kSlotBytes);
  ASSERT_NE(copy, nullptr);
  Reach(*copy);
  std::shared_ptr<Transfer> transfer;
  uint32_t chunk = 0;
  size_t offset = 0;
  size_t bytes = 0;
  ASSERT_TRUE(core_.Take(&transfer, &chunk, &offset, &bytes));
  core_.Remove(*copy);
  EXPECT_EQ(core_.copies(), 0u);
  EXPECT_EQ(core_.quarantined_bytes(), 2 * kSlotBytes);
  // The stream, should it still be there, is let go.
  EXPECT_EQ(Flags(*copy).permitted.load(), 2u);
  // A mover still reads the block.
  ASSERT_EQ(lost_.size(), 1u);
  EXPECT_EQ(lost_.front()->moves_in_progress, 1u);
  core_.Finish(*transfer, chunk, bytes);
  EXPECT_EQ(lost_.front()->moves_in_progress, 0u);
  core_.CheckInvariants();
}

TEST_F(GraphCoreTest, ALostContextLosesItsCopiesAndNoOthers) {
  const auto copy = Add(Direction::kHostToDevice, kSlotBytes);
  int other_context = 0;
  const auto other = core_.Add({.direction = Direction::kHostToDevice,
                                .host = memory_.data(),
                                .shape = Shape::Flat(kSlotBytes),
                                .context = &other_context});
  ASSERT_NE(other, nullptr);
  core_.LoseContext(&context_);
  EXPECT_TRUE(copy->removed);
  EXPECT_FALSE(other->removed);
  EXPECT_EQ(core_.copies(), 1u);
  core_.Remove(*copy);  // when the driver gets to it
  core_.CheckInvariants();
}

TEST_F(GraphCoreTest, AnExpectedReplayTouchesItsBlockUntilItIsOver) {
  const auto copy = Add(Direction::kHostToDevice, kSlotBytes);
  ASSERT_NE(copy, nullptr);
  const auto touches = [&] {
    return core_.TouchesHost(memory_.data(), memory_.data() + 1);
  };
  EXPECT_FALSE(touches());
  core_.Expect(*copy);
  core_.Expect(*copy);
  for (int replay = 0; replay < 2; ++replay) {
    EXPECT_TRUE(touches());
    EXPECT_FALSE(core_.TouchesHost(memory_.data() + kSlotBytes,
                                   memory_.data() + 2 * kSlotBytes));
    Reach(*copy);
    EXPECT_EQ(MoveAll(), 1u);
    EXPECT_TRUE(touches());
    CopyChunk(*copy, 0);
    End(*copy);
    EXPECT_EQ(MoveAll(), 0u);
  }
  EXPECT_FALSE(touches());
  core_.Expect(*copy);
  core_.ForgetExpected(*copy);  // the launch was refused
  EXPECT_FALSE(touches());
  EXPECT_EQ(core_.outstanding(), 0u);
}

TEST_F(GraphCoreTest, BytesThatMoveWhileABlockIsFreedAreWaitedFor) {
  const auto copy = Add(Direction::kHostToDevice, 2 * kSlotBytes);
  ASSERT_NE(copy, nullptr);
  Reach(*copy);
  std::shared_ptr<Transfer> transfer;
  uint32_t chunk = 0;
  size_t offset = 0;
  size_t bytes = 0;
  ASSERT_TRUE(core_.Take(&transfer, &chunk, &offset, &bytes));
  core_.Sever(memory_.data(), memory_.data() + memory_.size());
  EXPECT_TRUE(core_.TouchesHost(memory_.data(), memory_.data() + 1));
  EXPECT_EQ(MoveAll(), 0u);  // no more of them
  EXPECT_EQ(Flags(*copy).permitted.load(), 0u);
  core_.Finish(*transfer, chunk, bytes);
  EXPECT_FALSE(core_.TouchesHost(memory_.data(), memory_.data() + 1));
  EXPECT_EQ(MoveAll(), 0u);
  EXPECT_EQ(Flags(*copy).permitted.load(), 2u);
  CopyChunk(*copy, 0);
  CopyChunk(*copy, 1);
  End(*copy);
  EXPECT_EQ(MoveAll(), 0u);
  EXPECT_EQ(copy->replays, 1u);
}

TEST_F(GraphCoreTest, ReplaysOfAFreedBlockGoByWithoutTouchingIt) {
  const auto copy = Add(Direction::kDeviceToHost, 3 * kSlotBytes);
  ASSERT_NE(copy, nullptr);
  core_.Sever(memory_.data(), memory_.data() + memory_.size());
  for (int replay = 0; replay < 2; ++replay) {
    Reach(*copy);
    EXPECT_EQ(MoveAll(), 0u);
    for (uint32_t chunk = 0; chunk < 3; ++chunk) CopyChunk(*copy, chunk);
    EXPECT_EQ(MoveAll(), 0u);
    EXPECT_FALSE(core_.TouchesHost(memory_.data(), memory_.data() + 1));
    End(*copy);
  }
  EXPECT_EQ(MoveAll(), 0u);
  EXPECT_EQ(copy->replays, 2u);
}

}  // namespace
}  // namespace pinring
