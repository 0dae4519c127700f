#include "src/os/threads.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#if defined(_WIN32)
#include <io.h>
#else
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "src/os/env.h"
#if !defined(_WIN32)
#include "src/os/cgroup_linux.h"
#endif

namespace pinring::os {
namespace {

TEST(ThreadTest, RunsItsBodyUnderItsName) {
  std::string name;
  absl::StatusOr<Thread> thread =
      Thread::Start("pinring-test-7", [&] { name = ThreadName(); });
  ASSERT_TRUE(thread.ok()) << thread.status();
  EXPECT_TRUE(thread->joinable());
  thread->Join();
  EXPECT_FALSE(thread->joinable());
  EXPECT_EQ(name, "pinring-test-7");
}

TEST(ThreadTest, LongNamesAreCutNotLost) {
  std::string name;
  Thread::Start("pinring-mover-12345", [&] { name = ThreadName(); })->Join();
#if defined(_WIN32)
  EXPECT_EQ(name, "pinring-mover-12345");
#else
  EXPECT_EQ(name, "pinring-mover-1");
#endif
}

TEST(ThreadTest, NamingAThreadLeavesTheCallersName) {
  const std::string before = ThreadName();
  Thread::Start("pinring-other", [] {})->Join();
  EXPECT_EQ(ThreadName(), before);
}

TEST(ThreadTest, DestructorAndAssignmentJoin) {
  std::atomic<int> done{0};
  const auto work = [&] {
    SleepMicros(10'000);
    done.fetch_add(1);
  };
  {
    Thread thread = *Thread::Start("one", work);
    thread = *Thread::Start("two", work);
    EXPECT_GE(done.load(), 1);
  }
  EXPECT_EQ(done.load(), 2);
}

TEST(WaitWhileTest, ReturnsAtOnceForAnotherValue) {
  const std::atomic<uint32_t> word{7};
  WaitWhile(word, 6);
}

// One that has seen the old value sleeps until it is woken, one that comes
// later does not sleep at all; so each turn is seen.
TEST(WaitWhileTest, NoWakeIsLost) {
  constexpr uint32_t kTurns = 20'000;
  std::atomic<uint32_t> word{0};
  const auto play = [&word](uint32_t mine) {
    for (uint32_t turn = mine; turn < kTurns; turn += 2) {
      for (uint32_t now = word; now != turn; now = word) WaitWhile(word, now);
      word = turn + 1;
      WakeOne(word);
    }
  };
  Thread other = *Thread::Start("pinring-other", [&] { play(1); });
  play(0);
  other.Join();
  EXPECT_EQ(word.load(), kTurns);
}

TEST(WaitWhileTest, AllAreWokenAtOnce) {
  std::atomic<uint32_t> word{0};
  std::vector<Thread> sleepers;
  for (int i = 0; i < 8; ++i) {
    sleepers.push_back(*Thread::Start("pinring-sleeper", [&word] {
      while (word == 0) WaitWhile(word, 0);
    }));
  }
  SleepMicros(20'000);
  word = 1;
  WakeAll(word);
  for (Thread& sleeper : sleepers) sleeper.Join();
}

#if defined(_WIN32)
TEST(ThreadTest, Signals) { GTEST_SKIP() << "Windows has no signals"; }
TEST(CgroupTest, All) { GTEST_SKIP() << "Windows has no control groups"; }
#else
TEST(ThreadTest, TakesNoSignalOfTheProgramButItsOwnFaults) {
  sigset_t in_thread;
  sigset_t before;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  Thread::Start("signals", [&] {
    pthread_sigmask(SIG_SETMASK, nullptr, &in_thread);
  })->Join();
  for (const int signal : {SIGINT, SIGTERM, SIGALRM, SIGCHLD, SIGUSR1, SIGUSR2,
                           SIGPROF, SIGPIPE, SIGRTMIN, SIGRTMAX}) {
    EXPECT_EQ(sigismember(&in_thread, signal), 1) << signal;
  }
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) {
    EXPECT_EQ(sigismember(&in_thread, fault), 0) << fault;
  }
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int signal = 1; signal < SIGRTMAX; ++signal) {
    EXPECT_EQ(sigismember(&after, signal), sigismember(&before, signal))
        << signal;
  }
}

TEST(CpusTest, TheAffinityMaskLimits) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_GE(UsableCpus(), 1);
  EXPECT_LE(UsableCpus(), CPU_COUNT(&before));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(UsableCpus(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

// A directory that looks like /sys/fs/cgroup.
class CgroupTest : public testing::Test {
 protected:
  CgroupTest() {
    char name[] = "/tmp/pinring-cgroup-XXXXXX";
    root_ = mkdtemp(name);
  }
  ~CgroupTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file(root_ + "/" + path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << "\n";
  }

  std::string root_;
};

TEST_F(CgroupTest, NoLimitIsNone) {
  EXPECT_EQ(CgroupCpus("", root_), std::nullopt);
  EXPECT_EQ(CgroupCpus("0::/\n", root_), std::nullopt);
  Write("cpu.max", "max 100000");
  EXPECT_EQ(CgroupCpus("0::/\n", root_), std::nullopt);
  Write("cpu/cpu.cfs_quota_us", "-1");
  Write("cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(CgroupCpus("3:cpu:/\n", root_), std::nullopt);
}

TEST_F(CgroupTest, Version2QuotaIsRoundedUp) {
  Write("a/cpu.max", "250000 100000");
  EXPECT_EQ(CgroupCpus("0::/a\n", root_), 3);
  Write("a/cpu.max", "200000 100000");
  EXPECT_EQ(CgroupCpus("0::/a\n", root_), 2);
  Write("a/cpu.max", "1000 100000");
  EXPECT_EQ(CgroupCpus("0::/a\n", root_), 1);
}

TEST_F(CgroupTest, TheSmallestLimitOnTheWayUpCounts) {
  Write("a/cpu.max", "200000 100000");
  Write("a/b/cpu.max", "max 100000");
  Write("a/b/c/cpu.max", "600000 100000");
  EXPECT_EQ(CgroupCpus("0::/a/b/c\n", root_), 2);
  EXPECT_EQ(CgroupCpus("0::/other\n", root_), std::nullopt);
}

TEST_F(CgroupTest, APathOfTheHostFallsBackToWhatIsMounted) {
  Write("cpu.max", "400000 100000");
  EXPECT_EQ(CgroupCpus("0::/kubepods/pod1/x\n", root_), 4);
}

TEST_F(CgroupTest, Version1QuotaIsReadWhereItsControllersAreMounted) {
  Write("cpu,cpuacct/job:1/cpu.cfs_quota_us", "150000");
  Write("cpu,cpuacct/job:1/cpu.cfs_period_us", "100000");
  EXPECT_EQ(CgroupCpus("5:memory:/job:1\n4:cpu,cpuacct:/job:1\n0::/\n", root_),
            2);
  EXPECT_EQ(CgroupCpus("4:cpuset:/job:1\n", root_), std::nullopt);
}

#endif

TEST(ClockTest, SleepsAtLeastAsLongAsAsked) {
  const uint64_t begin = MonotonicNanos();
  SleepMicros(20'000);
  EXPECT_GE(MonotonicNanos() - begin, 20'000'000u);
  CpuPause();
  YieldThread();
}

TEST(ForkTest, NullHandlersAreTaken) {
  EXPECT_TRUE(AtFork(nullptr, nullptr, nullptr).ok());
#if defined(_WIN32)
  GTEST_SKIP() << "Windows has no fork: nothing else is to be seen";
#endif
}

#if !defined(_WIN32)
void Nothing(int) {}

TEST(ClockTest, ASignalDoesNotCutASleepShort) {
  struct sigaction action = {};
  struct sigaction before = {};
  action.sa_handler = Nothing;
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  const pthread_t sleeper = pthread_self();
  Thread waker = *Thread::Start("waker", [&] {
    for (int i = 0; i < 5; ++i) {
      SleepMicros(3'000);
      pthread_kill(sleeper, SIGUSR1);
    }
  });
  const uint64_t begin = MonotonicNanos();
  SleepMicros(50'000);
  EXPECT_GE(MonotonicNanos() - begin, 50'000'000u);
  waker.Join();
  sigaction(SIGUSR1, &before, nullptr);
}

std::atomic<int> prepared{0};
std::atomic<int> in_parent{0};
std::atomic<int> in_child{0};

TEST(ForkTest, HandlersRunOnTheirSides) {
  ASSERT_TRUE(AtFork([] { prepared.fetch_add(1); },
                     [] { in_parent.fetch_add(1); },
                     [] { in_child.fetch_add(1); })
                  .ok());
  const int64_t parent = ProcessId();
  const pid_t child = fork();
  if (child == 0) {
    _exit(prepared == 1 && in_parent == 0 && in_child == 1 &&
                  ProcessId() != parent && ProcessId() == getpid()
              ? 0
              : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(prepared, 1);
  EXPECT_EQ(in_parent, 1);
  EXPECT_EQ(in_child, 0);
}

TEST(EnvTest, UnsetAndEmptyAreNotTheSame) {
  unsetenv("PINRING_TEST_VARIABLE");
  EXPECT_EQ(GetEnv("PINRING_TEST_VARIABLE"), std::nullopt);
  setenv("PINRING_TEST_VARIABLE", "", 1);
  EXPECT_EQ(GetEnv("PINRING_TEST_VARIABLE"), "");
  setenv("PINRING_TEST_VARIABLE", "64MiB", 1);
  EXPECT_EQ(GetEnv("PINRING_TEST_VARIABLE"), "64MiB");
  unsetenv("PINRING_TEST_VARIABLE");
}
#endif

TEST(WriteErrorLineTest, WritesTheLineAndItsEnd) {
  testing::internal::CaptureStderr();
  WriteErrorLine("pinring: one");
  WriteErrorLine("");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "pinring: one\n\n");
}

constexpr int kStderr = 2;

// A pipe that holds what a test writes into it.
bool MakePipe(int (&ends)[2]) {
#if defined(_WIN32)
  return _pipe(ends, 1 << 16, _O_BINARY) == 0;
#else
  return pipe(ends) == 0;
#endif
}

TEST(WriteErrorLineTest, AClosedOrBrokenStreamIsNoTrouble) {
  const int saved = dup(kStderr);
  int ends[2];
  ASSERT_TRUE(MakePipe(ends));
  close(ends[0]);
  dup2(ends[1], kStderr);
  close(ends[1]);
  errno = 77;
  WriteErrorLine("into a pipe that nobody reads");  // SIGPIPE would kill.
  const int errno_of_pipe = errno;
  close(kStderr);
  errno = 77;
  WriteErrorLine("into nothing");
  const int errno_of_closed = errno;
  dup2(saved, kStderr);
  close(saved);
  EXPECT_EQ(errno_of_pipe, 77);
  EXPECT_EQ(errno_of_closed, 77);
#if !defined(_WIN32)
  sigset_t pending;
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
#endif
}

TEST(WriteErrorLineTest, LinesOfThreadsDoNotMix) {
  int ends[2];
  ASSERT_TRUE(MakePipe(ends));
  const int saved = dup(kStderr);
  dup2(ends[1], kStderr);
  close(ends[1]);
  std::vector<Thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.push_back(*Thread::Start("writer", [t] {
      for (int i = 0; i < 50; ++i) {
        WriteErrorLine(std::string(60, static_cast<char>('a' + t)));
      }
    }));
  }
  threads.clear();
  dup2(saved, kStderr);  // Closes the last writing end.
  close(saved);
  std::string text;
  char part[4096];
  for (auto n = read(ends[0], part, sizeof part); n > 0;
       n = read(ends[0], part, sizeof part)) {
    text.append(part, static_cast<size_t>(n));
  }
  close(ends[0]);
  ASSERT_EQ(text.size(), 4u * 50u * 61u);
  for (size_t line = 0; line < text.size(); line += 61) {
    EXPECT_EQ(text.substr(line, 61), std::string(60, text[line]) + "\n");
  }
}

TEST(WriteErrorLineTest, LongLinesAreWrittenToo) {
  const std::string line(5'000, 'x');
  testing::internal::CaptureStderr();
  WriteErrorLine(line);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), line + "\n");
}

}  // namespace
}  // namespace pinring::os
