// The device that the demo runs on: the machine's, or a simulated one.

#ifndef PINRING_SRC_CLI_DEMO_DEVICE_H_
#define PINRING_SRC_CLI_DEMO_DEVICE_H_

#include <cuda.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/driver/driver.h"
#include "src/simcuda/machine.h"

namespace pinring::cli {

// The primary context of its first device is current for the thread that
// opened it; Enter makes it current for others. Not thread-safe but for Enter.
class DemoDevice {
 public:
  // The device of the installed driver; where there is none, a simulated one
  // with `simulated_bytes` of memory. Errors: the driver's.
  static absl::StatusOr<std::unique_ptr<DemoDevice>> Open(
      size_t simulated_bytes);
  DemoDevice(const DemoDevice&) = delete;
  DemoDevice& operator=(const DemoDevice&) = delete;
  ~DemoDevice();

  const Driver& driver() const { return *driver_; }
  const std::string& name() const { return name_; }
  bool simulated() const { return machine_ != nullptr; }
  // Why it is simulated.
  const std::string& reason() const { return reason_; }
  size_t free_bytes() const { return free_bytes_; }

  absl::Status Enter() const;

  // What only a simulated device can tell: copies that raced with the host.
  std::vector<std::string> Hazards() const;

 private:
  DemoDevice() = default;
  absl::Status OpenContext();

  Driver loaded_;
  std::unique_ptr<simcuda::Machine> machine_;
  const Driver* driver_ = nullptr;  // loaded_, or the machine's
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  std::string name_;
  std::string reason_;
  size_t free_bytes_ = 0;
};

}  // namespace pinring::cli

#endif  // PINRING_SRC_CLI_DEMO_DEVICE_H_
