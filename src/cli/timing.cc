#include "src/cli/timing.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <string_view>
#include <utility>

#include "src/cli/pattern.h"
#include "src/driver/status.h"
#include "src/os/pages.h"
#include "src/os/system_info.h"
#include "src/os/threads.h"

namespace pinring::cli {
namespace {

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double MillisSince(uint64_t start_nanos) {
  return static_cast<double>(os::MonotonicNanos() - start_nanos) / 1e6;
}

uint64_t FreshSeed() {
  std::random_device random;
  return (uint64_t{random()} << 32) | random();
}

}  // namespace

const TimedPath* Timing::Find(const char* key) const {
  for (const TimedPath& path : paths) {
    if (std::string_view(path.key) == key) return &path;
  }
  return nullptr;
}

double GigabytesPerSecond(size_t bytes, double nanos) {
  return nanos <= 0 ? 0 : static_cast<double>(bytes) / nanos;
}

absl::StatusOr<std::unique_ptr<PathTimer>> PathTimer::Create(
    const DemoDevice& device, Instance& instance, size_t most_bytes,
    bool with_pinned) {
  std::unique_ptr<PathTimer> timer(new PathTimer(device, instance, most_bytes));
  if (absl::Status status = timer->Allocate(with_pinned); !status.ok()) {
    return status;
  }
  return timer;
}

absl::Status PathTimer::Allocate(bool with_pinned) {
  const Driver& driver = device_.driver();
  absl::Status status =
      CudaStatus(driver.MemAlloc(&buffer_, most_bytes_), "cuMemAlloc");
  if (!status.ok()) return status;
  status = CudaStatus(
      driver.StreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0),
      "cuStreamCreateWithPriority");
  if (!status.ok()) return status;

  if (with_pinned) {
    const uint64_t start = os::MonotonicNanos();
    if (driver.MemHostAlloc(&pinned_, most_bytes_, 0) == CUDA_SUCCESS) {
      pinned_allocation_ms_ = MillisSince(start);
      paths_.push_back({"pinned", "pinned", Way::kDriver, pinned_});
    } else {
      pinned_ = nullptr;
    }
  }
  if (const auto pages = os::ReservePages(most_bytes_, os::PageBytes());
      pages.ok()) {
    pageable_ = *pages;
    paths_.push_back(
        {"pageable", "pageable, the driver's way", Way::kDriver, pageable_});
  }
  const uint64_t start = os::MonotonicNanos();
  status = instance_.HostAlloc(&staged_, most_bytes_, 0);
  if (!status.ok()) return status;
  staged_allocation_ms_ = MillisSince(start);
  paths_.push_back(
      {"staged_sync", "staged, synchronous", Way::kStagedSync, staged_});
  paths_.push_back(
      {"staged_async", "staged, asynchronous", Way::kStagedAsync, staged_});
  return absl::OkStatus();
}

// All was told that could be: nobody is left to hear of a failure.
PathTimer::~PathTimer() {
  const Driver& driver = device_.driver();
  if (staged_ != nullptr) instance_.FreeHost(staged_).IgnoreError();
  if (pageable_ != nullptr) {
    os::ReleasePages(pageable_, most_bytes_).IgnoreError();
  }
  if (pinned_ != nullptr) (void)driver.MemFreeHost(pinned_);
  if (stream_ != nullptr) (void)driver.StreamDestroy(stream_);
  if (buffer_ != 0) (void)driver.MemFree(buffer_);
}

absl::Status PathTimer::Copy(const Path& path, size_t bytes,
                             bool to_device) const {
  const Driver& driver = device_.driver();
  void* const on_device = reinterpret_cast<void*>(buffer_);
  void* const dst = to_device ? on_device : path.host;
  const void* const src = to_device ? path.host : on_device;
  const cudaMemcpyKind kind =
      to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
  switch (path.way) {
    case Way::kDriver:
      return to_device
                 ? CudaStatus(driver.MemcpyHtoD(buffer_, path.host, bytes),
                              "cuMemcpyHtoD")
                 : CudaStatus(driver.MemcpyDtoH(path.host, buffer_, bytes),
                              "cuMemcpyDtoH");
    case Way::kStagedSync:
      return instance_.Memcpy(dst, src, bytes, kind);
    case Way::kStagedAsync:
      break;
  }
  absl::Status status = instance_.MemcpyAsync(dst, src, bytes, kind, stream_);
  if (!status.ok()) return status;
  return CudaStatus(driver.StreamSynchronize(stream_), "cuStreamSynchronize");
}

absl::StatusOr<uint64_t> PathTimer::Verify(const Path& path, size_t bytes,
                                           Progress* progress) const {
  const int threads = os::UsableCpus();
  const uint64_t seed = FreshSeed();
  FillPattern(path.host, bytes, seed, threads, progress);
  absl::Status status = Copy(path, bytes, true);
  if (!status.ok()) return status;
  std::memset(path.host, 0, bytes);
  if (status = Copy(path, bytes, false); !status.ok()) return status;
  return CountWrongBytes(path.host, bytes, seed, threads, progress);
}

absl::StatusOr<double> PathTimer::TimeCopy(const Path& path, size_t bytes,
                                           bool to_device) const {
  const uint64_t start = os::MonotonicNanos();
  absl::Status status = Copy(path, bytes, to_device);
  const uint64_t nanos = os::MonotonicNanos() - start;
  if (!status.ok()) return status;
  return static_cast<double>(std::max<uint64_t>(nanos, 1));
}

absl::StatusOr<Timing> PathTimer::Time(size_t bytes, int rounds,
                                       Progress* progress) {
  Timing timing;
  timing.bytes = bytes;
  timing.rounds = rounds;
  for (const Path& path : paths_) {
    const absl::StatusOr<uint64_t> wrong = Verify(path, bytes, progress);
    if (!wrong.ok()) return wrong.status();
    timing.wrong_bytes += *wrong;
    timing.paths.push_back({path.key, path.title});
  }
  std::vector<std::vector<double>> nanos[2];
  for (auto& direction : nanos) direction.resize(paths_.size());
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < paths_.size(); ++i) {
      for (const bool to_device : {true, false}) {
        const absl::StatusOr<double> one =
            TimeCopy(paths_[i], bytes, to_device);
        if (!one.ok()) return one.status();
        nanos[to_device ? 1 : 0][i].push_back(*one);
        progress->Add(bytes);
      }
    }
  }
  for (size_t i = 0; i < paths_.size(); ++i) {
    timing.paths[i].to_device_nanos = Median(std::move(nanos[1][i]));
    timing.paths[i].to_host_nanos = Median(std::move(nanos[0][i]));
  }
  return timing;
}

}  // namespace pinring::cli
