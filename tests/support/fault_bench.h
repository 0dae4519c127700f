// One small program of copies whose driver calls can be made to fail.

#ifndef PINRING_TESTS_SUPPORT_FAULT_BENCH_H_
#define PINRING_TESTS_SUPPORT_FAULT_BENCH_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/capi/instance.h"
#include "tests/support/testbed.h"

namespace pinring {

// A device, an instance with a ring of four slots, three streams, and copies
// with buffers of their own, so that each one's bytes can be judged alone.
class FaultBench {
 public:
  static constexpr size_t kSlotBytes = 4096;
  static constexpr int kStreams =
      3;  // two non-blocking ones and a blocking one
  static constexpr size_t kArrayWidth = 700;
  static constexpr unsigned char kFill = 0x6b;

  struct Copy {
    bool out = false;
    bool wait = false;
    int stream = 0;
    size_t bytes = 0;
    uint64_t seed = 0;
    char* block = nullptr;
    CUdeviceptr device = 0;
    CUarray array = nullptr;  // instead, in rows of kArrayWidth
    bool fill = false;        // with kFill, instead of a copy
    bool peer = false;        // said to be between devices
    bool early = false;       // accessed during the call
    bool tried = false;
    absl::Status status;
  };

  FaultBench();
  ~FaultBench();
  FaultBench(const FaultBench&) = delete;
  FaultBench& operator=(const FaultBench&) = delete;

  simcuda::Machine& machine() { return *bed_.machine(); }
  const Driver& driver() const { return bed_.driver(); }
  Testbed& bed() { return bed_; }
  Instance& instance() { return *instance_; }
  CUstream stream(int i) const { return streams_[i]; }
  const std::deque<Copy>& copies() const { return copies_; }

  // Makes the ring now, by a copy.
  void Warm();
  // Prepares a copy: block, device memory and new bytes at its source.
  Copy* Prepare(bool out, size_t bytes, int stream, bool wait = false);
  // The same, to an array of that many rows; and a memset of a block.
  Copy* PrepareArray(size_t rows, int stream, bool wait = false);
  Copy* PrepareFill(size_t bytes, int stream, bool wait = false);
  void Issue(Copy* copy);
  void Hold(int stream) { gate_.Hold(streams_[stream]); }
  void Open() { gate_.Open(); }

  // Wrong bytes of the copies that answered success.
  size_t WrongBytes();
  void FreeBlocks();
  // Frees a copy's block; its bytes are not looked at any more.
  absl::Status Free(Copy* copy);
  // Tears the instance down, so that what it leaves can be seen.
  void DropInstance();
  void RestartInstance();
  size_t pinned_before() const { return pinned_before_; }

 private:
  Copy* AddCopy(bool out, size_t bytes, int stream, bool wait);
  // Of a copy to the device.
  size_t WrongBytesThere(const Copy& copy);

  Testbed bed_;
  size_t pinned_before_ = 0;
  AddressMap blocks_;
  std::unique_ptr<Instance> instance_;
  CUstream streams_[kStreams] = {};
  CUstream side_stream_ = nullptr;
  Gate gate_;
  std::deque<Copy> copies_;
};

// What is made to fail.
struct FaultScenario {
  std::string name;
  // Before the faults are set: copies are prepared, streams held.
  std::function<void(FaultBench&)> prepare;
  // The program, whose driver calls fail: only calls of the instance.
  std::function<void(FaultBench&)> run;
};

std::vector<FaultScenario> FaultScenarios();

}  // namespace pinring

#endif  // PINRING_TESTS_SUPPORT_FAULT_BENCH_H_
