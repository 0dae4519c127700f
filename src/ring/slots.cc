#include "src/ring/slots.h"

#include <iterator>
#include <optional>

#include "src/os/check.h"

namespace pinring {

SlotArena::SlotArena(size_t ring_bytes, size_t reserve_bytes, size_t unit_bytes)
    : unit_bytes_(unit_bytes),
      end_(ring_bytes / unit_bytes * unit_bytes),
      boundary_(end_ - reserve_bytes / unit_bytes * unit_bytes) {
  if (boundary_ > 0) general_.extents[0] = boundary_;
  if (end_ > boundary_) reserve_.extents[boundary_] = end_ - boundary_;
  general_.free_bytes = boundary_;
  reserve_.free_bytes = end_ - boundary_;
}

std::optional<Slot> SlotArena::TakeFrom(Part& part, size_t bytes) {
  if (bytes == 0 || bytes > part.free_bytes) return std::nullopt;
  bytes = (bytes + unit_bytes_ - 1) / unit_bytes_ * unit_bytes_;
  for (auto it = part.extents.begin(); it != part.extents.end(); ++it) {
    const auto [offset, extent_bytes] = *it;
    if (extent_bytes < bytes) continue;
    part.extents.erase(it);
    if (extent_bytes > bytes)
      part.extents[offset + bytes] = extent_bytes - bytes;
    part.free_bytes -= bytes;
    return Slot{offset, bytes};
  }
  return std::nullopt;
}

void SlotArena::Give(const Slot& slot) {
  Part& part = slot.offset < boundary_ ? general_ : reserve_;
  size_t offset = slot.offset;
  size_t bytes = slot.bytes;
  auto next = part.extents.lower_bound(offset);
  if (next != part.extents.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = part.extents.erase(next);
  }
  if (next != part.extents.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      offset = previous->first;
      bytes += previous->second;
      part.extents.erase(previous);
    }
  }
  part.extents[offset] = bytes;
  part.free_bytes += slot.bytes;
}

void SlotArena::CheckInvariants() const {
  CheckPart(general_, 0, boundary_);
  CheckPart(reserve_, boundary_, end_);
}

void SlotArena::CheckPart(const Part& part, size_t begin, size_t end) const {
  size_t sum = 0;
  size_t previous_end = begin;
  bool first = true;
  for (const auto& [offset, bytes] : part.extents) {
    PINRING_CHECK(bytes > 0 && bytes % unit_bytes_ == 0,
                  "extent is no multiple of the unit");
    PINRING_CHECK(first ? offset >= begin : offset > previous_end,
                  "free extents touch or overlap");
    PINRING_CHECK(offset + bytes <= end, "extent leaves its part");
    previous_end = offset + bytes;
    sum += bytes;
    first = false;
  }
  PINRING_CHECK(sum == part.free_bytes, "free bytes are miscounted");
}

}  // namespace pinring
