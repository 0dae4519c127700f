#ifndef PINRING_SRC_OS_CGROUP_LINUX_H_
#define PINRING_SRC_OS_CGROUP_LINUX_H_

// The processor time that Linux control groups allow, of both versions.

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace pinring::os {

// How many processors' worth of time the groups in `membership` (the text of
// /proc/self/cgroup) and those above them allow, rounded up; nullopt when they
// set no limit. `root` is where the groups are mounted: /sys/fs/cgroup.
[[nodiscard]] std::optional<int> CgroupCpus(absl::string_view membership,
                                            const std::string& root);

}  // namespace pinring::os

#endif  // PINRING_SRC_OS_CGROUP_LINUX_H_
