// The process's default instance, which the C functions use, and those that a
// program makes beside it.
//
// The default one is made by the first call that needs it, from the environment
// and from what Configure was told; never destroyed, since blocks may be freed
// by static destructors. Thread-safe.

#ifndef PINRING_SRC_CAPI_DEFAULT_INSTANCE_H_
#define PINRING_SRC_CAPI_DEFAULT_INSTANCE_H_

#include <cuda_runtime_api.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/capi/instance.h"
#include "src/driver/driver.h"

namespace pinring {

// Why there is no instance to use. A default one that cannot be made once never
// is.
struct NoInstance {
  cudaError_t code = cudaSuccess;
  std::string message;
};

// The default instance, or null and the reason in *error.
Instance* DefaultInstance(const NoInstance** error);

// The calling thread's current instance, or null and the reason in *error.
Instance* CurrentInstance(const NoInstance** error);

// pinringInstanceCreate and pinringInstanceDestroy. Errors: what the settings
// or the driver's loading say; no such instance, blocks that are not freed.
absl::StatusOr<Instance*> CreateInstance(absl::string_view settings);
absl::Status DestroyInstance(Instance* instance);

// pinringConfigure. Errors: kInvalidArgument (the settings), with the code of
// cudaErrorIllegalState where the instance exists already.
absl::Status ConfigureDefaultInstance(absl::string_view settings);

// Has instances find the driver by `load`, before the first is made: for a
// library that stands between the program and the driver, and knows the
// driver's own entry points.
void SetDriverLoader(absl::StatusOr<Driver> (*load)());

// For tests: destroys the default instance, which nobody may use meanwhile,
// and forgets errors and settings. The next one uses `driver`, which outlives
// it; the installed driver where it is null.
void ResetDefaultInstanceForTesting(const Driver* driver);

}  // namespace pinring

#endif  // PINRING_SRC_CAPI_DEFAULT_INSTANCE_H_
