#include "src/engine/shape.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace pinring {
namespace {

Shape Make(uint64_t width, uint64_t height, uint64_t depth, Pitch host,
           Pitch device) {
  return {width, height, depth, host, device};
}

TEST(ShapeTest, WhatHasNoGapsIsFlat) {
  EXPECT_TRUE(Simplified(Make(10, 5, 3, {10, 50}, {10, 50})).flat());
  EXPECT_EQ(Simplified(Make(10, 5, 3, {10, 50}, {10, 50})).width, 150u);
  EXPECT_TRUE(Simplified(Make(10, 1, 1, {99, 99}, {77, 77})).flat());
  // Slices apart at one end.
  const Shape slices = Simplified(Make(10, 5, 3, {10, 64}, {10, 50}));
  EXPECT_EQ(slices.width, 50u);
  EXPECT_EQ(slices.height, 3u);
  EXPECT_EQ(slices.depth, 1u);
  EXPECT_EQ(slices.host.row, 64u);
  EXPECT_EQ(slices.device.row, 50u);
  // Rows apart, slices not.
  const Shape rows = Simplified(Make(10, 5, 3, {16, 80}, {12, 60}));
  EXPECT_EQ(rows.height, 15u);
  EXPECT_EQ(rows.depth, 1u);
  // Both apart: nothing to simplify.
  const Shape all = Simplified(Make(10, 5, 3, {16, 99}, {12, 60}));
  EXPECT_EQ(all.depth, 3u);
  // One row in each slice.
  const Shape columns = Simplified(Make(10, 1, 3, {7, 99}, {7, 60}));
  EXPECT_EQ(columns.height, 3u);
  EXPECT_EQ(columns.host.row, 99u);
}

// Tapered cuts cover each byte once too: chunks grow to whole ones, or shrink
// from them.
TEST(ShapeTest, TaperedCutsAreSmallAtTheirEnd) {
  std::mt19937_64 random(21);
  int tapered = 0;
  for (int round = 0; round < 3000; ++round) {
    const Shape shape = Shape::Flat(1 + random() % 5000);
    const uint64_t most = 1 + random() % 300;
    const uint64_t smallest = random() % 100;
    const bool last = random() % 2 == 0;
    Cut cut = CutIntoChunks(shape, most);
    const uint64_t chunks = cut.chunks;
    TaperCut(shape, smallest, last, &cut);
    tapered += cut.halvings > 0 ? 1 : 0;
    EXPECT_LE(cut.chunks, chunks + 3);
    std::vector<uint64_t> sizes;
    for (uint64_t chunk = 0; chunk < cut.chunks; ++chunk) {
      const uint64_t next =
          chunk + 1 < cut.chunks ? cut.Offset(chunk + 1) : shape.bytes();
      ASSERT_LT(cut.Offset(chunk), next) << "round " << round;
      sizes.push_back(next - cut.Offset(chunk));
      ASSERT_LE(sizes.back(), most) << "round " << round;
    }
    ASSERT_EQ(cut.Offset(0), 0u);
    if (cut.halvings == 0) continue;
    if (last) std::reverse(sizes.begin(), sizes.end());
    for (uint32_t i = 0; i < cut.halvings; ++i) {
      EXPECT_EQ(sizes[i], most >> (cut.halvings - i)) << "round " << round;
      EXPECT_GE(sizes[i], smallest);
    }
    for (size_t i = cut.halvings; i + 1 < sizes.size(); ++i) {
      EXPECT_EQ(sizes[i], most) << "round " << round;
    }
  }
  EXPECT_GT(tapered, 500);
}

// Random shapes: simplifying changes no address, chunks cover each byte once
// and are copies that the driver can make, rows go there and back.
TEST(ShapeTest, RandomShapesAreCutAndMovedWhole) {
  std::mt19937_64 random(20);
  const auto pick = [&](uint64_t least, uint64_t most) {
    return least + random() % (most - least + 1);
  };
  for (int round = 0; round < 3000; ++round) {
    Shape given;
    given.width = pick(1, 40);
    given.height = pick(1, 9);
    given.depth = pick(1, 5);
    for (Pitch* pitch : {&given.host, &given.device}) {
      pitch->row = given.width + (pick(0, 1) == 0 ? 0 : pick(0, 9));
      pitch->slice =
          pitch->row * given.height + (pick(0, 1) == 0 ? 0 : pick(0, 50));
    }
    const Shape shape = Simplified(given);
    ASSERT_EQ(shape.bytes(), given.bytes());
    for (uint64_t i = 0; i < given.bytes(); ++i) {
      const uint64_t z = i / given.slice_bytes();
      const uint64_t y = i / given.width % given.height;
      const uint64_t x = i % given.width;
      ASSERT_EQ(shape.At(i, shape.host),
                z * given.host.slice + y * given.host.row + x);
      ASSERT_EQ(shape.At(i, shape.device),
                z * given.device.slice + y * given.device.row + x);
    }

    const Cut cut = CutIntoChunks(shape, pick(1, 300));
    uint64_t covered = 0;
    for (uint64_t chunk = 0; chunk < cut.chunks; ++chunk) {
      const uint64_t begin = cut.Offset(chunk);
      const uint64_t end =
          chunk + 1 < cut.chunks ? cut.Offset(chunk + 1) : shape.bytes();
      ASSERT_EQ(begin, covered);
      ASSERT_LE(end - begin, cut.chunk_bytes);
      ASSERT_GT(end, begin);
      const ChunkShape part = ShapeOfChunk(shape, begin, end - begin);
      ASSERT_EQ(part.width * part.height * part.depth, end - begin);
      for (uint64_t i = begin; i < end; ++i) {
        const uint64_t row = (i - begin) / part.width;
        const uint64_t expected = shape.At(begin, shape.device) +
                                  row / part.height * shape.device.slice +
                                  row % part.height * shape.device.row +
                                  (i - begin) % part.width;
        ASSERT_EQ(shape.At(i, shape.device), expected);
      }
      covered = end;
    }
    ASSERT_EQ(covered, shape.bytes());

    std::vector<std::byte> host(shape.Extent(shape.host));
    for (std::byte& b : host) b = static_cast<std::byte>(random());
    std::vector<std::byte> back(host.size(), std::byte{0xab});
    std::vector<std::byte> slot(shape.bytes());
    for (uint64_t at = 0; at < shape.bytes();) {
      const uint64_t n = std::min(pick(1, 100), shape.bytes() - at);
      GatherRows(shape, at, n, host.data(), slot.data() + at);
      at += n;
    }
    for (uint64_t i = 0; i < shape.bytes(); ++i) {
      ASSERT_EQ(slot[i], host[shape.At(i, shape.host)]);
    }
    for (uint64_t at = 0; at < shape.bytes();) {
      const uint64_t n = std::min(pick(1, 100), shape.bytes() - at);
      ScatterRows(shape, at, n, slot.data() + at, back.data());
      at += n;
    }
    size_t touched = 0;
    for (uint64_t i = 0; i < shape.bytes(); ++i) {
      const uint64_t at = shape.At(i, shape.host);
      ASSERT_EQ(back[at], host[at]);
      back[at] = std::byte{0xab};
      ++touched;
    }
    ASSERT_EQ(touched, shape.bytes());
    // Nothing between the rows was written.
    ASSERT_TRUE(std::all_of(back.begin(), back.end(),
                            [](std::byte b) { return b == std::byte{0xab}; }));
  }
}

}  // namespace
}  // namespace pinring
