// The streams and hardware queues of one simulated device, and which operation
// may take a step now.
//
// An operation runs when it is the first of its stream, the first of its
// hardware queue, everything it depends on besides is done, and its condition
// holds (a wait-value's flag, a kernel's callback). Hardware queues are first
// in first out in the order of enqueueing, also when the head waits for
// something of its own stream: that is how a stream that is held holds up
// others. A kernel holds its queue until it is done.
//
// Which queue: kernels, memory operations, memsets, host functions,
// device-to-device copies and small copies to the device take the compute
// queues, other copies those of their direction. A recorded event goes through
// the queue that its stream used last; a wait for an event takes none, as the
// operation behind it does the waiting. An operation in another queue than its
// stream's operation before costs an entry there too (the signal between the
// queues).
//
// Externally synchronized, but for Perform (op.h), which runs between Take and
// Finish.

#ifndef PINRING_SRC_SIMCUDA_DEVICE_H_
#define PINRING_SRC_SIMCUDA_DEVICE_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "src/simcuda/machine.h"
#include "src/simcuda/op.h"

namespace pinring::simcuda {

struct Capture;

struct HardwareQueue {
  std::string name;
  std::deque<OpRef> ops;
  size_t entries = 0;  // the sum of those of its ops
};

enum class StreamType { kLegacy, kPerThread, kBlocking, kNonBlocking };

struct Stream {
  uint64_t id = 0;
  int device = 0;
  uint64_t generation = 0;  // of its context
  StreamType type = StreamType::kBlocking;
  unsigned flags = 0;
  int priority = 0;
  CUstream handle = nullptr;
  std::deque<OpRef> ops;      // outstanding
  size_t host_functions = 0;  // of those
  HardwareQueue* queues[3] = {nullptr, nullptr,
                              nullptr};  // by Route, from the first need on
  HardwareQueue* latest_queue = nullptr;
  std::shared_ptr<Capture> capture;

  // Ordered against the legacy stream without being it.
  bool implicit() const {
    return type == StreamType::kBlocking || type == StreamType::kPerThread;
  }
};

class Device {
 public:
  Device(const MachineOptions& options, int ordinal);
  // Operations and streams refer to each other while they are enqueued.
  ~Device() { Drop(); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Whether the operation can be enqueued now, or its call blocks.
  bool HasRoom(Stream& stream, const Op& op);
  void Enqueue(const StreamRef& stream, const OpRef& op);
  // WDDM: hands everything enqueued to the hardware.
  void Flush();

  // How many operations may take a step; callbacks that were asked in this
  // epoch are left out.
  size_t CollectRunnable(uint64_t epoch);
  size_t runnable() const { return runnable_.size(); }  // as of then
  // Starts a step of the `which`-th of those, once each; null when it was
  // dropped since. A host function is only handed over: put it into the
  // thread's line.
  OpRef Take(size_t which, uint64_t epoch);
  // Ends it. Of an operation that was dropped meanwhile nothing remains to be
  // done.
  void Finish(const OpRef& op, const Performed& performed);

  // Whether something waits for what this device cannot see coming: a flag in
  // memory.
  bool Polls() const;
  bool Idle() const { return active_.empty(); }
  // Whether an operation is enqueued whose number is at most this.
  bool HasOutstanding(uint64_t number) const;
  uint64_t latest_number() const { return next_number_ - 1; }
  size_t outstanding() const;
  const std::vector<StreamRef>& active() const { return active_; }

  // Forgets everything enqueued; it never runs.
  void Drop();
  // Whether an operation of the device's, dropped or not, is in Perform at this
  // moment.
  bool Busy() const { return performing_ != 0; }
  std::string Describe() const;

 private:
  HardwareQueue* QueueFor(Stream& stream, Route route);
  size_t PickQueue(Route route) const;
  bool OnlyKernelsOutstanding() const;
  bool DependenciesDone(Op& op);
  bool ConditionHolds(const Op& op, uint64_t epoch) const;
  void AddImplicitDependencies(const Stream& stream, Op& op);
  void Remove(const OpRef& op);

  const MachineOptions& options_;
  const int ordinal_;
  std::vector<std::unique_ptr<HardwareQueue>>
      queues_[3];  // by Route; in one-queue mode one for all
  size_t next_queue_[3] = {0, 0, 0};
  std::vector<StreamRef> active_;  // streams with something outstanding, in the
                                   // order in which they came to have it
  std::vector<OpRef> runnable_;    // of the latest CollectRunnable
  std::vector<OpRef> batch_;       // WDDM: enqueued, not submitted
  uint64_t next_number_ = 1;
  int performing_ = 0;
};

}  // namespace pinring::simcuda

#endif  // PINRING_SRC_SIMCUDA_DEVICE_H_
