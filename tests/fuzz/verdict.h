// What is wrong with how pinring runs a program, by itself and beside the same
// program with really pinned memory.

#ifndef PINRING_TESTS_FUZZ_VERDICT_H_
#define PINRING_TESTS_FUZZ_VERDICT_H_

#include <cstdint>
#include <string>

#include "tests/fuzz/operation.h"

namespace pinring::fuzz {

struct Verdict {
  std::string wrong;  // empty when nothing is
  bool hung = false;  // nothing of the process can be trusted any more
  uint64_t ring_copies = 0;
};

Verdict Judge(const Program& program);

}  // namespace pinring::fuzz

#endif  // PINRING_TESTS_FUZZ_VERDICT_H_
