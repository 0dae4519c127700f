#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "src/os/program.h"

namespace pinring::os {

absl::StatusOr<std::string> ProgramFolder() {
  return absl::UnimplementedError("there is no preload library on Windows");
}

bool IsReadable(const std::string&) { return false; }

absl::Status RunPreloaded(const std::string&, absl::Span<const std::string>) {
  return absl::UnimplementedError("there is no preload library on Windows");
}

}  // namespace pinring::os
