#include <windows.h>

#include "src/os/host_facts.h"
// After windows.h.
#include <psapi.h>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "src/os/text_windows.h"

namespace pinring::os {
namespace {

absl::Status OfLinuxOnly(absl::string_view what) {
  return absl::UnimplementedError(
      absl::StrCat("Windows has no such thing: ", what));
}

}  // namespace

absl::StatusOr<std::optional<uint64_t>> LockedMemoryLimit() {
  return OfLinuxOnly("RLIMIT_MEMLOCK");
}

absl::StatusOr<std::optional<uint64_t>> GroupMemoryLimit() {
  BOOL in_job = FALSE;
  if (::IsProcessInJob(::GetCurrentProcess(), nullptr, &in_job) == 0) {
    return absl::UnavailableError(WindowsErrorText(::GetLastError()));
  }
  if (in_job == FALSE) return std::optional<uint64_t>();
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits{};
  if (::QueryInformationJobObject(nullptr, JobObjectExtendedLimitInformation,
                                  &limits, sizeof(limits), nullptr) == 0) {
    return absl::UnavailableError(WindowsErrorText(::GetLastError()));
  }
  const DWORD flags = limits.BasicLimitInformation.LimitFlags;
  std::optional<uint64_t> least;
  if ((flags & JOB_OBJECT_LIMIT_JOB_MEMORY) != 0) {
    least = limits.JobMemoryLimit;
  }
  if ((flags & JOB_OBJECT_LIMIT_PROCESS_MEMORY) != 0 &&
      (!least.has_value() || limits.ProcessMemoryLimit < *least)) {
    least = limits.ProcessMemoryLimit;
  }
  return least;
}

// Files of Linux only.
std::optional<uint64_t> CgroupMemoryLimit(absl::string_view,
                                          const std::string&) {
  return std::nullopt;
}
std::string ChosenWord(absl::string_view) { return ""; }
std::string ParseProcessorName(absl::string_view) { return ""; }
int PciGeneration(absl::string_view) { return 0; }
std::optional<ProcessMemory> ParseProcessStatus(absl::string_view) {
  return std::nullopt;
}

// The service that containers run in place of the session manager.
std::optional<std::string> ContainerSign() {
  HKEY key = nullptr;
  if (::RegOpenKeyExW(HKEY_LOCAL_MACHINE,
                      L"SYSTEM\\CurrentControlSet\\Services\\cexecsvc", 0,
                      KEY_READ, &key) != ERROR_SUCCESS) {
    return std::nullopt;
  }
  (void)::RegCloseKey(key);
  return "the service cexecsvc";
}

absl::StatusOr<std::string> ProcessorName() {
  wchar_t name[256] = {};
  DWORD bytes = sizeof(name) - sizeof(name[0]);
  const LSTATUS code = ::RegGetValueW(
      HKEY_LOCAL_MACHINE, L"HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0",
      L"ProcessorNameString", RRF_RT_REG_SZ, nullptr, name, &bytes);
  if (code != ERROR_SUCCESS) {
    return absl::UnavailableError(WindowsErrorText(static_cast<DWORD>(code)));
  }
  return std::string(absl::StripAsciiWhitespace(Narrow(name)));
}

bool InWsl() { return false; }

std::string SystemName() {
  // GetVersionEx tells programs without a manifest that this is Windows 8.
  using GetVersion = LONG(WINAPI*)(OSVERSIONINFOW*);
  OSVERSIONINFOW version{};
  version.dwOSVersionInfoSize = sizeof(version);
  const HMODULE library = ::GetModuleHandleW(L"ntdll.dll");
  const auto get = library == nullptr
                       ? nullptr
                       : reinterpret_cast<GetVersion>(reinterpret_cast<void*>(
                             ::GetProcAddress(library, "RtlGetVersion")));
  if (get == nullptr || get(&version) != 0) return "Windows";
  return absl::StrCat("Windows ", version.dwMajorVersion, ".",
                      version.dwMinorVersion, ".", version.dwBuildNumber);
}

absl::StatusOr<std::string> TransparentHugePages() {
  return OfLinuxOnly("huge pages that programs get without asking");
}
absl::StatusOr<uint64_t> ReservedHugePageBytes() {
  return OfLinuxOnly("memory reserved for huge pages");
}
absl::StatusOr<PciLink> PciLinkOf(const std::string&) {
  return absl::UnimplementedError("Windows does not say; NVML does");
}
absl::StatusOr<int> NumaNodeOf(const std::string&) {
  return absl::UnimplementedError("not asked for on Windows");
}

absl::StatusOr<std::vector<ProcessMemory>> ProcessesOfUser() {
  return absl::UnimplementedError(
      "Windows does not show how much a process has pinned");
}

absl::StatusOr<ProcessMemory> ThisProcess() {
  PROCESS_MEMORY_COUNTERS counters{};
  counters.cb = sizeof(counters);
  if (::GetProcessMemoryInfo(::GetCurrentProcess(), &counters,
                             sizeof(counters)) == 0) {
    return absl::UnavailableError(WindowsErrorText(::GetLastError()));
  }
  ProcessMemory memory;
  memory.pid = static_cast<int64_t>(::GetCurrentProcessId());
  memory.resident_bytes = counters.WorkingSetSize;
  wchar_t path[MAX_PATH] = {};
  const DWORD length = ::GetModuleFileNameW(nullptr, path, MAX_PATH);
  const std::wstring_view whole(path, length);
  memory.name = Narrow(whole.substr(whole.rfind(L'\\') + 1));
  return memory;
}

}  // namespace pinring::os
