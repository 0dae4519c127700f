#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "src/os/program.h"

namespace pinring::os {
namespace {

constexpr char kPreloadVariable[] = "LD_PRELOAD";

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::StatusCode::kNotFound;
    case EACCES:
    case EPERM:
    case ENOEXEC:
      return absl::StatusCode::kPermissionDenied;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::StatusOr<std::string> ProgramFolder() {
  std::array<char, PATH_MAX> path;
  const ssize_t bytes = readlink("/proc/self/exe", path.data(), path.size());
  if (bytes <= 0) {
    return absl::NotFoundError(
        absl::StrCat("/proc/self/exe cannot be read: ", strerror(errno)));
  }
  const std::string file(path.data(), static_cast<size_t>(bytes));
  return file.substr(0, file.rfind('/'));
}

bool IsReadable(const std::string& path) {
  return access(path.c_str(), R_OK) == 0;
}

absl::Status RunPreloaded(const std::string& library,
                          absl::Span<const std::string> command) {
  if (command.empty()) return absl::InvalidArgumentError("no command");
  if (library.find_first_of(": \t\n") != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the loader takes '", library,
        "' for several paths: move the library to one without blanks and "
        "colons"));
  }
  const char* const before = getenv(kPreloadVariable);
  const std::string value = before == nullptr || *before == '\0'
                                ? library
                                : absl::StrCat(library, ":", before);
  if (setenv(kPreloadVariable, value.c_str(), 1) != 0) {
    return absl::InternalError(
        absl::StrCat(kPreloadVariable, " cannot be set: ", strerror(errno)));
  }
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  return absl::Status(
      CodeOf(error),
      absl::StrCat("'", command[0], "' cannot be run: ", strerror(error)));
}

}  // namespace pinring::os
