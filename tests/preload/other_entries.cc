// Which functions the preload library puts for those of such a driver: the
// argument says whether it is there.

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace {

using GetProcAddress = int (*)(const char*, void**, int, uint64_t);
using FreeHost = int (*)(void*);
using Copy = int (*)(uint64_t, const void*, size_t);
using CopyOfTheFuture = int (*)(const void*);

void Check(bool so, const char* what) {
  if (so) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::exit(1);
}

// Whether the code is the driver's.
bool IsDrivers(void* function) {
  Dl_info info;
  return dladdr(function, &info) != 0 &&
         std::strstr(info.dli_fname, "libcuda.so.1") != nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  const bool preloaded = argc > 1 && std::strcmp(argv[1], "--preloaded") == 0;
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  Check(library != nullptr, "the driver loads");
  const auto get =
      reinterpret_cast<GetProcAddress>(dlsym(library, "cuGetProcAddress"));
  const auto find = [&](const char* name, int version) {
    void* function = nullptr;
    Check(get(name, &function, version, 0) == 0, name);
    return function;
  };
  for (const int version : {4000, 13000, 98000}) {
    void* const free = find("cuMemFreeHost", version);
    void* const copy = find("cuMemcpyHtoD", version);
    Check(IsDrivers(free) != preloaded, "a free is wrapped");
    Check(IsDrivers(copy) != preloaded, "a copy is wrapped");
    int there = 0;
    Check(reinterpret_cast<FreeHost>(free)(&there) == 41, "the free is called");
    Check(reinterpret_cast<Copy>(copy)(8, &there, 4) == 42,
          "the copy is called");
  }
  void* const future = find("cuMemcpyHtoD", 99000);
  Check(IsDrivers(future), "what nobody knows is the driver's");
  Check(reinterpret_cast<CopyOfTheFuture>(future)(nullptr) == 43,
        "and is called as it is");
  return 0;
}
