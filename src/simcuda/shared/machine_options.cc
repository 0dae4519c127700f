#include "src/simcuda/shared/machine_options.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace pinring::simcuda {
namespace {

constexpr int kMaxDevices = 64;
constexpr int kMaxQueues = 128;

struct Variable {
  const char* name;
  std::function<bool(absl::string_view text)> set;
  const char* wanted;
};

bool ParseSwitch(absl::string_view text, bool* value) {
  if (text != "0" && text != "1") return false;
  *value = text == "1";
  return true;
}

bool ParseCount(absl::string_view text, int least, int most, int* value) {
  return absl::SimpleAtoi(text, value) && *value >= least && *value <= most;
}

bool ParseSize(absl::string_view text, size_t least, size_t* value) {
  struct Unit {
    const char* name;
    int shift;
  };
  int shift = 0;
  for (const Unit& unit : {Unit{"KiB", 10}, Unit{"MiB", 20}, Unit{"GiB", 30}}) {
    if (absl::ConsumeSuffix(&text, unit.name)) shift = unit.shift;
  }
  uint64_t number = 0;
  if (!absl::SimpleAtoi(text, &number)) return false;
  if (number > std::numeric_limits<size_t>::max() >> shift) return false;
  *value = static_cast<size_t>(number) << shift;
  return *value >= least;
}

bool ParseFaults(absl::string_view text, std::vector<Fault>* faults) {
  for (absl::string_view entry : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(entry, ':');
    Fault fault;
    int code = 0;
    if (parts.size() < 3 || parts.size() > 4 || parts[0].empty() ||
        !absl::SimpleAtoi(parts[1], &fault.call) ||
        !absl::SimpleAtoi(parts[2], &code) || code <= 0 ||
        (parts.size() == 4 && parts[3] != "sticky")) {
      return false;
    }
    fault.function = parts[0];
    fault.code = static_cast<CUresult>(code);
    fault.sticky = parts.size() == 4;
    faults->push_back(fault);
  }
  return true;
}

Variable Switch(const char* name, bool* value) {
  return {name, [=](auto text) { return ParseSwitch(text, value); }, "0 or 1"};
}

Variable Queues(const char* name, int* value) {
  return {name,
          [=](auto text) { return ParseCount(text, 1, kMaxQueues, value); },
          "a number from 1 to 128"};
}

Variable Size(const char* name, size_t* value, size_t least = 0) {
  return {name, [=](auto text) { return ParseSize(text, least, value); },
          "a number, with KiB, MiB or GiB behind it or nothing"};
}

Variable Number(const char* name, size_t* value) {
  return {name, [=](auto text) { return ParseSize(text, 1, value); },
          "a number from 1 on"};
}

std::vector<Variable> Variables(ProcessOptions& options) {
  MachineOptions& machine = options.machine;
  const auto set_connections = [&machine](absl::string_view text) {
    int connections = 0;
    if (!ParseCount(text, 1, kMaxQueues, &connections)) return false;
    machine.compute_queues = connections;
    machine.h2d_queues = connections;
    machine.d2h_queues = connections;
    return true;
  };
  return {
      {"CUDA_DEVICE_MAX_CONNECTIONS", set_connections,
       "a number from 1 to 128"},
      {"CUDA_LAUNCH_BLOCKING",
       [&machine](absl::string_view text) {
         machine.launch_blocking = !text.empty() && text != "0";
         return true;
       },
       ""},
      {"PINRING_SIMCUDA_DEVICES",
       [&machine](absl::string_view text) {
         return ParseCount(text, 0, kMaxDevices, &machine.devices);
       },
       "a number from 0 to 64"},
      Size("PINRING_SIMCUDA_DEVICE_BYTES", &machine.device_bytes),
      {"PINRING_SIMCUDA_CONNECTIONS", set_connections,
       "a number from 1 to 128"},
      Queues("PINRING_SIMCUDA_COMPUTE_QUEUES", &machine.compute_queues),
      Queues("PINRING_SIMCUDA_H2D_QUEUES", &machine.h2d_queues),
      Queues("PINRING_SIMCUDA_D2H_QUEUES", &machine.d2h_queues),
      Switch("PINRING_SIMCUDA_ONE_QUEUE", &machine.one_queue),
      Number("PINRING_SIMCUDA_QUEUE_DEPTH", &machine.queue_depth),
      Size("PINRING_SIMCUDA_COPY_STEP_BYTES", &machine.copy_step_bytes, 1),
      Number("PINRING_SIMCUDA_COPY_STEP_ROWS", &machine.copy_step_rows),
      Size("PINRING_SIMCUDA_SMALL_COPY_BYTES", &machine.small_copy_bytes),
      Size("PINRING_SIMCUDA_PAGEABLE_STAGING_BYTES",
           &machine.pageable_staging_bytes),
      Size("PINRING_SIMCUDA_ASYNC_PAGEABLE_STAGING_BYTES",
           &machine.async_pageable_staging_bytes),
      Number("PINRING_SIMCUDA_HOST_FUNCTION_DEPTH",
             &machine.host_function_depth),
      Switch("PINRING_SIMCUDA_BALANCE_QUEUES", &machine.balance_queues),
      Switch("PINRING_SIMCUDA_DEVICE_CODE", &machine.device_code),
      Switch("PINRING_SIMCUDA_LAZY_LOADING", &machine.lazy_loading),
      Size("PINRING_SIMCUDA_HOST_PINNABLE_BYTES", &machine.host_pinnable_bytes),
      Switch("PINRING_SIMCUDA_CHECK_HAZARDS", &machine.check_hazards),
      Switch("PINRING_SIMCUDA_LAUNCH_BLOCKING", &machine.launch_blocking),
      Switch("PINRING_SIMCUDA_STREAM_MEMORY_OPERATIONS",
             &machine.stream_memory_operations),
      Switch("PINRING_SIMCUDA_HOST_REGISTER_SUPPORTED",
             &machine.host_register_supported),
      Switch("PINRING_SIMCUDA_WDDM", &machine.wddm),
      Number("PINRING_SIMCUDA_WDDM_BATCH_OPERATIONS",
             &machine.wddm_batch_operations),
      Switch("PINRING_SIMCUDA_FAIL_ON_HAZARD", &options.fail_on_hazard),
      {"PINRING_SIMCUDA_FAULTS",
       [&options](absl::string_view text) {
         return ParseFaults(text, &options.faults);
       },
       "a list such as cuMemAlloc:3:2,cuStreamSynchronize:0:719:sticky"},
  };
}

// How many of `devices` the list lets the program see. All of them are alike,
// so that it does not matter which.
int VisibleDevices(absl::string_view list, int devices) {
  std::set<int> seen;
  for (absl::string_view entry : absl::StrSplit(list, ',')) {
    int device = 0;
    if (!absl::SimpleAtoi(entry, &device) || device < 0 || device >= devices)
      break;
    // Natively a list that names a device twice shows none.
    if (!seen.insert(device).second) return 0;
  }
  return static_cast<int>(seen.size());
}

}  // namespace

absl::StatusOr<ProcessOptions> ReadProcessOptions(const Lookup& lookup) {
  ProcessOptions options;
  // Programs bring kernels that nobody has written for the CPU.
  options.machine.device_code = false;
  for (const Variable& variable : Variables(options)) {
    const std::optional<std::string> value = lookup(variable.name);
    if (!value.has_value() || variable.set(*value)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        variable.name, " is '", *value, "'; it must be ", variable.wanted));
  }
  if (const auto list = lookup("CUDA_VISIBLE_DEVICES")) {
    options.machine.devices = VisibleDevices(*list, options.machine.devices);
  }
  return options;
}

}  // namespace pinring::simcuda
