// The ring's pinned memory: the bytes that slots are cut from, and the flag
// lines.
//
// Made by populating huge pages with several threads and registering them,
// which takes a quarter of the time that a pinned allocation takes; where
// registering is refused, by a pinned allocation.

#ifndef PINRING_SRC_RING_RING_MEMORY_H_
#define PINRING_SRC_RING_RING_MEMORY_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/driver/driver.h"
#include "src/ring/flags.h"

namespace pinring {

class RingMemory {
 public:
  // How much Create pins for a ring of that size: the ring and the flags, in
  // whole pages.
  [[nodiscard]] static size_t PinnedBytes(size_t ring_bytes, uint32_t lines);

  // Makes a ring in the current context, portable to all. All flags hold
  // first_sequence. The memory is not inherited by fork. Errors: the driver's,
  // where it refuses to pin at all; nothing is left behind then.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<RingMemory>> Create(
      const Driver& driver, size_t ring_bytes, uint32_t lines,
      Sequence first_sequence, int threads);
  // Unpins, which needs a current context and waits for the device. To be
  // called before the destructor where that can be done; otherwise the memory
  // stays pinned until the process ends.
  absl::Status Release(const Driver& driver);
  // The context that made the ring is gone, and the pin with it: gives the
  // memory back but not the addresses, which movers may still hold. The
  // destructor gives those back.
  absl::Status Abandon();
  ~RingMemory();
  RingMemory(const RingMemory&) = delete;
  RingMemory& operator=(const RingMemory&) = delete;

  std::byte* bytes() const { return base_; }
  FlagLine* lines() const { return lines_; }
  size_t pinned_bytes() const { return pinned_bytes_; }
  // The address of the flag lines for streams of the current context.
  [[nodiscard]] absl::StatusOr<CUdeviceptr> DeviceLines(
      const Driver& driver) const;

 private:
  RingMemory() = default;

  std::byte* base_ = nullptr;
  FlagLine* lines_ = nullptr;
  size_t pinned_bytes_ = 0;
  bool abandoned_ = false;
  bool registered_ =
      false;  // registered pages of our own, not an allocation of the driver's
};

}  // namespace pinring

#endif  // PINRING_SRC_RING_RING_MEMORY_H_
