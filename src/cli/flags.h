// The flags of a subcommand: --name, --name=value, --name value.

#ifndef PINRING_SRC_CLI_FLAGS_H_
#define PINRING_SRC_CLI_FLAGS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace pinring::cli {

struct FlagSpec {
  const char* name;   // "size"
  const char* value;  // what help calls its value, "BYTES"; null: a switch
  const char* help;
};

class Flags {
 public:
  // Errors: kInvalidArgument, for what `specs` do not list, a switch with a
  // value, a flag without one, a flag given twice; the text names it.
  static absl::StatusOr<Flags> Parse(absl::Span<const FlagSpec> specs,
                                     absl::Span<const std::string> arguments);

  bool Has(absl::string_view name) const;
  // The value of a flag that was given.
  std::optional<std::string> Get(absl::string_view name) const;

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

// One line a flag: "  --size=BYTES  help".
std::string FlagHelp(absl::Span<const FlagSpec> specs);

}  // namespace pinring::cli

#endif  // PINRING_SRC_CLI_FLAGS_H_
