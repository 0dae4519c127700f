#include "src/host/address_map.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace pinring {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kSpan = size_t{2} << 20;
constexpr size_t kGiB = size_t{1} << 30;
// The map never touches the memory it describes, so any address will do.
constexpr uintptr_t kBase = 0x7f12'3440'0000;

size_t RoundUp(size_t bytes, size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

Block* MustInsert(AddressMap& map, uintptr_t base, size_t bytes,
                  size_t alignment = kPage) {
  absl::StatusOr<Block*> block =
      map.Insert({.base = base,
                  .bytes = bytes,
                  .mapped_bytes = RoundUp(bytes, alignment)});
  EXPECT_TRUE(block.ok()) << block.status();
  return block.value_or(nullptr);
}

void MustErase(AddressMap& map, Block* block) {
  ASSERT_TRUE(block->BeginFree());
  block->WaitUntilUnused();
  const absl::Status status = map.Erase(block);
  ASSERT_TRUE(status.ok()) << status;
}

void ExpectSound(const AddressMap& map) {
  const absl::Status status = map.CheckInvariants();
  EXPECT_TRUE(status.ok()) << status;
}

TEST(AddressMapTest, EmptyMapKnowsNothing) {
  AddressMap map;
  EXPECT_EQ(map.Find(uintptr_t{0}), nullptr);
  EXPECT_EQ(map.Find(kBase), nullptr);
  EXPECT_EQ(map.Find(UINTPTR_MAX), nullptr);
  EXPECT_FALSE(map.Use(kBase));
  ExpectSound(map);
}

TEST(AddressMapTest, InteriorAddressesAreFound) {
  AddressMap map;
  const size_t bytes = 5 * kSpan + 3 * kPage + 17;
  Block* block = MustInsert(map, kBase, bytes);
  for (uintptr_t offset : {size_t{0}, size_t{1}, kPage - 1, kPage, kSpan - 1,
                           kSpan, 3 * kSpan + 5, bytes - 18, bytes - 1}) {
    EXPECT_EQ(map.Find(kBase + offset), block) << offset;
  }
  ExpectSound(map);
}

TEST(AddressMapTest, OnePastTheEndIsUnknown) {
  AddressMap map;
  MustInsert(map, kBase, kPage);
  EXPECT_EQ(map.Find(kBase + kPage), nullptr);
  EXPECT_EQ(map.Find(kBase - 1), nullptr);
  MustInsert(map, kBase + kSpan, kSpan);
  EXPECT_EQ(map.Find(kBase + 2 * kSpan), nullptr);
  EXPECT_EQ(map.Find(kBase + kSpan - 1), nullptr);
}

TEST(AddressMapTest, TailOfTheLastPageIsUnknown) {
  AddressMap map;
  Block* block = MustInsert(map, kBase, kPage + 1);
  EXPECT_EQ(map.Find(kBase + kPage), block);
  EXPECT_EQ(map.Find(kBase + kPage + 1), nullptr);
  EXPECT_EQ(map.Find(kBase + 2 * kPage - 1), nullptr);
}

TEST(AddressMapTest, FreedBlockIsUnknown) {
  AddressMap map;
  Block* block = MustInsert(map, kBase, kPage);
  MustErase(map, block);
  EXPECT_EQ(map.Find(kBase), nullptr);
  EXPECT_EQ(map.size(), 0u);
  ExpectSound(map);
}

TEST(AddressMapTest, SameAddressCanBeInsertedAgain) {
  AddressMap map;
  for (size_t pages = 1; pages < 20; ++pages) {
    Block* block = MustInsert(map, kBase, pages * kPage - 3);
    EXPECT_EQ(map.Find(kBase + pages * kPage - 4), block);
    EXPECT_EQ(map.Find(kBase + pages * kPage - 3), nullptr);
    MustErase(map, block);
  }
  ExpectSound(map);
}

TEST(AddressMapTest, NeighboursInOneSpanAreTold) {
  AddressMap map;
  std::vector<Block*> blocks;
  for (size_t i = 0; i < kSpan / kPage; ++i) {
    blocks.push_back(MustInsert(map, kBase + i * kPage, kPage - i));
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(map.Find(kBase + i * kPage), blocks[i]);
    EXPECT_EQ(map.Find(kBase + i * kPage + kPage - i - 1), blocks[i]);
    EXPECT_EQ(map.Find(kBase + i * kPage + kPage - i),
              i == 0 ? blocks[1] : nullptr);
  }
  ExpectSound(map);
  for (size_t i = 0; i < blocks.size(); i += 2) MustErase(map, blocks[i]);
  ExpectSound(map);
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(map.Find(kBase + i * kPage), i % 2 == 0 ? nullptr : blocks[i]);
  }
}

TEST(AddressMapTest, NeighboursInOnePageAreTold) {
  AddressMap map;
  std::vector<Block*> blocks;
  for (size_t i = 0; i < kPage / 256; ++i) {
    blocks.push_back(MustInsert(map, kBase + i * 256, 256 - i, 256));
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(map.Find(kBase + i * 256 + 255 - i), blocks[i]);
  }
  EXPECT_EQ(map.Find(kBase + 15 * 256 + 241), nullptr);
  ExpectSound(map);
  for (Block* block : blocks) {
    MustErase(map, block);
    ExpectSound(map);
  }
}

TEST(AddressMapTest, BlockMayEndInsideTheSpanOfAnother) {
  AddressMap map;
  // a: 1.5 spans; b: the rest of the second span and half of the third.
  Block* a = MustInsert(map, kBase, kSpan + kSpan / 2);
  Block* b = MustInsert(map, kBase + kSpan + kSpan / 2, kSpan);
  EXPECT_EQ(map.Find(kBase + kSpan + kSpan / 2 - 1), a);
  EXPECT_EQ(map.Find(kBase + kSpan + kSpan / 2), b);
  EXPECT_EQ(map.Find(kBase + 2 * kSpan + kSpan / 2 - 1), b);
  ExpectSound(map);
  MustErase(map, a);
  EXPECT_EQ(map.Find(kBase + kSpan), nullptr);
  EXPECT_EQ(map.Find(kBase + kSpan + kSpan / 2), b);
  ExpectSound(map);
}

TEST(AddressMapTest, OverlapsAreRefused) {
  AddressMap map;
  MustInsert(map, kBase + kSpan, kPage + 1);
  const auto insert = [&map](uintptr_t base, size_t bytes) {
    return map.Insert({.base = base, .bytes = bytes, .mapped_bytes = bytes})
        .status()
        .code();
  };
  EXPECT_EQ(insert(kBase + kSpan, kPage), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(insert(kBase + kSpan + kPage, kPage),
            absl::StatusCode::kAlreadyExists)
      << "the rest of the last page is nobody else's";
  EXPECT_EQ(insert(kBase, 4 * kSpan), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(insert(kBase, kSpan), absl::StatusCode::kOk);
  EXPECT_EQ(insert(kBase + kSpan + 2 * kPage, kPage), absl::StatusCode::kOk);
  EXPECT_EQ(map.size(), 3u);
  ExpectSound(map);
}

TEST(AddressMapTest, BadRangesAreRefused) {
  AddressMap map;
  const auto insert = [&map](uintptr_t base, size_t bytes, size_t mapped) {
    return map.Insert({.base = base, .bytes = bytes, .mapped_bytes = mapped})
        .status()
        .code();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(insert(kBase, 0, kPage), kInvalid);
  EXPECT_EQ(insert(kBase, kPage + 1, kPage), kInvalid);
  EXPECT_EQ(insert(kBase + 1, kPage, kPage), kInvalid);
  EXPECT_EQ(insert(kBase, 100, 100), kInvalid);
  EXPECT_EQ(insert(0, kPage, kPage), kInvalid);
  EXPECT_EQ(insert(uintptr_t{1} << 57, kPage, kPage), kInvalid);
  EXPECT_EQ(insert((uintptr_t{1} << 57) - kPage, 2 * kPage, 2 * kPage),
            kInvalid);
  EXPECT_EQ(insert(kBase, kPage, SIZE_MAX & ~size_t{255}), kInvalid);
  EXPECT_EQ(map.size(), 0u);
}

TEST(AddressMapTest, WholeAddressRangeWorks) {
  AddressMap map;
  constexpr uintptr_t kTop = (uintptr_t{1} << 57) - kPage;
  Block* low = MustInsert(map, kPage, kPage);
  Block* top = MustInsert(map, kTop, kPage);
  EXPECT_EQ(map.Find(uintptr_t{kPage}), low);
  EXPECT_EQ(map.Find(kTop + kPage - 1), top);
  EXPECT_EQ(map.Find(kTop + kPage), nullptr);
  EXPECT_EQ(map.Find(UINTPTR_MAX), nullptr);
  EXPECT_EQ(map.Find(kTop | uintptr_t{1} << 60), nullptr);
  EXPECT_EQ(map.Find(kBase), nullptr);
  ExpectSound(map);
}

TEST(AddressMapTest, HugeBlockCostsLittleMemoryAndTime) {
  AddressMap map;
  const size_t before = map.overhead_bytes();
  const auto start = std::chrono::steady_clock::now();
  Block* block = MustInsert(map, kBase, 8 * kGiB);
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_LE(map.overhead_bytes() - before, size_t{128} << 10);
  EXPECT_LT(took, std::chrono::milliseconds(100));
  EXPECT_EQ(map.Find(kBase + 8 * kGiB - 1), block);
  EXPECT_EQ(map.Find(kBase + 8 * kGiB), nullptr);
  ExpectSound(map);
}

TEST(AddressMapTest, MemoryIsReusedAndDoesNotGrow) {
  AddressMap map;
  size_t after_first = 0;
  for (int round = 0; round < 50; ++round) {
    std::vector<Block*> blocks;
    for (size_t i = 0; i < 300; ++i) {
      blocks.push_back(MustInsert(map, kBase + i * 5 * kPage, 3 * kPage));
    }
    for (Block* block : blocks) MustErase(map, block);
    if (round == 0) after_first = map.overhead_bytes();
  }
  EXPECT_EQ(map.overhead_bytes(), after_first);
  ExpectSound(map);
}

TEST(AddressMapTest, FindOverlapSeesMappedRanges) {
  AddressMap map;
  Block* a = MustInsert(map, kBase, kPage + 1);
  Block* b = MustInsert(map, kBase + 10 * kPage, kPage);
  EXPECT_EQ(map.FindOverlap(kBase + kPage + 1, 1), a);
  EXPECT_EQ(map.FindOverlap(kBase + 2 * kPage, 8 * kPage), nullptr);
  EXPECT_EQ(map.FindOverlap(kBase + 2 * kPage, 8 * kPage + 1), b);
  EXPECT_EQ(map.FindOverlap(kBase - kPage, kPage), nullptr);
  EXPECT_NE(map.FindOverlap(0, SIZE_MAX), nullptr);
  EXPECT_EQ(map.FindOverlap(kBase + 11 * kPage, SIZE_MAX), nullptr);
  EXPECT_EQ(map.FindOverlap(kBase, 0), nullptr);
}

TEST(AddressMapTest, ForEachVisitsByAddress) {
  AddressMap map;
  Block* b = MustInsert(map, kBase + kSpan, kPage);
  Block* a = MustInsert(map, kBase, kPage);
  std::vector<Block*> seen;
  map.ForEach([&seen](Block& block) { seen.push_back(&block); });
  EXPECT_EQ(seen, (std::vector<Block*>{a, b}));
}

TEST(AddressMapTest, BlockKeepsWhatItWasMadeFrom) {
  AddressMap map;
  absl::StatusOr<Block*> block = map.Insert({.base = kBase,
                                             .bytes = 1000,
                                             .mapped_bytes = kPage,
                                             .kind = BlockKind::kMappedPinned,
                                             .category = 7,
                                             .device = 3,
                                             .host_flags = 2});
  ASSERT_TRUE(block.ok()) << block.status();
  EXPECT_EQ((*block)->base(), kBase);
  EXPECT_EQ((*block)->data(), reinterpret_cast<void*>(kBase));
  EXPECT_EQ((*block)->bytes(), 1000u);
  EXPECT_EQ((*block)->mapped_bytes(), kPage);
  EXPECT_EQ((*block)->kind(), BlockKind::kMappedPinned);
  EXPECT_EQ((*block)->category(), 7u);
  EXPECT_EQ((*block)->device(), 3);
  EXPECT_EQ((*block)->host_flags(), 2u);
}

TEST(BlockTest, RangeMustLieInside) {
  AddressMap map;
  Block* block = MustInsert(map, kBase, 1000);
  EXPECT_TRUE(block->ContainsRange(kBase, 1000));
  EXPECT_TRUE(block->ContainsRange(kBase + 999, 1));
  EXPECT_TRUE(block->ContainsRange(kBase + 999, 0));
  EXPECT_FALSE(block->ContainsRange(kBase + 999, 2));
  EXPECT_FALSE(block->ContainsRange(kBase + 1000, 0));
  EXPECT_FALSE(block->ContainsRange(kBase - 1, 2));
  EXPECT_FALSE(block->ContainsRange(kBase + 1, SIZE_MAX));
}

TEST(BlockTest, OneFreeWins) {
  AddressMap map;
  Block* block = MustInsert(map, kBase, kPage);
  EXPECT_FALSE(block->freeing());
  EXPECT_TRUE(block->BeginFree());
  EXPECT_FALSE(block->BeginFree()) << "freed twice";
  EXPECT_TRUE(block->freeing());
  EXPECT_FALSE(block->AcquireUse());
  EXPECT_FALSE(map.Use(kBase));
  EXPECT_EQ(map.Find(kBase), block) << "registered until the free is over";
  ASSERT_TRUE(map.Erase(block).ok());
  EXPECT_FALSE(block->BeginFree()) << "freed already";
}

TEST(BlockTest, EraseNeedsAFreeAndNoUses) {
  AddressMap map;
  Block* block = MustInsert(map, kBase, kPage);
  EXPECT_EQ(map.Erase(block).code(), absl::StatusCode::kFailedPrecondition);
  BlockUse use = map.Use(kBase + 5);
  ASSERT_TRUE(use);
  EXPECT_EQ(use.get(), block);
  ASSERT_TRUE(block->BeginFree());
  EXPECT_EQ(map.Erase(block).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(block->uses(), 1u);
  use.Reset();
  EXPECT_TRUE(map.Erase(block).ok());
  ExpectSound(map);
}

TEST(BlockTest, FreeWaitsForUses) {
  AddressMap map;
  Block* block = MustInsert(map, kBase, kPage);
  BlockUse first = map.Use(kBase);
  BlockUse second = map.Use(kBase + 1);
  std::atomic<bool> waited{false};
  std::thread freer([&] {
    EXPECT_TRUE(block->BeginFree());
    block->WaitUntilUnused();
    waited = true;
    EXPECT_TRUE(map.Erase(block).ok());
  });
  first.Reset();
  while (!block->freeing()) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(waited) << "one use is left";
  Block* detached = second.Detach();
  EXPECT_FALSE(second);
  detached->ReleaseUse();
  freer.join();
  EXPECT_TRUE(waited);
}

TEST(BlockTest, OneThreadPromotesAndTheOthersWait) {
  AddressMap map;
  Block* block = MustInsert(map, kBase, kPage);
  EXPECT_FALSE(block->promoted());
  ASSERT_EQ(block->BeginPromotion(), Block::PromotionTurn::kMine);
  std::atomic<int> mine{0};
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      if (block->BeginPromotion() == Block::PromotionTurn::kMine) {
        mine.fetch_add(1);
        block->FinishPromotion(0x1000);
      } else {
        EXPECT_TRUE(block->promoted());
        EXPECT_EQ(block->device_pointer(), 0x1000u);
        done.fetch_add(1);
      }
    });
  }
  block->AbandonPromotion();  // Refused: one of the others tries.
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(mine.load(), 1);
  EXPECT_EQ(done.load(), 2);
  MustErase(map, block);
  Block* again = MustInsert(map, kBase, kPage);
  EXPECT_EQ(again, block) << "the record is reused";
  EXPECT_FALSE(again->promoted());
  EXPECT_EQ(again->device_pointer(), 0u);
}

// Random inserts, erases and look-ups against a std::map.
class AddressMapModelTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(AddressMapModelTest, AgreesWithTheModel) {
  const uint32_t seed = GetParam();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto below = [&random](size_t n) { return random() % n; };
  constexpr size_t kArea = 12 * kSpan;
  // Some areas begin at a directory's edge.
  const uintptr_t area =
      seed % 2 == 0 ? kBase : (uintptr_t{0x7f} << 40) - 4 * kSpan;
  AddressMap map;
  std::map<uintptr_t, Block*> model;
  const auto expected_at = [&model](uintptr_t address) -> Block* {
    auto after = model.upper_bound(address);
    if (after == model.begin()) return nullptr;
    Block* block = std::prev(after)->second;
    return address - block->base() < block->bytes() ? block : nullptr;
  };
  const auto overlapped = [&model](uintptr_t begin, uintptr_t end) {
    auto after = model.lower_bound(end);
    if (after == model.begin()) return false;
    const Block* block = std::prev(after)->second;
    return block->base() + block->mapped_bytes() > begin;
  };
  for (int step = 0; step < 2500; ++step) {
    if (below(100) < 60) {
      size_t bytes = 0;
      size_t alignment = kPage;
      switch (below(4)) {
        case 0:
          bytes = 1 + below(2000);
          alignment = 256;
          break;
        case 1:
          bytes = 1 + below(8 * kPage);
          break;
        case 2:
          bytes = 1 + below(kSpan);
          break;
        default:
          bytes = 1 + below(3 * kSpan);
          alignment = below(2) == 0 ? kSpan : kPage;
      }
      const uintptr_t base = area + below(kArea / alignment) * alignment;
      const size_t mapped = RoundUp(bytes, alignment == 256 ? 256 : kPage);
      absl::StatusOr<Block*> block =
          map.Insert({.base = base, .bytes = bytes, .mapped_bytes = mapped});
      ASSERT_EQ(block.ok(), !overlapped(base, base + mapped)) << block.status();
      if (block.ok()) model.emplace(base, *block);
    } else if (!model.empty()) {
      auto victim = std::next(model.begin(), below(model.size()));
      MustErase(map, victim->second);
      model.erase(victim);
    }
    for (int probe = 0; probe < 8; ++probe) {
      uintptr_t address = area + below(kArea + 4 * kSpan);
      if (probe >= 4 && !model.empty()) {
        const Block* near =
            std::next(model.begin(), below(model.size()))->second;
        const uintptr_t edges[] = {
            near->base() - 1, near->base(), near->base() + near->bytes() - 1,
            near->base() + near->bytes(), near->base() + near->mapped_bytes()};
        address = edges[below(5)];
      }
      ASSERT_EQ(map.Find(address), expected_at(address)) << std::hex << address;
    }
    if (step % 250 == 0) {
      const absl::Status status = map.CheckInvariants();
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_EQ(map.size(), model.size());
    }
  }
  for (const auto& [base, block] : model) MustErase(map, block);
  EXPECT_EQ(map.size(), 0u);
  ExpectSound(map);
}

INSTANTIATE_TEST_SUITE_P(Seeds, AddressMapModelTest, ::testing::Range(1u, 13u));

TEST(AddressMapConcurrencyTest, BlockThatStaysIsFoundWhateverChangesAround) {
  AddressMap map;
  // In one span with the churn, in one page with it, and in spans of its own.
  Block* in_span = MustInsert(map, kBase + 100 * kPage, kPage);
  Block* in_page = MustInsert(map, kBase + kSpan + 256, 200, 256);
  Block* large = MustInsert(map, kBase + 4 * kSpan, 3 * kSpan + kPage);
  std::atomic<bool> done{false};
  std::atomic<uint64_t> lookups{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < 2; ++t) {
    readers.emplace_back([&] {
      uint64_t n = 0;
      while (!done.load(std::memory_order_relaxed)) {
        ASSERT_EQ(map.Find(kBase + 100 * kPage + n % kPage), in_span);
        ASSERT_EQ(map.Find(kBase + kSpan + 256 + n % 200), in_page);
        ASSERT_EQ(map.Find(kBase + 7 * kSpan + n % kPage), large);
        // Never anybody's, though their neighbours come and go.
        ASSERT_EQ(map.Find(kBase + 101 * kPage), nullptr);
        ASSERT_EQ(map.Find(kBase + kSpan + 456), nullptr);
        ASSERT_EQ(map.Find(kBase + 7 * kSpan + kPage), nullptr);
        ++n;
      }
      lookups.fetch_add(n);
    });
  }
  for (int round = 0; round < 5000; ++round) {
    Block* blocks[] = {
        MustInsert(map, kBase + 99 * kPage, kPage),
        MustInsert(map, kBase + 102 * kPage, kPage - 1),
        MustInsert(map, kBase + kSpan, 256, 256),
        MustInsert(map, kBase + kSpan + 512, 100, 256),
        MustInsert(map, kBase + 7 * kSpan + 2 * kPage, kSpan),
        MustInsert(map, kBase + 20 * kSpan + (round % 7) * kPage, 8 * kPage),
        MustInsert(map, kBase + 20 * kSpan + 64 * kPage, kPage)};
    for (Block* block : blocks) MustErase(map, block);
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_GT(lookups.load(), 0u);
  ExpectSound(map);
}

TEST(AddressMapConcurrencyTest, UseKeepsABlockThatIsBeingFreed) {
  AddressMap map;
  constexpr int kPlaces = 8;
  // Set before a block is inserted, cleared when its free has waited: while a
  // use is held it must be set.
  std::atomic<uint64_t> memory[kPlaces] = {};
  const auto base_of = [](int place) {
    return kBase + static_cast<uintptr_t>(place) * 3 * kPage;
  };
  std::atomic<bool> done{false};
  std::atomic<uint64_t> hits{0};
  std::vector<std::thread> users;
  for (int t = 0; t < 2; ++t) {
    users.emplace_back([&, t] {
      std::mt19937 random(t);
      uint64_t mine = 0;
      while (!done.load(std::memory_order_relaxed)) {
        const int place = static_cast<int>(random() % kPlaces);
        const uintptr_t address = base_of(place) + random() % kPage;
        if (BlockUse use = map.Use(address)) {
          ASSERT_EQ(use->base(), base_of(place));
          ASSERT_TRUE(use->ContainsRange(address, 1));
          ASSERT_EQ(memory[place].load(std::memory_order_acquire),
                    use->category());
          ++mine;
        }
      }
      hits.fetch_add(mine);
    });
  }
  std::vector<std::thread> owners;
  for (int t = 0; t < 2; ++t) {
    owners.emplace_back([&, t] {
      CategoryId serial = 1;
      for (int round = 0; round < 3000; ++round) {
        const int place = 2 * (round % (kPlaces / 2)) + t;
        memory[place].store(serial, std::memory_order_release);
        absl::StatusOr<Block*> block = map.Insert({.base = base_of(place),
                                                   .bytes = kPage,
                                                   .mapped_bytes = kPage,
                                                   .category = serial});
        ASSERT_TRUE(block.ok()) << block.status();
        if (round % 3 == 0) std::this_thread::yield();
        ASSERT_TRUE((*block)->BeginFree());
        (*block)->WaitUntilUnused();
        memory[place].store(0, std::memory_order_release);
        ASSERT_TRUE(map.Erase(*block).ok());
        ++serial;
      }
    });
  }
  for (std::thread& owner : owners) owner.join();
  done = true;
  for (std::thread& user : users) user.join();
  EXPECT_GT(hits.load(), 0u);
  EXPECT_EQ(map.size(), 0u);
  ExpectSound(map);
}

TEST(AddressMapConcurrencyTest, TwoThreadsThatFreeOneBlockFreeItOnce) {
  AddressMap map;
  for (int round = 0; round < 500; ++round) {
    Block* block = MustInsert(map, kBase, kPage);
    bool first = false;
    std::thread other([&] { first = block->BeginFree(); });
    const bool second = block->BeginFree();
    other.join();
    ASSERT_NE(first, second);
    ASSERT_TRUE(map.Erase(block).ok());
  }
}

}  // namespace
}  // namespace pinring
