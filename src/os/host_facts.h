#ifndef PINRING_SRC_OS_HOST_FACTS_H_
#define PINRING_SRC_OS_HOST_FACTS_H_

// What the system says about pinning: limits, containers, huge pages, where a
// card is plugged in, and what the processes of the user hold. For commands
// that report; nothing here is for hot paths. Thread-safe.
//
// Where the system does not say, the error's text tells why.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace pinring::os {

// How many bytes the process may lock (RLIMIT_MEMLOCK); none inside: no limit.
[[nodiscard]] absl::StatusOr<std::optional<uint64_t>> LockedMemoryLimit();

// What the control groups, or the job object, let the process use; none
// inside: no limit.
[[nodiscard]] absl::StatusOr<std::optional<uint64_t>> GroupMemoryLimit();

// The smallest limit of the control groups in `membership` (the text of
// /proc/self/cgroup) and above them, mounted at `root`; of both versions.
[[nodiscard]] std::optional<uint64_t> CgroupMemoryLimit(
    absl::string_view membership, const std::string& root);

// What shows that the process runs in a container: "/.dockerenv"; nullopt where
// nothing does.
[[nodiscard]] std::optional<std::string> ContainerSign();

// Whether this is Linux inside Windows (WSL).
[[nodiscard]] bool InWsl();

// "Linux 6.1.0", "Windows 10.0.22631".
[[nodiscard]] std::string SystemName();

// What the processor calls itself: "Intel(R) Xeon(R) Platinum 8480C".
[[nodiscard]] absl::StatusOr<std::string> ProcessorName();
// From the text of /proc/cpuinfo; empty where it gives none, as on ARM.
[[nodiscard]] std::string ParseProcessorName(absl::string_view text);

// How ordinary memory gets huge pages: "always", "madvise", "never".
[[nodiscard]] absl::StatusOr<std::string> TransparentHugePages();
// The word in brackets: of "always [madvise] never". Empty: none.
[[nodiscard]] std::string ChosenWord(absl::string_view text);

// Of memory reserved for huge pages.
[[nodiscard]] absl::StatusOr<uint64_t> ReservedHugePageBytes();

// How a card is connected; 0: not known.
struct PciLink {
  int generation = 0;
  int generation_at_most = 0;
  int width = 0;
  int width_at_most = 0;
};
// `bus_id` is "0000:01:00.0".
[[nodiscard]] absl::StatusOr<PciLink> PciLinkOf(const std::string& bus_id);
[[nodiscard]] absl::StatusOr<int> NumaNodeOf(const std::string& bus_id);
// Of "32.0 GT/s PCIe": 5. 0: not known.
[[nodiscard]] int PciGeneration(absl::string_view speed);

// What a process holds of the host's memory.
struct ProcessMemory {
  int64_t pid = 0;
  std::string name;
  uint64_t resident_bytes = 0;
  // Resident shared memory, which memory pinned by CUDA is part of on Linux.
  uint64_t shared_bytes = 0;
  uint64_t locked_bytes = 0;
  // Whether the process has the NVIDIA driver's library, where that is seen.
  bool uses_cuda = false;
};

// Of the processes that belong to the user of this one, this one among them.
[[nodiscard]] absl::StatusOr<std::vector<ProcessMemory>> ProcessesOfUser();
[[nodiscard]] absl::StatusOr<ProcessMemory> ThisProcess();
// From the text of /proc/PID/status; nullopt where it lacks the figures (a
// kernel thread).
[[nodiscard]] std::optional<ProcessMemory> ParseProcessStatus(
    absl::string_view text);

}  // namespace pinring::os

#endif  // PINRING_SRC_OS_HOST_FACTS_H_
