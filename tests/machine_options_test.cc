#include "src/simcuda/shared/machine_options.h"

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace pinring::simcuda {
namespace {

using Environment = std::map<std::string, std::string>;

absl::StatusOr<ProcessOptions> Read(const Environment& environment) {
  return ReadProcessOptions(
      [&](const char* name) -> std::optional<std::string> {
        auto it = environment.find(name);
        if (it == environment.end()) return std::nullopt;
        return it->second;
      });
}

TEST(MachineOptionsTest, NothingSaidIsTheDefaultMachineWithoutDeviceCode) {
  const auto options = Read({});
  ASSERT_TRUE(options.ok()) << options.status();
  const MachineOptions defaults;
  EXPECT_EQ(options->machine.devices, defaults.devices);
  EXPECT_EQ(options->machine.device_bytes, defaults.device_bytes);
  EXPECT_EQ(options->machine.compute_queues, defaults.compute_queues);
  EXPECT_EQ(options->machine.h2d_queues, defaults.h2d_queues);
  EXPECT_FALSE(options->machine.launch_blocking);
  EXPECT_FALSE(options->machine.device_code);
  EXPECT_FALSE(options->fail_on_hazard);
}

TEST(MachineOptionsTest, EveryKindOfValueIsRead) {
  const auto options = Read({
      {"PINRING_SIMCUDA_DEVICES", "3"},
      {"PINRING_SIMCUDA_DEVICE_BYTES", "24GiB"},
      {"PINRING_SIMCUDA_COPY_STEP_BYTES", "4KiB"},
      {"PINRING_SIMCUDA_QUEUE_DEPTH", "7"},
      {"PINRING_SIMCUDA_HOST_PINNABLE_BYTES", "0"},
      {"PINRING_SIMCUDA_WDDM", "1"},
      {"PINRING_SIMCUDA_DEVICE_CODE", "1"},
      {"PINRING_SIMCUDA_CHECK_HAZARDS", "0"},
      {"PINRING_SIMCUDA_FAIL_ON_HAZARD", "1"},
      {"PINRING_SIMCUDA_FAULTS",
       "cuMemAlloc:3:2,cuStreamSynchronize:0:719:sticky"},
  });
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->machine.devices, 3);
  EXPECT_EQ(options->machine.device_bytes, size_t{24} << 30);
  EXPECT_EQ(options->machine.copy_step_bytes, size_t{4} << 10);
  EXPECT_EQ(options->machine.queue_depth, 7u);
  EXPECT_EQ(options->machine.host_pinnable_bytes, 0u);
  EXPECT_TRUE(options->machine.wddm);
  EXPECT_TRUE(options->machine.device_code);
  EXPECT_FALSE(options->machine.check_hazards);
  EXPECT_TRUE(options->fail_on_hazard);
  ASSERT_EQ(options->faults.size(), 2u);
  EXPECT_EQ(options->faults[0].function, "cuMemAlloc");
  EXPECT_EQ(options->faults[0].call, 3u);
  EXPECT_EQ(options->faults[0].code, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_FALSE(options->faults[0].sticky);
  EXPECT_EQ(options->faults[1].code, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_TRUE(options->faults[1].sticky);
}

TEST(MachineOptionsTest, PinringsOwnVariablesWinOverTheDrivers) {
  auto options = Read(
      {{"CUDA_DEVICE_MAX_CONNECTIONS", "32"}, {"CUDA_LAUNCH_BLOCKING", "1"}});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->machine.compute_queues, 32);
  EXPECT_EQ(options->machine.h2d_queues, 32);
  EXPECT_EQ(options->machine.d2h_queues, 32);
  EXPECT_TRUE(options->machine.launch_blocking);

  options = Read({{"CUDA_DEVICE_MAX_CONNECTIONS", "32"},
                  {"CUDA_LAUNCH_BLOCKING", "1"},
                  {"PINRING_SIMCUDA_H2D_QUEUES", "2"},
                  {"PINRING_SIMCUDA_LAUNCH_BLOCKING", "0"}});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->machine.compute_queues, 32);
  EXPECT_EQ(options->machine.h2d_queues, 2);
  EXPECT_FALSE(options->machine.launch_blocking);
}

TEST(MachineOptionsTest, TheListOfVisibleDevicesEndsBeforeOneThatIsNone) {
  const auto devices = [](const char* list) {
    const auto options = Read(
        {{"PINRING_SIMCUDA_DEVICES", "4"}, {"CUDA_VISIBLE_DEVICES", list}});
    return options.ok() ? options->machine.devices : -1;
  };
  EXPECT_EQ(devices(""), 0);
  EXPECT_EQ(devices("2"), 1);
  EXPECT_EQ(devices("3,1,0"), 3);
  EXPECT_EQ(devices("0,1,4,2"), 2);
  EXPECT_EQ(devices("-1"), 0);
  EXPECT_EQ(devices("NoDevFiles"), 0);
  EXPECT_EQ(devices("1,1"), 0);
}

TEST(MachineOptionsTest, AWrongValueIsNamed) {
  const Environment wrong = {
      {"PINRING_SIMCUDA_DEVICES", "-1"},
      {"PINRING_SIMCUDA_DEVICE_BYTES", "1GB"},
      {"PINRING_SIMCUDA_COPY_STEP_BYTES", "0"},
      {"PINRING_SIMCUDA_QUEUE_DEPTH", "0"},
      {"PINRING_SIMCUDA_HOST_PINNABLE_BYTES", "99999999999GiB"},
      {"PINRING_SIMCUDA_WDDM", "yes"},
      {"PINRING_SIMCUDA_CONNECTIONS", "129"},
      {"PINRING_SIMCUDA_ONE_QUEUE", ""},
      {"PINRING_SIMCUDA_FAULTS", "cuMemAlloc:3"},
      {"CUDA_DEVICE_MAX_CONNECTIONS", "none"},
  };
  for (const auto& [name, value] : wrong) {
    const auto options = Read({{name, value}});
    ASSERT_FALSE(options.ok()) << name;
    EXPECT_EQ(options.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(absl::StartsWith(options.status().message(),
                                 name + " is '" + value + "'; it must be "))
        << options.status();
  }
}

}  // namespace
}  // namespace pinring::simcuda
