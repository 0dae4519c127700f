#include <errno.h>
#include <process.h>
#include <windows.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "src/os/text_windows.h"
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

// Windows 10 1607 has them in KernelBase only. Both modules are in every
// process.
template <typename Function>
Function FindInKernel(const char* symbol) {
  for (const wchar_t* const name : {L"kernel32.dll", L"kernelbase.dll"}) {
    const HMODULE module = GetModuleHandleW(name);
    const FARPROC address =
        module == nullptr ? nullptr : GetProcAddress(module, symbol);
    if (address != nullptr) {
      return reinterpret_cast<Function>(reinterpret_cast<void*>(address));
    }
  }
  return nullptr;
}

// The processors that the affinity mask allows. A mask speaks of one group of
// up to 64 processors; a process with threads in several has no single mask,
// and threads that nobody confined use the groups whole.
int AffinityCpus() {
  USHORT groups[64];
  USHORT count = sizeof groups / sizeof groups[0];
  if (GetProcessGroupAffinity(GetCurrentProcess(), &count, groups) != 0 &&
      count > 1) {
    DWORD cpus = 0;
    for (USHORT i = 0; i < count; ++i) {
      cpus += GetActiveProcessorCount(groups[i]);
    }
    return static_cast<int>(cpus);
  }
  DWORD_PTR of_process = 0;
  DWORD_PTR of_system = 0;
  if (GetProcessAffinityMask(GetCurrentProcess(), &of_process, &of_system) !=
          0 &&
      of_process != 0) {
    return std::popcount(of_process);
  }
  return static_cast<int>(GetActiveProcessorCount(ALL_PROCESSOR_GROUPS));
}

#ifndef JOB_OBJECT_CPU_RATE_CONTROL_MIN_MAX_RATE  // mingw-w64 lacks it.
#define JOB_OBJECT_CPU_RATE_CONTROL_MIN_MAX_RATE 0x10
#endif

// What a job (a container, for one) allows, in hundredths of a percent of all
// processors; 10,000 where there is no job or no limit.
DWORD JobCpuRate() {
  JOBOBJECT_CPU_RATE_CONTROL_INFORMATION rate = {};
  if (QueryInformationJobObject(nullptr, JobObjectCpuRateControlInformation,
                                &rate, sizeof rate, nullptr) == 0 ||
      (rate.ControlFlags & JOB_OBJECT_CPU_RATE_CONTROL_ENABLE) == 0) {
    return 10'000;
  }
  if ((rate.ControlFlags & JOB_OBJECT_CPU_RATE_CONTROL_MIN_MAX_RATE) != 0) {
    return HIWORD(rate.CpuRate);  // Beside the minimum, in a union.
  }
  return (rate.ControlFlags & JOB_OBJECT_CPU_RATE_CONTROL_HARD_CAP) != 0
             ? rate.CpuRate
             : 10'000;
}

#ifndef CREATE_WAITABLE_TIMER_HIGH_RESOLUTION  // Windows 10 1803.
#define CREATE_WAITABLE_TIMER_HIGH_RESOLUTION 0x00000002
#endif

// Sleep() ends at a tick of the system, every 16 ms as a rule: for a mover, an
// age. False where there are no finer timers.
bool SleepOnFineTimer(uint64_t nanos) {
  const HANDLE timer = CreateWaitableTimerExW(
      nullptr, nullptr, CREATE_WAITABLE_TIMER_HIGH_RESOLUTION,
      TIMER_MODIFY_STATE | SYNCHRONIZE);
  if (timer == nullptr) return false;
  LARGE_INTEGER due;
  due.QuadPart = -static_cast<LONGLONG>(nanos / 100 + 1);  // From now.
  const bool slept =
      SetWaitableTimer(timer, &due, 0, nullptr, nullptr, FALSE) != 0 &&
      WaitForSingleObject(timer, INFINITE) == WAIT_OBJECT_0;
  CloseHandle(timer);
  return slept;
}

}  // namespace

absl::StatusOr<Thread> Thread::Start(absl::string_view name,
                                     std::function<void()> body) {
  auto arguments = std::make_unique<StartArguments>(
      StartArguments{std::string(name), std::move(body)});
  const uintptr_t handle =
      _beginthreadex(nullptr, 0, RunThread, arguments.get(), 0, nullptr);
  if (handle == 0) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "thread ", name,
        " could not be started: ", absl::ErrnoToStatus(errno, "").ToString()));
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
  // Fails only for a thread that is no longer ours.
  (void)WaitForSingleObject(handle, INFINITE);
  CloseHandle(handle);
}

void SetThreadName(absl::string_view name) {
  static const auto set = FindInKernel<SetDescription>("SetThreadDescription");
  // A name that cannot be set is not missed.
  if (set != nullptr) (void)set(GetCurrentThread(), Widen(name).c_str());
}

std::string ThreadName() {
  static const auto get = FindInKernel<GetDescription>("GetThreadDescription");
  PWSTR wide = nullptr;
  if (get == nullptr || FAILED(get(GetCurrentThread(), &wide))) return "";
  std::string name = Narrow(wide);
  LocalFree(wide);
  return name;
}

int UsableCpus() {
  const uint64_t all = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
  const uint64_t allowed = (all * JobCpuRate() + 9'999) / 10'000;
  return std::max(1, std::min(AffinityCpus(), static_cast<int>(allowed)));
}

void SleepMicros(uint64_t micros) {
  constexpr uint64_t kMostNanos = uint64_t{1'000'000'000} * 1'000;  // At once.
  const uint64_t end =
      MonotonicNanos() + std::min(micros, UINT64_MAX / 2'000) * 1'000;
  for (uint64_t now = MonotonicNanos(); now < end; now = MonotonicNanos()) {
    const uint64_t nanos = std::min(end - now, kMostNanos);
    if (!SleepOnFineTimer(nanos)) {
      Sleep(static_cast<DWORD>((nanos + 999'999) / 1'000'000));
    }
  }
}

void WaitWhile(const std::atomic<uint32_t>& word, uint32_t value) {
  if (word.load(std::memory_order_acquire) != value) return;
  auto* const address = const_cast<std::atomic<uint32_t>*>(&word);
  // Without a limit it does not fail.
  (void)WaitOnAddress(address, &value, sizeof value, INFINITE);
  // For the acquire.
  (void)word.load(std::memory_order_acquire);
}

void WakeOne(std::atomic<uint32_t>& word) { WakeByAddressSingle(&word); }
void WakeAll(std::atomic<uint32_t>& word) { WakeByAddressAll(&word); }

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

// The loader ends the other threads before it tells the DLLs that the process
// goes.
bool OtherThreadsAreGone() {
  using InProgress = BOOLEAN(NTAPI*)();
  static const auto in_progress =
      reinterpret_cast<InProgress>(reinterpret_cast<void*>(GetProcAddress(
          GetModuleHandleW(L"ntdll.dll"), "RtlDllShutdownInProgress")));
  return in_progress != nullptr && in_progress() != 0;
}

int64_t ProcessId() { return static_cast<int64_t>(GetCurrentProcessId()); }
int64_t ThreadId() { return static_cast<int64_t>(GetCurrentThreadId()); }

absl::Status AtFork(void (* /*prepare*/)(), void (* /*parent*/)(),
                    void (* /*child*/)()) {
  return absl::OkStatus();  // There is no fork.
}

}  // namespace pinring::os
