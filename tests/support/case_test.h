// The fixture of the cases: a device, the library on it, and buffers whose
// every byte is looked at.

#ifndef PINRING_TESTS_SUPPORT_CASE_TEST_H_
#define PINRING_TESTS_SUPPORT_CASE_TEST_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "include/pinring/pinring.h"
#include "src/capi/default_instance.h"
#include "tests/support/pinned_api.h"
#include "tests/support/random_bytes.h"
#include "tests/support/testbed.h"
#include "tests/support/watchdog.h"

namespace pinring {

inline void* AsPointer(CUdeviceptr device) {
  return reinterpret_cast<void*>(device);
}

// What a run of a program saw, to be compared with another run's.
class Observed {
 public:
  template <typename T>
  void Add(const char* name, const T& value) {
    lines_.push_back(absl::StrCat(name, ": ", value));
  }
  void Add(const char* name, cudaError_t code) {
    Add(name, absl::StrCat("code ", static_cast<int>(code)));
  }
  // Not compared, but must be 0 in every run.
  void MustBeZero(const char* name, size_t count);
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

class CaseTest : public testing::Test {
 protected:
  static constexpr size_t kGuardBytes = 64;

  // Pinned memory with guards on both sides of its payload, which starts
  // `offset` bytes off alignment. Freed by Free, or else by the end of the run.
  class Host {
   public:
    Host(PinnedApi& api, size_t bytes, size_t offset = 0);
    ~Host() { Free(); }
    Host(const Host&) = delete;
    Host& operator=(const Host&) = delete;
    char* data() const { return base_ + kGuardBytes + offset_; }
    size_t bytes() const { return bytes_; }
    void* base() const { return base_; }
    size_t WrongGuards() const;
    void Free();
    // The block was freed by its base.
    void Forget() { base_ = nullptr; }

   private:
    PinnedApi& api_;
    size_t bytes_;
    size_t offset_;
    char* base_ = nullptr;
  };

  // Device memory in the same way.
  class Device {
   public:
    Device(CaseTest& test, size_t bytes, size_t offset = 0);
    ~Device();
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;
    CUdeviceptr at() const { return base_ + kGuardBytes + offset_; }
    void* pointer() const { return AsPointer(at()); }
    size_t bytes() const { return bytes_; }
    // Fill it and look at it, natively, on a stream of their own, which waits
    // for no other.
    void Upload(uint64_t seed);
    size_t Wrong(uint64_t seed);
    size_t NotValue(char value);
    size_t WrongGuards();

   private:
    std::vector<char> Download(CUdeviceptr at, size_t bytes);
    CaseTest& test_;
    size_t bytes_;
    size_t offset_;
    CUdeviceptr base_ = 0;
  };

  void SetUp() override;
  void TearDown() override;
  // A fresh device and library: settings as for pinringConfigure.
  void Start(const std::string& settings = "",
             const simcuda::MachineOptions& options = {});
  void Stop();

  Testbed& bed() { return *bed_; }
  const Driver& driver() const { return bed_->driver(); }
  Instance& instance();
  static size_t Sized(size_t native, size_t simulated) {
    return TestsRunNatively() ? native : simulated;
  }
  static uint64_t NewSeed() { return ++seed_; }

  // Runs the program with both kinds of pinned memory; both must see the same.
  void Compare(absl::FunctionRef<void(PinnedApi&, Observed&)> program);
  // Runs it with pinring only: what the driver's own memory cannot do.
  void Staged(absl::FunctionRef<void(PinnedApi&, Observed&)> program);

  pinringUsage Usage();
  // Every copy of a staged block went through the ring so far.
  void ExpectAllThroughTheRing();
  // Nothing is in flight or left over, and the device saw no misuse.
  void ExpectCleanEnd();

 private:
  static uint64_t seed_;
  std::unique_ptr<Watchdog> watchdog_;
  std::unique_ptr<Testbed> bed_;
  CUstream side_stream_ = nullptr;
};

// How long a case may take before it counts as hung.
inline constexpr absl::Duration kCaseLimit = absl::Seconds(60);

}  // namespace pinring

#endif  // PINRING_TESTS_SUPPORT_CASE_TEST_H_
