#include <utility>

#include "absl/time/clock.h"
#include "src/os/check.h"
#include "tests/support/stress.h"

namespace pinring {

RecordedEvent::RecordedEvent(const Driver& driver, CUstream stream)
    : driver_(driver) {
  PINRING_CHECK(
      driver_.EventCreate(&event_, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS,
      "cuEventCreate");
  PINRING_CHECK(driver_.EventRecord(event_, stream) == CUDA_SUCCESS,
                "cuEventRecord");
}

void GateOpener::Add(Job job) {
  absl::MutexLock lock(&mutex_);
  jobs_.push_back(std::move(job));
}

void GateOpener::EmptyTrash() {
  std::vector<std::shared_ptr<RecordedEvent>> trash;
  absl::MutexLock lock(&mutex_);
  trash.swap(trash_);
}

void GateOpener::Run(const Testbed& bed, const std::atomic<bool>& stop,
                     StressThread& self) {
  bed.UseContext();
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (jobs_.empty() && stop.load()) break;
      self.state.store(jobs_.empty() ? "has no gate to open"
                                     : "waits for another stream's event");
      for (size_t i = 0; i < jobs_.size();) {
        Job& job = jobs_[i];
        CUresult code = CUDA_SUCCESS;
        if (job.after != nullptr) {
          code = bed.driver().EventQuery(job.after->get());
        }
        if (code == CUDA_ERROR_NOT_READY || absl::Now() < job.not_before) {
          ++i;
          continue;
        }
        self.Expect("cuEventQuery", code);
        // Pairs with the gate kernel's acquire load.
        std::atomic_ref<uint32_t>(*job.flag).store(job.value,
                                                   std::memory_order_release);
        self.rounds.fetch_add(1);
        // Its destruction is a call that may wait.
        if (job.after != nullptr) trash_.push_back(std::move(job.after));
        job = std::move(jobs_.back());
        jobs_.pop_back();
      }
      if (jobs_.empty()) self.rounds.fetch_add(1);
    }
    absl::SleepFor(absl::Microseconds(100));
  }
  self.done.store(true);
}

}  // namespace pinring
