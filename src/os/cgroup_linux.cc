#include "src/os/cgroup_linux.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace pinring::os {
namespace {

std::optional<std::string> ReadSmallFile(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  char text[256];
  const ssize_t length = read(file, text, sizeof text);
  close(file);
  if (length < 0) return std::nullopt;
  return std::string(text, static_cast<size_t>(length));
}

// The limit that "quota period" in microseconds sets, or none.
std::optional<int> CpusOf(absl::string_view quota_text,
                          absl::string_view period_text) {
  int64_t quota = 0;
  int64_t period = 0;
  if (!absl::SimpleAtoi(quota_text, &quota) ||
      !absl::SimpleAtoi(period_text, &period) || quota <= 0 || period <= 0) {
    return std::nullopt;  // "max", or -1.
  }
  return static_cast<int>(
      std::clamp<int64_t>((quota - 1) / period + 1, 1, 1 << 20));
}

std::optional<int> LimitOfVersion2(const std::string& directory) {
  const std::optional<std::string> text =
      ReadSmallFile(absl::StrCat(directory, "/cpu.max"));
  if (!text.has_value()) return std::nullopt;
  const std::vector<absl::string_view> words =
      absl::StrSplit(*text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  if (words.size() != 2) return std::nullopt;
  return CpusOf(words[0], words[1]);
}

std::optional<int> LimitOfVersion1(const std::string& directory) {
  const std::optional<std::string> quota =
      ReadSmallFile(absl::StrCat(directory, "/cpu.cfs_quota_us"));
  const std::optional<std::string> period =
      ReadSmallFile(absl::StrCat(directory, "/cpu.cfs_period_us"));
  if (!quota.has_value() || !period.has_value()) return std::nullopt;
  return CpusOf(*quota, *period);
}

std::optional<int> Smaller(std::optional<int> a, std::optional<int> b) {
  if (!a.has_value()) return b;
  if (!b.has_value()) return a;
  return std::min(*a, *b);
}

// The smallest limit from `path` up to the mount itself. In a container the
// path may be the host's and not exist here; what is mounted is then the group.
template <typename LimitOf>
std::optional<int> SmallestUpwards(const std::string& mount,
                                   absl::string_view path, LimitOf limit_of) {
  std::optional<int> smallest;
  for (;;) {
    while (!path.empty() && path.back() == '/') path.remove_suffix(1);
    smallest = Smaller(smallest, limit_of(absl::StrCat(mount, path)));
    const size_t slash = path.rfind('/');
    if (slash == absl::string_view::npos) return smallest;
    path = path.substr(0, slash);
  }
}

}  // namespace

std::optional<int> CgroupCpus(absl::string_view membership,
                              const std::string& root) {
  std::optional<int> smallest;
  for (const absl::string_view line : absl::StrSplit(membership, '\n')) {
    // hierarchy number : controllers : path, which may itself contain colons.
    const std::vector<absl::string_view> fields =
        absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3) continue;
    if (fields[1].empty()) {
      smallest =
          Smaller(smallest, SmallestUpwards(root, fields[2], LimitOfVersion2));
      continue;
    }
    const std::vector<absl::string_view> controllers =
        absl::StrSplit(fields[1], ',');
    if (std::find(controllers.begin(), controllers.end(), "cpu") ==
        controllers.end()) {
      continue;
    }
    // The mount carries the controllers' names, or there is a link named cpu.
    for (const absl::string_view mount :
         {fields[1], absl::string_view("cpu")}) {
      smallest =
          Smaller(smallest, SmallestUpwards(absl::StrCat(root, "/", mount),
                                            fields[2], LimitOfVersion1));
    }
  }
  return smallest;
}

}  // namespace pinring::os
