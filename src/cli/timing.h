// Pinned, the driver's pageable way, and staged, side by side. Only a real
// device is worth timing.

#ifndef PINRING_SRC_CLI_TIMING_H_
#define PINRING_SRC_CLI_TIMING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/capi/instance.h"
#include "src/cli/demo_device.h"
#include "src/cli/progress.h"

namespace pinring::cli {

struct TimedPath {
  const char* key;    // "staged_sync"
  const char* title;  // "staged, synchronous"
  // Medians of one copy; 0: not measured.
  double to_device_nanos = 0;
  double to_host_nanos = 0;
};

struct Timing {
  size_t bytes = 0;  // of each copy
  int rounds = 0;
  std::vector<TimedPath> paths;
  uint64_t wrong_bytes = 0;  // of all paths

  // Null where the path was left out.
  [[nodiscard]] const TimedPath* Find(const char* key) const;
};

// In units of 10^9 bytes a second; 0: not measured.
[[nodiscard]] double GigabytesPerSecond(size_t bytes, double nanos);

// Host memory of each kind, device memory and a stream. The pinned memory is
// the driver's, past the instance's accounts. Not thread-safe.
class PathTimer {
 public:
  // For copies of up to `most_bytes`. Where the memory to compare with cannot
  // be had, or is not wanted, its path is left out. Errors: the driver's.
  static absl::StatusOr<std::unique_ptr<PathTimer>> Create(
      const DemoDevice& device, Instance& instance, size_t most_bytes,
      bool with_pinned);
  PathTimer(const PathTimer&) = delete;
  PathTimer& operator=(const PathTimer&) = delete;
  ~PathTimer();

  // Copies fresh bytes to the device and back on each path and compares them;
  // then times `rounds` of such copies, the paths in turn, each from the call
  // until the data is there. Adds TimedBytes() to `progress`. Errors: the
  // driver's.
  absl::StatusOr<Timing> Time(size_t bytes, int rounds, Progress* progress);
  [[nodiscard]] uint64_t TimedBytes(size_t bytes, int rounds) const {
    return 2 * uint64_t{bytes} * paths_.size() *
           (static_cast<uint64_t>(rounds) + 1);
  }

  // 0: could not be allocated, or was not wanted.
  [[nodiscard]] double pinned_allocation_ms() const {
    return pinned_allocation_ms_;
  }
  [[nodiscard]] double staged_allocation_ms() const {
    return staged_allocation_ms_;
  }

 private:
  enum class Way { kDriver, kStagedSync, kStagedAsync };
  struct Path {
    const char* key;
    const char* title;
    Way way;
    void* host;
  };

  PathTimer(const DemoDevice& device, Instance& instance, size_t most_bytes)
      : device_(device), instance_(instance), most_bytes_(most_bytes) {}
  absl::Status Allocate(bool with_pinned);
  [[nodiscard]] absl::Status Copy(const Path& path, size_t bytes,
                                  bool to_device) const;
  // How many bytes are wrong.
  absl::StatusOr<uint64_t> Verify(const Path& path, size_t bytes,
                                  Progress* progress) const;
  absl::StatusOr<double> TimeCopy(const Path& path, size_t bytes,
                                  bool to_device) const;

  const DemoDevice& device_;
  Instance& instance_;
  const size_t most_bytes_;
  CUdeviceptr buffer_ = 0;
  CUstream stream_ = nullptr;
  void* pinned_ = nullptr;
  void* pageable_ = nullptr;
  void* staged_ = nullptr;
  double pinned_allocation_ms_ = 0;
  double staged_allocation_ms_ = 0;
  std::vector<Path> paths_;
};

}  // namespace pinring::cli

#endif  // PINRING_SRC_CLI_TIMING_H_
