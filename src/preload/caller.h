// Who called the driver: the first library on the stack that is neither CUDA's
// nor this one.

#ifndef PINRING_SRC_PRELOAD_CALLER_H_
#define PINRING_SRC_PRELOAD_CALLER_H_

#include <string>

#include "absl/strings/string_view.h"

namespace pinring::preload {

struct Caller {
  std::string library;   // its file's name: "libc10_cuda.so"
  std::string category;  // "torch", "cupy", "jaxlib", the program's name
};

// Walks the calling thread's stack. Some microseconds; allocates. Nothing is
// known where the stack cannot be walked: both are empty then.
Caller FindCaller();

// What a library at `path` is counted under: the package it is part of, where
// it is installed with Python's; its own name without what versions add
// otherwise.
std::string CategoryOfPath(absl::string_view path);

// Whether the library belongs to CUDA itself.
bool IsCudaLibrary(absl::string_view file_name);

}  // namespace pinring::preload

#endif  // PINRING_SRC_PRELOAD_CALLER_H_
