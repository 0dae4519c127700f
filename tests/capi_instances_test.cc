// Several instances in one process: each with its own ring, options, limits and
// accounts; calls find a block's instance by its address. On a simulated device
// or (PINRING_TEST_DRIVER=native) on a GPU.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "include/pinring/pinring.h"
#include "src/os/pages.h"
#include "tests/support/default_instance_test.h"
#include "tests/support/testbed.h"

namespace pinring {
namespace {

class CapiInstancesTest : public DefaultInstanceTest {
 protected:
  static pinringInstance_t Make(const char* settings) {
    pinringInstance_t made = nullptr;
    EXPECT_EQ(pinringInstanceCreate(&made, settings), cudaSuccess)
        << pinringGetLastErrorMessage();
    return made;
  }
  // A block of the instance; of the default one for null.
  static char* Block(pinringInstance_t instance, size_t bytes) {
    void* block = nullptr;
    EXPECT_EQ(pinringPushInstance(instance), cudaSuccess);
    EXPECT_EQ(pinringMallocHost(&block, bytes), cudaSuccess);
    EXPECT_EQ(pinringPopInstance(), cudaSuccess);
    return static_cast<char*>(block);
  }
  static pinringUsage Usage(pinringInstance_t instance) {
    pinringUsage usage = PINRING_USAGE_INIT;
    EXPECT_EQ(pinringPushInstance(instance), cudaSuccess);
    EXPECT_EQ(pinringGetUsage(&usage), cudaSuccess);
    EXPECT_EQ(pinringPopInstance(), cudaSuccess);
    return usage;
  }
  static uint64_t Copies(const pinringUsage& usage) {
    uint64_t copies = 0;
    for (const auto& direction : usage.copies) {
      for (const pinringCopyAmount& amount : direction) copies += amount.count;
    }
    return copies;
  }
};

TEST_F(CapiInstancesTest, EachHasItsOwnRingOptionsAndAccounts) {
  const pinringInstance_t first = Make("ring_bytes=8MiB, movers=1");
  const pinringInstance_t second = Make("ring_bytes=16MiB, movers=2");
  std::vector<pinringInstance_t> all = {nullptr, first, second};
  std::vector<char*> blocks;
  const CUstream stream = bed_->NonBlockingStream();
  const CUdeviceptr device = bed_->DeviceBuffer(3 * kMiB);
  for (size_t i = 0; i < all.size(); ++i) {
    char* const block = Block(all[i], 3 * kMiB);
    std::memset(block, static_cast<int>(i + 1), 3 * kMiB);
    // No instance is pushed here: the address says whose copy it is.
    ASSERT_EQ(pinringMemcpyAsync(reinterpret_cast<void*>(device), block,
                                 3 * kMiB, cudaMemcpyHostToDevice, stream),
              cudaSuccess);
    ASSERT_EQ(bed_->driver().StreamSynchronize(stream), CUDA_SUCCESS);
    std::memset(block, 0, 3 * kMiB);
    ASSERT_EQ(pinringMemcpy(block, reinterpret_cast<void*>(device), 3 * kMiB,
                            cudaMemcpyDeviceToHost),
              cudaSuccess);
    EXPECT_EQ(block[0], static_cast<char>(i + 1));
    EXPECT_EQ(block[3 * kMiB - 1], static_cast<char>(i + 1));
    blocks.push_back(block);
  }
  const uint64_t rings[] = {64 * kMiB, 8 * kMiB, 16 * kMiB};
  for (size_t i = 0; i < all.size(); ++i) {
    const pinringUsage usage = Usage(all[i]);
    EXPECT_EQ(usage.kinds[pinringUsageStaged].currentBytes, 3 * kMiB);
    EXPECT_EQ(Copies(usage), 2u);
    EXPECT_GE(usage.kinds[pinringUsageRing].currentBytes, rings[i]);
    EXPECT_LT(usage.kinds[pinringUsageRing].currentBytes, rings[i] + kMiB);
    EXPECT_EQ(pinringFreeHost(blocks[i]), cudaSuccess);
    EXPECT_EQ(Usage(all[i]).kinds[pinringUsageStaged].currentBytes, 0u);
  }
  EXPECT_EQ(pinringInstanceDestroy(first), cudaSuccess);
  EXPECT_EQ(pinringInstanceDestroy(second), cudaSuccess);
}

TEST_F(CapiInstancesTest, CopiesOfOneStreamThroughTwoRingsKeepTheirOrder) {
  const pinringInstance_t other = Make("ring_bytes=4MiB, movers=1");
  const CUstream stream = bed_->NonBlockingStream();
  const size_t bytes = 2 * kMiB;
  char* const mine = Block(nullptr, bytes);
  char* const theirs = Block(other, bytes);
  void* const device = reinterpret_cast<void*>(bed_->DeviceBuffer(bytes));
  for (int round = 0; round < 10; ++round) {
    std::memset(mine, round + 1, bytes);
    ASSERT_EQ(
        pinringMemcpyAsync(device, mine, bytes, cudaMemcpyHostToDevice, stream),
        cudaSuccess);
    ASSERT_EQ(pinringMemcpyAsync(theirs, device, bytes, cudaMemcpyDeviceToHost,
                                 stream),
              cudaSuccess);
    ASSERT_EQ(bed_->driver().StreamSynchronize(stream), CUDA_SUCCESS);
    ASSERT_EQ(std::memcmp(mine, theirs, bytes), 0) << round;
  }
  // Both ends staged, of two instances.
  std::memset(mine, 77, bytes);
  ASSERT_EQ(pinringMemcpy(theirs, mine, bytes, cudaMemcpyHostToHost),
            cudaSuccess);
  EXPECT_EQ(std::memcmp(mine, theirs, bytes), 0);
  EXPECT_EQ(pinringFreeHost(mine), cudaSuccess);
  EXPECT_EQ(pinringFreeHost(theirs), cudaSuccess);
  EXPECT_EQ(pinringInstanceDestroy(other), cudaSuccess);
}

TEST_F(CapiInstancesTest, AThreadsCurrentInstanceIsItsOwn) {
  const pinringInstance_t other = Make("");
  ASSERT_EQ(pinringPushInstance(other), cudaSuccess);
  ASSERT_EQ(pinringPushInstance(nullptr), cudaSuccess);
  char* const first = Block(other, kMiB);
  ASSERT_EQ(pinringPopInstance(), cudaSuccess);
  std::thread([] {
    void* block = nullptr;
    EXPECT_EQ(pinringMallocHost(&block, 3 * kMiB), cudaSuccess);
    EXPECT_EQ(Usage(nullptr).kinds[pinringUsageStaged].currentBytes, 3 * kMiB);
    EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
    EXPECT_EQ(pinringPopInstance(), cudaErrorInvalidValue);
  }).join();
  pinringUsage usage = PINRING_USAGE_INIT;
  EXPECT_EQ(pinringGetUsage(&usage), cudaSuccess);
  EXPECT_EQ(usage.kinds[pinringUsageStaged].currentBytes, kMiB);
  EXPECT_EQ(pinringPopInstance(), cudaSuccess);
  EXPECT_EQ(pinringFreeHost(first), cudaSuccess);
  EXPECT_EQ(pinringInstanceDestroy(other), cudaSuccess);
}

TEST_F(CapiInstancesTest, SmallBlocksAreOfTheirInstancesPool) {
  const pinringInstance_t other = Make("small_pool_bytes=1MiB");
  char* const small = Block(other, 100);
  EXPECT_EQ(pinringGetBlockKind(small), pinringBlockPinned);
  EXPECT_EQ(Usage(other).kinds[pinringUsageSmallPinned].currentCount, 1u);
  EXPECT_EQ(Usage(nullptr).kinds[pinringUsageSmallPinned].currentCount, 0u);
  cudaPointerAttributes attributes = {};
  EXPECT_EQ(pinringPointerGetAttributes(&attributes, small + 50), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(pinringFreeHost(small), cudaSuccess);
  EXPECT_EQ(pinringInstanceDestroy(other), cudaSuccess);
  // Its pool went with it.
  EXPECT_EQ(pinringGetBlockKind(small), pinringBlockNone);
}

TEST_F(CapiInstancesTest, DestroyingRefusesBlocksAndHandlesThatAreNone) {
  EXPECT_EQ(pinringInstanceDestroy(nullptr), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(pinringInstanceDestroy(reinterpret_cast<pinringInstance_t>(this)),
            cudaErrorInvalidResourceHandle);
  const pinringInstance_t other = Make("");
  char* const block = Block(other, kMiB);
  EXPECT_EQ(pinringInstanceDestroy(other), cudaErrorIllegalState);
  EXPECT_NE(std::string(pinringGetLastErrorMessage()).find("1 block"),
            std::string::npos);
  EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
  EXPECT_EQ(pinringInstanceDestroy(other), cudaSuccess);
  EXPECT_EQ(pinringInstanceDestroy(other), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(pinringPushInstance(other), cudaErrorInvalidResourceHandle);
}

TEST_F(CapiInstancesTest, BadSettingsAreNamed) {
  pinringInstance_t made = nullptr;
  EXPECT_EQ(pinringInstanceCreate(nullptr, ""), cudaErrorInvalidValue);
  EXPECT_EQ(pinringInstanceCreate(&made, nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(pinringInstanceCreate(&made, "ring_byte=1MiB"),
            cudaErrorInvalidValue);
  EXPECT_NE(std::string(pinringGetLastErrorMessage()).find("ring_byte"),
            std::string::npos);
  EXPECT_EQ(pinringInstanceCreate(
                &made, "ring_bytes=1MiB, slot_bytes=1MiB, slots_per_stream=4"),
            cudaErrorInvalidValue);
  EXPECT_EQ(made, nullptr);
}

TEST_F(CapiInstancesTest, ADestroyedCurrentInstanceIsAnErrorUntilItIsPopped) {
  const pinringInstance_t other = Make("");
  ASSERT_EQ(pinringPushInstance(other), cudaSuccess);
  ASSERT_EQ(pinringInstanceDestroy(other), cudaSuccess);
  void* block = nullptr;
  EXPECT_EQ(pinringMallocHost(&block, kMiB), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(pinringPopInstance(), cudaSuccess);
  EXPECT_EQ(pinringMallocHost(&block, kMiB), cudaSuccess);
  EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
}

TEST_F(CapiInstancesTest, PushesNestSixtyFourDeep) {
  for (int i = 0; i < 64; ++i) {
    ASSERT_EQ(pinringPushInstance(nullptr), cudaSuccess);
  }
  EXPECT_EQ(pinringPushInstance(nullptr), cudaErrorInvalidValue);
  for (int i = 0; i < 64; ++i) ASSERT_EQ(pinringPopInstance(), cudaSuccess);
  EXPECT_EQ(pinringPopInstance(), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace pinring
