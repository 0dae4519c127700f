#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "src/os/files_linux.h"
#include "src/os/system_info.h"

namespace pinring::os {
namespace {

std::optional<uint64_t> Smaller(std::optional<uint64_t> a,
                                std::optional<uint64_t> b) {
  if (!a.has_value()) return b;
  if (!b.has_value()) return a;
  return std::min(*a, *b);
}

// What one group leaves.
std::optional<uint64_t> GroupAvailable(const std::string& directory) {
  const std::optional<uint64_t> most = ReadNumber(directory + "/memory.max");
  const std::optional<uint64_t> used =
      ReadNumber(directory + "/memory.current");
  if (!most.has_value() || !used.has_value()) return std::nullopt;
  const uint64_t clean =
      FindFigure(ReadFile(directory + "/memory.stat").value_or(""),
                 "inactive_file ")
          .value_or(0);
  const uint64_t needed = *used - std::min(*used, clean);
  return *most - std::min(*most, needed);
}

int DescriptorOf(StandardStream stream) {
  return stream == StandardStream::kOutput ? STDOUT_FILENO : STDERR_FILENO;
}

}  // namespace

std::optional<uint64_t> ParseMemAvailable(absl::string_view text) {
  const std::optional<uint64_t> kib = FindFigure(text, "MemAvailable:");
  if (!kib.has_value()) return std::nullopt;
  return *kib << 10;
}

std::optional<uint64_t> CgroupAvailableMemory(absl::string_view membership,
                                              const std::string& root) {
  std::optional<uint64_t> least;
  for (absl::string_view line : absl::StrSplit(membership, '\n')) {
    if (!absl::ConsumePrefix(&line, "0::")) continue;
    std::string group(absl::StripSuffix(line, "/"));
    while (true) {
      least = Smaller(least, GroupAvailable(root + group));
      const size_t slash = group.rfind('/');
      if (slash == std::string::npos) break;
      group.resize(slash);
    }
  }
  return least;
}

std::optional<uint64_t> AvailableMemoryBytes() {
  std::optional<uint64_t> machine;
  if (const auto text = ReadFile("/proc/meminfo"); text.has_value()) {
    machine = ParseMemAvailable(*text);
  }
  return Smaller(
      machine, CgroupAvailableMemory(ReadFile("/proc/self/cgroup").value_or(""),
                                     "/sys/fs/cgroup"));
}

// The device through which WSL2 reaches the GPUs of its host.
bool GpusBehindWddm() { return ::access("/dev/dxg", F_OK) == 0; }

bool IsTerminal(StandardStream stream) {
  const char* const type = std::getenv("TERM");
  return ::isatty(DescriptorOf(stream)) == 1 && type != nullptr &&
         absl::string_view(type) != "dumb";
}

int TerminalColumns(StandardStream stream) {
  winsize size{};
  if (::ioctl(DescriptorOf(stream), TIOCGWINSZ, &size) != 0 ||
      size.ws_col == 0) {
    return 80;
  }
  return size.ws_col;
}

}  // namespace pinring::os
