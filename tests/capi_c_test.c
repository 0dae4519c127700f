/* pinring.h as C11, and the library linked into a C program that knows nothing
 * of C++. With a device it copies there and back; without one it expects to be
 * told so. */

#include <pinring/pinring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(pinringUsage) % sizeof(uint64_t) == 0, "no tail");

static int Fail(const char* what, cudaError_t error) {
  fprintf(stderr, "%s: %d, %s\n", what, (int)error,
          pinringGetLastErrorMessage());
  return 1;
}

int main(void) {
  pinringUsage usage = PINRING_USAGE_INIT;
  void* block = NULL;
  int version = 0;
  cudaError_t error = pinringGetVersion(&version);
  if (error != cudaSuccess || version != PINRING_VERSION) {
    return Fail("pinringGetVersion", error);
  }
  error = pinringConfigure("ring_bytes=2MiB");
  if (error != cudaSuccess) return Fail("pinringConfigure", error);

  error = pinringMallocHost(&block, 1 << 20);
  if (error == cudaErrorInsufficientDriver || error == cudaErrorNoDevice) {
    if (pinringGetLastError() != error || block != NULL ||
        strlen(pinringGetLastErrorMessage()) == 0) {
      return Fail("the error without a driver", error);
    }
    printf("no device: %s\n", pinringGetLastErrorMessage());
    return 0;
  }
  if (error != cudaSuccess) return Fail("pinringMallocHost", error);
  memset(block, 1, 1 << 20);
  error = pinringGetUsage(&usage);
  if (error != cudaSuccess ||
      usage.kinds[pinringUsageStaged].currentBytes != 1 << 20) {
    return Fail("pinringGetUsage", error);
  }
  error = pinringFreeHost(block);
  if (error != cudaSuccess) return Fail("pinringFreeHost", error);
  return 0;
}
