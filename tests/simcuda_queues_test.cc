// How streams share hardware queues and how deep these are, checked on the
// simulated device and, with PINRING_TEST_DRIVER=native, on a GPU. Run it with
// CUDA_DEVICE_MAX_CONNECTIONS unset and at 1, 2, 8 and 32.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/support/testbed.h"

namespace pinring {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
// Large enough for the copy queues; on a GPU what was measured.
const size_t kLargeCopy = TestsRunNatively() ? 8 * kMiB : kMiB;
constexpr size_t kSmallCopy = 4096;

#define EXPECT_CU(call) EXPECT_EQ((call), CUDA_SUCCESS)
#define ASSERT_CU(call) ASSERT_EQ((call), CUDA_SUCCESS)

class HardwareQueuesTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why = Testbed::WhySkip();
    if (!why.empty()) GTEST_SKIP() << why;
    testbed_ = std::make_unique<Testbed>();
    if (cu().StreamWaitValue32 == nullptr) {
      GTEST_SKIP() << "the driver has no memory operations on streams";
    }
    host_ = bed().PinnedBuffer(2 * kLargeCopy);
    device_ = bed().DeviceBuffer(kLargeCopy);
    counter_ = bed().DeviceBuffer(4);
    free_ = bed().NonBlockingStream();
  }
  // A failed expectation must not leave a wait behind.
  void TearDown() override {
    for (uint32_t* flag : flags_) Raise(flag);
  }

  Testbed& bed() { return *testbed_; }
  const Driver& cu() { return testbed_->driver(); }

  static void Raise(uint32_t* flag) {
    std::atomic_ref<uint32_t>(*flag).store(1, std::memory_order_release);
  }

  // A stream, held by a kernel or by a wait for a value.
  struct Held {
    CUstream stream;
    uint32_t* flag;
  };
  enum class By { kKernel, kWaitValue };
  std::vector<Held> Hold(int count, By by) {
    std::vector<Held> held;
    for (int i = 0; i < count; ++i) {
      held.push_back({bed().NonBlockingStream(), bed().PinnedFlag()});
      flags_.push_back(held.back().flag);
    }
    for (const Held& one : held) {
      if (by == By::kKernel) {
        bed().LaunchHold(one.stream, one.flag, 1);
      } else {
        EXPECT_CU(cu().StreamWaitValue32(
            one.stream, reinterpret_cast<CUdeviceptr>(one.flag), 1,
            CU_STREAM_WAIT_VALUE_GEQ));
      }
    }
    return held;
  }
  void CopyToDevice(CUstream stream, size_t bytes) {
    EXPECT_CU(cu().MemcpyHtoDAsync(device_, host_, bytes, stream));
  }
  void CopyToHost(CUstream stream, size_t bytes) {
    EXPECT_CU(cu().MemcpyDtoHAsync(host_ + kLargeCopy, device_, bytes, stream));
  }
  bool Runs(CUstream stream) {
    return HappensWithin(kHappens, [&] { return bed().Idle(stream); });
  }
  bool IsStuck(CUstream stream) {
    return !HappensWithin(kStuck, [&] { return bed().Idle(stream); });
  }

  // As the measurement did: the free stream has used its queues before.
  void UseFreeStream(size_t bytes) {
    bed().LaunchAddOne(free_, counter_);
    CopyToDevice(free_, bytes);
    CopyToHost(free_, bytes);
    EXPECT_CU(cu().CtxSynchronize());
  }

  std::unique_ptr<Testbed> testbed_;
  std::vector<uint32_t*> flags_;
  char* host_ = nullptr;
  CUdeviceptr device_ = 0;
  CUdeviceptr counter_ = 0;
  CUstream free_ = nullptr;
};

TEST_F(HardwareQueuesTest, ACopyRunsBesideFewerHeldStreamsThanCopyQueues) {
  UseFreeStream(kLargeCopy);
  const int held_streams =
      std::min(bed().h2d_queues(), bed().compute_queues()) - 1;
  for (const Held& held : Hold(held_streams, By::kKernel)) {
    CopyToDevice(held.stream, kLargeCopy);
  }
  CopyToDevice(free_, kLargeCopy);
  EXPECT_TRUE(Runs(free_));
}

TEST_F(HardwareQueuesTest, ACopyIsStuckBehindHeldStreamsInAllCopyQueues) {
  for (By by : {By::kKernel, By::kWaitValue}) {
    UseFreeStream(kLargeCopy);
    const std::vector<Held> all = Hold(bed().h2d_queues() + 2, by);
    for (const Held& held : all) CopyToDevice(held.stream, kLargeCopy);
    CopyToDevice(free_, kLargeCopy);
    EXPECT_TRUE(IsStuck(free_));
    for (const Held& held : all) Raise(held.flag);
    EXPECT_TRUE(Runs(free_));
    EXPECT_CU(cu().CtxSynchronize());
  }
}

TEST_F(HardwareQueuesTest, OfStreamsReleasedInReverseTheOldestRunAtOnce) {
  UseFreeStream(kLargeCopy);
  const std::vector<Held> all = Hold(12, By::kWaitValue);
  for (const Held& held : all) CopyToDevice(held.stream, kLargeCopy);
  int at_once = 0;
  for (auto held = all.rbegin(); held != all.rend(); ++held) {
    Raise(held->flag);
    at_once += HappensWithin(kStuck, [&] { return bed().Idle(held->stream); });
  }
  EXPECT_EQ(at_once,
            std::min({12, bed().h2d_queues(), bed().compute_queues()}));
  EXPECT_CU(cu().CtxSynchronize());
}

TEST_F(HardwareQueuesTest, SmallCopiesAreStuckBesideWaitsInAllComputeQueues) {
  UseFreeStream(kSmallCopy);
  const std::vector<Held> all =
      Hold(bed().compute_queues() * 3 / 2 + 1, By::kWaitValue);
  for (const Held& held : all) CopyToDevice(held.stream, kSmallCopy);
  CopyToDevice(free_, kSmallCopy);
  EXPECT_TRUE(IsStuck(free_));
  for (const Held& held : all) Raise(held.flag);
  EXPECT_TRUE(Runs(free_));
}

// Measured beside 12 held streams. The simulated device has small copies take
// the compute queues, so that there it is as many as these allow.
TEST_F(HardwareQueuesTest, CopiesOfUpTo16KiBDoNotTakeTheCopyQueues) {
  const int held_streams = TestsRunNatively() ? 12 : bed().h2d_queues() + 1;
  if (bed().compute_queues() <= bed().h2d_queues() + 1) {
    GTEST_SKIP() << "measured with fewer copy queues than compute queues";
  }
  for (size_t bytes : {kSmallCopy, size_t{16} << 10}) {
    free_ = bed().NonBlockingStream();
    UseFreeStream(bytes);
    for (const Held& held : Hold(held_streams, By::kKernel)) {
      CopyToDevice(held.stream, bytes);
    }
    CopyToDevice(free_, bytes);
    EXPECT_TRUE(Runs(free_)) << bytes;
    for (uint32_t* flag : flags_) Raise(flag);
    EXPECT_CU(cu().CtxSynchronize());
  }
}

TEST_F(HardwareQueuesTest, CopiesFrom32KiBOnTakeTheCopyQueues) {
  for (size_t kib : {32, 64, 128, 1024}) {
    const size_t bytes = kib << 10;
    UseFreeStream(bytes);
    const std::vector<Held> all = Hold(12, By::kKernel);
    if (bed().h2d_queues() > 12) GTEST_SKIP() << "too many copy queues";
    for (const Held& held : all) CopyToDevice(held.stream, bytes);
    CopyToDevice(free_, bytes);
    EXPECT_TRUE(IsStuck(free_)) << bytes;
    for (const Held& held : all) Raise(held.flag);
    EXPECT_TRUE(Runs(free_)) << bytes;
    EXPECT_CU(cu().CtxSynchronize());
  }
}

TEST_F(HardwareQueuesTest, ASmallCopyRunsBesideFewHeldKernels) {
  if (bed().compute_queues() < 5) GTEST_SKIP() << "too few queues";
  UseFreeStream(kSmallCopy);
  for (const Held& held : Hold(3, By::kKernel)) {
    CopyToDevice(held.stream, kSmallCopy);
  }
  CopyToDevice(free_, kSmallCopy);
  EXPECT_TRUE(Runs(free_));
}

TEST_F(HardwareQueuesTest, EachDirectionHasItsOwnQueues) {
  UseFreeStream(kLargeCopy);
  const int held_streams =
      std::min(bed().h2d_queues(), bed().compute_queues() - 1);
  for (const Held& held : Hold(held_streams, By::kKernel)) {
    CopyToDevice(held.stream, kLargeCopy);
  }
  CopyToHost(free_, kLargeCopy);
  EXPECT_TRUE(Runs(free_));
}

// Operations on free streams, made after `count` streams that hold a kernel, a
// kernel behind it, memory operations and a copy.
class MixedQueuesTest : public HardwareQueuesTest {
 protected:
  void HoldMixed(int count) {
    held_ = Hold(count, By::kKernel);
    for (const Held& held : held_) {
      bed().LaunchAddOne(held.stream, counter_);
      const auto word = reinterpret_cast<CUdeviceptr>(bed().PinnedFlag());
      EXPECT_CU(cu().StreamWriteValue32(held.stream, word, 1, 0));
      EXPECT_CU(cu().StreamWaitValue32(held.stream, word, 1,
                                       CU_STREAM_WAIT_VALUE_GEQ));
      CopyToDevice(held.stream, kLargeCopy);
    }
  }
  void WriteValue(CUstream stream) {
    EXPECT_CU(cu().StreamWriteValue32(
        stream, reinterpret_cast<CUdeviceptr>(bed().PinnedFlag()), 7, 0));
  }
  // One operation of each kind on a stream of its own.
  void UseFourStreams() {
    for (CUstream& stream : streams_) stream = bed().NonBlockingStream();
    WriteValue(memory_operation());
    bed().LaunchAddOne(kernel(), counter_);
    CopyToDevice(to_device(), kLargeCopy);
    CopyToHost(to_host(), kLargeCopy);
  }
  // A kernel or a memory operation on the first of eight streams, a kernel on
  // each other.
  enum class First { kKernel, kMemoryOperation };
  void UseEightStreams(First first) {
    for (CUstream& stream : eight_) stream = bed().NonBlockingStream();
    for (CUstream stream : eight_) {
      if (stream == eight_[0] && first == First::kMemoryOperation) {
        WriteValue(stream);
      } else {
        bed().LaunchAddOne(stream, counter_);
      }
    }
  }
  bool OneOfEightRuns(absl::Duration limit) {
    return HappensWithin(limit, [&] {
      return std::any_of(std::begin(eight_), std::end(eight_),
                         [&](CUstream stream) { return bed().Idle(stream); });
    });
  }
  void ReleaseAll() {
    for (const Held& held : held_) Raise(held.flag);
    EXPECT_CU(cu().CtxSynchronize());
  }
  CUstream memory_operation() const { return streams_[0]; }
  CUstream kernel() const { return streams_[1]; }
  CUstream to_device() const { return streams_[2]; }
  CUstream to_host() const { return streams_[3]; }

  std::vector<Held> held_;
  CUstream streams_[4] = {};
  CUstream eight_[8] = {};
};

TEST_F(MixedQueuesTest, FewerHeldKernelsThanComputeQueuesHoldUpNoKernel) {
  held_ = Hold(bed().compute_queues() - 1, By::kKernel);
  for (CUstream& stream : eight_) stream = bed().NonBlockingStream();
  for (CUstream stream : eight_) {
    bed().LaunchAddOne(stream, counter_);
    // The simulated device tells a queue whose kernel is about to end from one
    // that is held only once it has ended.
    if (!TestsRunNatively()) {
      EXPECT_TRUE(Runs(stream));
    }
  }
  for (CUstream stream : eight_) EXPECT_TRUE(Runs(stream));
  ReleaseAll();
}

// With other work than kernels queued on the held streams no program can count
// on its streams' queues: beside seven held streams of eight queues the driver
// ran every second of the free ones. More cannot be said than this.
TEST_F(MixedQueuesTest, BesideFewerHeldStreamsThanComputeQueuesAKernelRuns) {
  HoldMixed(bed().compute_queues() - 1);
  UseEightStreams(First::kKernel);
  EXPECT_TRUE(OneOfEightRuns(kHappens));
  ReleaseAll();
}

TEST_F(MixedQueuesTest, BesideFewerHeldStreamsSomethingRuns) {
  HoldMixed(bed().compute_queues() - 1);
  UseEightStreams(First::kMemoryOperation);
  EXPECT_TRUE(OneOfEightRuns(kHappens));
  ReleaseAll();
}

TEST_F(MixedQueuesTest, HeldStreamsInAllComputeQueuesHoldUpEveryKernel) {
  HoldMixed(bed().compute_queues());
  UseEightStreams(First::kMemoryOperation);
  EXPECT_FALSE(OneOfEightRuns(kStuck));
  ReleaseAll();
}

TEST_F(MixedQueuesTest, HeldStreamsInAllComputeQueuesHoldUpAllButCopiesToHost) {
  HoldMixed(bed().compute_queues());
  UseFourStreams();
  EXPECT_TRUE(Runs(to_host()));
  EXPECT_TRUE(IsStuck(memory_operation()));
  EXPECT_FALSE(bed().Idle(kernel()));
  ReleaseAll();
}

TEST_F(MixedQueuesTest, CopiesToDeviceNeedAFreeCopyQueue) {
  HoldMixed(bed().h2d_queues());
  UseFourStreams();
  EXPECT_TRUE(IsStuck(to_device()));
  ReleaseAll();
}

// ---- Depth.

class QueueDepthTest : public HardwareQueuesTest {
 protected:
  static constexpr size_t kCopy = 128 << 10;  // goes through the copy queues

  // Calls `call` on a thread of its own until it has blocked for a while or
  // returned `limit` times; returns how often it returned.
  int CallsBeforeOneBlocks(int limit, std::function<CUresult()> call) {
    std::atomic<int> returned{0};
    std::atomic<bool> stop{false};
    std::thread caller([&] {
      bed().UseContext();
      while (returned < limit && !stop) {
        EXPECT_CU(call());
        returned.fetch_add(1);
      }
    });
    int last = -1;
    while (last != returned.load() && returned.load() < limit) {
      last = returned.load();
      absl::SleepFor(kStuck);
    }
    const int count = returned.load();
    stop = true;
    for (uint32_t* flag : flags_) Raise(flag);
    caller.join();
    return count;
  }
};

TEST_F(QueueDepthTest, AboutAThousandCopiesFitBehindAGate) {
  const std::vector<Held> held = Hold(1, By::kKernel);
  const int count = CallsBeforeOneBlocks(1500, [&] {
    return cu().MemcpyHtoDAsync(device_, host_, kCopy, held[0].stream);
  });
  EXPECT_GE(count, 1015);
  EXPECT_LE(count, 1025);
}

TEST_F(QueueDepthTest, FiftySixHostFunctionsWithCopiesFitBehindAGate) {
  const std::vector<Held> held = Hold(1, By::kKernel);
  const int count = CallsBeforeOneBlocks(200, [&] {
    const CUresult result = cu().LaunchHostFunc(
        held[0].stream, [](void*) {}, nullptr);
    if (result != CUDA_SUCCESS) return result;
    return cu().MemcpyHtoDAsync(device_, host_, kCopy, held[0].stream);
  });
  EXPECT_GE(count, 50);
  EXPECT_LE(count, 64);
}

// A staged transfer of one chunk: ready and a wait, a copy, done.
TEST_F(QueueDepthTest, ThreeHundredAndFortyTransfersFitBehindAGate) {
  const std::vector<Held> held = Hold(1, By::kKernel);
  const auto word = reinterpret_cast<CUdeviceptr>(bed().PinnedFlag());
  const int count = CallsBeforeOneBlocks(600, [&] {
    CUstreamBatchMemOpParams ops[2] = {};
    ops[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    ops[0].writeValue.address = word;
    ops[0].writeValue.value = 1;
    ops[1].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    ops[1].waitValue.address = word;
    ops[1].waitValue.value = 1;
    CUresult result = cu().StreamBatchMemOp(held[0].stream, 2, ops, 0);
    if (result != CUDA_SUCCESS) return result;
    result = cu().MemcpyHtoDAsync(device_, host_, kCopy, held[0].stream);
    if (result != CUDA_SUCCESS) return result;
    return cu().StreamWriteValue32(held[0].stream, word, 1, 0);
  });
  EXPECT_GE(count, 330);
  EXPECT_LE(count, 345);
}

TEST_F(QueueDepthTest, ACallThatFindsItsQueueFullHoldsUpNoOtherQueue) {
  if (bed().h2d_queues() < 2) {
    GTEST_SKIP() << "measured with several copy queues";
  }
  std::vector<CUstream> others;
  for (int i = 0; i < 8; ++i) others.push_back(bed().NonBlockingStream());
  const std::vector<Held> held = Hold(1, By::kKernel);
  After rescue(absl::Seconds(90), [&] { Raise(held[0].flag); });
  std::atomic<bool> stop{false};
  std::atomic<int> returned{0};
  std::thread filler([&] {
    bed().UseContext();
    while (returned < 1500 && !stop) {
      EXPECT_CU(cu().MemcpyHtoDAsync(device_, host_, kCopy, held[0].stream));
      returned.fetch_add(1);
    }
  });
  int last = -1;
  while (last != returned.load()) {
    last = returned.load();
    absl::SleepFor(kStuck);
  }
  EXPECT_LT(last, 1500);
  {
    CallOnThread query(bed(), [&]() -> CUresult {
      size_t free_bytes = 0;
      size_t total = 0;
      EXPECT_CU(cu().MemGetInfo(&free_bytes, &total));
      EXPECT_EQ(bed().AttributesOf(host_).type, CU_MEMORYTYPE_HOST);
      return cu().StreamQuery(free_);
    });
    CallOnThread work(bed(), [&]() -> CUresult {
      for (CUstream stream : others) {
        CopyToHost(stream, kLargeCopy);
        bed().LaunchAddOne(stream, counter_);
        CopyToDevice(stream, kLargeCopy);
      }
      return CUDA_SUCCESS;
    });
    EXPECT_TRUE(query.Returns());
    // Whether these return on a GPU depends on which of the streams share a
    // queue with the full one: all did in one process, not all in another.
    const bool work_returns = work.Returns();
    if (TestsRunNatively()) {
      RecordProperty("other_queues_go_on", work_returns ? "yes" : "not all");
    } else {
      EXPECT_TRUE(work_returns);
    }
    EXPECT_EQ(returned.load(), last);  // the first call still waits
    stop = true;
    Raise(held[0].flag);
    EXPECT_CU(query.result());
    EXPECT_CU(work.result());
  }
  filler.join();
}

}  // namespace
}  // namespace pinring
