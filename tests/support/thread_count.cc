#include "tests/support/thread_count.h"

#if defined(_WIN32)
#include <windows.h>
// tlhelp32.h needs windows.h before it.
#include <tlhelp32.h>
#else
#include <cstdio>
#endif

namespace pinring {

#if defined(_WIN32)

size_t ThreadCount() {
  const HANDLE snapshot = CreateToolhelp32Snapshot(TH32CS_SNAPTHREAD, 0);
  if (snapshot == INVALID_HANDLE_VALUE) return 0;
  size_t count = 0;
  THREADENTRY32 thread = {};
  thread.dwSize = sizeof thread;
  for (BOOL more = Thread32First(snapshot, &thread); more != 0;
       more = Thread32Next(snapshot, &thread)) {
    if (thread.th32OwnerProcessID == GetCurrentProcessId()) ++count;
  }
  CloseHandle(snapshot);
  return count;
}

#else

size_t ThreadCount() {
  FILE* const file = std::fopen("/proc/self/status", "r");
  if (file == nullptr) return 0;
  size_t count = 0;
  char line[256];
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::sscanf(line, "Threads: %zu", &count) == 1) break;
  }
  std::fclose(file);
  return count;
}

#endif

}  // namespace pinring
