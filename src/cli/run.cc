#include "src/cli/run.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "src/os/env.h"
#include "src/os/program.h"

// From this command's folder to the libraries', where both are installed.
#if !defined(PINRING_LIBRARY_FOLDER)
#define PINRING_LIBRARY_FOLDER "../lib"
#endif

namespace pinring::cli {
namespace {

constexpr char kLibrary[] = "libpinring_preload.so";
constexpr int kNoLibrary = 1;
constexpr int kCannotRun = 126;
constexpr int kNoProgram = 127;

// Errors: kNotFound, kUnimplemented.
absl::StatusOr<std::string> FindLibrary(const std::string& given) {
  if (!given.empty()) {
    if (os::IsReadable(given)) return given;
    return absl::NotFoundError(
        absl::StrCat("--library=", given, ": no such file"));
  }
  const auto folder = os::ProgramFolder();
  if (!folder.ok()) return folder.status();
  std::string looked;
  for (const std::string& place :
       {absl::StrCat(*folder, "/", kLibrary),
        absl::StrCat(*folder, "/" PINRING_LIBRARY_FOLDER "/", kLibrary)}) {
    if (os::IsReadable(place)) return place;
    absl::StrAppend(&looked, looked.empty() ? "" : " and ", place);
  }
  return absl::NotFoundError(
      absl::StrCat("no preload library at ", looked,
                   "; say where it is with --library=FILE"));
}

int ExitStatus(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return kNoProgram;
    case absl::StatusCode::kPermissionDenied:
      return kCannotRun;
    default:
      return kNoLibrary;
  }
}

int Fail(const absl::Status& status, int exit_status) {
  os::WriteErrorLine(absl::StrCat("pinring run: ", status.message()));
  return exit_status;
}

}  // namespace

int RunProgram(const std::string& library,
               absl::Span<const std::string> command) {
  const auto found = FindLibrary(library);
  if (!found.ok()) return Fail(found.status(), kNoLibrary);
  const absl::Status status = os::RunPreloaded(*found, command);
  return Fail(status, ExitStatus(status));
}

}  // namespace pinring::cli
