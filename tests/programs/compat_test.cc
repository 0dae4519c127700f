// Programs that include pinring/cuda_compat.h, as GoogleTest cases: what each
// form of the runtime's functions means there. Compiled once for each mode of
// the default stream; runs on the simulated libraries or on a GPU.

#include <pinring/cuda_compat.h>

#include <algorithm>
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
  // The newest of several is the one, whoever's it is.
  EXPECT_EQ(cudaMallocHost(&block, SIZE_MAX), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaSetDevice(77), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaMallocHost(&block, SIZE_MAX), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
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

uint64_t PromotedBlocks() {
  pinringUsage usage = PINRING_USAGE_INIT;
  EXPECT_EQ(pinringGetUsage(&usage), cudaSuccess);
  return usage.kinds[pinringUsagePromoted].totalCount;
}

TEST_F(CompatTest, MemsetsAreInStreamOrderAndPinNothing) {
  const uint64_t promoted = PromotedBlocks();
  ASSERT_EQ(cudaMemset(back_, 0x5a, kBytes), cudaSuccess);
  EXPECT_EQ(back_[kBytes - 1], 0x5a);  // done when the call returns
  ASSERT_EQ(cudaMemcpyAsync(device_, back_, kBytes, cudaMemcpyHostToDevice),
            cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(back_, 0x5b, 100), cudaSuccess);
  ASSERT_EQ(cudaMemset2DAsync(back_ + 1000, 50, 0x5c, 10, 20), cudaSuccess);
  ASSERT_EQ(cudaMemset2D(back_ + 3000, 50, 0x5d, 10, 20), cudaSuccess);
  const cudaPitchedPtr box = make_cudaPitchedPtr(back_ + 10'000, 50, 50, 10);
  ASSERT_EQ(cudaMemset3D(box, 0x5e, make_cudaExtent(50, 10, 3)), cudaSuccess);
  ASSERT_EQ(cudaMemset3DAsync(box, 0x5f, make_cudaExtent(1, 10, 3)),
            cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  std::vector<unsigned char> expected(kBytes, 0x5a);
  std::fill_n(expected.begin(), 100, 0x5b);
  for (int row = 0; row < 30; ++row) {
    if (row < 20) {
      std::fill_n(expected.begin() + 1000 + row * 50, 10, 0x5c);
      std::fill_n(expected.begin() + 3000 + row * 50, 10, 0x5d);
    }
    std::fill_n(expected.begin() + 10'000 + row * 50, 50, 0x5e);
    expected[static_cast<size_t>(10'000 + row * 50)] = 0x5f;
  }
  EXPECT_EQ(std::memcmp(back_, expected.data(), kBytes), 0);
  ASSERT_EQ(cudaMemcpy(back_, device_, kBytes, cudaMemcpyDeviceToHost),
            cudaSuccess);
  expected.assign(kBytes, 0x5a);
  EXPECT_EQ(std::memcmp(back_, expected.data(), kBytes), 0);
  EXPECT_EQ(PromotedBlocks(), promoted);
}

TEST_F(CompatTest, ArraysGoThroughTheRing) {
  const uint64_t promoted = PromotedBlocks();
  const uint64_t before = CopiesInAll();
  const cudaChannelFormatDesc format =
      cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
  cudaArray_t flat = nullptr;
  ASSERT_EQ(cudaMallocArray(&flat, &format, 256, 500), cudaSuccess);
  ASSERT_EQ(cudaMemcpy2DToArrayAsync(flat, 0, 0, there_, 1100, 1024, 500,
                                     cudaMemcpyHostToDevice),
            cudaSuccess);
  ASSERT_EQ(cudaMemcpy2DToArray(flat, 512, 100, there_ + 1, 512, 512, 300,
                                cudaMemcpyHostToDevice),
            cudaSuccess);
  ASSERT_EQ(cudaMemcpy2DFromArray(back_, 1024, flat, 0, 0, 1024, 500,
                                  cudaMemcpyDeviceToHost),
            cudaSuccess);
  for (size_t y = 0; y < 500; ++y) {
    const bool over = y >= 100 && y < 400;
    ASSERT_EQ(std::memcmp(back_ + y * 1024, there_ + y * 1100, 512), 0);
    ASSERT_EQ(
        std::memcmp(
            back_ + y * 1024 + 512,
            over ? there_ + 1 + (y - 100) * 512 : there_ + y * 1100 + 512, 512),
        0);
  }
  EXPECT_EQ(cudaFreeArray(flat), cudaSuccess);

  const cudaExtent size = make_cudaExtent(64, 32, 16);  // elements
  cudaArray_t deep = nullptr;
  ASSERT_EQ(cudaMalloc3DArray(&deep, &format, size), cudaSuccess);
  cudaMemcpy3DParms box = {};
  box.srcPtr = make_cudaPitchedPtr(there_, 300, 300, 40);
  box.dstArray = deep;
  box.extent = size;
  box.kind = cudaMemcpyHostToDevice;
  ASSERT_EQ(cudaMemcpy3D(&box), cudaSuccess);
  box = {};
  box.srcArray = deep;
  box.srcPos = make_cudaPos(4, 2, 1);  // elements of the array
  box.dstPtr = make_cudaPitchedPtr(back_, 240, 240, 30);
  box.extent = make_cudaExtent(60, 30, 15);
  box.kind = cudaMemcpyDeviceToHost;
  ASSERT_EQ(cudaMemcpy3DAsync(&box), cudaSuccess);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  for (size_t z = 0; z < 15; ++z) {
    for (size_t y = 0; y < 30; ++y) {
      ASSERT_EQ(std::memcmp(back_ + (z * 30 + y) * 240,
                            there_ + ((z + 1) * 40 + y + 2) * 300 + 16, 240),
                0);
    }
  }
  EXPECT_EQ(cudaFreeArray(deep), cudaSuccess);
  EXPECT_EQ(CopiesInAll(), before + 5);
  EXPECT_EQ(PromotedBlocks(), promoted);
}

TEST_F(CompatTest, PeersGoThroughTheRing) {
  const uint64_t promoted = PromotedBlocks();
  const uint64_t before = CopiesInAll();
  ASSERT_EQ(cudaMemcpyPeerAsync(device_, 0, there_, 0, kBytes), cudaSuccess);
  ASSERT_EQ(cudaMemcpyPeer(back_, 0, device_, 0, kBytes), cudaSuccess);
  EXPECT_EQ(std::memcmp(back_, there_, kBytes), 0);
  cudaMemcpy3DPeerParms box = {};
  box.srcPtr = make_cudaPitchedPtr(there_ + 5, 300, 300, 20);
  box.dstPtr = make_cudaPitchedPtr(device_, 300, 300, 20);
  box.extent = make_cudaExtent(290, 18, 9);
  ASSERT_EQ(cudaMemcpy3DPeerAsync(&box), cudaSuccess);
  std::swap(box.srcPtr, box.dstPtr);
  box.dstPtr.ptr = back_;
  ASSERT_EQ(cudaMemcpy3DPeer(&box), cudaSuccess);
  for (size_t z = 0; z < 9; ++z) {
    for (size_t y = 0; y < 18; ++y) {
      const size_t at = (z * 20 + y) * 300;
      ASSERT_EQ(std::memcmp(back_ + at, there_ + 5 + at, 290), 0);
    }
  }
  EXPECT_EQ(CopiesInAll(), before + 4);
  EXPECT_EQ(PromotedBlocks(), promoted);
}

#if CUDART_VERSION >= 12080
TEST_F(CompatTest, BatchesOfBoxesGoThroughTheRing) {
  const uint64_t promoted = PromotedBlocks();
  const uint64_t before = CopiesInAll();
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  const cudaChannelFormatDesc format =
      cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
  cudaArray_t array = nullptr;
  ASSERT_EQ(cudaMallocArray(&array, &format, 256, 100), cudaSuccess);
  const auto copy = [&](cudaMemcpy3DBatchOp* boxes, size_t count) {
#if CUDART_VERSION >= 13000
    return cudaMemcpy3DBatchAsync(count, boxes, 0, stream);
#else
    size_t failed = 0;
    return cudaMemcpy3DBatchAsync(count, boxes, &failed, 0, stream);
#endif
  };
  cudaMemcpy3DBatchOp boxes[2] = {};
  for (cudaMemcpy3DBatchOp& box : boxes) {
    box.src.type = box.dst.type = cudaMemcpyOperandTypePointer;
    box.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  }
  boxes[0].extent = make_cudaExtent(290, 18, 9);
  boxes[0].src.op.ptr.ptr = there_;
  boxes[0].src.op.ptr.rowLength = 300;
  boxes[0].src.op.ptr.layerHeight = 20;
  boxes[0].dst.op.ptr.ptr = device_;
  boxes[1].extent = make_cudaExtent(200, 90, 1);  // elements of the array
  boxes[1].src.op.ptr.ptr = there_ + 1;
  boxes[1].src.op.ptr.rowLength = 210;
  boxes[1].dst.type = cudaMemcpyOperandTypeArray;
  boxes[1].dst.op.array.array = array;
  boxes[1].dst.op.array.offset.x = 3;
  boxes[1].dst.op.array.offset.y = 10;
  ASSERT_EQ(copy(boxes, 2), cudaSuccess);
  constexpr size_t kSecond = 100'000;
  boxes[0].src = boxes[0].dst;
  boxes[0].dst.op.ptr.ptr = back_;
  boxes[1].src = boxes[1].dst;
  boxes[1].dst = {};
  boxes[1].dst.type = cudaMemcpyOperandTypePointer;
  boxes[1].dst.op.ptr.ptr = back_ + kSecond;
  ASSERT_EQ(copy(boxes, 2), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  for (size_t z = 0; z < 9; ++z) {
    for (size_t y = 0; y < 18; ++y) {
      ASSERT_EQ(std::memcmp(back_ + (z * 18 + y) * 290,
                            there_ + (z * 20 + y) * 300, 290),
                0);
    }
  }
  for (size_t y = 0; y < 90; ++y) {
    ASSERT_EQ(std::memcmp(back_ + kSecond + y * 800, there_ + 1 + y * 840, 800),
              0);
  }
  EXPECT_EQ(CopiesInAll(), before + 4);
  EXPECT_EQ(PromotedBlocks(), promoted);
  EXPECT_EQ(cudaFreeArray(array), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}

TEST_F(CompatTest, BatchesGoThroughTheRing) {
  const uint64_t promoted = PromotedBlocks();
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  constexpr size_t kCopies = 4;
  constexpr size_t kPart = kBytes / kCopies;
  const auto copy = [&](bool in, size_t count,
                        cudaMemcpySrcAccessOrder second_order) {
    std::vector<void*> dsts;
    std::vector<const void*> srcs;
    std::vector<size_t> sizes;
    for (size_t i = 0; i < count; ++i) {
      dsts.push_back((in ? device_ : back_) + i * kPart);
      srcs.push_back((in ? there_ : device_) + i * kPart);
      sizes.push_back(kPart);
    }
    cudaMemcpyAttributes attributes[2] = {};
    attributes[0].srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    attributes[1].srcAccessOrder = second_order;
    size_t indices[2] = {0, 2};
#if CUDART_VERSION >= 13000
    return cudaMemcpyBatchAsync(dsts.data(), srcs.data(), sizes.data(), count,
                                attributes, indices, 2, stream);
#else
    std::vector<void*> sources;
    for (const void* src : srcs) sources.push_back(const_cast<void*>(src));
    size_t failed = 0;
    return cudaMemcpyBatchAsync(dsts.data(), sources.data(), sizes.data(),
                                count, attributes, indices, 2, &failed, stream);
#endif
  };
  ASSERT_EQ(copy(true, kCopies, cudaMemcpySrcAccessOrderDuringApiCall),
            cudaSuccess);
  // Read already.
  std::vector<unsigned char> expected(there_, there_ + kBytes);
  std::memset(there_ + 2 * kPart, 0, 2 * kPart);
  ASSERT_EQ(copy(false, kCopies, cudaMemcpySrcAccessOrderAny), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(std::memcmp(back_, expected.data(), kCopies * kPart), 0);
  EXPECT_EQ(PromotedBlocks(), promoted);
  // What is wrong with a batch is the runtime's to say.
  EXPECT_EQ(copy(true, kCopies, cudaMemcpySrcAccessOrderInvalid),
            cudaErrorInvalidValue);
  EXPECT_EQ(copy(true, 2, cudaMemcpySrcAccessOrderStream),
            cudaErrorInvalidValue);
  (void)cudaGetLastError();
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
}
#endif

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
