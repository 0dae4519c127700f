// CUDA's result codes inside absl::Status.
//
// Inside pinring an error is an absl::Status; at the C boundary the program
// must get the very code that the driver gave. The code therefore travels in
// the status as a payload.

#ifndef PINRING_SRC_DRIVER_STATUS_H_
#define PINRING_SRC_DRIVER_STATUS_H_

#include <cuda.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace pinring {

// OK for CUDA_SUCCESS; otherwise a status that keeps `code` and says which call
// (`what`) answered it.
[[nodiscard]] absl::Status CudaStatus(CUresult code, absl::string_view what);

// The code that `status` keeps; CUDA_SUCCESS for OK. A status that never met
// CUDA gets the code that fits its own (kResourceExhausted: out of memory,
// kInvalidArgument: invalid value, kUnimplemented: not supported, ...).
[[nodiscard]] CUresult CudaCode(const absl::Status& status);

// The name of a code ("CUDA_ERROR_INVALID_VALUE"), known without a driver;
// empty for one that is not known.
[[nodiscard]] absl::string_view CudaCodeName(CUresult code);

}  // namespace pinring

#endif  // PINRING_SRC_DRIVER_STATUS_H_
