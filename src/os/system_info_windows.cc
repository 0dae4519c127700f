#include <windows.h>

#include "src/os/system_info.h"

namespace pinring::os {
namespace {

HANDLE HandleOf(StandardStream stream) {
  return ::GetStdHandle(stream == StandardStream::kOutput ? STD_OUTPUT_HANDLE
                                                          : STD_ERROR_HANDLE);
}

}  // namespace

std::optional<uint64_t> AvailableMemoryBytes() {
  MEMORYSTATUSEX status{};
  status.dwLength = sizeof(status);
  if (!::GlobalMemoryStatusEx(&status)) return std::nullopt;
  return status.ullAvailPhys;
}

// Files of Linux only.
std::optional<uint64_t> ParseMemAvailable(absl::string_view) {
  return std::nullopt;
}
std::optional<uint64_t> CgroupAvailableMemory(absl::string_view,
                                              const std::string&) {
  return std::nullopt;
}

bool IsTerminal(StandardStream stream) {
  DWORD mode = 0;
  return ::GetConsoleMode(HandleOf(stream), &mode) != 0;
}

int TerminalColumns(StandardStream stream) {
  CONSOLE_SCREEN_BUFFER_INFO info{};
  if (!::GetConsoleScreenBufferInfo(HandleOf(stream), &info)) return 80;
  const int columns = info.srWindow.Right - info.srWindow.Left + 1;
  return columns > 0 ? columns : 80;
}

}  // namespace pinring::os
