#include "src/engine/core.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "src/os/check.h"

namespace pinring {

namespace {

GraphCoreOptions ForGraphs(const CoreOptions& options) {
  GraphCoreOptions graphs;
  graphs.first_line = options.lines - options.graph_lines;
  graphs.lines = options.graph_lines;
  graphs.most_bytes = options.graph_bytes;
  graphs.slot_bytes = options.division.slot_bytes;
  graphs.slots = options.division.slots_per_stream;
  graphs.piece_bytes = options.piece_bytes;
  graphs.share_lines_for_test = options.share_graph_lines_for_test;
  return graphs;
}

}  // namespace

Core::Core(const CoreOptions& options, std::byte* ring, FlagLine* lines)
    : options_(options),
      ring_(ring),
      flags_(lines),
      arena_(options.ring_bytes, options.reserve_bytes, options.unit_bytes),
      graphs_(ForGraphs(options), lines, &arena_, &lost_),
      lines_(options.lines - options.graph_lines,
             Line{options.first_sequence, options.first_sequence}),
      line_owners_(options.lines - options.graph_lines, nullptr) {
  free_lines_.reserve(lines_.size());
  for (size_t line = lines_.size(); line > 0; --line)
    free_lines_.push_back(static_cast<uint32_t>(line - 1));
  if (options_.share_slots_for_test) {
    const Share share{options_.division.slot_bytes,
                      options_.division.slots_per_stream, false};
    PINRING_CHECK(TakeShare(share, &shared_group_), "no slots to share");
  }
}

namespace {

bool Suits(const Transfer& transfer, Core::Work work) {
  return work == Core::Work::kAll ||
         transfer.direction == Direction::kHostToDevice;
}

size_t Places(bool fill, bool driven, uint64_t chunks) {
  if (fill) return 1;
  return static_cast<size_t>(driven ? chunks + 1 : 2 * chunks + 1);
}

}  // namespace

// --- Publishing
// -----------------------------------------------------------------------------------------------------

Core::Published Core::Publish(const StreamKey& stream,
                              const TransferRequest& request) {
  Owner* owner = FindOwner(stream);
  // What a stream owned for transfers that are over suits the next one badly.
  if (owner != nullptr && RetireAll(*owner, request.now_nanos)) owner = nullptr;
  std::unique_ptr<Owner> fresh;
  if (owner == nullptr) {
    if (free_lines_.empty()) return {nullptr, Refusal::kNoSlot};
    fresh = std::make_unique<Owner>();
    fresh->key = stream;
    fresh->line = free_lines_.back();
    owner = fresh.get();
  }

  const uint64_t bytes = request.shape.bytes();
  const bool early =
      request.reads_early && request.direction == Direction::kHostToDevice;
  const size_t streams = by_key_.size() + (fresh != nullptr ? 1 : 0);
  auto give_up = [&](Refusal refusal) {
    if (fresh != nullptr) {
      for (const Group& taken : owner->groups) GiveGroup(taken);
    }
    return Published{nullptr, refusal};
  };
  Group* group = nullptr;
  Cut cut{.chunk_bytes = bytes, .chunks = 1};
  if (!request.fill.has_value()) {
    const bool added = AddShare(*owner, request, early, streams);
    group = early && added ? &owner->groups.back() : ChooseGroup(*owner, bytes);
    if (group == nullptr) return give_up(Refusal::kNoSlot);
    cut = CutIntoChunks(request.shape, ChunkBytesFor(*group, bytes));
    // What may be held up needs its places in the driver's queue more.
    if ((request.idle || request.waits) && !request.driven) {
      TaperCut(request.shape, options_.smallest_chunk_bytes,
               request.direction == Direction::kDeviceToHost, &cut);
    }
  }
  const uint64_t chunks = cut.chunks;
  if (chunks > (uint64_t{1} << 30)) return give_up(Refusal::kTooDeep);
  const size_t places =
      Places(request.fill.has_value(), request.driven, chunks);
  if (!request.idle && !request.waits) {
    if (places > kQueuePlaces ||
        (options_.division.slot_bytes == 0 && chunks > MaxChunks(streams))) {
      return give_up(Refusal::kTooDeep);
    }
    if (owner->places + places > kQueuePlaces) {
      return Published{nullptr, Refusal::kQueueFull, places};
    }
  }

  auto transfer = std::make_shared<Transfer>();
  transfer->direction = request.direction;
  transfer->host = request.host;
  transfer->shape = request.shape;
  transfer->bytes = bytes;
  transfer->cut = cut;
  transfer->chunks = static_cast<uint32_t>(chunks);
  transfer->end = transfer->chunks;
  transfer->context = stream.context;
  transfer->reads_early = early;
  transfer->fill = request.fill;
  transfer->line = owner->line;
  Line& line = lines_[owner->line];
  transfer->number = ++line.transfers;
  transfer->first = line.chunks;
  line.chunks += transfer->chunks;
  if (group != nullptr) {
    AssignSlots(*owner, *group, request.driven, *transfer);
  } else {
    transfer->moved.assign(1, 0);
  }

  owner->queue.push_back(transfer);
  owner->early += transfer->reads_early ? 1 : 0;
  transfer->places = Places(request.fill.has_value(), transfer->driven, chunks);
  owner->places += transfer->places;
  if (fresh != nullptr) {
    free_lines_.pop_back();
    line_owners_[owner->line] = owner;
    by_key_[stream] = owner;
    active_.push_back(std::move(fresh));
  }
  ++outstanding_;
  return {transfer, Refusal::kNone};
}

// Asks for slots beside those that the stream owns; false where there are none
// to be had, or it has enough.
bool Core::AddShare(Owner& owner, const TransferRequest& request, bool early,
                    size_t streams) {
  if (options_.share_slots_for_test) return false;
  Demand demand;
  demand.transfer_bytes = static_cast<size_t>(request.shape.bytes());
  demand.idle = request.idle;
  demand.may_be_idle = request.may_be_idle;
  demand.waits = request.waits;
  NoteCrowd(streams, request.now_nanos, &demand);
  // What is read early needs slots that no earlier transfer holds.
  if (!early) {
    for (const Group& group : owner.groups)
      demand.owned_bytes += group.total_bytes();
  }
  const Supply supply{arena_.ring_bytes(), arena_.unit_bytes(),
                      arena_.free_bytes(), arena_.reserve_bytes(),
                      arena_.free_reserved_bytes()};
  Group extra;
  if (!TakeShare(DivideRing(options_.division, demand, supply), &extra))
    return false;
  owner.groups.push_back(std::move(extra));
  return true;
}

// Smaller chunks than the slots allow, where the transfer would otherwise have
// too few to overlap.
size_t Core::ChunkBytesFor(const Group& group, uint64_t bytes) const {
  if (options_.division.slot_bytes != 0) return group.slot_bytes;
  constexpr size_t kChunksAtLeast = 4;
  constexpr size_t kWorthCutting = size_t{256} << 10;
  const size_t cut =
      std::max((static_cast<size_t>(std::min<uint64_t>(bytes, SIZE_MAX / 2)) /
                    kChunksAtLeast +
                4095) &
                   ~size_t{4095},
               kWorthCutting);
  return std::min(group.slot_bytes, cut);
}

// How many streams owned slots at once a moment ago, and whether as many as now
// did. Streams that work together come and go within that time: the steps of a
// program, with copies in them that take tens of milliseconds.
void Core::NoteCrowd(size_t streams, uint64_t now_nanos, Demand* demand) {
  constexpr uint64_t kMomentNanos = 200'000'000;
  demand->crowd_known =
      streams <= crowd_ && now_nanos - crowd_seen_nanos_ <= kMomentNanos;
  if (streams == crowd_ || !demand->crowd_known) {
    crowd_ = streams;
    crowd_seen_nanos_ = now_nanos;
  }
  demand->streams = crowd_;
}

// Where slots are few, each is used again while its bytes are in the cache of
// the mover that moved them last, and the device reads and writes it slowly.
bool Core::HandsOver(const Transfer& transfer, size_t slots) const {
  // What is filled by few movers is filled sooner without.
  constexpr uint64_t kLeastBytes = uint64_t{512} << 10;
  // To the host it is in vain unless slots are used many times.
  constexpr uint64_t kManyTimes = 4;
  const uint64_t held = slots * transfer.ChunkBytes(transfer.chunks / 2);
  if (transfer.bytes <= kLeastBytes || held > options_.hand_over_bytes)
    return false;
  return transfer.direction == Direction::kHostToDevice ||
         transfer.bytes >= kManyTimes * held;
}

void Core::AssignSlots(Owner& owner, Group& group, bool driven,
                       Transfer& transfer) {
  const size_t slots = std::min<size_t>(group.slots.size(), transfer.chunks);
  transfer.moved.assign(slots, 0);
  for (size_t i = 0; i < slots; ++i) {
    const size_t index = (group.next + i) % group.slots.size();
    transfer.slots.push_back(group.slots[index]);
    transfer.previous.push_back(group.last[index]);
    const uint32_t last_chunk =
        static_cast<uint32_t>((transfer.chunks - 1 - i) / slots * slots + i);
    group.last[index] = SlotUse{true, transfer.direction, transfer.line,
                                transfer.ChunkSequence(last_chunk)};
  }
  if (!options_.share_slots_for_test &&
      std::all_of(transfer.previous.begin(), transfer.previous.end(),
                  [this](const SlotUse& use) { return UseOver(use); })) {
    if (transfer.direction == Direction::kDeviceToHost) {
      transfer.unasked = static_cast<uint32_t>(slots);
    } else {
      transfer.driven =
          driven && transfer.reads_early && slots == transfer.chunks;
    }
  }
  transfer.hands_over = HandsOver(transfer, slots);
  group.next =
      (group.next + transfer.chunks % group.slots.size()) % group.slots.size();
  if (!options_.share_slots_for_test)
    owner.last_group = static_cast<size_t>(&group - owner.groups.data());
}

// Makes the group's slots remember the last chunk that was really enqueued.
void Core::RestoreSlots(Group& group, const Transfer& transfer) {
  for (size_t i = 0; i < transfer.slots.size(); ++i) {
    for (size_t index = 0; index < group.slots.size(); ++index) {
      if (group.slots[index].offset != transfer.slots[i].offset) continue;
      if (transfer.end <= i) {
        group.last[index] = transfer.previous[i];
      } else {
        const uint32_t last_chunk = static_cast<uint32_t>(
            (transfer.end - 1 - i) / transfer.slots.size() *
                transfer.slots.size() +
            i);
        group.last[index].chunk = transfer.ChunkSequence(last_chunk);
      }
    }
  }
}

Core::Group* Core::ChooseGroup(Owner& owner, uint64_t bytes) {
  if (options_.share_slots_for_test) return &shared_group_;
  Group* best = nullptr;
  bool best_whole = false;
  for (Group& group : owner.groups) {
    // The smallest slots that take the transfer in one chunk; otherwise the
    // most bytes.
    const bool whole = group.slot_bytes >= bytes;
    const bool better = best == nullptr ||
                        (whole != best_whole ? whole
                         : whole ? group.slot_bytes < best->slot_bytes
                                 : group.total_bytes() > best->total_bytes());
    if (better) {
      best = &group;
      best_whole = whole;
    }
  }
  return best;
}

bool Core::TakeShare(Share share, Group* group) {
  while (share.slots > 0) {
    std::vector<Slot> taken;
    for (size_t i = 0; i < share.slots; ++i) {
      std::optional<Slot> slot = share.reserved
                                     ? arena_.TakeReserved(share.slot_bytes)
                                     : arena_.Take(share.slot_bytes);
      if (!slot.has_value() && share.reserved)
        slot = arena_.Take(share.slot_bytes);
      if (!slot.has_value()) break;
      taken.push_back(*slot);
    }
    // Fewer slots of the right size are better than as many smaller ones, down
    // to two.
    if (taken.size() == share.slots ||
        (taken.size() >= 2 && options_.division.slot_bytes == 0) ||
        (!taken.empty() && options_.division.slot_bytes != 0)) {
      group->slot_bytes = taken.front().bytes;
      group->last.assign(taken.size(), SlotUse{});
      group->slots = std::move(taken);
      return true;
    }
    for (const Slot& slot : taken) arena_.Give(slot);
    share = HalveShare(options_.division, share, arena_.unit_bytes());
  }
  return false;
}

void Core::GiveGroup(const Group& group) {
  for (const Slot& slot : group.slots) arena_.Give(slot);
}

size_t Core::PlacesTaken(const StreamKey& stream, uint64_t now_nanos) {
  Owner* const owner = FindOwner(stream);
  if (owner == nullptr) return 0;
  ObserveOwner(*owner, now_nanos);
  return owner->places;
}

Sequence Core::ChunksDone(const StreamKey& stream) const {
  const Owner* const owner = FindOwner(stream);
  return owner == nullptr
             ? Sequence{0}
             : flags_[owner->line].done.load(std::memory_order_acquire);
}

void Core::NoteStandstill(const StreamKey& stream) {
  if (Owner* const owner = FindOwner(stream))
    owner->standstill = ChunksDone(stream);
}

bool Core::StandsStill(const StreamKey& stream) const {
  const Owner* const owner = FindOwner(stream);
  return owner != nullptr && owner->standstill == ChunksDone(stream);
}

void Core::CutShort(Transfer& transfer, uint32_t enqueued_chunks) {
  // It cannot have retired: the write of its last number is not enqueued yet.
  // But its context or the ring may be lost.
  Owner* owner = OwnerOf(transfer);
  if (owner == nullptr) return;
  transfer.end = enqueued_chunks;
  if (transfer.slots.empty()) return;
  RestoreSlots(options_.share_slots_for_test ? shared_group_
                                             : owner->groups[owner->last_group],
               transfer);
}

void Core::Lose(Transfer& transfer) {
  Owner* owner = OwnerOf(transfer);
  if (owner == nullptr) return;
  transfer.lost = true;
  owner->detached = true;
  by_key_.erase(owner->key);
}

// --- Observing
// ------------------------------------------------------------------------------------------------------

bool Core::SlotFree(const Transfer& transfer, uint32_t chunk) const {
  if (transfer.slots.empty()) return true;
  const auto slots = static_cast<uint32_t>(transfer.slots.size());
  if (chunk >= slots) {
    if (transfer.direction == Direction::kDeviceToHost)
      return transfer.drained > chunk - slots;
    return AtLeast(flags_[transfer.line].done.load(std::memory_order_acquire),
                   transfer.ChunkSequence(chunk - slots));
  }
  return UseOver(transfer.previous[chunk]);
}

bool Core::Reached(uint32_t line, Sequence number) const {
  return AtLeast(flags_[line].ready.load(std::memory_order_acquire), number);
}

bool Core::UseOver(const SlotUse& use) const {
  if (!use.used) return true;
  const FlagLine& flags = flags_[use.line];
  return use.direction == Direction::kDeviceToHost
             ? AtLeast(flags.drained.load(std::memory_order_relaxed), use.chunk)
             : AtLeast(flags.done.load(std::memory_order_acquire), use.chunk);
}

// Whether the stream may copy the next chunk, as far as its slot goes.
bool Core::NextChunkReady(const Transfer& transfer) const {
  const uint32_t chunk = transfer.permitted;
  if (transfer.direction == Direction::kDeviceToHost) {
    return SlotFree(transfer, chunk);
  }
  return transfer.Moved(chunk) == transfer.ChunkBytes(chunk);
}

// A device-to-host chunk is permitted as soon as its slot is free, before the
// stream gets there; a host-to-device chunk when its bytes are in the slot.
// `permitted` rises in the order of the line's chunks: one that was filled
// early waits here for those before it, whose slots may be empty.
bool Core::Permit(Owner& owner) {
  bool changed = false;
  while (owner.permit_at < owner.queue.size()) {
    Transfer& transfer = *owner.queue[owner.permit_at];
    if (transfer.lost)
      break;  // the line is let go once all before it is over (Release)
    while (transfer.permitted < transfer.end && NextChunkReady(transfer)) {
      transfer.Moved(transfer.permitted) = 0;
      flags_[owner.line].permitted.store(
          transfer.ChunkSequence(transfer.permitted),
          std::memory_order_release);
      ++transfer.permitted;
      changed = true;
    }
    if (transfer.permitted < transfer.end) break;
    if (transfer.end < transfer.chunks) {
      flags_[owner.line].permitted.store(transfer.LastSequence(),
                                         std::memory_order_release);
    }
    ++owner.permit_at;
    changed = true;
  }
  return changed;
}

bool Core::RetireNow(const Transfer& transfer) const {
  if (transfer.lost) return false;
  return transfer.moves_in_progress == 0 &&
         (transfer.direction == Direction::kHostToDevice ||
          transfer.drained >= transfer.end) &&
         AtLeast(flags_[transfer.line].done.load(std::memory_order_acquire),
                 transfer.LastSequence());
}

bool Core::Retire(Owner& owner) {
  bool changed = false;
  while (!owner.queue.empty() && RetireNow(*owner.queue.front())) {
    if (owner.permit_at == 0)
      break;  // its permission is still to be raised past skipped chunks
    owner.queue.front()->retired = true;
    owner.early -= owner.queue.front()->reads_early ? 1 : 0;
    owner.places -= owner.queue.front()->places;
    owner.queue.pop_front();
    --owner.permit_at;
    --outstanding_;
    changed = true;
  }
  return changed;
}

bool Core::ObserveOwner(Owner& owner, uint64_t now_nanos) {
  bool changed = Permit(owner);
  changed |= Retire(owner);
  NoteStall(owner, now_nanos);
  return changed;
}

// How long the oldest transfer, reached by its stream, has had nothing to move
// but for want of a free slot.
void Core::NoteStall(Owner& owner, uint64_t now_nanos) {
  if (owner.queue.empty()) return;
  Transfer& transfer = *owner.queue.front();
  const bool stalled =
      AtLeast(flags_[owner.line].ready.load(std::memory_order_relaxed),
              transfer.number) &&
      (transfer.direction == Direction::kHostToDevice
           ? transfer.claim_chunk < transfer.end &&
                 !SlotFree(transfer, transfer.claim_chunk)
           : transfer.permitted < transfer.end &&
                 !SlotFree(transfer, transfer.permitted));
  if (!stalled) {
    if (owner.stalled_since_nanos != 0)
      transfer.slot_wait_nanos += now_nanos - owner.stalled_since_nanos;
    owner.stalled_since_nanos = 0;
  } else if (owner.stalled_since_nanos == 0) {
    owner.stalled_since_nanos = now_nanos;
  }
}

bool Core::Observe(uint64_t now_nanos) {
  bool changed = false;
  for (size_t i = 0; i < active_.size();) {
    changed |= ObserveOwner(*active_[i], now_nanos);
    const Owner& owner = *active_[i];
    if (owner.queue.empty() || owner.queue.front()->lost) {
      Release(i);
      changed = true;
    } else {
      ++i;
    }
  }
  changed |= graphs_.Observe();
  std::erase_if(lost_, [](const std::shared_ptr<Transfer>& transfer) {
    return transfer->moves_in_progress == 0;
  });
  return changed;
}

// Lets go of a stream whose transfers are all over by now; false if they are
// not.
bool Core::RetireAll(Owner& owner, uint64_t now_nanos) {
  ObserveOwner(owner, now_nanos);
  if (!owner.queue.empty()) return false;
  for (size_t i = 0; i < active_.size(); ++i) {
    if (active_[i].get() != &owner) continue;
    Release(i);
    return true;
  }
  return false;
}

// All transfers of the stream have retired: its slots and its line go to
// others. Or the oldest is lost: they go to no one.
void Core::Release(size_t index) {
  std::unique_ptr<Owner> owner = std::move(active_[index]);
  active_[index] = std::move(active_.back());
  active_.pop_back();
  line_owners_[owner->line] = nullptr;
  if (!owner->detached) by_key_.erase(owner->key);
  if (owner->queue.empty()) {
    for (const Group& group : owner->groups) GiveGroup(group);
    free_lines_.push_back(owner->line);
    return;
  }
  // Whatever the driver did take of them must not hold the program's stream.
  const Sequence last = lines_[owner->line].chunks;
  flags_[owner->line].permitted.store(last, std::memory_order_release);
  flags_[owner->line].drained.store(last, std::memory_order_release);
  for (std::shared_ptr<Transfer>& transfer : owner->queue) {
    transfer->lost = true;
    --outstanding_;
    if (transfer->moves_in_progress > 0) lost_.push_back(std::move(transfer));
  }
  for (Group& group : owner->groups) {
    quarantined_bytes_ += group.total_bytes();
    quarantined_.push_back(std::move(group));
  }
  ++quarantined_lines_;
}

void Core::LoseContext(const void* context) {
  graphs_.LoseContext(context);
  for (size_t i = 0; i < active_.size();) {
    if (active_[i]->key.context != context) {
      ++i;
      continue;
    }
    LoseOwner(i);
  }
}

void Core::LoseAll() {
  graphs_.LoseAll();
  while (!active_.empty()) LoseOwner(active_.size() - 1);
}

void Core::LoseOwner(size_t index) {
  for (const std::shared_ptr<Transfer>& transfer : active_[index]->queue)
    transfer->lost = true;
  Release(index);
}

void Core::Inherit(Core& other) {
  for (std::shared_ptr<Transfer>& transfer : other.lost_)
    lost_.push_back(std::move(transfer));
  other.lost_.clear();
}

// --- Moving
// ---------------------------------------------------------------------------------------------------------

bool Core::Claimable(const Transfer& transfer) const {
  if (transfer.lost || transfer.claim_chunk >= transfer.end) return false;
  if (transfer.direction == Direction::kHostToDevice) {
    return (transfer.reads_early || Reached(transfer.line, transfer.number)) &&
           SlotFree(transfer, transfer.claim_chunk);
  }
  return AtLeast(flags_[transfer.line].done.load(std::memory_order_acquire),
                 transfer.ChunkSequence(transfer.claim_chunk));
}

// Whether there may be something to move behind a transfer that has nothing:
// the stream has reached what comes after it, or something is read early.
bool Core::LookBehind(const Owner& owner, const Transfer& transfer) const {
  return owner.early > 0 || Reached(owner.line, transfer.number + 1);
}

// A small chunk is shared by several movers too.
size_t Core::PieceBytes(size_t chunk_bytes) const {
  constexpr size_t kPiecesAtLeast = 8;
  // What a mover does between two turns at the lock has to be worth it.
  constexpr size_t kSmallestPiece = size_t{128} << 10;
  constexpr size_t kPage = 4096;
  const size_t piece =
      (chunk_bytes / kPiecesAtLeast + kPage - 1) / kPage * kPage;
  return std::min(options_.piece_bytes, std::max(piece, kSmallestPiece));
}

bool Core::TakeFrom(Owner& owner, uint64_t now_nanos, Work work, Move* move) {
  ObserveOwner(owner, now_nanos);
  for (const std::shared_ptr<Transfer>& transfer : owner.queue) {
    if (!Claimable(*transfer) || !Suits(*transfer, work)) {
      if (!LookBehind(owner, *transfer)) return false;
      continue;
    }
    const uint32_t chunk = transfer->claim_chunk;
    size_t offset = 0;
    const size_t bytes =
        transfer->ClaimPiece(PieceBytes(transfer->ChunkBytes(chunk)), &offset);
    *move = Move{transfer, chunk, transfer->ChunkOffset(chunk) + offset,
                 nullptr, bytes};
    if (!transfer->fill.has_value())
      move->slot = ring_ + transfer->ChunkSlot(chunk).offset + offset;
    return true;
  }
  return false;
}

bool Core::Take(uint64_t now_nanos, const Transfer* only, Work work,
                Move* move) {
  if (only != nullptr) {
    Owner* owner = OwnerOf(*only);
    return owner != nullptr && TakeFrom(*owner, now_nanos, work, move);
  }
  // A graph's next copy may be one to drain.
  if (work == Work::kFill) return TakeFromStreams(now_nanos, work, move);
  graphs_turn_ = !graphs_turn_;
  return graphs_turn_
             ? TakeFromGraphs(move) || TakeFromStreams(now_nanos, work, move)
             : TakeFromStreams(now_nanos, work, move) || TakeFromGraphs(move);
}

bool Core::TakeFromGraphs(Move* move) {
  size_t offset = 0;
  if (!graphs_.Take(&move->transfer, &move->chunk, &offset, &move->bytes))
    return false;
  const Transfer& transfer = *move->transfer;
  move->offset = transfer.ChunkOffset(move->chunk) + offset;
  move->slot = ring_ + transfer.ChunkSlot(move->chunk).offset + offset;
  return true;
}

bool Core::TakeFromStreams(uint64_t now_nanos, Work work, Move* move) {
  for (size_t visits = active_.size(); visits > 0; --visits) {
    if (cursor_ >= active_.size()) cursor_ = 0;
    Owner& owner = *active_[cursor_];
    if (TakeFrom(owner, now_nanos, work, move)) {
      ++cursor_;
      return true;
    }
    if (owner.queue.empty() || owner.queue.front()->lost) {
      Release(cursor_);
    } else {
      ++cursor_;
    }
  }
  return false;
}

void Core::Finish(const Move& move) {
  Transfer& transfer = *move.transfer;
  if (transfer.replayed) {
    graphs_.Finish(transfer, move.chunk, move.bytes);
    return;
  }
  --transfer.moves_in_progress;
  transfer.Moved(move.chunk) += move.bytes;
  Owner* owner = OwnerOf(transfer);
  if (owner == nullptr) return;
  if (transfer.direction == Direction::kDeviceToHost) {
    Drain(*owner);
  } else {
    Permit(*owner);
  }
}

// Raises `drained` in the order of the line's chunks, past all that have
// arrived.
void Core::Drain(Owner& owner) {
  for (const std::shared_ptr<Transfer>& transfer : owner.queue) {
    if (transfer->lost) return;
    if (transfer->direction == Direction::kHostToDevice) continue;
    if (!transfer->RaiseDrained(flags_[owner.line])) return;
  }
}

bool Core::OwnerCanProgress(const Owner& owner) const {
  if (owner.queue.empty() || owner.queue.front()->lost) return true;
  if (owner.permit_at > 0 && RetireNow(*owner.queue.front())) return true;
  if (owner.permit_at < owner.queue.size()) {
    const Transfer& transfer = *owner.queue[owner.permit_at];
    if (!transfer.lost &&
        (transfer.permitted >= transfer.end || NextChunkReady(transfer))) {
      return true;
    }
  }
  return OwnerCanTake(owner, Work::kAll);
}

bool Core::OwnerCanTake(const Owner& owner, Work work) const {
  for (const std::shared_ptr<Transfer>& transfer : owner.queue) {
    if (Claimable(*transfer) && Suits(*transfer, work)) return true;
    if (!LookBehind(owner, *transfer)) return false;
  }
  return false;
}

bool Core::CanProgress() const {
  return graphs_.CanProgress() ||
         std::any_of(active_.begin(), active_.end(),
                     [this](const std::unique_ptr<Owner>& owner) {
                       return OwnerCanProgress(*owner);
                     });
}

bool Core::CanTake(Work work) const {
  if (work == Work::kAll && graphs_.CanProgress()) return true;
  return std::any_of(active_.begin(), active_.end(),
                     [this, work](const std::unique_ptr<Owner>& owner) {
                       return OwnerCanTake(*owner, work);
                     });
}

void Core::Watch(FlagWatch* watch) const {
  watch->Clear();
  for (const std::unique_ptr<Owner>& owner : active_)
    watch->Note(flags_[owner->line], false);
  graphs_.Watch(watch);
}

bool Core::CanProgress(const Transfer& transfer) const {
  const Owner* owner = OwnerOf(transfer);
  return owner != nullptr && OwnerCanProgress(*owner);
}

// --- Looking
// --------------------------------------------------------------------------------------------------------

Core::Owner* Core::FindOwner(const StreamKey& key) const {
  const auto it = by_key_.find(key);
  return it == by_key_.end() ? nullptr : it->second;
}

// Null once the transfer has retired or is lost.
Core::Owner* Core::OwnerOf(const Transfer& transfer) const {
  if (transfer.retired || transfer.lost) return nullptr;
  Owner* const owner = line_owners_[transfer.line];
  if (owner == nullptr || owner->queue.empty()) return nullptr;
  // The line may have gone on to another stream.
  const Sequence oldest = owner->queue.front()->number;
  return AtLeast(transfer.number, oldest) ? owner : nullptr;
}

bool Core::TouchesHost(const std::byte* begin, const std::byte* end) const {
  const auto touches = [&](const std::shared_ptr<Transfer>& transfer) {
    return (!transfer->lost || transfer->moves_in_progress > 0) &&
           transfer->host < end &&
           begin <
               transfer->host + transfer->shape.Extent(transfer->shape.host);
  };
  if (graphs_.TouchesHost(begin, end) ||
      std::any_of(lost_.begin(), lost_.end(), touches)) {
    return true;
  }
  return std::any_of(
      active_.begin(), active_.end(), [&](const std::unique_ptr<Owner>& owner) {
        return std::any_of(owner->queue.begin(), owner->queue.end(), touches);
      });
}

void Core::CheckInvariants() const {
  arena_.CheckInvariants();
  graphs_.CheckInvariants();
  size_t held = graphs_.held_bytes() + arena_.free_bytes() +
                arena_.free_reserved_bytes() + quarantined_bytes_ +
                shared_group_.total_bytes();
  size_t queued = 0;
  for (const std::unique_ptr<Owner>& owner : active_) {
    PINRING_CHECK(line_owners_[owner->line] == owner.get(),
                  "a line has two owners");
    PINRING_CHECK(owner->permit_at <= owner->queue.size(),
                  "permission is ahead of the queue");
    for (const Group& group : owner->groups) held += group.total_bytes();
    Sequence number = owner->queue.empty() ? 0 : owner->queue.front()->number;
    for (const std::shared_ptr<Transfer>& transfer : owner->queue) {
      PINRING_CHECK(!transfer->retired && transfer->number == number,
                    "transfers are out of order");
      PINRING_CHECK(transfer->line == owner->line,
                    "a transfer is on another stream's line");
      ++number;
      ++queued;
    }
    PINRING_CHECK(owner->queue.empty() || lines_[owner->line].transfers ==
                                              owner->queue.back()->number,
                  "a line's numbers are not its last transfer's");
  }
  PINRING_CHECK(held == arena_.ring_bytes(), "slots are lost or owned twice");
  PINRING_CHECK(queued == outstanding_, "outstanding transfers are miscounted");
  PINRING_CHECK(
      free_lines_.size() + active_.size() + quarantined_lines_ == lines_.size(),
      "lines are lost");
}

}  // namespace pinring
