// Bytes that differ from seed to seed and from place to place, so that a copy
// that read too early, too late, elsewhere or not at all is seen.

#ifndef PINRING_TESTS_SUPPORT_RANDOM_BYTES_H_
#define PINRING_TESTS_SUPPORT_RANDOM_BYTES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace pinring {

// The eight bytes at 8 * index of the sequence of `seed` (splitmix64).
constexpr uint64_t RandomWord(uint64_t seed, uint64_t index) {
  uint64_t word =
      seed * 0xd1342543de82ef95u + (index + 1) * 0x9e3779b97f4a7c15u;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9u;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebu;
  return word ^ (word >> 31);
}

inline void FillRandom(void* data, size_t bytes, uint64_t seed) {
  auto* out = static_cast<char*>(data);
  for (size_t i = 0; i * 8 < bytes; ++i) {
    const uint64_t word = RandomWord(seed, i);
    std::memcpy(out + i * 8, &word, std::min<size_t>(8, bytes - i * 8));
  }
}

// How many bytes differ from what FillRandom writes.
inline size_t WrongBytes(const void* data, size_t bytes, uint64_t seed) {
  const auto* in = static_cast<const char*>(data);
  size_t wrong = 0;
  for (size_t i = 0; i * 8 < bytes; ++i) {
    const size_t length = std::min<size_t>(8, bytes - i * 8);
    const uint64_t word = RandomWord(seed, i);
    if (std::memcmp(in + i * 8, &word, length) == 0) continue;
    const auto* expected = reinterpret_cast<const char*>(&word);
    for (size_t b = 0; b < length; ++b) wrong += in[i * 8 + b] != expected[b];
  }
  return wrong;
}

inline size_t BytesThatAreNot(const void* data, size_t bytes, char value) {
  const auto* in = static_cast<const char*>(data);
  return bytes - static_cast<size_t>(std::count(in, in + bytes, value));
}

}  // namespace pinring

#endif  // PINRING_TESTS_SUPPORT_RANDOM_BYTES_H_
