// A library that wraps dlsym itself, as tools do that programs are run under:
// counts, and jumps to the next one.

#include <dlfcn.h>

#include <atomic>

namespace {
std::atomic<unsigned> calls{0};
}  // namespace

extern "C" unsigned dlsym_wrapper_calls() { return calls.load(); }

// With a frame of its own, so that RTLD_NEXT means what comes after this
// library: what programs under such tools put up with.
extern "C" void* dlsym(void* handle, const char* name) {
  using Dlsym = void* (*)(void*, const char*);
#if defined(__x86_64__)
  constexpr char kVersion[] = "GLIBC_2.2.5";
#else
  constexpr char kVersion[] = "GLIBC_2.17";
#endif
  static const auto next =
      reinterpret_cast<Dlsym>(dlvsym(RTLD_NEXT, "dlsym", kVersion));
  calls.fetch_add(1);
  return next(handle, name);
}
