// Copies and memsets in two and three dimensions, arrays and batches: which
// bytes move, when, and what is refused. Checked on the simulated device and,
// with PINRING_TEST_DRIVER=native, on a GPU. (What only the simulated device
// has is in simcuda_shapes_model_test.cc.)

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/random_bytes.h"
#include "tests/support/testbed.h"

namespace pinring {
namespace {

#define EXPECT_CU(call) EXPECT_EQ((call), CUDA_SUCCESS)
#define ASSERT_CU(call) ASSERT_EQ((call), CUDA_SUCCESS)

constexpr size_t kBytes = 1 << 20;

enum class Place { kDevice, kPinned, kPageable };

// One end of a copy: where its first byte lies in a buffer, and how.
struct End {
  Place place = Place::kDevice;
  size_t base = 0;  // of the buffer
  size_t x = 0, y = 0, z = 0;
  size_t pitch = 0;
  size_t height = 0;

  size_t Offset(size_t row_x, size_t row, size_t slice) const {
    return base + ((z + slice) * height + y + row) * pitch + x + row_x;
  }
};

struct Extent {
  size_t width = 0, height = 1, depth = 1;
};

class ShapesTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string why = Testbed::WhySkip();
    if (!why.empty()) GTEST_SKIP() << why;
    testbed_ = std::make_unique<Testbed>();
    stream_ = bed().NonBlockingStream();
    for (Buffer* buffer : {&source_, &target_}) {
      buffer->device = bed().DeviceBuffer(kBytes);
      buffer->pinned = bed().PinnedBuffer(kBytes);
      buffer->pageable.resize(kBytes);
    }
  }

  struct Buffer {
    CUdeviceptr device = 0;
    char* pinned = nullptr;
    std::vector<char> pageable;
  };

  Testbed& bed() { return *testbed_; }
  const Driver& cu() { return testbed_->driver(); }

  char* HostAt(Buffer& buffer, Place place) {
    return place == Place::kPinned ? buffer.pinned : buffer.pageable.data();
  }
  // Random bytes in all of a buffer.
  void Fill(Buffer& buffer, Place place, uint64_t seed) {
    if (place != Place::kDevice) {
      FillRandom(HostAt(buffer, place), kBytes, seed);
      return;
    }
    std::vector<char> bytes(kBytes);
    FillRandom(bytes.data(), kBytes, seed);
    EXPECT_CU(cu().MemcpyHtoD(buffer.device, bytes.data(), kBytes));
    EXPECT_CU(cu().CtxSynchronize());
  }
  std::vector<char> Read(Buffer& buffer, Place place) {
    std::vector<char> bytes(kBytes);
    if (place == Place::kDevice) {
      EXPECT_CU(cu().CtxSynchronize());
      EXPECT_CU(cu().MemcpyDtoH(bytes.data(), buffer.device, kBytes));
    } else {
      std::memcpy(bytes.data(), HostAt(buffer, place), kBytes);
    }
    return bytes;
  }

  CUDA_MEMCPY3D Describe(const End& dst, const End& src, const Extent& extent,
                         bool unified) {
    CUDA_MEMCPY3D copy = {};
    // That pageable memory may be called unified is written nowhere.
    const auto type = [&](Place place) {
      return unified && (place != Place::kPageable || !TestsRunNatively())
                 ? CU_MEMORYTYPE_UNIFIED
             : place == Place::kDevice ? CU_MEMORYTYPE_DEVICE
                                       : CU_MEMORYTYPE_HOST;
    };
    copy.dstMemoryType = type(dst.place);
    copy.dstHost = HostAt(target_, dst.place) + dst.base;
    copy.dstDevice = dst.place == Place::kDevice
                         ? target_.device + dst.base
                         : reinterpret_cast<CUdeviceptr>(copy.dstHost);
    copy.dstXInBytes = dst.x;
    copy.dstY = dst.y;
    copy.dstZ = dst.z;
    copy.dstPitch = dst.pitch;
    copy.dstHeight = dst.height;
    copy.srcMemoryType = type(src.place);
    copy.srcHost = HostAt(source_, src.place) + src.base;
    copy.srcDevice = src.place == Place::kDevice
                         ? source_.device + src.base
                         : reinterpret_cast<CUdeviceptr>(copy.srcHost);
    copy.srcXInBytes = src.x;
    copy.srcY = src.y;
    copy.srcZ = src.z;
    copy.srcPitch = src.pitch;
    copy.srcHeight = src.height;
    copy.WidthInBytes = extent.width;
    copy.Height = extent.height;
    copy.Depth = extent.depth;
    return copy;
  }
  static CUDA_MEMCPY2D Flat(const CUDA_MEMCPY3D& copy) {
    CUDA_MEMCPY2D flat = {};
    flat.dstMemoryType = copy.dstMemoryType;
    flat.dstHost = copy.dstHost;
    flat.dstDevice = copy.dstDevice;
    flat.dstArray = copy.dstArray;
    flat.dstXInBytes = copy.dstXInBytes;
    flat.dstY = copy.dstY;
    flat.dstPitch = copy.dstPitch;
    flat.srcMemoryType = copy.srcMemoryType;
    flat.srcHost = copy.srcHost;
    flat.srcDevice = copy.srcDevice;
    flat.srcArray = copy.srcArray;
    flat.srcXInBytes = copy.srcXInBytes;
    flat.srcY = copy.srcY;
    flat.srcPitch = copy.srcPitch;
    flat.WidthInBytes = copy.WidthInBytes;
    flat.Height = copy.Height;
    return flat;
  }

  // A copy that lies well within both buffers.
  template <typename Random>
  End RandomEnd(Random& random, const Extent& extent) {
    const auto upto = [&](size_t most) {
      return std::uniform_int_distribution<size_t>(0, most)(random);
    };
    End end;
    end.place = static_cast<Place>(upto(2));
    end.base = upto(100);
    end.x = upto(1) * upto(40);
    end.y = upto(1) * upto(4);
    end.pitch = end.x + extent.width + upto(1) * upto(50);
    end.height = end.y + extent.height + upto(1) * upto(3);
    end.z = upto(1) * upto(2);
    return end;
  }
  template <typename Random>
  Extent RandomExtent(Random& random) {
    const auto between = [&](size_t least, size_t most) {
      return std::uniform_int_distribution<size_t>(least, most)(random);
    };
    switch (between(0, 3)) {
      case 0:  // many short rows
        return {between(1, 4), between(1, 100), between(1, 5)};
      case 1:  // few long ones
        return {between(1000, 40000), between(1, 3), between(1, 2)};
      default:
        return {between(1, 300), between(1, 30), between(1, 6)};
    }
  }

  // What the target holds when the copy is done, and nothing else of it moved.
  static void Apply(const Extent& extent, const End& dst, const End& src,
                    const std::vector<char>& from, std::vector<char>* to) {
    for (size_t slice = 0; slice < extent.depth; ++slice) {
      for (size_t row = 0; row < extent.height; ++row) {
        std::copy_n(from.begin() +
                        static_cast<std::ptrdiff_t>(src.Offset(0, row, slice)),
                    extent.width,
                    to->begin() +
                        static_cast<std::ptrdiff_t>(dst.Offset(0, row, slice)));
      }
    }
  }

  std::unique_ptr<Testbed> testbed_;
  CUstream stream_ = nullptr;
  Buffer source_;
  Buffer target_;
};

TEST_F(ShapesTest, RandomCopiesMoveTheirBytesAndNoOthers) {
  std::mt19937_64 random(1);
  for (uint64_t round = 0; round < 300; ++round) {
    Extent extent = RandomExtent(random);
    const bool flat = round % 2 == 0;
    const bool async = round % 4 < 2;
    const bool unified = round % 8 < 4;
    if (flat) extent.depth = 1;
    End dst = RandomEnd(random, extent);
    End src = RandomEnd(random, extent);
    if (flat) dst.z = src.z = 0;
    ASSERT_LE(dst.Offset(extent.width, extent.height, extent.depth), kBytes);
    ASSERT_LE(src.Offset(extent.width, extent.height, extent.depth), kBytes);
    Fill(source_, src.place, 2 * round);
    Fill(target_, dst.place, 2 * round + 1);
    const CUDA_MEMCPY3D copy = Describe(dst, src, extent, unified);
    const CUDA_MEMCPY2D flat_copy = Flat(copy);
    // Documented: within a device cuMemcpy2DAsync may refuse pitches.
    const bool in_device =
        dst.place == Place::kDevice && src.place == Place::kDevice;
    if (async) {
      ASSERT_CU(flat && !in_device ? cu().Memcpy2DAsync(&flat_copy, stream_)
                                   : cu().Memcpy3DAsync(&copy, stream_));
      ASSERT_CU(cu().StreamSynchronize(stream_));
    } else {
      ASSERT_CU(flat ? cu().Memcpy2DUnaligned(&flat_copy)
                     : cu().Memcpy3D(&copy));
    }
    std::vector<char> expected(kBytes);
    FillRandom(expected.data(), kBytes, 2 * round + 1);
    std::vector<char> from(kBytes);
    FillRandom(from.data(), kBytes, 2 * round);
    Apply(extent, dst, src, from, &expected);
    ASSERT_TRUE(Read(target_, dst.place) == expected) << "round " << round;
    ASSERT_TRUE(Read(source_, src.place) == from) << "round " << round;
  }
}

TEST_F(ShapesTest, OneSliceNeedsNoHeight) {
  const End dst{Place::kDevice, 0, 3, 2, 0, 130, 0};
  const End src{Place::kPinned, 0, 1, 1, 0, 110, 0};
  const Extent extent{100, 7, 1};
  Fill(source_, Place::kPinned, 1);
  Fill(target_, Place::kDevice, 2);
  const CUDA_MEMCPY3D copy = Describe(dst, src, extent, false);
  ASSERT_CU(cu().Memcpy3D(&copy));
  std::vector<char> expected(kBytes);
  FillRandom(expected.data(), kBytes, 2);
  Apply(extent, dst, src, Read(source_, Place::kPinned), &expected);
  EXPECT_TRUE(Read(target_, Place::kDevice) == expected);
}

TEST_F(ShapesTest, NothingToCopyIsSuccess) {
  const End end{Place::kPinned, 0, 0, 0, 0, 200, 10};
  const End device{Place::kDevice, 0, 0, 0, 0, 200, 10};
  Fill(target_, Place::kDevice, 3);
  for (const Extent extent :
       {Extent{0, 5, 2}, Extent{100, 0, 2}, Extent{100, 5, 0}}) {
    if (TestsRunNatively() && extent.depth == 0) continue;  // not measured
    const CUDA_MEMCPY3D copy = Describe(device, end, extent, false);
    EXPECT_CU(cu().Memcpy3D(&copy));
    EXPECT_CU(cu().Memcpy3DAsync(&copy, stream_));
    if (extent.depth == 0) continue;
    const CUDA_MEMCPY2D flat = Flat(copy);
    EXPECT_CU(cu().Memcpy2DUnaligned(&flat));
    EXPECT_CU(cu().Memcpy2DAsync(&flat, stream_));
  }
  if (!TestsRunNatively()) {  // not measured
    EXPECT_CU(cu().MemsetD2D8(target_.device, 100, 1, 0, 5));
    EXPECT_CU(cu().MemsetD2D8(target_.device, 100, 1, 5, 0));
  }
  const std::vector<char> now = Read(target_, Place::kDevice);
  EXPECT_EQ(WrongBytes(now.data(), kBytes, 3), 0u);
}

// All of a copy is checked before any of it moves.
TEST_F(ShapesTest, WhatIsWrongIsRefusedAndMovesNothing) {
  const Extent extent{100, 6, 3};
  const End dst{Place::kDevice, 0, 0, 0, 0, 128, 8};
  const End src{Place::kPinned, 0, 0, 0, 0, 128, 8};
  const CUDA_MEMCPY3D good = Describe(dst, src, extent, false);
  Fill(source_, Place::kPinned, 4);
  Fill(target_, Place::kDevice, 5);
  const std::pair<const char*, std::function<void(CUDA_MEMCPY3D&)>> wrongs[] = {
      {"source pitch", [](CUDA_MEMCPY3D& copy) { copy.srcPitch = 99; }},
      {"destination pitch", [](CUDA_MEMCPY3D& copy) { copy.dstPitch = 99; }},
      {"source x", [](CUDA_MEMCPY3D& copy) { copy.srcXInBytes = 29; }},
      {"destination x", [](CUDA_MEMCPY3D& copy) { copy.dstXInBytes = 29; }},
      {"source height", [](CUDA_MEMCPY3D& copy) { copy.srcHeight = 5; }},
      {"destination y", [](CUDA_MEMCPY3D& copy) { copy.dstY = 3; }},
      {"great pitch",
       [](CUDA_MEMCPY3D& copy) { copy.srcPitch = size_t{1} << 31; }},
      {"memory type",
       [](CUDA_MEMCPY3D& copy) {
         copy.srcMemoryType = static_cast<CUmemorytype>(7);
       }},
      {"no source", [](CUDA_MEMCPY3D& copy) { copy.srcHost = nullptr; }},
      {"no destination", [](CUDA_MEMCPY3D& copy) { copy.dstDevice = 0; }},
  };
  for (const auto& [what, spoil] : wrongs) {
    CUDA_MEMCPY3D copy = good;
    spoil(copy);
    EXPECT_EQ(cu().Memcpy3D(&copy), CUDA_ERROR_INVALID_VALUE) << what;
    EXPECT_EQ(cu().Memcpy3DAsync(&copy, stream_), CUDA_ERROR_INVALID_VALUE)
        << what;
  }
  if (!TestsRunNatively()) {  // documented as forbidden, not as refused
    CUDA_MEMCPY3D copy = good;
    copy.srcLOD = 1;
    EXPECT_EQ(cu().Memcpy3D(&copy), CUDA_ERROR_INVALID_VALUE);
    copy = good;
    copy.srcHeight = 0;
    EXPECT_EQ(cu().Memcpy3D(&copy), CUDA_ERROR_INVALID_VALUE);
  }
  for (const bool source : {true, false}) {
    CUDA_MEMCPY2D copy = Flat(good);
    (source ? copy.srcPitch : copy.dstPitch) = 99;
    EXPECT_EQ(cu().Memcpy2DUnaligned(&copy), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cu().Memcpy2DAsync(&copy, stream_), CUDA_ERROR_INVALID_VALUE);
  }
  CUDA_MEMCPY2D far_apart = Flat(good);
  far_apart.srcPitch = size_t{1} << 31;
  EXPECT_EQ(cu().Memcpy2DUnaligned(&far_apart), CUDA_ERROR_INVALID_VALUE);
  ASSERT_CU(cu().CtxSynchronize());
  const std::vector<char> now = Read(target_, Place::kDevice);
  EXPECT_EQ(WrongBytes(now.data(), kBytes, 5), 0u);
  // The copy was right otherwise, and one row may be as far from the next as it
  // likes.
  EXPECT_CU(cu().Memcpy3D(&good));
  CUDA_MEMCPY2D one_row = far_apart;
  one_row.Height = 1;
  EXPECT_CU(cu().Memcpy2DUnaligned(&one_row));
}

// A GPU has been seen to check one-dimensional copies so; asserted where it is
// known.
TEST_F(ShapesTest, ALastRowBeyondTheMemoryMovesNothing) {
  if (TestsRunNatively()) GTEST_SKIP() << "measured for 1D copies only";
  const Extent extent{100, 6, 3};
  Fill(source_, Place::kPinned, 4);
  Fill(target_, Place::kDevice, 5);
  // 17 rows of 128 bytes and 100 of the last, which is the slice's sixth.
  const size_t span = (2 * 8 + 5) * 128 + 100;
  for (const bool too_far : {true, false}) {
    End dst{Place::kDevice, kBytes - span + (too_far ? 1 : 0), 0, 0, 0, 128, 8};
    const End src{Place::kPinned, 0, 0, 0, 0, 128, 8};
    const CUDA_MEMCPY3D copy = Describe(dst, src, extent, false);
    EXPECT_EQ(cu().Memcpy3D(&copy),
              too_far ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
    const std::vector<char> now = Read(target_, Place::kDevice);
    EXPECT_EQ(WrongBytes(now.data(), kBytes, 5) == 0, too_far);
  }
  // Beyond all addresses.
  CUDA_MEMCPY3D copy =
      Describe({Place::kDevice, 0, 0, 0, 0, 128, 8},
               {Place::kPinned, 0, 0, 0, 0, 128, 8}, extent, false);
  copy.srcZ = ~size_t{0} / 1000;
  EXPECT_EQ(cu().Memcpy3D(&copy), CUDA_ERROR_INVALID_VALUE);
  copy.srcZ = 0;
  copy.Height = ~size_t{0} / 64;
  copy.srcHeight = copy.dstHeight = copy.Height;
  EXPECT_EQ(cu().Memcpy3D(&copy), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(ShapesTest, PinnedMemoryIsReadAndWrittenWhenTheStreamGetsThere) {
  const Extent extent{300, 20, 4};
  const End host{Place::kPinned, 10, 3, 1, 1, 400, 25};
  const End device{Place::kDevice, 0, 0, 0, 0, 304, 20};
  CUDA_MEMCPY3D in = Describe(device, host, extent, false);
  CUDA_MEMCPY3D out = Describe(host, device, extent, false);
  out.srcDevice = target_.device;
  Fill(source_, Place::kPinned, 6);
  Fill(target_, Place::kPinned, 7);
  Gate gate(bed());
  gate.Hold(stream_);
  ASSERT_CU(cu().Memcpy3DAsync(&in, stream_));
  ASSERT_CU(cu().Memcpy3DAsync(&out, stream_));
  EXPECT_FALSE(bed().Idle(stream_));
  EXPECT_EQ(WrongBytes(target_.pinned, kBytes, 7), 0u);
  Fill(source_, Place::kPinned, 8);
  gate.Open();
  ASSERT_CU(cu().StreamSynchronize(stream_));
  std::vector<char> expected(kBytes);
  FillRandom(expected.data(), kBytes, 7);
  Apply(extent, host, host, Read(source_, Place::kPinned), &expected);
  EXPECT_TRUE(Read(target_, Place::kPinned) == expected);
}

TEST_F(ShapesTest, ASourceInPageableMemoryIsFreeOnReturn) {
  const Extent extent{300, 20, 1};
  const End host{Place::kPageable, 10, 3, 1, 0, 400, 25};
  const End device{Place::kDevice, 0, 0, 0, 0, 304, 20};
  const CUDA_MEMCPY2D in = Flat(Describe(device, host, extent, false));
  Fill(source_, Place::kPageable, 9);
  Fill(target_, Place::kDevice, 10);
  for (const bool async : {true, false}) {
    ASSERT_CU(async ? cu().Memcpy2DAsync(&in, stream_)
                    : cu().Memcpy2DUnaligned(&in));
    std::vector<char> from = source_.pageable;
    std::fill(source_.pageable.begin(), source_.pageable.end(), '\0');
    ASSERT_CU(cu().CtxSynchronize());
    std::vector<char> expected(kBytes);
    FillRandom(expected.data(), kBytes, 10);
    Apply(extent, device, host, from, &expected);
    EXPECT_TRUE(Read(target_, Place::kDevice) == expected);
    Fill(source_, Place::kPageable, 9);
  }
}

TEST_F(ShapesTest, ADestinationInPageableMemoryIsWrittenOnReturn) {
  const Extent extent{300, 20, 1};
  const End host{Place::kPageable, 10, 3, 1, 0, 400, 25};
  const End device{Place::kDevice, 0, 0, 0, 0, 304, 20};
  CUDA_MEMCPY2D out = Flat(Describe(host, device, extent, false));
  Fill(source_, Place::kDevice, 11);
  for (const bool async : {true, false}) {
    Fill(target_, Place::kPageable, 12);
    ASSERT_CU(async ? cu().Memcpy2DAsync(&out, stream_)
                    : cu().Memcpy2DUnaligned(&out));
    const std::vector<char> now = target_.pageable;
    std::vector<char> expected(kBytes);
    FillRandom(expected.data(), kBytes, 12);
    Apply(extent, host, device, Read(source_, Place::kDevice), &expected);
    EXPECT_TRUE(now == expected);
  }
}

TEST_F(ShapesTest, MemsetsLeaveWhatIsBetweenTheRows) {
  for (const Place place : {Place::kDevice, Place::kPinned}) {
    const CUdeviceptr base =
        place == Place::kDevice ? target_.device
                                : reinterpret_cast<CUdeviceptr>(target_.pinned);
    for (const bool async : {true, false}) {
      Fill(target_, place, 13);
      ASSERT_CU(
          async ? cu().MemsetD2D8Async(base + 5, 133, 0xa7, 101, 50, stream_)
                : cu().MemsetD2D8(base + 5, 133, 0xa7, 101, 50));
      ASSERT_CU(cu().CtxSynchronize());
      std::vector<char> expected(kBytes);
      FillRandom(expected.data(), kBytes, 13);
      for (size_t row = 0; row < 50; ++row) {
        std::memset(expected.data() + 5 + row * 133, 0xa7, 101);
      }
      EXPECT_TRUE(Read(target_, place) == expected);
    }
  }
  // Of one row the pitch means nothing.
  ASSERT_CU(cu().MemsetD2D8(target_.device, 0, 1, 100, 1));
  ASSERT_CU(cu().CtxSynchronize());
  const std::vector<char> now = Read(target_, Place::kDevice);
  EXPECT_EQ(BytesThatAreNot(now.data(), 100, 1), 0u);
}

TEST_F(ShapesTest, ArraysTakeAndGiveParts) {
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
  descriptor.Width = 50;
  descriptor.Height = 20;
  descriptor.Depth = 4;
  descriptor.Format = CU_AD_FORMAT_UNSIGNED_INT16;
  descriptor.NumChannels = 2;  // rows of 200 bytes
  CUarray array = nullptr;
  ASSERT_CU(cu().Array3DCreate(&array, &descriptor));
  CUDA_ARRAY3D_DESCRIPTOR told = {};
  ASSERT_CU(cu().Array3DGetDescriptor(&told, array));
  EXPECT_EQ(told.Width, 50u);
  EXPECT_EQ(told.Height, 20u);
  EXPECT_EQ(told.Depth, 4u);
  EXPECT_EQ(told.Format, CU_AD_FORMAT_UNSIGNED_INT16);
  EXPECT_EQ(told.NumChannels, 2u);

  const End host{Place::kPinned, 30, 1, 0, 0, 222, 23};
  const Extent whole{200, 20, 4};
  CUDA_MEMCPY3D in = Describe(host, host, whole, false);
  in.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  in.dstArray = array;
  in.dstXInBytes = in.dstY = in.dstZ = 0;
  CUDA_MEMCPY3D out = Describe(host, host, whole, false);
  out.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  out.srcArray = array;
  out.srcXInBytes = out.srcY = out.srcZ = 0;
  Fill(source_, Place::kPinned, 14);
  Fill(target_, Place::kPinned, 15);
  ASSERT_CU(cu().Memcpy3DAsync(&in, stream_));
  ASSERT_CU(cu().Memcpy3DAsync(&out, stream_));
  ASSERT_CU(cu().StreamSynchronize(stream_));
  std::vector<char> expected(kBytes);
  FillRandom(expected.data(), kBytes, 15);
  const std::vector<char> from = Read(source_, Place::kPinned);
  Apply(whole, host, host, from, &expected);
  ASSERT_TRUE(Read(target_, Place::kPinned) == expected);

  // A part, from the middle of the array.
  const Extent part{60, 7, 2};
  out.srcXInBytes = 40;
  out.srcY = 11;
  out.srcZ = 1;
  out.WidthInBytes = part.width;
  out.Height = part.height;
  out.Depth = part.depth;
  ASSERT_CU(cu().Memcpy3D(&out));
  End in_array = host;  // where those bytes came from
  in_array.x += 40;
  in_array.y += 11;
  in_array.z += 1;
  Apply(part, host, in_array, from, &expected);
  EXPECT_TRUE(Read(target_, Place::kPinned) == expected);

  // Beyond its edges, or between its elements.
  const std::pair<const char*, std::function<void(CUDA_MEMCPY3D&)>> wrongs[] = {
      {"x", [](CUDA_MEMCPY3D& copy) { copy.srcXInBytes = 144; }},
      {"y", [](CUDA_MEMCPY3D& copy) { copy.srcY = 14; }},
      {"z", [](CUDA_MEMCPY3D& copy) { copy.srcZ = 3; }},
      {"odd x", [](CUDA_MEMCPY3D& copy) { copy.srcXInBytes = 41; }},
  };
  for (const auto& [what, spoil] : wrongs) {
    // A GPU has been seen to take what begins between two elements.
    if (TestsRunNatively() && std::strcmp(what, "odd x") == 0) continue;
    CUDA_MEMCPY3D copy = out;
    spoil(copy);
    EXPECT_EQ(cu().Memcpy3D(&copy), CUDA_ERROR_INVALID_VALUE) << what;
  }
  EXPECT_TRUE(Read(target_, Place::kPinned) == expected);
  EXPECT_CU(cu().ArrayDestroy(array));
}

TEST_F(ShapesTest, OneDimensionalArraysAreCopiedByOffset) {
  CUDA_ARRAY_DESCRIPTOR descriptor = {};
  descriptor.Width = 500;
  descriptor.Format = CU_AD_FORMAT_FLOAT;
  descriptor.NumChannels = 1;
  CUarray array = nullptr;
  ASSERT_CU(cu().ArrayCreate(&array, &descriptor));
  Fill(source_, Place::kPinned, 16);
  Fill(target_, Place::kPinned, 17);
  ASSERT_CU(cu().MemcpyHtoA(array, 0, source_.pinned, 2000));
  ASSERT_CU(
      cu().MemcpyHtoAAsync(array, 400, source_.pinned + 4000, 800, stream_));
  ASSERT_CU(cu().MemcpyAtoHAsync(target_.pinned, array, 0, 2000, stream_));
  ASSERT_CU(cu().StreamSynchronize(stream_));
  std::vector<char> expected(kBytes);
  FillRandom(expected.data(), kBytes, 17);
  std::memcpy(expected.data(), source_.pinned, 2000);
  std::memcpy(expected.data() + 400, source_.pinned + 4000, 800);
  EXPECT_TRUE(Read(target_, Place::kPinned) == expected);
  ASSERT_CU(cu().MemcpyAtoH(target_.pinned + 5000, array, 400, 800));
  std::memcpy(expected.data() + 5000, source_.pinned + 4000, 800);
  EXPECT_TRUE(Read(target_, Place::kPinned) == expected);
  EXPECT_EQ(cu().MemcpyHtoA(array, 4, source_.pinned, 2000),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(cu().ArrayDestroy(array));
}

TEST_F(ShapesTest, CopiesToTheSameDeviceAsAPeerMove) {
  Fill(source_, Place::kDevice, 18);
  Fill(target_, Place::kDevice, 19);
  ASSERT_CU(cu().MemcpyPeer(target_.device, bed().context(), source_.device,
                            bed().context(), 10000));
  ASSERT_CU(cu().MemcpyPeerAsync(target_.device + 20000, bed().context(),
                                 source_.device + 20000, bed().context(), 777,
                                 stream_));
  ASSERT_CU(cu().CtxSynchronize());
  std::vector<char> expected(kBytes);
  FillRandom(expected.data(), kBytes, 19);
  const std::vector<char> from = Read(source_, Place::kDevice);
  std::copy_n(from.begin(), 10000, expected.begin());
  std::copy_n(from.begin() + 20000, 777, expected.begin() + 20000);
  EXPECT_TRUE(Read(target_, Place::kDevice) == expected);
}

TEST_F(ShapesTest, ReplaysOfAGraphMoveTheBytesOfTheMoment) {
  const Extent extent{300, 20, 4};
  const End host{Place::kPinned, 10, 3, 1, 1, 400, 25};
  const End device{Place::kDevice, 0, 0, 0, 0, 304, 20};
  const CUDA_MEMCPY3D in = Describe(device, host, extent, false);
  CUDA_MEMCPY3D out = Describe(host, device, extent, false);
  out.srcDevice = target_.device;
  ASSERT_CU(cu().StreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_CU(cu().Memcpy3DAsync(&in, stream_));
  ASSERT_CU(
      cu().MemsetD2D8Async(target_.device, 304 * 20, 0x11, 200, 4, stream_));
  ASSERT_CU(cu().Memcpy3DAsync(&out, stream_));
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_CU(cu().StreamEndCapture(stream_, &graph));
  ASSERT_CU(cu().GraphInstantiateWithFlags(&exec, graph, 0));
  for (uint64_t seed = 20; seed < 24; ++seed) {
    Fill(source_, Place::kPinned, seed);
    Fill(target_, Place::kPinned, 30);
    ASSERT_CU(cu().GraphLaunch(exec, stream_));
    ASSERT_CU(cu().StreamSynchronize(stream_));
    std::vector<char> expected(kBytes);
    FillRandom(expected.data(), kBytes, 30);
    Apply(extent, host, host, Read(source_, Place::kPinned), &expected);
    for (size_t slice = 0; slice < 4; ++slice) {
      std::memset(expected.data() + host.Offset(0, 0, slice), 0x11, 200);
    }
    EXPECT_TRUE(Read(target_, Place::kPinned) == expected);
  }
  EXPECT_CU(cu().GraphExecDestroy(exec));
  EXPECT_CU(cu().GraphDestroy(graph));
}

// It is a copy of the legacy stream's: legal beside the capture of a
// non-blocking stream, whatever the mode.
TEST_F(ShapesTest, ASynchronousCopyInvalidatesTheCaptureOfABlockingStreamOnly) {
  const End host{Place::kPinned, 0, 0, 0, 0, 100, 1};
  const End device{Place::kDevice, 0, 0, 0, 0, 100, 1};
  const CUDA_MEMCPY2D copy = Flat(Describe(device, host, {100, 5, 1}, false));
  CUgraph graph = nullptr;
  ASSERT_CU(cu().StreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CU(cu().Memcpy2DUnaligned(&copy));
  EXPECT_CU(cu().MemcpyHtoD(target_.device, source_.pinned, 100));
  EXPECT_CU(cu().MemsetD8(target_.device, 1, 100));
  EXPECT_CU(cu().StreamEndCapture(stream_, &graph));
  EXPECT_CU(cu().GraphDestroy(graph));
  CUstream blocking = nullptr;
  ASSERT_CU(cu().StreamCreateWithPriority(&blocking, CU_STREAM_DEFAULT, 0));
  ASSERT_CU(cu().StreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_EQ(cu().Memcpy2DUnaligned(&copy), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(cu().StreamEndCapture(blocking, &graph),
            CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_CU(cu().StreamDestroy(blocking));
}

#if CUDA_VERSION >= 12080
class BatchTest : public ShapesTest {
 protected:
  void SetUp() override {
    ShapesTest::SetUp();
    if (IsSkipped()) return;
    if (cu().MemcpyBatchAsync12 == nullptr)
      GTEST_SKIP() << "the driver is older than CUDA 12.8";
    for (size_t i = 0; i < kCount; ++i) {
      const size_t at = i * 5000;
      const auto pinned = reinterpret_cast<CUdeviceptr>(source_.pinned + at);
      dsts_[i] = i % 2 == 0
                     ? target_.device + at
                     : reinterpret_cast<CUdeviceptr>(target_.pinned) + at;
      srcs_[i] = i % 2 == 0 ? pinned : source_.device + at;
      sizes_[i] = 1 + i * 200;
    }
    attributes_.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    Fill(source_, Place::kPinned, 40);
    Fill(source_, Place::kDevice, 41);
    Fill(target_, Place::kPinned, 42);
    Fill(target_, Place::kDevice, 43);
  }

  void ExpectMoved(bool moved) {
    for (const Place place : {Place::kDevice, Place::kPinned}) {
      std::vector<char> expected(kBytes);
      FillRandom(expected.data(), kBytes, place == Place::kDevice ? 43 : 42);
      std::vector<char> from(kBytes);
      FillRandom(from.data(), kBytes, place == Place::kDevice ? 40 : 41);
      for (size_t i = place == Place::kDevice ? 0 : 1; moved && i < kCount;
           i += 2) {
        std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(i * 5000),
                    sizes_[i],
                    expected.begin() + static_cast<std::ptrdiff_t>(i * 5000));
      }
      EXPECT_TRUE(Read(target_, place) == expected);
    }
  }

  static constexpr size_t kCount = 30;
  CUdeviceptr dsts_[kCount] = {};
  CUdeviceptr srcs_[kCount] = {};
  size_t sizes_[kCount] = {};
  CUmemcpyAttributes attributes_ = {};
  size_t first_ = 0;
  size_t failed_ = 0;
};

TEST_F(BatchTest, BothFormsMoveTheirBytesInStreamOrder) {
  for (const bool newer : {false, true}) {
    if (newer && cu().MemcpyBatchAsync13 == nullptr) continue;
    Fill(target_, Place::kPinned, 42);
    Fill(target_, Place::kDevice, 43);
    Fill(source_, Place::kPinned, 44);
    Gate gate(bed());
    gate.Hold(stream_);
    ASSERT_CU(newer ? cu().MemcpyBatchAsync13(dsts_, srcs_, sizes_, kCount,
                                              &attributes_, &first_, 1, stream_)
                    : cu().MemcpyBatchAsync12(dsts_, srcs_, sizes_, kCount,
                                              &attributes_, &first_, 1,
                                              &failed_, stream_));
    EXPECT_FALSE(bed().Idle(stream_));
    Fill(source_, Place::kPinned, 40);
    gate.Open();
    ASSERT_CU(cu().StreamSynchronize(stream_));
    ExpectMoved(true);
  }
}

TEST_F(BatchTest, ASourceReadDuringTheCallIsFreeOnReturn) {
  std::vector<char> pageable(kBytes);
  for (char* source : {pageable.data(), source_.pinned}) {
    FillRandom(source, kBytes, 40);
    Fill(target_, Place::kPinned, 42);
    Fill(target_, Place::kDevice, 43);
    for (size_t i = 0; i < kCount; i += 2)
      srcs_[i] = reinterpret_cast<CUdeviceptr>(source + i * 5000);
    CUmemcpyAttributes attributes[2] = {attributes_, attributes_};
    attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    attributes[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    size_t indices[2] = {0, 7};
    ASSERT_CU(cu().MemcpyBatchAsync12(dsts_, srcs_, sizes_, kCount, attributes,
                                      indices, 2, &failed_, stream_));
    std::memset(source, 0, kBytes);
    ASSERT_CU(cu().StreamSynchronize(stream_));
    ExpectMoved(true);
  }
}

// Each copy has the attributes that its place in the batch says.
TEST_F(BatchTest, AttributesHoldFromTheirIndexOn) {
  if (TestsRunNatively()) GTEST_SKIP() << "a driver may read sooner or block";
  CUmemcpyAttributes attributes[2] = {attributes_, attributes_};
  attributes[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
  size_t indices[2] = {0, 8};
  for (size_t i = 1; i < kCount; i += 2) {  // to the device too
    dsts_[i] = target_.device + i * 5000;
    srcs_[i] = reinterpret_cast<CUdeviceptr>(source_.pinned + i * 5000);
  }
  Gate gate(bed());
  gate.Hold(stream_);
  ASSERT_CU(cu().MemcpyBatchAsync12(dsts_, srcs_, sizes_, kCount, attributes,
                                    indices, 2, &failed_, stream_));
  std::vector<char> expected(kBytes);
  FillRandom(expected.data(), kBytes, 43);
  std::vector<char> sooner(kBytes);
  FillRandom(sooner.data(), kBytes, 40);
  Fill(source_, Place::kPinned, 45);
  for (size_t i = 0; i < kCount; ++i) {
    const char* from = (i < 8 ? source_.pinned : sooner.data()) + i * 5000;
    std::memcpy(expected.data() + i * 5000, from, sizes_[i]);
  }
  gate.Open();
  ASSERT_CU(cu().StreamSynchronize(stream_));
  EXPECT_TRUE(Read(target_, Place::kDevice) == expected);
}

TEST_F(BatchTest, WhatIsWrongIsRefusedAndMovesNothing) {
  const auto call = [&](CUmemcpyAttributes* attributes, size_t* indices,
                        size_t attribute_count, CUstream stream) {
    return cu().MemcpyBatchAsync12(dsts_, srcs_, sizes_, kCount, attributes,
                                   indices, attribute_count, &failed_, stream);
  };
  EXPECT_NE(call(&attributes_, &first_, 1, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(call(&attributes_, &first_, 0, stream_), CUDA_ERROR_INVALID_VALUE);
  size_t second = 1;
  EXPECT_EQ(call(&attributes_, &second, 1, stream_), CUDA_ERROR_INVALID_VALUE);
  CUmemcpyAttributes two[2] = {attributes_, attributes_};
  size_t backwards[2] = {0, 0};
  EXPECT_EQ(call(two, backwards, 2, stream_), CUDA_ERROR_INVALID_VALUE);
  CUmemcpyAttributes none = {};
  EXPECT_EQ(call(&none, &first_, 1, stream_), CUDA_ERROR_INVALID_VALUE);
  srcs_[17] = 0;
  EXPECT_EQ(call(&attributes_, &first_, 1, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(failed_, 17u);
  ASSERT_CU(cu().StreamSynchronize(stream_));
  // A GPU has been seen to move those before the wrong one.
  if (!TestsRunNatively()) ExpectMoved(false);
}
#endif

// Copies of several threads at once, each between memory of its own.
TEST_F(ShapesTest, ThreadsCopyBesideEachOther) {
  constexpr size_t kThreads = 4;
  constexpr size_t kShare = kBytes / kThreads;
  std::vector<std::unique_ptr<CallOnThread>> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    const CUstream stream = bed().NonBlockingStream();
    threads.push_back(std::make_unique<CallOnThread>(bed(), [this, i, stream] {
      char* source = source_.pinned + i * kShare;
      char* target = target_.pinned + i * kShare;
      const CUdeviceptr device = target_.device + i * kShare;
      for (uint64_t round = 0; round < 50; ++round) {
        const uint64_t seed = round * kThreads + i;
        FillRandom(source, kShare, seed);
        std::memset(target, 0x5a, kShare);
        const size_t width = 1 + seed % 500;
        const size_t height = 1 + seed * 7 % 100;
        CUDA_MEMCPY2D in = {};
        in.srcMemoryType = CU_MEMORYTYPE_HOST;
        in.srcHost = source;
        in.srcPitch = 512;
        in.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        in.dstDevice = device;
        in.dstPitch = width;
        in.WidthInBytes = width;
        in.Height = height;
        CUDA_MEMCPY2D out = {};
        out.srcMemoryType = CU_MEMORYTYPE_DEVICE;
        out.srcDevice = device;
        out.srcPitch = width;
        out.dstMemoryType = CU_MEMORYTYPE_HOST;
        out.dstHost = target;
        out.dstPitch = 512;
        out.WidthInBytes = width;
        out.Height = height;
        EXPECT_CU(cu().Memcpy2DAsync(&in, stream));
        EXPECT_CU(cu().Memcpy2DAsync(&out, stream));
        EXPECT_CU(cu().StreamSynchronize(stream));
        size_t wrong = 0;
        for (size_t at = 0; at < kShare; ++at) {
          const bool moved = at % 512 < width && at / 512 < height;
          wrong += target[at] != (moved ? source[at] : 0x5a);
        }
        EXPECT_EQ(wrong, 0u) << "round " << round;
      }
      return CUDA_SUCCESS;
    }));
  }
  for (auto& thread : threads) EXPECT_CU(thread->result());
}

}  // namespace
}  // namespace pinring
