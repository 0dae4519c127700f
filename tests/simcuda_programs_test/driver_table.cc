// pinring's loader takes the simulated libcuda.so.1 for the driver and finds
// every entry point in it. With the argument "without-memory-operations", all
// but those.

#include <cstdio>
#include <cstring>

#include "absl/status/statusor.h"
#include "src/driver/loader.h"

int main(int count, char** arguments) {
  const bool without =
      count > 1 && std::strcmp(arguments[1], "without-memory-operations") == 0;
  const absl::StatusOr<pinring::Driver> driver = pinring::LoadDriver();
  if (!driver.ok()) {
    std::fprintf(stderr, "%s\n", driver.status().ToString().c_str());
    return 1;
  }
  int wrong = 0;
  const auto look = [&](const char* symbol, bool there) {
    const bool wanted =
        !without || (std::strcmp(symbol, "cuStreamBatchMemOp") != 0 &&
                     std::strcmp(symbol, "cuStreamWriteValue32") != 0 &&
                     std::strcmp(symbol, "cuStreamWaitValue32") != 0);
    if (there == wanted) return;
    std::fprintf(stderr, "%s is %s\n", symbol, there ? "there" : "missing");
    ++wrong;
  };
#define PINRING_LOOK(field, symbol, version, need, parameters) \
  look(symbol, driver->field != nullptr);
  PINRING_DRIVER_FUNCTIONS(PINRING_LOOK)
#undef PINRING_LOOK
  int devices = 0;
  if (driver->DeviceGetCount(&devices) != CUDA_SUCCESS || devices != 1) ++wrong;
  return wrong == 0 ? 0 : 1;
}
