#include "src/copy/worker_pool.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "src/os/threads.h"

namespace pinring::copy {

int DefaultMovers(int usable_cpus) {
  constexpr int kCpusForMost = 16;
  if (usable_cpus <= 2) return 1;
  return std::min(usable_cpus, kCpusForMost) * 3 / 4;
}

int MoversThatDrain(int usable_cpus) {
  constexpr int kMostThatDrain = 8;
  return std::max(1, std::min(usable_cpus / 2, kMostThatDrain));
}

WorkerPool::WorkerPool(int threads, std::function<void(int)> body,
                       absl::string_view name_prefix)
    : threads_(std::max(threads, 1)),
      body_(std::move(body)),
      name_prefix_(name_prefix),
      state_(std::make_unique<State>()) {}

WorkerPool::~WorkerPool() { Stop(); }

absl::Status WorkerPool::EnsureStarted() {
  State& state = *state_;
  if (state.running.load(std::memory_order_acquire) != 0 &&
      !state.stopping.load(std::memory_order_acquire)) {
    return absl::OkStatus();
  }
  absl::MutexLock lock(&state.mutex);
  state.mutex.Await(absl::Condition(
      +[](State* s) ABSL_EXCLUSIVE_LOCKS_REQUIRED(s->mutex) {
        return !s->stop_in_progress;
      },
      &state));
  if (!state.threads.empty()) return absl::OkStatus();

  state.stopping.store(false, std::memory_order_release);
  for (int worker = 0; worker < threads_; ++worker) {
    absl::StatusOr<os::Thread> thread = os::Thread::Start(
        absl::StrCat(name_prefix_, worker), [this, worker] { body_(worker); });
    if (!thread.ok()) {
      if (state.threads.empty()) return thread.status();
      break;
    }
    state.threads.push_back(*std::move(thread));
  }
  state.running.store(static_cast<int>(state.threads.size()),
                      std::memory_order_release);
  return absl::OkStatus();
}

void WorkerPool::Stop(absl::FunctionRef<void()> wake) {
  State& state = *state_;
  std::vector<os::Thread> threads;
  {
    absl::MutexLock lock(&state.mutex);
    state.mutex.Await(absl::Condition(
        +[](State* s) ABSL_EXCLUSIVE_LOCKS_REQUIRED(s->mutex) {
          return !s->stop_in_progress;
        },
        &state));
    if (state.threads.empty()) return;
    state.stop_in_progress = true;
    threads = std::move(state.threads);
    state.threads.clear();
    state.stopping.store(true, std::memory_order_release);
  }
  wake();
  for (os::Thread& thread : threads) thread.Join();
  absl::MutexLock lock(&state.mutex);
  state.running.store(0, std::memory_order_release);
  state.stop_in_progress = false;
}

bool WorkerPool::stopping() const {
  return state_->stopping.load(std::memory_order_acquire);
}

int WorkerPool::running() const {
  return state_->running.load(std::memory_order_acquire);
}

void WorkerPool::AbandonAfterFork() {
  auto fresh = std::make_unique<State>();
  fresh->abandoned = state_.release();
  state_ = std::move(fresh);
}

void ParallelFor(int threads, size_t total, size_t piece_bytes,
                 absl::FunctionRef<void(size_t begin, size_t end)> fn) {
  piece_bytes = std::max<size_t>(piece_bytes, 1);
  const size_t pieces =
      total / piece_bytes + (total % piece_bytes != 0 ? 1 : 0);
  // Pieces carry no data to each other; joining the threads publishes their
  // work. Each thread stops at its first number past the end, so that the
  // counter cannot wrap.
  std::atomic<size_t> next{0};
  const auto run = [&] {
    for (;;) {
      const size_t piece = next.fetch_add(1, std::memory_order_relaxed);
      if (piece >= pieces) return;
      const size_t begin = piece * piece_bytes;
      fn(begin, begin + std::min(piece_bytes, total - begin));
    }
  };
  std::vector<os::Thread> helpers;
  for (int helper = 1; helper < threads && static_cast<size_t>(helper) < pieces;
       ++helper) {
    absl::StatusOr<os::Thread> thread =
        os::Thread::Start(absl::StrCat("pinring-fill-", helper), run);
    if (!thread.ok()) break;  // Those there are do all the pieces.
    helpers.push_back(*std::move(thread));
  }
  run();
  for (os::Thread& helper : helpers) helper.Join();
}

absl::Status TryParallelFor(
    int threads, size_t total, size_t piece_bytes,
    absl::FunctionRef<absl::Status(size_t begin, size_t end)> fn) {
  std::atomic<bool> failed{false};  // Only a hint to stop early.
  absl::Mutex mutex;
  absl::Status first_error;
  ParallelFor(threads, total, piece_bytes, [&](size_t begin, size_t end) {
    if (failed.load(std::memory_order_relaxed)) return;
    absl::Status status = fn(begin, end);
    if (status.ok()) return;
    failed.store(true, std::memory_order_relaxed);
    absl::MutexLock lock(&mutex);
    first_error.Update(std::move(status));
  });
  absl::MutexLock lock(&mutex);
  return first_error;
}

}  // namespace pinring::copy
