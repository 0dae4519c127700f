// Every function that the runtime's header declares, as a weak symbol that
// gives way to the real one where there is one. So a program that refers to
// more of the runtime than is simulated starts, and a call tells what it
// lacks, instead of the loader.
//
// The definitions need no parameters, as their callers clean up after
// themselves; that is why no header may declare these names here. The build
// makes the list from the header.

#include "src/simcuda/shared/runtime_missing.h"

#include <atomic>

#define PINRING_CUDART_FUNCTION(name)                                  \
  extern "C" __attribute__((visibility("default"), weak)) int name() { \
    static std::atomic<bool> said{false};                              \
    return pinring::simcudart::NotSimulated(#name, &said);             \
  }

#include "runtime_functions.inc"
