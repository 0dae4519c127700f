#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "src/os/cgroup_linux.h"
#include "src/os/threads.h"

namespace pinring::os {
namespace {

static_assert(sizeof(pthread_t) == sizeof(uintptr_t));

struct StartArguments {
  std::string name;
  std::function<void()> body;
};

void* RunThread(void* opaque) {
  std::unique_ptr<StartArguments> arguments(
      static_cast<StartArguments*>(opaque));
  SetThreadName(arguments->name);
  arguments->body();
  return nullptr;
}

// All signals but those that a thread raises by what it does itself: if these
// were blocked, the kernel would end the process without asking its handlers.
sigset_t AsynchronousSignals() {
  sigset_t signals;
  sigfillset(&signals);
  for (const int fault :
       {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) {
    sigdelset(&signals, fault);
  }
  return signals;
}

// The number of processors in the affinity mask, whose size is not known
// beforehand; 0 if the system does not say.
int AffinityCpus() {
  for (size_t cpus = 1024; cpus <= size_t{1} << 20; cpus *= 2) {
    cpu_set_t* const set = CPU_ALLOC(cpus);
    if (set == nullptr) return 0;
    const size_t bytes = CPU_ALLOC_SIZE(cpus);
    CPU_ZERO_S(bytes, set);
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    const bool too_small = !known && errno == EINVAL;
    const int count = known ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (!too_small) return count;
  }
  return 0;
}

std::string ReadMembership() {
  std::string text;
  const int file = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  char part[4096];
  for (ssize_t length; (length = read(file, part, sizeof part)) > 0;) {
    text.append(part, static_cast<size_t>(length));
  }
  close(file);
  return text;
}

}  // namespace

absl::StatusOr<Thread> Thread::Start(absl::string_view name,
                                     std::function<void()> body) {
  auto arguments = std::make_unique<StartArguments>(
      StartArguments{std::string(name), std::move(body)});
  // A new thread begins with its creator's mask: no signal can slip in.
  const sigset_t blocked = AsynchronousSignals();
  sigset_t before;
  int error = pthread_sigmask(SIG_BLOCK, &blocked, &before);
  pthread_t handle;
  if (error == 0) {
    error = pthread_create(&handle, nullptr, RunThread, arguments.get());
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  if (error != 0) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "thread ", name,
        " could not be started: ", absl::ErrnoToStatus(error, "").ToString()));
  }
  (void)arguments.release();  // The thread's now.
  return Thread(std::bit_cast<uintptr_t>(handle));
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
  // Fails only for a thread that is no longer ours or is the caller itself.
  pthread_join(std::bit_cast<pthread_t>(handle_), nullptr);
}

void SetThreadName(absl::string_view name) {
  constexpr size_t kMaxLength = 15;
  pthread_setname_np(pthread_self(),
                     std::string(name.substr(0, kMaxLength)).c_str());
}

std::string ThreadName() {
  char name[64] = {};
  if (pthread_getname_np(pthread_self(), name, sizeof name) != 0) return "";
  return name;
}

int UsableCpus() {
  int cpus = AffinityCpus();
  if (cpus <= 0) cpus = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const std::optional<int> allowed =
      CgroupCpus(ReadMembership(), "/sys/fs/cgroup");
  if (allowed.has_value()) cpus = std::min(cpus, *allowed);
  return std::max(cpus, 1);
}

void SleepMicros(uint64_t micros) {
  timespec left = {};
  left.tv_sec = static_cast<time_t>(micros / 1'000'000);
  left.tv_nsec = static_cast<long>(micros % 1'000'000) * 1'000;
  while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) == EINTR) {
  }
}

// A futex, without anything beside it, for a word of this size.
void WaitWhile(const std::atomic<uint32_t>& word, uint32_t value) {
  word.wait(value, std::memory_order_acquire);
}

void WakeOne(std::atomic<uint32_t>& word) { word.notify_one(); }
void WakeAll(std::atomic<uint32_t>& word) { word.notify_all(); }

void YieldThread() { sched_yield(); }

uint64_t MonotonicNanos() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<uint64_t>(now.tv_nsec);
}

int64_t ProcessId() { return getpid(); }
int64_t ThreadId() { return gettid(); }

absl::Status AtFork(void (*prepare)(), void (*parent)(), void (*child)()) {
  const int error = pthread_atfork(prepare, parent, child);
  if (error != 0) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "pthread_atfork: ", absl::ErrnoToStatus(error, "").ToString()));
  }
  return absl::OkStatus();
}

}  // namespace pinring::os
