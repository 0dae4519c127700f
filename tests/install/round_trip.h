/* What every program that uses an installed pinring does here: bytes go from a
 * staged block to the device and come back into another one. Without a device
 * pinring has to say so. C11 and C++17. */

#ifndef PINRING_TESTS_INSTALL_ROUND_TRIP_H_
#define PINRING_TESTS_INSTALL_ROUND_TRIP_H_

#include <dlfcn.h>
#include <pinring/pinring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline int Failed(const char* what, cudaError_t error) {
  fprintf(stderr, "%s: %d, %s\n", what, (int)error,
          pinringGetLastErrorMessage());
  return 1;
}

/* Device memory from the driver itself: pinring allocates none, and these
 * programs link nothing of CUDA. */
static inline void* DeviceMemory(size_t bytes) {
  typedef int (*MemAlloc)(unsigned long long* pointer, size_t bytes);
  unsigned long long pointer = 0;
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  void* const symbol = driver != NULL ? dlsym(driver, "cuMemAlloc_v2") : NULL;
  MemAlloc allocate = NULL;
  memcpy(&allocate, &symbol, sizeof symbol);
  if (allocate == NULL || allocate(&pointer, bytes) != 0) return NULL;
  return (void*)(size_t)pointer;
}

/* The exit status of the program. */
static inline int RoundTrip(void) {
  const size_t bytes = (3 << 20) + 5;
  void* out = NULL;
  void* back = NULL;
  void* small = NULL;
  void* device = NULL;
  size_t i;
  int version = 0;
  cudaError_t error = pinringGetVersion(&version);
  if (error != cudaSuccess || version != PINRING_VERSION) {
    return Failed("pinringGetVersion", error);
  }

  error = pinringMallocHost(&out, bytes);
  if (error == cudaErrorInsufficientDriver || error == cudaErrorNoDevice) {
    if (out != NULL || strlen(pinringGetLastErrorMessage()) == 0 ||
        pinringGetLastError() != error) {
      return Failed("the error without a device", error);
    }
    printf("no device (%s): %s\n",
           error == cudaErrorNoDevice ? "cudaErrorNoDevice"
                                      : "cudaErrorInsufficientDriver",
           pinringGetLastErrorMessage());
    return 0;
  }
  if (error != cudaSuccess) return Failed("pinringMallocHost", error);
  error = pinringMallocHost(&back, bytes);
  if (error != cudaSuccess) return Failed("pinringMallocHost", error);
  /* A small block is really pinned: as with the runtime, a device becomes
   * current for that. */
  error = pinringMallocHost(&small, 64);
  if (error != cudaSuccess) return Failed("pinringMallocHost", error);
  device = DeviceMemory(bytes);
  if (device == NULL) return Failed("cuMemAlloc", cudaSuccess);

  for (i = 0; i < bytes; ++i) ((unsigned char*)out)[i] = (unsigned char)(i / 7);
  error = pinringMemcpyAsync(device, out, bytes, cudaMemcpyHostToDevice, 0);
  if (error != cudaSuccess) return Failed("pinringMemcpyAsync", error);
  error = pinringMemcpy(back, device, bytes, cudaMemcpyDeviceToHost);
  if (error != cudaSuccess) return Failed("pinringMemcpy", error);
  if (memcmp(out, back, bytes) != 0) {
    return Failed("other bytes came back", cudaSuccess);
  }

  error = pinringFreeHost(out);
  if (error != cudaSuccess) return Failed("pinringFreeHost", error);
  error = pinringFreeHost(back);
  if (error != cudaSuccess) return Failed("pinringFreeHost", error);
  error = pinringFreeHost(small);
  if (error != cudaSuccess) return Failed("pinringFreeHost", error);
  printf("round trip of %zu bytes: right\n", bytes);
  return 0;
}

#endif /* PINRING_TESTS_INSTALL_ROUND_TRIP_H_ */
