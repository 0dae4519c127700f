#ifndef PINRING_SRC_OS_SYSTEM_INFO_H_
#define PINRING_SRC_OS_SYSTEM_INFO_H_

// What the process may use: memory, and the terminal that it writes to.
// Thread-safe; these functions read files and are not for hot paths.

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace pinring::os {

// How many more bytes of memory the process can use before the system has to
// swap or to end somebody: what the machine has left, or less where control
// groups allow less. nullopt where the system does not say.
[[nodiscard]] std::optional<uint64_t> AvailableMemoryBytes();

// What "/proc/meminfo" (its text is given) calls available.
[[nodiscard]] std::optional<uint64_t> ParseMemAvailable(absl::string_view text);

// What version 2 control groups leave: those in `membership` (the text of
// /proc/self/cgroup) and above them, mounted at `root`. nullopt when they set
// no limit. What a group uses for clean file pages does not count as used.
[[nodiscard]] std::optional<uint64_t> CgroupAvailableMemory(
    absl::string_view membership, const std::string& root);

// True where WDDM, the display driver model of Windows, stands between the
// process and its GPUs: on Windows (cards in TCC mode excepted, of which this
// knows nothing) and in WSL2.
[[nodiscard]] bool GpusBehindWddm();

enum class StandardStream { kOutput, kError };

// True when the stream is a terminal on which lines can be overwritten. (Asks a
// Windows console to obey escape sequences from now on.)
[[nodiscard]] bool IsTerminal(StandardStream stream);

// How many columns the terminal has; 80 where it does not say.
[[nodiscard]] int TerminalColumns(StandardStream stream);

}  // namespace pinring::os

#endif  // PINRING_SRC_OS_SYSTEM_INFO_H_
