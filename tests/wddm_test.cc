// The whole library where pinned memory fills the card and the driver gathers
// work before it hands it on: WDDM, as the simulated device has it. It is what
// programs meet on Windows and in WSL2.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/support/case_test.h"

namespace pinring {
namespace {

constexpr char kSimulatedOnly[] =
    "SIMULATED ONLY: a real driver cannot be switched to WDDM; run without "
    "PINRING_TEST_DRIVER=native to test this";
constexpr size_t kMiB = size_t{1} << 20;

// More than one slot, and an odd size.
constexpr size_t kBytes = kMiB + 13;

class WddmTest : public CaseTest {
 protected:
  // A driver that hands nothing on by itself, however much has gathered.
  void StartGathering() {
    simcuda::MachineOptions options;
    options.wddm = true;
    options.wddm_batch_operations = 1'000'000;
    Start("small_limit_bytes=0,ring_bytes=4MiB,slot_bytes=256KiB", options);
  }

  // A card of 128 MiB with 100 MiB in use, on which a ring of 32 does not fit.
  void StartFull(const std::string& settings) {
    simcuda::MachineOptions options;
    options.wddm = true;
    options.device_bytes = 128 * kMiB;
    Start(settings, options);
    (void)bed().DeviceBuffer(100 * kMiB);
  }

  static char* Block(size_t bytes) {
    void* block = nullptr;
    EXPECT_EQ(pinringMallocHost(&block, bytes), cudaSuccess)
        << pinringGetLastErrorMessage();
    return static_cast<char*>(block);
  }

  // The machine is asked, not the driver: that would hand the work on.
  bool DeviceFinishes() {
    return HappensWithin(kHappens, [&] {
      return bed().machine()->OutstandingOperations() == 0;
    });
  }

  uint64_t PinningCalls() {
    return bed().machine()->Calls("cuMemHostRegister") +
           bed().machine()->Calls("cuMemHostAlloc");
  }
};

size_t Count(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

TEST_F(WddmTest, NativelyACopyStaysInTheBatch) {
  if (TestsRunNatively()) GTEST_SKIP() << kSimulatedOnly;
  StartGathering();
  const CUstream stream = bed().NonBlockingStream();
  char* const pinned = bed().PinnedBuffer(kBytes);
  const CUdeviceptr device = bed().DeviceBuffer(kBytes);
  ASSERT_EQ(driver().MemcpyHtoDAsync(device, pinned, kBytes, stream),
            CUDA_SUCCESS);
  EXPECT_FALSE(HappensWithin(
      kStuck, [&] { return bed().machine()->OutstandingOperations() == 0; }));
  EXPECT_EQ(driver().StreamSynchronize(stream), CUDA_SUCCESS);
}

TEST_F(WddmTest, ADeferredCopyReachesTheDeviceWithoutAnotherCall) {
  if (TestsRunNatively()) GTEST_SKIP() << kSimulatedOnly;
  StartGathering();
  for (const CUstream stream :
       {bed().NonBlockingStream(), bed().BlockingStream(), CUstream{nullptr},
        CU_STREAM_PER_THREAD}) {
    char* const in = Block(kBytes);
    char* const out = Block(kBytes);
    const CUdeviceptr device = bed().DeviceBuffer(kBytes);
    FillRandom(in, kBytes, 7);
    ASSERT_EQ(pinringMemcpyAsync(AsPointer(device), in, kBytes,
                                 cudaMemcpyHostToDevice, stream),
              cudaSuccess);
    EXPECT_TRUE(DeviceFinishes());
    ASSERT_EQ(pinringMemcpyAsync(out, AsPointer(device), kBytes,
                                 cudaMemcpyDeviceToHost, stream),
              cudaSuccess);
    EXPECT_TRUE(DeviceFinishes());
    // The last wait of the stream was for the bytes.
    EXPECT_EQ(WrongBytes(out, kBytes, 7), 0u);
    EXPECT_EQ(pinringFreeHost(in), cudaSuccess);
    EXPECT_EQ(pinringFreeHost(out), cudaSuccess);
  }
}

TEST_F(WddmTest, ACopyBehindAGateRunsWhenTheGateOpens) {
  if (TestsRunNatively()) GTEST_SKIP() << kSimulatedOnly;
  StartGathering();
  const CUstream stream = bed().NonBlockingStream();
  char* const in = Block(kBytes);
  const CUdeviceptr device = bed().DeviceBuffer(kBytes);
  Gate gate(bed());
  gate.Hold(stream);
  ASSERT_EQ(pinringMemcpyAsync(AsPointer(device), in, kBytes,
                               cudaMemcpyHostToDevice, stream),
            cudaSuccess);
  FillRandom(in, kBytes, 8);  // Read when the stream gets there.
  gate.Open();
  EXPECT_TRUE(DeviceFinishes());
  std::string back(kBytes, '\0');
  ASSERT_EQ(driver().MemcpyDtoH(back.data(), device, kBytes), CUDA_SUCCESS);
  EXPECT_EQ(WrongBytes(back.data(), kBytes, 8), 0u);
  EXPECT_EQ(pinringFreeHost(in), cudaSuccess);
}

TEST_F(WddmTest, SynchronousCopiesOfAllSizesAreRight) {
  if (TestsRunNatively()) GTEST_SKIP() << kSimulatedOnly;
  StartGathering();
  const CUdeviceptr device = bed().DeviceBuffer(6 * kMiB);
  for (const size_t bytes : {size_t{1}, size_t{4096}, size_t{100'000},
                             size_t{200'000}, kBytes, 6 * kMiB}) {
    char* const in = Block(bytes);
    char* const out = Block(bytes);
    FillRandom(in, bytes, bytes);
    ASSERT_EQ(
        pinringMemcpy(AsPointer(device), in, bytes, cudaMemcpyHostToDevice),
        cudaSuccess);
    ASSERT_EQ(
        pinringMemcpy(out, AsPointer(device), bytes, cudaMemcpyDeviceToHost),
        cudaSuccess);
    EXPECT_EQ(WrongBytes(out, bytes, bytes), 0u) << bytes;
    EXPECT_EQ(pinringFreeHost(in), cudaSuccess);
    EXPECT_EQ(pinringFreeHost(out), cudaSuccess);
  }
  ExpectAllThroughTheRing();
}

TEST_F(WddmTest, HandingWorkOnBreaksNoCaptureOfTheThread) {
  if (TestsRunNatively()) GTEST_SKIP() << kSimulatedOnly;
  StartGathering();
  const CUstream captured = bed().NonBlockingStream();
  const CUstream other = bed().NonBlockingStream();
  char* const in = Block(kBytes);
  const CUdeviceptr device = bed().DeviceBuffer(kBytes);
  // The ring is made, which is not what is looked at here.
  ASSERT_EQ(
      pinringMemcpy(AsPointer(device), in, kBytes, cudaMemcpyHostToDevice),
      cudaSuccess);
  ASSERT_EQ(
      driver().StreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL),
      CUDA_SUCCESS);
  EXPECT_EQ(pinringMemcpyAsync(AsPointer(device), in, kBytes,
                               cudaMemcpyHostToDevice, other),
            cudaSuccess);
  CUgraph graph = nullptr;
  EXPECT_EQ(driver().StreamEndCapture(captured, &graph), CUDA_SUCCESS);
  EXPECT_TRUE(DeviceFinishes());
  EXPECT_EQ(driver().GraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(pinringFreeHost(in), cudaSuccess);
}

TEST_F(WddmTest, FreeingABlockWithACopyInTheBatchWaitsForIt) {
  if (TestsRunNatively()) GTEST_SKIP() << kSimulatedOnly;
  StartGathering();
  const CUdeviceptr device = bed().DeviceBuffer(kBytes);
  for (int round = 0; round < 10; ++round) {
    // Small ones too, which are not handed on at once.
    const size_t bytes = round % 2 == 0 ? kBytes : 3000;
    char* const in = Block(bytes);
    FillRandom(in, bytes, 40 + round);
    ASSERT_EQ(
        pinringMemcpyAsync(AsPointer(device), in, bytes, cudaMemcpyHostToDevice,
                           bed().NonBlockingStream()),
        cudaSuccess);
    EXPECT_EQ(pinringFreeHost(in), cudaSuccess);
    std::string back(bytes, '\0');
    ASSERT_EQ(driver().MemcpyDtoH(back.data(), device, bytes), CUDA_SUCCESS);
    EXPECT_EQ(WrongBytes(back.data(), bytes, 40 + round), 0u);
  }
}

// One refused pin has made all later ones fail: small blocks, promotion and the
// ring itself are not to be had any more, and the program goes on.
TEST_F(WddmTest, WhereTheRingIsRefusedEverythingGoesOnUnpinned) {
  if (TestsRunNatively()) GTEST_SKIP() << kSimulatedOnly;
  StartFull("ring_bytes=32MiB,small_pool_bytes=1MiB");
  char* const in = Block(kBytes);
  char* const out = Block(kBytes);
  const CUdeviceptr device = bed().DeviceBuffer(kBytes);
  const CUstream stream = bed().NonBlockingStream();
  const uint64_t before = PinningCalls();
  testing::internal::CaptureStderr();
  for (const uint64_t seed : {1, 2, 3}) {
    FillRandom(in, kBytes, seed);
    ASSERT_EQ(pinringMemcpyAsync(AsPointer(device), in, kBytes,
                                 cudaMemcpyHostToDevice, stream),
              cudaSuccess);
    ASSERT_EQ(pinringMemcpyAsync(out, AsPointer(device), kBytes,
                                 cudaMemcpyDeviceToHost, stream),
              cudaSuccess);
    ASSERT_EQ(driver().StreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(WrongBytes(out, kBytes, seed), 0u);
    ASSERT_EQ(
        pinringMemcpy(out, AsPointer(device), kBytes, cudaMemcpyDeviceToHost),
        cudaSuccess);
    EXPECT_EQ(WrongBytes(out, kBytes, seed), 0u);
  }
  EXPECT_EQ(PinningCalls(), before + 1);  // Asked once.
  char* const small = Block(1000);
  std::memset(small, 9, 1000);
  ASSERT_EQ(
      pinringMemcpy(AsPointer(device), small, 1000, cudaMemcpyHostToDevice),
      cudaSuccess);
  ASSERT_EQ(pinringMemcpy(out, AsPointer(device), 1000, cudaMemcpyDeviceToHost),
            cudaSuccess);
  EXPECT_EQ(std::memcmp(out, small, 1000), 0);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(Count(said, "cannot be made"), 1u) << said;
  EXPECT_TRUE(absl::StrContains(said, "PINRING_RING_BYTES")) << said;
  const pinringUsage usage = Usage();
  EXPECT_EQ(usage.events[pinringEventRingRefused], 1u);
  EXPECT_GT(usage.events[pinringEventPageableFallback], 0u);
  EXPECT_EQ(usage.pinnedBytes, 0u);
  EXPECT_EQ(pinringPeekAtLastError(), cudaSuccess);
  // What the program pins itself is refused natively from now on.
  void* pinned = nullptr;
  EXPECT_EQ(driver().MemHostAlloc(&pinned, 4096, 0), CUDA_ERROR_ALREADY_MAPPED);
  for (char* block : {in, out, small}) {
    EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
  }
}

// Pinned memory is charged to the card: with the ring the program's own device
// memory still fits, with all blocks pinned it does not.
TEST_F(WddmTest, DeviceMemoryStillFitsBesideManyBlocks) {
  if (TestsRunNatively()) GTEST_SKIP() << kSimulatedOnly;
  StartFull("ring_bytes=4MiB,small_pool_bytes=1MiB");
  std::vector<char*> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(Block(8 * kMiB));
  const CUdeviceptr device = bed().DeviceBuffer(kBytes);
  for (char* block : blocks) {
    FillRandom(block, kBytes, 5);
    ASSERT_EQ(
        pinringMemcpy(AsPointer(device), block, kBytes, cudaMemcpyHostToDevice),
        cudaSuccess);
  }
  ExpectAllThroughTheRing();
  CUdeviceptr more = 0;
  EXPECT_EQ(driver().MemAlloc(&more, 16 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(driver().MemFree(more), CUDA_SUCCESS);
  for (char* block : blocks) EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
  // Natively.
  void* pinned = nullptr;
  ASSERT_EQ(driver().MemHostAlloc(&pinned, 16 * kMiB, 0), CUDA_SUCCESS);
  EXPECT_EQ(driver().MemAlloc(&more, 16 * kMiB), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(driver().MemFreeHost(pinned), CUDA_SUCCESS);
}

}  // namespace
}  // namespace pinring
