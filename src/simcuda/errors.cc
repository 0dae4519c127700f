#include "src/simcuda/errors.h"

namespace pinring::simcuda {
namespace {

struct Entry {
  CUresult code;
  const char* name;
  const char* text;
};

#define PINRING_SIMCUDA_ERROR(code, text) \
  { code, #code, text }
constexpr Entry kEntries[] = {
    PINRING_SIMCUDA_ERROR(CUDA_SUCCESS, "no error"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_NO_DEVICE,
                          "no CUDA-capable device is detected"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_INVALID_IMAGE,
                          "device kernel image is invalid"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_MAP_FAILED,
                          "mapping of buffer object failed"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_ALREADY_MAPPED, "resource already mapped"),
    PINRING_SIMCUDA_ERROR(
        CUDA_ERROR_NO_BINARY_FOR_GPU,
        "no kernel image is available for execution on the device"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_ECC_UNCORRECTABLE,
                          "uncorrectable ECC error encountered"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    PINRING_SIMCUDA_ERROR(
        CUDA_ERROR_ILLEGAL_STATE,
        "the operation cannot be performed in the present state"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_ILLEGAL_ADDRESS,
                          "an illegal memory access was encountered"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
                          "too many resources requested for launch"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_LAUNCH_TIMEOUT,
                          "the launch timed out and was terminated"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE,
                          "cannot set while device is active in this process"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED,
                          "context is destroyed"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_ASSERT, "device-side assert triggered"),
    PINRING_SIMCUDA_ERROR(
        CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
        "part or all of the requested memory range is already mapped"),
    PINRING_SIMCUDA_ERROR(
        CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
        "pointer does not correspond to a registered memory region"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_HARDWARE_STACK_ERROR,
                          "hardware stack error"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_LAUNCH_FAILED,
                          "unspecified launch failure"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                          "operation not permitted when stream is capturing"),
    PINRING_SIMCUDA_ERROR(
        CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
        "operation failed due to a previous error during capture"),
    PINRING_SIMCUDA_ERROR(
        CUDA_ERROR_STREAM_CAPTURE_MERGE,
        "operation would result in a merge of separate captures"),
    PINRING_SIMCUDA_ERROR(
        CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
        "capture was not ended in the same stream as it began"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                          "capturing stream has unjoined work"),
    PINRING_SIMCUDA_ERROR(
        CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
        "dependency created on uncaptured work in another stream"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                          "operation would make the legacy stream depend on a "
                          "capturing blocking stream"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_CAPTURED_EVENT,
                          "operation not permitted on an event last recorded "
                          "in a capturing stream"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
                          "attempt to terminate a capture from another thread"),
    PINRING_SIMCUDA_ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
};
#undef PINRING_SIMCUDA_ERROR

const Entry* Find(CUresult code) {
  for (const Entry& entry : kEntries) {
    if (entry.code == code) return &entry;
  }
  return nullptr;
}

}  // namespace

const char* ErrorName(CUresult code) {
  const Entry* entry = Find(code);
  return entry == nullptr ? nullptr : entry->name;
}

const char* ErrorText(CUresult code) {
  const Entry* entry = Find(code);
  return entry == nullptr ? nullptr : entry->text;
}

}  // namespace pinring::simcuda
