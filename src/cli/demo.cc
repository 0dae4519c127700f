#include "src/cli/demo.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/capi/instance.h"
#include "src/capi/options.h"
#include "src/cli/demo_copy.h"
#include "src/cli/demo_device.h"
#include "src/cli/pattern.h"
#include "src/cli/progress.h"
#include "src/cli/timing.h"
#include "src/os/env.h"
#include "src/os/system_info.h"
#include "src/os/threads.h"
#include "src/usage/json_writer.h"
#include "src/usage/usage_print.h"

namespace pinring::cli {
namespace {

constexpr uint64_t kDefaultBytes = 8 * kGiB;
constexpr uint64_t kDefaultSimulatedBytes = 256 * kMiB;
constexpr uint64_t kLeastDefaultBytes = 256 * kMiB;
// What ring and pool may have beside them: flags, and what is mapped.
constexpr uint64_t kLimitHeadroomBytes = 16 * kMiB;
constexpr uint64_t kMostTimedBytes = 1 * kGiB;
constexpr int kTimedRounds = 5;
constexpr uint64_t kMostPieceBytes = 64 * kMiB;
constexpr uint64_t kSimulatedDeviceBytesPerStream = 24 * kMiB;
// Added to each piece, so that pieces start and end at odd addresses.
constexpr uint64_t kOddBytes = 4099;

struct Report {
  std::string device;
  bool simulated = false;
  uint64_t bytes = 0;
  int streams = 0;
  RoundTripCounts copies;
  uint64_t wrong_bytes = 0;
  UsageSnapshot usage;      // while the blocks were there
  uint64_t bytes_left = 0;  // accounted for after all was freed
  size_t hazards = 0;
  std::optional<Timing> timing;
  double pinned_allocation_ms = 0;
  double staged_allocation_ms = 0;

  bool ok() const {
    return wrong_bytes == 0 && bytes_left == 0 && hazards == 0 &&
           usage.pinned_peak_bytes <= usage.pinned_limit_bytes;
  }
};

class Demo {
 public:
  Demo(const DemoOptions& options, FILE* out)
      : options_(options), out_(out), progress_(Progress::ForCommand(out)) {}

  absl::Status Run();
  const Report& report() const { return report_; }

 private:
  absl::StatusOr<uint64_t> ChooseBytes() const;
  uint64_t PieceBytes() const;
  uint64_t DeviceBytesPerStream() const;
  absl::Status OpenInstance();
  absl::StatusOr<void*> Allocate(const char* category);
  absl::Status CopyAndCompare(void* source, void* destination);
  absl::Status Time();
  void Say(absl::string_view text) {
    absl::FPrintF(out_, "%s\n", text);
    std::fflush(out_);
  }

  const DemoOptions options_;
  FILE* const out_;
  Progress progress_;
  Report report_;
  int threads_ = 1;
  std::unique_ptr<DemoDevice> device_;
  AddressMap blocks_;
  std::unique_ptr<Instance> instance_;
};

absl::Status Demo::Run() {
  threads_ = os::UsableCpus();
  report_.streams = options_.streams;
  const uint64_t simulated_bytes =
      static_cast<uint64_t>(options_.streams + 1) *
      (kSimulatedDeviceBytesPerStream + kMostPieceBytes);
  auto device = DemoDevice::Open(simulated_bytes);
  if (!device.ok()) return device.status();
  device_ = *std::move(device);
  report_.device = device_->name();
  report_.simulated = device_->simulated();
  auto bytes = ChooseBytes();
  // The first line says what this runs on, whatever happens next.
  Say(report_.simulated
          ? absl::StrCat("Simulated device, no GPU is used: nothing here says "
                         "anything about speed (",
                         device_->reason(), ")")
          : absl::StrCat("Device: ", report_.device));
  if (!bytes.ok()) return bytes.status();
  report_.bytes = *bytes;
  if (auto status = OpenInstance(); !status.ok()) return status;
  Say(absl::StrFormat(
      "%s of staged memory to the device and back through a pinned ring of %s, "
      "on %d streams",
      HumanBytes(report_.bytes), HumanBytes(instance_->options().ring_bytes),
      options_.streams));

  auto source = Allocate("source");
  if (!source.ok()) return source.status();
  auto destination = Allocate("destination");
  if (!destination.ok()) return destination.status();
  auto status = CopyAndCompare(*source, *destination);
  if (!status.ok()) return status;
  report_.usage = instance_->Usage();
  if (!report_.simulated) {
    status = Time();
    if (!status.ok()) return status;
  }
  status.Update(instance_->FreeHost(*source));
  status.Update(instance_->FreeHost(*destination));
  const UsageSnapshot end = instance_->Usage();
  report_.bytes_left = end.kind(UsageKind::kStaged).current_bytes +
                       end.kind(UsageKind::kSmallPinned).current_bytes +
                       end.kind(UsageKind::kMappedPinned).current_bytes +
                       end.kind(UsageKind::kPromoted).current_bytes;
  report_.usage.pinned_peak_bytes = end.pinned_peak_bytes;
  for (const std::string& hazard : device_->Hazards()) {
    Say(absl::StrCat("A copy raced with the host: ", hazard));
    ++report_.hazards;
  }
  instance_.reset();
  return status;
}

// Two blocks of the size have to fit into what the machine has left, with
// something to spare for the comparison.
absl::StatusOr<uint64_t> Demo::ChooseBytes() const {
  const std::optional<uint64_t> available = os::AvailableMemoryBytes();
  if (options_.bytes.has_value()) {
    if (available.has_value() && *options_.bytes > *available / 2) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "--size=", *options_.bytes, " needs twice as much memory, and ",
          HumanBytes(*available), " are available; choose a smaller --size"));
    }
    return *options_.bytes;
  }
  if (report_.simulated) return kDefaultSimulatedBytes;
  if (!available.has_value()) return kLeastDefaultBytes;
  const uint64_t spare = *available / 8 + 3 * kMostTimedBytes;
  const uint64_t usable = *available - std::min(*available, spare);
  return std::clamp(usable / 2 / kMiB * kMiB, kLeastDefaultBytes,
                    kDefaultBytes);
}

uint64_t Demo::PieceBytes() const {
  const uint64_t pieces_wanted = static_cast<uint64_t>(options_.streams) * 8;
  return std::clamp(report_.bytes / pieces_wanted, 1 * kMiB, kMostPieceBytes) +
         kOddBytes;
}

uint64_t Demo::DeviceBytesPerStream() const {
  const auto streams = static_cast<uint64_t>(options_.streams);
  const uint64_t most = report_.simulated ? kSimulatedDeviceBytesPerStream
                                          : device_->free_bytes() / 2 / streams;
  return std::min(most, report_.bytes / streams + kOddBytes);
}

absl::Status Demo::OpenInstance() {
  Options options;
  if (auto status = ReadEnvironment(os::GetEnv, &options); !status.ok()) {
    return status;
  }
  if (options.pinned_limit_bytes == 0) {
    options.pinned_limit_bytes =
        options.ring_bytes + options.small_pool_bytes + kLimitHeadroomBytes;
  }
  auto instance = Instance::Create(&device_->driver(), options, &blocks_);
  if (!instance.ok()) return instance.status();
  instance_ = *std::move(instance);
  return absl::OkStatus();
}

absl::StatusOr<void*> Demo::Allocate(const char* category) {
  if (auto status = instance_->PushCategory(category); !status.ok()) {
    return status;
  }
  void* block = nullptr;
  absl::Status status = instance_->HostAlloc(&block, report_.bytes, 0);
  status.Update(instance_->PopCategory());
  if (!status.ok()) return status;
  return block;
}

absl::Status Demo::CopyAndCompare(void* source, void* destination) {
  const uint64_t seed =
      (uint64_t{std::random_device()()} << 32) | std::random_device()();
  progress_.Begin("filling", report_.bytes);
  FillPattern(source, report_.bytes, seed, threads_, &progress_);
  progress_.End();

  progress_.Begin("copying", 2 * report_.bytes);
  auto copies =
      CopyThereAndBack(*device_, *instance_,
                       {.source = static_cast<const std::byte*>(source),
                        .destination = static_cast<std::byte*>(destination),
                        .bytes = report_.bytes,
                        .streams = options_.streams,
                        .piece_bytes = PieceBytes(),
                        .device_bytes = DeviceBytesPerStream()},
                       &progress_);
  if (!copies.ok()) return copies.status();
  progress_.End();
  report_.copies = *copies;

  progress_.Begin("comparing", 2 * report_.bytes);
  report_.wrong_bytes =
      CountWrongBytes(destination, report_.bytes, seed, threads_, &progress_) +
      CountWrongBytes(source, report_.bytes, seed, threads_, &progress_);
  progress_.End();
  return absl::OkStatus();
}

absl::Status Demo::Time() {
  const uint64_t bytes = std::min(
      {report_.bytes, kMostTimedBytes, uint64_t{device_->free_bytes() / 2}});
  const auto timer = PathTimer::Create(*device_, *instance_, bytes, true);
  if (!timer.ok()) return timer.status();
  progress_.Begin("timing", (*timer)->TimedBytes(bytes, kTimedRounds));
  auto timing = (*timer)->Time(bytes, kTimedRounds, &progress_);
  if (!timing.ok()) return timing.status();
  progress_.End();
  report_.wrong_bytes += timing->wrong_bytes;
  report_.timing = *std::move(timing);
  report_.pinned_allocation_ms = (*timer)->pinned_allocation_ms();
  report_.staged_allocation_ms = (*timer)->staged_allocation_ms();
  return absl::OkStatus();
}

std::string FormatTiming(const Report& report) {
  const Timing& timing = *report.timing;
  std::string out =
      absl::StrFormat("Copies of %s, median of %d:\n  %-28s %15s %15s\n",
                      HumanBytes(timing.bytes), timing.rounds, "",
                      "host to device", "device to host");
  for (const TimedPath& path : timing.paths) {
    absl::StrAppendFormat(
        &out, "  %-28s %10.1f GB/s %10.1f GB/s\n", path.title,
        GigabytesPerSecond(timing.bytes, path.to_device_nanos),
        GigabytesPerSecond(timing.bytes, path.to_host_nanos));
  }
  const TimedPath* const staged = timing.Find("staged_sync");
  for (const char* const key : {"pinned", "pageable"}) {
    const TimedPath* const other = timing.Find(key);
    if (other == nullptr || staged == nullptr) continue;
    absl::StrAppendFormat(&out, "  %-28s %10.2f x    %10.2f x\n",
                          absl::StrCat("staged against ", key),
                          other->to_device_nanos / staged->to_device_nanos,
                          other->to_host_nanos / staged->to_host_nanos);
  }
  absl::StrAppendFormat(&out, "  allocating %s: staged %.2f ms",
                        HumanBytes(timing.bytes), report.staged_allocation_ms);
  if (report.pinned_allocation_ms > 0) {
    absl::StrAppendFormat(&out, ", pinned %.1f ms",
                          report.pinned_allocation_ms);
  }
  out += "\n";
  return out;
}

void PrintReport(const Report& report, FILE* out) {
  absl::FPrintF(out, "\n%s\n", FormatUsageText(report.usage));
  if (report.timing.has_value()) {
    absl::FPrintF(out, "%s\n", FormatTiming(report));
  }
  absl::FPrintF(out,
                "%s: %d wrong bytes of %s, in %d asynchronous and %d "
                "synchronous copies\n",
                report.wrong_bytes == 0 ? "Right" : "WRONG", report.wrong_bytes,
                HumanBytes(report.bytes), report.copies.async_copies,
                report.copies.sync_copies);
  const bool within =
      report.usage.pinned_peak_bytes <= report.usage.pinned_limit_bytes;
  absl::FPrintF(out, "%seally pinned at most: %s, limit %s\n",
                within ? "R" : "WRONG: r",
                HumanBytes(report.usage.pinned_peak_bytes),
                HumanBytes(report.usage.pinned_limit_bytes));
  if (report.bytes_left != 0) {
    absl::FPrintF(out, "WRONG: %d bytes are still accounted for\n",
                  report.bytes_left);
  }
}

void WriteTimingJson(const Timing& timing, JsonWriter& json) {
  json.BeginObject();
  json.Field("bytes", uint64_t{timing.bytes});
  json.Field("rounds", static_cast<uint64_t>(timing.rounds));
  for (const TimedPath& path : timing.paths) {
    json.Key(path.key);
    json.BeginObject();
    json.Key("host_to_device_gb_per_s");
    json.Number(GigabytesPerSecond(timing.bytes, path.to_device_nanos));
    json.Key("device_to_host_gb_per_s");
    json.Number(GigabytesPerSecond(timing.bytes, path.to_host_nanos));
    json.EndObject();
  }
  json.EndObject();
}

std::string ReportJson(const Report& report, const absl::Status& status) {
  JsonWriter json;
  json.BeginObject();
  json.Field("schema", "pinring.demo");
  json.Field("version", uint64_t{1});
  json.Field("device", report.device);
  json.Key("simulated");
  json.Bool(report.simulated);
  json.Field("bytes", report.bytes);
  json.Field("streams", static_cast<uint64_t>(report.streams));
  json.Field("async_copies", report.copies.async_copies);
  json.Field("sync_copies", report.copies.sync_copies);
  json.Field("wrong_bytes", report.wrong_bytes);
  json.Field("pinned_peak_bytes", report.usage.pinned_peak_bytes);
  json.Field("pinned_limit_bytes", report.usage.pinned_limit_bytes);
  json.Field("bytes_left", report.bytes_left);
  json.Field("hazards", uint64_t{report.hazards});
  if (report.timing.has_value()) {
    json.Key("timing");
    WriteTimingJson(*report.timing, json);
  }
  json.Key("usage");
  WriteUsageJson(report.usage, json);
  json.Key("ok");
  json.Bool(status.ok() && report.ok());
  if (!status.ok()) {
    json.Field("error", std::string(status.message()));
  }
  json.EndObject();
  return std::move(json).Take();
}

}  // namespace

int RunDemo(const DemoOptions& options) {
  FILE* const out = options.json ? stderr : stdout;
  Demo demo(options, out);
  const absl::Status status = demo.Run();
  if (status.ok()) {
    PrintReport(demo.report(), out);
  } else {
    absl::FPrintF(stderr, "pinring demo: %s\n", std::string(status.message()));
  }
  if (options.json) {
    absl::PrintF("%s\n", ReportJson(demo.report(), status));
  }
  // A reader that went away did not see that all is right.
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  return status.ok() && demo.report().ok() && written ? 0 : 1;
}

}  // namespace pinring::cli
