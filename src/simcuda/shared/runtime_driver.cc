#include "src/simcuda/shared/runtime_driver.h"

#include "absl/status/statusor.h"
#include "src/os/library.h"

namespace pinring::simcudart {
namespace {

template <typename Function>
bool Fill(GetProcAddress get, const char* name, cuuint64_t flags,
          Function* field) {
  // In the form that the headers, and so the fields' types, are of.
  void* pointer = nullptr;
  if (get(name, &pointer, CUDA_VERSION, flags) != CUDA_SUCCESS) return false;
  *field = reinterpret_cast<Function>(pointer);
  return pointer != nullptr;
}

bool FillAll(GetProcAddress get, cuuint64_t flags, DriverTable* table) {
#define PINRING_CUDART_FILL(field, name) \
  if (!Fill(get, #name, flags, &table->field)) return false;
  PINRING_CUDART_DRIVER_FUNCTIONS(PINRING_CUDART_FILL)
#undef PINRING_CUDART_FILL
  return true;
}

LoadedDriver* Load() {
  auto* driver = new LoadedDriver;
  absl::StatusOr<os::SharedLibrary> library =
      os::SharedLibrary::Open({"libcuda.so.1"});
  if (!library.ok()) return driver;
  driver->get_proc_address =
      reinterpret_cast<GetProcAddress>(library->FindOrNull("cuGetProcAddress"));
  if (driver->get_proc_address == nullptr ||
      !FillAll(driver->get_proc_address, CU_GET_PROC_ADDRESS_LEGACY_STREAM,
               &driver->legacy) ||
      !FillAll(driver->get_proc_address,
               CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
               &driver->per_thread)) {
    return driver;
  }
  driver->status = static_cast<cudaError_t>(driver->legacy.Init(0));
  return driver;
}

}  // namespace

const LoadedDriver& GetDriver() {
  static const LoadedDriver* const driver = Load();
  return *driver;
}

}  // namespace pinring::simcudart
