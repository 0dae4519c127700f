// What dlsym answers, which depends on who calls it. Linked with nothing of
// CUDA's; prints what it finds, so that two runs can be compared.
//
//   lookups               without a driver
//   lookups --driver      with one in LD_LIBRARY_PATH

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

// Also in the library that the program is linked with.
extern "C" int pinring_lookups_where() { return 1; }
extern "C" int pinring_lookups_next_from_library(const char* name);

namespace {

void Say(const char* what, bool so) {
  std::printf("%s: %s\n", what, so ? "yes" : "no");
}

const char* Error() {
  const char* const text = dlerror();
  return text == nullptr ? "(none)" : text;
}

// A symbol of the program, of the library after it, of neither.
void Order() {
  using Where = int (*)();
  const auto first =
      reinterpret_cast<Where>(dlsym(RTLD_DEFAULT, "pinring_lookups_where"));
  const auto next =
      reinterpret_cast<Where>(dlsym(RTLD_NEXT, "pinring_lookups_where"));
  std::printf("default %d, next %d, next from the library %d\n",
              first == nullptr ? 0 : first(), next == nullptr ? 0 : next(),
              pinring_lookups_next_from_library("pinring_lookups_where"));
  Say("malloc is found",
      dlsym(RTLD_DEFAULT, "malloc") == reinterpret_cast<void*>(&std::malloc));
  for (const char* const name : {"cu", "cup_of_tea", "curl_easy_init", "c", "",
                                 "cuNoSuchFunction", "cUInit"}) {
    dlerror();
    void* const found = dlsym(RTLD_DEFAULT, name);
    const char* const error = Error();
    // The program's own name stands before the text.
    const char* const text = std::strstr(error, "undefined symbol");
    std::printf("%s: %s, %s\n", name, found == nullptr ? "nothing" : "found",
                text == nullptr ? error : text);
  }
}

void WithoutDriver() {
  for (const char* const name :
       {"cuInit", "cuMemHostAlloc", "cuGetProcAddress_v2", "cuMemcpyHtoD_v2"}) {
    dlerror();
    Say(name, dlsym(RTLD_DEFAULT, name) != nullptr);
    Say("an error is told", dlerror() != nullptr);
  }
}

constexpr const char* kNames[] = {"cuMemHostAlloc", "cuMemcpyHtoDAsync_v2",
                                  "cuMemcpyHtoDAsync_v2_ptsz", "cuInit",
                                  "cuCtxGetCurrent"};

// Threads that are all the first to look.
void Threads(void* library) {
  std::vector<std::vector<void*>> found(8);
  std::vector<std::thread> threads;
  threads.reserve(found.size());
  for (auto& mine : found) {
    threads.emplace_back([&mine, library] {
      for (const char* const name : kNames) {
        mine.push_back(dlsym(library, name));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  bool same = true;
  for (const auto& mine : found) same = same && mine == found[0];
  Say("all threads find the same", same);
  for (void* const function : found[0]) Say("found", function != nullptr);
}

void WithDriver() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::printf("no driver: %s\n", Error());
    std::exit(1);
  }
  dlerror();
  Say("found", dlsym(library, "cuMemHostAlloc") != nullptr);
  std::printf("then dlerror says %s\n", Error());
  Threads(library);
  Say("no such function", dlsym(library, "cuNoSuchFunction") == nullptr);
  Say("an error is told", dlerror() != nullptr);
  using Init = int (*)(unsigned);
  const auto init = reinterpret_cast<Init>(dlsym(library, "cuInit"));
  std::printf("cuInit: %d\n", init == nullptr ? -1 : init(0));
  // In the global scope from here on.
  dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  for (const char* const name : kNames) {
    Say(name, dlsym(RTLD_DEFAULT, name) != nullptr);
    Say("after the program", dlsym(RTLD_NEXT, name) != nullptr);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Order();
  if (argc > 1 && std::strcmp(argv[1], "--driver") == 0) {
    WithDriver();
  } else {
    WithoutDriver();
  }
  return 0;
}
