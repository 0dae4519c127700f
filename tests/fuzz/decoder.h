// Turns a string of bytes into a program. Every string is one: what a byte
// would make wrong is made right, by waits and events that are put in between,
// so that a program has no data race and completes natively with one hardware
// queue for everything. What it observes then depends on nothing but itself.

#ifndef PINRING_TESTS_FUZZ_DECODER_H_
#define PINRING_TESTS_FUZZ_DECODER_H_

#include <cstddef>
#include <cstdint>

#include "tests/fuzz/operation.h"

namespace pinring::fuzz {

Program Decode(const uint8_t* data, size_t size);

}  // namespace pinring::fuzz

#endif  // PINRING_TESTS_FUZZ_DECODER_H_
