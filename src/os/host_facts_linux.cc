#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "src/os/files_linux.h"
#include "src/os/host_facts.h"

namespace pinring::os {
namespace {

std::string DevicePath(const std::string& bus_id, absl::string_view file) {
  return absl::StrCat("/sys/bus/pci/devices/", absl::AsciiStrToLower(bus_id),
                      "/", file);
}

absl::Status Unreadable(const std::string& path) {
  return absl::NotFoundError(absl::StrCat("cannot read ", path));
}

// Version 1 says "no limit" with the largest number of whole pages.
constexpr uint64_t kNoLimitOfVersion1 = uint64_t{1} << 62;

std::optional<uint64_t> SmallestUpwards(const std::string& mount,
                                        absl::string_view group,
                                        absl::string_view file) {
  std::optional<uint64_t> smallest;
  for (;;) {
    while (absl::ConsumeSuffix(&group, "/")) {
    }
    const std::optional<uint64_t> limit =
        ReadNumber(absl::StrCat(mount, group, "/", file));
    if (limit.has_value() && *limit < kNoLimitOfVersion1) {
      smallest = std::min(smallest.value_or(*limit), *limit);
    }
    const size_t slash = group.rfind('/');
    if (slash == absl::string_view::npos) return smallest;
    group = group.substr(0, slash);
  }
}

absl::StatusOr<ProcessMemory> ReadProcess(const std::string& folder) {
  const auto text = ReadFile(folder + "/status");
  if (!text.has_value()) return Unreadable(folder + "/status");
  auto memory = ParseProcessStatus(*text);
  if (!memory.has_value()) {
    return absl::NotFoundError(folder + "/status has no RssShmem");
  }
  memory->uses_cuda =
      absl::StrContains(ReadFile(folder + "/maps").value_or(""), "/libcuda.so");
  return *std::move(memory);
}

}  // namespace

absl::StatusOr<std::optional<uint64_t>> LockedMemoryLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) {
    return absl::UnavailableError(
        absl::StrCat("getrlimit(RLIMIT_MEMLOCK): ", ::strerror(errno)));
  }
  if (limit.rlim_cur == RLIM_INFINITY) return std::optional<uint64_t>();
  return std::optional<uint64_t>(limit.rlim_cur);
}

std::optional<uint64_t> CgroupMemoryLimit(absl::string_view membership,
                                          const std::string& root) {
  std::optional<uint64_t> smallest;
  for (const absl::string_view line : absl::StrSplit(membership, '\n')) {
    // hierarchy number : controllers : path, which may itself contain colons.
    const std::vector<absl::string_view> fields =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    std::optional<uint64_t> limit;
    if (fields[1].empty()) {
      limit = SmallestUpwards(root, fields[2], "memory.max");
    } else if (absl::StrContains(absl::StrCat(",", fields[1], ","),
                                 ",memory,")) {
      limit =
          SmallestUpwards(root + "/memory", fields[2], "memory.limit_in_bytes");
    }
    if (limit.has_value())
      smallest = std::min(smallest.value_or(*limit), *limit);
  }
  return smallest;
}

absl::StatusOr<std::optional<uint64_t>> GroupMemoryLimit() {
  const auto membership = ReadFile("/proc/self/cgroup");
  if (!membership.has_value()) return Unreadable("/proc/self/cgroup");
  return CgroupMemoryLimit(*membership, "/sys/fs/cgroup");
}

std::optional<std::string> ContainerSign() {
  for (const char* path : {"/.dockerenv", "/run/.containerenv"}) {
    if (::access(path, F_OK) == 0) return path;
  }
  if (std::getenv("KUBERNETES_SERVICE_HOST") != nullptr) {
    return "KUBERNETES_SERVICE_HOST is set";
  }
  const std::string groups = ReadFile("/proc/self/cgroup").value_or("");
  for (const char* word :
       {"docker", "kubepods", "containerd", "libpod", "/lxc"}) {
    if (absl::StrContains(groups, word)) {
      return absl::StrCat("/proc/self/cgroup names ", word);
    }
  }
  return std::nullopt;
}

bool InWsl() {
  return absl::StrContains(
      absl::AsciiStrToLower(ReadFile("/proc/version").value_or("")),
      "microsoft");
}

std::string SystemName() {
  utsname name{};
  if (::uname(&name) != 0) return "Linux";
  return absl::StrCat(name.sysname, " ", name.release);
}

std::string ParseProcessorName(absl::string_view text) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (absl::StripAsciiWhitespace(parts.first) == "model name") {
      return std::string(absl::StripAsciiWhitespace(parts.second));
    }
  }
  return "";
}

absl::StatusOr<std::string> ProcessorName() {
  const std::string path = "/proc/cpuinfo";
  const auto text = ReadFile(path);
  if (!text.has_value()) return Unreadable(path);
  std::string name = ParseProcessorName(*text);
  if (name.empty()) {
    return absl::NotFoundError(absl::StrCat(path, " has no model name"));
  }
  return name;
}

std::string ChosenWord(absl::string_view text) {
  const size_t begin = text.find('[');
  const size_t end = text.find(']');
  if (begin == absl::string_view::npos || end == absl::string_view::npos ||
      end < begin) {
    return "";
  }
  return std::string(text.substr(begin + 1, end - begin - 1));
}

absl::StatusOr<std::string> TransparentHugePages() {
  const std::string path = "/sys/kernel/mm/transparent_hugepage/enabled";
  const auto text = ReadFile(path);
  if (!text.has_value()) return Unreadable(path);
  std::string word = ChosenWord(*text);
  if (word.empty()) {
    return absl::NotFoundError(absl::StrCat(path, " says ", *text));
  }
  return word;
}

absl::StatusOr<uint64_t> ReservedHugePageBytes() {
  const auto kib =
      FindFigure(ReadFile("/proc/meminfo").value_or(""), "Hugetlb:");
  if (!kib.has_value()) {
    return absl::NotFoundError("/proc/meminfo has no Hugetlb");
  }
  return *kib << 10;
}

int PciGeneration(absl::string_view speed) {
  double transfers = 0;  // 10^9 a second
  const std::vector<absl::string_view> words =
      absl::StrSplit(speed, ' ', absl::SkipWhitespace());
  if (words.empty() || !absl::SimpleAtod(words[0], &transfers)) return 0;
  static constexpr double kTransfers[] = {2.5, 5, 8, 16, 32, 64};
  int generation = 1;
  for (const double each : kTransfers) {
    if (transfers == each) return generation;
    ++generation;
  }
  return 0;
}

absl::StatusOr<PciLink> PciLinkOf(const std::string& bus_id) {
  const auto generation = [&bus_id](absl::string_view file) {
    return PciGeneration(ReadFile(DevicePath(bus_id, file)).value_or(""));
  };
  const auto width = [&bus_id](absl::string_view file) {
    // 255 lanes: the device does not say.
    const uint64_t lanes = ReadNumber(DevicePath(bus_id, file)).value_or(0);
    return lanes > 32 ? 0 : static_cast<int>(lanes);
  };
  if (::access(DevicePath(bus_id, "").c_str(), F_OK) != 0) {
    return Unreadable(DevicePath(bus_id, ""));
  }
  return PciLink{.generation = generation("current_link_speed"),
                 .generation_at_most = generation("max_link_speed"),
                 .width = width("current_link_width"),
                 .width_at_most = width("max_link_width")};
}

absl::StatusOr<int> NumaNodeOf(const std::string& bus_id) {
  const std::string path = DevicePath(bus_id, "numa_node");
  const auto text = ReadFile(path);
  int node = 0;
  if (!text.has_value() || !absl::SimpleAtoi(*text, &node)) {
    return Unreadable(path);
  }
  if (node < 0) return absl::NotFoundError(path + " names no node");
  return node;
}

std::optional<ProcessMemory> ParseProcessStatus(absl::string_view text) {
  const auto resident = FindFigure(text, "VmRSS:");
  const auto shared = FindFigure(text, "RssShmem:");
  const auto pid = FindFigure(text, "Pid:");
  if (!resident.has_value() || !shared.has_value() || !pid.has_value()) {
    return std::nullopt;
  }
  ProcessMemory memory;
  memory.pid = static_cast<int64_t>(*pid);
  memory.resident_bytes = *resident << 10;
  memory.shared_bytes = *shared << 10;
  memory.locked_bytes = FindFigure(text, "VmLck:").value_or(0) << 10;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (absl::ConsumePrefix(&line, "Name:")) {
      memory.name = std::string(absl::StripAsciiWhitespace(line));
      break;
    }
  }
  return memory;
}

absl::StatusOr<ProcessMemory> ThisProcess() {
  return ReadProcess("/proc/self");
}

absl::StatusOr<std::vector<ProcessMemory>> ProcessesOfUser() {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"),
                                                   &::closedir);
  if (folder == nullptr) return Unreadable("/proc");
  std::vector<ProcessMemory> processes;
  while (const dirent* entry = ::readdir(folder.get())) {
    int64_t pid = 0;
    if (!absl::SimpleAtoi(entry->d_name, &pid)) continue;
    const std::string path = absl::StrCat("/proc/", pid);
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0 || status.st_uid != ::geteuid()) {
      continue;
    }
    // One that has ended meanwhile, or is the kernel's, is left out.
    if (auto memory = ReadProcess(path); memory.ok()) {
      processes.push_back(*std::move(memory));
    }
  }
  return processes;
}

}  // namespace pinring::os
