// libFuzzer's entry: an input is a program (decoder.h). One that pinring does
// not run as really pinned memory would be ends the process, described.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/fuzz/decoder.h"
#include "tests/fuzz/verdict.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const pinring::fuzz::Program program = pinring::fuzz::Decode(data, size);
  const pinring::fuzz::Verdict verdict = pinring::fuzz::Judge(program);
  if (verdict.wrong.empty()) return 0;
  std::fprintf(stderr, "%s\n%s", program.Describe().c_str(),
               verdict.wrong.c_str());
  std::abort();
}
