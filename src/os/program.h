#ifndef PINRING_SRC_OS_PROGRAM_H_
#define PINRING_SRC_OS_PROGRAM_H_

// The program that runs, and another in its place.

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace pinring::os {

// The folder of the running program's file. Errors: kNotFound.
[[nodiscard]] absl::StatusOr<std::string> ProgramFolder();

// Whether the file is there and can be read.
[[nodiscard]] bool IsReadable(const std::string& path);

// Runs `command`, a program and its arguments, in place of this one, with
// `library` loaded before its own libraries and before those that the
// environment names. Returns only where that fails. Errors: kNotFound (no such
// program), kPermissionDenied, kInvalidArgument (no command, or a path with a
// colon or a blank, which the loader takes for two), kUnimplemented on systems
// that have no such thing, kInternal.
absl::Status RunPreloaded(const std::string& library,
                          absl::Span<const std::string> command);

}  // namespace pinring::os

#endif  // PINRING_SRC_OS_PROGRAM_H_
