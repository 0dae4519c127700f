// A worker: round after round, new bytes go through blocks, streams and device
// buffers, and come back to be compared where an observer says that they are
// there.

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "absl/time/clock.h"
#include "src/os/check.h"
#include "tests/support/random_bytes.h"
#include "tests/support/stress.h"

namespace pinring {
namespace {

struct HostFill {
  char* at = nullptr;
  size_t bytes = 0;
  uint64_t seed = 0;
};

struct HostLook {
  const char* at = nullptr;
  size_t bytes = 0;
  uint64_t seed = 0;
  size_t wrong = 0;
  std::atomic<bool> looked{false};
};

class Worker {
 public:
  Worker(Stress& stress, int index, uint32_t* gate_flag, StressThread& self)
      : stress_(stress),
        bed_(*stress.bed),
        driver_(stress.bed->driver()),
        api_(*stress.api),
        index_(index),
        gate_flag_(gate_flag),
        self_(self),
        random_(stress.seed * 1000 + static_cast<uint64_t>(index)) {}

  void Run() {
    bed_.UseContext();
    for (CUdeviceptr& device : devices_) {
      Expect("cuMemAlloc", driver_.MemAlloc(&device, stress_.most_bytes));
    }
    for (int i = 0; i < 2; ++i) MakeStream(i);
    while (!stress_.stop.load()) {
      Round();
      self_.rounds.fetch_add(1);
    }
    State("cleans up");
    for (CUstream stream : streams_) {
      Expect("cuStreamSynchronize", driver_.StreamSynchronize(stream));
      Expect("cuStreamDestroy", driver_.StreamDestroy(stream));
    }
    Publish(nullptr);
    for (const CUdeviceptr device : devices_) {
      Expect("cuMemFree", driver_.MemFree(device));
    }
    self_.done.store(true);
  }

 private:
  void State(const char* state) { self_.state.store(state); }
  void Expect(const char* call, CUresult code) {
    self_.Expect(call, static_cast<int>(code));
  }
  void Expect(const char* call, cudaError_t code) {
    self_.Expect(call, static_cast<int>(code));
  }
  bool OneIn(unsigned n) { return random_() % n == 0; }

  void MakeStream(int i) {
    // One of each kind, so that the legacy stream has something to wait for.
    Expect("cuStreamCreateWithPriority",
           driver_.StreamCreateWithPriority(
               &streams_[i],
               i == 0 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT, 0));
  }

  char* Alloc(size_t bytes) {
    State("allocates a block");
    void* block = nullptr;
    Expect("alloc", api_.Alloc(&block, bytes));
    PINRING_CHECK(block != nullptr, "a block for the stress");
    return static_cast<char*>(block);
  }
  void Free(char* block) {
    State("frees a block");
    Expect("free", api_.Free(block));
  }

  void In(CUdeviceptr device, const char* block) {
    State("enqueues a copy to the device");
    Expect("copy in", api_.CopyAsync(reinterpret_cast<void*>(device), block,
                                     bytes_, stream_));
    self_.bytes.fetch_add(bytes_);
  }
  void Out(char* block, CUdeviceptr device) {
    State("enqueues a copy to the host");
    Expect("copy out", api_.CopyAsync(block, reinterpret_cast<void*>(device),
                                      bytes_, stream_));
    self_.bytes.fetch_add(bytes_);
  }
  void Look(const char* block) {
    State("compares bytes");
    self_.wrong_bytes.fetch_add(WrongBytes(block, bytes_, seed_));
  }

  void Publish(std::shared_ptr<RecordedEvent> event) {
    // What was there is let go of outside the lock, since that is a call.
    absl::MutexLock lock(&stress_.mutex);
    stress_.latest[index_].swap(event);
    old_ = std::move(event);
  }

  // Holds the stream until another worker's work so far is done.
  void EnqueueGate() {
    GateOpener::Job job;
    job.flag = gate_flag_;
    job.value = ++gate_value_;
    job.not_before = absl::Now() + absl::Microseconds(random_() % 500);
    {
      absl::MutexLock lock(&stress_.mutex);
      job.after = stress_.latest[random_() % Stress::kWorkers];
    }
    State("launches a gate");
    bed_.LaunchHold(stream_, gate_flag_, gate_value_);
    stress_.openers[random_() % Stress::kOpeners].Add(std::move(job));
  }

  void Round() {
    old_.reset();
    stress_.openers[random_() % Stress::kOpeners].EmptyTrash();
    const size_t most = OneIn(3) ? std::min<size_t>(stress_.most_bytes, 9000)
                                 : stress_.most_bytes;
    const size_t offset = random_() % 4 == 0 ? random_() % 100 : 0;
    bytes_ = 1 + random_() % most;
    seed_ = random_();
    const int which = static_cast<int>(random_() % 2);
    stream_ = streams_[which];

    char* const in = Alloc(bytes_ + offset);
    char* const out = Alloc(bytes_ + offset);
    std::memset(out, 0xee, bytes_ + offset);
    char* const source = in + offset;
    char* const target = out + offset;
    HostFill fill = {source, bytes_, seed_};

    const bool gated = !OneIn(4);
    if (gated) EnqueueGate();
    switch (random_() % 3) {
      case 0:  // before the copy is enqueued
        FillRandom(source, bytes_, seed_);
        In(devices_[0], source);
        break;
      case 1:  // by a host function of the stream
        State("enqueues a host function");
        std::memset(source, 0xdd, bytes_);
        Expect("cuLaunchHostFunc", driver_.LaunchHostFunc(
                                       stream_,
                                       [](void* data) {
                                         const auto* f =
                                             static_cast<const HostFill*>(data);
                                         FillRandom(f->at, f->bytes, f->seed);
                                       },
                                       &fill));
        In(devices_[0], source);
        break;
      default:  // through the device and a third block
        FillRandom(source, bytes_, seed_);
        In(devices_[1], source);
        Out(target, devices_[1]);
        In(devices_[0], target);
        break;
    }
    const bool freed = OneIn(4);
    if (freed) {
      // With the copy in flight: waits for it. The address comes back at once.
      Free(in);
      char* const again = Alloc(bytes_ + offset);
      std::memset(again, 0xff, bytes_ + offset);
      Free(again);
    }
    ObserveRoundTrip(target);
    if (!freed) Free(in);
    Free(out);
    if (OneIn(16)) {
      State("replaces a stream");
      Expect("cuStreamDestroy", driver_.StreamDestroy(stream_));
      MakeStream(which);
    }
  }

  // The bytes are on their way to devices_[0]: brings them back to `target`,
  // and looks when one of the observers says that they are there.
  void ObserveRoundTrip(char* target) {
    const uint64_t observer = random_() % 7;
    if (observer == 5) return ObserveSynchronousCopy(target);
    Out(target, devices_[0]);
    if (observer == 4) return ObserveHostFunction(target);
    auto event = std::make_shared<RecordedEvent>(driver_, stream_);
    if (observer != 0) Publish(event);
    switch (observer) {
      case 1:
        State("waits for an event");
        Expect("cuEventSynchronize", driver_.EventSynchronize(event->get()));
        break;
      case 2: {
        State("queries an event");
        CUresult code = CUDA_ERROR_NOT_READY;
        while (code == CUDA_ERROR_NOT_READY) {
          code = driver_.EventQuery(event->get());
        }
        Expect("cuEventQuery", code);
        break;
      }
      case 3: {
        State("queries the stream");
        CUresult code = CUDA_ERROR_NOT_READY;
        while (code == CUDA_ERROR_NOT_READY)
          code = driver_.StreamQuery(stream_);
        Expect("cuStreamQuery", code);
        break;
      }
      case 6:
        return ObserveOtherStream(target, event->get());
      default:
        State("waits for the stream");
        Expect("cuStreamSynchronize", driver_.StreamSynchronize(stream_));
        break;
    }
    Look(target);
  }

  void ObserveSynchronousCopy(char* target) {
    // The legacy stream waits for blocking streams only.
    if (stream_ == streams_[0]) {
      State("waits for the stream");
      Expect("cuStreamSynchronize", driver_.StreamSynchronize(stream_));
    }
    State("copies synchronously");
    Expect("synchronous copy",
           api_.Copy(target, reinterpret_cast<void*>(devices_[0]), bytes_));
    self_.bytes.fetch_add(bytes_);
    Look(target);
  }

  void ObserveHostFunction(char* target) {
    HostLook look;
    look.at = target;
    look.bytes = bytes_;
    look.seed = seed_;
    State("waits for a host function");
    Expect("cuLaunchHostFunc",
           driver_.LaunchHostFunc(
               stream_,
               [](void* data) {
                 auto* l = static_cast<HostLook*>(data);
                 l->wrong = WrongBytes(l->at, l->bytes, l->seed);
                 l->looked.store(true, std::memory_order_release);
               },
               &look));
    while (!look.looked.load(std::memory_order_acquire)) {
      absl::SleepFor(absl::Microseconds(20));
    }
    self_.wrong_bytes.fetch_add(look.wrong);
  }

  void ObserveOtherStream(char* target, CUevent event) {
    const CUstream other = stream_ == streams_[0] ? streams_[1] : streams_[0];
    char* const last = Alloc(bytes_);
    std::memset(last, 0xcc, bytes_);
    Expect("cuStreamWaitEvent", driver_.StreamWaitEvent(other, event, 0));
    const CUstream first = std::exchange(stream_, other);
    In(devices_[2], target);
    Out(last, devices_[2]);
    State("waits for the other stream");
    Expect("cuStreamSynchronize", driver_.StreamSynchronize(other));
    stream_ = first;
    Look(target);
    Look(last);
    Free(last);
  }

  Stress& stress_;
  Testbed& bed_;
  const Driver& driver_;
  PinnedApi& api_;
  const int index_;
  uint32_t* const gate_flag_;
  StressThread& self_;
  std::mt19937_64 random_;
  uint32_t gate_value_ = 0;
  CUdeviceptr devices_[3] = {0, 0, 0};
  CUstream streams_[2] = {nullptr, nullptr};
  std::shared_ptr<RecordedEvent> old_;
  // Of the round.
  CUstream stream_ = nullptr;
  size_t bytes_ = 0;
  uint64_t seed_ = 0;
};

}  // namespace

void RunStressWorker(Stress& stress, int index, uint32_t* gate_flag,
                     StressThread& self) {
  Worker(stress, index, gate_flag, self).Run();
}

}  // namespace pinring
