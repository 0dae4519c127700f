#include <windows.h>

#include <algorithm>

#include "src/os/system_info.h"

#ifndef ENABLE_VIRTUAL_TERMINAL_PROCESSING  // Windows 10 1511.
#define ENABLE_VIRTUAL_TERMINAL_PROCESSING 0x0004
#endif

namespace pinring::os {
namespace {

HANDLE HandleOf(StandardStream stream) {
  return ::GetStdHandle(stream == StandardStream::kOutput ? STD_OUTPUT_HANDLE
                                                          : STD_ERROR_HANDLE);
}

}  // namespace

// Memory must be there, and the system must be able to promise it: committed
// memory has its place in RAM or in the page file.
std::optional<uint64_t> AvailableMemoryBytes() {
  MEMORYSTATUSEX status{};
  status.dwLength = sizeof(status);
  if (::GlobalMemoryStatusEx(&status) == 0) return std::nullopt;
  return std::min(status.ullAvailPhys, status.ullAvailPageFile);
}

// Files of Linux only.
std::optional<uint64_t> ParseMemAvailable(absl::string_view) {
  return std::nullopt;
}
std::optional<uint64_t> CgroupAvailableMemory(absl::string_view,
                                              const std::string&) {
  return std::nullopt;
}

bool GpusBehindWddm() { return true; }

bool IsTerminal(StandardStream stream) {
  const HANDLE handle = HandleOf(stream);
  DWORD mode = 0;
  if (::GetConsoleMode(handle, &mode) == 0) return false;
  // A console obeys escape sequences only when it is told to; before Windows 10
  // it cannot.
  return (mode & ENABLE_VIRTUAL_TERMINAL_PROCESSING) != 0 ||
         ::SetConsoleMode(handle, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING) !=
             0;
}

int TerminalColumns(StandardStream stream) {
  CONSOLE_SCREEN_BUFFER_INFO info{};
  if (::GetConsoleScreenBufferInfo(HandleOf(stream), &info) == 0) return 80;
  const int columns = info.srWindow.Right - info.srWindow.Left + 1;
  return columns > 0 ? columns : 80;
}

}  // namespace pinring::os
