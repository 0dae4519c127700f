#include "src/os/files_linux.h"

#include <cstdio>
#include <memory>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace pinring::os {

std::optional<std::string> ReadFile(const std::string& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(
      std::fopen(path.c_str(), "re"), &std::fclose);
  if (file == nullptr) return std::nullopt;
  std::string text;
  char buffer[4096];
  size_t bytes = 0;
  while ((bytes = std::fread(buffer, 1, sizeof(buffer), file.get())) > 0) {
    text.append(buffer, bytes);
  }
  if (std::ferror(file.get()) != 0) return std::nullopt;
  return text;
}

std::optional<uint64_t> ReadNumber(const std::string& path) {
  const std::optional<std::string> text = ReadFile(path);
  uint64_t value = 0;
  if (!text.has_value() || !absl::SimpleAtoi(*text, &value)) {
    return std::nullopt;  // Also where the file says "max".
  }
  return value;
}

// The figure in the line of `text` that begins with `key` and a blank.
std::optional<uint64_t> FindFigure(absl::string_view text,
                                   absl::string_view key) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::ConsumePrefix(&line, key)) continue;
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, ' ', absl::SkipWhitespace());
    uint64_t value = 0;
    if (!words.empty() && absl::SimpleAtoi(words[0], &value)) return value;
  }
  return std::nullopt;
}

}  // namespace pinring::os
