#include "absl/status/status.h"
#include "src/os/system_info.h"
#include "src/os/video_memory.h"

namespace pinring::os {

absl::StatusOr<std::vector<VideoAdapter>> VideoAdapters() {
  return absl::UnimplementedError(
      GpusBehindWddm()
          ? "Windows counts it, and WSL does not pass it on: look at the task "
            "manager"
          : "Linux does not count the memory of cards, nor charge pinned "
            "memory to them");
}

}  // namespace pinring::os
