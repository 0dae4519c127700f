// The C functions: calls of the default instance whose errors become codes,
// and whose exceptions (out of memory inside the library) end here.

#include "include/pinring/pinring.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/strip.h"
#include "src/capi/default_instance.h"
#include "src/capi/error_codes.h"
#include "src/capi/usage_struct.h"
#include "src/driver/status.h"
#include "src/os/env.h"
#include "src/usage/usage_print.h"

namespace {

using pinring::Instance;
using pinring::LastError;

cudaError_t Report(const absl::Status& status) {
  if (status.ok()) return cudaSuccess;
  return LastError::Keep(pinring::RuntimeCode(status), status.message());
}

// Runs `body`, which returns a status, and makes its outcome the caller's.
template <typename Body>
cudaError_t Guarded(Body body) noexcept {
  try {
    return Report(body());
  } catch (const std::bad_alloc&) {
    return LastError::Keep(cudaErrorMemoryAllocation,
                           "no memory for the library's own records");
  } catch (const std::exception& exception) {
    return LastError::Keep(cudaErrorUnknown, exception.what());
  } catch (...) {
    return LastError::Keep(cudaErrorUnknown, "an unknown exception");
  }
}

// The same, with the default instance.
template <typename Body>
cudaError_t WithInstance(Body body) noexcept {
  cudaError_t unavailable = cudaSuccess;
  const cudaError_t code = Guarded([&]() -> absl::Status {
    const pinring::DefaultInstanceError* error = nullptr;
    Instance* instance = pinring::DefaultInstance(&error);
    if (instance != nullptr) return body(*instance);
    unavailable = LastError::Keep(error->code, error->message);
    return absl::OkStatus();
  });
  return unavailable != cudaSuccess ? unavailable : code;
}

absl::Status InvalidValue(const char* message) {
  return pinring::CudaStatus(CUDA_ERROR_INVALID_VALUE, message);
}

// Takes the kind by reference, and looks at its bytes: a C caller may have put
// any number there, which C++ must not load as the enumeration.
bool IsMemcpyKind(const cudaMemcpyKind& kind) {
  std::underlying_type_t<cudaMemcpyKind> number = 0;
  static_assert(sizeof(number) == sizeof(kind));
  std::memcpy(&number, &kind, sizeof(number));
  return number >= cudaMemcpyHostToHost && number <= cudaMemcpyDefault;
}

cudaError_t BadKind() {
  return LastError::Keep(cudaErrorInvalidMemcpyDirection,
                         "the direction is none of cudaMemcpyKind");
}

}  // namespace

extern "C" {

cudaError_t pinringMallocHost(void** pointer, size_t bytes) {
  return pinringHostAlloc(pointer, bytes, cudaHostAllocDefault);
}

cudaError_t pinringHostAlloc(void** pointer, size_t bytes, unsigned int flags) {
  return WithInstance([&](Instance& instance) {
    return instance.HostAlloc(pointer, bytes, flags);
  });
}

cudaError_t pinringFreeHost(void* pointer) {
  return WithInstance(
      [&](Instance& instance) { return instance.FreeHost(pointer); });
}

cudaError_t pinringHostRegister(void* pointer, size_t bytes,
                                unsigned int flags) {
  return WithInstance([&](Instance& instance) {
    return instance.HostRegister(pointer, bytes, flags);
  });
}

cudaError_t pinringHostUnregister(void* pointer) {
  return WithInstance(
      [&](Instance& instance) { return instance.HostUnregister(pointer); });
}

cudaError_t pinringMemcpy(void* dst, const void* src, size_t bytes,
                          enum cudaMemcpyKind kind) {
  if (!IsMemcpyKind(kind)) {
    if (bytes > 0) return BadKind();
    kind = cudaMemcpyDefault;
  }
  return WithInstance([&](Instance& instance) {
    return instance.Memcpy(dst, src, bytes, kind);
  });
}

cudaError_t pinringMemcpyAsync(void* dst, const void* src, size_t bytes,
                               enum cudaMemcpyKind kind, cudaStream_t stream) {
  if (!IsMemcpyKind(kind)) {
    if (bytes > 0) return BadKind();
    kind = cudaMemcpyDefault;
  }
  return WithInstance([&](Instance& instance) {
    return instance.MemcpyAsync(dst, src, bytes, kind, stream);
  });
}

cudaError_t pinringPointerGetAttributes(
    struct cudaPointerAttributes* attributes, const void* pointer) {
  return WithInstance([&](Instance& instance) {
    return instance.PointerGetAttributes(attributes, pointer);
  });
}

cudaError_t pinringHostGetDevicePointer(void** device_pointer, void* pointer,
                                        unsigned int flags) {
  return WithInstance([&](Instance& instance) {
    return instance.HostGetDevicePointer(device_pointer, pointer, flags);
  });
}

cudaError_t pinringHostGetFlags(unsigned int* flags, void* pointer) {
  return WithInstance([&](Instance& instance) {
    return instance.HostGetFlags(flags, pointer);
  });
}

cudaError_t pinringPushCategory(const char* name) {
  return WithInstance([&](Instance& instance) {
    if (name == nullptr) return InvalidValue("the category's name is null");
    return instance.PushCategory(name);
  });
}

cudaError_t pinringPopCategory(void) {
  return WithInstance(
      [](Instance& instance) { return instance.PopCategory(); });
}

cudaError_t pinringGetUsage(pinringUsage* usage) {
  return WithInstance([&](Instance& instance) {
    return pinring::FillUsage(instance.Usage(), usage);
  });
}

cudaError_t pinringPrintUsage(void) {
  return WithInstance([](Instance& instance) {
    pinring::os::WriteErrorLine(
        absl::StripSuffix(pinring::FormatUsageText(instance.Usage()), "\n"));
    return absl::OkStatus();
  });
}

cudaError_t pinringFormatUsage(int format, char* buffer, size_t buffer_bytes,
                               size_t* needed_bytes) {
  return WithInstance([&](Instance& instance) {
    if (buffer == nullptr && buffer_bytes > 0) {
      return InvalidValue("the buffer is null");
    }
    if (format != pinringUsageText && format != pinringUsageJson) {
      return InvalidValue("the format is neither text (0) nor JSON (1)");
    }
    const std::string text = format == pinringUsageText
                                 ? pinring::FormatUsageText(instance.Usage())
                                 : pinring::FormatUsageJson(instance.Usage());
    if (needed_bytes != nullptr) *needed_bytes = text.size() + 1;
    if (buffer_bytes > 0) {
      const size_t bytes = std::min(text.size(), buffer_bytes - 1);
      std::memcpy(buffer, text.data(), bytes);
      buffer[bytes] = '\0';
    }
    return absl::OkStatus();
  });
}

cudaError_t pinringConfigure(const char* settings) {
  return Guarded([&] {
    if (settings == nullptr) return InvalidValue("the settings are null");
    return pinring::ConfigureDefaultInstance(settings);
  });
}

cudaError_t pinringGetVersion(int* version) {
  return Guarded([&] {
    if (version == nullptr) return InvalidValue("a null pointer");
    *version = PINRING_VERSION;
    return absl::OkStatus();
  });
}

cudaError_t pinringGetLastError(void) { return LastError::Take(); }

cudaError_t pinringPeekAtLastError(void) { return LastError::Peek(); }

const char* pinringGetLastErrorMessage(void) { return LastError::Message(); }

}  // extern "C"
