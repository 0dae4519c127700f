#include "src/copy/worker_pool.h"

#if !defined(_WIN32)
#include <sys/wait.h>
#include <unistd.h>
#endif

#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "src/os/pages.h"
#include "src/os/threads.h"
#include "tests/support/thread_count.h"

#if defined(__SANITIZE_THREAD__)
#define PINRING_TEST_TSAN 1
#elif defined(__SANITIZE_ADDRESS__)
#define PINRING_TEST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PINRING_TEST_TSAN 1
#elif __has_feature(address_sanitizer)
#define PINRING_TEST_ASAN 1
#endif
#endif

namespace pinring::copy {
namespace {

TEST(MoversThatDrainTest, AreHalfOfTheProcessorsAndAtMostEight) {
  EXPECT_EQ(MoversThatDrain(INT_MIN), 1);
  EXPECT_EQ(MoversThatDrain(1), 1);
  EXPECT_EQ(MoversThatDrain(3), 1);
  EXPECT_EQ(MoversThatDrain(8), 4);
  EXPECT_EQ(MoversThatDrain(16), 8);
  EXPECT_EQ(MoversThatDrain(INT_MAX), 8);
}

TEST(DefaultMoversTest, LeavesProcessorsFreeAndStopsAtTwelve) {
  EXPECT_EQ(DefaultMovers(INT_MIN), 1);
  EXPECT_EQ(DefaultMovers(0), 1);
  EXPECT_EQ(DefaultMovers(1), 1);
  EXPECT_EQ(DefaultMovers(2), 1);
  EXPECT_EQ(DefaultMovers(3), 2);
  EXPECT_EQ(DefaultMovers(4), 3);
  EXPECT_EQ(DefaultMovers(8), 6);
  EXPECT_EQ(DefaultMovers(12), 9);
  EXPECT_EQ(DefaultMovers(16), 12);
  EXPECT_EQ(DefaultMovers(20), 12);
  EXPECT_EQ(DefaultMovers(24), 12);
  EXPECT_EQ(DefaultMovers(256), 12);
  EXPECT_EQ(DefaultMovers(INT_MAX), 12);
  for (int cpus = 2; cpus < 300; ++cpus) {
    EXPECT_LT(DefaultMovers(cpus), cpus);
    EXPECT_LE(DefaultMovers(cpus), DefaultMovers(cpus + 1));
  }
}

TEST(WorkerPoolTest, NoThreadBeforeTheFirstUse) {
  std::atomic<int> ran{0};
  const size_t before = ThreadCount();
  {
    WorkerPool pool(3, [&](int) { ran.fetch_add(1); });
    EXPECT_EQ(pool.running(), 0);
    EXPECT_EQ(ThreadCount(), before);
    pool.Stop();
  }
  EXPECT_EQ(ran.load(), 0);
}

TEST(WorkerPoolTest, EachWorkerRunsOnceUnderItsNumberAndName) {
  absl::Mutex mutex;
  std::multiset<std::string> names;
  std::multiset<int> workers;
  WorkerPool pool(4, [&](int worker) {
    {
      absl::MutexLock lock(&mutex);
      names.insert(os::ThreadName());
      workers.insert(worker);
    }
    while (!pool.stopping()) os::SleepMicros(100);
  });
  ASSERT_TRUE(pool.EnsureStarted().ok());
  ASSERT_TRUE(pool.EnsureStarted().ok());
  EXPECT_EQ(pool.running(), 4);
  pool.Stop();
  EXPECT_EQ(pool.running(), 0);
  EXPECT_EQ(workers, (std::multiset<int>{0, 1, 2, 3}));
  EXPECT_EQ(names,
            (std::multiset<std::string>{"pinring-mover-0", "pinring-mover-1",
                                        "pinring-mover-2", "pinring-mover-3"}));
}

TEST(WorkerPoolTest, LessThanOneThreadIsOne) {
  std::atomic<int> ran{0};
  WorkerPool pool(0, [&](int) { ran.fetch_add(1); });
  ASSERT_TRUE(pool.EnsureStarted().ok());
  pool.Stop();
  EXPECT_EQ(ran.load(), 1);
}

// An owner as the engine is one: bodies sleep until there is work.
class SleepyOwner {
 public:
  explicit SleepyOwner(int threads) : pool_(threads, [this](int) { Body(); }) {}
  ~SleepyOwner() { Stop(); }

  void Submit(int jobs) {
    ASSERT_TRUE(pool_.EnsureStarted().ok());
    absl::MutexLock lock(&mutex_);
    jobs_ += jobs;
  }
  void WaitUntilDone(int jobs) {
    absl::MutexLock lock(&mutex_);
    while (done_ < jobs) all_done_.Wait(&mutex_);
  }
  void Stop() {
    pool_.Stop([this] {
      absl::MutexLock lock(&mutex_);
      ended_ = true;
    });
    absl::MutexLock lock(&mutex_);
    ended_ = false;
  }
  int done() {
    absl::MutexLock lock(&mutex_);
    return done_;
  }

 private:
  void Body() {
    absl::MutexLock lock(&mutex_);
    for (;;) {
      mutex_.Await(absl::Condition(
          +[](SleepyOwner* self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mutex_) {
            return self->ended_ || self->jobs_ > 0;
          },
          this));
      if (ended_ && pool_.stopping()) return;
      --jobs_;
      ++done_;
      all_done_.SignalAll();
    }
  }

  absl::Mutex mutex_;
  absl::CondVar all_done_;
  int jobs_ ABSL_GUARDED_BY(mutex_) = 0;
  int done_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  WorkerPool pool_;
};

TEST(WorkerPoolTest, StopWakesBodiesThatSleep) {
  const size_t before = ThreadCount();
  SleepyOwner owner(3);
  owner.Submit(10);
  owner.WaitUntilDone(10);
  EXPECT_EQ(ThreadCount(), before + 3);
  owner.Stop();
  owner.Stop();
  EXPECT_EQ(ThreadCount(), before);
}

TEST(WorkerPoolTest, StartsAndStopsManyTimesUnderLoad) {
  SleepyOwner owner(4);
  int submitted = 0;
  for (int round = 0; round < 200; ++round) {
    owner.Submit(20);
    submitted += 20;
    if (round % 3 != 0) owner.WaitUntilDone(submitted - 5);
    owner.Stop();
  }
  owner.Submit(1);
  owner.WaitUntilDone(submitted + 1);
  EXPECT_EQ(owner.done(), submitted + 1);
}

TEST(WorkerPoolTest, ManyThreadsStartAndStopAtOnce) {
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  WorkerPool pool(2, [&](int) {
    const int now = inside.fetch_add(1) + 1;
    for (int seen = most.load(); now > seen;) {
      if (most.compare_exchange_weak(seen, now)) break;
    }
    while (!pool.stopping()) os::YieldThread();
    inside.fetch_sub(1);
  });
  std::vector<std::thread> users;
  for (int user = 0; user < 4; ++user) {
    users.emplace_back([&, user] {
      for (int round = 0; round < 100; ++round) {
        EXPECT_TRUE(pool.EnsureStarted().ok());
        if ((round + user) % 2 == 0) pool.Stop();
      }
    });
  }
  for (std::thread& user : users) user.join();
  pool.Stop();
  EXPECT_EQ(inside.load(), 0);
  EXPECT_LE(most.load(), 2);  // Never two generations at once.
}

#if defined(_WIN32)
TEST(WorkerPoolTest, ForkTests) { GTEST_SKIP() << "Windows has no fork"; }
#else
TEST(WorkerPoolTest, TheChildOfForkForgetsTheThreadsAndMayStartItsOwn) {
#if defined(PINRING_TEST_TSAN)
  GTEST_SKIP() << "the thread sanitizer allows no threads after fork";
#endif
  std::atomic<int> ran{0};
  WorkerPool pool(3, [&](int) {
    ran.fetch_add(1);
    while (!pool.stopping()) os::SleepMicros(100);
  });
  ASSERT_TRUE(pool.EnsureStarted().ok());
  // A thread that is only just starting may hold a lock of a sanitizer's.
  while (ran.load() < 3) os::SleepMicros(100);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // A hang ends the child.
    pool.AbandonAfterFork();
    pool.Stop();  // Nothing to join.
    bool right = pool.running() == 0 && !pool.stopping();
    ran.store(0);
    right = right && pool.EnsureStarted().ok() && pool.running() == 3;
    pool.Stop();
    _exit(right && ran.load() == 3 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(pool.running(), 3);
  pool.Stop();
}

TEST(WorkerPoolTest, AForkWhileThePoolChangesLeavesTheChildUsable) {
#if defined(PINRING_TEST_TSAN)
  GTEST_SKIP() << "the thread sanitizer allows no threads after fork";
#elif defined(PINRING_TEST_ASAN)
  GTEST_SKIP() << "the address sanitizer's own locks of threads and memory do "
                  "not survive a fork while another thread makes threads";
#endif
  WorkerPool pool(2, [&](int) {
    while (!pool.stopping()) os::SleepMicros(50);
  });
  std::atomic<bool> end{false};
  std::thread changer([&] {
    while (!end.load()) {
      EXPECT_TRUE(pool.EnsureStarted().ok());
      pool.Stop();
    }
  });
  for (int round = 0; round < 30; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // A hang ends the child.
      pool.AbandonAfterFork();
      const bool started = pool.EnsureStarted().ok();
      pool.Stop();
      _exit(started ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  end.store(true);
  changer.join();
}
#endif

TEST(ParallelForTest, EveryPieceOnceWhateverTheSizes) {
  for (const int threads : {0, 1, 2, 5}) {
    for (const size_t total : {0, 1, 9, 10, 11, 1000}) {
      for (const size_t piece : {0, 1, 10, 999, 5000}) {
        std::vector<std::atomic<int>> seen(total);
        std::atomic<bool> odd_piece{false};
        ParallelFor(threads, total, piece, [&](size_t begin, size_t end) {
          const size_t unit = piece == 0 ? 1 : piece;
          if (begin >= end || begin % unit != 0 || end - begin > unit) {
            odd_piece = true;
          }
          for (size_t i = begin; i < end; ++i) seen[i].fetch_add(1);
        });
        EXPECT_FALSE(odd_piece.load());
        for (const std::atomic<int>& count : seen) ASSERT_EQ(count.load(), 1);
      }
    }
  }
}

TEST(ParallelForTest, SizesNearTheEndOfTheRangeDoNotWrap) {
  std::atomic<size_t> sum{0};
  constexpr size_t kPiece = SIZE_MAX / 3 + 7;
  ParallelFor(3, SIZE_MAX, kPiece,
              [&](size_t begin, size_t end) { sum.fetch_add(end - begin); });
  EXPECT_EQ(sum.load(), SIZE_MAX);
}

TEST(ParallelForTest, SeveralThreadsTakePart) {
  absl::Mutex mutex;
  std::set<std::thread::id> threads;
  ParallelFor(3, 3, 1, [&](size_t, size_t) {
    absl::MutexLock lock(&mutex);
    threads.insert(std::this_thread::get_id());
    // Each piece waits until all three threads hold one.
    mutex.AwaitWithTimeout(
        absl::Condition(
            +[](std::set<std::thread::id>* t) { return t->size() == 3; },
            &threads),
        absl::Seconds(60));
  });
  EXPECT_EQ(threads.size(), 3u);
}

TEST(ParallelForTest, PopulatesPages) {
  constexpr size_t kBytes = size_t{32} << 20;
  char* const base =
      static_cast<char*>(*os::ReservePages(kBytes, os::PageBytes()));
  const absl::Status status =
      TryParallelFor(4, kBytes, size_t{4} << 20, [&](size_t begin, size_t end) {
        return os::Populate(base + begin, end - begin);
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(*os::ResidentBytes(base, kBytes), kBytes);
  EXPECT_TRUE(os::ReleasePages(base, kBytes).ok());
}

TEST(ParallelForTest, AFailureIsReturnedAndEndsTheWork) {
  std::atomic<int> pieces{0};
  const absl::Status status =
      TryParallelFor(2, 100'000, 1, [&](size_t begin, size_t) {
        pieces.fetch_add(1);
        return begin == 3 ? absl::AbortedError("three") : absl::OkStatus();
      });
  EXPECT_EQ(status, absl::AbortedError("three"));
  EXPECT_LT(pieces.load(), 100'000);
}

}  // namespace
}  // namespace pinring::copy
