// The stress: threads of copies both ways with new bytes every round, and
// beside them everything that makes drivers wait.
//
// PINRING_TEST_SECONDS=<n> runs longer than the 3 s of CTest, PINRING_TEST_SEED
// other programs, PINRING_TEST_NATIVE=1 the same with the driver's own pinned
// memory, which shows that the stress itself is right. On a GPU:
//
//   for c in 1 2 8 32; do
//     CUDA_DEVICE_MAX_CONNECTIONS=$c PINRING_TEST_DRIVER=native
//     PINRING_TEST_SECONDS=60 ./stress_test
//   done
//
// A thread without progress for 20 s is a hang: every thread's state is printed
// and the program exits with status 3.

#include "tests/support/stress.h"

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "src/capi/default_instance.h"
#include "tests/support/watchdog.h"

namespace pinring {
namespace {

constexpr absl::Duration kHung = absl::Seconds(20);

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  uint64_t value = otherwise;
  if (text != nullptr && !absl::SimpleAtoi(text, &value)) {
    ADD_FAILURE() << name << "=" << text << " is not a number";
  }
  return value;
}

// Looks at all threads until they are done, and ends the program if one hangs.
class Overseer {
 public:
  Overseer(const std::deque<StressThread>& threads, const Testbed& bed)
      : threads_(threads), bed_(bed), seen_(threads.size()) {}

  // Returns when `until` has come, or all threads are done.
  void Watch(absl::Time until) {
    // A round that ended just before is no reason to wait longer.
    for (Seen& seen : seen_) seen.since = absl::Now();
    while (absl::Now() < until) {
      bool all_done = true;
      for (size_t i = 0; i < threads_.size(); ++i) {
        const StressThread& thread = threads_[i];
        if (thread.done.load()) continue;
        all_done = false;
        const uint64_t rounds = thread.rounds.load();
        if (rounds != seen_[i].rounds) seen_[i] = {rounds, absl::Now()};
        if (absl::Now() - seen_[i].since > kHung) GiveUp(thread);
      }
      if (all_done) return;
      absl::SleepFor(absl::Milliseconds(50));
    }
  }

 private:
  struct Seen {
    uint64_t rounds = 0;
    absl::Time since = absl::Now();
  };

  [[noreturn]] void GiveUp(const StressThread& hung) {
    std::fprintf(stderr, "HANG: thread '%s' has made no progress for %s\n",
                 hung.name.c_str(), absl::FormatDuration(kHung).c_str());
    for (const StressThread& thread : threads_) {
      std::fprintf(stderr, "  %-24s round %8llu, %s: %s\n", thread.name.c_str(),
                   static_cast<unsigned long long>(thread.rounds.load()),
                   thread.done.load() ? "done" : "running",
                   thread.state.load());
    }
    std::fflush(stderr);
    // Describing the device may hang as well; then the exit comes all the same.
    std::thread([this] {
      if (bed_.machine() == nullptr) return;
      std::fprintf(stderr, "%s\n", bed_.machine()->Describe().c_str());
      std::fflush(stderr);
    }).detach();
    absl::SleepFor(absl::Seconds(2));
    std::_Exit(kHangExitStatus);
  }

  const std::deque<StressThread>& threads_;
  const Testbed& bed_;
  std::vector<Seen> seen_;
};

StressThread& Named(std::deque<StressThread>& threads, std::string name) {
  threads.emplace_back();
  threads.back().name = std::move(name);
  return threads.back();
}

void PrintAndCheck(const std::deque<StressThread>& threads) {
  uint64_t rounds = 0;
  uint64_t bytes = 0;
  for (const StressThread& thread : threads) {
    EXPECT_EQ(thread.wrong_bytes.load(), 0u) << thread.name;
    EXPECT_EQ(thread.errors.load(), 0u)
        << thread.name << ": "
        << (thread.failed_call.load() == nullptr ? ""
                                                 : thread.failed_call.load())
        << " answered " << thread.failed_code.load();
    std::printf("%-24s %9llu rounds %14llu bytes\n", thread.name.c_str(),
                static_cast<unsigned long long>(thread.rounds.load()),
                static_cast<unsigned long long>(thread.bytes.load()));
    if (thread.name.rfind("worker", 0) == 0) {
      EXPECT_GT(thread.rounds.load(), 0u) << thread.name;
      rounds += thread.rounds.load();
      bytes += thread.bytes.load();
    }
  }
  std::printf("workers in all: %llu rounds, %llu bytes\n",
              static_cast<unsigned long long>(rounds),
              static_cast<unsigned long long>(bytes));
}

void PrintAndCheckUsage() {
  pinringUsage usage = PINRING_USAGE_INIT;
  ASSERT_EQ(pinringGetUsage(&usage), cudaSuccess);
  uint64_t through_ring = 0;
  uint64_t promoted = 0;
  for (const int direction :
       {pinringCopyHostToDevice, pinringCopyDeviceToHost}) {
    const pinringCopyAmount* copies = usage.copies[direction];
    through_ring += copies[pinringCopyStagedSync].count +
                    copies[pinringCopyStagedDeferred].count +
                    copies[pinringCopyStagedIdle].count;
    promoted += copies[pinringCopyPromoted].count;
  }
  std::printf(
      "copies through the ring: %llu, of promoted blocks: %llu, pinned "
      "at most: %llu bytes\n",
      static_cast<unsigned long long>(through_ring),
      static_cast<unsigned long long>(promoted),
      static_cast<unsigned long long>(usage.pinnedPeakBytes));
  EXPECT_GT(through_ring, 0u);
  EXPECT_EQ(usage.kinds[pinringUsageStaged].currentBytes, 0u);
  EXPECT_EQ(usage.kinds[pinringUsagePromoted].currentBytes, 0u);
  EXPECT_EQ(usage.events[pinringEventSlotQuarantined], 0u);
  const NoInstance* error = nullptr;
  Instance* const instance = DefaultInstance(&error);
  ASSERT_NE(instance, nullptr);
  EXPECT_TRUE(HappensWithin(
      kHappens, [&] { return instance->engine().outstanding() == 0; }));
  instance->engine().CheckInvariants();
}

TEST(StressTest, EveryByteArrivesWhateverElseIsGoingOn) {
  if (const std::string why = Testbed::WhySkip(); !why.empty()) {
    GTEST_SKIP() << why;
  }
  const bool native_memory = FromEnvironment("PINRING_TEST_NATIVE", 0) != 0;
  const uint64_t seconds = FromEnvironment("PINRING_TEST_SECONDS", 3);
  Testbed bed;
  ResetDefaultInstanceForTesting(&bed.driver());
  ASSERT_EQ(pinringConfigure(TestsRunNatively()
                                 ? "small_limit_bytes=0"
                                 : "small_limit_bytes=0,ring_bytes=8MiB"),
            cudaSuccess);
  DriverPinned native(bed.driver());
  RingPinned ring;

  Stress stress;
  stress.bed = &bed;
  stress.api = native_memory ? static_cast<PinnedApi*>(&native) : &ring;
  stress.most_bytes = TestsRunNatively() ? size_t{6} << 20 : 200 << 10;
  stress.seed = FromEnvironment("PINRING_TEST_SEED", 1);
  std::printf("%llu s, seed %llu, %s, %d compute queues\n",
              static_cast<unsigned long long>(seconds),
              static_cast<unsigned long long>(stress.seed), stress.api->name(),
              bed.compute_queues());

  std::deque<StressThread> states;
  std::deque<StressThread> opener_states;
  std::vector<std::thread> threads;
  std::vector<std::thread> openers;
  for (GateOpener& opener : stress.openers) {
    StressThread& self = Named(opener_states, "gate opener");
    openers.emplace_back([&] { opener.Run(bed, stress.stop_openers, self); });
  }
  for (int i = 0; i < Stress::kWorkers; ++i) {
    StressThread& self = Named(states, absl::StrCat("worker ", i));
    uint32_t* const flag = bed.PinnedFlag();
    threads.emplace_back(
        [&stress, i, flag, &self] { RunStressWorker(stress, i, flag, self); });
  }
  for (const StressNeighbour& neighbour : StressNeighbours()) {
    StressThread& self = Named(states, neighbour.name);
    threads.emplace_back([&stress, &bed, neighbour, &self] {
      bed.UseContext();
      neighbour.run(stress, self);
      self.done.store(true);
    });
  }

  Overseer overseer(states, bed);
  overseer.Watch(absl::Now() + absl::Seconds(seconds));
  stress.stop.store(true);
  overseer.Watch(absl::InfiniteFuture());
  stress.stop_openers.store(true);
  for (std::thread& thread : threads) thread.join();
  for (std::thread& thread : openers) thread.join();
  for (GateOpener& opener : stress.openers) opener.EmptyTrash();

  PrintAndCheck(states);
  for (const StressThread& opener : opener_states) {
    EXPECT_EQ(opener.errors.load(), 0u) << opener.name;
  }
  if (!native_memory) PrintAndCheckUsage();
  if (bed.machine() != nullptr) {
    const std::vector<std::string> hazards = bed.machine()->Hazards();
    EXPECT_TRUE(hazards.empty()) << absl::StrJoin(hazards, "\n");
  }
  ResetDefaultInstanceForTesting(nullptr);
}

}  // namespace
}  // namespace pinring
