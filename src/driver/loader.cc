#include "src/driver/loader.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "src/driver/status.h"
#include "src/os/library.h"
#include "src/os/system_info.h"

namespace pinring {
namespace {

// cuGetProcAddress in the form that every driver since CUDA 11.3 exports under
// its plain name.
using GetProcAddress = CUresult(CUDAAPI*)(const char* symbol, void** pointer,
                                          int cuda_version, cuuint64_t flags);

enum Need { kRequired, kOptional };

// CU_GET_PROC_ADDRESS_LEGACY_STREAM: a null stream means the legacy default
// stream in every entry point.
constexpr cuuint64_t kLegacyStream = 1;

template <typename Function>
absl::Status Fill(GetProcAddress get, const char* symbol, int version,
                  Need need, Function& field) {
  void* pointer = nullptr;
  const CUresult code = get(symbol, &pointer, version, kLegacyStream);
  if (code == CUDA_SUCCESS && pointer != nullptr) {
    field = reinterpret_cast<Function>(pointer);
    return absl::OkStatus();
  }
  if (need == kOptional) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrCat("the NVIDIA driver has no ", symbol,
                   ": pinring needs a driver for CUDA 11.8 or newer "
                   "(cuGetProcAddress answered ",
                   static_cast<int>(code), ")"));
}

}  // namespace

absl::StatusOr<Driver> LoadDriver() {
#ifdef _WIN32
  absl::StatusOr<os::SharedLibrary> library =
      os::SharedLibrary::Open({"nvcuda.dll"});
#else
  absl::StatusOr<os::SharedLibrary> library =
      os::SharedLibrary::Open({"libcuda.so.1"});
#endif
  if (!library.ok()) {
    return absl::NotFoundError(
        absl::StrCat("no NVIDIA driver: ", library.status().message()));
  }
  return LoadDriver(library->FindOrNull("cuGetProcAddress"));
}

absl::StatusOr<Driver> LoadDriver(void* get_proc_address) {
  const auto get = reinterpret_cast<GetProcAddress>(get_proc_address);
  if (get == nullptr) {
    return absl::NotFoundError(
        "the NVIDIA driver has no cuGetProcAddress: pinring needs one for CUDA "
        "11.8 or newer");
  }
  Driver driver;
  driver.batches = os::GpusBehindWddm();
#define PINRING_FILL(field, symbol, version, need, parameters)              \
  if (absl::Status status = Fill(get, symbol, version, need, driver.field); \
      !status.ok())                                                         \
    return status;
  PINRING_DRIVER_FUNCTIONS(PINRING_FILL)
#undef PINRING_FILL
  if (absl::Status status = CudaStatus(driver.Init(0), "cuInit"); !status.ok())
    return status;
  return driver;
}

}  // namespace pinring
