// Random bytes that are known without being kept: byte i of a pattern depends
// on i and the seed only, so a copy is checked against what it should be, not
// against a source that may have suffered itself.

#ifndef PINRING_SRC_CLI_PATTERN_H_
#define PINRING_SRC_CLI_PATTERN_H_

#include <cstddef>
#include <cstdint>

#include "src/cli/progress.h"

namespace pinring::cli {

// Fills [data, data + bytes) with the pattern of `seed`, with `threads`.
void FillPattern(void* data, size_t bytes, uint64_t seed, int threads,
                 Progress* progress);

// How many bytes differ from the pattern.
uint64_t CountWrongBytes(const void* data, size_t bytes, uint64_t seed,
                         int threads, Progress* progress);

}  // namespace pinring::cli

#endif  // PINRING_SRC_CLI_PATTERN_H_
