// The flags through which streams and movers speak to each other: four counters
// a line, in pinned memory.
//
// All counters of a line only grow (cyclically: they may wrap around) and are
// never reset. A line belongs to one stream at a time; its next owner continues
// the numbers where the last one stopped, so a wait that an earlier owner's
// stream still has to take is already satisfied.

#ifndef PINRING_SRC_RING_FLAGS_H_
#define PINRING_SRC_RING_FLAGS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pinring {

using Sequence = uint32_t;

// a >= b for counters that wrap around and are less than 2^31 apart, as
// CU_STREAM_WAIT_VALUE_GEQ compares.
constexpr bool AtLeast(Sequence a, Sequence b) {
  return static_cast<int32_t>(a - b) >= 0;
}

// Each counter has a cache line of its own, so that the device's writes do not
// disturb a mover that polls another one.
struct FlagLine {
  // Written by the stream in stream order; a mover's acquire load pairs with
  // the device's write, which makes what the stream did before visible.
  alignas(64) std::atomic<Sequence> ready;  // the last transfer that the stream
                                            // has reached
  alignas(64) std::atomic<Sequence> done;   // the last chunk whose copy is over
  // Written by movers with release stores, which publish the bytes moved; the
  // stream waits for them.
  alignas(64) std::atomic<Sequence> permitted;  // the last chunk that the
                                                // stream may copy
  alignas(
      64) std::atomic<Sequence> drained;  // the last device-to-host chunk whose
                                          // bytes are in the host's memory
};

inline constexpr size_t kReadyOffset = 0;
inline constexpr size_t kDoneOffset = 64;
inline constexpr size_t kPermittedOffset = 128;
inline constexpr size_t kDrainedOffset = 192;
static_assert(sizeof(FlagLine) == 256);
static_assert(std::atomic<Sequence>::is_always_lock_free &&
              sizeof(std::atomic<Sequence>) == 4);

}  // namespace pinring

#endif  // PINRING_SRC_RING_FLAGS_H_
