#ifndef PINRING_SRC_OS_LIBRARY_H_
#define PINRING_SRC_OS_LIBRARY_H_

// Shared libraries that are opened at run time.

#include <initializer_list>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace pinring::os {

// A loaded shared library. It stays loaded for the life of the process, since
// its code may still run when the process exits; copies refer to the same one.
// Thread-safe.
class SharedLibrary {
 public:
  // Opens the first of `names` (file names or paths) that the system's loader
  // can open. Error: kNotFound, with the loader's text for each name.
  [[nodiscard]] static absl::StatusOr<SharedLibrary> Open(
      absl::Span<const char* const> names);
  [[nodiscard]] static absl::StatusOr<SharedLibrary> Open(
      std::initializer_list<const char*> names) {
    return Open(absl::Span<const char* const>(names.begin(), names.size()));
  }

  // The address of `symbol`. Error: kNotFound, with the loader's text.
  [[nodiscard]] absl::StatusOr<void*> Find(const char* symbol) const;

  // The same, or null: for symbols that may be missing.
  [[nodiscard]] void* FindOrNull(const char* symbol) const;

 private:
  explicit SharedLibrary(void* handle) : handle_(handle) {}

  void* handle_;  // From dlopen or LoadLibrary.
};

}  // namespace pinring::os

#endif  // PINRING_SRC_OS_LIBRARY_H_
