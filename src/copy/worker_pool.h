#ifndef PINRING_SRC_COPY_WORKER_POOL_H_
#define PINRING_SRC_COPY_WORKER_POOL_H_

// Threads that move bytes.

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "src/os/threads.h"

namespace pinring::copy {

// How many movers deserve to run where `usable_cpus` processors may be used: 1
// up to two of them, then three quarters, at most 12. With a mover on every
// processor the driver's own thread starves.
[[nodiscard]] int DefaultMovers(int usable_cpus);

// How many of them also drain the ring; the others only fill it. Half of the
// processors, at most 8. On an H200 with 16 virtual processors four fill a PCIe
// 5 x16 link from the ring; with 12 that drain and wait in turn, a deferred
// copy of 1 GiB to the host fell from 0.96 of the pinned rate to 0.87. Towards
// the device, after an idle time, 8, 10 and 12 movers reached 0.82, 0.88 and
// 0.89.
[[nodiscard]] int MoversThatDrain(int usable_cpus);

// A set of named threads, made at the first EnsureStarted, each of which runs
// the owner's body until the pool is stopped.
//
// The body is called once on each thread with the thread's number, and returns
// soon after `stopping()` has become true; how it waits for work is the owner's
// business. The pool holds no lock while a body runs, and a body may use the
// pool's const functions.
//
// Thread-safe, but for AbandonAfterFork. A stopped pool can be started again.
class WorkerPool {
 public:
  // Nothing is started yet. `threads` is at least 1; the threads are called
  // `name_prefix` followed by their number.
  WorkerPool(int threads, std::function<void(int worker)> body,
             absl::string_view name_prefix = "pinring-mover-");
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Stops the pool; an owner whose bodies sleep calls Stop itself before.
  ~WorkerPool();

  // Starts the threads if they do not run. Cheap when they do. Fewer threads
  // than asked for are good enough; error: kResourceExhausted, when the system
  // gives not even one.
  absl::Status EnsureStarted();

  // Raises `stopping()`, calls `wake`, in which the owner wakes bodies that
  // sleep, and returns when all threads are gone. `wake` is called without the
  // pool's lock, and not at all when no thread runs. Not to be called from a
  // body, nor with a lock held that bodies or `wake` take.
  void Stop(absl::FunctionRef<void()> wake = [] {});

  // True from the beginning of a Stop that ends threads until the pool is
  // started again. For the bodies.
  bool stopping() const;

  // How many threads run: 0, or as many as the system gave.
  int running() const;

  // In the child of fork, where only the calling thread exists: forgets the
  // threads, and whatever lock another thread of the parent held, without
  // joining. The pool can be started again there. What the fork may have caught
  // half-changed is leaked on purpose.
  void AbandonAfterFork();

 private:
  // Everything that fork can catch half-changed.
  struct State {
    absl::Mutex mutex;
    // While Stop waits for the threads without the lock they are its own, and
    // nobody starts others.
    std::vector<os::Thread> threads ABSL_GUARDED_BY(mutex);
    bool stop_in_progress ABSL_GUARDED_BY(mutex) = false;
    // Both are written under `mutex` only. The release stores pair with the
    // acquire loads of EnsureStarted's fast path, running() and stopping().
    std::atomic<int> running{0};
    std::atomic<bool> stopping{false};
    State* abandoned = nullptr;  // Keeps the parent's state reachable.
  };

  const int threads_;
  const std::function<void(int)> body_;
  const std::string name_prefix_;
  std::unique_ptr<State> state_;
};

// Calls `fn(begin, end)` for pieces of [0, total) of `piece_bytes` each (the
// last may be shorter), each piece once, on the calling thread and up to
// `threads` - 1 short-lived ones; returns when all pieces are done. For long
// work: making threads takes tens of microseconds. `piece_bytes` is at least 1.
void ParallelFor(int threads, size_t total, size_t piece_bytes,
                 absl::FunctionRef<void(size_t begin, size_t end)> fn);

// The same for work that can fail: after a failure no further piece is begun,
// and one of the errors is returned.
absl::Status TryParallelFor(
    int threads, size_t total, size_t piece_bytes,
    absl::FunctionRef<absl::Status(size_t begin, size_t end)> fn);

}  // namespace pinring::copy

#endif  // PINRING_SRC_COPY_WORKER_POOL_H_
