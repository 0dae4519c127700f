// The core test: whatever completes natively with one queue for everything
// completes through the ring, with the same bytes, under any schedule.
//
// One program is replayed with --gtest_filter=... and PINRING_TEST_SEED=<seed>;
// PINRING_TEST_PROGRAMS=<count> runs more or fewer of them.

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "gtest/gtest.h"
#include "tests/program_runner.h"
#include "tests/random_program.h"

namespace pinring {
namespace {

constexpr size_t kMaxBlockBytes = 24 << 10;
constexpr uint64_t kOneQueueSeeds = 3;

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  uint64_t value = otherwise;
  if (text != nullptr && !absl::SimpleAtoi(text, &value)) {
    ADD_FAILURE() << name << "=" << text << " is not a number";
  }
  return value;
}

RunSettings Native(uint64_t seed, bool one_queue) {
  RunSettings settings;
  settings.schedule_seed = seed;
  settings.machine.one_queue = one_queue;
  settings.machine.copy_step_bytes = 2048;
  settings.machine.small_copy_bytes = 1024;
  return settings;
}

// A machine and an engine of random shape.
RunSettings Staged(uint64_t seed) {
  std::mt19937_64 random(seed);
  RunSettings settings = Native(seed, false);
  settings.staged = true;
  settings.machine.compute_queues = 1 + static_cast<int>(random() % 8);
  settings.machine.h2d_queues = 1 + static_cast<int>(random() % 4);
  settings.machine.d2h_queues = 1 + static_cast<int>(random() % 4);
  settings.machine.one_queue = random() % 8 == 0;
  settings.machine.launch_blocking = false;
  settings.movers = 1 + static_cast<int>(random() % 3);
  EngineOptions& engine = settings.engine;
  engine.lines = 64;
  engine.piece_bytes = 512 + random() % 4096;
  engine.smallest_chunk_bytes = random() % 3 == 0 ? 0 : 1 + random() % 600;
  const uint32_t starts[] = {0, 0xfffffff0u, 0x7ffffff0u, 12345};
  engine.first_sequence = starts[random() % 4];
  if (random() % 4 == 0) {
    engine.ring_bytes = 1 << 20;
  } else {
    engine.division = {size_t{1024} << (random() % 3), 1 + random() % 3};
    engine.ring_bytes = engine.division.slot_bytes * (1 + random() % 12);
  }
  return settings;
}

// Whether the hang is the program's own: its gates are closed, and who would
// open them waits for the driver's lock or for the device as natively. Then no
// stream waits for a flag of ours, and no call for room in a queue.
bool IsProgramsOwnHang(const RunResult& result) {
  return !absl::StrContains(result.detail, "waits for the value") &&
         !absl::StrContains(result.detail, "waits for room") &&
         absl::StrContains(result.detail, "'hold'");
}

bool CompletesWithOneQueue(const RandomProgram& program, uint64_t seeds,
                           RunResult* result) {
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    *result = RunProgram(program, Native(seed, true));
    if (!result->completed()) return false;
  }
  return true;
}

TEST(EngineScheduleTest, WhatCompletesWithOneQueueCompletesThroughTheRing) {
  const uint64_t one = FromEnvironment("PINRING_TEST_SEED", 0);
  const uint64_t programs = FromEnvironment("PINRING_TEST_PROGRAMS", 3000);
  uint64_t completed = 0;
  uint64_t ring_copies = 0;
  uint64_t promoted_copies = 0;
  uint64_t own_hangs = 0;
  for (uint64_t seed = one != 0 ? one : 1; seed <= (one != 0 ? one : programs);
       ++seed) {
    const RandomProgram program = MakeRandomProgram(seed, kMaxBlockBytes);
    RunResult native;
    if (!CompletesWithOneQueue(program, kOneQueueSeeds, &native)) continue;
    for (uint64_t run = 0; run < 2; ++run) {
      const RunResult staged = RunProgram(program, Staged(seed * 10 + run));
      if (!staged.completed() && IsProgramsOwnHang(staged)) {
        // The few schedules tried natively missed one that hangs.
        ++own_hangs;
        continue;
      }
      ASSERT_TRUE(staged.completed())
          << "seed " << seed << " run " << run << "\n"
          << staged.detail << program.Describe();
      ASSERT_EQ(staged.seen, native.seen)
          << "seed " << seed << " run " << run << "\n"
          << program.Describe();
      ASSERT_TRUE(staged.hazards.empty())
          << "seed " << seed << ": " << staged.hazards.front();
      ring_copies += staged.ring_copies;
      promoted_copies += staged.promoted_copies;
      ++completed;
    }
  }
  std::cout << completed << " runs, " << ring_copies
            << " copies through the ring, " << promoted_copies
            << " of promoted blocks, " << own_hangs
            << " runs that hang natively in that schedule\n";
  if (one == 0) {
    EXPECT_GT(completed, programs / 4);
    EXPECT_GT(ring_copies, completed);
    EXPECT_GT(promoted_copies, 0u);
    EXPECT_LT(own_hangs, programs / 50 + 2);
  }
}

// Programs that need several queues natively: with a queue of its own for each
// stream the ring adds no dependence.
TEST(EngineScheduleTest,
     WhatCompletesWithSeparateQueuesCompletesWithSeparateQueues) {
  const uint64_t programs = FromEnvironment("PINRING_TEST_PROGRAMS", 3000) / 3;
  uint64_t completed = 0;
  for (uint64_t seed = 1; seed <= programs; ++seed) {
    const RandomProgram program =
        MakeRandomProgram(1'000'000 + seed, kMaxBlockBytes);
    const auto separate = [](RunSettings settings) {
      settings.machine.one_queue = false;
      settings.machine.compute_queues = 32;
      settings.machine.h2d_queues = 32;
      settings.machine.d2h_queues = 32;
      return settings;
    };
    RunResult native;
    bool natively = true;
    for (uint64_t run = 1; run <= kOneQueueSeeds && natively; ++run) {
      native = RunProgram(program, separate(Native(run, false)));
      natively = native.completed();
    }
    if (!natively) continue;
    const RunResult staged = RunProgram(program, separate(Staged(seed)));
    if (!staged.completed() && IsProgramsOwnHang(staged)) continue;
    ASSERT_TRUE(staged.completed()) << "seed " << seed << "\n"
                                    << staged.detail << program.Describe();
    ASSERT_EQ(staged.seen, native.seen) << "seed " << seed;
    ++completed;
  }
  EXPECT_GT(completed, programs / 4);
}

// The rule that the first test rests on: once streams share slots, programs
// hang that complete with one queue.
TEST(EngineScheduleTest, SharedSlotsHang) {
  uint64_t hangs = 0;
  for (uint64_t seed = 1; seed <= 400 && hangs == 0; ++seed) {
    const RandomProgram program = MakeRandomProgram(seed, kMaxBlockBytes);
    RunResult native;
    if (!CompletesWithOneQueue(program, kOneQueueSeeds, &native)) continue;
    RunSettings settings = Staged(seed);
    settings.engine.division = {1024, 2};
    settings.engine.ring_bytes = 2048;
    settings.engine.share_slots_for_test = true;
    if (!RunProgram(program, settings).completed()) ++hangs;
  }
  EXPECT_GT(hangs, 0u);
}

TEST(EngineScheduleTest, ScheduleIsReplayedByItsSeed) {
  const RandomProgram program = MakeRandomProgram(5, kMaxBlockBytes);
  const RunResult first = RunProgram(program, Staged(77));
  const RunResult second = RunProgram(program, Staged(77));
  EXPECT_EQ(first.outcome, second.outcome);
  EXPECT_EQ(first.detail, second.detail);
  EXPECT_EQ(first.seen, second.seen);
}

}  // namespace
}  // namespace pinring
