// `pinring run`: a program with the preload library in front of its driver.

#ifndef PINRING_SRC_CLI_RUN_H_
#define PINRING_SRC_CLI_RUN_H_

#include <string>

#include "absl/types/span.h"

namespace pinring::cli {

// Runs the command in place of this program. `library` is the preload library's
// file; where it is empty, the one beside this program or installed with it.
// Returns only on failure, with the exit status that shells have for it: 127
// for a program that is not there, 126 for one that cannot be run; 1 where the
// library is missing. What was wrong is said on standard error.
int RunProgram(const std::string& library,
               absl::Span<const std::string> command);

}  // namespace pinring::cli

#endif  // PINRING_SRC_CLI_RUN_H_
