#include "src/ring/division.h"

#include <algorithm>

namespace pinring {
namespace {

// In flight at once: one slot being filled or drained, one under DMA, and two
// to absorb jitter between them.
constexpr size_t kSlotsPerShare = 4;
// Copies up to this size gain nothing from being cut (a chunk costs two driver
// calls and a hand-over).
constexpr size_t kOneChunkBytes = size_t{256} << 10;

size_t RoundUpTo(size_t value, size_t unit) {
  return (value + unit - 1) / unit * unit;
}
size_t RoundDownTo(size_t value, size_t unit) { return value / unit * unit; }

// Cuts `bytes` of ring into slots for a transfer that may be smaller than them.
Share Cut(size_t transfer_bytes, size_t bytes, size_t unit, bool reserved,
          size_t most_chunks) {
  Share share;
  share.reserved = reserved;
  if (transfer_bytes <= kOneChunkBytes && transfer_bytes <= bytes) {
    share.slot_bytes = RoundUpTo(transfer_bytes, unit);
    share.slots = 1;
    return share;
  }
  // A transfer smaller than its share is cut so that its chunks overlap all the
  // same.
  const size_t useful =
      std::min(bytes, RoundUpTo(transfer_bytes, unit * kSlotsPerShare));
  share.slots = kSlotsPerShare;
  share.slot_bytes = RoundDownTo(useful / kSlotsPerShare, unit);
  if (transfer_bytes / std::max<size_t>(share.slot_bytes, 1) >= most_chunks &&
      bytes / 2 >= unit) {
    share.slots = 2;
    share.slot_bytes = RoundDownTo(bytes / 2, unit);
  }
  if (share.slot_bytes == 0) {
    share.slots = std::max<size_t>(bytes / unit, 1);
    share.slot_bytes = unit;
  }
  return share;
}

}  // namespace

Share DivideRing(const DivisionRules& rules, const Demand& demand,
                 const Supply& supply) {
  if (rules.slot_bytes != 0) {
    const size_t slots = std::max<size_t>(rules.slots_per_stream, 1);
    if (demand.owned_bytes >= slots * rules.slot_bytes) return Share{};
    return Share{RoundUpTo(rules.slot_bytes, supply.unit_bytes), slots, false};
  }
  const size_t eighth = supply.ring_bytes / 8;
  const size_t general = supply.ring_bytes - supply.reserve_bytes;
  // Only large chunks keep the call from blocking, should the stream be held.
  const bool huge =
      demand.transfer_bytes / std::max<size_t>(eighth / 2, 1) > kMaxChunks;
  size_t most = 0;
  if (demand.streams > 1) {
    most = std::min(general / demand.streams,
                    demand.flows() ? general / 2 : eighth);
    // Where it is not known how many will come, never more than a quarter of
    // what is left: they need chunks that are not too small.
    if (!demand.crowd_known) most = std::min(most, supply.free_bytes / 4);
  } else if (demand.waits || (!demand.idle && huge)) {
    most = general;
  } else if (demand.idle) {
    // Another stream may come at any time.
    most = general / 3 * 2;
  } else if (demand.may_be_idle) {
    most = general / 2;
  } else {
    most = eighth;
  }
  size_t wanted = std::min({demand.transfer_bytes, most, supply.free_bytes});
  if (demand.owned_bytes > 0 && demand.owned_bytes >= wanted) return Share{};
  wanted -= std::min(wanted, demand.owned_bytes);
  if (wanted >= supply.unit_bytes ||
      demand.transfer_bytes < supply.unit_bytes) {
    const size_t bytes = std::max(wanted, supply.unit_bytes);
    if (supply.free_bytes >= std::max(bytes, supply.reserve_bytes / 4)) {
      return Cut(demand.transfer_bytes, bytes, supply.unit_bytes, false,
                 MaxChunks(demand.streams));
    }
  }
  // What it owns is enough, if its chunks fit the driver's queue.
  if (demand.owned_bytes / kSlotsPerShare >
      demand.transfer_bytes / MaxChunks(demand.streams))
    return Share{};
  // From the reserve: less the less is left of it, so that a ring of 64 MiB
  // serves more than a thousand streams.
  size_t small = supply.reserve_bytes / 256;
  for (size_t quarter = 3; quarter >= 1 && supply.free_reserved_bytes * 4 <
                                               supply.reserve_bytes * quarter;
       --quarter) {
    small /= 2;
  }
  // Enough for chunks that fit the driver's queue, while that leaves enough for
  // others.
  const size_t most_chunks = MaxChunks(demand.streams);
  const size_t chunk =
      RoundUpTo((demand.transfer_bytes + most_chunks - 1) / most_chunks,
                supply.unit_bytes);
  small = std::max(small, std::min(2 * chunk, supply.free_reserved_bytes / 16));
  small = std::max(RoundDownTo(small, supply.unit_bytes), supply.unit_bytes);
  return Cut(
      demand.transfer_bytes,
      std::min(small, RoundUpTo(demand.transfer_bytes, supply.unit_bytes)),
      supply.unit_bytes, true, most_chunks);
}

Share HalveShare(const DivisionRules& rules, const Share& share,
                 size_t unit_bytes) {
  Share next = share;
  if (rules.slot_bytes != 0) {
    next.slots = share.slots - 1;
    return next;
  }
  if (share.slot_bytes > unit_bytes) {
    next.slot_bytes =
        std::max(RoundDownTo(share.slot_bytes / 2, unit_bytes), unit_bytes);
  } else {
    next.slots = share.slots / 2;
  }
  return next;
}

}  // namespace pinring
