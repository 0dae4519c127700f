#include "src/cli/bench.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/capi/instance.h"
#include "src/capi/options.h"
#include "src/cli/demo_device.h"
#include "src/cli/progress.h"
#include "src/os/env.h"
#include "src/os/system_info.h"
#include "src/usage/json_writer.h"
#include "src/usage/usage_print.h"

namespace pinring::cli {
namespace {

constexpr uint64_t kDefaultSizes[] = {4 * kKiB,   16 * kKiB, 64 * kKiB,
                                      256 * kKiB, 1 * kMiB,  4 * kMiB,
                                      16 * kMiB,  64 * kMiB, 256 * kMiB};
constexpr uint64_t kMostSimulatedBytes = 16 * kMiB;
// Host memory of each of three kinds, and something to spare.
constexpr uint64_t kBlocks = 4;
// By default, as many copies of a size as move so much, within bounds.
constexpr uint64_t kBytesPerMedian = 1 * kGiB;
constexpr uint64_t kLeastRounds = 7;
constexpr uint64_t kMostRounds = 301;

struct Report {
  std::string device;
  bool simulated = false;
  uint64_t ring_bytes = 0;
  double pinned_allocation_ms = 0;
  double staged_allocation_ms = 0;
  std::vector<Timing> timings;

  [[nodiscard]] uint64_t wrong_bytes() const {
    uint64_t wrong = 0;
    for (const Timing& timing : timings) wrong += timing.wrong_bytes;
    return wrong;
  }
};

class Bench {
 public:
  Bench(const BenchOptions& options, FILE* out)
      : options_(options), out_(out), progress_(Progress::ForCommand(out)) {}

  absl::Status Run();
  const Report& report() const { return report_; }

 private:
  absl::StatusOr<std::vector<uint64_t>> ChooseSizes() const;
  int RoundsFor(uint64_t bytes) const;

  const BenchOptions options_;
  FILE* const out_;
  Progress progress_;
  Report report_;
  std::unique_ptr<DemoDevice> device_;
  AddressMap blocks_;
  std::unique_ptr<Instance> instance_;
};

// What the host has room for.
uint64_t MostBytes() {
  return os::AvailableMemoryBytes().value_or(UINT64_MAX) / kBlocks;
}

absl::Status Bench::Run() {
  uint64_t largest = kMostSimulatedBytes;
  for (const uint64_t bytes : options_.sizes) {
    largest = std::max(largest, std::min(bytes, MostBytes()));
  }
  auto device = DemoDevice::Open(2 * largest + 64 * kMiB);
  if (!device.ok()) return device.status();
  device_ = *std::move(device);
  report_.device = device_->name();
  report_.simulated = device_->simulated();
  absl::FPrintF(out_, "%s\n",
                report_.simulated
                    ? absl::StrCat("Simulated device, no GPU is used: bytes "
                                   "are compared and nothing is timed (",
                                   device_->reason(), ")")
                    : absl::StrCat("Device: ", report_.device));
  std::fflush(out_);
  const auto sizes = ChooseSizes();
  if (!sizes.ok()) return sizes.status();

  Options options;
  if (auto status = ReadEnvironment(os::GetEnv, &options); !status.ok()) {
    return status;
  }
  auto instance = Instance::Create(&device_->driver(), options, &blocks_);
  if (!instance.ok()) return instance.status();
  instance_ = *std::move(instance);
  report_.ring_bytes = instance_->options().ring_bytes;

  const uint64_t most = *std::max_element(sizes->begin(), sizes->end());
  const auto timer =
      PathTimer::Create(*device_, *instance_, most, options_.with_pinned);
  if (!timer.ok()) return timer.status();
  report_.pinned_allocation_ms = (*timer)->pinned_allocation_ms();
  report_.staged_allocation_ms = (*timer)->staged_allocation_ms();

  uint64_t total = 0;
  for (const uint64_t bytes : *sizes) {
    total += (*timer)->TimedBytes(bytes, RoundsFor(bytes));
  }
  progress_.Begin(report_.simulated ? "copying" : "timing", total);
  for (const uint64_t bytes : *sizes) {
    auto timing = (*timer)->Time(bytes, RoundsFor(bytes), &progress_);
    if (!timing.ok()) return timing.status();
    report_.timings.push_back(*std::move(timing));
  }
  progress_.End();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint64_t>> Bench::ChooseSizes() const {
  uint64_t most = std::min(MostBytes(), uint64_t{device_->free_bytes() / 2});
  if (options_.sizes.empty()) {
    if (report_.simulated) most = std::min(most, kMostSimulatedBytes);
    std::vector<uint64_t> sizes;
    for (const uint64_t bytes : kDefaultSizes) {
      if (bytes <= most || sizes.empty()) sizes.push_back(bytes);
    }
    return sizes;
  }
  for (const uint64_t bytes : options_.sizes) {
    if (bytes <= most) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        "--sizes: copies of ", HumanBytes(bytes), " need ", kBlocks,
        " times as much host memory and twice as much device memory; there is "
        "room for ",
        HumanBytes(most)));
  }
  return options_.sizes;
}

int Bench::RoundsFor(uint64_t bytes) const {
  if (report_.simulated) return 0;
  if (options_.rounds > 0) return options_.rounds;
  return static_cast<int>(
      std::clamp(kBytesPerMedian / bytes, kLeastRounds, kMostRounds));
}

double NanosOf(const TimedPath& path, bool to_device) {
  return to_device ? path.to_device_nanos : path.to_host_nanos;
}

std::string Bar(double part) {
  constexpr int kColumns = 32;
  const long columns = std::lround(part * kColumns);
  return std::string(static_cast<size_t>(columns), '#');
}

std::string FormatNanos(double nanos) {
  return nanos < 1e6 ? absl::StrFormat("%.1f us", nanos / 1e3)
                     : absl::StrFormat("%.2f ms", nanos / 1e6);
}

void PrintReport(const Report& report, FILE* out) {
  if (!report.simulated) {
    for (const bool to_device : {true, false}) {
      absl::FPrintF(out, "\n%s", FormatBars(report.timings, to_device));
    }
    absl::FPrintF(out, "\nAllocating the largest size: staged %.2f ms",
                  report.staged_allocation_ms);
    if (report.pinned_allocation_ms > 0) {
      absl::FPrintF(out, ", pinned %.2f ms", report.pinned_allocation_ms);
    }
    absl::FPrintF(out, "\nThe ring: %s\n", HumanBytes(report.ring_bytes));
  }
  const uint64_t wrong = report.wrong_bytes();
  absl::FPrintF(out, "%s: %d wrong bytes\n", wrong == 0 ? "Right" : "WRONG",
                wrong);
}

void WriteDirection(const char* key, size_t bytes, double nanos,
                    JsonWriter& json) {
  json.Key(key);
  if (nanos <= 0) {
    json.Null();
    return;
  }
  json.BeginObject();
  json.Key("nanoseconds");
  json.Number(nanos);
  json.Key("gb_per_s");
  json.Number(GigabytesPerSecond(bytes, nanos));
  json.EndObject();
}

std::string ReportJson(const Report& report, const absl::Status& status) {
  JsonWriter json;
  json.BeginObject();
  json.Field("schema", "pinring.bench");
  json.Field("version", uint64_t{1});
  json.Field("device", report.device);
  json.Key("simulated");
  json.Bool(report.simulated);
  json.Field("ring_bytes", report.ring_bytes);
  json.Key("sizes");
  json.BeginArray();
  for (const Timing& timing : report.timings) {
    json.BeginObject();
    json.Field("bytes", uint64_t{timing.bytes});
    json.Field("rounds", static_cast<uint64_t>(timing.rounds));
    json.Field("wrong_bytes", timing.wrong_bytes);
    json.Key("paths");
    json.BeginObject();
    for (const TimedPath& path : timing.paths) {
      json.Key(path.key);
      json.BeginObject();
      WriteDirection("host_to_device", timing.bytes, path.to_device_nanos,
                     json);
      WriteDirection("device_to_host", timing.bytes, path.to_host_nanos, json);
      json.EndObject();
    }
    json.EndObject();
    json.EndObject();
  }
  json.EndArray();
  json.Key("ok");
  json.Bool(status.ok() && report.wrong_bytes() == 0);
  json.Key("error");
  if (status.ok()) {
    json.Null();
  } else {
    json.String(std::string(status.message()));
  }
  json.EndObject();
  return std::move(json).Take();
}

}  // namespace

std::string FormatBars(const std::vector<Timing>& timings, bool to_device) {
  std::string out = absl::StrFormat(
      "%s (medians; the longest bar of a size is the fastest)\n",
      to_device ? "Host to device" : "Device to host");
  for (const Timing& timing : timings) {
    double fastest = 0;
    for (const TimedPath& path : timing.paths) {
      const double nanos = NanosOf(path, to_device);
      if (nanos > 0 && (fastest == 0 || nanos < fastest)) fastest = nanos;
    }
    std::string size = HumanBytes(timing.bytes);
    for (const TimedPath& path : timing.paths) {
      const double nanos = NanosOf(path, to_device);
      if (nanos <= 0) continue;
      absl::StrAppendFormat(&out, "%10s  %-26s %9s %6.1f GB/s  %s\n", size,
                            path.title, FormatNanos(nanos),
                            GigabytesPerSecond(timing.bytes, nanos),
                            Bar(fastest / nanos));
      size.clear();
    }
  }
  return out;
}

int RunBench(const BenchOptions& options) {
  FILE* const out = options.json ? stderr : stdout;
  Bench bench(options, out);
  const absl::Status status = bench.Run();
  if (status.ok()) {
    PrintReport(bench.report(), out);
  } else {
    absl::FPrintF(stderr, "pinring bench: %s\n", std::string(status.message()));
  }
  if (options.json) {
    absl::PrintF("%s\n", ReportJson(bench.report(), status));
  }
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  return status.ok() && bench.report().wrong_bytes() == 0 && written ? 0 : 1;
}

}  // namespace pinring::cli
