// Pinned memory that is not to be had. The driver cannot be made to refuse on
// demand, so these run on the simulated device only, and say so on a GPU.

#include <algorithm>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "tests/support/case_test.h"

namespace pinring {
namespace {

constexpr char kSimulatedOnly[] =
    "SIMULATED ONLY: a real driver cannot be told to refuse pinned memory; run "
    "without PINRING_TEST_DRIVER=native to test this";

size_t Count(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

struct HostFill {
  char* at;
  size_t bytes;
  uint64_t seed;
};

class RefusalTest : public CaseTest {
 protected:
  // A program of some copies, right natively, whose gate another thread opens.
  void ExpectTheProgramIsRight(size_t bytes) {
    const CUstream stream = bed().NonBlockingStream();
    const uint64_t seed = NewSeed();
    Staged([&](PinnedApi& api, Observed& observed) {
      Device a(*this, bytes, 1);
      Device b(*this, bytes);
      Host in(api, bytes, 5);
      Host out(api, bytes);
      for (const bool wait : {false, true}) {
        std::memset(in.data(), 1, bytes);
        std::memset(out.data(), 2, bytes);
        Gate gate(bed());
        gate.Hold(stream);
        HostFill fill = {in.data(), bytes, seed + wait};
        ASSERT_EQ(driver().LaunchHostFunc(
                      stream,
                      [](void* data) {
                        const auto* f = static_cast<const HostFill*>(data);
                        FillRandom(f->at, f->bytes, f->seed);
                      },
                      &fill),
                  CUDA_SUCCESS);
        std::thread opener([&] {
          absl::SleepFor(absl::Milliseconds(5));
          gate.Open();
        });
        ASSERT_EQ(api.CopyAsync(a.pointer(), in.data(), bytes, stream),
                  cudaSuccess);
        opener.join();
        if (wait) {
          ASSERT_EQ(driver().StreamSynchronize(stream), CUDA_SUCCESS);
          ASSERT_EQ(api.Copy(out.data(), a.pointer(), bytes), cudaSuccess);
          ASSERT_EQ(api.Copy(b.pointer(), out.data(), bytes), cudaSuccess);
        } else {
          ASSERT_EQ(api.CopyAsync(out.data(), a.pointer(), bytes, stream),
                    cudaSuccess);
          ASSERT_EQ(api.CopyAsync(b.pointer(), out.data(), bytes, stream),
                    cudaSuccess);
          ASSERT_EQ(driver().StreamSynchronize(stream), CUDA_SUCCESS);
        }
        observed.MustBeZero("out", WrongBytes(out.data(), bytes, seed + wait));
        observed.MustBeZero("b", b.Wrong(seed + wait));
        observed.MustBeZero("guards", out.WrongGuards() + b.WrongGuards());
      }
    });
  }

  uint64_t PinningCalls() {
    return bed().machine()->Calls("cuMemHostRegister") +
           bed().machine()->Calls("cuMemHostAlloc");
  }
};

// Case 13.
TEST_F(RefusalTest, WithoutARingTheProgramIsRightAndToldOnce) {
  if (TestsRunNatively()) GTEST_SKIP() << kSimulatedOnly;
  for (const CUresult code :
       {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_ALREADY_MAPPED, CUDA_ERROR_UNKNOWN,
        CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, CUDA_ERROR_INVALID_VALUE}) {
    for (const bool always : {false, true}) {
      SCOPED_TRACE(absl::StrCat("code ", code, ", always ", always));
      Start("small_limit_bytes=0,ring_bytes=1MiB");
      for (uint64_t call = 0; call < (always ? 100u : 1u); ++call) {
        bed().machine()->InjectFault({"cuMemHostRegister", call, code});
      }
      const uint64_t before = PinningCalls();
      testing::internal::CaptureStderr();
      ExpectTheProgramIsRight(100000);
      ExpectTheProgramIsRight(1);
      const std::string said = testing::internal::GetCapturedStderr();
      EXPECT_EQ(Count(said, "cannot be made"), 1u) << said;
      EXPECT_TRUE(absl::StrContains(said, "PINRING_RING_BYTES")) << said;
      EXPECT_LE(std::count(said.begin(), said.end(), '\n'), 2) << said;
      // One refused pin was enough.
      EXPECT_EQ(PinningCalls(), before + 1);
      const pinringUsage usage = Usage();
      EXPECT_EQ(usage.events[pinringEventRingRefused], 1u);
      EXPECT_GT(usage.events[pinringEventPageableFallback], 0u);
      EXPECT_EQ(usage.pinnedBytes, 0u);
      EXPECT_EQ(pinringPeekAtLastError(), cudaSuccess);
    }
  }
}

// Contract 4. The driver's synchronous copy from pageable memory may return
// before the bytes are in device memory; that of a block must not.
TEST_F(RefusalTest, ASynchronousCopyWithoutARingIsAtItsDestinationOnReturn) {
  if (TestsRunNatively()) GTEST_SKIP() << kSimulatedOnly;
  Start("small_limit_bytes=0,ring_bytes=1MiB");
  bed().machine()->InjectFault(
      {"cuMemHostRegister", 0, CUDA_ERROR_OUT_OF_MEMORY});
  for (const size_t bytes : {1, 4096, 60000}) {
    Staged([&](PinnedApi& api, Observed& observed) {
      Device device(*this, bytes);
      Host block(api, bytes);
      size_t wrong = 0;
      for (int round = 0; round < 50; ++round) {
        const uint64_t seed = NewSeed();
        FillRandom(block.data(), bytes, seed);
        ASSERT_EQ(api.Copy(device.pointer(), block.data(), bytes), cudaSuccess);
        wrong += device.Wrong(seed) != 0;
      }
      observed.MustBeZero("rounds with wrong bytes", wrong);
    });
  }
}

TEST_F(RefusalTest, WhereRegisteringIsNotSupportedTheRingIsAllocated) {
  if (TestsRunNatively()) GTEST_SKIP() << kSimulatedOnly;
  simcuda::MachineOptions options;
  options.host_register_supported = false;
  Start("small_limit_bytes=0,ring_bytes=1MiB", options);
  ExpectTheProgramIsRight(100000);
  ExpectAllThroughTheRing();
  Start("small_limit_bytes=0,ring_bytes=1MiB", options);
  bed().machine()->InjectFault({"cuMemHostAlloc", 0, CUDA_ERROR_OUT_OF_MEMORY});
  testing::internal::CaptureStderr();
  ExpectTheProgramIsRight(100000);
  EXPECT_EQ(Count(testing::internal::GetCapturedStderr(), "cannot be made"),
            1u);
  EXPECT_EQ(Usage().events[pinringEventRingRefused], 1u);
}

// A limit that the ring does not fit into is a refusal too, and one that the
// real driver has no part in.
TEST_F(RefusalTest, ALimitThatTheRingDoesNotFitIntoIsARefusal) {
  Start("small_limit_bytes=0,ring_bytes=4MiB,pinned_limit_bytes=2MiB");
  testing::internal::CaptureStderr();
  ExpectTheProgramIsRight(300000);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(Count(said, "cannot be made"), 1u) << said;
  EXPECT_TRUE(absl::StrContains(said, "PINRING_PINNED_LIMIT_BYTES")) << said;
  EXPECT_EQ(Usage().pinnedPeakBytes, 0u);
}

TEST_F(RefusalTest, WithoutStreamMemoryOperationsTheProgramIsRight) {
  if (TestsRunNatively()) GTEST_SKIP() << kSimulatedOnly;
  simcuda::MachineOptions options;
  options.stream_memory_operations = false;
  Start("small_limit_bytes=0,ring_bytes=1MiB", options);
  testing::internal::CaptureStderr();
  ExpectTheProgramIsRight(100000);
  EXPECT_EQ(Count(testing::internal::GetCapturedStderr(),
                  "no stream memory operations"),
            1u);
  EXPECT_GT(Usage().events[pinringEventStreamMemoryOpsAbsent], 0u);
}

// Case 17, a hundredth of it: 225 of 240 MiB are in use.
class WddmTest : public RefusalTest {
 protected:
  void StartCrowded(const std::string& settings) {
    simcuda::MachineOptions options;
    options.wddm = true;
    options.device_bytes = size_t{240} << 20;
    Start(settings, options);
    (void)bed().DeviceBuffer(size_t{225} << 20);
  }
};

TEST_F(WddmTest, NativelyARefusedPinPoisonsTheNext) {
  if (TestsRunNatively()) GTEST_SKIP() << kSimulatedOnly;
  StartCrowded("");
  DriverPinned native(driver());
  void* block = nullptr;
  ASSERT_EQ(native.Alloc(&block, size_t{1} << 20), cudaSuccess);
  EXPECT_NE(native.Alloc(&block, size_t{64} << 20), cudaSuccess);
  EXPECT_NE(native.Alloc(&block, 4096), cudaSuccess);
}

TEST_F(WddmTest, MorePinnedMemoryThanTheCardLeavesIsStaged) {
  if (TestsRunNatively()) GTEST_SKIP() << kSimulatedOnly;
  StartCrowded("ring_bytes=4MiB,small_pool_bytes=1MiB");
  std::vector<void*> blocks;
  for (int i = 0; i < 10; ++i) {
    void* block = nullptr;
    ASSERT_EQ(pinringMallocHost(&block, size_t{16} << 20), cudaSuccess);
    std::memset(block, i, 1000);
    blocks.push_back(block);
    void* small = nullptr;
    ASSERT_EQ(pinringMallocHost(&small, 1000), cudaSuccess);
    blocks.push_back(small);
  }
  ExpectTheProgramIsRight(1500000);
  ExpectAllThroughTheRing();
  for (void* block : blocks) EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
  EXPECT_LE(bed().machine()->PeakPinnedBytes(), size_t{6} << 20);
}

TEST_F(WddmTest, ARefusedRingIsNotTriedAgain) {
  if (TestsRunNatively()) GTEST_SKIP() << kSimulatedOnly;
  StartCrowded("small_limit_bytes=0,ring_bytes=64MiB");
  const uint64_t before = PinningCalls();
  testing::internal::CaptureStderr();
  ExpectTheProgramIsRight(700000);
  ExpectTheProgramIsRight(700000);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(Count(said, "cannot be made"), 1u) << said;
  EXPECT_EQ(PinningCalls(), before + 1);
  EXPECT_EQ(Usage().events[pinringEventRingRefused], 1u);
}

}  // namespace
}  // namespace pinring
