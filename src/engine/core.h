// The decisions of the engine: who owns which slots, and which bytes may move
// next.
//
// One step function without threads, clocks or CUDA calls; the engine is a thin
// shell of threads around it, and tests run it under a scheduler. It reads and
// raises the flags (flags.h) and hands out moves; it never touches the bytes.
//
// The rules that keep a bounded ring from hanging:
//  * A slot belongs to one stream from the moment a transfer is published until
//  all of that stream's transfers have retired.
//  * The stream waits only for flags that movers raise, and movers need nothing
//  from anyone to raise them: chunk c is permitted
//    once the previous user of its slot, an earlier chunk of the same stream,
//    is over and (host to device) its bytes are in the slot.
//  * Chunks of a line are permitted in their order, whatever was filled first.
//  * A device-to-host chunk whose slot is free already when its transfer is
//  published needs no permission.
//  * Nor does one that the caller enqueues only when its slot is filled.
//  * Filling host memory with a value takes no slots, and its place in the line
//  as every other transfer.
//  * Counters only grow and belong to the line. A transfer's numbers are fixed
//  when it is published, before its first driver call.
//
// Not thread-safe: every function is called under one lock of the owner's,
// which no CUDA call is ever made under. Moves are carried out without it.

#ifndef PINRING_SRC_ENGINE_CORE_H_
#define PINRING_SRC_ENGINE_CORE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "src/engine/flag_watch.h"
#include "src/engine/graph_core.h"
#include "src/engine/transfer.h"
#include "src/ring/division.h"
#include "src/ring/flags.h"
#include "src/ring/slots.h"

namespace pinring {

struct CoreOptions {
  size_t ring_bytes = 0;
  size_t reserve_bytes = 0;
  size_t unit_bytes = 8 << 10;
  DivisionRules division;
  size_t piece_bytes = 512 << 10;  // what one mover moves at a time, at most
  // Chunks of a copy that is under way at once begin or end as small as this;
  // 0: all are of one size.
  size_t smallest_chunk_bytes = 0;
  // Slots of so many bytes together, at most, are handed over once they were
  // filled or drained; see copy::HandOver.
  size_t hand_over_bytes = 0;
  uint32_t lines = 0;  // streams that can hold staged work at once
  // Of those, the last so many are for copies in executable graphs instead, and
  // so many bytes of the ring at most.
  uint32_t graph_lines = 0;
  size_t graph_bytes = 0;
  bool share_graph_lines_for_test = false;  // see GraphCoreOptions
  Sequence first_sequence =
      0;  // where all counters start; the flags must hold it
  // For the test that shows why slots belong to streams: all streams share one
  // set of slots.
  bool share_slots_for_test = false;
};

struct TransferRequest {
  Direction direction = Direction::kHostToDevice;
  std::byte* host = nullptr;
  Shape shape;        // not empty
  bool idle = false;  // see Demand
  bool may_be_idle = false;
  bool waits = false;
  uint64_t now_nanos = 0;  // on any clock, or none
  bool driven = false;     // see Transfer; only where reads_early. Not granted
                           // where a slot would have to be used twice
  bool reads_early = false;                          // see Transfer
  std::optional<unsigned char> fill = std::nullopt;  // see Transfer
};

// A piece of a chunk to copy between host memory and a slot.
struct Move {
  std::shared_ptr<Transfer> transfer;
  uint32_t chunk = 0;
  uint64_t offset = 0;        // of the transfer's packed bytes
  std::byte* slot = nullptr;  // null where host memory is filled with a value
  size_t bytes = 0;
};

class Core {
 public:
  enum class Refusal {
    kNone,
    kNoSlot,
    kTooDeep,    // the driver's queue never has room for so many chunks
    kQueueFull,  // not for `places` more, until earlier transfers are over
  };
  struct Published {
    std::shared_ptr<Transfer> transfer;  // null where refused
    Refusal refusal = Refusal::kNone;
    size_t places = 0;
  };
  // How many of the driver's calls a stream's transfers may take that have not
  // retired. About 1,020 fit before a call blocks, perhaps behind a gate that
  // the caller itself is to open.
  static constexpr size_t kQueuePlaces = 1000;

  // ring and lines (options.lines of them, each counter at first_sequence)
  // outlive the core.
  Core(const CoreOptions& options, std::byte* ring, FlagLine* lines);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // Reserves slots for a transfer and makes it known to the movers. The caller
  // then enqueues its operations; nobody may publish to the same stream
  // meanwhile.
  [[nodiscard]] Published Publish(const StreamKey& stream,
                                  const TransferRequest& request);
  // The places that the stream's transfers take, and how far it has come.
  [[nodiscard]] size_t PlacesTaken(const StreamKey& stream, uint64_t now_nanos);
  [[nodiscard]] Sequence ChunksDone(const StreamKey& stream) const;
  // The stream was seen to stand still; whether it still stands where it did.
  void NoteStandstill(const StreamKey& stream);
  [[nodiscard]] bool StandsStill(const StreamKey& stream) const;
  // A driver call failed after `enqueued_chunks` copies were accepted: the
  // transfer ends with them. Called before the write that says so (done = last)
  // is enqueued. The caller then waits until moves_in_progress is 0 before it
  // lets the next transfer of the stream be published, since a mover may still
  // be filling a slot for a chunk that never comes.
  void CutShort(Transfer& transfer, uint32_t enqueued_chunks);
  // Not even that write was accepted: done can never come. What the stream
  // published before still ends as it should.
  void Lose(Transfer& transfer);

  // Does all that the flags allow without moving bytes: permits, retires, gives
  // slots back. True where anything changed.
  bool Observe(uint64_t now_nanos);
  // What a mover may be given to do.
  enum class Work { kAll, kFill };  // kFill: only towards the device
  // The next piece to move, of any stream, or of the given transfer's stream
  // only. Observes the streams that it looks at.
  [[nodiscard]] bool Take(uint64_t now_nanos, const Transfer* only,
                          Move* move) {
    return Take(now_nanos, only, Work::kAll, move);
  }
  [[nodiscard]] bool Take(uint64_t now_nanos, const Transfer* only, Work work,
                          Move* move);
  void Finish(const Move& move);
  // Whether Observe or Take would do anything now, for any stream or for the
  // given transfer's. Changes nothing.
  [[nodiscard]] bool CanProgress() const;
  [[nodiscard]] bool CanProgress(const Transfer& transfer) const;
  // The lines on which the device may say something that lets Take find more.
  void Watch(FlagWatch* watch) const;
  // Whether Take would find a piece now, of any stream.
  [[nodiscard]] bool CanTake(Work work) const;

  // The context answers an error to everything: its transfers are lost, their
  // slots go into quarantine.
  void LoseContext(const void* context);
  // The ring is no longer pinned: all transfers are lost.
  void LoseAll();
  // Takes over what another core, which lost all, has in moves in progress.
  void Inherit(Core& other);
  [[nodiscard]] const std::byte* ring() const { return ring_; }
  // Whether a transfer from or to [begin, end) is outstanding.
  [[nodiscard]] bool TouchesHost(const std::byte* begin,
                                 const std::byte* end) const;

  // Copies in executable graphs.
  [[nodiscard]] GraphCore& graphs() { return graphs_; }
  [[nodiscard]] const GraphCore& graphs() const { return graphs_; }

  [[nodiscard]] size_t outstanding() const {
    return outstanding_ + graphs_.outstanding();
  }
  // No stream owns anything, nothing is left to observe but whether an
  // executable graph is launched.
  [[nodiscard]] bool idle() const {
    return active_.empty() && lost_.empty() && graphs_.outstanding() == 0;
  }
  [[nodiscard]] size_t quarantined_bytes() const {
    return quarantined_bytes_ + graphs_.quarantined_bytes();
  }
  void CheckInvariants() const;

 private:
  // Slots of one size that a stream owns, used in turn.
  struct Group {
    size_t slot_bytes = 0;
    std::vector<Slot> slots;
    std::vector<SlotUse> last;
    size_t next = 0;
    size_t total_bytes() const { return slot_bytes * slots.size(); }
  };
  // A stream with staged work outstanding.
  struct Owner {
    StreamKey key;
    uint32_t line = 0;
    std::vector<Group> groups;
    // Published and not retired, oldest first. permit_at: the first of them
    // that has chunks to permit.
    std::deque<std::shared_ptr<Transfer>> queue;
    size_t permit_at = 0;
    size_t early = 0;   // how many of them read their source early
    size_t places = 0;  // that they take in the driver's queue
    // How far the stream had come when it was seen to stand still.
    std::optional<Sequence> standstill;
    size_t last_group = 0;  // of the transfer published last
    bool detached =
        false;  // no longer found by its key: its last transfer can never end
    uint64_t stalled_since_nanos = 0;
  };
  struct Line {
    Sequence transfers = 0;
    Sequence chunks = 0;
  };

  void NoteCrowd(size_t streams, uint64_t now_nanos, Demand* demand);
  Group* ChooseGroup(Owner& owner, uint64_t bytes);
  bool TakeShare(Share share, Group* group);
  void GiveGroup(const Group& group);
  Owner* FindOwner(const StreamKey& key) const;
  bool AddShare(Owner& owner, const TransferRequest& request, bool early,
                size_t streams);
  size_t ChunkBytesFor(const Group& group, uint64_t bytes) const;
  void AssignSlots(Owner& owner, Group& group, bool driven, Transfer& transfer);
  bool HandsOver(const Transfer& transfer, size_t slots) const;
  void RestoreSlots(Group& group, const Transfer& transfer);
  bool SlotFree(const Transfer& transfer, uint32_t chunk) const;
  bool UseOver(const SlotUse& use) const;
  // Whether the line's stream has got to its transfer `number`.
  bool Reached(uint32_t line, Sequence number) const;
  bool ObserveOwner(Owner& owner, uint64_t now_nanos);
  bool NextChunkReady(const Transfer& transfer) const;
  bool Permit(Owner& owner);
  bool Retire(Owner& owner);
  bool RetireNow(const Transfer& transfer) const;
  bool Claimable(const Transfer& transfer) const;
  size_t PieceBytes(size_t chunk_bytes) const;
  bool LookBehind(const Owner& owner, const Transfer& transfer) const;
  bool TakeFrom(Owner& owner, uint64_t now_nanos, Work work, Move* move);
  bool TakeFromStreams(uint64_t now_nanos, Work work, Move* move);
  bool TakeFromGraphs(Move* move);
  bool OwnerCanProgress(const Owner& owner) const;
  bool OwnerCanTake(const Owner& owner, Work work) const;
  void NoteStall(Owner& owner, uint64_t now_nanos);
  void Drain(Owner& owner);
  bool RetireAll(Owner& owner, uint64_t now_nanos);
  void LoseOwner(size_t index);
  void Release(size_t index);
  Owner* OwnerOf(const Transfer& transfer) const;

  const CoreOptions options_;
  std::byte* const ring_;
  FlagLine* const flags_;
  SlotArena arena_;
  std::vector<std::shared_ptr<Transfer>> lost_;  // with moves in progress still
  GraphCore graphs_;
  bool graphs_turn_ = false;  // to be looked at first
  std::vector<Line> lines_;
  std::vector<uint32_t> free_lines_;  // the most recently used last
  std::vector<Owner*> line_owners_;   // by line; null where free
  std::vector<std::unique_ptr<Owner>> active_;
  absl::flat_hash_map<StreamKey, Owner*> by_key_;
  Group shared_group_;  // share_slots_for_test
  std::vector<Group> quarantined_;
  size_t quarantined_lines_ = 0;
  size_t quarantined_bytes_ = 0;
  size_t outstanding_ = 0;
  size_t crowd_ = 0;  // see NoteCrowd
  uint64_t crowd_seen_nanos_ = 0;
  size_t cursor_ =
      0;  // where the search for a move goes on, so that no stream starves
};

}  // namespace pinring

#endif  // PINRING_SRC_ENGINE_CORE_H_
