#ifndef PINRING_SRC_OS_THREADS_H_
#define PINRING_SRC_OS_THREADS_H_

// Threads, processors, clocks and fork.

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#if defined(__x86_64__) || defined(__i386__) || defined(_M_X64)
#include <immintrin.h>
#endif

namespace pinring::os {

// A thread of the library. It takes no asynchronous signal of the program's, so
// that a handler never runs on it; faults of its own (SIGSEGV, SIGBUS, ...)
// reach the program's handlers as from any thread.
//
// Movable, not thread-safe. Join or Abandon it before it is destroyed; the
// destructor joins otherwise.
class Thread {
 public:
  // Starts a thread named `name` (Linux keeps 15 characters) that runs `body`.
  // Errors: kResourceExhausted.
  [[nodiscard]] static absl::StatusOr<Thread> Start(absl::string_view name,
                                                    std::function<void()> body);

  Thread() = default;
  Thread(Thread&& other) noexcept
      : handle_(std::exchange(other.handle_, 0)),
        joinable_(std::exchange(other.joinable_, false)) {}
  Thread& operator=(Thread&& other) noexcept;
  ~Thread() { Join(); }

  bool joinable() const { return joinable_; }

  // Waits until `body` has returned and the thread is gone. Nothing happens
  // when there is no thread to join.
  void Join();

  // Forgets the thread: in the child of fork, where it does not exist.
  void Abandon() { joinable_ = false; }

 private:
  explicit Thread(uintptr_t handle) : handle_(handle), joinable_(true) {}

  uintptr_t handle_ = 0;  // pthread_t or HANDLE.
  bool joinable_ = false;
};

// The name of the calling thread, as debuggers and `top` show it.
void SetThreadName(absl::string_view name);
[[nodiscard]] std::string ThreadName();

// How many processors this process may use: those in its affinity mask, or
// fewer when its control groups allow less processor time (rounded up). At
// least 1. Reads files; not for hot paths.
[[nodiscard]] int UsableCpus();

// Sleeps for at least `micros`, whatever signals arrive.
void SleepMicros(uint64_t micros);

// Lets another thread run on this processor.
void YieldThread();

// Tells the processor that this is a spinning loop.
inline void CpuPause() {
#if defined(__x86_64__) || defined(__i386__) || defined(_M_X64)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

// Blocks while `word` is `value`, until a call of the other two for the word;
// may also return for no reason. Reads with acquire. Unlike with std::atomic's
// own, which in some standard libraries keeps locks of its own for that, the
// three may be used for as long as the process lives, also first by a thread
// that a static object's destructor waits for.
void WaitWhile(const std::atomic<uint32_t>& word, uint32_t value);
void WakeOne(std::atomic<uint32_t>& word);
void WakeAll(std::atomic<uint32_t>& word);

// Nanoseconds of a clock that only goes forward; its zero means nothing.
[[nodiscard]] uint64_t MonotonicNanos();

[[nodiscard]] int64_t ProcessId();

// The system's number of the calling thread, as debuggers and profilers show
// it.
[[nodiscard]] int64_t ThreadId();

// True when the process ends and its other threads are gone already, wherever
// they were: nothing they would have done is done any more, and what they held
// stays locked. So it is on Windows when the static objects of a DLL are
// destroyed.
#if defined(_WIN32)
[[nodiscard]] bool OtherThreadsAreGone();
#else
[[nodiscard]] inline bool OtherThreadsAreGone() { return false; }
#endif

// Has fork call `prepare` before (the latest registered first), `parent` and
// `child` after it, in the process of that name; each may be null. There is no
// way to take handlers back. Nothing happens on systems without fork.
// Errors: kResourceExhausted.
absl::Status AtFork(void (*prepare)(), void (*parent)(), void (*child)());

}  // namespace pinring::os

#endif  // PINRING_SRC_OS_THREADS_H_
