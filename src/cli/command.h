// The pinring command: its subcommands and what they print.

#ifndef PINRING_SRC_CLI_COMMAND_H_
#define PINRING_SRC_CLI_COMMAND_H_

#include <string>

#include "absl/types/span.h"

namespace pinring::cli {

// Runs `pinring ARGUMENTS...` and returns its exit status: 0, 1 where
// something went wrong, 2 for arguments that make no sense.
int RunCommand(absl::Span<const std::string> arguments);

}  // namespace pinring::cli

#endif  // PINRING_SRC_CLI_COMMAND_H_
