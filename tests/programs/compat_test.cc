// Programs that include pinring/cuda_compat.h, as GoogleTest cases: what each
// form of the runtime's functions means there. Compiled once for each mode of
// the default stream; runs on the simulated libraries or on a GPU.

#include <pinring/cuda_compat.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace {

constexpr size_t kBytes = (size_t{3} << 20) + 17;

uint64_t CopiesInAll() {
  pinringUsage usage = PINRING_USAGE_INIT;
  EXPECT_EQ(pinringGetUsage(&usage), cudaSuccess);
  uint64_t copies = 0;
  for (const auto& direction : usage.copies) {
    for (const pinringCopyAmount& amount : direction) copies += amount.count;
  }
  return copies;
}

void Fill(unsigned char* at, size_t bytes, unsigned seed) {
  for (size_t i = 0; i < bytes; ++i) {
    at[i] = static_cast<unsigned char>(i * 13 + (i >> 9) + seed);
  }
}

class CompatTest : public testing::Test {
 protected:
  void SetUp() override {
    (void)cudaGetLastError();
    ASSERT_EQ(cudaMallocHost(&there_, kBytes), cudaSuccess);
    ASSERT_EQ(cudaMallocHost(&back_, kBytes), cudaSuccess);
    ASSERT_EQ(cudaMalloc(&device_, kBytes), cudaSuccess);
    static unsigned seed = 0;
    Fill(there_, kBytes, ++seed);
    std::memset(back_, 0, kBytes);
  }
  void TearDown() override {
    EXPECT_EQ(cudaFree(device_), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(back_), cudaSuccess);
    EXPECT_EQ(cudaFreeHost(there_), cudaSuccess);
  }
  bool Same() const { return std::memcmp(there_, back_, kBytes) == 0; }

  unsigned char* there_ = nullptr;
  unsigned char* back_ = nullptr;
  unsigned char* device_ = nullptr;
};

TEST_F(CompatTest, EveryFormOfAllocationGivesAStagedBlock) {
  std::vector<void*> blocks;
  const auto add = [&](void* block) {
    EXPECT_EQ(pinringGetBlockKind(block), pinringBlockStaged);
    blocks.push_back(block);
  };
  void* untyped = nullptr;
  float* typed = nullptr;
  ASSERT_EQ(cudaMallocHost(&untyped, kBytes), cudaSuccess);
  add(untyped);
  ASSERT_EQ(cudaMallocHost(reinterpret_cast<void**>(&typed), kBytes),
            cudaSuccess);
  add(typed);
  ASSERT_EQ(cudaMallocHost(&typed, kBytes, cudaHostAllocPortable), cudaSuccess);
  add(typed);
  ASSERT_EQ(cudaMallocHost<float>(&typed, kBytes), cudaSuccess);
  add(typed);
  ASSERT_EQ(::cudaMallocHost(&typed, kBytes), cudaSuccess);
  add(typed);
  ASSERT_EQ(cudaHostAlloc(&typed, kBytes, cudaHostAllocDefault), cudaSuccess);
  add(typed);
  ASSERT_EQ(cudaHostAlloc(&untyped, kBytes, cudaHostAllocDefault), cudaSuccess);
  add(untyped);
  for (void* block : blocks) EXPECT_EQ(cudaFreeHost(block), cudaSuccess);
  EXPECT_EQ(pinringGetBlockKind(blocks[0]), pinringBlockNone);
}

TEST_F(CompatTest, MappedMemoryIsReallyPinnedAndKnowsItsDevicePointer) {
  float* mapped = nullptr;
  float* device = nullptr;
  unsigned flags = 0;
  ASSERT_EQ(cudaHostAlloc(&mapped, kBytes, cudaHostAllocMapped), cudaSuccess);
  EXPECT_EQ(pinringGetBlockKind(mapped), pinringBlockPinned);
  ASSERT_EQ(cudaHostGetDevicePointer(&device, mapped, 0), cudaSuccess);
  EXPECT_NE(device, nullptr);
  ASSERT_EQ(cudaHostGetFlags(&flags, mapped), cudaSuccess);
  EXPECT_NE(flags & cudaHostAllocMapped, 0u);
  EXPECT_EQ(cudaFreeHost(mapped), cudaSuccess);
}

TEST_F(CompatTest, SynchronousCopiesThereAndBack) {
  const uint64_t before = CopiesInAll();
  ASSERT_EQ(cudaMemcpy(device_, there_, kBytes, cudaMemcpyHostToDevice),
            cudaSuccess);
  ASSERT_EQ(cudaMemcpy(back_, device_, kBytes, cudaMemcpyDeviceToHost),
            cudaSuccess);
  EXPECT_TRUE(Same());
  EXPECT_EQ(CopiesInAll(), before + 2);
}

TEST_F(CompatTest, AsynchronousCopiesOnEveryKindOfStream) {
  cudaStream_t made = nullptr;
  ASSERT_EQ(cudaStreamCreate(&made), cudaSuccess);
  for (cudaStream_t stream :
       {cudaStream_t{nullptr}, cudaStreamLegacy, cudaStreamPerThread, made}) {
    std::memset(back_, 0, kBytes);
    ASSERT_EQ(cudaMemcpyAsync(device_, there_, kBytes, cudaMemcpyHostToDevice,
                              stream),
              cudaSuccess);
    ASSERT_EQ(
        cudaMemcpyAsync(back_, device_, kBytes, cudaMemcpyDefault, stream),
        cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_TRUE(Same());
  }
  std::memset(back_, 0, kBytes);
  ASSERT_EQ(cudaMemcpyAsync(device_, there_, kBytes, cudaMemcpyHostToDevice),
            cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(back_, device_, kBytes, cudaMemcpyDeviceToHost),
            cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_TRUE(Same());
  EXPECT_EQ(cudaStreamDestroy(made), cudaSuccess);
}

TEST_F(CompatTest, FunctionsHaveAddresses) {
  cudaError_t (*const copy)(void*, const void*, size_t, cudaMemcpyKind) =
      &cudaMemcpy;
  cudaError_t (*const free_host)(void*) = cudaFreeHost;
  ASSERT_EQ(copy(device_, there_, kBytes, cudaMemcpyHostToDevice), cudaSuccess);
  ASSERT_EQ(copy(back_, device_, kBytes, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_TRUE(Same());
  EXPECT_EQ(free_host(nullptr), cudaSuccess);
}

TEST_F(CompatTest, CopiesOfOtherMemoryAreTheRuntimesOwn) {
  const uint64_t before = CopiesInAll();
  std::vector<unsigned char> source(5000, 7), target(5000);
  ASSERT_EQ(cudaMemcpy(device_, source.data(), 5000, cudaMemcpyHostToDevice),
            cudaSuccess);
  ASSERT_EQ(
      cudaMemcpyAsync(target.data(), device_, 5000, cudaMemcpyDeviceToHost),
      cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(source, target);
  EXPECT_EQ(CopiesInAll(), before);
}

TEST_F(CompatTest, AttributesAreThoseOfPinnedMemory) {
  cudaPointerAttributes attributes = {};
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, there_ + 1), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, device_), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(cudaHostRegister(there_, 4096, cudaHostRegisterDefault),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaHostUnregister(there_), cudaErrorInvalidValue);
  std::vector<unsigned char> other(1 << 20);
  ASSERT_EQ(
      cudaHostRegister(other.data(), other.size(), cudaHostRegisterDefault),
      cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(other.data()), cudaSuccess);
  (void)cudaGetLastError();
}

TEST_F(CompatTest, LastErrorsOfBothAreReportedOnce) {
  void* block = nullptr;
  EXPECT_EQ(cudaMallocHost(&block, SIZE_MAX), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&block, size_t{1} << 60), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
}

TEST_F(CompatTest, RowsAndBoxesGoThroughTheRing) {
  constexpr size_t kPitch = 1000;
  constexpr size_t kRows = 3000;
  ASSERT_EQ(cudaMemcpy2DAsync(device_, 900, there_, kPitch, 900, kRows,
                              cudaMemcpyHostToDevice),
            cudaSuccess);
  ASSERT_EQ(cudaMemcpy2D(back_, kPitch, device_, 900, 900, kRows,
                         cudaMemcpyDeviceToHost),
            cudaSuccess);
  for (size_t y = 0; y < kRows; ++y) {
    ASSERT_EQ(std::memcmp(back_ + y * kPitch, there_ + y * kPitch, 900), 0);
    ASSERT_EQ(back_[y * kPitch + 900], 0);
  }
  std::memset(back_, 0, kBytes);
  cudaMemcpy3DParms box = {};
  box.srcPtr = make_cudaPitchedPtr(there_, kPitch, 900, 100);
  box.dstPtr = make_cudaPitchedPtr(device_, 900, 900, 90);
  box.extent = make_cudaExtent(900, 90, 30);
  box.kind = cudaMemcpyHostToDevice;
  ASSERT_EQ(cudaMemcpy3DAsync(&box), cudaSuccess);
  std::swap(box.srcPtr, box.dstPtr);
  box.dstPtr.ptr = back_;
  box.kind = cudaMemcpyDeviceToHost;
  ASSERT_EQ(cudaMemcpy3D(&box), cudaSuccess);
  for (size_t y = 0; y < kRows; ++y) {
    const int expected = y % 100 < 90 ? 0 : 1;
    ASSERT_EQ(
        std::memcmp(back_ + y * kPitch, there_ + y * kPitch, 900) != 0 ? 1 : 0,
        expected);
  }
  pinringUsage usage = PINRING_USAGE_INIT;
  ASSERT_EQ(pinringGetUsage(&usage), cudaSuccess);
  EXPECT_EQ(usage.kinds[pinringUsagePromoted].currentBytes, 0u);
}

TEST_F(CompatTest, AMemsetPinsTheBlock) {
  ASSERT_EQ(cudaMemset(back_, 0x5a, kBytes), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(back_, 0x5b, 100), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(back_[0], 0x5b);
  EXPECT_EQ(back_[100], 0x5a);
  EXPECT_EQ(back_[kBytes - 1], 0x5a);
  pinringUsage usage = PINRING_USAGE_INIT;
  ASSERT_EQ(pinringGetUsage(&usage), cudaSuccess);
  EXPECT_GE(usage.kinds[pinringUsagePromoted].currentBytes, kBytes);
}

// The runtime's current device counts, also for a thread that has done nothing
// else with it.
TEST_F(CompatTest, TheCurrentDeviceIsTheRuntimes) {
  int devices = 0;
  ASSERT_EQ(cudaGetDeviceCount(&devices), cudaSuccess);
  if (devices < 2) {
    GTEST_SKIP() << "the current device of several is not tested: there is "
                 << devices << " device";
  }
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  unsigned char* block = nullptr;
  unsigned char* device = nullptr;
  cudaPointerAttributes attributes = {};
  ASSERT_EQ(cudaMallocHost(&block, kBytes), cudaSuccess);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, block), cudaSuccess);
  EXPECT_EQ(attributes.device, 1);
  ASSERT_EQ(cudaMalloc(&device, kBytes), cudaSuccess);
  std::thread([&] {
    ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
    Fill(block, kBytes, 9);
    ASSERT_EQ(cudaMemcpyAsync(device, block, kBytes, cudaMemcpyHostToDevice),
              cudaSuccess);
    ASSERT_EQ(cudaMemcpyAsync(back_, device, kBytes, cudaMemcpyDeviceToHost),
              cudaSuccess);
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(std::memcmp(block, back_, kBytes), 0);
  }).join();
  EXPECT_EQ(cudaFree(device), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(block), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

// Another thread's default stream is held; whether this thread's is the same
// one is what the two modes differ in.
TEST_F(CompatTest, TheDefaultStreamIsTheOneOfTheMode) {
  std::atomic<bool> open{false};
  std::atomic<bool> held{false};
  struct Gate {
    std::atomic<bool>& open;
    std::atomic<bool>& held;
  } gate{open, held};
  std::thread holder([&] {
    ASSERT_EQ(cudaLaunchHostFunc(
                  nullptr,
                  [](void* data) {
                    auto* const waited = static_cast<Gate*>(data);
                    waited->held = true;
                    while (!waited->open) std::this_thread::yield();
                  },
                  &gate),
              cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  });
  while (!held) std::this_thread::yield();
  std::atomic<bool> done{false};
  std::thread copier([&] {
    ASSERT_EQ(cudaMemcpy(device_, there_, kBytes, cudaMemcpyHostToDevice),
              cudaSuccess);
    done = true;
  });
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
  copier.join();
  EXPECT_TRUE(done);
  open = true;
#else
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(done);
  open = true;
  copier.join();
#endif
  holder.join();
  ASSERT_EQ(cudaMemcpy(back_, device_, kBytes, cudaMemcpyDeviceToHost),
            cudaSuccess);
  EXPECT_TRUE(Same());
}

}  // namespace
