// Ends the process where an invariant of pinring's own is broken: going on
// would move wrong bytes.

#ifndef PINRING_SRC_OS_CHECK_H_
#define PINRING_SRC_OS_CHECK_H_

#include <cstdio>
#include <cstdlib>

#define PINRING_CHECK(condition, text)                                        \
  do {                                                                        \
    if (!(condition)) {                                                       \
      std::fprintf(stderr, "pinring: internal error: %s (%s, %s:%d)\n", text, \
                   #condition, __FILE__, __LINE__);                           \
      std::abort();                                                           \
    }                                                                         \
  } while (false)

#endif  // PINRING_SRC_OS_CHECK_H_
