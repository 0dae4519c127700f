// Which calls of the CUDA driver wait while a stream is held by a kernel,
// checked on the simulated device and, with PINRING_TEST_DRIVER=native, on a
// GPU.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "src/os/pages.h"
#include "tests/support/test_kernels.h"
#include "tests/support/testbed.h"

namespace pinring {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

#define EXPECT_CU(call) EXPECT_EQ((call), CUDA_SUCCESS)
#define ASSERT_CU(call) ASSERT_EQ((call), CUDA_SUCCESS)

class CallsBesideAGateTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why = Testbed::WhySkip();
    if (!why.empty()) GTEST_SKIP() << why;
    testbed_ = std::make_unique<Testbed>();
    held_ = bed().NonBlockingStream();
    free_ = bed().NonBlockingStream();
    host_ = bed().PinnedBuffer(4 * kMiB);
    device_ = bed().DeviceBuffer(4 * kMiB);
    // Both streams were used before.
    ASSERT_CU(cu().MemcpyHtoDAsync(device_, host_, kMiB, held_));
    ASSERT_CU(cu().MemcpyHtoDAsync(device_, host_, kMiB, free_));
    // As is what a memset needs.
    ASSERT_CU(cu().MemsetD8Async(device_, 0, 4, free_));
    ASSERT_CU(
        cu().MemsetD8Async(reinterpret_cast<CUdeviceptr>(host_), 0, 4, free_));
    ASSERT_CU(cu().CtxSynchronize());
    gate_ = std::make_unique<Gate>(bed());
    // Calls that might wait for the gate are made on threads, bounded; this is
    // for one that was not expected to.
    rescue_ =
        std::make_unique<After>(absl::Seconds(60), [this] { gate_->Open(); });
    gate_->Hold(held_);
  }

  Testbed& bed() { return *testbed_; }
  const Driver& cu() { return testbed_->driver(); }

  void ExpectWaits(std::function<CUresult()> call) {
    CallOnThread on_thread(bed(), std::move(call));
    EXPECT_TRUE(on_thread.Blocks());
    gate_->Open();
    EXPECT_CU(on_thread.result());
  }
  void ExpectReturns(std::function<CUresult()> call) {
    CallOnThread on_thread(bed(), std::move(call));
    EXPECT_TRUE(on_thread.Returns());
    EXPECT_FALSE(bed().Idle(held_));
    gate_->Open();
    EXPECT_CU(on_thread.result());
  }

  std::unique_ptr<Testbed> testbed_;
  CUstream held_ = nullptr;
  CUstream free_ = nullptr;
  char* host_ = nullptr;
  CUdeviceptr device_ = 0;
  std::unique_ptr<Gate> gate_;
  std::unique_ptr<After> rescue_;
};

TEST_F(CallsBesideAGateTest, FreeingDeviceMemoryWaits) {
  CUdeviceptr other = 0;
  ASSERT_CU(cu().MemAlloc(&other, kMiB));
  ExpectWaits([&] { return cu().MemFree(other); });
}

TEST_F(CallsBesideAGateTest, FreeingAnUnusedPinnedBlockWaits) {
  void* other = nullptr;
  ASSERT_CU(cu().MemHostAlloc(&other, kMiB, 0));
  ExpectWaits([&] { return cu().MemFreeHost(other); });
}

TEST_F(CallsBesideAGateTest, FreeingABlockWithACopyQueuedWaits) {
  void* other = nullptr;
  ASSERT_CU(cu().MemHostAlloc(&other, kMiB, 0));
  ASSERT_CU(cu().MemcpyHtoDAsync(device_, other, kMiB, held_));
  ExpectWaits([&] { return cu().MemFreeHost(other); });
}

TEST_F(CallsBesideAGateTest, UnregisteringWaits) {
  void* memory = *os::ReservePages(kMiB, os::PageBytes());
  ASSERT_CU(cu().MemHostRegister(memory, kMiB, 0));
  ExpectWaits([&] { return cu().MemHostUnregister(memory); });
  EXPECT_TRUE(os::ReleasePages(memory, kMiB).ok());
}

TEST_F(CallsBesideAGateTest, AnAsyncCopyFromHostToHostWaits) {
  ExpectWaits([&] {
    return cu().MemcpyAsync(reinterpret_cast<CUdeviceptr>(host_),
                            reinterpret_cast<CUdeviceptr>(host_ + kMiB), kMiB,
                            held_);
  });
}

TEST_F(CallsBesideAGateTest, AllocatingDeviceMemoryReturns) {
  CUdeviceptr other = 0;
  ExpectReturns([&] { return cu().MemAlloc(&other, kMiB); });
  EXPECT_CU(cu().MemFree(other));
}

TEST_F(CallsBesideAGateTest, PinningReturns) {
  void* other = nullptr;
  ExpectReturns([&] { return cu().MemHostAlloc(&other, kMiB, 0); });
  EXPECT_CU(cu().MemFreeHost(other));
}

TEST_F(CallsBesideAGateTest, RegisteringReturns) {
  void* memory = *os::ReservePages(4 * kMiB, os::PageBytes());
  std::memset(memory, 1, 4 * kMiB);
  ExpectReturns([&] { return cu().MemHostRegister(memory, 4 * kMiB, 0); });
  EXPECT_CU(cu().MemHostUnregister(memory));
  EXPECT_TRUE(os::ReleasePages(memory, 4 * kMiB).ok());
}

TEST_F(CallsBesideAGateTest, MakingAndDestroyingStreamsReturns) {
  CUstream stream = nullptr;
  CallOnThread create(bed(), [&] {
    return cu().StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0);
  });
  EXPECT_TRUE(create.Returns());
  EXPECT_CU(create.result());
  ExpectReturns([&] { return cu().StreamDestroy(stream); });
}

TEST_F(CallsBesideAGateTest, RecordingAnEventReturns) {
  CUevent event = nullptr;
  ASSERT_CU(cu().EventCreate(&event, CU_EVENT_DISABLE_TIMING));
  ExpectReturns([&] { return cu().EventRecord(event, free_); });
  EXPECT_CU(cu().EventDestroy(event));
}

// Which of the calls waits depends on the driver and CUDA_MODULE_LOADING:
// loading the module, looking the kernel up or the launch. Whether any does is
// asserted where it is known, on the simulated device.
TEST_F(CallsBesideAGateTest, LoadingAModuleAndLaunchingFromItEnds) {
  CUmodule module = nullptr;
  CallOnThread load_and_launch(bed(), [&] {
    CUfunction function = nullptr;
    CUresult result = cu().ModuleLoadData(&module, kTestKernelsPtx);
    if (result != CUDA_SUCCESS) return result;
    result = cu().ModuleGetFunction(&function, module, kAddOneKernel);
    if (result != CUDA_SUCCESS) return result;
    CUdeviceptr counter = device_;
    void* parameters[] = {&counter};
    return cu().LaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, free_, parameters,
                             nullptr);
  });
  const bool blocks = load_and_launch.Blocks();
  if (!TestsRunNatively()) {
    EXPECT_TRUE(blocks);
  }
  RecordProperty("blocks", blocks);
  gate_->Open();
  EXPECT_CU(load_and_launch.result());
  EXPECT_CU(cu().StreamSynchronize(free_));
  uint32_t value = 0;
  EXPECT_CU(cu().MemcpyDtoH(&value, device_, sizeof(value)));
  EXPECT_EQ(value, 1u);
  if (module != nullptr) {
    EXPECT_CU(cu().ModuleUnload(module));
  }
}

TEST_F(CallsBesideAGateTest, AnAsyncCopyOfUpTo1MiBOfPageableMemoryReturns) {
  const size_t sizes[] = {64 << 10, kMiB};
  auto source = std::make_unique<char[]>(kMiB);
  std::memset(source.get(), 1, kMiB);
  CallOnThread copies(bed(), [&] {
    for (size_t bytes : sizes) {
      const CUresult result =
          cu().MemcpyHtoDAsync(device_ + kMiB, source.get(), bytes, held_);
      if (result != CUDA_SUCCESS) return result;
    }
    return CUDA_SUCCESS;
  });
  EXPECT_TRUE(copies.Returns());
  EXPECT_FALSE(bed().Idle(held_));
  gate_->Open();
  EXPECT_CU(copies.result());
}

// The three wait one after the other: each is held by a gate of its own.
TEST_F(CallsBesideAGateTest, AnAsyncCopyOf4MiBOfPageableMemoryOrMoreWaits) {
  auto source = std::make_unique<char[]>(64 * kMiB);
  std::memset(source.get(), 1, 64 * kMiB);
  const CUdeviceptr device = bed().DeviceBuffer(64 * kMiB);
  gate_->Open();
  ASSERT_CU(cu().CtxSynchronize());
  for (size_t bytes : {4 * kMiB, 16 * kMiB, 64 * kMiB}) {
    Gate gate(bed());
    gate.Hold(held_);
    CallOnThread copy(bed(), [&] {
      return cu().MemcpyHtoDAsync(device, source.get(), bytes, held_);
    });
    EXPECT_TRUE(copy.Blocks()) << bytes;
    gate.Open();
    EXPECT_CU(copy.result()) << bytes;
    ASSERT_CU(cu().StreamSynchronize(held_));
  }
}

TEST_F(CallsBesideAGateTest, ASyncPinnedCopyReturnsWithItsBytes) {
  // The legacy stream does not wait for non-blocking ones.
  std::memset(host_, 0x42, kMiB);
  ExpectReturns([&] { return cu().MemcpyHtoD(device_, host_, kMiB); });
}

TEST_F(CallsBesideAGateTest, QueriesAndAttributesReturn) {
  ExpectReturns([&]() -> CUresult {
    size_t free_bytes = 0;
    size_t total = 0;
    EXPECT_CU(cu().MemGetInfo(&free_bytes, &total));
    EXPECT_EQ(bed().AttributesOf(host_).type, CU_MEMORYTYPE_HOST);
    EXPECT_EQ(cu().StreamQuery(held_), CUDA_ERROR_NOT_READY);
    return cu().StreamQuery(free_);
  });
}

TEST_F(CallsBesideAGateTest, AWriteValueOnTheLegacyStreamReturns) {
  if (cu().StreamWriteValue32 == nullptr) GTEST_SKIP() << "no such call";
  uint32_t* flag = bed().PinnedFlag();
  ExpectReturns([&] {
    return cu().StreamWriteValue32(nullptr, reinterpret_cast<CUdeviceptr>(flag),
                                   9, 0);
  });
}

TEST_F(CallsBesideAGateTest, AMemsetOfPinnedMemoryReturns) {
  ExpectReturns([&] {
    return cu().MemsetD8Async(reinterpret_cast<CUdeviceptr>(host_), 1, kMiB,
                              held_);
  });
}

TEST_F(CallsBesideAGateTest, AWaitingFreeHoldsTheLockThatCopiesNeed) {
  if (cu().StreamWriteValue32 == nullptr) GTEST_SKIP() << "no such call";
  CUdeviceptr other = 0;
  ASSERT_CU(cu().MemAlloc(&other, kMiB));
  uint32_t* flag = bed().PinnedFlag();
  CallOnThread freeing(bed(), [&] { return cu().MemFree(other); });
  EXPECT_TRUE(freeing.Blocks());
  CallOnThread attributes(bed(), [&]() -> CUresult {
    EXPECT_EQ(bed().AttributesOf(host_).type, CU_MEMORYTYPE_HOST);
    return CUDA_SUCCESS;
  });
  EXPECT_TRUE(attributes.Returns());
  CallOnThread memory_operation(bed(), [&] {
    return cu().StreamWriteValue32(free_, reinterpret_cast<CUdeviceptr>(flag),
                                   9, 0);
  });
  EXPECT_TRUE(memory_operation.Returns());
  CallOnThread copy(
      bed(), [&] { return cu().MemcpyHtoDAsync(device_, host_, kMiB, free_); });
  EXPECT_TRUE(copy.Blocks());
  gate_->Open();
  EXPECT_CU(freeing.result());
  EXPECT_CU(attributes.result());
  EXPECT_CU(memory_operation.result());
  EXPECT_CU(copy.result());
}

}  // namespace
}  // namespace pinring
