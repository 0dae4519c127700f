#include "src/engine/core.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace pinring {
namespace {

constexpr size_t kChunk = 64;

void CarryOut(const Move& move) {
  std::byte* const host = move.transfer->HostAt(move.offset);
  if (move.transfer->fill.has_value()) {
    std::memset(host, *move.transfer->fill, move.bytes);
  } else if (move.transfer->direction == Direction::kHostToDevice) {
    std::memcpy(move.slot, host, move.bytes);
  } else {
    std::memcpy(host, move.slot, move.bytes);
  }
}

// A ring, its flags, and streams that are stepped by hand.
class CoreTest : public testing::Test {
 protected:
  CoreOptions Options(size_t slots_per_stream, size_t ring_slots) {
    CoreOptions options;
    options.ring_bytes = ring_slots * kChunk;
    options.unit_bytes = kChunk;
    options.division = {kChunk, slots_per_stream};
    options.piece_bytes = 40;          // chunks take two pieces
    options.smallest_chunk_bytes = 8;  // some of them one
    options.lines = 8;
    return options;
  }

  void Make(const CoreOptions& options) {
    ring_.assign(options.ring_bytes, std::byte{0});
    flags_ = std::make_unique<FlagLine[]>(options.lines);
    for (uint32_t i = 0; i < options.lines; ++i) {
      flags_[i].ready = options.first_sequence;
      flags_[i].done = options.first_sequence;
      flags_[i].permitted = options.first_sequence;
      flags_[i].drained = options.first_sequence;
    }
    core_ = std::make_unique<Core>(options, ring_.data(), flags_.get());
  }

  std::shared_ptr<Transfer> Publish(uint64_t stream, Direction direction,
                                    std::vector<std::byte>& host) {
    TransferRequest request;
    request.direction = direction;
    request.host = host.data();
    request.shape = Shape::Flat(host.size());
    return core_->Publish(StreamKey{this, stream}, request).transfer;
  }

  // Moves everything that may move now.
  int MoveAll() {
    int moves = 0;
    Move move;
    while (core_->Take(0, nullptr, &move)) {
      CarryOut(move);
      core_->Finish(move);
      ++moves;
    }
    core_->CheckInvariants();
    return moves;
  }

  // The stream reaches the transfer.
  void Reach(const Transfer& t) { flags_[t.line].ready = t.number; }

  // The stream's next step on chunk `chunk`; false while it has to wait.
  bool Copy(const Transfer& t, uint32_t chunk, std::vector<std::byte>& device) {
    if (!AtLeast(flags_[t.line].permitted, t.ChunkSequence(chunk)))
      return false;
    std::byte* slot = ring_.data() + t.ChunkSlot(chunk).offset;
    std::byte* at = device.data() + t.ChunkOffset(chunk);
    if (t.direction == Direction::kHostToDevice) {
      std::memcpy(at, slot, t.ChunkBytes(chunk));
    } else {
      std::memcpy(slot, at, t.ChunkBytes(chunk));
    }
    flags_[t.line].done = t.ChunkSequence(chunk);
    return true;
  }

  static std::vector<std::byte> Random(size_t bytes) {
    static std::mt19937 random(7);
    std::vector<std::byte> data(bytes);
    for (std::byte& b : data) b = static_cast<std::byte>(random());
    return data;
  }

  std::vector<std::byte> ring_;
  std::unique_ptr<FlagLine[]> flags_;
  std::unique_ptr<Core> core_;
};

TEST_F(CoreTest, HostIsReadOnlyWhenTheStreamGetsThere) {
  Make(Options(2, 2));
  std::vector<std::byte> host = Random(100);
  auto transfer = Publish(1, Direction::kHostToDevice, host);
  ASSERT_NE(transfer, nullptr);
  EXPECT_EQ(MoveAll(), 0);
  const std::vector<std::byte> late = Random(100);
  std::copy(late.begin(), late.end(), host.begin());
  Reach(*transfer);
  EXPECT_GT(MoveAll(), 0);
  std::vector<std::byte> device(100);
  ASSERT_TRUE(Copy(*transfer, 0, device));
  ASSERT_TRUE(Copy(*transfer, 1, device));
  EXPECT_EQ(device, late);
  MoveAll();
  EXPECT_TRUE(transfer->retired);
  EXPECT_TRUE(core_->idle());
}

TEST_F(CoreTest, SlotIsFilledAgainOnlyAfterItsCopy) {
  Make(Options(1, 1));
  std::vector<std::byte> host = Random(3 * kChunk);
  std::vector<std::byte> device(host.size());
  auto transfer = Publish(1, Direction::kHostToDevice, host);
  Reach(*transfer);
  for (uint32_t chunk = 0; chunk < 3; ++chunk) {
    EXPECT_EQ(MoveAll(), 2);  // two pieces, one chunk
    EXPECT_FALSE(AtLeast(flags_[transfer->line].permitted,
                         transfer->ChunkSequence(chunk) + 1));
    ASSERT_TRUE(Copy(*transfer, chunk, device));
  }
  EXPECT_EQ(device, host);
}

TEST_F(CoreTest, DeviceToHostIsPermittedAheadAndDrainedInOrder) {
  Make(Options(2, 2));
  std::vector<std::byte> device = Random(3 * kChunk + 5);
  std::vector<std::byte> host(device.size());
  auto transfer = Publish(1, Direction::kDeviceToHost, host);
  MoveAll();
  Reach(*transfer);
  ASSERT_TRUE(Copy(*transfer, 0, device));
  ASSERT_TRUE(Copy(*transfer, 1, device));
  EXPECT_FALSE(Copy(*transfer, 2, device));  // its slot is not drained
  EXPECT_FALSE(
      AtLeast(flags_[transfer->line].drained, transfer->ChunkSequence(0)));
  MoveAll();
  ASSERT_TRUE(Copy(*transfer, 2, device));
  ASSERT_TRUE(Copy(*transfer, 3, device));
  EXPECT_FALSE(transfer->retired);
  MoveAll();
  EXPECT_TRUE(
      AtLeast(flags_[transfer->line].drained, transfer->LastSequence()));
  EXPECT_TRUE(transfer->retired);
  EXPECT_EQ(host, device);
}

TEST_F(CoreTest, DrainedRisesInOrderWhenPiecesFinishOutOfOrder) {
  Make(Options(2, 2));
  std::vector<std::byte> device = Random(2 * kChunk);
  std::vector<std::byte> host(device.size());
  auto transfer = Publish(1, Direction::kDeviceToHost, host);
  MoveAll();
  Reach(*transfer);
  Copy(*transfer, 0, device);
  Copy(*transfer, 1, device);
  std::vector<Move> moves(4);
  for (Move& move : moves) {
    ASSERT_TRUE(core_->Take(0, nullptr, &move));
    CarryOut(move);
  }
  core_->Finish(moves[3]);
  core_->Finish(moves[2]);
  core_->Finish(moves[1]);
  EXPECT_FALSE(
      AtLeast(flags_[transfer->line].drained, transfer->ChunkSequence(0)));
  core_->Finish(moves[0]);
  EXPECT_TRUE(
      AtLeast(flags_[transfer->line].drained, transfer->LastSequence()));
  EXPECT_EQ(host, device);
}

TEST_F(CoreTest, SlotStaysWithItsStreamUntilRetired) {
  Make(Options(1, 1));
  std::vector<std::byte> a = Random(kChunk);
  std::vector<std::byte> b = Random(kChunk);
  std::vector<std::byte> device(kChunk);
  auto first = Publish(1, Direction::kHostToDevice, a);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(Publish(2, Direction::kHostToDevice, b), nullptr);
  Reach(*first);
  MoveAll();
  EXPECT_EQ(Publish(2, Direction::kHostToDevice, b), nullptr);
  ASSERT_TRUE(Copy(*first, 0, device));
  MoveAll();
  auto second = Publish(2, Direction::kHostToDevice, b);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->line, first->line);  // most recently used first
  EXPECT_EQ(second->first, first->LastSequence());
}

TEST_F(CoreTest, NewOwnerContinuesTheNumbersOfTheLineAcrossTheWrap) {
  for (const Sequence start :
       {std::numeric_limits<Sequence>::max() - 3, Sequence{0x7ffffffd}}) {
    CoreOptions options = Options(2, 2);
    options.first_sequence = start;
    Make(options);
    for (uint64_t stream = 1; stream <= 6; ++stream) {
      std::vector<std::byte> host = Random(3 * kChunk);
      std::vector<std::byte> device(host.size());
      const Direction direction =
          stream % 2 == 0 ? Direction::kHostToDevice : Direction::kDeviceToHost;
      if (direction == Direction::kDeviceToHost) std::swap(host, device);
      auto transfer = Publish(stream, direction, host);
      ASSERT_NE(transfer, nullptr);
      Reach(*transfer);
      for (uint32_t chunk = 0; chunk < 3; ++chunk) {
        MoveAll();
        ASSERT_TRUE(Copy(*transfer, chunk, device)) << start << " " << stream;
      }
      MoveAll();
      EXPECT_TRUE(transfer->retired);
      EXPECT_EQ(host, device);
    }
  }
}

TEST_F(CoreTest, TransferThatEndedEarlyDoesNotHoldTheNextOne) {
  for (uint32_t enqueued = 0; enqueued < 4; ++enqueued) {
    for (const Direction direction :
         {Direction::kHostToDevice, Direction::kDeviceToHost}) {
      Make(Options(2, 2));
      std::vector<std::byte> host = Random(4 * kChunk);
      std::vector<std::byte> device = Random(4 * kChunk);
      auto cut = Publish(1, direction, host);
      Reach(*cut);
      MoveAll();
      core_->CutShort(*cut, enqueued);
      auto next = Publish(1, Direction::kHostToDevice, host);
      ASSERT_NE(next, nullptr);
      for (uint32_t chunk = 0; chunk < enqueued; ++chunk) {
        MoveAll();
        ASSERT_TRUE(Copy(*cut, chunk, device)) << enqueued << " " << chunk;
      }
      MoveAll();
      flags_[cut->line].done = cut->LastSequence();
      MoveAll();
      EXPECT_TRUE(cut->retired) << enqueued;
      Reach(*next);
      for (uint32_t chunk = 0; chunk < 4; ++chunk) {
        MoveAll();
        ASSERT_TRUE(Copy(*next, chunk, device)) << enqueued << " " << chunk;
      }
      MoveAll();
      EXPECT_EQ(device, host);
      EXPECT_TRUE(core_->idle());
    }
  }
}

TEST_F(CoreTest, LostTransferKeepsItsSlotsInQuarantine) {
  Make(Options(1, 2));
  std::vector<std::byte> host = Random(2 * kChunk);
  auto lost = Publish(1, Direction::kHostToDevice, host);
  Reach(*lost);
  Move held;
  ASSERT_TRUE(core_->Take(0, nullptr, &held));
  core_->CutShort(*lost, 1);
  core_->Lose(*lost);
  EXPECT_EQ(MoveAll(), 0);
  EXPECT_TRUE(lost->lost);
  EXPECT_EQ(core_->quarantined_bytes(), kChunk);
  // A mover still reads the block.
  EXPECT_TRUE(core_->TouchesHost(host.data(), host.data() + 1));
  core_->Finish(held);
  EXPECT_FALSE(core_->TouchesHost(host.data(), host.data() + host.size()));
  // The same stream goes on with another line and another slot.
  auto next = Publish(1, Direction::kHostToDevice, host);
  ASSERT_NE(next, nullptr);
  EXPECT_NE(next->line, lost->line);
  EXPECT_NE(next->slots[0].offset, lost->slots[0].offset);
  core_->CheckInvariants();
}

// Rows with gaps are packed into the chunks; each chunk is whole rows.
TEST_F(CoreTest, RowsArePackedIntoChunks) {
  Make(Options(2, 2));
  TransferRequest request;
  request.shape = {10, 20, 1, {25, 0}, {16, 0}};
  std::vector<std::byte> host = Random(request.shape.Extent({25, 0}));
  request.host = host.data();
  auto transfer = core_->Publish(StreamKey{this, 1}, request).transfer;
  ASSERT_NE(transfer, nullptr);
  ASSERT_EQ(transfer->chunks, 4u);  // of six rows in 64 bytes
  EXPECT_TRUE(core_->TouchesHost(host.data() + host.size() - 1,
                                 host.data() + host.size()));
  EXPECT_FALSE(core_->TouchesHost(host.data() + host.size(),
                                  host.data() + host.size() + 1));
  Reach(*transfer);
  for (uint32_t chunk = 0; chunk < transfer->chunks; ++chunk) {
    Move move;
    while (core_->Take(0, nullptr, &move)) {
      GatherRows(transfer->shape, move.offset, move.bytes, host.data(),
                 move.slot);
      core_->Finish(move);
    }
    ASSERT_TRUE(AtLeast(flags_[transfer->line].permitted,
                        transfer->ChunkSequence(chunk)));
    const std::byte* slot = ring_.data() + transfer->ChunkSlot(chunk).offset;
    const uint64_t offset = transfer->ChunkOffset(chunk);
    ASSERT_EQ(offset % 10, 0u);
    for (size_t i = 0; i < transfer->ChunkBytes(chunk); ++i) {
      ASSERT_EQ(slot[i], *transfer->HostAt(offset + i));
    }
    flags_[transfer->line].done = transfer->ChunkSequence(chunk);
  }
  core_->Observe(0);
  EXPECT_EQ(core_->outstanding(), 0u);
  core_->CheckInvariants();
}

// Its source is read although the stream is still far from it, also where the
// stream's other slots are taken.
TEST_F(CoreTest, AnEarlyTransferGetsSlotsOfItsOwn) {
  Make(Options(1, 3));
  std::vector<std::byte> first_host = Random(kChunk);
  std::vector<std::byte> early_host = Random(kChunk);
  auto first = Publish(1, Direction::kHostToDevice, first_host);
  TransferRequest request;
  request.host = early_host.data();
  request.shape = Shape::Flat(early_host.size());
  request.reads_early = true;
  auto early = core_->Publish(StreamKey{this, 1}, request).transfer;
  ASSERT_TRUE(first != nullptr && early != nullptr);
  EXPECT_GT(MoveAll(), 0);
  EXPECT_TRUE(early->SourceRead());
  EXPECT_FALSE(first->SourceRead());
  // Filled, but not permitted before those ahead of it.
  EXPECT_FALSE(AtLeast(flags_[early->line].permitted, early->ChunkSequence(0)));
  std::vector<std::byte> device(kChunk);
  Reach(*first);
  MoveAll();
  EXPECT_TRUE(Copy(*first, 0, device));
  EXPECT_EQ(device, first_host);
  EXPECT_TRUE(Copy(*early, 0, device));
  EXPECT_EQ(device, early_host);
  core_->Observe(0);
  EXPECT_EQ(core_->outstanding(), 0u);
}

TEST_F(CoreTest, AStreamWhoseTransfersAreOverStartsAfresh) {
  Make(Options(1, 3));
  std::vector<std::byte> host = Random(kChunk);
  std::vector<std::byte> device(kChunk);
  auto first = Publish(1, Direction::kHostToDevice, host);
  Reach(*first);
  MoveAll();
  ASSERT_TRUE(Copy(*first, 0, device));
  // Nobody has looked since.
  auto second = Publish(1, Direction::kHostToDevice, host);
  ASSERT_NE(second, nullptr);
  EXPECT_TRUE(first->retired);
  EXPECT_FALSE(second->previous[0].used);
  core_->CheckInvariants();
}

// A chunk to the host whose slot is free asks nobody; one whose slot is still
// being drained does, and one that uses a slot a second time.
TEST_F(CoreTest, OnlyFreeSlotsNeedNoPermission) {
  Make(Options(2, 4));
  std::vector<std::byte> first(2 * kChunk), second(kChunk), third(3 * kChunk);
  const auto a = Publish(1, Direction::kDeviceToHost, first);
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->unasked, 2u);
  const auto b = Publish(1, Direction::kDeviceToHost, second);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->unasked, 0u) << "the slot is in use until a is drained";
  const auto c = Publish(2, Direction::kDeviceToHost, third);
  ASSERT_NE(c, nullptr);
  EXPECT_EQ(c->unasked, 2u) << "its third chunk waits for the first's slot";
}

// And a transfer that ended early leaves a slot that is not drained yet.
TEST_F(CoreTest, WhatEndedEarlyHoldsItsSlotsUntilTheyAreDrained) {
  Make(Options(1, 2));
  std::vector<std::byte> first(2 * kChunk), second(kChunk);
  const auto a = Publish(1, Direction::kDeviceToHost, first);
  ASSERT_NE(a, nullptr);
  core_->CutShort(*a, 1);
  flags_[a->line].done = a->LastSequence();
  Move move;
  ASSERT_TRUE(core_->Take(0, nullptr, &move));
  const auto b = Publish(1, Direction::kDeviceToHost, second);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->unasked, 0u);
  CarryOut(move);
  core_->Finish(move);
}

// Few slots used many times are handed over; many slots, and small copies, not.
TEST_F(CoreTest, SlotsAreHandedOverWhereTheyAreUsedWhileStillInACache) {
  constexpr size_t kSlot = size_t{256} << 10;
  for (const size_t most : {size_t{0}, 4 * kSlot}) {
    CoreOptions options = Options(4, 8);
    options.ring_bytes = 16 * kSlot;
    options.unit_bytes = kSlot;
    options.division = {kSlot, 4};
    options.smallest_chunk_bytes = 0;
    options.hand_over_bytes = most;
    Make(options);
    std::vector<std::byte> small(2 * kSlot), once(4 * kSlot), often(16 * kSlot);
    const auto hands_over = [&](uint64_t stream, Direction direction,
                                std::vector<std::byte>& host) {
      const auto transfer = Publish(stream, direction, host);
      return transfer != nullptr && transfer->hands_over;
    };
    const bool any = most != 0;
    EXPECT_FALSE(hands_over(1, Direction::kHostToDevice, small));
    EXPECT_EQ(hands_over(2, Direction::kHostToDevice, once), any);
    EXPECT_FALSE(hands_over(3, Direction::kDeviceToHost, once));
    EXPECT_EQ(hands_over(4, Direction::kDeviceToHost, often), any);
  }
}

TEST_F(CoreTest, OnlyWhatFitsItsSlotsIsDriven) {
  Make(Options(2, 4));
  std::vector<std::byte> fits(2 * kChunk), longer(3 * kChunk);
  TransferRequest request;
  request.idle = true;
  request.reads_early = true;
  request.driven = true;
  request.host = fits.data();
  request.shape = Shape::Flat(fits.size());
  const auto a = core_->Publish(StreamKey{this, 1}, request).transfer;
  ASSERT_NE(a, nullptr);
  EXPECT_TRUE(a->driven);
  EXPECT_GT(MoveAll(), 0) << "movers help before the stream says anything";
  EXPECT_EQ(a->permitted, 2u);
  request.host = longer.data();
  request.shape = Shape::Flat(longer.size());
  const auto b = core_->Publish(StreamKey{this, 2}, request).transfer;
  ASSERT_NE(b, nullptr);
  EXPECT_FALSE(b->driven);
}

TEST_F(CoreTest, AFillNeedsNoSlotAndTakesItsTurn) {
  Make(Options(1, 1));
  std::vector<std::byte> there = Random(100);  // two chunks
  std::vector<std::byte> host(100);
  std::vector<std::byte> filled = Random(100);
  // A stream that owns nothing beside one that owns all.
  auto copy = Publish(1, Direction::kDeviceToHost, host);
  ASSERT_NE(copy, nullptr);
  TransferRequest request;
  request.direction = Direction::kDeviceToHost;
  request.host = filled.data();
  request.shape = Shape::Flat(filled.size());
  request.fill = 0x42;
  auto other = core_->Publish(StreamKey{this, 2}, request).transfer;
  auto behind = core_->Publish(StreamKey{this, 1}, request).transfer;
  ASSERT_NE(other, nullptr);
  ASSERT_NE(behind, nullptr);
  EXPECT_EQ(other->chunks, 1u);
  EXPECT_TRUE(other->slots.empty());

  const std::vector<std::byte> before = filled;
  MoveAll();
  EXPECT_EQ(filled, before);  // no stream is there yet
  Reach(*other);
  flags_[other->line].done = other->LastSequence();
  EXPECT_EQ(MoveAll(), 3);  // pieces of 40 bytes
  EXPECT_EQ(filled, std::vector<std::byte>(100, std::byte{0x42}));
  EXPECT_TRUE(AtLeast(flags_[other->line].drained, other->LastSequence()));
  EXPECT_TRUE(other->retired);

  filled = before;
  Reach(*copy);
  ASSERT_TRUE(Copy(*copy, 0, there));
  MoveAll();
  EXPECT_EQ(filled, before);
  ASSERT_TRUE(Copy(*copy, 1, there));
  MoveAll();
  EXPECT_EQ(host, there);
  Reach(*behind);
  flags_[behind->line].done = behind->LastSequence();
  MoveAll();
  EXPECT_EQ(filled, std::vector<std::byte>(100, std::byte{0x42}));
  EXPECT_TRUE(behind->retired);
  EXPECT_TRUE(core_->idle());
}

TEST_F(CoreTest, AFillThatWasNotEnqueuedWritesNothingAndHoldsNobody) {
  Make(Options(1, 1));
  std::vector<std::byte> filled = Random(100);
  const std::vector<std::byte> before = filled;
  TransferRequest request;
  request.direction = Direction::kDeviceToHost;
  request.host = filled.data();
  request.shape = Shape::Flat(filled.size());
  request.fill = 0x42;
  auto fill = core_->Publish(StreamKey{this, 1}, request).transfer;
  ASSERT_NE(fill, nullptr);
  core_->CutShort(*fill, 0);
  auto next = Publish(1, Direction::kHostToDevice, filled);
  ASSERT_NE(next, nullptr);
  flags_[fill->line].done = fill->LastSequence();
  Reach(*next);
  MoveAll();
  std::vector<std::byte> device(100);
  ASSERT_TRUE(Copy(*next, 0, device));
  MoveAll();
  ASSERT_TRUE(Copy(*next, 1, device));
  MoveAll();
  EXPECT_EQ(device, before);
  EXPECT_TRUE(core_->idle());
}

// The calls of all transfers of a stream have to fit into the driver's queue.
TEST_F(CoreTest, AStreamsTransfersTogetherFitIntoTheQueue) {
  Make(Options(1, 2));
  std::vector<std::byte> host(kChunk * 100);
  std::vector<std::shared_ptr<Transfer>> all;
  TransferRequest request;
  request.host = host.data();
  request.shape = Shape::Flat(host.size());
  const StreamKey stream{this, 1};
  Core::Published last;
  while ((last = core_->Publish(stream, request)).transfer != nullptr)
    all.push_back(last.transfer);
  EXPECT_EQ(last.refusal, Core::Refusal::kQueueFull);
  EXPECT_EQ(last.places, 201u);
  EXPECT_EQ(all.size(), Core::kQueuePlaces / 201);
  EXPECT_EQ(core_->PlacesTaken(stream, 0), all.size() * 201);
  // One chunk fits still; what waits anyway, and another stream's, do.
  request.shape = Shape::Flat(kChunk);
  EXPECT_NE(core_->Publish(stream, request).transfer, nullptr);
  EXPECT_NE(core_->Publish(StreamKey{this, 2}, request).transfer, nullptr);
  request.shape = Shape::Flat(host.size());
  request.waits = true;
  EXPECT_NE(core_->Publish(stream, request).transfer, nullptr);
  request.waits = false;
  // More than ever fits.
  std::vector<std::byte> much(kChunk * 500);
  request.host = much.data();
  request.shape = Shape::Flat(much.size());
  EXPECT_EQ(core_->Publish(StreamKey{this, 2}, request).refusal,
            Core::Refusal::kTooDeep);
  // The first is over.
  request.host = host.data();
  request.shape = Shape::Flat(host.size());
  flags_[all[0]->line].ready = all[0]->number;
  std::vector<std::byte> device(host.size());
  for (uint32_t chunk = 0; chunk < all[0]->chunks; ++chunk) {
    MoveAll();
    ASSERT_TRUE(Copy(*all[0], chunk, device));
  }
  // The one that waits has three chunks more, since its first ones are small.
  EXPECT_EQ(core_->PlacesTaken(stream, 0), (all.size() - 1) * 201 + 3 + 207);
  EXPECT_EQ(core_->ChunksDone(stream), all[0]->LastSequence());
}

TEST_F(CoreTest, LosingAContextLosesItsTransfersOnly) {
  Make(Options(1, 2));
  std::vector<std::byte> host = Random(kChunk);
  int other = 0;
  TransferRequest request;
  request.host = host.data();
  request.shape = Shape::Flat(host.size());
  auto mine = core_->Publish(StreamKey{this, 1}, request).transfer;
  auto theirs = core_->Publish(StreamKey{&other, 1}, request).transfer;
  ASSERT_TRUE(mine != nullptr && theirs != nullptr);
  core_->LoseContext(this);
  EXPECT_TRUE(mine->lost);
  EXPECT_FALSE(theirs->lost);
  EXPECT_EQ(core_->outstanding(), 1u);
  core_->CheckInvariants();
}

TEST_F(CoreTest, TouchesHostSeesInteriorAddressesUntilRetired) {
  Make(Options(1, 1));
  std::vector<std::byte> host = Random(kChunk);
  std::vector<std::byte> device(kChunk);
  auto transfer = Publish(1, Direction::kHostToDevice, host);
  EXPECT_TRUE(core_->TouchesHost(host.data() + 10, host.data() + 11));
  EXPECT_FALSE(
      core_->TouchesHost(host.data() + kChunk, host.data() + 2 * kChunk));
  Reach(*transfer);
  MoveAll();
  Copy(*transfer, 0, device);
  MoveAll();
  EXPECT_FALSE(core_->TouchesHost(host.data(), host.data() + kChunk));
}

// The default ring, of which no byte is touched.
class DefaultRingTest : public CoreTest {
 protected:
  std::unique_ptr<Core> MakeCore() {
    CoreOptions options;
    options.ring_bytes = size_t{64} << 20;
    options.reserve_bytes = size_t{16} << 20;
    options.lines = 2048;
    flags_ = std::make_unique<FlagLine[]>(options.lines);
    for (uint32_t i = 0; i < options.lines; ++i) {
      flags_[i].ready = flags_[i].done = 0;
      flags_[i].permitted = flags_[i].drained = 0;
    }
    return std::make_unique<Core>(options, nullptr, flags_.get());
  }

  // The largest chunks of eight streams with 128 MiB each, which all have gone
  // through when the last has been enqueued.
  std::vector<uint64_t> Round(Core& core, uint64_t now_nanos) {
    TransferRequest request;
    request.shape = Shape::Flat(size_t{128} << 20);
    request.idle = true;
    request.now_nanos = now_nanos;
    std::vector<std::shared_ptr<Transfer>> transfers;
    for (uint64_t stream = 0; stream < 8; ++stream) {
      transfers.push_back(
          core.Publish(StreamKey{this, stream}, request).transfer);
    }
    std::vector<uint64_t> chunks;
    for (const auto& t : transfers) {
      chunks.push_back(t->ChunkBytes(t->chunks / 2));
      flags_[t->line].ready = t->number;
      Move move;
      while (core.Take(0, nullptr, &move)) {
        core.Finish(move);
        flags_[move.transfer->line].done =
            move.transfer->ChunkSequence(move.chunk);
      }
    }
    core.CheckInvariants();
    return chunks;
  }
};

TEST_F(DefaultRingTest, StreamsThatCameTogetherLatelyShareEqually) {
  const auto core = MakeCore();
  constexpr uint64_t kMillisecond = 1'000'000;
  const auto equal = [](const std::vector<uint64_t>& chunks) {
    return std::set<uint64_t>(chunks.begin(), chunks.end()).size() == 1;
  };
  const uint64_t begin = 5'000 * kMillisecond;
  EXPECT_FALSE(equal(Round(*core, begin)));
  EXPECT_TRUE(equal(Round(*core, begin + 100 * kMillisecond)));
  EXPECT_TRUE(equal(Round(*core, begin + 200 * kMillisecond)));
  EXPECT_FALSE(equal(Round(*core, begin + 900 * kMillisecond)));
}

TEST_F(DefaultRingTest, EveryStreamOfAThousandGetsASlot) {
  const auto made = MakeCore();
  Core& core = *made;
  TransferRequest request;
  request.shape = Shape::Flat(size_t{1} << 20);
  size_t streams = 0;
  while (core.Publish(StreamKey{this, streams}, request).transfer != nullptr) {
    ++streams;
  }
  EXPECT_GE(streams, 1024u);
  core.CheckInvariants();
}

}  // namespace
}  // namespace pinring
