// What the threads of the stress test share.
//
// The stress is right natively, also where all streams share one hardware
// queue. That takes care with gates, as a call such as cuMemFree may wait for a
// gate holding the lock that other calls need: once a gate is enqueued, opening
// it must need no such call, and nothing enqueued later. So gates are opened by
// threads that do nothing but query an event of another stream, recorded before
// the gate was enqueued.

#ifndef PINRING_TESTS_SUPPORT_STRESS_H_
#define PINRING_TESTS_SUPPORT_STRESS_H_

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "tests/support/pinned_api.h"
#include "tests/support/testbed.h"

namespace pinring {

// One thread: what it does, for whoever looks when it hangs.
struct StressThread {
  std::string name;
  std::atomic<const char*> state{"starts"};
  std::atomic<uint64_t> rounds{0};
  std::atomic<uint64_t> bytes{0};
  std::atomic<uint64_t> wrong_bytes{0};
  std::atomic<uint64_t> errors{0};
  std::atomic<bool> done{false};
  // The first error, as "call: code".
  std::atomic<const char*> failed_call{nullptr};
  std::atomic<int> failed_code{0};

  void Expect(const char* call, int code) {
    if (code == 0) return;
    if (errors.fetch_add(1) == 0) {
      failed_call.store(call);
      failed_code.store(code);
    }
  }
};

// An event that was recorded once, and never will be again.
class RecordedEvent {
 public:
  RecordedEvent(const Driver& driver, CUstream stream);
  ~RecordedEvent() { (void)driver_.EventDestroy(event_); }
  RecordedEvent(const RecordedEvent&) = delete;
  RecordedEvent& operator=(const RecordedEvent&) = delete;
  CUevent get() const { return event_; }

 private:
  const Driver& driver_;
  CUevent event_ = nullptr;
};

// Opens gates. Its thread queries events and makes no other driver call.
class GateOpener {
 public:
  struct Job {
    uint32_t* flag = nullptr;
    uint32_t value = 0;
    std::shared_ptr<RecordedEvent> after;  // may be null
    absl::Time not_before;
  };

  void Add(Job job) ABSL_LOCKS_EXCLUDED(mutex_);
  // For threads that may wait: lets go of the events of gates that are open.
  void EmptyTrash() ABSL_LOCKS_EXCLUDED(mutex_);
  // The thread's body; ends when `stop` is set and nothing is left to open.
  void Run(const Testbed& bed, const std::atomic<bool>& stop,
           StressThread& self) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Mutex mutex_;
  std::vector<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<RecordedEvent>> trash_ ABSL_GUARDED_BY(mutex_);
};

struct Stress {
  static constexpr int kWorkers = 8;
  static constexpr int kOpeners = 2;

  Testbed* bed = nullptr;
  PinnedApi* api = nullptr;
  size_t most_bytes = 0;  // of one copy
  uint64_t seed = 0;
  std::atomic<bool> stop{false};
  std::atomic<bool> stop_openers{false};
  GateOpener openers[kOpeners];

  // The event that each worker recorded last.
  absl::Mutex mutex;
  std::shared_ptr<RecordedEvent> latest[kWorkers] ABSL_GUARDED_BY(mutex);
};

// The threads' bodies.
void RunStressWorker(Stress& stress, int index, uint32_t* gate_flag,
                     StressThread& self);

struct StressNeighbour {
  const char* name;
  void (*run)(Stress& stress, StressThread& self);
};
// Device and pinned allocation, native copies, streams, modules, device
// synchronization.
std::vector<StressNeighbour> StressNeighbours();

}  // namespace pinring

#endif  // PINRING_TESTS_SUPPORT_STRESS_H_
