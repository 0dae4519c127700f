#include "src/host/small_pool.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace pinring {
namespace {

constexpr size_t kGrain = SmallPool::kGrainBytes;

// An aligned arena full of a pattern, so that bytes the pool touches show.
class Arena {
 public:
  explicit Arena(size_t bytes) : storage_(bytes + kGrain, 0xee) {
    const auto at = reinterpret_cast<uintptr_t>(storage_.data());
    data_ = storage_.data() + (kGrain - at % kGrain) % kGrain;
  }
  unsigned char* data() { return data_; }

 private:
  std::vector<unsigned char> storage_;
  unsigned char* data_;
};

SmallBlock MustAllocate(SmallPool& pool, size_t bytes) {
  absl::StatusOr<SmallBlock> block = pool.Allocate(bytes);
  EXPECT_TRUE(block.ok()) << block.status();
  return block.value_or(SmallBlock{});
}

void ExpectEmpty(const SmallPool& pool) {
  const SmallPool::Stats stats = pool.stats();
  EXPECT_EQ(stats.blocks, 0u);
  EXPECT_EQ(stats.bytes, 0u);
  EXPECT_EQ(stats.occupied_bytes, 0u);
  EXPECT_EQ(stats.largest_free_bytes, stats.arena_bytes) << "one free range";
  EXPECT_TRUE(pool.CheckInvariants().ok()) << pool.CheckInvariants();
}

TEST(SmallPoolTest, BlocksAreAlignedZeroedAndInTheArena) {
  Arena arena(16 * kGrain);
  SmallPool pool(arena.data(), 16 * kGrain);
  for (size_t bytes :
       {size_t{1}, size_t{255}, size_t{256}, size_t{257}, size_t{1000}}) {
    const SmallBlock block = MustAllocate(pool, bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block.data) % kGrain, 0u);
    EXPECT_TRUE(pool.InArena(block.data));
    EXPECT_EQ(block.bytes, bytes);
    EXPECT_EQ(block.occupied_bytes, (bytes + kGrain - 1) / kGrain * kGrain);
    const auto* data = static_cast<const unsigned char*>(block.data);
    EXPECT_EQ(std::count(data, data + block.occupied_bytes, 0),
              static_cast<ptrdiff_t>(block.occupied_bytes));
  }
  EXPECT_TRUE(pool.CheckInvariants().ok()) << pool.CheckInvariants();
}

TEST(SmallPoolTest, KeepsItsBooksOutsideTheArena) {
  Arena arena(64 * kGrain);
  SmallPool pool(arena.data(), 64 * kGrain);
  const SmallBlock a = MustAllocate(pool, 10 * kGrain);
  const SmallBlock b = MustAllocate(pool, 10 * kGrain);
  const SmallBlock c = MustAllocate(pool, 10 * kGrain);
  const auto* unused = static_cast<unsigned char*>(c.data) + c.occupied_bytes;
  EXPECT_TRUE(std::all_of(
      unused, static_cast<const unsigned char*>(arena.data() + 64 * kGrain),
      [](unsigned char x) { return x == 0xee; }));
  // Whatever is written anywhere in the arena, the pool stays right.
  std::memset(arena.data(), 0x5a, 64 * kGrain);
  ASSERT_TRUE(pool.Free(b.data).ok());
  std::memset(arena.data(), 0xff, 64 * kGrain);
  EXPECT_TRUE(pool.CheckInvariants().ok()) << pool.CheckInvariants();
  ASSERT_TRUE(pool.Free(a.data).ok());
  ASSERT_TRUE(pool.Free(c.data).ok());
  ExpectEmpty(pool);
}

TEST(SmallPoolTest, ReusedBlockReadsZero) {
  Arena arena(4 * kGrain);
  SmallPool pool(arena.data(), 4 * kGrain);
  const SmallBlock block = MustAllocate(pool, 4 * kGrain);
  std::memset(block.data, 0x77, block.bytes);
  ASSERT_TRUE(pool.Free(block.data).ok());
  const SmallBlock again = MustAllocate(pool, 4 * kGrain - 3);
  const auto* data = static_cast<const unsigned char*>(again.data);
  EXPECT_EQ(std::count(data, data + again.occupied_bytes, 0),
            static_cast<ptrdiff_t>(again.occupied_bytes));
}

TEST(SmallPoolTest, FullPoolIsResourceExhausted) {
  Arena arena(4 * kGrain);
  SmallPool pool(arena.data(), 4 * kGrain);
  std::vector<SmallBlock> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(MustAllocate(pool, kGrain));
  EXPECT_EQ(pool.Allocate(1).status().code(),
            absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(pool.Free(blocks[0].data).ok());
  ASSERT_TRUE(pool.Free(blocks[2].data).ok());
  EXPECT_EQ(pool.Allocate(2 * kGrain).status().code(),
            absl::StatusCode::kResourceExhausted)
      << "room for it, but not in one piece";
  ASSERT_TRUE(pool.Free(blocks[1].data).ok());
  EXPECT_TRUE(pool.Allocate(3 * kGrain).ok()) << "neighbours became one range";
}

TEST(SmallPoolTest, ImpossibleSizes) {
  Arena arena(4 * kGrain);
  SmallPool pool(arena.data(), 4 * kGrain);
  EXPECT_EQ(pool.Allocate(0).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(pool.Allocate(4 * kGrain + 1).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pool.Allocate(std::numeric_limits<size_t>::max()).status().code(),
            absl::StatusCode::kResourceExhausted);
  ExpectEmpty(pool);
}

TEST(SmallPoolTest, DoubleInteriorAndForeignFreesAreRefused) {
  Arena arena(16 * kGrain);
  SmallPool pool(arena.data(), 16 * kGrain);
  const SmallBlock block = MustAllocate(pool, 3 * kGrain);
  auto* data = static_cast<unsigned char*>(block.data);
  int elsewhere = 0;
  for (void* bad :
       {static_cast<void*>(data + 1), static_cast<void*>(data + kGrain),
        static_cast<void*>(data + 3 * kGrain),
        static_cast<void*>(arena.data() - kGrain),
        static_cast<void*>(arena.data() + 16 * kGrain),
        static_cast<void*>(&elsewhere), static_cast<void*>(nullptr)}) {
    EXPECT_EQ(pool.Free(bad).status().code(),
              absl::StatusCode::kInvalidArgument)
        << bad;
  }
  EXPECT_EQ(pool.stats().blocks, 1u);
  ASSERT_TRUE(pool.Free(data).ok());
  EXPECT_EQ(pool.Free(data).status().code(),
            absl::StatusCode::kInvalidArgument);
  ExpectEmpty(pool);
}

TEST(SmallPoolTest, FindKnowsExactlyTheBytesAskedFor) {
  Arena arena(16 * kGrain);
  SmallPool pool(arena.data(), 16 * kGrain);
  absl::StatusOr<SmallBlock> block =
      pool.Allocate(300, {.category = 9, .device = 2, .host_flags = 3});
  ASSERT_TRUE(block.ok());
  const auto* data = static_cast<const unsigned char*>(block->data);
  for (size_t offset : {0, 1, 256, 299}) {
    const std::optional<SmallBlock> found = pool.Find(data + offset);
    ASSERT_TRUE(found.has_value()) << offset;
    EXPECT_EQ(found->data, block->data);
    EXPECT_EQ(found->bytes, 300u);
    EXPECT_EQ(found->label.category, 9u);
    EXPECT_EQ(found->label.device, 2);
    EXPECT_EQ(found->label.host_flags, 3u);
  }
  EXPECT_FALSE(pool.Find(data + 300).has_value()) << "one past the end";
  EXPECT_FALSE(pool.Find(data + 511).has_value()) << "the rounding";
  EXPECT_FALSE(pool.Find(data + 512).has_value());
  EXPECT_FALSE(pool.Find(data - 1).has_value());
  ASSERT_TRUE(pool.Free(block->data).ok());
  EXPECT_FALSE(pool.Find(data).has_value()) << "freed";
}

TEST(SmallPoolTest, BestFitLeavesLargeRangesWhole) {
  Arena arena(32 * kGrain);
  SmallPool pool(arena.data(), 32 * kGrain);
  const SmallBlock large = MustAllocate(pool, 10 * kGrain);
  (void)MustAllocate(pool, kGrain);
  const SmallBlock hole = MustAllocate(pool, 2 * kGrain);
  (void)MustAllocate(pool, kGrain);
  ASSERT_TRUE(pool.Free(large.data).ok());
  ASSERT_TRUE(pool.Free(hole.data).ok());
  EXPECT_EQ(MustAllocate(pool, 2 * kGrain).data, hole.data);
  EXPECT_EQ(MustAllocate(pool, 10 * kGrain).data, large.data);
}

TEST(SmallPoolTest, UnalignedAndTinyArenas) {
  Arena arena(8 * kGrain);
  SmallPool crooked(arena.data() + 1, 4 * kGrain);
  EXPECT_EQ(crooked.stats().arena_bytes, 3 * kGrain);
  const SmallBlock block = MustAllocate(crooked, 3 * kGrain);
  EXPECT_EQ(block.data, arena.data() + kGrain);
  ASSERT_TRUE(crooked.Free(block.data).ok());
  ExpectEmpty(crooked);
  SmallPool none(arena.data(), kGrain - 1);
  EXPECT_EQ(none.Allocate(1).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(none.InArena(arena.data()));
  SmallPool lost(arena.data() + 1, kGrain - 2);
  EXPECT_EQ(lost.stats().arena_bytes, 0u);
  ExpectEmpty(lost);
}

// Against a model that knows which bytes are whose.
class SmallPoolModelTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(SmallPoolModelTest, AgreesWithTheModel) {
  const uint32_t seed = GetParam();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  constexpr size_t kGrains = 200;
  Arena arena(kGrains * kGrain);
  SmallPool pool(arena.data(), kGrains * kGrain);
  std::vector<int> owner(kGrains, -1);
  std::map<int, SmallBlock> live;
  int next_id = 0;
  const auto longest_free_run = [&owner] {
    size_t longest = 0;
    size_t run = 0;
    for (int id : owner) {
      run = id == -1 ? run + 1 : 0;
      longest = std::max(longest, run);
    }
    return longest;
  };
  for (int step = 0; step < 1500; ++step) {
    if (random() % 100 < 55) {
      const size_t bytes = random() % 4 == 0 ? 1 + random() % (40 * kGrain)
                                             : 1 + random() % (4 * kGrain);
      const size_t grains = (bytes + kGrain - 1) / kGrain;
      absl::StatusOr<SmallBlock> block = pool.Allocate(bytes);
      ASSERT_EQ(block.ok(), longest_free_run() >= grains) << block.status();
      if (!block.ok()) continue;
      auto* data = static_cast<unsigned char*>(block->data);
      ASSERT_EQ((data - arena.data()) % kGrain, 0u);
      const size_t first = (data - arena.data()) / kGrain;
      for (size_t g = first; g < first + grains; ++g) {
        ASSERT_EQ(owner.at(g), -1) << "handed out twice";
        owner[g] = next_id;
      }
      ASSERT_EQ(std::count(data, data + grains * kGrain, 0),
                static_cast<ptrdiff_t>(grains * kGrain));
      std::memset(data, 1 + next_id % 250, block->occupied_bytes);
      live.emplace(next_id++, *block);
    } else if (!live.empty()) {
      auto victim = std::next(live.begin(), random() % live.size());
      const SmallBlock block = victim->second;
      const auto* data = static_cast<const unsigned char*>(block.data);
      ASSERT_EQ(std::count(data, data + block.occupied_bytes,
                           1 + victim->first % 250),
                static_cast<ptrdiff_t>(block.occupied_bytes))
          << "somebody else wrote to it";
      ASSERT_TRUE(pool.Free(block.data).ok());
      ASSERT_FALSE(pool.Free(block.data).ok());
      for (int& id : owner) {
        if (id == victim->first) id = -1;
      }
      live.erase(victim);
    }
    const size_t probe = random() % (kGrains * kGrain);
    const int id = owner[probe / kGrain];
    const std::optional<SmallBlock> found = pool.Find(arena.data() + probe);
    const bool expected =
        id != -1 &&
        arena.data() + probe <
            static_cast<unsigned char*>(live.at(id).data) + live.at(id).bytes;
    ASSERT_EQ(found.has_value(), expected);
    if (found.has_value()) {
      ASSERT_EQ(found->data, live.at(id).data);
    }
    if (step % 50 == 0) {
      ASSERT_TRUE(pool.CheckInvariants().ok()) << pool.CheckInvariants();
      ASSERT_EQ(pool.stats().blocks, live.size());
      ASSERT_EQ(pool.stats().largest_free_bytes, longest_free_run() * kGrain);
    }
  }
  for (const auto& [id, block] : live) ASSERT_TRUE(pool.Free(block.data).ok());
  ExpectEmpty(pool);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SmallPoolModelTest, ::testing::Range(1u, 21u));

TEST(SmallPoolTest, ConcurrentUsersNeverShareBytes) {
  constexpr size_t kBytes = 64 * 1024;
  Arena arena(kBytes);
  SmallPool pool(arena.data(), kBytes);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool, t] {
      std::mt19937 random(100 + t);
      std::vector<SmallBlock> mine;
      for (int i = 0; i < 1500; ++i) {
        if (mine.size() < 20 && random() % 2 == 0) {
          absl::StatusOr<SmallBlock> block = pool.Allocate(1 + random() % 3000);
          if (!block.ok()) continue;
          auto* data = static_cast<unsigned char*>(block->data);
          ASSERT_EQ(std::count(data, data + block->occupied_bytes, 0),
                    static_cast<ptrdiff_t>(block->occupied_bytes));
          std::memset(data, t + 1, block->occupied_bytes);
          mine.push_back(*block);
        } else if (!mine.empty()) {
          std::swap(mine[random() % mine.size()], mine.back());
          const auto* data =
              static_cast<const unsigned char*>(mine.back().data);
          ASSERT_TRUE(pool.Find(data).has_value());
          ASSERT_EQ(std::count(data, data + mine.back().occupied_bytes, t + 1),
                    static_cast<ptrdiff_t>(mine.back().occupied_bytes));
          ASSERT_TRUE(pool.Free(mine.back().data).ok());
          mine.pop_back();
        }
      }
      for (const SmallBlock& block : mine) {
        ASSERT_TRUE(pool.Free(block.data).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ExpectEmpty(pool);
}

TEST(SmallPoolTest, OneBlockFreedByTwoThreadsIsFreedOnce) {
  Arena arena(4 * kGrain);
  SmallPool pool(arena.data(), 4 * kGrain);
  for (int round = 0; round < 500; ++round) {
    const SmallBlock block = MustAllocate(pool, kGrain);
    bool first = false;
    std::thread other([&] { first = pool.Free(block.data).ok(); });
    const bool second = pool.Free(block.data).ok();
    other.join();
    ASSERT_NE(first, second);
  }
  ExpectEmpty(pool);
}

}  // namespace
}  // namespace pinring
