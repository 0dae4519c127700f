// 2D and 3D copies of staged blocks: every byte of random shapes, nothing
// between the rows, the codes of bad ones, and the stream's order. On a
// simulated device or (PINRING_TEST_DRIVER=native) on a GPU.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
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

constexpr auto kGap = std::byte{0xd7};

// Rows in some memory of `bytes` bytes: an offset, and pitches.
struct Place {
  size_t offset = 0;
  size_t pitch = 0;
  size_t rows = 0;  // of a slice
  size_t bytes = 0;
};
struct Box {
  size_t width = 0;
  size_t height = 0;
  size_t depth = 0;
};

size_t At(const Place& place, size_t x, size_t y, size_t z) {
  return place.offset + (z * place.rows + y) * place.pitch + x;
}

class CapiShapesTest : public DefaultInstanceTest {
 protected:
  void SetUp() override {
    DefaultInstanceTest::SetUp();
    if (bed_ == nullptr) return;  // skipped
    // Chunks of 4 KiB, so that small shapes take many.
    ASSERT_EQ(
        pinringConfigure("ring_bytes=1MiB,slot_bytes=4KiB,slots_per_stream=3"),
        cudaSuccess);
    random_.seed(std::random_device()());
  }
  size_t Pick(size_t least, size_t most) {
    return least + random_() % (most - least + 1);
  }
  Place RandomPlace(const Box& box) {
    Place place;
    place.offset = Pick(0, 50);
    place.pitch = box.width + (Pick(0, 1) == 0 ? 0 : Pick(0, 300));
    place.rows = box.height + (Pick(0, 1) == 0 ? 0 : Pick(0, 3));
    place.bytes = At(place, box.width, box.height - 1, box.depth - 1) + 100;
    return place;
  }
  std::byte* Block(size_t bytes) {
    void* block = nullptr;
    // Larger than the limit of small blocks, which are really pinned.
    EXPECT_EQ(pinringMallocHost(&block, bytes + (128 << 10)), cudaSuccess);
    return static_cast<std::byte*>(block);
  }
  std::byte* Device(size_t bytes) {
    return reinterpret_cast<std::byte*>(bed_->DeviceBuffer(bytes));
  }
  void Put(std::byte* device, const std::vector<std::byte>& bytes) {
    ASSERT_EQ(bed_->driver().MemcpyHtoD(reinterpret_cast<CUdeviceptr>(device),
                                        bytes.data(), bytes.size()),
              CUDA_SUCCESS);
    // A copy of so little pageable memory may still be under way.
    ASSERT_EQ(bed_->driver().CtxSynchronize(), CUDA_SUCCESS);
  }
  std::vector<std::byte> Get(const std::byte* device, size_t bytes) {
    std::vector<std::byte> seen(bytes);
    EXPECT_EQ(bed_->driver().MemcpyDtoH(
                  seen.data(), reinterpret_cast<CUdeviceptr>(device), bytes),
              CUDA_SUCCESS);
    return seen;
  }
  static cudaPitchedPtr Pitched(std::byte* base, const Place& place) {
    cudaPitchedPtr pointer = {};
    pointer.ptr = base + place.offset;
    pointer.pitch = place.pitch;
    pointer.ysize = place.rows;
    return pointer;
  }
  cudaError_t Copy(std::byte* dst, const Place& to, std::byte* src,
                   const Place& from, const Box& box, cudaStream_t stream,
                   bool wait) {
    if (box.depth == 1) {
      return wait
                 ? pinringMemcpy2D(dst + to.offset, to.pitch, src + from.offset,
                                   from.pitch, box.width, box.height,
                                   cudaMemcpyDefault)
                 : pinringMemcpy2DAsync(
                       dst + to.offset, to.pitch, src + from.offset, from.pitch,
                       box.width, box.height, cudaMemcpyDefault, stream);
    }
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = Pitched(src, from);
    copy.dstPtr = Pitched(dst, to);
    copy.extent = {box.width, box.height, box.depth};
    copy.kind = cudaMemcpyDefault;
    return wait ? pinringMemcpy3D(&copy) : pinringMemcpy3DAsync(&copy, stream);
  }
  static void ExpectMoved(const std::vector<std::byte>& dst, const Place& to,
                          const std::vector<std::byte>& src, const Place& from,
                          const Box& box, const std::string& what) {
    std::vector<std::byte> expected(dst.size(), kGap);
    for (size_t z = 0; z < box.depth; ++z) {
      for (size_t y = 0; y < box.height; ++y) {
        std::memcpy(expected.data() + At(to, 0, y, z),
                    src.data() + At(from, 0, y, z), box.width);
      }
    }
    const auto wrong = std::mismatch(dst.begin(), dst.end(), expected.begin());
    EXPECT_TRUE(wrong.first == dst.end())
        << what << ": the first wrong byte is at " << wrong.first - dst.begin()
        << ", rows from " << to.offset << " with pitch " << to.pitch << " and "
        << to.rows << " a slice; the source from " << from.offset
        << " with pitch " << from.pitch << " and " << from.rows;
  }
  std::vector<std::byte> RandomBytes(size_t n) {
    std::vector<std::byte> bytes(n);
    for (std::byte& b : bytes) b = static_cast<std::byte>(random_());
    return bytes;
  }

  std::mt19937_64 random_;
};

TEST_F(CapiShapesTest, RandomShapesThereAndBack) {
  const CUstream stream = bed_->NonBlockingStream();
  for (int round = 0; round < 60; ++round) {
    Box box;
    box.width = Pick(0, 3) == 0 ? Pick(3000, 9000) : Pick(1, 700);
    box.height = Pick(1, 30);
    box.depth = Pick(0, 1) == 0 ? 1 : Pick(1, 5);
    const Place host = RandomPlace(box);
    const Place there = RandomPlace(box);
    const Place back = RandomPlace(box);
    const bool wait = Pick(0, 1) == 0;
    const std::string what =
        "round " + std::to_string(round) + ": " + std::to_string(box.width) +
        " x " + std::to_string(box.height) + " x " + std::to_string(box.depth);
    std::byte* const source = Block(host.bytes);
    std::byte* const target = Block(back.bytes);
    std::byte* const device = Device(there.bytes);
    const std::vector<std::byte> bytes = RandomBytes(host.bytes);
    std::memcpy(source, bytes.data(), host.bytes);
    std::memset(target, static_cast<int>(kGap), back.bytes);
    Put(device, std::vector<std::byte>(there.bytes, kGap));
    ASSERT_EQ(Copy(device, there, source, host, box, stream, wait), cudaSuccess)
        << what << pinringGetLastErrorMessage();
    ASSERT_EQ(Copy(target, back, device, there, box, stream, wait), cudaSuccess)
        << what << pinringGetLastErrorMessage();
    ASSERT_EQ(bed_->driver().StreamSynchronize(stream), CUDA_SUCCESS);
    ExpectMoved(Get(device, there.bytes), there, bytes, host, box, what);
    ExpectMoved(std::vector<std::byte>(target, target + back.bytes), back,
                bytes, host, box, what + ", back");
    ASSERT_FALSE(HasFailure());
    EXPECT_EQ(pinringFreeHost(source), cudaSuccess);
    EXPECT_EQ(pinringFreeHost(target), cudaSuccess);
  }
  pinringUsage usage = PINRING_USAGE_INIT;
  ASSERT_EQ(pinringGetUsage(&usage), cudaSuccess);
  EXPECT_EQ(usage.kinds[pinringUsagePromoted].totalCount, 0u);
  EXPECT_EQ(usage.copies[pinringCopyHostToDevice][pinringCopyPassed].count, 0u);
}

TEST_F(CapiShapesTest, TheBlockIsReadWhenTheStreamGetsThere) {
  const CUstream stream = bed_->NonBlockingStream();
  const Box box = {100, 300, 1};
  const Place host = {0, 128, 300, 300 * 128};
  const Place there = {0, 100, 300, 300 * 100};
  std::byte* const source = Block(host.bytes);
  std::byte* const device = Device(there.bytes);
  std::memset(source, 1, host.bytes);
  Gate gate(*bed_);
  gate.Hold(stream);
  ASSERT_EQ(Copy(device, there, source, host, box, stream, false), cudaSuccess);
  const std::vector<std::byte> bytes = RandomBytes(host.bytes);
  std::memcpy(source, bytes.data(), host.bytes);
  gate.Open();
  ASSERT_EQ(bed_->driver().StreamSynchronize(stream), CUDA_SUCCESS);
  ExpectMoved(Get(device, there.bytes), there, bytes, host, box, "gated");
  EXPECT_EQ(pinringFreeHost(source), cudaSuccess);
}

TEST_F(CapiShapesTest, RowsOfOneByteArePackedManyToAChunk) {
  constexpr size_t kRows = 100'000;
  const Box box = {1, kRows, 1};
  const Place host = {3, 2, kRows, 2 * kRows + 3};
  const Place there = {0, 3, kRows, 3 * kRows};
  std::byte* const source = Block(host.bytes);
  std::byte* const device = Device(there.bytes);
  const std::vector<std::byte> bytes = RandomBytes(host.bytes);
  std::memcpy(source, bytes.data(), host.bytes);
  Put(device, std::vector<std::byte>(there.bytes, kGap));
  ASSERT_EQ(Copy(device, there, source, host, box, nullptr, true), cudaSuccess);
  ExpectMoved(Get(device, there.bytes), there, bytes, host, box, "one byte");
  EXPECT_EQ(pinringFreeHost(source), cudaSuccess);
}

// Rows and boxes of arrays whose elements have 1 to 16 bytes, there and back.
TEST_F(CapiShapesTest, RandomBoxesOfArraysThereAndBack) {
  const CUstream stream = bed_->NonBlockingStream();
  for (int round = 0; round < 40; ++round) {
    const CUarray_format formats[] = {CU_AD_FORMAT_UNSIGNED_INT8,
                                      CU_AD_FORMAT_HALF, CU_AD_FORMAT_FLOAT};
    const size_t format = Pick(0, 2);
    const unsigned channels = 1u << Pick(0, 2);
    const size_t element = (size_t{1} << format) * channels;
    CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
    descriptor.Width = Pick(0, 3) == 0 ? Pick(1000, 3000) : Pick(1, 200);
    descriptor.Height = Pick(1, 20);
    descriptor.Depth = Pick(0, 1) == 0 ? 0 : Pick(1, 4);
    descriptor.Format = formats[format];
    descriptor.NumChannels = channels;
    CUarray array = nullptr;
    ASSERT_EQ(bed_->driver().Array3DCreate(&array, &descriptor), CUDA_SUCCESS);
    // A box somewhere in the array: x and its width in elements.
    const size_t depth = std::max<size_t>(1, descriptor.Depth);
    const cudaPos at = {Pick(0, descriptor.Width - 1),
                        Pick(0, descriptor.Height - 1), Pick(0, depth - 1)};
    const cudaExtent extent = {Pick(1, descriptor.Width - at.x),
                               Pick(1, descriptor.Height - at.y),
                               Pick(1, depth - at.z)};
    const Box box = {extent.width * element, extent.height, extent.depth};
    const Place host = RandomPlace(box);
    const Place back = RandomPlace(box);
    const std::string what = "round " + std::to_string(round) + ": " +
                             std::to_string(box.width) + " bytes x " +
                             std::to_string(box.height) + " x " +
                             std::to_string(box.depth) + " of elements of " +
                             std::to_string(element);
    std::byte* const source = Block(host.bytes);
    std::byte* const target = Block(back.bytes);
    const std::vector<std::byte> bytes = RandomBytes(host.bytes);
    std::memcpy(source, bytes.data(), host.bytes);
    std::memset(target, static_cast<int>(kGap), back.bytes);
    const auto runtime = reinterpret_cast<cudaArray_t>(array);
    const bool wait = Pick(0, 1) == 0;
    if (box.depth == 1 && at.z == 0 && Pick(0, 1) == 0) {
      const size_t x = at.x * element;
      ASSERT_EQ(wait ? pinringMemcpy2DToArray(
                           runtime, x, at.y, source + host.offset, host.pitch,
                           box.width, box.height, cudaMemcpyHostToDevice)
                     : pinringMemcpy2DToArrayAsync(
                           runtime, x, at.y, source + host.offset, host.pitch,
                           box.width, box.height, cudaMemcpyDefault, stream),
                cudaSuccess)
          << what << pinringGetLastErrorMessage();
      ASSERT_EQ(pinringMemcpy2DFromArrayAsync(
                    target + back.offset, back.pitch, runtime, x, at.y,
                    box.width, box.height, cudaMemcpyDeviceToHost, stream),
                cudaSuccess)
          << what << pinringGetLastErrorMessage();
    } else {
      cudaMemcpy3DParms copy = {};
      copy.srcPtr = Pitched(source, host);
      copy.dstArray = runtime;
      copy.dstPos = at;
      copy.extent = extent;
      copy.kind = cudaMemcpyHostToDevice;
      ASSERT_EQ(
          wait ? pinringMemcpy3D(&copy) : pinringMemcpy3DAsync(&copy, stream),
          cudaSuccess)
          << what << pinringGetLastErrorMessage();
      copy = {};
      copy.srcArray = runtime;
      copy.srcPos = at;
      copy.dstPtr = Pitched(target, back);
      copy.extent = extent;
      copy.kind = cudaMemcpyDefault;
      ASSERT_EQ(pinringMemcpy3DAsync(&copy, stream), cudaSuccess)
          << what << pinringGetLastErrorMessage();
    }
    ASSERT_EQ(bed_->driver().StreamSynchronize(stream), CUDA_SUCCESS);
    ExpectMoved(std::vector<std::byte>(target, target + back.bytes), back,
                bytes, host, box, what);
    ASSERT_FALSE(HasFailure());
    EXPECT_EQ(bed_->driver().ArrayDestroy(array), CUDA_SUCCESS);
    EXPECT_EQ(pinringFreeHost(source), cudaSuccess);
    EXPECT_EQ(pinringFreeHost(target), cudaSuccess);
  }
  pinringUsage usage = PINRING_USAGE_INIT;
  ASSERT_EQ(pinringGetUsage(&usage), cudaSuccess);
  EXPECT_EQ(usage.kinds[pinringUsagePromoted].totalCount, 0u);
  EXPECT_EQ(usage.copies[pinringCopyHostToDevice][pinringCopyPassed].count, 0u);
}

TEST_F(CapiShapesTest, ACopyThatLeavesItsArrayMovesNothing) {
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
  descriptor.Width = 64;
  descriptor.Height = 8;
  descriptor.Format = CU_AD_FORMAT_FLOAT;
  descriptor.NumChannels = 1;
  CUarray array = nullptr;
  ASSERT_EQ(bed_->driver().Array3DCreate(&array, &descriptor), CUDA_SUCCESS);
  const auto runtime = reinterpret_cast<cudaArray_t>(array);
  std::byte* const block = Block(64 << 10);
  std::memset(block, 1, 64 << 10);
  const auto copy = [&](size_t x, size_t y, size_t width, size_t height) {
    return pinringMemcpy2DToArray(runtime, x, y, block, 256, width, height,
                                  cudaMemcpyHostToDevice);
  };
  ASSERT_EQ(copy(0, 0, 256, 8), cudaSuccess) << pinringGetLastErrorMessage();
  std::memset(block, 2, 64 << 10);
  EXPECT_EQ(copy(0, 0, 256, 9), cudaErrorInvalidValue);
  EXPECT_EQ(copy(4, 0, 256, 1), cudaErrorInvalidValue);
  EXPECT_EQ(copy(0, 8, 4, 1), cudaErrorInvalidValue);
  if (!TestsRunNatively()) {  // half an element, which a GPU was seen to take
    EXPECT_EQ(copy(2, 0, 4, 1), cudaErrorInvalidValue);
    EXPECT_EQ(copy(0, 0, 6, 1), cudaErrorInvalidValue);
  }
  EXPECT_EQ(copy(SIZE_MAX - 3, 0, 8, 1), cudaErrorInvalidValue);
  EXPECT_EQ(copy(0, 0, 300, 2), cudaErrorInvalidPitchValue);
  EXPECT_EQ(pinringMemcpy2DToArray(nullptr, 0, 0, block, 256, 4, 1,
                                   cudaMemcpyHostToDevice),
            cudaErrorInvalidResourceHandle);
  EXPECT_EQ(copy(0, 0, 0, 5), cudaSuccess);
  cudaMemcpy3DParms both = {};
  both.srcArray = runtime;
  both.dstArray = runtime;
  both.extent = {1, 1, 1};
  both.kind = cudaMemcpyDefault;
  EXPECT_EQ(pinringMemcpy3D(&both), cudaErrorInvalidValue);
  std::memset(block, 3, 64 << 10);
  ASSERT_EQ(pinringMemcpy2DFromArray(block, 256, runtime, 0, 0, 256, 8,
                                     cudaMemcpyDeviceToHost),
            cudaSuccess);
  EXPECT_TRUE(std::all_of(block, block + 2048,
                          [](std::byte b) { return b == std::byte{1}; }));
  EXPECT_EQ(bed_->driver().ArrayDestroy(array), CUDA_SUCCESS);
  EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
}

TEST_F(CapiShapesTest, MemsetWritesItsRowsAndNothingElse) {
  const CUstream stream = bed_->NonBlockingStream();
  for (int round = 0; round < 60; ++round) {
    Box box;
    box.width = Pick(0, 3) == 0 ? Pick(3000, 9000) : Pick(1, 700);
    box.height = Pick(1, 30);
    box.depth = Pick(1, 4);
    const Place place = RandomPlace(box);
    std::byte* const block = Block(place.bytes);
    std::vector<std::byte> expected = RandomBytes(place.bytes);
    std::memcpy(block, expected.data(), place.bytes);
    const int value = static_cast<int>(Pick(0, 100'000));  // its low byte
    const bool wait = Pick(0, 1) == 0;
    cudaError_t error = cudaSuccess;
    std::byte* const first = block + place.offset;
    switch (Pick(0, 2)) {
      case 0:
        box.height = box.depth = 1;
        error = wait ? pinringMemset(first, value, box.width)
                     : pinringMemsetAsync(first, value, box.width, stream);
        break;
      case 1:
        box.depth = 1;
        error = wait ? pinringMemset2D(first, place.pitch, value, box.width,
                                       box.height)
                     : pinringMemset2DAsync(first, place.pitch, value,
                                            box.width, box.height, stream);
        break;
      default: {
        const cudaExtent extent = {box.width, box.height, box.depth};
        error = wait ? pinringMemset3D(Pitched(block, place), value, extent)
                     : pinringMemset3DAsync(Pitched(block, place), value,
                                            extent, stream);
      }
    }
    ASSERT_EQ(error, cudaSuccess) << pinringGetLastErrorMessage();
    if (!wait) {
      ASSERT_EQ(bed_->driver().StreamSynchronize(stream), CUDA_SUCCESS);
    }
    for (size_t z = 0; z < box.depth; ++z) {
      for (size_t y = 0; y < box.height; ++y) {
        std::fill_n(
            expected.begin() + static_cast<std::ptrdiff_t>(At(place, 0, y, z)),
            box.width, static_cast<std::byte>(value));
      }
    }
    ASSERT_EQ(std::memcmp(block, expected.data(), place.bytes), 0)
        << "round " << round;
    EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
  }
  pinringUsage usage = PINRING_USAGE_INIT;
  ASSERT_EQ(pinringGetUsage(&usage), cudaSuccess);
  EXPECT_EQ(usage.kinds[pinringUsagePromoted].totalCount, 0u);
}

TEST_F(CapiShapesTest, MemsetIsInStreamOrder) {
  const CUstream stream = bed_->NonBlockingStream();
  constexpr size_t kBytes = 300'000;
  std::byte* const block = Block(kBytes);
  std::byte* const device = Device(kBytes);
  std::memset(block, 1, kBytes);
  Gate gate(*bed_);
  gate.Hold(stream);
  // 1 goes to the device, 2 is written, 2 goes back over a part of it.
  ASSERT_EQ(
      pinringMemcpyAsync(device, block, kBytes, cudaMemcpyDefault, stream),
      cudaSuccess);
  ASSERT_EQ(pinringMemsetAsync(block, 2, kBytes, stream), cudaSuccess);
  ASSERT_EQ(
      pinringMemcpyAsync(device + 1000, block, 1000, cudaMemcpyDefault, stream),
      cudaSuccess);
  ASSERT_EQ(pinringMemsetAsync(block, 3, 500, stream), cudaSuccess);
  EXPECT_TRUE(std::all_of(block, block + kBytes,
                          [](std::byte b) { return b == std::byte{1}; }));
  gate.Open();
  ASSERT_EQ(bed_->driver().StreamSynchronize(stream), CUDA_SUCCESS);
  std::vector<std::byte> there(kBytes, std::byte{1});
  std::fill_n(there.begin() + 1000, 1000, std::byte{2});
  EXPECT_EQ(Get(device, kBytes), there);
  std::vector<std::byte> here(kBytes, std::byte{2});
  std::fill_n(here.begin(), 500, std::byte{3});
  EXPECT_EQ(std::memcmp(block, here.data(), kBytes), 0);
  // The device's memory, a bad range, nothing.
  ASSERT_EQ(pinringMemset(device, 4, kBytes), cudaSuccess)
      << pinringGetLastErrorMessage();
  ASSERT_EQ(bed_->driver().CtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(Get(device, kBytes), std::vector<std::byte>(kBytes, std::byte{4}));
  EXPECT_EQ(pinringMemset(block, 5, kBytes + (1 << 20)), cudaErrorInvalidValue);
  EXPECT_EQ(pinringMemset(block, 5, SIZE_MAX), cudaErrorInvalidValue);
  EXPECT_EQ(pinringMemset(block, 5, 0), cudaSuccess);
  EXPECT_EQ(std::memcmp(block, here.data(), kBytes), 0);
  EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
}

TEST_F(CapiShapesTest, BadShapesAreRefusedBeforeAnythingMoves) {
  const size_t block_bytes = 256 << 10;
  std::byte* const block = Block(block_bytes - (128 << 10));
  std::byte* const device = Device(block_bytes);
  Put(device, std::vector<std::byte>(block_bytes, kGap));
  // A row longer than a pitch.
  EXPECT_EQ(
      pinringMemcpy2D(device, 99, block, 200, 100, 10, cudaMemcpyHostToDevice),
      cudaErrorInvalidPitchValue);
  EXPECT_EQ(
      pinringMemcpy2D(device, 200, block, 99, 100, 10, cudaMemcpyHostToDevice),
      cudaErrorInvalidPitchValue);
  // One row too many for the block, and for the device's memory.
  EXPECT_EQ(pinringMemcpy2D(device, 1024, block, 1024, 1024,
                            block_bytes / 1024 + 1, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(pinringMemcpy2D(device + 1, 1024, block, 1024, 1024,
                            block_bytes / 1024, cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(pinringMemcpy2D(device, SIZE_MAX, block, SIZE_MAX, 1, 3,
                            cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(pinringMemcpy2D(device, 10, block, 10, 10, 10,
                            static_cast<cudaMemcpyKind>(9)),
            cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(pinringMemcpy3D(nullptr), cudaErrorInvalidValue);
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = {block, 100, 100, 10};
  copy.dstPtr = {device, 100, 100, 10};
  copy.kind = cudaMemcpyDefault;
  copy.extent = {101, 2, 2};
  EXPECT_EQ(pinringMemcpy3D(&copy), cudaErrorInvalidPitchValue);
  copy.extent = {101, 1, 1};
  EXPECT_EQ(pinringMemcpy3D(&copy), cudaErrorInvalidValue);
  copy.extent = {100, 11, 2};
  EXPECT_EQ(pinringMemcpy3D(&copy), cudaErrorInvalidPitchValue);
  // Nothing succeeds.
  copy.extent = {100, 0, 2};
  EXPECT_EQ(pinringMemcpy3D(&copy), cudaSuccess);
  EXPECT_EQ(
      pinringMemcpy2D(device, 10, block, 10, 0, 10, cudaMemcpyHostToDevice),
      cudaSuccess);
  EXPECT_EQ(Get(device, block_bytes),
            std::vector<std::byte>(block_bytes, kGap));
  EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
}

TEST_F(CapiShapesTest, OtherMemoryIsTheDriversBusiness) {
  const Box box = {50, 7, 2};
  const Place place = {0, 64, 8, 64 * 16};
  std::vector<std::byte> bytes = RandomBytes(place.bytes);
  std::byte* const device = Device(place.bytes);
  Put(device, std::vector<std::byte>(place.bytes, kGap));
  ASSERT_EQ(Copy(device, place, bytes.data(), place, box, nullptr, true),
            cudaSuccess)
      << pinringGetLastErrorMessage();
  ExpectMoved(Get(device, place.bytes), place, bytes, place, box, "vector");
}

}  // namespace
}  // namespace pinring
