#include <windows.h>

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "src/os/library.h"
#include "src/os/text_windows.h"

namespace pinring::os {
namespace {

// Keeps Windows from showing a message box, for which the process would wait,
// when a library is broken.
class ScopedNoMessageBox {
 public:
  ScopedNoMessageBox()
      : changed_(
            SetThreadErrorMode(SEM_FAILCRITICALERRORS | SEM_NOOPENFILEERRORBOX,
                               &before_) != 0) {}
  ~ScopedNoMessageBox() {
    if (changed_) SetThreadErrorMode(before_, nullptr);
  }

 private:
  DWORD before_ = 0;
  const bool changed_;
};

HMODULE Load(absl::string_view name) {
  const ScopedNoMessageBox no_message_box;
  std::wstring wide = Widen(name);
  if (name.find_first_of("/\\:") != absl::string_view::npos) {
    // The loader knows paths only in this form.
    std::replace(wide.begin(), wide.end(), L'/', L'\\');
    return LoadLibraryW(wide.c_str());
  }
  // A bare name is looked for in the program's folder and in the system's, not
  // in the current one or on the PATH, where anybody may have put a file.
  return LoadLibraryExW(wide.c_str(), nullptr,
                        LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
}

}  // namespace

absl::StatusOr<SharedLibrary> SharedLibrary::Open(
    absl::Span<const char* const> names) {
  std::string reasons;
  for (const char* const name : names) {
    const HMODULE handle = Load(name);
    if (handle != nullptr) return SharedLibrary(handle);
    absl::StrAppend(&reasons, reasons.empty() ? "" : "; ", name, ": ",
                    WindowsErrorText(GetLastError()));
  }
  return absl::NotFoundError(reasons.empty() ? "no library named" : reasons);
}

absl::StatusOr<void*> SharedLibrary::Find(const char* symbol) const {
  void* const address = FindOrNull(symbol);
  if (address == nullptr) {
    return absl::NotFoundError(
        absl::StrCat(symbol, ": ", WindowsErrorText(GetLastError())));
  }
  return address;
}

void* SharedLibrary::FindOrNull(const char* symbol) const {
  return reinterpret_cast<void*>(
      GetProcAddress(static_cast<HMODULE>(handle_), symbol));
}

}  // namespace pinring::os
