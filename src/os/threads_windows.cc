#include <process.h>
#include <windows.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "src/os/threads.h"

namespace pinring::os {
namespace {

struct StartArguments {
  std::string name;
  std::function<void()> body;
};

unsigned __stdcall RunThread(void* opaque) {
  std::unique_ptr<StartArguments> arguments(
      static_cast<StartArguments*>(opaque));
  SetThreadName(arguments->name);
  arguments->body();
  return 0;
}

// Windows 10 1607 and newer have these; older systems show no names.
using SetDescription = HRESULT(WINAPI*)(HANDLE, PCWSTR);
using GetDescription = HRESULT(WINAPI*)(HANDLE, PWSTR*);

template <typename Function>
Function FindInKernel32(const char* symbol) {
  return reinterpret_cast<Function>(reinterpret_cast<void*>(
      GetProcAddress(GetModuleHandleA("kernel32.dll"), symbol)));
}

}  // namespace

absl::StatusOr<Thread> Thread::Start(absl::string_view name,
                                     std::function<void()> body) {
  auto arguments = std::make_unique<StartArguments>(
      StartArguments{std::string(name), std::move(body)});
  const uintptr_t handle =
      _beginthreadex(nullptr, 0, RunThread, arguments.get(), 0, nullptr);
  if (handle == 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("thread ", name, " could not be started"));
  }
  (void)arguments.release();  // The thread's now.
  return Thread(handle);
}

Thread& Thread::operator=(Thread&& other) noexcept {
  if (this != &other) {
    Join();
    handle_ = std::exchange(other.handle_, 0);
    joinable_ = std::exchange(other.joinable_, false);
  }
  return *this;
}

void Thread::Join() {
  if (!joinable_) return;
  joinable_ = false;
  const HANDLE handle = reinterpret_cast<HANDLE>(handle_);
  WaitForSingleObject(handle, INFINITE);
  CloseHandle(handle);
}

void SetThreadName(absl::string_view name) {
  static const auto set =
      FindInKernel32<SetDescription>("SetThreadDescription");
  if (set == nullptr) return;
  set(GetCurrentThread(), std::wstring(name.begin(), name.end()).c_str());
}

std::string ThreadName() {
  static const auto get =
      FindInKernel32<GetDescription>("GetThreadDescription");
  PWSTR wide = nullptr;
  if (get == nullptr || get(GetCurrentThread(), &wide) < 0) return "";
  std::string name;
  // Names of ours are ASCII.
  for (const wchar_t* c = wide; *c != 0; ++c) {
    name.push_back(static_cast<char>(*c));
  }
  LocalFree(wide);
  return name;
}

int UsableCpus() {
  DWORD_PTR of_process = 0;
  DWORD_PTR of_system = 0;
  int cpus = 0;
  if (GetProcessAffinityMask(GetCurrentProcess(), &of_process, &of_system)) {
    for (; of_process != 0; of_process &= of_process - 1) ++cpus;
  }
  if (cpus == 0) {  // Threads of several processor groups: no single mask.
    cpus = static_cast<int>(GetActiveProcessorCount(ALL_PROCESSOR_GROUPS));
  }
  JOBOBJECT_CPU_RATE_CONTROL_INFORMATION rate = {};
  constexpr DWORD kHardCap =
      JOB_OBJECT_CPU_RATE_CONTROL_ENABLE | JOB_OBJECT_CPU_RATE_CONTROL_HARD_CAP;
  if (QueryInformationJobObject(nullptr, JobObjectCpuRateControlInformation,
                                &rate, sizeof rate, nullptr) &&
      (rate.ControlFlags & kHardCap) == kHardCap) {
    // In hundredths of a percent of all processors.
    const uint64_t all = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    const uint64_t allowed = (all * rate.CpuRate + 9'999) / 10'000;
    cpus = std::min(cpus, static_cast<int>(allowed));
  }
  return std::max(cpus, 1);
}

void SleepMicros(uint64_t micros) {
  const uint64_t end = MonotonicNanos() + micros * 1'000;
  for (uint64_t now = MonotonicNanos(); now < end; now = MonotonicNanos()) {
    const uint64_t millis = (end - now + 999'999) / 1'000'000;
    Sleep(static_cast<DWORD>(std::min<uint64_t>(millis, 1'000'000)));
  }
}

void YieldThread() { SwitchToThread(); }

uint64_t MonotonicNanos() {
  static const uint64_t ticks_per_second = [] {
    LARGE_INTEGER frequency;
    QueryPerformanceFrequency(&frequency);
    return static_cast<uint64_t>(frequency.QuadPart);
  }();
  LARGE_INTEGER now;
  QueryPerformanceCounter(&now);
  const auto ticks = static_cast<uint64_t>(now.QuadPart);
  // Whole seconds apart, so that the multiplication does not overflow.
  return ticks / ticks_per_second * 1'000'000'000 +
         ticks % ticks_per_second * 1'000'000'000 / ticks_per_second;
}

int64_t ProcessId() { return static_cast<int64_t>(GetCurrentProcessId()); }

absl::Status AtFork(void (* /*prepare*/)(), void (* /*parent*/)(),
                    void (* /*child*/)()) {
  return absl::OkStatus();  // There is no fork.
}

}  // namespace pinring::os
