// Bytes that differ from seed to seed and from place to place, so that a copy
// that read too early, too late, elsewhere or not at all is seen.

#ifndef PINRING_TESTS_SUPPORT_RANDOM_BYTES_H_
#define PINRING_TESTS_SUPPORT_RANDOM_BYTES_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/functional/function_ref.h"
#include "src/copy/worker_pool.h"
#include "src/os/threads.h"

namespace pinring {

// The eight bytes at 8 * index of the sequence of `seed` (splitmix64).
constexpr uint64_t RandomWord(uint64_t seed, uint64_t index) {
  uint64_t word =
      seed * 0xd1342543de82ef95u + (index + 1) * 0x9e3779b97f4a7c15u;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
  return word ^ (word >> 31);
}

// Calls `fn` for all of [0, bytes), by several threads where that is worth it,
// in pieces that begin at multiples of 8.
inline void ForPieces(size_t bytes,
                      absl::FunctionRef<void(size_t begin, size_t end)> fn) {
  constexpr size_t kPieceBytes = size_t{8} << 20;
  const int threads = bytes < 4 * kPieceBytes ? 1 : os::UsableCpus();
  copy::ParallelFor(threads, bytes, kPieceBytes, fn);
}

inline void FillRandom(void* data, size_t bytes, uint64_t seed) {
  ForPieces(bytes, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; i += 8) {
      const uint64_t word = RandomWord(seed, i / 8);
      std::memcpy(static_cast<char*>(data) + i, &word,
                  std::min<size_t>(8, end - i));
    }
  });
}

// How many bytes differ from what FillRandom writes.
inline size_t WrongBytes(const void* data, size_t bytes, uint64_t seed) {
  const auto* in = static_cast<const char*>(data);
  std::atomic<size_t> wrong{0};
  ForPieces(bytes, [&](size_t begin, size_t end) {
    size_t wrong_here = 0;
    for (size_t i = begin; i < end; i += 8) {
      const size_t length = std::min<size_t>(8, end - i);
      const uint64_t word = RandomWord(seed, i / 8);
      if (std::memcmp(in + i, &word, length) == 0) continue;
      const auto* expected = reinterpret_cast<const char*>(&word);
      for (size_t b = 0; b < length; ++b)
        wrong_here += in[i + b] != expected[b];
    }
    wrong += wrong_here;
  });
  return wrong;
}

inline size_t BytesThatAreNot(const void* data, size_t bytes, char value) {
  const auto* in = static_cast<const char*>(data);
  return bytes - static_cast<size_t>(std::count(in, in + bytes, value));
}

}  // namespace pinring

#endif  // PINRING_TESTS_SUPPORT_RANDOM_BYTES_H_
