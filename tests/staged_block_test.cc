#include "src/host/staged_block.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "src/os/pages.h"

namespace pinring {
namespace {

StagedPages MustAllocate(size_t bytes) {
  absl::StatusOr<StagedPages> pages = AllocateStagedPages(bytes);
  EXPECT_TRUE(pages.ok()) << pages.status();
  return pages.value_or(StagedPages{});
}

size_t Resident(const StagedPages& pages) {
  absl::StatusOr<size_t> resident =
      os::ResidentBytes(pages.base, pages.mapped_bytes);
  EXPECT_TRUE(resident.ok()) << resident.status();
  return resident.value_or(std::numeric_limits<size_t>::max());
}

TEST(StagedBlockTest, CostsItsSizeRoundedUpToAPage) {
  const size_t page = os::PageBytes();
  for (size_t bytes : {size_t{1}, page - 1, page, page + 1, 10 * page + 7,
                       (size_t{2} << 20) + 1, (size_t{5} << 20) + page}) {
    const StagedPages pages = MustAllocate(bytes);
    EXPECT_EQ(pages.bytes, bytes);
    EXPECT_EQ(pages.mapped_bytes, (bytes + page - 1) / page * page);
    EXPECT_EQ(StagedMappedBytes(bytes).value_or(0), pages.mapped_bytes);
    EXPECT_TRUE(ReleaseStagedPages(pages).ok());
  }
}

TEST(StagedBlockTest, IsAlignedToPagesAndToHugePagesFromTwoMiBUp) {
  std::vector<StagedPages> blocks;
  // Several, since one may be aligned by chance.
  for (int i = 0; i < 8; ++i) {
    blocks.push_back(MustAllocate(kHugeBlockBytes - 1));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back().base) % os::PageBytes(),
              0u);
    blocks.push_back(MustAllocate(kHugeBlockBytes + i * os::PageBytes()));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(blocks.back().base) % kHugeBlockBytes,
              0u);
  }
  for (const StagedPages& pages : blocks) {
    EXPECT_TRUE(ReleaseStagedPages(pages).ok());
  }
}

TEST(StagedBlockTest, UsesNoMemoryUntilTouched) {
  const StagedPages pages = MustAllocate(size_t{64} << 20);
  EXPECT_EQ(Resident(pages), 0u);
  static_cast<char*>(pages.base)[0] = 1;
  EXPECT_GT(Resident(pages), 0u);
  EXPECT_LE(Resident(pages), kHugeBlockBytes);
  EXPECT_TRUE(ReleaseStagedPages(pages).ok());
}

TEST(StagedBlockTest, HugeBlockCostsNothingToAllocate) {
#if defined(_WIN32)
  // Wine looks at every page by itself to say what is resident.
  constexpr size_t kBytes = size_t{256} << 20;
#else
  constexpr size_t kBytes = size_t{8} << 30;
#endif
  const StagedPages pages = MustAllocate(kBytes);
  auto* bytes = static_cast<unsigned char*>(pages.base);
  EXPECT_EQ(bytes[0], 0);
  bytes[pages.bytes - 1] = 7;
  EXPECT_EQ(bytes[pages.bytes - 1], 7);
  EXPECT_LE(Resident(pages), 2 * kHugeBlockBytes);
  EXPECT_TRUE(ReleaseStagedPages(pages).ok());
}

TEST(StagedBlockTest, ReadsZeroWhenFreshAlsoAfterReuse) {
  const size_t bytes = (size_t{3} << 20) + 5;
  for (int round = 0; round < 4; ++round) {
    const StagedPages pages = MustAllocate(bytes);
    const auto* data = static_cast<const unsigned char*>(pages.base);
    size_t nonzero = 0;
    for (size_t i = 0; i < pages.mapped_bytes; ++i) nonzero += data[i] != 0;
    EXPECT_EQ(nonzero, 0u);
    std::memset(pages.base, 0xa5, pages.mapped_bytes);
    EXPECT_TRUE(ReleaseStagedPages(pages).ok());
  }
}

TEST(StagedBlockTest, ImpossibleSizesAreRefused) {
  EXPECT_EQ(AllocateStagedPages(0).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      AllocateStagedPages(std::numeric_limits<size_t>::max()).status().code(),
      absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(AllocateStagedPages(size_t{1} << 62).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace pinring
