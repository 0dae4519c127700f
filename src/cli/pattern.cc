#include "src/cli/pattern.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "src/copy/worker_pool.h"

namespace pinring::cli {
namespace {

constexpr size_t kWordBytes = sizeof(uint64_t);
constexpr size_t kPieceBytes = size_t{4} << 20;

// Splitmix64: every seed and index give another, well mixed, word.
uint64_t PatternWord(uint64_t seed, uint64_t index) {
  uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

uint64_t WrongBytesOfWord(uint64_t difference) {
  uint64_t wrong = 0;
  for (; difference != 0; difference >>= 8) wrong += (difference & 0xff) != 0;
  return wrong;
}

}  // namespace

void FillPattern(void* data, size_t bytes, uint64_t seed, int threads,
                 Progress* progress) {
  auto* const out = static_cast<unsigned char*>(data);
  copy::ParallelFor(threads, bytes, kPieceBytes, [&](size_t begin, size_t end) {
    for (size_t at = begin; at < end; at += kWordBytes) {
      const uint64_t word = PatternWord(seed, at / kWordBytes);
      std::memcpy(out + at, &word, std::min(kWordBytes, end - at));
    }
    progress->Add(end - begin);
  });
}

uint64_t CountWrongBytes(const void* data, size_t bytes, uint64_t seed,
                         int threads, Progress* progress) {
  const auto* const in = static_cast<const unsigned char*>(data);
  std::atomic<uint64_t> wrong{0};
  copy::ParallelFor(threads, bytes, kPieceBytes, [&](size_t begin, size_t end) {
    uint64_t wrong_here = 0;
    for (size_t at = begin; at < end; at += kWordBytes) {
      const size_t n = std::min(kWordBytes, end - at);
      const uint64_t expected = PatternWord(seed, at / kWordBytes);
      uint64_t expected_part = 0;
      uint64_t found = 0;
      std::memcpy(&expected_part, &expected, n);
      std::memcpy(&found, in + at, n);
      wrong_here += WrongBytesOfWord(expected_part ^ found);
    }
    wrong.fetch_add(wrong_here, std::memory_order_relaxed);
    progress->Add(end - begin);
  });
  return wrong.load(std::memory_order_relaxed);
}

}  // namespace pinring::cli
