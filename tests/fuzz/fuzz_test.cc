// Fuzzed programs (decoder.h) with pinring and natively: those that were kept
// in corpus/, and random ones.
//
// PINRING_TEST_PROGRAMS says how many random programs run (a third of it: they
// are long ones), PINRING_TEST_SEED where their seeds begin; PINRING_FUZZ_INPUT
// names a file that is run and described instead, one that pinring_fuzz has
// left for instance.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/fuzz/decoder.h"
#include "tests/fuzz/runner.h"
#include "tests/fuzz/verdict.h"
#include "tests/support/random_bytes.h"

namespace pinring::fuzz {
namespace {

constexpr size_t kMostBytes = 1500;

uint64_t Number(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  uint64_t number = 0;
  return text != nullptr && absl::SimpleAtoi(text, &number) ? number
                                                            : otherwise;
}

std::vector<uint8_t> Read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<uint8_t> RandomInput(uint64_t seed) {
  std::vector<uint8_t> bytes(40 + RandomWord(seed, 1'000'000) % kMostBytes);
  FillRandom(bytes.data(), bytes.size(), seed);
  return bytes;
}

Program Decoded(const std::vector<uint8_t>& bytes) {
  return Decode(bytes.data(), bytes.size());
}

TEST(FuzzTest, KeptProgramsAreAsNatively) {
  const char* input = std::getenv("PINRING_FUZZ_INPUT");
  std::vector<std::filesystem::path> paths;
  if (input != nullptr) {
    paths.emplace_back(input);
    std::printf("%s", Decoded(Read(input)).Describe().c_str());
    std::fflush(stdout);
  } else {
    for (const auto& entry :
         std::filesystem::directory_iterator(PINRING_FUZZ_CORPUS)) {
      paths.push_back(entry.path());
    }
    std::sort(paths.begin(), paths.end());
    ASSERT_GT(paths.size(), 10u) << "where is " << PINRING_FUZZ_CORPUS << "?";
  }
  for (const auto& path : paths) {
    const Program program = Decoded(Read(path));
    const Verdict verdict = Judge(program);
    ASSERT_EQ(verdict.wrong, "") << path << "\n" << program.Describe();
  }
}

TEST(FuzzTest, RandomProgramsAreAsNatively) {
  if (std::getenv("PINRING_FUZZ_INPUT") != nullptr) {
    GTEST_SKIP() << "only the program in PINRING_FUZZ_INPUT runs";
  }
  const uint64_t programs = Number("PINRING_TEST_PROGRAMS", 1800) / 3;
  const uint64_t first = Number("PINRING_TEST_SEED", 1);
  uint64_t operations = 0;
  uint64_t ring_copies = 0;
  for (uint64_t seed = first; seed < first + programs; ++seed) {
    const Program program = Decoded(RandomInput(seed));
    operations += program.operations.size();
    const Verdict verdict = Judge(program);
    ring_copies += verdict.ring_copies;
    ASSERT_EQ(verdict.wrong, "") << "PINRING_TEST_SEED=" << seed << "\n"
                                 << program.Describe();
  }
  std::printf("%s\n",
              absl::StrCat(programs, " programs, ", operations, " operations, ",
                           ring_copies, " copies through the ring")
                  .c_str());
  if (programs > 100) {
    EXPECT_GT(ring_copies, programs);
  }
}

TEST(FuzzTest, AnInputIsReplayedExactly) {
  if (std::getenv("PINRING_FUZZ_INPUT") != nullptr) {
    GTEST_SKIP() << "only the program in PINRING_FUZZ_INPUT runs";
  }
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Program program = Decoded(RandomInput(seed));
    const Report once = RunWithPinring(program);
    const Report again = RunWithPinring(program);
    EXPECT_EQ(once.trace, again.trace) << seed;
    EXPECT_EQ(once.devices, again.devices) << seed;
  }
}

}  // namespace
}  // namespace pinring::fuzz
