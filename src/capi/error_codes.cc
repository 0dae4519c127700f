#include "src/capi/error_codes.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "src/driver/status.h"

namespace pinring {
namespace {

// A plain buffer, not a string: a thread's strings are gone while its later
// thread-local destructors, or a static destructor, may still free blocks.
struct ThreadError {
  cudaError_t code = cudaSuccess;
  char message[512] = {};
};

thread_local ThreadError thread_error;

}  // namespace

cudaError_t RuntimeCode(CUresult code) {
  switch (static_cast<int>(code)) {
    case CUDA_ERROR_CONTEXT_ALREADY_CURRENT:
    case 916:  // CUDA_ERROR_KEY_ROTATION, which older headers lack.
      return cudaErrorUnknown;
    default:
      return static_cast<cudaError_t>(code);
  }
}

cudaError_t RuntimeCode(const absl::Status& status) {
  return status.ok() ? cudaSuccess : RuntimeCode(CudaCode(status));
}

cudaError_t LastError::Keep(cudaError_t code,
                            absl::string_view message) noexcept {
  if (code == cudaSuccess) return code;
  thread_error.code = code;
  const size_t bytes =
      std::min(message.size(), sizeof(thread_error.message) - 1);
  std::memcpy(thread_error.message, message.data(), bytes);
  thread_error.message[bytes] = '\0';
  return code;
}

cudaError_t LastError::Take() noexcept {
  return std::exchange(thread_error.code, cudaSuccess);
}

cudaError_t LastError::Peek() noexcept { return thread_error.code; }

const char* LastError::Message() noexcept { return thread_error.message; }

}  // namespace pinring
