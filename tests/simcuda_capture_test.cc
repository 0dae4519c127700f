// Stream capture and graphs as the CUDA documentation says, checked on the
// simulated device and, with PINRING_TEST_DRIVER=native, on a GPU.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "tests/support/testbed.h"

namespace pinring {
namespace {

#define EXPECT_CU(call) EXPECT_EQ((call), CUDA_SUCCESS)
#define ASSERT_CU(call) ASSERT_EQ((call), CUDA_SUCCESS)

class CaptureTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why = Testbed::WhySkip();
    if (!why.empty()) GTEST_SKIP() << why;
    testbed_ = std::make_unique<Testbed>();
    host_ = bed().PinnedBuffer(1 << 20);
    device_ = bed().DeviceBuffer(1 << 20);
    stream_ = bed().NonBlockingStream();
  }

  Testbed& bed() { return *testbed_; }
  const Driver& cu() { return testbed_->driver(); }

  void Begin(CUstream stream, CUstreamCaptureMode mode) {
    ASSERT_CU(cu().StreamBeginCapture(stream, mode));
  }
  CUstreamCaptureStatus Status(CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    EXPECT_CU(cu().StreamIsCapturing(stream, &status));
    return status;
  }
  void ExpectInvalidated(CUstream stream) {
    EXPECT_EQ(Status(stream), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    CUgraph graph = nullptr;
    EXPECT_EQ(cu().StreamEndCapture(stream, &graph),
              CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(Status(stream), CU_STREAM_CAPTURE_STATUS_NONE);
  }
  CUgraphExec EndAndInstantiate(CUstream stream) {
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    EXPECT_CU(cu().StreamEndCapture(stream, &graph));
    EXPECT_CU(cu().GraphInstantiateWithFlags(&exec, graph, 0));
    EXPECT_CU(cu().GraphDestroy(graph));
    return exec;
  }

  std::unique_ptr<Testbed> testbed_;
  char* host_ = nullptr;
  CUdeviceptr device_ = 0;
  CUstream stream_ = nullptr;
};

TEST_F(CaptureTest, AReplayMovesTheBytesOfTheMoment) {
  Begin(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  std::memset(host_, 1, 2000);
  ASSERT_CU(cu().MemcpyHtoDAsync(device_, host_, 1000, stream_));
  ASSERT_CU(cu().MemcpyDtoHAsync(host_ + 1000, device_, 1000, stream_));
  EXPECT_EQ(Status(stream_), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CUgraphExec exec = EndAndInstantiate(stream_);
  for (char value = 2; value < 10; ++value) {
    std::memset(host_, value, 1000);
    ASSERT_CU(cu().GraphLaunch(exec, stream_));
    ASSERT_CU(cu().StreamSynchronize(stream_));
    EXPECT_EQ(host_[1000], value);
    EXPECT_EQ(host_[1999], value);
  }
  EXPECT_CU(cu().GraphExecDestroy(exec));
}

TEST_F(CaptureTest, KernelsMemoryOperationsAndHostFunctionsAreReplayedInOrder) {
  if (cu().StreamWriteValue32 == nullptr) GTEST_SKIP() << "no such call";
  const CUdeviceptr counter = bed().DeviceBuffer(4);
  ASSERT_CU(cu().MemsetD8(counter, 0, 4));
  ASSERT_CU(cu().CtxSynchronize());
  uint32_t* word = bed().PinnedFlag();
  auto* read_back = reinterpret_cast<uint32_t*>(host_);
  struct Seen {
    uint32_t* counter;
    uint32_t* word;
    uint32_t sum = 0;
  } seen{read_back, word};
  Begin(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  bed().LaunchAddOne(stream_, counter);
  ASSERT_CU(cu().StreamWriteValue32(
      stream_, reinterpret_cast<CUdeviceptr>(word), 100, 0));
  ASSERT_CU(cu().MemcpyDtoHAsync(read_back, counter, 4, stream_));
  ASSERT_CU(cu().LaunchHostFunc(
      stream_,
      [](void* data) {
        auto* s = static_cast<Seen*>(data);
        s->sum += *s->counter + *s->word;
        *s->word = 0;
      },
      &seen));
  EXPECT_EQ(seen.sum, 0u);
  CUgraphExec exec = EndAndInstantiate(stream_);
  for (int i = 0; i < 3; ++i) ASSERT_CU(cu().GraphLaunch(exec, stream_));
  ASSERT_CU(cu().StreamSynchronize(stream_));
  EXPECT_EQ(seen.sum, 100u + 1 + 100 + 2 + 100 + 3);
  EXPECT_CU(cu().GraphExecDestroy(exec));
}

TEST_F(CaptureTest, ALaunchWaitsForTheSameGraphsLaunchBefore) {
  const CUdeviceptr counter = bed().DeviceBuffer(4);
  uint32_t* flag = bed().PinnedFlag();
  CUstream other = bed().NonBlockingStream();
  Begin(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  bed().LaunchHold(stream_, flag, 1);
  bed().LaunchAddOne(stream_, counter);
  CUgraphExec exec = EndAndInstantiate(stream_);
  ASSERT_CU(cu().GraphLaunch(exec, stream_));
  ASSERT_CU(cu().GraphLaunch(exec, other));
  EXPECT_FALSE(HappensWithin(kStuck, [&] { return bed().Idle(other); }));
  std::atomic_ref<uint32_t>(*flag).store(1, std::memory_order_release);
  EXPECT_CU(cu().StreamSynchronize(other));
  EXPECT_TRUE(bed().Idle(stream_));
  EXPECT_CU(cu().GraphExecDestroy(exec));
}

TEST_F(CaptureTest, AnotherStreamJoinsByAnEvent) {
  CUstream other = bed().NonBlockingStream();
  CUevent fork = nullptr;
  CUevent join = nullptr;
  ASSERT_CU(cu().EventCreate(&fork, CU_EVENT_DISABLE_TIMING));
  ASSERT_CU(cu().EventCreate(&join, CU_EVENT_DISABLE_TIMING));
  Begin(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  ASSERT_CU(cu().MemcpyHtoDAsync(device_, host_, 1000, stream_));
  ASSERT_CU(cu().EventRecord(fork, stream_));
  ASSERT_CU(cu().StreamWaitEvent(other, fork, 0));
  EXPECT_EQ(Status(other), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  ASSERT_CU(cu().MemcpyDtoHAsync(host_ + 1000, device_, 1000, other));
  ASSERT_CU(cu().EventRecord(join, other));
  ASSERT_CU(cu().StreamWaitEvent(stream_, join, 0));
  CUgraphExec exec = EndAndInstantiate(stream_);
  EXPECT_EQ(Status(other), CU_STREAM_CAPTURE_STATUS_NONE);
  std::memset(host_, 5, 1000);
  ASSERT_CU(cu().GraphLaunch(exec, stream_));
  ASSERT_CU(cu().StreamSynchronize(stream_));
  EXPECT_EQ(host_[1999], 5);
  EXPECT_CU(cu().GraphExecDestroy(exec));
  EXPECT_CU(cu().EventDestroy(fork));
  EXPECT_CU(cu().EventDestroy(join));
}

TEST_F(CaptureTest, WorkThatIsNotJoinedFailsTheCapture) {
  CUstream other = bed().NonBlockingStream();
  CUevent fork = nullptr;
  ASSERT_CU(cu().EventCreate(&fork, CU_EVENT_DISABLE_TIMING));
  Begin(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  ASSERT_CU(cu().EventRecord(fork, stream_));
  ASSERT_CU(cu().StreamWaitEvent(other, fork, 0));
  ASSERT_CU(cu().MemcpyHtoDAsync(device_, host_, 1000, other));
  CUgraph graph = nullptr;
  EXPECT_EQ(cu().StreamEndCapture(stream_, &graph),
            CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT_CU(cu().EventDestroy(fork));
}

TEST_F(CaptureTest, QueryingACapturingStreamInvalidatesTheCapture) {
  Begin(stream_, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(cu().StreamQuery(stream_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  ExpectInvalidated(stream_);
}

TEST_F(CaptureTest, SynchronizingACapturingStreamInvalidatesTheCapture) {
  Begin(stream_, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(cu().StreamSynchronize(stream_),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cu().MemcpyHtoDAsync(device_, host_, 10, stream_),
            CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  ExpectInvalidated(stream_);
}

TEST_F(CaptureTest, AllocatingInGlobalModeInvalidatesTheCapture) {
  Begin(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL);
  CUdeviceptr pointer = 0;
  EXPECT_EQ(cu().MemAlloc(&pointer, 4096),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  ExpectInvalidated(stream_);
}

TEST_F(CaptureTest, ARelaxedThreadMayAllocateBesideACapture) {
  Begin(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  ASSERT_CU(cu().ThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  CUdeviceptr pointer = 0;
  EXPECT_CU(cu().MemAlloc(&pointer, 4096));
  void* pinned = nullptr;
  EXPECT_CU(cu().MemHostAlloc(&pinned, 4096, 0));
  ASSERT_CU(cu().ThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(Status(stream_), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CUgraph graph = nullptr;
  EXPECT_CU(cu().StreamEndCapture(stream_, &graph));
  EXPECT_CU(cu().GraphDestroy(graph));
  EXPECT_CU(cu().MemFree(pointer));
  EXPECT_CU(cu().MemFreeHost(pinned));
}

TEST_F(CaptureTest, AnotherThreadMayAllocateBesideAThreadLocalCapture) {
  Begin(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  CUdeviceptr pointer = 0;
  CallOnThread allocate(bed(), [&] { return cu().MemAlloc(&pointer, 4096); });
  EXPECT_CU(allocate.result());
  EXPECT_EQ(Status(stream_), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CUgraph graph = nullptr;
  EXPECT_CU(cu().StreamEndCapture(stream_, &graph));
  EXPECT_CU(cu().GraphDestroy(graph));
  EXPECT_CU(cu().MemFree(pointer));
}

TEST_F(CaptureTest, TheLegacyStreamMayNotBeUsedWhileABlockingOneCaptures) {
  CUstream blocking = bed().BlockingStream();
  Begin(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  EXPECT_EQ(cu().StreamIsCapturing(nullptr, &status),
            CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(Status(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_EQ(cu().MemcpyHtoDAsync(device_, host_, 10, nullptr),
            CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  ExpectInvalidated(blocking);
}

TEST_F(CaptureTest, TheLegacyStreamMayBeUsedWhileANonBlockingOneCaptures) {
  Begin(stream_, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_CU(cu().MemcpyHtoDAsync(device_, host_, 10, nullptr));
  EXPECT_EQ(Status(stream_), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CUgraph graph = nullptr;
  EXPECT_CU(cu().StreamEndCapture(stream_, &graph));
  EXPECT_CU(cu().GraphDestroy(graph));
}

TEST_F(CaptureTest, TheLegacyStreamCannotCapture) {
  EXPECT_EQ(cu().StreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

TEST_F(CaptureTest, EndingACaptureFromAnotherThreadLosesIt) {
  Begin(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL);
  CUgraph graph = nullptr;
  CallOnThread end(bed(),
                   [&] { return cu().StreamEndCapture(stream_, &graph); });
  EXPECT_EQ(end.result(), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  // The capture is over, and there is no graph.
  EXPECT_EQ(cu().StreamEndCapture(stream_, &graph), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(cu().GraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CaptureTest, ACapturingStreamMayNotWaitForUncapturedWork) {
  CUstream other = bed().NonBlockingStream();
  CUevent event = nullptr;
  ASSERT_CU(cu().EventCreate(&event, CU_EVENT_DISABLE_TIMING));
  ASSERT_CU(cu().EventRecord(event, other));
  Begin(stream_, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(cu().StreamWaitEvent(stream_, event, 0),
            CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  ExpectInvalidated(stream_);
  EXPECT_CU(cu().EventDestroy(event));
}

TEST_F(CaptureTest, ACapturedEventCannotBeQueried) {
  CUevent event = nullptr;
  ASSERT_CU(cu().EventCreate(&event, CU_EVENT_DISABLE_TIMING));
  Begin(stream_, CU_STREAM_CAPTURE_MODE_RELAXED);
  ASSERT_CU(cu().EventRecord(event, stream_));
  EXPECT_EQ(cu().EventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
  ExpectInvalidated(stream_);
  EXPECT_CU(cu().EventDestroy(event));
}

}  // namespace
}  // namespace pinring
