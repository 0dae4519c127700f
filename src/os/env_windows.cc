#include <errno.h>
#include <windows.h>

#include <cstring>
#include <new>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "src/os/env.h"
#include "src/os/text_windows.h"

namespace pinring::os {

std::optional<std::string> GetEnv(const char* name) {
  const std::wstring wide_name = Widen(name);
  std::wstring value;
  // The value may grow between asking for its size and reading it.
  for (DWORD size = 256;;) {
    value.resize(size);
    SetLastError(ERROR_SUCCESS);
    const DWORD length =
        GetEnvironmentVariableW(wide_name.c_str(), value.data(), size);
    if (length == 0 && GetLastError() != ERROR_SUCCESS) return std::nullopt;
    if (length < size) {
      value.resize(length);
      return Narrow(value);
    }
    size = length;
  }
}

void WriteErrorLine(absl::string_view line) noexcept {
  if (const LineSink* sink = CurrentLineSink()) {
    return sink->write(sink->user, line);
  }
  const HANDLE file = GetStdHandle(STD_ERROR_HANDLE);
  if (file == nullptr || file == INVALID_HANDLE_VALUE) return;
  const DWORD saved_error = GetLastError();
  const int saved_errno = errno;
  // Most lines need no allocation.
  char small[512];
  const bool fits = line.size() < sizeof small;
  char* const text = fits ? small : new (std::nothrow) char[line.size() + 1];
  DWORD written = 0;  // What cannot be written is dropped.
  if (text != nullptr) {
    std::memcpy(text, line.data(), line.size());
    text[line.size()] = '\n';
    WriteFile(file, text, static_cast<DWORD>(line.size() + 1), &written,
              nullptr);
    if (!fits) delete[] text;
  } else {
    WriteFile(file, line.data(), static_cast<DWORD>(line.size()), &written,
              nullptr);
    WriteFile(file, "\n", 1, &written, nullptr);
  }
  errno = saved_errno;
  SetLastError(saved_error);
}

}  // namespace pinring::os
