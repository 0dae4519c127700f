// The demo's main job: a block to the device and back into another block, on
// several streams at once.

#ifndef PINRING_SRC_CLI_DEMO_COPY_H_
#define PINRING_SRC_CLI_DEMO_COPY_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "src/capi/instance.h"
#include "src/cli/demo_device.h"
#include "src/cli/progress.h"

namespace pinring::cli {

struct RoundTrip {
  const std::byte* source = nullptr;
  std::byte* destination = nullptr;
  size_t bytes = 0;
  int streams = 4;
  size_t piece_bytes = 0;   // of one copy; odd sizes make odd addresses
  size_t device_bytes = 0;  // of device memory that a stream may use
};

struct RoundTripCounts {
  uint64_t async_copies = 0;
  uint64_t sync_copies = 0;
};

// Copies every piece to the device and back, piece i on stream i modulo their
// number, each stream from a thread of its own. Every fourth piece of a stream
// is copied synchronously, the others by copies that are queued behind each
// other. Returns when all have arrived. Errors: the driver's.
absl::StatusOr<RoundTripCounts> CopyThereAndBack(const DemoDevice& device,
                                                 Instance& instance,
                                                 const RoundTrip& trip,
                                                 Progress* progress);

}  // namespace pinring::cli

#endif  // PINRING_SRC_CLI_DEMO_COPY_H_
