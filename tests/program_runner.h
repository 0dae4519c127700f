// Runs a random program on a simulated machine under a seeded schedule, with
// pinned memory as the driver gives it or with staged blocks and the engine.

#ifndef PINRING_TESTS_PROGRAM_RUNNER_H_
#define PINRING_TESTS_PROGRAM_RUNNER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "src/engine/engine.h"
#include "src/simcuda/machine.h"
#include "src/simcuda/scheduler.h"
#include "tests/random_program.h"

namespace pinring {

struct RunSettings {
  simcuda::MachineOptions machine;
  uint64_t schedule_seed = 1;
  bool staged = false;
  EngineOptions engine;  // movers are scheduled, not threads
  int movers = 2;
  uint64_t max_steps = 2'000'000;
};

struct RunResult {
  simcuda::Scheduler::Outcome::Kind outcome =
      simcuda::Scheduler::Outcome::kCompleted;
  std::string detail;
  // What each thread saw: a hash at each check, and of its streams' device
  // buffers at the end.
  std::vector<std::vector<uint64_t>> seen;
  std::vector<std::string> hazards;
  uint64_t ring_copies = 0;
  uint64_t promoted_copies = 0;

  bool completed() const {
    return outcome == simcuda::Scheduler::Outcome::kCompleted;
  }
};

RunResult RunProgram(const RandomProgram& program, const RunSettings& settings);

}  // namespace pinring

#endif  // PINRING_TESTS_PROGRAM_RUNNER_H_
