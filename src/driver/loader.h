// Fills the driver table from the NVIDIA driver that is installed.

#ifndef PINRING_SRC_DRIVER_LOADER_H_
#define PINRING_SRC_DRIVER_LOADER_H_

#include "absl/status/statusor.h"
#include "src/driver/driver.h"

namespace pinring {

// Opens the driver's library (libcuda.so.1, nvcuda.dll), asks it for every
// entry point in the form that the table names, and calls cuInit. No context is
// made.
//
// Errors: kNotFound where no driver is installed or it is too old for a
// required entry point (the text names which, and the oldest CUDA version that
// will do); what cuInit answers, as a CUDA code, e.g. where there is no device.
[[nodiscard]] absl::StatusOr<Driver> LoadDriver();

// The same from the cuGetProcAddress of a driver that is loaded already, in the
// form with four parameters.
[[nodiscard]] absl::StatusOr<Driver> LoadDriver(void* get_proc_address);

}  // namespace pinring

#endif  // PINRING_SRC_DRIVER_LOADER_H_
