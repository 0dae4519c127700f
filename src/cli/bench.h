// `pinring bench`: how fast copies are here, pinned, pageable and staged.

#ifndef PINRING_SRC_CLI_BENCH_H_
#define PINRING_SRC_CLI_BENCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "src/cli/timing.h"

namespace pinring::cli {

struct BenchOptions {
  std::vector<uint64_t> sizes;  // empty: what suits the machine
  int rounds = 0;               // 0: by size
  bool with_pinned = true;
  bool json = false;
};

// Prints a table with bars on standard output; with `json`, one JSON object
// there and the rest on standard error. A simulated device is not timed: bytes
// are compared, and that is all. Returns the exit status: 0 only if every byte
// was right.
int RunBench(const BenchOptions& options);

// A table of one direction, with bars, for sizes that were timed.
std::string FormatBars(const std::vector<Timing>& timings, bool to_device);

}  // namespace pinring::cli

#endif  // PINRING_SRC_CLI_BENCH_H_
