// The ring's bytes, divided into slots.
//
// A slot is a run of the ring's bytes that one stream owns for a while. Slots
// have any size that is a multiple of the unit, since what a stream deserves
// depends on its demand and on what is left. The top of the ring is a reserve
// that only small slots are cut from, so that many streams can hold one each
// however much the first ones took.
//
// Free bytes next to each other are one extent again at once. Slots are cut
// from the lowest fitting address, which also hands out again what was used
// most recently and is still in the processor's cache.
//
// Not thread-safe: the owner's lock guards it. Touches none of the ring's
// bytes.

#ifndef PINRING_SRC_RING_SLOTS_H_
#define PINRING_SRC_RING_SLOTS_H_

#include <cstddef>
#include <map>
#include <optional>

namespace pinring {

struct Slot {
  size_t offset = 0;  // from the ring's first byte
  size_t bytes = 0;
};

class SlotArena {
 public:
  // The ring's size and the reserve are rounded down to whole units. unit_bytes
  // is at least 1.
  SlotArena(size_t ring_bytes, size_t reserve_bytes, size_t unit_bytes);

  // A free run of at least `bytes`, rounded up to units, that lies below the
  // reserve; or none.
  [[nodiscard]] std::optional<Slot> Take(size_t bytes) {
    return TakeFrom(general_, bytes);
  }
  // The same from the reserve.
  [[nodiscard]] std::optional<Slot> TakeReserved(size_t bytes) {
    return TakeFrom(reserve_, bytes);
  }
  void Give(const Slot& slot);

  size_t unit_bytes() const { return unit_bytes_; }
  size_t free_bytes() const { return general_.free_bytes; }
  size_t free_reserved_bytes() const { return reserve_.free_bytes; }
  size_t general_bytes() const { return boundary_; }
  size_t reserve_bytes() const { return end_ - boundary_; }
  size_t ring_bytes() const { return end_; }

  // Ends the process with a message where the bookkeeping is wrong. For tests.
  void CheckInvariants() const;

 private:
  // Free runs by offset; no two touch.
  struct Part {
    std::map<size_t, size_t> extents;
    size_t free_bytes = 0;
  };

  std::optional<Slot> TakeFrom(Part& part, size_t bytes);
  void CheckPart(const Part& part, size_t begin, size_t end) const;

  const size_t unit_bytes_;
  const size_t end_;
  const size_t boundary_;  // the reserve begins here
  Part general_;
  Part reserve_;
};

}  // namespace pinring

#endif  // PINRING_SRC_RING_SLOTS_H_
