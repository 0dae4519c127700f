#include "src/driver/status.h"

#include <array>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace pinring {
namespace {

constexpr absl::string_view kPayloadUrl = "pinring/CUresult";

struct CodeName {
  CUresult code;
  absl::string_view name;
};

#define PINRING_CODE_NAME(code) \
  CodeName { code, #code }
constexpr CodeName kCodeNames[] = {
    PINRING_CODE_NAME(CUDA_SUCCESS),
    PINRING_CODE_NAME(CUDA_ERROR_INVALID_VALUE),
    PINRING_CODE_NAME(CUDA_ERROR_OUT_OF_MEMORY),
    PINRING_CODE_NAME(CUDA_ERROR_NOT_INITIALIZED),
    PINRING_CODE_NAME(CUDA_ERROR_DEINITIALIZED),
    PINRING_CODE_NAME(CUDA_ERROR_NO_DEVICE),
    PINRING_CODE_NAME(CUDA_ERROR_INVALID_DEVICE),
    PINRING_CODE_NAME(CUDA_ERROR_INVALID_IMAGE),
    PINRING_CODE_NAME(CUDA_ERROR_INVALID_CONTEXT),
    PINRING_CODE_NAME(CUDA_ERROR_ALREADY_MAPPED),
    PINRING_CODE_NAME(CUDA_ERROR_NOT_MAPPED),
    PINRING_CODE_NAME(CUDA_ERROR_ECC_UNCORRECTABLE),
    PINRING_CODE_NAME(CUDA_ERROR_INVALID_PTX),
    PINRING_CODE_NAME(CUDA_ERROR_OPERATING_SYSTEM),
    PINRING_CODE_NAME(CUDA_ERROR_INVALID_HANDLE),
    PINRING_CODE_NAME(CUDA_ERROR_ILLEGAL_STATE),
    PINRING_CODE_NAME(CUDA_ERROR_NOT_FOUND),
    PINRING_CODE_NAME(CUDA_ERROR_NOT_READY),
    PINRING_CODE_NAME(CUDA_ERROR_ILLEGAL_ADDRESS),
    PINRING_CODE_NAME(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES),
    PINRING_CODE_NAME(CUDA_ERROR_LAUNCH_TIMEOUT),
    PINRING_CODE_NAME(CUDA_ERROR_CONTEXT_IS_DESTROYED),
    PINRING_CODE_NAME(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED),
    PINRING_CODE_NAME(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED),
    PINRING_CODE_NAME(CUDA_ERROR_LAUNCH_FAILED),
    PINRING_CODE_NAME(CUDA_ERROR_NOT_PERMITTED),
    PINRING_CODE_NAME(CUDA_ERROR_NOT_SUPPORTED),
    PINRING_CODE_NAME(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
    PINRING_CODE_NAME(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED),
    PINRING_CODE_NAME(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT),
    PINRING_CODE_NAME(CUDA_ERROR_UNKNOWN),
};
#undef PINRING_CODE_NAME

absl::StatusCode CanonicalCode(CUresult code) {
  switch (code) {
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_HANDLE:
      return absl::StatusCode::kInvalidArgument;
    case CUDA_ERROR_OUT_OF_MEMORY:
      return absl::StatusCode::kResourceExhausted;
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_INVALID_CONTEXT:
      return absl::StatusCode::kFailedPrecondition;
    case CUDA_ERROR_NOT_SUPPORTED:
      return absl::StatusCode::kUnimplemented;
    case CUDA_ERROR_NOT_PERMITTED:
      return absl::StatusCode::kPermissionDenied;
    case CUDA_ERROR_NOT_FOUND:
      return absl::StatusCode::kNotFound;
    case CUDA_ERROR_NOT_READY:
      return absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::string_view CudaCodeName(CUresult code) {
  for (const CodeName& entry : kCodeNames) {
    if (entry.code == code) return entry.name;
  }
  return "";
}

absl::Status CudaStatus(CUresult code, absl::string_view what) {
  if (code == CUDA_SUCCESS) return absl::OkStatus();
  absl::Status status(CanonicalCode(code),
                      absl::StrCat(what, " answered ", CudaCodeName(code), " (",
                                   static_cast<int>(code), ")"));
  status.SetPayload(kPayloadUrl,
                    absl::Cord(absl::StrCat(static_cast<int>(code))));
  return status;
}

CUresult CudaCode(const absl::Status& status) {
  if (status.ok()) return CUDA_SUCCESS;
  if (const absl::optional<absl::Cord> payload =
          status.GetPayload(kPayloadUrl)) {
    int code = 0;
    if (absl::SimpleAtoi(std::string(*payload), &code))
      return static_cast<CUresult>(code);
  }
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return CUDA_ERROR_INVALID_VALUE;
    case absl::StatusCode::kResourceExhausted:
      return CUDA_ERROR_OUT_OF_MEMORY;
    case absl::StatusCode::kFailedPrecondition:
      return CUDA_ERROR_NOT_INITIALIZED;
    case absl::StatusCode::kUnimplemented:
      return CUDA_ERROR_NOT_SUPPORTED;
    case absl::StatusCode::kPermissionDenied:
      return CUDA_ERROR_NOT_PERMITTED;
    case absl::StatusCode::kNotFound:
      return CUDA_ERROR_NOT_FOUND;
    case absl::StatusCode::kUnavailable:
      return CUDA_ERROR_NOT_READY;
    default:
      return CUDA_ERROR_UNKNOWN;
  }
}

}  // namespace pinring
