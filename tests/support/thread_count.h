#ifndef PINRING_TESTS_SUPPORT_THREAD_COUNT_H_
#define PINRING_TESTS_SUPPORT_THREAD_COUNT_H_

#include <cstddef>

namespace pinring {

// How many threads this process has now, whoever started them.
size_t ThreadCount();

}  // namespace pinring

#endif  // PINRING_TESTS_SUPPORT_THREAD_COUNT_H_
