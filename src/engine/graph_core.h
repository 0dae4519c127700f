// The decisions for staged copies in executable graphs: which of them replays,
// and which of its bytes may move next.
//
// A part of Core (core.h), and like it a step function without threads, clocks
// or CUDA calls, called under the lock of Core's owner.
//
// How a replay differs from a transfer. Nothing is enqueued that the library
// sees: a graph is launched, by whoever holds it, as often as it likes, and
// every launch carries out the same operations with the same values. So the
// counters of a graph's copy cannot count up over its replays; each replay
// begins with all of them at 0 and leaves them so:
//
//    write done = 0, write ready = 1, wait until permitted >= 1
//    copy of chunk 1 between slot and device
//    write done = 1, wait until permitted >= 2
//    ...
//    copy of chunk n
//    write done = n
//    (device to host) wait until drained >= n
//    write ready = 0, write drained = 0, write permitted = 0
//
// Movers fill, permit and drain as for a transfer. The write of permitted = 0
// retires the replay. Why that is right:
//  * The stream gets there only after movers have raised `permitted` (device to
//    host, `drained` too) to n, which is the last that they write for a replay.
//    So nothing of theirs comes after the reset, and nobody else writes.
//  * Movers know that a replay is over when they find `permitted`, which they
//    have raised to n, at 0; nothing but the reset lowers it. They need not see
//    it before the next replay begins: the next one waits for a permission that
//    they give only after they have seen it. No replay waits for an
//    acknowledgement.
//  * `ready` is lowered before `permitted` is, so that who has seen the reset
//    finds `ready` = 1 only where a next replay has begun. In the other order a
//    mover could take the last replay's `ready` for the next one's, and read
//    the block too early.
//  * `done` is lowered before `ready` is raised, so that who has seen `ready`
//    does not take chunks for done that the last replay copied.
//  * The driver orders a launch of an executable graph behind the launch of it
//    before, so the replays of one never overlap. Two executable graphs may run
//    at once, whatever they were made from: each copy in each of them has a
//    line and slots of its own, which no stream's transfers share.
//  * A replay waits for movers alone, so it can end when its stream gets there,
//    and a bounded ring cannot hang it.
//
// The line and the slots are given back when the executable graph is destroyed
// and its last replay is over, which the driver says (a user object of the
// graph). Until then they are held, replayed or not. Where the context is lost
// they are not given back at all, as its device may still write to them.
//
// A line of a graph never becomes a stream's, whose counters are not reset.

#ifndef PINRING_SRC_ENGINE_GRAPH_CORE_H_
#define PINRING_SRC_ENGINE_GRAPH_CORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "src/engine/flag_watch.h"
#include "src/engine/transfer.h"
#include "src/ring/flags.h"
#include "src/ring/slots.h"

namespace pinring {

struct GraphCoreOptions {
  uint32_t first_line = 0;
  uint32_t lines = 0;      // copies that executable graphs can hold at once
  size_t most_bytes = 0;   // of slots that they may hold together
  size_t slot_bytes = 0;   // 0: by the size of the copy
  size_t slots = 0;        // of a copy; 0: two
  size_t piece_bytes = 0;  // what one mover moves at a time
  // For the test that shows why copies have flags of their own: a copy of the
  // same block takes those of the first one, as two executable graphs of one
  // graph would without a care.
  bool share_lines_for_test = false;
};

struct GraphCopyRequest {
  Direction direction = Direction::kHostToDevice;
  std::byte* host = nullptr;
  Shape shape;  // not empty
  const void* context = nullptr;
};

// One copy of one executable graph.
struct GraphCopy {
  // What is replayed. Its progress is that of the replay that runs; its
  // sequence numbers begin at 1 in each.
  std::shared_ptr<Transfer> transfer;
  bool replaying = false;
  // The host's memory is no longer there: replays go by without touching it.
  bool severed = false;
  // Its slots and its line are given back, or, where it is lost, to no one.
  bool removed = false;
  uint64_t replays = 0;  // that are over
  // Launches that the library was told of and whose replays have not begun.
  uint64_t expected = 0;
  bool shares_line = false;
};

class GraphCore {
 public:
  // The largest number of chunks that a copy is cut into: each takes two nodes.
  static constexpr uint64_t kMostChunks = 1024;

  // flags (those of all lines) and arena outlive it. Sets its lines to 0.
  // `lost` gets the transfers that are lost while bytes of theirs move.
  GraphCore(const GraphCoreOptions& options, FlagLine* flags, SlotArena* arena,
            std::vector<std::shared_ptr<Transfer>>* lost);
  GraphCore(const GraphCore&) = delete;
  GraphCore& operator=(const GraphCore&) = delete;

  // Reserves slots and a line. Null where there are none, or the slots to be
  // had are too small for the copy.
  [[nodiscard]] std::shared_ptr<GraphCopy> Add(const GraphCopyRequest& request);
  // The executable graph is gone and runs no more, or was never made.
  void Remove(GraphCopy& copy);

  // The copy's graph is about to be launched; the launch did not come about.
  void Expect(GraphCopy& copy);
  void ForgetExpected(GraphCopy& copy);

  // As Core's.
  bool Observe();
  [[nodiscard]] bool Take(std::shared_ptr<Transfer>* transfer, uint32_t* chunk,
                          size_t* offset, size_t* bytes);
  void Finish(Transfer& transfer, uint32_t chunk, size_t bytes);
  [[nodiscard]] bool CanProgress() const;

  void LoseContext(const void* context);
  void LoseAll();
  // Whether a replay that touches [begin, end) is expected, or runs.
  [[nodiscard]] bool TouchesHost(const std::byte* begin,
                                 const std::byte* end) const;
  // No copy touches [begin, end) any more, which is freed.
  void Sever(const std::byte* begin, const std::byte* end);

  // Copies of executable graphs that may be launched at any time.
  [[nodiscard]] size_t copies() const { return copies_.size(); }
  // Replays that are expected, or were seen to begin, and are not over.
  [[nodiscard]] size_t outstanding() const { return replaying_ + expected_; }
  [[nodiscard]] size_t held_bytes() const { return held_bytes_; }
  [[nodiscard]] size_t quarantined_bytes() const { return quarantined_bytes_; }
  void CheckInvariants() const;

  // See Core::Watch.
  void Watch(FlagWatch* watch) const {
    for (const std::shared_ptr<GraphCopy>& copy : copies_)
      watch->Note(flags_[copy->transfer->line], false);
  }

 private:
  bool TakeSlots(uint64_t bytes, std::vector<Slot>* slots);
  void GiveSlots(const std::vector<Slot>& slots);
  bool ObserveCopy(GraphCopy& copy);
  void Begin(GraphCopy& copy);
  bool Permit(GraphCopy& copy);
  bool Permittable(const Transfer& transfer) const;
  bool Claimable(const GraphCopy& copy) const;
  bool Over(const GraphCopy& copy) const;
  bool CopyCanProgress(const GraphCopy& copy) const;
  void Lose(size_t index);

  const GraphCoreOptions options_;
  FlagLine* const flags_;
  SlotArena& arena_;
  std::vector<std::shared_ptr<Transfer>>& lost_;
  std::vector<uint32_t> free_lines_;
  std::vector<std::shared_ptr<GraphCopy>> copies_;
  size_t replaying_ = 0;
  size_t expected_ = 0;
  // What its copies hold of the arena, and what lost ones held.
  size_t held_bytes_ = 0;
  size_t quarantined_bytes_ = 0;
  size_t quarantined_lines_ = 0;
  size_t cursor_ = 0;  // as Core's
};

}  // namespace pinring

#endif  // PINRING_SRC_ENGINE_GRAPH_CORE_H_
