// Runs a fuzzed program on a simulated machine under a seeded schedule, with
// pinring's C functions over an instance whose movers are scheduled too, or
// with really pinned memory.

#ifndef PINRING_TESTS_FUZZ_RUNNER_H_
#define PINRING_TESTS_FUZZ_RUNNER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/fuzz/operation.h"

namespace pinring::fuzz {

struct Result {
  static constexpr int kNotRun = -1;
  int code = kNotRun;
  uint64_t seen = 0;     // what was read, or asked
  bool compared = true;  // `seen` is the program's, and not the run's
};

struct Report {
  std::vector<Result> results;  // one for each operation
  // Of the device buffers at the end.
  std::vector<uint64_t> devices;
  std::vector<uint64_t> arrays;
  // What is wrong by itself, in words; empty if nothing is.
  std::string wrong;
  bool hung = false;
  uint64_t ring_copies = 0;
  uint64_t trace = 0;  // of the schedule
};

Report RunWithPinring(const Program& program);
// Leaves out what pinring could rightly refuse and did, and all operations from
// `end` on.
Report RunNatively(const Program& program, const Report& pinring, size_t end);

// Whether an operation may have failed with that code where natively it does
// not.
bool MayFail(const Program& program, const Operation& operation, int code);

}  // namespace pinring::fuzz

#endif  // PINRING_TESTS_FUZZ_RUNNER_H_
