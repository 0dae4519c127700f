#ifndef PINRING_SRC_OS_VIDEO_MEMORY_H_
#define PINRING_SRC_OS_VIDEO_MEMORY_H_

// The memory of graphics cards as the operating system counts it: what the task
// manager of Windows shows. Thread-safe; not for hot paths.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace pinring::os {

struct VideoAdapter {
  std::string name;
  uint64_t luid = 0;  // names the adapter until the next start of the system
  uint64_t dedicated_bytes = 0;  // of the card's own memory
  // Of all processes, as the task manager shows them.
  std::optional<uint64_t> dedicated_used;
  std::optional<uint64_t> shared_used;
  // Of this process, in the card's memory and in the host's: DXGI's local and
  // non-local segment, and how much of each it may use at the moment.
  std::optional<uint64_t> local_used;
  std::optional<uint64_t> local_budget;
  std::optional<uint64_t> non_local_used;
  std::optional<uint64_t> non_local_budget;
};

// Errors: kUnimplemented where the system does not count the memory of cards;
// what DXGI answers.
[[nodiscard]] absl::StatusOr<std::vector<VideoAdapter>> VideoAdapters();

}  // namespace pinring::os

#endif  // PINRING_SRC_OS_VIDEO_MEMORY_H_
