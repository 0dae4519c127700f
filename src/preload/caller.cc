#include "src/preload/caller.h"

#include <link.h>
#include <unistd.h>
#include <unwind.h>

#include <array>
#include <climits>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "src/preload/module_symbols.h"

namespace pinring::preload {
namespace {

constexpr int kMostFrames = 48;

absl::string_view FileName(absl::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == absl::string_view::npos ? path : path.substr(slash + 1);
}

// The program's own path: the loader knows it by no name.
std::string ProgramPath() {
  std::array<char, PATH_MAX> path;
  const ssize_t bytes = readlink("/proc/self/exe", path.data(), path.size());
  return bytes > 0 ? std::string(path.data(), static_cast<size_t>(bytes))
                   : std::string("program");
}

struct Walk {
  const link_map* own = nullptr;
  const link_map* last = nullptr;
  const link_map* found = nullptr;
  int frames = 0;
};

_Unwind_Reason_Code Visit(_Unwind_Context* context, void* data) {
  auto* const walk = static_cast<Walk*>(data);
  if (++walk->frames > kMostFrames) return _URC_END_OF_STACK;
  const auto code = static_cast<uintptr_t>(_Unwind_GetIP(context));
  if (code == 0) return _URC_END_OF_STACK;
  const link_map* const library =
      ModuleOf(reinterpret_cast<const void*>(code - 1));
  if (library == nullptr || library == walk->own || library == walk->last) {
    return _URC_NO_REASON;
  }
  walk->last = library;
  if (IsCudaLibrary(FileName(library->l_name))) return _URC_NO_REASON;
  walk->found = library;
  return _URC_END_OF_STACK;
}

}  // namespace

bool IsCudaLibrary(absl::string_view file_name) {
  return absl::StartsWith(file_name, "libcuda.so") ||
         absl::StartsWith(file_name, "libcudart.so") ||
         absl::StartsWith(file_name, "libcudart-") ||
         absl::StartsWith(file_name, "libffi.so") ||
         absl::StartsWith(file_name, "_ctypes.");
}

std::string CategoryOfPath(absl::string_view path) {
  for (const absl::string_view folder :
       {"/site-packages/", "/dist-packages/"}) {
    const size_t at = path.rfind(folder);
    if (at == absl::string_view::npos) continue;
    absl::string_view package = path.substr(at + folder.size());
    package = package.substr(0, package.find('/'));
    package = package.substr(0, package.find('.'));
    // CuPy's own libraries lie in a package beside its main one.
    if (absl::StartsWith(package, "cupy")) return "cupy";
    if (!package.empty()) return std::string(package);
  }
  absl::string_view name = FileName(path);
  const size_t end = name.find(".so");
  if (end != absl::string_view::npos) {
    absl::ConsumePrefix(&name, "lib");
    name = name.substr(0, name.find(".so"));
    name = name.substr(0, name.find(".cpython-"));
  }
  return name.empty() ? "program" : std::string(name.substr(0, 255));
}

Caller FindCaller() {
  Walk walk;
  walk.own = ModuleOf(reinterpret_cast<const void*>(&FindCaller));
  (void)_Unwind_Backtrace(&Visit, &walk);
  if (walk.found == nullptr) return {};
  const absl::string_view name = walk.found->l_name;
  const std::string path = name.empty() ? ProgramPath() : std::string(name);
  return {.library = std::string(FileName(path)),
          .category = CategoryOfPath(path)};
}

}  // namespace pinring::preload
