// pinringCopyAsync and pinringCopy: copies of any pageable memory through the
// ring, by the rule of access that the caller names; and what a pointer is.
// On a simulated device or (PINRING_TEST_DRIVER=native) on a GPU.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "include/pinring/pinring.h"
#include "src/os/pages.h"
#include "tests/support/default_instance_test.h"
#include "tests/support/testbed.h"

namespace pinring {
namespace {

constexpr size_t kGuardBytes = 64;
constexpr auto kGuard = std::byte{0xc3};

// Ordinary memory of the program's own, with guards on both sides.
class Memory {
 public:
  explicit Memory(size_t bytes) : all_(bytes + 2 * kGuardBytes, kGuard) {}

  std::byte* data() { return all_.data() + kGuardBytes; }
  size_t bytes() const { return all_.size() - 2 * kGuardBytes; }
  void Randomize(std::mt19937_64& random) {
    for (size_t i = 0; i < bytes(); ++i) {
      data()[i] = static_cast<std::byte>(random());
    }
  }
  bool GuardsHold() const {
    for (size_t i = 0; i < kGuardBytes; ++i) {
      if (all_[i] != kGuard || all_[all_.size() - 1 - i] != kGuard) {
        return false;
      }
    }
    return true;
  }
  bool Equals(Memory& other) {
    return bytes() == other.bytes() &&
           std::memcmp(data(), other.data(), bytes()) == 0;
  }

 private:
  std::vector<std::byte> all_;
};

class CapiCopyTest : public DefaultInstanceTest {
 protected:
  void SetUp() override {
    DefaultInstanceTest::SetUp();
    random_.seed(std::random_device()());
  }
  void* Device(size_t bytes) {
    return reinterpret_cast<void*>(bed_->DeviceBuffer(bytes));
  }
  void Synchronize(CUstream stream) {
    ASSERT_EQ(bed_->driver().StreamSynchronize(stream), CUDA_SUCCESS);
  }
  static uint64_t Count(pinringCopyDirection direction, pinringCopyPath path) {
    pinringUsage usage = PINRING_USAGE_INIT;
    EXPECT_EQ(pinringGetUsage(&usage), cudaSuccess);
    return usage.copies[direction][path].count;
  }

  std::mt19937_64 random_;
};

TEST_F(CapiCopyTest, AnyPageableMemoryGoesThroughTheRingBothWays) {
  const CUstream stream = bed_->NonBlockingStream();
  for (const size_t bytes :
       {size_t{1}, size_t{4097}, size_t{300'001}, 5 * kMiB + 3}) {
    for (const pinringAccess access :
         {pinringAccessStream, pinringAccessDuringCall, pinringAccessAny}) {
      Memory source(bytes), back(bytes);
      source.Randomize(random_);
      void* const device = Device(bytes);
      ASSERT_EQ(pinringCopyAsync(device, source.data(), bytes,
                                 cudaMemcpyHostToDevice, access, stream),
                cudaSuccess)
          << pinringGetLastErrorMessage();
      ASSERT_EQ(pinringCopyAsync(back.data(), device, bytes,
                                 cudaMemcpyDeviceToHost, access, stream),
                cudaSuccess);
      Synchronize(stream);
      EXPECT_TRUE(source.Equals(back)) << bytes << " bytes, access " << access;
      EXPECT_TRUE(source.GuardsHold() && back.GuardsHold());
      source.Randomize(random_);
      ASSERT_EQ(pinringCopy(device, source.data(), bytes,
                            cudaMemcpyHostToDevice, stream),
                cudaSuccess);
      ASSERT_EQ(pinringCopy(back.data(), device, bytes, cudaMemcpyDeviceToHost,
                            stream),
                cudaSuccess);
      EXPECT_TRUE(source.Equals(back)) << bytes << " bytes, synchronously";
    }
  }
  EXPECT_GT(Count(pinringCopyHostToDevice, pinringCopyStagedSync), 0u);
  EXPECT_GT(Count(pinringCopyDeviceToHost, pinringCopyStagedDeferred), 0u);
  EXPECT_EQ(Count(pinringCopyHostToDevice, pinringCopyPageableFallback), 0u);
}

TEST_F(CapiCopyTest, InStreamOrderTheSourceIsReadBehindTheGate) {
  const CUstream stream = bed_->NonBlockingStream();
  Memory source(2 * kMiB), back(2 * kMiB);
  source.Randomize(random_);
  void* const device = Device(source.bytes());
  Gate gate(*bed_);
  gate.Hold(stream);
  ASSERT_EQ(
      pinringCopyAsync(device, source.data(), source.bytes(),
                       cudaMemcpyHostToDevice, pinringAccessStream, stream),
      cudaSuccess);
  source.Randomize(random_);
  gate.Open();
  Synchronize(stream);
  ASSERT_EQ(
      bed_->driver().MemcpyDtoH(
          back.data(), reinterpret_cast<CUdeviceptr>(device), back.bytes()),
      CUDA_SUCCESS);
  EXPECT_TRUE(source.Equals(back));
}

TEST_F(CapiCopyTest, ReadDuringTheCallTheSourceIsFreeBehindTheGate) {
  const CUstream stream = bed_->NonBlockingStream();
  for (const size_t bytes : {size_t{1000}, size_t{64} << 10}) {
    Memory source(bytes), back(bytes), expected(bytes);
    source.Randomize(random_);
    std::memcpy(expected.data(), source.data(), bytes);
    void* const device = Device(bytes);
    Gate gate(*bed_);
    gate.Hold(stream);
    After open(kHappens, [&] { gate.Open(); });
    ASSERT_EQ(
        pinringCopyAsync(device, source.data(), bytes, cudaMemcpyHostToDevice,
                         pinringAccessDuringCall, stream),
        cudaSuccess);
    EXPECT_FALSE(bed_->Idle(stream)) << "the call waited for the stream";
    source.Randomize(random_);
    gate.Open();
    Synchronize(stream);
    ASSERT_EQ(bed_->driver().MemcpyDtoH(
                  back.data(), reinterpret_cast<CUdeviceptr>(device), bytes),
              CUDA_SUCCESS);
    EXPECT_TRUE(expected.Equals(back)) << bytes;
  }
}

// A small block is really pinned, so the driver does not read it during the
// call by itself.
TEST_F(CapiCopyTest, ReadDuringTheCallASmallBlockMayBeRewrittenAtOnce) {
  const CUstream stream = bed_->NonBlockingStream();
  constexpr size_t kBytes = 4096;
  void* block = nullptr;
  ASSERT_EQ(pinringMallocHost(&block, kBytes), cudaSuccess);
  Memory expected(kBytes), back(kBytes);
  void* const device = Device(kBytes);
  for (int i = 0; i < 100; ++i) {
    expected.Randomize(random_);
    std::memcpy(block, expected.data(), kBytes);
    ASSERT_EQ(pinringCopyAsync(device, block, kBytes, cudaMemcpyHostToDevice,
                               pinringAccessDuringCall, stream),
              cudaSuccess);
    std::memset(block, 0x5a, kBytes);
    Synchronize(stream);
    ASSERT_EQ(bed_->driver().MemcpyDtoH(
                  back.data(), reinterpret_cast<CUdeviceptr>(device), kBytes),
              CUDA_SUCCESS);
    ASSERT_TRUE(expected.Equals(back)) << i;
  }
  EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
}

TEST_F(CapiCopyTest, PinnedMemoryKeepsTheRuleOfAccess) {
  const CUstream stream = bed_->NonBlockingStream();
  char* const pinned = bed_->PinnedBuffer(kMiB);
  void* const device = Device(kMiB);
  std::memset(pinned, 1, kMiB);
  ASSERT_EQ(pinringCopyAsync(device, pinned, kMiB, cudaMemcpyHostToDevice,
                             pinringAccessDuringCall, stream),
            cudaSuccess);
  EXPECT_TRUE(bed_->Idle(stream));
  EXPECT_EQ(Count(pinringCopyHostToDevice, pinringCopyPassed), 1u);
}

TEST_F(CapiCopyTest, BadInputIsNamedAndNothingMoves) {
  const CUstream stream = bed_->NonBlockingStream();
  Memory source(1000);
  void* const device = Device(1000);
  EXPECT_EQ(
      pinringCopyAsync(device, source.data(), 1000, cudaMemcpyHostToDevice,
                       static_cast<pinringAccess>(9), stream),
      cudaErrorInvalidValue);
  EXPECT_STRNE(pinringGetLastErrorMessage(), "");
  EXPECT_EQ(pinringCopyAsync(device, source.data(), 1000,
                             static_cast<cudaMemcpyKind>(9),
                             pinringAccessStream, stream),
            cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(
      pinringCopyAsync(device, source.data(), SIZE_MAX, cudaMemcpyHostToDevice,
                       pinringAccessStream, stream),
      cudaErrorInvalidValue);
  EXPECT_EQ(
      pinringCopyAsync(device, source.data(), 1 << 30, cudaMemcpyHostToDevice,
                       pinringAccessStream, stream),
      cudaErrorInvalidValue);
  EXPECT_EQ(pinringCopyAsync(nullptr, nullptr, 0, cudaMemcpyHostToDevice,
                             pinringAccessAny, stream),
            cudaSuccess);
}

TEST_F(CapiCopyTest, ACapturingStreamRefusesWhatMustBeOverAtTheEndOfTheCall) {
  const Driver& driver = bed_->driver();
  const CUstream stream = bed_->NonBlockingStream();
  Memory source(1000);
  void* const device = Device(1000);
  ASSERT_EQ(
      driver.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
      CUDA_SUCCESS);
  EXPECT_EQ(
      pinringCopyAsync(device, source.data(), 1000, cudaMemcpyHostToDevice,
                       pinringAccessDuringCall, stream),
      cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(
      pinringCopy(device, source.data(), 1000, cudaMemcpyHostToDevice, stream),
      cudaErrorStreamCaptureUnsupported);
  // The capture goes on.
  CUgraph graph = nullptr;
  EXPECT_EQ(driver.StreamEndCapture(stream, &graph), CUDA_SUCCESS);
  EXPECT_EQ(driver.GraphDestroy(graph), CUDA_SUCCESS);
}

TEST_F(CapiCopyTest, BlockKindsTellStagedFromPinnedFromOthers) {
  void* staged = nullptr;
  void* small = nullptr;
  void* mapped = nullptr;
  ASSERT_EQ(pinringMallocHost(&staged, kMiB), cudaSuccess);
  ASSERT_EQ(pinringMallocHost(&small, 100), cudaSuccess);
  ASSERT_EQ(pinringHostAlloc(&mapped, kMiB, cudaHostAllocMapped), cudaSuccess);
  auto* const bytes = static_cast<char*>(staged);
  EXPECT_EQ(pinringGetBlockKind(bytes), pinringBlockStaged);
  EXPECT_EQ(pinringGetBlockKind(bytes + kMiB - 1), pinringBlockStaged);
  EXPECT_EQ(pinringGetBlockKind(bytes + kMiB), pinringBlockNone);
  EXPECT_EQ(pinringGetBlockKind(small), pinringBlockPinned);
  EXPECT_EQ(pinringGetBlockKind(mapped), pinringBlockPinned);
  EXPECT_EQ(pinringGetBlockKind(&staged), pinringBlockNone);
  EXPECT_EQ(pinringGetBlockKind(nullptr), pinringBlockNone);
  for (void* block : {staged, small, mapped}) {
    EXPECT_EQ(pinringPromote(block), cudaSuccess);
  }
  EXPECT_EQ(pinringPromote(&staged), cudaErrorInvalidValue);
  pinringUsage usage = PINRING_USAGE_INIT;
  ASSERT_EQ(pinringGetUsage(&usage), cudaSuccess);
  EXPECT_EQ(usage.kinds[pinringUsagePromoted].currentBytes, kMiB);
  EXPECT_EQ(bed_->AttributesOf(bytes + 5).type,
            static_cast<unsigned>(CU_MEMORYTYPE_HOST));
  for (void* block : {staged, small, mapped}) {
    EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
  }
  EXPECT_EQ(pinringGetBlockKind(bytes), pinringBlockNone);
}

// Without a ring and with blocks that cannot be promoted.
TEST_F(CapiCopyTest, WithoutARingTheSourceIsReadBehindTheLegacyStream) {
  ASSERT_EQ(pinringConfigure("pinned_limit_bytes=1MiB,promote=off"),
            cudaSuccess);
  void* block = nullptr;
  ASSERT_EQ(pinringMallocHost(&block, 100'000), cudaSuccess);
  std::memset(block, 1, 100'000);
  void* const device = Device(100'000);
  const CUstream stream = bed_->BlockingStream();
  Gate gate(*bed_);
  gate.Hold(nullptr);
  ASSERT_EQ(
      bed_->driver().LaunchHostFunc(
          nullptr, [](void* data) { std::memset(data, 2, 100'000); }, block),
      CUDA_SUCCESS);
  {
    After open(kStuck, [&] { gate.Open(); });
    // Nothing was queued on the stream itself so far.
    ASSERT_EQ(pinringMemcpyAsync(device, block, 100'000, cudaMemcpyHostToDevice,
                                 stream),
              cudaSuccess);
  }
  gate.Open();
  Synchronize(stream);
  EXPECT_EQ(Count(pinringCopyHostToDevice, pinringCopyPageableFallback), 1u);
  Memory back(100'000);
  ASSERT_EQ(
      bed_->driver().MemcpyDtoH(
          back.data(), reinterpret_cast<CUdeviceptr>(device), back.bytes()),
      CUDA_SUCCESS);
  EXPECT_EQ(back.data()[0], std::byte{2});
  EXPECT_EQ(back.data()[99'999], std::byte{2});
  EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
}

TEST_F(CapiCopyTest, WithoutARingMemsetsComeBehindTheLegacyStream) {
  ASSERT_EQ(pinringConfigure("pinned_limit_bytes=1MiB,promote=off"),
            cudaSuccess);
  void* block = nullptr;
  ASSERT_EQ(pinringMallocHost(&block, 100'000), cudaSuccess);
  const CUstream stream = bed_->BlockingStream();
  Gate gate(*bed_);
  gate.Hold(nullptr);
  ASSERT_EQ(
      bed_->driver().LaunchHostFunc(
          nullptr, [](void* data) { std::memset(data, 2, 100'000); }, block),
      CUDA_SUCCESS);
  {
    After open(kStuck, [&] { gate.Open(); });
    ASSERT_EQ(pinringMemsetAsync(block, 3, 100'000, stream), cudaSuccess);
  }
  gate.Open();
  Synchronize(stream);
  Synchronize(nullptr);
  EXPECT_EQ(static_cast<char*>(block)[99'999], 3);
  EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
}

TEST_F(CapiCopyTest, AFreeWaitsForAGraphThatHoldsThePageableBlock) {
  if (TestsRunNatively()) {
    GTEST_SKIP() << "SIMULATED ONLY: what a captured copy of pageable memory "
                    "means is not known";
  }
  ASSERT_EQ(pinringConfigure("promote=off"), cudaSuccess);
  const Driver& driver = bed_->driver();
  void* block = nullptr;
  ASSERT_EQ(pinringMallocHost(&block, 100'000), cudaSuccess);
  void* const device = Device(100'000);
  const CUstream stream = bed_->NonBlockingStream();
  ASSERT_EQ(
      driver.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
      CUDA_SUCCESS);
  ASSERT_EQ(pinringMemcpyAsync(block, device, 100'000, cudaMemcpyDeviceToHost,
                               stream),
            cudaSuccess);
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_EQ(driver.StreamEndCapture(stream, &graph), CUDA_SUCCESS);
  ASSERT_EQ(driver.GraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
  Gate gate(*bed_);
  gate.Hold(stream);
  ASSERT_EQ(driver.GraphLaunch(exec, stream), CUDA_SUCCESS);
  CallOnThread free(
      *bed_, [&] { return static_cast<CUresult>(pinringFreeHost(block)); });
  EXPECT_TRUE(free.Blocks());
  gate.Open();
  EXPECT_EQ(free.result(), CUDA_SUCCESS);
  Synchronize(stream);
  EXPECT_TRUE(bed_->machine()->Hazards().empty());
  EXPECT_EQ(driver.GraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(driver.GraphDestroy(graph), CUDA_SUCCESS);
}

TEST_F(CapiCopyTest, ABlockWhoseUnregistrationFailsOnceIsUnregistered) {
  if (TestsRunNatively()) {
    GTEST_SKIP() << "SIMULATED ONLY: a real driver cannot be told to fail";
  }
  const size_t before = bed_->machine()->PinnedBytes();
  void* block = nullptr;
  ASSERT_EQ(pinringMallocHost(&block, kMiB), cudaSuccess);
  ASSERT_EQ(pinringPromote(block), cudaSuccess);
  bed_->machine()->InjectFault({"cuMemHostUnregister", 0, CUDA_ERROR_UNKNOWN});
  EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
  EXPECT_EQ(bed_->machine()->PinnedBytes(), before);
}

TEST_F(CapiCopyTest, SetDeviceMakesADevicesContextCurrent) {
  EXPECT_EQ(pinringSetDevice(0), cudaSuccess);
  EXPECT_EQ(pinringSetDevice(1000), cudaErrorInvalidDevice);
  EXPECT_EQ(pinringSetDevice(-1), cudaErrorInvalidDevice);
}

}  // namespace
}  // namespace pinring
