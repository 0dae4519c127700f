// pinring.h alone, as C++17.
#include <pinring/pinring.h>

static_assert(__cplusplus >= 201703L && __cplusplus < 202002L);

int main() {
  const pinringUsage usage = PINRING_USAGE_INIT;
  int version = 0;
  return pinringGetVersion(&version) == cudaSuccess &&
                 version == PINRING_VERSION && usage.categoryCount == 0
             ? 0
             : 1;
}
