#ifndef PINRING_SRC_OS_ENV_H_
#define PINRING_SRC_OS_ENV_H_

// The process's environment variables and its standard error stream.

#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace pinring::os {

// The value of the environment variable `name`; nullopt when it is not set. As
// with getenv, no thread may change the environment meanwhile.
[[nodiscard]] std::optional<std::string> GetEnv(const char* name);

// Writes `line` and a line end to standard error in one system call, so that
// lines of several threads and processes do not mix. Never fails as far as the
// caller can tell: what cannot be written is dropped, a closed pipe raises no
// signal, errno stays. Takes no lock and allocates nothing on Linux: it may be
// called in the child of fork and at exit.
void WriteErrorLine(absl::string_view line) noexcept;

// Where WriteErrorLine's lines go in place of standard error: a program's own
// logger. `write` must be callable from any thread, and must not throw.
struct LineSink {
  void (*write)(void* user, absl::string_view line) = nullptr;
  void* user = nullptr;
};
// From now on; a sink without `write` stands for standard error. Threads that
// write meanwhile may still use the one before.
void SetLineSink(const LineSink& sink);
// Null: standard error.
[[nodiscard]] const LineSink* CurrentLineSink() noexcept;

}  // namespace pinring::os

#endif  // PINRING_SRC_OS_ENV_H_
