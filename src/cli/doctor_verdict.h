// Whether "the GPU's memory is full" is true, and who it is that fills it.

#ifndef PINRING_SRC_CLI_DOCTOR_VERDICT_H_
#define PINRING_SRC_CLI_DOCTOR_VERDICT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pinring::cli {

enum class VerdictKind {
  kNothingWrong,
  kPinnedCounted,  // pinned host memory looks like device memory
  kOtherProcess,   // the card is full, most of it is another process's
  kRealPressure,   // the card is full
  kUnclear,        // the meters contradict each other, or say nothing
  kNoDevice,
};

// Short names, stable: "pinned_counted".
const char* VerdictName(VerdictKind kind);

struct Verdict {
  VerdictKind kind = VerdictKind::kNoDevice;
  std::string text;                 // one or two sentences
  std::vector<std::string> advice;  // what to change
};

// A process that has memory of a device.
struct DeviceProcess {
  int64_t pid = 0;
  std::string name;                    // empty: not known
  std::optional<uint64_t> used_bytes;  // none: the driver does not say
  bool own = false;                    // this command
};

// What is known about one device. A figure that is missing is not guessed.
struct VerdictInput {
  uint64_t total_bytes = 0;
  // The driver model charges pinned host memory to the card (WDDM).
  bool charges_pinned = false;
  std::optional<uint64_t> cuda_used_bytes;         // cuMemGetInfo
  std::optional<uint64_t> framebuffer_used_bytes;  // NVML
  std::optional<uint64_t> system_used_bytes;  // what the task manager shows
  // Host memory that is known to be pinned.
  std::optional<uint64_t> pinned_bytes;
  std::vector<DeviceProcess> processes;
};

// Pure. A card is full from nine tenths on; meters differ where one shows more
// than another by 256 MiB and a fiftieth of the card.
Verdict Judge(const VerdictInput& input);

}  // namespace pinring::cli

#endif  // PINRING_SRC_CLI_DOCTOR_VERDICT_H_
