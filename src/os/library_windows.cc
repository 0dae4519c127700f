#include <windows.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "src/os/library.h"

namespace pinring::os {

absl::StatusOr<SharedLibrary> SharedLibrary::Open(
    absl::Span<const char* const> names) {
  std::string reasons;
  for (const char* const name : names) {
    const HMODULE handle = LoadLibraryA(name);
    if (handle != nullptr) return SharedLibrary(handle);
    absl::StrAppend(&reasons, reasons.empty() ? "" : "; ", name,
                    ": Windows error ", GetLastError());
  }
  return absl::NotFoundError(reasons.empty() ? "no library named" : reasons);
}

absl::StatusOr<void*> SharedLibrary::Find(const char* symbol) const {
  void* const address = FindOrNull(symbol);
  if (address == nullptr) {
    return absl::NotFoundError(
        absl::StrCat(symbol, ": Windows error ", GetLastError()));
  }
  return address;
}

void* SharedLibrary::FindOrNull(const char* symbol) const {
  return reinterpret_cast<void*>(
      GetProcAddress(static_cast<HMODULE>(handle_), symbol));
}

}  // namespace pinring::os
