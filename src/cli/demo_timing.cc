#include "src/cli/demo_timing.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <string_view>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "src/driver/status.h"
#include "src/os/pages.h"
#include "src/os/threads.h"
#include "src/usage/usage_print.h"

namespace pinring::cli {
namespace {

constexpr int kRounds = 5;

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// One path in both directions: calls that return when the data is there.
struct Contender {
  TimedPath result;
  std::function<absl::Status()> to_device;
  std::function<absl::Status()> to_host;
  std::vector<double> to_device_rates = {};
  std::vector<double> to_host_rates = {};
};

absl::Status TimeOnce(const std::function<absl::Status()>& copy, size_t bytes,
                      std::vector<double>* rates, Progress* progress) {
  const uint64_t start = os::MonotonicNanos();
  auto status = copy();
  const uint64_t nanos = os::MonotonicNanos() - start;
  if (!status.ok()) return status;
  rates->push_back(static_cast<double>(bytes) /
                   static_cast<double>(std::max<uint64_t>(nanos, 1)));
  progress->Add(bytes);
  return absl::OkStatus();
}

double MillisSince(uint64_t start_nanos) {
  return static_cast<double>(os::MonotonicNanos() - start_nanos) / 1e6;
}

uint64_t CountDifferences(const void* a, const void* b, size_t bytes) {
  if (std::memcmp(a, b, bytes) == 0) return 0;
  const auto* x = static_cast<const unsigned char*>(a);
  const auto* y = static_cast<const unsigned char*>(b);
  uint64_t wrong = 0;
  for (size_t i = 0; i < bytes; ++i) wrong += x[i] != y[i];
  return wrong;
}

}  // namespace

const TimedPath& Timing::Path(const char* key) const {
  static constexpr TimedPath kNone = {"", "", 0, 0};
  for (const TimedPath& path : paths) {
    if (std::string_view(path.key) == key) return path;
  }
  return kNone;
}

absl::StatusOr<Timing> TimePaths(const DemoDevice& device, Instance& instance,
                                 const void* source, void* destination,
                                 size_t bytes, Progress* progress) {
  const Driver& driver = device.driver();
  Timing timing;
  timing.bytes = bytes;
  timing.rounds = kRounds;

  CUdeviceptr buffer = 0;
  CUstream stream = nullptr;
  auto status = CudaStatus(driver.MemAlloc(&buffer, bytes), "cuMemAlloc");
  if (!status.ok()) return status;
  const absl::Cleanup free_buffer = [&] { (void)driver.MemFree(buffer); };
  status = CudaStatus(
      driver.StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0),
      "cuStreamCreateWithPriority");
  if (!status.ok()) return status;
  const absl::Cleanup destroy_stream = [&] {
    (void)driver.StreamDestroy(stream);
  };

  uint64_t start = os::MonotonicNanos();
  void* pinned = nullptr;
  if (driver.MemHostAlloc(&pinned, bytes, 0) == CUDA_SUCCESS) {
    timing.pinned_allocation_ms = MillisSince(start);
  }
  const absl::Cleanup free_pinned = [&] {
    if (pinned != nullptr) (void)driver.MemFreeHost(pinned);
  };
  start = os::MonotonicNanos();
  void* staged = nullptr;
  status = instance.HostAlloc(&staged, bytes, 0);
  if (!status.ok()) return status;
  timing.staged_allocation_ms = MillisSince(start);
  if (status = instance.FreeHost(staged); !status.ok()) return status;
  auto pageable = os::ReservePages(bytes, os::PageBytes());
  const absl::Cleanup free_pageable = [&] {
    if (pageable.ok()) os::ReleasePages(*pageable, bytes).IgnoreError();
  };

  const auto native = [&](const char* key, const char* title, void* host) {
    std::memcpy(host, source, bytes);  // also makes it resident
    return Contender{
        .result = {key, title},
        .to_device =
            [&driver, buffer, host, bytes] {
              return CudaStatus(driver.MemcpyHtoD(buffer, host, bytes),
                                "cuMemcpyHtoD");
            },
        .to_host =
            [&driver, buffer, host, bytes] {
              return CudaStatus(driver.MemcpyDtoH(host, buffer, bytes),
                                "cuMemcpyDtoH");
            }};
  };
  void* const on_device = reinterpret_cast<void*>(buffer);
  const auto after = [&driver, stream](absl::Status enqueued) {
    if (!enqueued.ok()) return enqueued;
    return CudaStatus(driver.StreamSynchronize(stream), "cuStreamSynchronize");
  };

  std::vector<Contender> contenders;
  if (pinned != nullptr) {
    contenders.push_back(native("pinned", "pinned", pinned));
  }
  if (pageable.ok()) {
    contenders.push_back(
        native("pageable", "pageable, the driver's way", *pageable));
  }
  contenders.push_back({.result = {"staged_sync", "staged, synchronous"},
                        .to_device =
                            [&] {
                              return instance.Memcpy(on_device, source, bytes,
                                                     cudaMemcpyHostToDevice);
                            },
                        .to_host =
                            [&] {
                              return instance.Memcpy(destination, on_device,
                                                     bytes,
                                                     cudaMemcpyDeviceToHost);
                            }});
  contenders.push_back(
      {.result = {"staged_async", "staged, asynchronous"},
       .to_device =
           [&] {
             return after(instance.MemcpyAsync(on_device, source, bytes,
                                               cudaMemcpyHostToDevice, stream));
           },
       .to_host =
           [&] {
             return after(instance.MemcpyAsync(destination, on_device, bytes,
                                               cudaMemcpyDeviceToHost, stream));
           }});

  // Nothing of an earlier copy may be taken for this one's.
  std::memset(destination, 0, bytes);
  progress->Begin("timing", uint64_t{2} * bytes * kRounds * contenders.size());
  for (int round = 0; round < kRounds; ++round) {
    for (Contender& each : contenders) {
      status = TimeOnce(each.to_device, bytes, &each.to_device_rates, progress);
      if (!status.ok()) return status;
      status = TimeOnce(each.to_host, bytes, &each.to_host_rates, progress);
      if (!status.ok()) return status;
    }
  }
  progress->End();
  timing.wrong_bytes = CountDifferences(source, destination, bytes);
  for (Contender& each : contenders) {
    each.result.to_device = Median(each.to_device_rates);
    each.result.to_host = Median(each.to_host_rates);
    timing.paths.push_back(each.result);
  }
  return timing;
}

std::string FormatTiming(const Timing& timing) {
  std::string out =
      absl::StrFormat("Copies of %s, median of %d:\n  %-28s %15s %15s\n",
                      HumanBytes(timing.bytes), timing.rounds, "",
                      "host to device", "device to host");
  for (const TimedPath& path : timing.paths) {
    absl::StrAppendFormat(&out, "  %-28s %10.1f GB/s %10.1f GB/s\n", path.title,
                          path.to_device, path.to_host);
  }
  const TimedPath& staged = timing.Path("staged_sync");
  for (const auto& [key, what] :
       {std::pair{"pinned", "pinned"}, std::pair{"pageable", "pageable"}}) {
    const TimedPath& other = timing.Path(key);
    if (other.to_device <= 0 || other.to_host <= 0) continue;
    absl::StrAppendFormat(&out, "  %-28s %10.2f x    %10.2f x\n",
                          absl::StrCat("staged against ", what),
                          staged.to_device / other.to_device,
                          staged.to_host / other.to_host);
  }
  absl::StrAppendFormat(&out, "  allocating %s: staged %.2f ms",
                        HumanBytes(timing.bytes), timing.staged_allocation_ms);
  if (timing.pinned_allocation_ms > 0) {
    absl::StrAppendFormat(&out, ", pinned %.1f ms",
                          timing.pinned_allocation_ms);
  }
  out += "\n";
  return out;
}

}  // namespace pinring::cli
