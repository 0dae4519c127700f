// What the scenarios of the conformance suite share.
//
// A scenario is a small piece of a CUDA program, written against the runtime
// API and nothing else, that records what it observes: codes, digests of bytes,
// what each observer saw. The suite is built twice from the same sources, as
// they are and with `-include pinring/cuda_compat.h`; both programs run the
// same scenarios with the same seeds, and compare.cmake compares their lines.
// The native program's observations are what is right. So an observation must
// not depend on the time or on addresses: it is made where the program itself
// has put things in order.
//
// Lines are `name = value`. Those of Run::Right are `name ! 1` and must be so
// in both programs; those of Run::Stated are `name ~ value` and may differ.

#ifndef PINRING_TESTS_CONFORMANCE_SCENARIO_H_
#define PINRING_TESTS_CONFORMANCE_SCENARIO_H_

#include <cuda_runtime.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <vector>

namespace conformance {

// One run of a scenario, with one seed.
class Run {
 public:
  explicit Run(uint64_t seed) : random_(seed), bytes_seed_(random_()) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Random, the same for the same seed. Between includes both ends.
  size_t Between(size_t least, size_t most);
  bool OneIn(size_t n) { return Between(1, n) == 1; }
  template <typename T>
  T Pick(const std::vector<T>& values) {
    return values[Between(0, values.size() - 1)];
  }
  // A size near one at which something changes: pages, slots, chunks, huge
  // pages.
  size_t Size(size_t most);

  // Fills memory with bytes that were not used before in this run.
  void Fill(void* at, size_t bytes);

  void Note(const std::string& name, int64_t value);
  void Note(const std::string& name, const char* value) = delete;
  // A call's code; returns it.
  cudaError_t Code(const std::string& name, cudaError_t code);
  void Digest(const std::string& name, const void* at, size_t bytes);
  // What holds whatever the device does.
  void Right(const std::string& name, bool right);
  // What may differ, because `statement`, words of README.md, says so.
  void Stated(const std::string& name, int64_t value,
              const std::string& statement);
  // The scenario cannot run here; the last line of it.
  void Skip(const std::string& why);

  // Lines so far; several threads may add to them, if they do so in turn.
  std::string TakeLines();

 private:
  void Add(const std::string& name, char sign, const std::string& value);

  std::mt19937_64 random_;
  uint64_t bytes_seed_;
  std::mutex mutex_;
  std::string lines_;
};

// What a scenario needs so that it can end, natively too.
enum class Needs {
  kNothing,
  // It queues work behind a gate that the same thread opens: nothing for
  // CUDA_LAUNCH_BLOCKING=1, nor where copies block since there is no ring.
  kQueueing,
  // Besides, others go on beside a stream that is held: nothing for
  // CUDA_DEVICE_MAX_CONNECTIONS=1.
  kSeveralQueues,
};

struct Scenario {
  const char* rule;  // of contract.md, the first of them if there are several
  const char* name;
  void (*function)(Run& run);
  // Seeds that it runs when the command asks for 100.
  int weight = 100;
  Needs needs = Needs::kNothing;
  int devices = 1;
  // Only when asked for by name: it needs surroundings of its own, or time.
  bool apart = false;
};

// The scenarios of each file.
std::vector<Scenario> OrderScenarios();
std::vector<Scenario> StreamScenarios();
std::vector<Scenario> BlockingScenarios();
std::vector<Scenario> LifetimeScenarios();
std::vector<Scenario> AddressScenarios();
std::vector<Scenario> ShapeScenarios();
std::vector<Scenario> AttributeScenarios();
std::vector<Scenario> GraphScenarios();
std::vector<Scenario> ErrorScenarios();
std::vector<Scenario> DeviceScenarios();
std::vector<Scenario> RandomScenarios();

// Ends the process with a line that says so, which then differs from what the
// other program observed, if a call that prepares something fails.
//
// What has been recorded before is printed first.
void Check(cudaError_t code, const char* call, const char* file, int line);
#define CHECK_OK(call) ::conformance::Check((call), #call, __FILE__, __LINE__)

uint64_t DigestOf(const void* at, size_t bytes);

// A block of what the program takes for pinned memory.
class Pinned {
 public:
  explicit Pinned(size_t bytes, unsigned flags = cudaHostAllocDefault);
  ~Pinned();
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  unsigned char* get() const { return data_; }
  size_t bytes() const { return bytes_; }
  // The caller has freed it, or will.
  unsigned char* Release();

 private:
  const size_t bytes_;
  unsigned char* data_ = nullptr;
};

// A range within a pinned block, with guard bytes before and behind it.
class Guarded {
 public:
  Guarded(Run& run, size_t bytes);
  unsigned char* get() const { return block_.get() + before_; }
  size_t bytes() const { return bytes_; }
  bool Intact() const;

 private:
  const size_t bytes_;
  const size_t before_;
  Pinned block_;
};

class Device {
 public:
  explicit Device(size_t bytes) { CHECK_OK(cudaMalloc(&data_, bytes)); }
  ~Device() { CHECK_OK(cudaFree(data_)); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  unsigned char* get() const { return static_cast<unsigned char*>(data_); }

 private:
  void* data_ = nullptr;
};

class Stream {
 public:
  explicit Stream(unsigned flags = cudaStreamNonBlocking) {
    CHECK_OK(cudaStreamCreateWithFlags(&stream_, flags));
  }
  ~Stream() { CHECK_OK(cudaStreamDestroy(stream_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }  // NOLINT: as natively.

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event() {
    CHECK_OK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
  }
  ~Event() { CHECK_OK(cudaEventDestroy(event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return event_; }  // NOLINT: as natively.

 private:
  cudaEvent_t event_ = nullptr;
};

// Holds streams, by host functions, until it is opened. Lives until they have
// gone on.
class Gate {
 public:
  Gate() = default;
  ~Gate() { Open(); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  void Hold(cudaStream_t stream);
  void Open();
  bool open();

 private:
  static void CUDART_CB Wait(void* gate);

  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

// Puts bytes into device memory, for whoever reads it next.
void Send(void* device, const void* host, size_t bytes);

// What lies in device memory, by a copy that pinring leaves alone.
std::vector<unsigned char> Contents(const void* device, size_t bytes);

// Asks until the answer is another one than "not ready", which it does not
// leave behind as the last error: how often it came is a matter of time.
cudaError_t Poll(const std::function<cudaError_t()>& query);

// Runs `function` when the stream gets there. It lives until then.
void HostFunction(cudaStream_t stream, std::function<void()>* function);

// Whether `call` waits for the gate. The gate is open afterwards, and the call
// has returned. If it returns while the gate is closed, that is known at once;
// if it does not, a second shows it.
bool WaitsFor(Gate& gate, const std::function<void()>& call);

// The run that is going on: its lines survive a failed Check, and a hang, which
// ends the process with the line `hung` a minute later.
void Watch(Run* run);

}  // namespace conformance

#endif  // PINRING_TESTS_CONFORMANCE_SCENARIO_H_
