// Addresses in the driver's form and in messages, and the error that names a
// bad one.

#ifndef PINRING_SRC_CAPI_ADDRESSES_H_
#define PINRING_SRC_CAPI_ADDRESSES_H_

#include <cuda.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "src/driver/status.h"

namespace pinring {

inline CUdeviceptr DeviceAddress(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

inline std::string AddressText(const void* pointer) {
  return absl::StrCat("0x", absl::Hex(DeviceAddress(pointer)));
}

inline absl::Status InvalidValue(absl::string_view message) {
  return CudaStatus(CUDA_ERROR_INVALID_VALUE, message);
}

}  // namespace pinring

#endif  // PINRING_SRC_CAPI_ADDRESSES_H_
