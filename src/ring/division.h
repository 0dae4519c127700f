// How much of the ring a transfer may take.
//
// One busy stream wants half of the ring or more to run at the speed of the
// link; eight want an eighth each; a thousand must each get something. What a
// stream takes cannot be taken back while it is stalled. So a transfer's share
// is decided when it is enqueued, from its size and from what is free, and a
// reserve of small slots is left for the streams to come.
//
// Pure functions: no state, no clock.

#ifndef PINRING_SRC_RING_DIVISION_H_
#define PINRING_SRC_RING_DIVISION_H_

#include <cstddef>

namespace pinring {

struct DivisionRules {
  // 0 means that the division decides. Set together for tests: every transfer
  // then takes `slots_per_stream` slots of `slot_bytes`.
  size_t slot_bytes = 0;
  size_t slots_per_stream = 0;
};

struct Demand {
  size_t transfer_bytes = 0;
  // The stream has nothing queued before the transfer.
  bool idle = false;
  // It could not be asked.
  bool may_be_idle = false;
  // The caller waits for the transfer.
  bool waits = false;
  // What the stream owns already.
  size_t owned_bytes = 0;
  // Streams that own slots, this one among them, now or a short while ago.
  size_t streams = 1;
  // That many were there already: no further stream is likely to come.
  bool crowd_known = false;

  // It is not known to stand behind something that may last.
  bool flows() const { return idle || waits; }
};

struct Supply {
  size_t ring_bytes = 0;
  size_t unit_bytes = 0;
  size_t free_bytes = 0;     // outside the reserve
  size_t reserve_bytes = 0;  // the whole reserve
  size_t free_reserved_bytes = 0;
};

struct Share {
  size_t slot_bytes = 0;  // a multiple of the unit
  size_t slots = 0;       // 0: take nothing more
  bool reserved = false;  // from the reserve
};

// The driver's queues hold about 1,020 operations, and a chunk takes two; a
// call that finds its queue full blocks, which hangs a program that would open
// its gate next. Copies of streams that share a queue with a held one stand
// behind it too: of the four queues that copies to the device have, the fifth
// stream shares one. So a transfer that may be stalled has at most this many
// chunks, when `streams` streams have copies in flight.
inline constexpr size_t kMaxChunks = 480;
inline constexpr size_t kFewestMaxChunks = 128;

constexpr size_t MaxChunks(size_t streams) {
  const size_t sharing = streams == 0 ? 1 : (streams + 3) / 4;
  const size_t most = kMaxChunks / sharing;
  return most < kFewestMaxChunks ? kFewestMaxChunks : most;
}

// The share that `demand` deserves, first choice. The caller halves it
// (HalveShare) while the arena has no such slots.
[[nodiscard]] Share DivideRing(const DivisionRules& rules, const Demand& demand,
                               const Supply& supply);

// The next smaller share, with fewer or smaller slots; slots is 0 where there
// is none.
[[nodiscard]] Share HalveShare(const DivisionRules& rules, const Share& share,
                               size_t unit_bytes);

}  // namespace pinring

#endif  // PINRING_SRC_RING_DIVISION_H_
