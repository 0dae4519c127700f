// What the CUDA driver does, checked on the simulated device and, with
// PINRING_TEST_DRIVER=native, on a GPU: memory, copies, streams and events.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/os/pages.h"
#include "tests/support/test_kernels.h"
#include "tests/support/testbed.h"

namespace pinring {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

#define EXPECT_CU(call) EXPECT_EQ((call), CUDA_SUCCESS)
#define ASSERT_CU(call) ASSERT_EQ((call), CUDA_SUCCESS)

class CudaDriverTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why = Testbed::WhySkip();
    if (!why.empty()) GTEST_SKIP() << why;
    testbed_ = std::make_unique<Testbed>();
  }

  Testbed& bed() { return *testbed_; }
  const Driver& cu() { return testbed_->driver(); }

  std::unique_ptr<Testbed> testbed_;
};

// ---- Memory and pointers.

TEST_F(CudaDriverTest, EveryAddressOfAPinnedBlockHasItsAttributes) {
  const char* block = bed().PinnedBuffer(10000);
  for (size_t offset : {0, 1, 9999}) {
    const PointerAttributes a = bed().AttributesOf(block + offset);
    EXPECT_EQ(a.type, CU_MEMORYTYPE_HOST);
    EXPECT_EQ(a.device, 0);
    EXPECT_EQ(a.device_pointer, reinterpret_cast<CUdeviceptr>(block + offset));
    EXPECT_EQ(a.host_pointer, reinterpret_cast<CUdeviceptr>(block + offset));
  }
}

TEST_F(CudaDriverTest, OtherMemoryIsUnregistered) {
  auto memory = std::make_unique<char[]>(10000);
  EXPECT_EQ(bed().AttributesOf(memory.get()).type, 0u);
  EXPECT_EQ(bed().AttributesOf(memory.get()).device, -2);
  EXPECT_EQ(bed().AttributesOf(memory.get()).device_pointer, 0u);
  void* block = nullptr;
  ASSERT_CU(cu().MemHostAlloc(&block, 10000, 0));
  ASSERT_CU(cu().MemFreeHost(block));
  EXPECT_EQ(bed().AttributesOf(block).type, 0u);
}

TEST_F(CudaDriverTest, DeviceMemoryHasItsAttributes) {
  const CUdeviceptr block = bed().DeviceBuffer(10000);
  const PointerAttributes a =
      bed().AttributesOf(reinterpret_cast<void*>(block + 5));
  EXPECT_EQ(a.type, CU_MEMORYTYPE_DEVICE);
  EXPECT_EQ(a.device, 0);
  EXPECT_EQ(a.device_pointer, block + 5);
}

TEST_F(CudaDriverTest, EveryPinnedBlockIsMapped) {
  char* block = bed().PinnedBuffer(4096);
  unsigned flags = 0;
  EXPECT_CU(cu().MemHostGetFlags(&flags, block));
  EXPECT_EQ(flags & CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_DEVICEMAP);
  CUdeviceptr pointer = 0;
  EXPECT_CU(cu().MemHostGetDevicePointer(&pointer, block, 0));
  EXPECT_EQ(pointer, reinterpret_cast<CUdeviceptr>(block));
}

TEST_F(CudaDriverTest, AKernelUsesAPinnedBlockThroughItsHostPointer) {
  char* block = bed().PinnedBuffer(1000);
  CUstream stream = bed().NonBlockingStream();
  bed().LaunchFill(stream, reinterpret_cast<CUdeviceptr>(block), 1000, 3);
  ASSERT_CU(cu().StreamSynchronize(stream));
  for (size_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(static_cast<uint8_t>(block[i]), FillByte(3, i)) << i;
  }
}

TEST_F(CudaDriverTest, HopelessAllocationsAreOutOfMemory) {
  void* block = nullptr;
  EXPECT_EQ(cu().MemHostAlloc(&block, SIZE_MAX, 0), CUDA_ERROR_OUT_OF_MEMORY);
  CUdeviceptr device = 0;
  EXPECT_EQ(cu().MemAlloc(&device, SIZE_MAX / 2), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(CudaDriverTest, WrongArgumentsOfHostMemoryCalls) {
  char* block = bed().PinnedBuffer(2 * kMiB);
  auto memory = std::make_unique<char[]>(10000);
  EXPECT_EQ(cu().MemHostAlloc(nullptr, 16, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu().MemFreeHost(block + 64), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu().MemFreeHost(memory.get()), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu().MemHostRegister(block + 4096, 4096, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu().MemHostUnregister(block), CUDA_ERROR_INVALID_VALUE);
  void* freed = nullptr;
  ASSERT_CU(cu().MemHostAlloc(&freed, 4 * kMiB, 0));
  ASSERT_CU(cu().MemFreeHost(freed));
  EXPECT_EQ(cu().MemFreeHost(freed), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CudaDriverTest, RegisteredMemoryIsPinnedUntilUnregistered) {
  void* memory = *os::ReservePages(65536, os::PageBytes());
  ASSERT_CU(cu().MemHostRegister(memory, 65536, 0));
  EXPECT_EQ(bed().AttributesOf(memory).type, CU_MEMORYTYPE_HOST);
  EXPECT_EQ(cu().MemHostRegister(memory, 65536, 0),
            CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(cu().MemFreeHost(memory), CUDA_ERROR_INVALID_VALUE);
  ASSERT_CU(cu().MemHostUnregister(memory));
  EXPECT_EQ(bed().AttributesOf(memory).type, 0u);
  EXPECT_EQ(cu().MemHostUnregister(memory),
            CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_TRUE(os::ReleasePages(memory, 65536).ok());
}

// ---- Copies.

TEST_F(CudaDriverTest, TheAddressesDecideWhatACopyIs) {
  char* host = bed().PinnedBuffer(2000);
  const CUdeviceptr device = bed().DeviceBuffer(1000);
  std::memset(host, 0x5A, 1000);
  ASSERT_CU(cu().Memcpy(device, reinterpret_cast<CUdeviceptr>(host), 1000));
  ASSERT_CU(
      cu().Memcpy(reinterpret_cast<CUdeviceptr>(host + 1000), device, 1000));
  EXPECT_EQ(std::memcmp(host, host + 1000, 1000), 0);
}

TEST_F(CudaDriverTest, ACopyPastTheEndOfDeviceMemoryMovesNothing) {
  char* host = bed().PinnedBuffer(8 * kMiB);
  const CUdeviceptr device = bed().DeviceBuffer(2 * kMiB);
  std::memset(host, 1, 8 * kMiB);
  ASSERT_CU(cu().MemcpyHtoD(device, host, 2 * kMiB));
  std::memset(host, 2, 8 * kMiB);
  CUstream stream = bed().NonBlockingStream();
  EXPECT_EQ(cu().MemcpyHtoD(device, host, 2 * kMiB + 1),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu().MemcpyHtoDAsync(device + 1, host, 2 * kMiB, stream),
            CUDA_ERROR_INVALID_VALUE);
  ASSERT_CU(cu().MemcpyDtoH(host, device, 2 * kMiB));
  EXPECT_EQ(host[0], 1);
  EXPECT_EQ(host[2 * kMiB - 1], 1);
}

TEST_F(CudaDriverTest, ZeroBytesOfNowhereAreCopied) {
  CUstream stream = bed().NonBlockingStream();
  EXPECT_CU(cu().MemcpyAsync(0, 0, 0, stream));
  EXPECT_CU(cu().Memcpy(0, 0, 0));
}

TEST_F(CudaDriverTest, AnAsyncCopyReadsPinnedMemoryWhenTheStreamGetsThere) {
  for (size_t bytes : {size_t{100}, size_t{65536}, kMiB}) {
    char* host = bed().PinnedBuffer(2 * bytes);
    const CUdeviceptr device = bed().DeviceBuffer(bytes);
    CUstream stream = bed().NonBlockingStream();
    Gate gate(bed());
    gate.Hold(stream);
    std::memset(host, 1, bytes);
    ASSERT_CU(cu().MemcpyHtoDAsync(device, host, bytes, stream));
    ASSERT_CU(cu().MemcpyDtoHAsync(host + bytes, device, bytes, stream));
    std::memset(host, 2, bytes);
    gate.Open();
    ASSERT_CU(cu().StreamSynchronize(stream));
    EXPECT_EQ(std::memcmp(host, host + bytes, bytes), 0);
    EXPECT_EQ(host[bytes], 2);
  }
}

TEST_F(CudaDriverTest, AnAsyncCopyReadsPageableMemoryDuringTheCall) {
  for (size_t bytes : {size_t{4096}, size_t{65536}, kMiB}) {
    auto source = std::make_unique<char[]>(bytes);
    char* back = bed().PinnedBuffer(bytes);
    const CUdeviceptr device = bed().DeviceBuffer(bytes);
    CUstream stream = bed().NonBlockingStream();
    Gate gate(bed());
    gate.Hold(stream);
    std::memset(source.get(), 1, bytes);
    CallOnThread call(bed(), [&] {
      return cu().MemcpyHtoDAsync(device, source.get(), bytes, stream);
    });
    const bool returned = call.Returns();
    EXPECT_TRUE(returned) << bytes;
    if (returned) std::memset(source.get(), 2, bytes);
    gate.Open();
    EXPECT_CU(call.result());
    ASSERT_CU(cu().MemcpyDtoHAsync(back, device, bytes, stream));
    ASSERT_CU(cu().StreamSynchronize(stream));
    EXPECT_EQ(back[0], 1);
    EXPECT_EQ(back[bytes - 1], 1);
  }
}

TEST_F(CudaDriverTest, AnAsyncCopyToPageableMemoryBlocksUntilDone) {
  for (size_t bytes : {size_t{4}, size_t{65536}, 64 * kMiB}) {
    auto host = std::make_unique<char[]>(bytes);
    const CUdeviceptr device = bed().DeviceBuffer(bytes);
    CUstream stream = bed().NonBlockingStream();
    ASSERT_CU(cu().MemsetD8(device, 0x77, bytes));
    ASSERT_CU(cu().CtxSynchronize());
    Gate gate(bed());
    gate.Hold(stream);
    CallOnThread call(bed(), [&] {
      return cu().MemcpyDtoHAsync(host.get(), device, bytes, stream);
    });
    EXPECT_TRUE(call.Blocks()) << bytes;
    gate.Open();
    EXPECT_CU(call.result());
    EXPECT_EQ(host[0], 0x77);
    EXPECT_EQ(host[bytes - 1], 0x77);
  }
}

TEST_F(CudaDriverTest, AMemsetOfPinnedMemoryIsInStreamOrder) {
  char* host = bed().PinnedBuffer(4096);
  CUstream stream = bed().NonBlockingStream();
  Gate gate(bed());
  gate.Hold(stream);
  ASSERT_CU(
      cu().MemsetD8Async(reinterpret_cast<CUdeviceptr>(host), 9, 4096, stream));
  EXPECT_EQ(host[0], 0);
  gate.Open();
  ASSERT_CU(cu().StreamSynchronize(stream));
  EXPECT_EQ(host[0], 9);
  EXPECT_EQ(host[4095], 9);
}

// ---- Streams and events.

TEST_F(CudaDriverTest, AStreamsIdIsNeverUsedAgain) {
  if (cu().StreamGetId == nullptr) GTEST_SKIP() << "no such call";
  std::vector<unsigned long long> ids;
  for (int i = 0; i < 20; ++i) {
    CUstream stream = nullptr;
    unsigned long long id = 0;
    ASSERT_CU(cu().StreamCreateWithPriority(&stream, 0, 0));
    ASSERT_CU(cu().StreamGetId(stream, &id));
    ASSERT_CU(cu().StreamDestroy(stream));
    for (unsigned long long earlier : ids) EXPECT_NE(id, earlier);
    ids.push_back(id);
  }
}

TEST_F(CudaDriverTest, WorkOfADestroyedStreamStillRuns) {
  const CUdeviceptr counter = bed().DeviceBuffer(4);
  ASSERT_CU(cu().MemsetD8(counter, 0, 4));
  ASSERT_CU(cu().CtxSynchronize());
  CUstream stream = nullptr;
  ASSERT_CU(cu().StreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
  Gate gate(bed());
  gate.Hold(stream);
  bed().LaunchAddOne(stream, counter);
  CallOnThread destroy(bed(), [&] { return cu().StreamDestroy(stream); });
  EXPECT_TRUE(destroy.Returns());
  gate.Open();
  ASSERT_CU(cu().CtxSynchronize());
  uint32_t value = 0;
  ASSERT_CU(cu().MemcpyDtoH(&value, counter, 4));
  EXPECT_EQ(value, 1u);
}

TEST_F(CudaDriverTest, TheLegacyStreamWaitsForBlockingStreams) {
  CUstream blocking = bed().BlockingStream();
  const CUdeviceptr counter = bed().DeviceBuffer(4);
  Gate gate(bed());
  gate.Hold(blocking);
  bed().LaunchAddOne(nullptr, counter);
  CUevent event = nullptr;
  ASSERT_CU(cu().EventCreate(&event, CU_EVENT_DISABLE_TIMING));
  ASSERT_CU(cu().EventRecord(event, nullptr));
  EXPECT_FALSE(HappensWithin(
      kStuck, [&] { return cu().EventQuery(event) == CUDA_SUCCESS; }));
  gate.Open();
  EXPECT_TRUE(HappensWithin(
      kHappens, [&] { return cu().EventQuery(event) == CUDA_SUCCESS; }));
  EXPECT_CU(cu().EventDestroy(event));
}

TEST_F(CudaDriverTest, MemoryOperationsAreOrderedByTheLegacyStream) {
  if (cu().StreamWriteValue32 == nullptr) GTEST_SKIP() << "no such call";
  CUstream held = bed().BlockingStream();
  CUstream behind = bed().BlockingStream();
  uint32_t* flags[] = {bed().PinnedFlag(), bed().PinnedFlag()};
  const auto written = [&](int which) {
    return std::atomic_ref<uint32_t>(*flags[which])
               .load(std::memory_order_acquire) == 9;
  };
  Gate gate(bed());
  gate.Hold(held);
  CallOnThread calls(bed(), [&] {
    const CUresult result = cu().StreamWriteValue32(
        nullptr, reinterpret_cast<CUdeviceptr>(flags[0]), 9, 0);
    if (result != CUDA_SUCCESS) return result;
    return cu().StreamWriteValue32(
        behind, reinterpret_cast<CUdeviceptr>(flags[1]), 9, 0);
  });
  EXPECT_FALSE(HappensWithin(kStuck, [&] { return written(0) || written(1); }));
  gate.Open();
  EXPECT_CU(calls.result());
  EXPECT_TRUE(
      HappensWithin(kHappens, [&] { return written(0) && written(1); }));
}

TEST_F(CudaDriverTest, BlockingStreamsWaitForTheLegacyStream) {
  if (bed().compute_queues() < 4) {
    GTEST_SKIP() << "four streams share their queues";
  }
  CUstream blocking = bed().BlockingStream();
  CUstream non_blocking = bed().NonBlockingStream();
  const CUdeviceptr counter = bed().DeviceBuffer(8);
  Gate gate(bed());
  gate.Hold(CU_STREAM_LEGACY);
  bed().LaunchAddOne(blocking, counter);
  bed().LaunchAddOne(CU_STREAM_PER_THREAD, counter);
  bed().LaunchAddOne(non_blocking, counter + 4);
  EXPECT_TRUE(
      HappensWithin(kHappens, [&] { return bed().Idle(non_blocking); }));
  EXPECT_FALSE(HappensWithin(kStuck, [&] {
    return bed().Idle(blocking) || bed().Idle(CU_STREAM_PER_THREAD);
  }));
  gate.Open();
  EXPECT_CU(cu().StreamSynchronize(blocking));
  EXPECT_CU(cu().StreamSynchronize(CU_STREAM_PER_THREAD));
}

TEST_F(CudaDriverTest, PerThreadStreamsDoNotWaitForEachOther) {
  if (bed().compute_queues() < 2) GTEST_SKIP() << "one queue for all kernels";
  const CUdeviceptr counter = bed().DeviceBuffer(4);
  Gate gate(bed());
  gate.Hold(CU_STREAM_PER_THREAD);
  CallOnThread other(bed(), [&] {
    bed().LaunchAddOne(CU_STREAM_PER_THREAD, counter);
    return cu().StreamSynchronize(CU_STREAM_PER_THREAD);
  });
  EXPECT_TRUE(other.Returns());
  EXPECT_FALSE(bed().Idle(CU_STREAM_PER_THREAD));
  gate.Open();
  EXPECT_CU(other.result());
}

TEST_F(CudaDriverTest, AStreamWaitsForAnotherStreamsEvent) {
  CUstream first = bed().NonBlockingStream();
  CUstream second = bed().NonBlockingStream();
  const CUdeviceptr counter = bed().DeviceBuffer(4);
  CUevent event = nullptr;
  ASSERT_CU(cu().EventCreate(&event, CU_EVENT_DISABLE_TIMING));
  EXPECT_CU(cu().EventQuery(event));  // never recorded: nothing to wait for
  Gate gate(bed());
  gate.Hold(first);
  ASSERT_CU(cu().EventRecord(event, first));
  ASSERT_CU(cu().StreamWaitEvent(second, event, 0));
  bed().LaunchAddOne(second, counter);
  EXPECT_EQ(cu().EventQuery(event), CUDA_ERROR_NOT_READY);
  EXPECT_FALSE(HappensWithin(kStuck, [&] { return bed().Idle(second); }));
  gate.Open();
  EXPECT_CU(cu().StreamSynchronize(second));
  EXPECT_CU(cu().EventQuery(event));
  EXPECT_CU(cu().EventSynchronize(event));
  EXPECT_CU(cu().EventDestroy(event));
}

TEST_F(CudaDriverTest, HostFunctionsRunInOrderOneAtATimeOnOneThread) {
  struct State {
    std::atomic<int> running{0};
    std::atomic<int> overlaps{0};
    std::atomic<int> ran{0};
    std::vector<std::thread::id> threads;
  } state;
  for (int i = 0; i < 4; ++i) {
    ASSERT_CU(cu().LaunchHostFunc(
        bed().NonBlockingStream(),
        [](void* data) {
          auto* s = static_cast<State*>(data);
          if (s->running.fetch_add(1) != 0) s->overlaps.fetch_add(1);
          s->threads.push_back(std::this_thread::get_id());
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          s->running.fetch_sub(1);
          s->ran.fetch_add(1);
        },
        &state));
  }
  ASSERT_CU(cu().CtxSynchronize());
  EXPECT_EQ(state.ran.load(), 4);
  EXPECT_EQ(state.overlaps.load(), 0);
  for (std::thread::id id : state.threads) EXPECT_EQ(id, state.threads[0]);
}

}  // namespace
}  // namespace pinring
