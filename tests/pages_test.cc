#include "src/os/pages.h"

#if !defined(_WIN32)
#include <sys/wait.h>
#include <unistd.h>
#endif

#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace pinring::os {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// A reserved range that is released at the end of the test.
class Range {
 public:
  Range(size_t bytes, size_t alignment)
      : base_(ReservePages(bytes, alignment)), bytes_(bytes) {}
  ~Range() {
    if (!base_.ok()) return;
    EXPECT_TRUE(ReleasePages(*base_, bytes_).ok());
  }
  bool ok() const { return base_.ok(); }
  char* data() const { return static_cast<char*>(*base_); }
  size_t Resident() const { return *ResidentBytes(*base_, bytes_); }

 private:
  absl::StatusOr<void*> base_;
  size_t bytes_;
};

bool AllZero(const char* data, size_t bytes) {
  // Each byte equals the one before it, and the first is zero.
  return data[0] == 0 && std::memcmp(data, data + 1, bytes - 1) == 0;
}

TEST(PagesTest, RoundUpRoundsAndDetectsOverflow) {
  EXPECT_EQ(RoundUp(0, 4096), 0u);
  EXPECT_EQ(RoundUp(1, 4096), 4096u);
  EXPECT_EQ(RoundUp(4096, 4096), 4096u);
  EXPECT_EQ(RoundUp(4097, 4096), 8192u);
  EXPECT_EQ(RoundUp(SIZE_MAX - 4095, 4096), SIZE_MAX - 4095);
  EXPECT_EQ(RoundUp(SIZE_MAX - 4094, 4096), std::nullopt);
  EXPECT_EQ(RoundUp(SIZE_MAX, 4096), std::nullopt);
  EXPECT_EQ(RoundUp(SIZE_MAX, 1), SIZE_MAX);
  EXPECT_EQ(RoundDown(4097, 4096), 4096u);
  EXPECT_EQ(RoundDown(4095, 4096), 0u);
}

TEST(PagesTest, CheckedAddDetectsOverflow) {
  EXPECT_EQ(CheckedAdd(SIZE_MAX - 1, 1), SIZE_MAX);
  EXPECT_EQ(CheckedAdd(SIZE_MAX, 1), std::nullopt);
  EXPECT_EQ(CheckedAdd(SIZE_MAX, SIZE_MAX), std::nullopt);
}

TEST(PagesTest, PageSizesArePowersOfTwo) {
  EXPECT_EQ(PageBytes() & (PageBytes() - 1), 0u);
  EXPECT_GE(PageBytes(), 4096u);
  EXPECT_EQ(HugePageBytes() & (HugePageBytes() - 1), 0u);
  EXPECT_GT(HugePageBytes(), PageBytes());
}

TEST(PagesTest, ReservedPagesAreAlignedAndZero) {
  for (const size_t alignment : {size_t{1}, size_t{256}, PageBytes(),
                                 2 * PageBytes(), 2 * kMiB, 64 * kMiB}) {
    for (const size_t bytes : {size_t{1}, PageBytes() - 1, PageBytes(),
                               PageBytes() + 1, 2 * kMiB, 3 * kMiB + 5}) {
      SCOPED_TRACE(testing::Message() << bytes << " aligned " << alignment);
      const Range range(bytes, alignment);
      ASSERT_TRUE(range.ok());
      const auto address = reinterpret_cast<uintptr_t>(range.data());
      EXPECT_EQ(address % alignment, 0u);
      EXPECT_EQ(address % PageBytes(), 0u);
      EXPECT_TRUE(AllZero(range.data(), *RoundUp(bytes, PageBytes())));
    }
  }
}

TEST(PagesTest, NothingIsResidentUntilTouched) {
  const Range range(64 * kMiB, 2 * kMiB);
  ASSERT_TRUE(range.ok());
  EXPECT_EQ(range.Resident(), 0u);
  range.data()[40 * kMiB] = 1;
  EXPECT_GE(range.Resident(), PageBytes());
  EXPECT_LE(range.Resident(), HugePageBytes());
}

TEST(PagesTest, ReleasedPagesAreGone) {
  const absl::StatusOr<void*> base = ReservePages(kMiB, PageBytes());
  ASSERT_TRUE(base.ok());
  ASSERT_TRUE(Populate(*base, kMiB).ok());
  ASSERT_EQ(*ResidentBytes(*base, kMiB), kMiB);
  ASSERT_TRUE(ReleasePages(*base, kMiB).ok());
  EXPECT_FALSE(ResidentBytes(*base, kMiB).ok());
}

TEST(PagesTest, DiscardedPagesKeepTheirAddresses) {
  const Range range(4 * kMiB, PageBytes());
  ASSERT_TRUE(range.ok());
  ASSERT_TRUE(Populate(range.data(), 4 * kMiB).ok());
  ASSERT_TRUE(DiscardPages(range.data(), 4 * kMiB).ok());
#if !defined(_WIN32)  // which takes the memory when it needs it
  EXPECT_EQ(range.Resident(), 0u);
#endif
  range.data()[3 * kMiB] = 7;
  EXPECT_EQ(range.data()[3 * kMiB], 7);
}

TEST(PagesTest, AlignmentLeavesNoAddressesBehind) {
#if defined(_WIN32)
  GTEST_SKIP() << "takes minutes under Wine; os_windows_test asks Windows "
                  "itself what is left";
#else
  // If each reservation kept what it trims, the 128 TiB that a process has
  // would be gone before the last.
  for (int i = 0; i < 4'000; ++i) {
    const Range range(PageBytes(), size_t{128} << 30);
    ASSERT_TRUE(range.ok()) << i;
  }
#endif
}

TEST(PagesTest, HopelessSizesFailCleanly) {
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - PageBytes(),
                             SIZE_MAX / 2, size_t{1} << 56}) {
    for (const size_t alignment : {PageBytes(), 2 * kMiB, SIZE_MAX / 2 + 1}) {
      const absl::StatusOr<void*> base = ReservePages(bytes, alignment);
      ASSERT_FALSE(base.ok());
      EXPECT_EQ(base.status().code(), absl::StatusCode::kResourceExhausted);
    }
  }
}

TEST(PagesTest, BadArgumentsAreRefused) {
  EXPECT_EQ(ReservePages(0, PageBytes()).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReservePages(1, 0).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReservePages(1, 3 * PageBytes()).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(ReleasePages(nullptr, SIZE_MAX).ok());
  const Range range(PageBytes(), PageBytes());
  ASSERT_TRUE(range.ok());
  EXPECT_FALSE(ReleasePages(range.data() + 1, PageBytes()).ok());
  EXPECT_FALSE(Populate(range.data(), SIZE_MAX).ok());
  EXPECT_FALSE(ResidentBytes(range.data(), SIZE_MAX).ok());
}

TEST(PagesTest, PopulateMakesResidentAndKeepsTheBytes) {
  const Range range(8 * kMiB, 2 * kMiB);
  ASSERT_TRUE(range.ok());
  range.data()[5 * kMiB + 3] = 42;
  ASSERT_TRUE(Populate(range.data(), 8 * kMiB).ok());
  EXPECT_EQ(range.Resident(), 8 * kMiB);
  EXPECT_EQ(range.data()[5 * kMiB + 3], 42);
  range.data()[5 * kMiB + 3] = 0;
  EXPECT_TRUE(AllZero(range.data(), 8 * kMiB));
}

TEST(PagesTest, PopulateTakesTheWholePagesThatARangeTouches) {
  const Range range(8 * PageBytes(), PageBytes());
  ASSERT_TRUE(range.ok());
  // The last byte of page 1 to the first of page 3.
  ASSERT_TRUE(
      Populate(range.data() + 2 * PageBytes() - 1, PageBytes() + 2).ok());
  EXPECT_EQ(*ResidentBytes(range.data() + PageBytes(), 3 * PageBytes()),
            3 * PageBytes());
  EXPECT_EQ(range.Resident(), 3 * PageBytes());
  EXPECT_TRUE(Populate(range.data(), 0).ok());
  EXPECT_EQ(range.Resident(), 3 * PageBytes());
}

TEST(PagesTest, PopulateUndoesNoWriteMadeMeanwhile) {
  const Range range(4 * kMiB, 2 * kMiB);
  ASSERT_TRUE(range.ok());
  auto* const words = reinterpret_cast<std::atomic<uint32_t>*>(range.data());
  constexpr size_t kWords = 4 * kMiB / sizeof(uint32_t);
  std::thread writer([&] {
    for (size_t i = 0; i < kWords; ++i) {
      words[i].store(static_cast<uint32_t>(i) | 1, std::memory_order_relaxed);
    }
  });
  EXPECT_TRUE(Populate(range.data(), 4 * kMiB).ok());
  writer.join();
  for (size_t i = 0; i < kWords; ++i) {
    ASSERT_EQ(words[i].load(std::memory_order_relaxed),
              static_cast<uint32_t>(i) | 1);
  }
}

TEST(PagesTest, AdviceForHugePagesIsTakenOrUnimplemented) {
  const Range range(4 * kMiB, 2 * kMiB);
  ASSERT_TRUE(range.ok());
  const absl::Status status = AdviseHuge(range.data(), 4 * kMiB);
  EXPECT_TRUE(status.ok() || absl::IsUnimplemented(status)) << status;
  range.data()[0] = 1;
  EXPECT_TRUE(AllZero(range.data() + 1, 4 * kMiB - 1));
}

#if defined(_WIN32)
TEST(PagesTest, ChildrenInheritPagesUnlessToldOtherwise) {
  const Range range(PageBytes(), PageBytes());
  ASSERT_TRUE(range.ok());
  EXPECT_TRUE(DontFork(range.data(), PageBytes()).ok());
  GTEST_SKIP() << "Windows has no fork";
}
#else
// Runs `fn` in a child of fork; true if it returned true there.
template <typename Fn>
bool TrueInChild(Fn fn) {
  const pid_t child = fork();
  if (child == 0) _exit(fn() ? 0 : 1);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(PagesTest, ChildrenInheritPagesUnlessToldOtherwise) {
  const Range inherited(PageBytes(), PageBytes());
  const Range kept(3 * PageBytes(), PageBytes());
  ASSERT_TRUE(inherited.ok() && kept.ok());
  inherited.data()[0] = 7;
  std::memset(kept.data(), 7, 3 * PageBytes());
  ASSERT_TRUE(DontFork(kept.data() + PageBytes(), PageBytes()).ok());
  EXPECT_TRUE(TrueInChild([&] {
    return inherited.data()[0] == 7 && kept.data()[0] == 7 &&
           kept.data()[2 * PageBytes()] == 7 &&
           // Not mapped: there are no pages to ask about.
           !ResidentBytes(kept.data() + PageBytes(), PageBytes()).ok();
  }));
  EXPECT_EQ(kept.data()[PageBytes()], 7);
}
#endif

}  // namespace
}  // namespace pinring::os
