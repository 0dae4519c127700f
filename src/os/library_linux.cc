#include <dlfcn.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "src/os/library.h"

namespace pinring::os {
namespace {

std::string LoaderError() {
  const char* const text = dlerror();
  return text != nullptr ? text : "no reason given";
}

}  // namespace

absl::StatusOr<SharedLibrary> SharedLibrary::Open(
    absl::Span<const char* const> names) {
  std::string reasons;
  for (const char* const name : names) {
    void* const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return SharedLibrary(handle);
    // The loader's text begins with the name.
    absl::StrAppend(&reasons, reasons.empty() ? "" : "; ", LoaderError());
  }
  return absl::NotFoundError(reasons.empty() ? "no library named" : reasons);
}

absl::StatusOr<void*> SharedLibrary::Find(const char* symbol) const {
  dlerror();
  void* const address = dlsym(handle_, symbol);
  if (address == nullptr) return absl::NotFoundError(LoaderError());
  return address;
}

void* SharedLibrary::FindOrNull(const char* symbol) const {
  void* const address = dlsym(handle_, symbol);
  dlerror();  // Leave no text behind for the program's next dlerror.
  return address;
}

}  // namespace pinring::os
