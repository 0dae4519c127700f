#include <windows.h>

#include <new>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "src/os/env.h"

namespace pinring::os {

std::optional<std::string> GetEnv(const char* name) {
  std::string value;
  // The value may grow between asking for its size and reading it.
  for (DWORD size = 256;;) {
    value.resize(size);
    SetLastError(ERROR_SUCCESS);
    const DWORD length = GetEnvironmentVariableA(name, value.data(), size);
    if (length == 0 && GetLastError() != ERROR_SUCCESS) return std::nullopt;
    if (length < size) {
      value.resize(length);
      return value;
    }
    size = length;
  }
}

void WriteErrorLine(absl::string_view line) noexcept {
  const HANDLE file = GetStdHandle(STD_ERROR_HANDLE);
  if (file == nullptr || file == INVALID_HANDLE_VALUE) return;
  const DWORD saved_error = GetLastError();
  const auto length = static_cast<DWORD>(line.size());
  DWORD written = 0;
  char* const text = new (std::nothrow) char[line.size() + 1];
  if (text != nullptr) {
    line.copy(text, line.size());
    text[line.size()] = '\n';
    WriteFile(file, text, length + 1, &written, nullptr);
    delete[] text;
  } else {
    WriteFile(file, line.data(), length, &written, nullptr);
    WriteFile(file, "\n", 1, &written, nullptr);
  }
  SetLastError(saved_error);
}

}  // namespace pinring::os
