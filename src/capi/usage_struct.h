// The usage as the C ABI has it: structs led by their size and version.

#ifndef PINRING_SRC_CAPI_USAGE_STRUCT_H_
#define PINRING_SRC_CAPI_USAGE_STRUCT_H_

#include "absl/status/status.h"
#include "include/pinring/pinring.h"
#include "src/usage/usage_snapshot.h"

namespace pinring {

// Fills *usage in, as pinringGetUsage promises: what the caller's version has
// room for, and nothing behind it. Errors: an invalid value.
absl::Status FillUsage(const UsageSnapshot& snapshot, pinringUsage* usage);

}  // namespace pinring

#endif  // PINRING_SRC_CAPI_USAGE_STRUCT_H_
