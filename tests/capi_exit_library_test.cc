// Loads the library named by its argument, which uses pinring, and ends with
// copies of it in flight. Not a GoogleTest program, since its end is what is
// tested.

#include <cstdio>

#include "src/os/library.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto library = pinring::os::SharedLibrary::Open({argv[1]});
  if (!library.ok()) {
    std::fprintf(stderr, "%s\n", library.status().ToString().c_str());
    return 1;
  }
  const auto use = reinterpret_cast<void (*)()>(
      library->FindOrNull("UseTheLibraryFromALibrary"));
  if (use == nullptr) return 1;
  use();
  return 0;
}
