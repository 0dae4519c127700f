#include "src/engine/graph_core.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "src/os/check.h"

namespace pinring {
namespace {

constexpr size_t kSmallestSlotBytes = size_t{64} << 10;
constexpr size_t kLargestSlotBytes = size_t{1} << 20;
constexpr size_t kSlots = 2;
// As many chunks as make the movers and the device work at the same time.
constexpr uint64_t kChunksWanted = 8;

bool Overlaps(const Transfer& transfer, const std::byte* begin,
              const std::byte* end) {
  return transfer.host < end &&
         begin < transfer.host + transfer.shape.Extent(transfer.shape.host);
}

}  // namespace

GraphCore::GraphCore(const GraphCoreOptions& options, FlagLine* flags,
                     SlotArena* arena,
                     std::vector<std::shared_ptr<Transfer>>* lost)
    : options_(options), flags_(flags), arena_(*arena), lost_(*lost) {
  free_lines_.reserve(options_.lines);
  for (uint32_t i = options_.lines; i > 0; --i) {
    const uint32_t line = options_.first_line + i - 1;
    flags_[line].ready.store(0, std::memory_order_relaxed);
    flags_[line].done.store(0, std::memory_order_relaxed);
    flags_[line].permitted.store(0, std::memory_order_relaxed);
    flags_[line].drained.store(0, std::memory_order_release);
    free_lines_.push_back(line);
  }
}

bool GraphCore::TakeSlots(uint64_t bytes, std::vector<Slot>* slots) {
  size_t slot_bytes = options_.slot_bytes;
  if (slot_bytes == 0) {
    const uint64_t wanted = (bytes / kChunksWanted + 4095) & ~uint64_t{4095};
    slot_bytes = static_cast<size_t>(std::clamp<uint64_t>(
        wanted, std::min<uint64_t>(bytes, kSmallestSlotBytes),
        kLargestSlotBytes));
  }
  const size_t slot_count = options_.slots == 0 ? kSlots : options_.slots;
  const uint64_t chunks = (bytes + slot_bytes - 1) / slot_bytes;
  for (uint64_t i = 0; i < std::min<uint64_t>(slot_count, chunks); ++i) {
    if (held_bytes_ + slot_bytes > options_.most_bytes) break;
    const std::optional<Slot> slot = arena_.Take(slot_bytes);
    if (!slot.has_value()) break;
    held_bytes_ += slot->bytes;
    slots->push_back(*slot);
  }
  return !slots->empty();
}

void GraphCore::GiveSlots(const std::vector<Slot>& slots) {
  for (const Slot& slot : slots) {
    held_bytes_ -= slot.bytes;
    arena_.Give(slot);
  }
}

std::shared_ptr<GraphCopy> GraphCore::Add(const GraphCopyRequest& request) {
  auto copy = std::make_shared<GraphCopy>();
  auto transfer = std::make_shared<Transfer>();
  transfer->direction = request.direction;
  transfer->host = request.host;
  transfer->shape = request.shape;
  transfer->bytes = request.shape.bytes();
  transfer->context = request.context;
  transfer->replayed = true;
  if (options_.share_lines_for_test) {
    for (const std::shared_ptr<GraphCopy>& other : copies_) {
      if (other->transfer->host != request.host ||
          other->transfer->direction != request.direction) {
        continue;
      }
      copy->shares_line = true;
      copy->transfer = other->transfer;
      return copy;
    }
  }
  if (free_lines_.empty() || !TakeSlots(transfer->bytes, &transfer->slots))
    return nullptr;
  transfer->cut = CutIntoChunks(request.shape, transfer->slots.front().bytes);
  if (transfer->cut.chunks > kMostChunks) {
    GiveSlots(transfer->slots);
    return nullptr;
  }
  transfer->chunks = static_cast<uint32_t>(transfer->cut.chunks);
  transfer->end = transfer->chunks;
  transfer->moved.assign(transfer->slots.size(), 0);
  transfer->number = 1;
  transfer->line = free_lines_.back();
  free_lines_.pop_back();
  copy->transfer = std::move(transfer);
  copies_.push_back(copy);
  return copy;
}

void GraphCore::Remove(GraphCopy& copy) {
  if (copy.removed || copy.shares_line) return;
  ObserveCopy(copy);
  const auto found = std::find_if(copies_.begin(), copies_.end(),
                                  [&](const std::shared_ptr<GraphCopy>& one) {
                                    return one.get() == &copy;
                                  });
  PINRING_CHECK(found != copies_.end(), "a graph's copy is of another ring");
  // The driver has let go of a graph that stands in the middle of a replay:
  // whoever still writes to its slots and its line is not known.
  if (copy.replaying) {
    Lose(static_cast<size_t>(found - copies_.begin()));
    return;
  }
  while (copy.expected > 0) ForgetExpected(copy);
  copy.removed = true;
  GiveSlots(copy.transfer->slots);
  free_lines_.push_back(copy.transfer->line);
  copies_.erase(found);
}

void GraphCore::Expect(GraphCopy& copy) {
  if (copy.removed || copy.shares_line) return;
  ++copy.expected;
  ++expected_;
}

void GraphCore::ForgetExpected(GraphCopy& copy) {
  if (copy.expected == 0) return;
  --copy.expected;
  --expected_;
}

// --- Observing
// ------------------------------------------------------------------------------------------------------

// Whether the next chunk may be copied, as far as its slot goes.
bool GraphCore::Permittable(const Transfer& transfer) const {
  const uint32_t chunk = transfer.permitted;
  if (chunk >= transfer.end) return false;
  if (transfer.direction == Direction::kHostToDevice)
    return transfer.Moved(chunk) == transfer.ChunkBytes(chunk);
  return chunk < transfer.slots.size() ||
         transfer.drained > chunk - transfer.slots.size();
}

// A replay is over when the stream has lowered `permitted`, which it does after
// everything that movers write.
bool GraphCore::Over(const GraphCopy& copy) const {
  const Transfer& transfer = *copy.transfer;
  return copy.replaying && transfer.permitted == transfer.end &&
         transfer.moves_in_progress == 0 &&
         (transfer.direction == Direction::kHostToDevice ||
          transfer.drained == transfer.end) &&
         flags_[transfer.line].permitted.load(std::memory_order_acquire) == 0;
}

void GraphCore::Begin(GraphCopy& copy) {
  Transfer& transfer = *copy.transfer;
  transfer.permitted = 0;
  transfer.drained = 0;
  transfer.claim_chunk = 0;
  transfer.claim_offset = 0;
  std::fill(transfer.moved.begin(), transfer.moved.end(), 0);
  copy.replaying = true;
  ++replaying_;
  ForgetExpected(copy);
}

bool GraphCore::Permit(GraphCopy& copy) {
  Transfer& transfer = *copy.transfer;
  FlagLine& flags = flags_[transfer.line];
  if (copy.severed && transfer.permitted < transfer.end &&
      transfer.moves_in_progress == 0) {
    transfer.permitted = transfer.drained = transfer.end;
    transfer.claim_chunk = transfer.end;
    flags.drained.store(transfer.end, std::memory_order_release);
    flags.permitted.store(transfer.end, std::memory_order_release);
    return true;
  }
  bool changed = false;
  while (Permittable(transfer)) {
    transfer.Moved(transfer.permitted) = 0;
    ++transfer.permitted;
    flags.permitted.store(transfer.permitted, std::memory_order_release);
    changed = true;
  }
  return changed;
}

bool GraphCore::ObserveCopy(GraphCopy& copy) {
  if (copy.removed) return false;
  bool changed = false;
  if (copy.replaying) {
    changed = Permit(copy);
    if (!Over(copy)) return changed;
    copy.replaying = false;
    --replaying_;
    ++copy.replays;
    changed = true;
  }
  // Pairs with the stream's write of the replay that begins, and comes after
  // the look at `permitted` above.
  if (flags_[copy.transfer->line].ready.load(std::memory_order_acquire) == 0)
    return changed;
  Begin(copy);
  Permit(copy);
  return true;
}

bool GraphCore::Observe() {
  bool changed = false;
  for (const std::shared_ptr<GraphCopy>& copy : copies_)
    changed |= ObserveCopy(*copy);
  return changed;
}

// --- Moving
// ---------------------------------------------------------------------------------------------------------

bool GraphCore::Claimable(const GraphCopy& copy) const {
  const Transfer& transfer = *copy.transfer;
  if (!copy.replaying || copy.severed || transfer.claim_chunk >= transfer.end)
    return false;
  const uint32_t chunk = transfer.claim_chunk;
  const auto slots = static_cast<uint32_t>(transfer.slots.size());
  const Sequence done =
      flags_[transfer.line].done.load(std::memory_order_acquire);
  if (transfer.direction == Direction::kDeviceToHost)
    return done >= transfer.ChunkSequence(chunk);
  return chunk < slots || done >= transfer.ChunkSequence(chunk - slots);
}

bool GraphCore::Take(std::shared_ptr<Transfer>* taken, uint32_t* chunk,
                     size_t* offset, size_t* bytes) {
  for (size_t visits = copies_.size(); visits > 0; --visits) {
    if (cursor_ >= copies_.size()) cursor_ = 0;
    GraphCopy& copy = *copies_[cursor_++];
    ObserveCopy(copy);
    if (!Claimable(copy)) continue;
    Transfer& transfer = *copy.transfer;
    *chunk = transfer.claim_chunk;
    *bytes = transfer.ClaimPiece(options_.piece_bytes, offset);
    *taken = copy.transfer;
    return true;
  }
  return false;
}

void GraphCore::Finish(Transfer& transfer, uint32_t chunk, size_t bytes) {
  --transfer.moves_in_progress;
  transfer.Moved(chunk) += bytes;
  if (transfer.lost) return;
  for (const std::shared_ptr<GraphCopy>& copy : copies_) {
    if (copy->transfer.get() != &transfer) continue;
    if (transfer.direction == Direction::kDeviceToHost)
      transfer.RaiseDrained(flags_[transfer.line]);
    Permit(*copy);
    return;
  }
}

bool GraphCore::CopyCanProgress(const GraphCopy& copy) const {
  const Transfer& transfer = *copy.transfer;
  if (!copy.replaying)
    return flags_[transfer.line].ready.load(std::memory_order_acquire) != 0;
  if (copy.severed && transfer.permitted < transfer.end)
    return transfer.moves_in_progress == 0;
  return Permittable(transfer) || Claimable(copy) || Over(copy);
}

bool GraphCore::CanProgress() const {
  return std::any_of(copies_.begin(), copies_.end(),
                     [this](const std::shared_ptr<GraphCopy>& copy) {
                       return CopyCanProgress(*copy);
                     });
}

// --- Ending
// ---------------------------------------------------------------------------------------------------------

// Its slots and its line go to no one.
void GraphCore::Lose(size_t index) {
  const std::shared_ptr<GraphCopy> copy = std::move(copies_[index]);
  copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(index));
  Transfer& transfer = *copy->transfer;
  transfer.lost = true;
  copy->removed = true;
  while (copy->expected > 0) ForgetExpected(*copy);
  if (copy->replaying) {
    copy->replaying = false;
    --replaying_;
  }
  // Whatever the device still has of it must not hold it.
  flags_[transfer.line].drained.store(transfer.end, std::memory_order_release);
  flags_[transfer.line].permitted.store(transfer.end,
                                        std::memory_order_release);
  if (transfer.moves_in_progress > 0) lost_.push_back(copy->transfer);
  for (const Slot& slot : transfer.slots) quarantined_bytes_ += slot.bytes;
  ++quarantined_lines_;
}

void GraphCore::LoseContext(const void* context) {
  for (size_t i = copies_.size(); i > 0; --i) {
    if (copies_[i - 1]->transfer->context == context) Lose(i - 1);
  }
}

void GraphCore::LoseAll() {
  while (!copies_.empty()) Lose(copies_.size() - 1);
}

bool GraphCore::TouchesHost(const std::byte* begin,
                            const std::byte* end) const {
  return std::any_of(copies_.begin(), copies_.end(),
                     [&](const std::shared_ptr<GraphCopy>& copy) {
                       const bool touches =
                           copy->severed
                               ? copy->transfer->moves_in_progress > 0
                               : copy->replaying || copy->expected > 0;
                       return touches && Overlaps(*copy->transfer, begin, end);
                     });
}

void GraphCore::Sever(const std::byte* begin, const std::byte* end) {
  for (const std::shared_ptr<GraphCopy>& copy : copies_) {
    if (Overlaps(*copy->transfer, begin, end)) copy->severed = true;
  }
}

void GraphCore::CheckInvariants() const {
  size_t held = quarantined_bytes_;
  size_t replaying = 0;
  uint64_t expected = 0;
  for (const std::shared_ptr<GraphCopy>& copy : copies_) {
    const Transfer& transfer = *copy->transfer;
    for (const Slot& slot : transfer.slots) held += slot.bytes;
    replaying += copy->replaying ? 1 : 0;
    expected += copy->expected;
    PINRING_CHECK(!copy->removed && !transfer.lost,
                  "a graph's copy that is gone is still looked at");
    PINRING_CHECK(copy->replaying || transfer.moves_in_progress == 0,
                  "bytes of a replay that is over are moving");
    PINRING_CHECK(transfer.permitted <= transfer.end &&
                      transfer.drained <= transfer.permitted,
                  "a replay is ahead of itself");
  }
  PINRING_CHECK(held == held_bytes_, "slots of graphs are miscounted");
  PINRING_CHECK(replaying == replaying_ && expected == expected_,
                "replays are miscounted");
  PINRING_CHECK(free_lines_.size() + copies_.size() + quarantined_lines_ ==
                    options_.lines,
                "lines of graphs are lost");
}

}  // namespace pinring
