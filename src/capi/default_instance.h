// The process's default instance, which the C functions use.
//
// Made by the first call that needs it, from the environment and from what
// Configure was told; never destroyed, since blocks may be freed by static
// destructors. Thread-safe.

#ifndef PINRING_SRC_CAPI_DEFAULT_INSTANCE_H_
#define PINRING_SRC_CAPI_DEFAULT_INSTANCE_H_

#include <cuda_runtime_api.h>

#include <string>

#include "absl/strings/string_view.h"
#include "src/capi/instance.h"
#include "src/driver/driver.h"

namespace pinring {

// Why there is no default instance. Once there is none, there never is.
struct DefaultInstanceError {
  cudaError_t code = cudaSuccess;
  std::string message;
};

// The instance, or null and the reason in *error.
Instance* DefaultInstance(const DefaultInstanceError** error);

// pinringConfigure. Errors: kInvalidArgument (the settings), with the code of
// cudaErrorIllegalState where the instance exists already.
absl::Status ConfigureDefaultInstance(absl::string_view settings);

// For tests: destroys the default instance, which nobody may use meanwhile,
// and forgets errors and settings. The next one uses `driver`, which outlives
// it; the installed driver where it is null.
void ResetDefaultInstanceForTesting(const Driver* driver);

}  // namespace pinring

#endif  // PINRING_SRC_CAPI_DEFAULT_INSTANCE_H_
