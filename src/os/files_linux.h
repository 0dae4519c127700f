#ifndef PINRING_SRC_OS_FILES_LINUX_H_
#define PINRING_SRC_OS_FILES_LINUX_H_

// Small text files, as /proc and /sys have them.

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace pinring::os {

// All of the file's text; nullopt where it cannot be read.
[[nodiscard]] std::optional<std::string> ReadFile(const std::string& path);

// The number that the file holds; nullopt also where it says "max".
[[nodiscard]] std::optional<uint64_t> ReadNumber(const std::string& path);

// The figure in the line of `text` that begins with `key` and a blank.
[[nodiscard]] std::optional<uint64_t> FindFigure(absl::string_view text,
                                                 absl::string_view key);

}  // namespace pinring::os

#endif  // PINRING_SRC_OS_FILES_LINUX_H_
