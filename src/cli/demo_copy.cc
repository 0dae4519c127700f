#include "src/cli/demo_copy.h"

#include <algorithm>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/driver/status.h"
#include "src/os/threads.h"

namespace pinring::cli {
namespace {

constexpr size_t kSyncEvery = 4;

void* HostPointer(CUdeviceptr device) {
  return reinterpret_cast<void*>(device);
}

// The pieces of one stream.
class StreamWorker {
 public:
  StreamWorker(const DemoDevice& device, Instance& instance,
               const RoundTrip& trip, int index, Progress* progress)
      : device_(device),
        driver_(device.driver()),
        instance_(instance),
        trip_(trip),
        index_(static_cast<size_t>(index)),
        progress_(progress) {}

  absl::Status Run() {
    if (auto status = device_.Enter(); !status.ok()) return status;
    if (auto status = CudaStatus(driver_.StreamCreateWithPriority(
                                     &stream_, CU_STREAM_NON_BLOCKING, 0),
                                 "cuStreamCreateWithPriority");
        !status.ok()) {
      return status;
    }
    const absl::Cleanup destroy_stream = [this] {
      (void)driver_.StreamDestroy(stream_);
    };
    const size_t room = std::max(trip_.device_bytes, trip_.piece_bytes);
    if (auto status = CudaStatus(driver_.MemAlloc(&buffer_, room),
                                 absl::StrCat("cuMemAlloc of ", room));
        !status.ok()) {
      return status;
    }
    const absl::Cleanup free_buffer = [this] {
      (void)driver_.MemFree(buffer_);
    };
    absl::Status status = CopyPieces(room);
    // Also after an error: nothing may be in flight when the buffer goes.
    status.Update(Drain());
    return status;
  }

  const RoundTripCounts& counts() const { return counts_; }

 private:
  absl::Status CopyPieces(size_t room) {
    const size_t stride =
        trip_.piece_bytes * static_cast<size_t>(trip_.streams);
    size_t used = 0;
    size_t piece = 0;
    for (size_t at = index_ * trip_.piece_bytes; at < trip_.bytes;
         at += stride, ++piece) {
      const size_t bytes = std::min(trip_.piece_bytes, trip_.bytes - at);
      const bool sync = piece % kSyncEvery == kSyncEvery - 1;
      // The stream keeps the order of its own copies; synchronous ones go
      // through another stream, and a new piece may take an old one's place.
      if (sync || bytes > room - used) {
        if (auto status = Drain(); !status.ok()) return status;
        used = 0;
      }
      auto status = sync ? CopySync(at, bytes, buffer_)
                         : CopyAsync(at, bytes, buffer_ + used);
      if (!status.ok()) return status;
      if (!sync) used += bytes;
    }
    return absl::OkStatus();
  }

  absl::Status CopyAsync(size_t at, size_t bytes, CUdeviceptr buffer) {
    auto status = instance_.MemcpyAsync(HostPointer(buffer), trip_.source + at,
                                        bytes, cudaMemcpyHostToDevice, stream_);
    if (!status.ok()) return status;
    undrained_bytes_ += bytes;
    status = instance_.MemcpyAsync(trip_.destination + at, HostPointer(buffer),
                                   bytes, cudaMemcpyDeviceToHost, stream_);
    if (!status.ok()) return status;
    undrained_bytes_ += bytes;
    counts_.async_copies += 2;
    return absl::OkStatus();
  }

  absl::Status CopySync(size_t at, size_t bytes, CUdeviceptr buffer) {
    auto status = instance_.Memcpy(HostPointer(buffer), trip_.source + at,
                                   bytes, cudaMemcpyHostToDevice);
    if (!status.ok()) return status;
    progress_->Add(bytes);
    status = instance_.Memcpy(trip_.destination + at, HostPointer(buffer),
                              bytes, cudaMemcpyDeviceToHost);
    if (!status.ok()) return status;
    progress_->Add(bytes);
    counts_.sync_copies += 2;
    return absl::OkStatus();
  }

  absl::Status Drain() {
    auto status =
        CudaStatus(driver_.StreamSynchronize(stream_), "cuStreamSynchronize");
    progress_->Add(undrained_bytes_);
    undrained_bytes_ = 0;
    return status;
  }

  const DemoDevice& device_;
  const Driver& driver_;
  Instance& instance_;
  const RoundTrip& trip_;
  const size_t index_;
  Progress* const progress_;
  CUstream stream_ = nullptr;
  CUdeviceptr buffer_ = 0;
  uint64_t undrained_bytes_ = 0;
  RoundTripCounts counts_;
};

}  // namespace

absl::StatusOr<RoundTripCounts> CopyThereAndBack(const DemoDevice& device,
                                                 Instance& instance,
                                                 const RoundTrip& trip,
                                                 Progress* progress) {
  std::vector<StreamWorker> workers;
  workers.reserve(static_cast<size_t>(trip.streams));
  for (int index = 0; index < trip.streams; ++index) {
    workers.emplace_back(device, instance, trip, index, progress);
  }
  std::vector<absl::Status> results(workers.size());
  absl::Status status = absl::OkStatus();
  {
    std::vector<os::Thread> threads;
    for (size_t i = 0; i < workers.size(); ++i) {
      auto thread = os::Thread::Start(
          absl::StrCat("demo-", i),
          [&results, &workers, i] { results[i] = workers[i].Run(); });
      if (!thread.ok()) {
        status = thread.status();
        break;
      }
      threads.push_back(*std::move(thread));
    }
  }  // joins them
  RoundTripCounts counts;
  for (size_t i = 0; i < workers.size(); ++i) {
    status.Update(results[i]);
    counts.async_copies += workers[i].counts().async_copies;
    counts.sync_copies += workers[i].counts().sync_copies;
  }
  if (!status.ok()) return status;
  return counts;
}

}  // namespace pinring::cli
