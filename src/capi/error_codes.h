// Errors on their way to the C boundary: the runtime's codes, and what each
// thread's last one was.

#ifndef PINRING_SRC_CAPI_ERROR_CODES_H_
#define PINRING_SRC_CAPI_ERROR_CODES_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace pinring {

// The runtime's code for what the driver answered. The two share their
// numbers; what the runtime has no code for is cudaErrorUnknown.
[[nodiscard]] cudaError_t RuntimeCode(CUresult code);
[[nodiscard]] cudaError_t RuntimeCode(const absl::Status& status);

// The last code of the calling thread that was not cudaSuccess, and what it
// was about, cut to 511 bytes. Needs no memory, and works during thread exit
// and static destruction.
class LastError {
 public:
  // Keeps `code`, unless it is cudaSuccess, and returns it.
  static cudaError_t Keep(cudaError_t code, absl::string_view message) noexcept;

  static cudaError_t Take() noexcept;
  static cudaError_t Peek() noexcept;
  // Valid until the thread's next Keep of an error.
  static const char* Message() noexcept;
};

}  // namespace pinring

#endif  // PINRING_SRC_CAPI_ERROR_CODES_H_
