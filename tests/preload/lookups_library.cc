// The library after the program in the order of look-ups.

#include <dlfcn.h>

extern "C" int pinring_lookups_where() { return 2; }

extern "C" int pinring_lookups_next_from_library(const char* name) {
  using Where = int (*)();
  const auto next = reinterpret_cast<Where>(dlsym(RTLD_NEXT, name));
  return next == nullptr ? 0 : next();
}
