// A driver whose cuGetProcAddress gives other ways into its functions than
// those that it exports, and newer forms than any header knows. Built as
// libcuda.so.1.

#include <cstdint>
#include <cstring>

extern "C" {

__attribute__((visibility("default"))) int cuInit(unsigned) { return 0; }
__attribute__((visibility("default"))) int cuDriverGetVersion(int* version) {
  *version = 99000;
  return 0;
}
__attribute__((visibility("default"))) int cuMemFreeHost(void*) { return 41; }
__attribute__((visibility("default"))) int cuMemcpyHtoD_v2(uint64_t,
                                                           const void*,
                                                           size_t) {
  return 42;
}

int OtherFreeHost(void*) { return 41; }
int OtherCopy(uint64_t, const void*, size_t) { return 42; }
int CopyOfTheFuture(const void*) { return 43; }

__attribute__((visibility("default"))) int cuGetProcAddress(const char* name,
                                                            void** function,
                                                            int version,
                                                            uint64_t) {
  *function = nullptr;
  if (std::strcmp(name, "cuMemFreeHost") == 0) {
    *function = reinterpret_cast<void*>(&OtherFreeHost);
  }
  if (std::strcmp(name, "cuMemcpyHtoD") == 0) {
    *function = version >= 99000 ? reinterpret_cast<void*>(&CopyOfTheFuture)
                                 : reinterpret_cast<void*>(&OtherCopy);
  }
  return *function == nullptr ? 500 : 0;
}

}  // extern "C"
