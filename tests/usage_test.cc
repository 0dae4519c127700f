#include <atomic>
#include <cstdint>
#include <limits>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "src/usage/category.h"
#include "src/usage/json_writer.h"
#include "src/usage/usage_ledger.h"
#include "src/usage/usage_print.h"

namespace pinring {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

CategoryId MustIntern(CategoryTable& table, std::string_view name) {
  absl::StatusOr<CategoryId> id = table.Intern(name);
  EXPECT_TRUE(id.ok()) << id.status();
  return id.value_or(kDefaultCategory);
}

bool Has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

const CategoryUsage& Find(const UsageSnapshot& snapshot,
                          std::string_view name) {
  for (const CategoryUsage& category : snapshot.categories) {
    if (category.name == name) return category;
  }
  static const CategoryUsage none;
  ADD_FAILURE() << "no category " << name;
  return none;
}

TEST(CategoryTest, ThreadInNoCategoryIsInDefault) {
  CategoryTable table;
  EXPECT_EQ(table.Current(), kDefaultCategory);
  EXPECT_EQ(table.Name(kDefaultCategory), "default");
  EXPECT_EQ(MustIntern(table, "default"), kDefaultCategory);
}

TEST(CategoryTest, SameNameHasSameId) {
  CategoryTable table;
  const CategoryId a = MustIntern(table, "loader");
  const CategoryId b = MustIntern(table, "optimizer");
  EXPECT_NE(a, b);
  EXPECT_EQ(MustIntern(table, std::string("loa") + "der"), a);
  EXPECT_EQ(table.Name(a), "loader");
  EXPECT_EQ(table.Name(b + 1), "");
  EXPECT_EQ(table.Names(),
            (std::vector<std::string>{"default", "loader", "optimizer"}));
}

TEST(CategoryTest, StackIsNested) {
  CategoryTable table;
  ASSERT_TRUE(table.Push("outer").ok());
  ASSERT_TRUE(table.Push("inner").ok());
  EXPECT_EQ(table.Name(table.Current()), "inner");
  EXPECT_EQ(table.Depth(), 2u);
  absl::StatusOr<CategoryId> popped = table.Pop();
  ASSERT_TRUE(popped.ok());
  EXPECT_EQ(table.Name(*popped), "inner");
  EXPECT_EQ(table.Name(table.Current()), "outer");
  ASSERT_TRUE(table.Pop().ok());
  EXPECT_EQ(table.Current(), kDefaultCategory);
}

TEST(CategoryTest, PopOfAnEmptyStackIsAnError) {
  CategoryTable table;
  EXPECT_EQ(table.Pop().status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(table.Push("x").ok());
  ASSERT_TRUE(table.Pop().ok());
  EXPECT_EQ(table.Pop().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(CategoryTest, RefusesBadNamesAndIds) {
  CategoryTable table;
  EXPECT_EQ(table.Intern("").status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(table.Intern(std::string(255, 'x')).ok());
  EXPECT_EQ(table.Intern(std::string(256, 'x')).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(table.Push(CategoryId{17}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(table.Depth(), 0u);
}

TEST(CategoryTest, NumberOfCategoriesIsBounded) {
  CategoryTable table;
  for (size_t i = 1; i < CategoryTable::kMaxCategories; ++i) {
    ASSERT_TRUE(table.Intern(std::to_string(i)).ok()) << i;
  }
  EXPECT_EQ(table.Intern("one more").status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(table.Intern("77").ok()) << "names that exist are still found";
}

TEST(CategoryTest, StacksOfTwoTablesDoNotMix) {
  CategoryTable a;
  CategoryTable b;
  ASSERT_TRUE(a.Push("a1").ok());
  ASSERT_TRUE(b.Push("b1").ok());
  EXPECT_EQ(a.Name(a.Current()), "a1");
  ASSERT_TRUE(a.Pop().ok());  // Not the top of the thread's entries.
  EXPECT_EQ(a.Depth(), 0u);
  EXPECT_EQ(b.Name(b.Current()), "b1");
  ASSERT_TRUE(b.Pop().ok());
}

TEST(CategoryTest, TableAtTheSameAddressStartsEmpty) {
  alignas(CategoryTable) unsigned char place[sizeof(CategoryTable)];
  auto* first = new (place) CategoryTable;
  ASSERT_TRUE(first->Push("left behind").ok());
  first->~CategoryTable();
  auto* second = new (place) CategoryTable;
  EXPECT_EQ(second->Depth(), 0u);
  EXPECT_EQ(second->Current(), kDefaultCategory);
  second->~CategoryTable();
}

TEST(CategoryTest, ThreadsHaveTheirOwnStacks) {
  CategoryTable table;
  ASSERT_TRUE(table.Push("main").ok());
  std::thread other([&] {
    EXPECT_EQ(table.Current(), kDefaultCategory);
    // Ends inside a scope: nothing may leak (checked under ASan).
    EXPECT_TRUE(table.Push("other").ok());
    EXPECT_EQ(table.Name(table.Current()), "other");
  });
  other.join();
  EXPECT_EQ(table.Name(table.Current()), "main");
  ASSERT_TRUE(table.Pop().ok());
}

TEST(CategoryTest, ScopeEndsItsCategoryOnly) {
  CategoryTable table;
  {
    ScopedCategory outer(&table, "outer");
    {
      ScopedCategory refused(&table, "");
      EXPECT_FALSE(refused.status().ok());
      EXPECT_EQ(table.Name(table.Current()), "outer");
    }
    EXPECT_EQ(table.Name(table.Current()), "outer");
  }
  EXPECT_EQ(table.Depth(), 0u);
}

TEST(CategoryTest, ThreadsThatInternTheSameNamesAgree) {
  CategoryTable table;
  constexpr int kNames = 500;
  std::vector<std::vector<CategoryId>> ids(4, std::vector<CategoryId>(kNames));
  std::vector<std::thread> threads;
  for (auto& mine : ids) {
    threads.emplace_back([&table, &mine] {
      for (int i = 0; i < kNames; ++i) {
        mine[i] = MustIntern(table, "name " + std::to_string(i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& mine : ids) EXPECT_EQ(mine, ids[0]);
  EXPECT_EQ(table.Names().size(), size_t{kNames} + 1);
}

TEST(UsageLedgerTest, CountsByCategoryAndKind) {
  UsageLedger ledger;
  const CategoryId loader = MustIntern(ledger.categories(), "loader");
  ledger.Allocated(loader, UsageKind::kStaged, 1000);
  ledger.Allocated(loader, UsageKind::kStaged, 234);
  ledger.Allocated(kDefaultCategory, UsageKind::kMappedPinned, 5);
  ledger.Released(loader, UsageKind::kStaged, 1000);

  const UsageSnapshot snapshot = ledger.Snapshot();
  const CategoryUsage& usage = Find(snapshot, "loader");
  const UsageAmount& staged =
      usage.by_kind[static_cast<size_t>(UsageKind::kStaged)];
  EXPECT_EQ(staged.current_bytes, 234u);
  EXPECT_EQ(staged.peak_bytes, 1234u);
  EXPECT_EQ(staged.total_bytes, 1234u);
  EXPECT_EQ(staged.current_count, 1u);
  EXPECT_EQ(staged.total_count, 2u);
  EXPECT_EQ(usage.all.current_bytes, 234u);
  EXPECT_EQ(snapshot.kind(UsageKind::kStaged).current_bytes, 234u);
  EXPECT_EQ(snapshot.kind(UsageKind::kMappedPinned).current_bytes, 5u);
  EXPECT_EQ(snapshot.all.current_bytes, 239u);
  EXPECT_EQ(snapshot.all.peak_bytes, 1239u);
  EXPECT_EQ(snapshot.all.total_count, 3u);
  EXPECT_TRUE(ledger.CheckInvariants().ok()) << ledger.CheckInvariants();
}

TEST(UsageLedgerTest, PeakOfCategoryIsOfOneInstant) {
  UsageLedger ledger;
  ledger.Allocated(kDefaultCategory, UsageKind::kStaged, 100);
  ledger.Released(kDefaultCategory, UsageKind::kStaged, 100);
  ledger.Allocated(kDefaultCategory, UsageKind::kMappedPinned, 70);
  const UsageSnapshot snapshot = ledger.Snapshot();
  EXPECT_EQ(snapshot.categories[0].all.peak_bytes, 100u);
  EXPECT_EQ(snapshot.all.peak_bytes, 100u);
}

TEST(UsageLedgerTest, ReallyPinnedCountsArenaNotSmallBlocks) {
  UsageLedger ledger;
  ledger.ArenaPinned(16 * kMiB);
  ledger.Allocated(kDefaultCategory, UsageKind::kSmallPinned, 4096);
  EXPECT_EQ(ledger.pinned_bytes(), 16 * kMiB);
  ledger.Allocated(kDefaultCategory, UsageKind::kRing, 64 * kMiB);
  ledger.Allocated(kDefaultCategory, UsageKind::kStaged, 1000 * kMiB);
  EXPECT_EQ(ledger.pinned_bytes(), 80 * kMiB);
  ledger.Allocated(kDefaultCategory, UsageKind::kMappedPinned, kMiB);
  EXPECT_TRUE(ledger.CheckInvariants().ok()) << ledger.CheckInvariants();
  ledger.Released(kDefaultCategory, UsageKind::kMappedPinned, kMiB);
  ledger.Released(kDefaultCategory, UsageKind::kRing, 64 * kMiB);
  ledger.ArenaUnpinned(16 * kMiB);
  EXPECT_EQ(ledger.pinned_bytes(), 0u);
  EXPECT_EQ(ledger.pinned_peak_bytes(), 81 * kMiB);
}

TEST(UsageLedgerTest, PromotionMovesBytesBetweenKinds) {
  UsageLedger ledger;
  ledger.Allocated(kDefaultCategory, UsageKind::kStaged, 100);
  ledger.Moved(kDefaultCategory, UsageKind::kStaged, UsageKind::kPromoted, 100);
  UsageSnapshot snapshot = ledger.Snapshot();
  EXPECT_EQ(snapshot.kind(UsageKind::kStaged).current_bytes, 0u);
  EXPECT_EQ(snapshot.kind(UsageKind::kStaged).current_count, 0u);
  EXPECT_EQ(snapshot.kind(UsageKind::kPromoted).current_bytes, 100u);
  EXPECT_EQ(snapshot.kind(UsageKind::kPromoted).total_count, 1u);
  EXPECT_EQ(snapshot.all.peak_bytes, 100u) << "not counted twice on the way";
  EXPECT_EQ(snapshot.categories[0].all.peak_bytes, 100u);
  EXPECT_EQ(snapshot.pinned_bytes, 100u);
  EXPECT_TRUE(ledger.CheckInvariants().ok()) << ledger.CheckInvariants();
  ledger.Moved(kDefaultCategory, UsageKind::kPromoted, UsageKind::kMappedPinned,
               100);
  EXPECT_EQ(ledger.pinned_peak_bytes(), 100u);
  ledger.Released(kDefaultCategory, UsageKind::kMappedPinned, 100);
  EXPECT_EQ(ledger.pinned_bytes(), 0u);
  EXPECT_TRUE(ledger.CheckInvariants().ok()) << ledger.CheckInvariants();
}

TEST(UsageLedgerTest, EveryByteReturnsToZeroAfterConcurrentUse) {
  UsageLedger ledger;
  constexpr int kThreads = 4;
  constexpr int kRounds = 20000;
  // Ids of several groups, so that groups are made concurrently too.
  std::vector<CategoryId> ids;
  for (int i = 0; i < 300; ++i) {
    ids.push_back(MustIntern(ledger.categories(), std::to_string(i)));
  }
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (!done.load(std::memory_order_relaxed)) {
      const UsageSnapshot snapshot = ledger.Snapshot();
      uint64_t sum = 0;
      for (const CategoryUsage& category : snapshot.categories) {
        for (const UsageAmount& amount : category.by_kind) {
          ASSERT_LE(amount.current_bytes, amount.peak_bytes);
          ASSERT_LE(amount.current_bytes, amount.total_bytes);
          ASSERT_LE(amount.current_count, amount.total_count);
        }
        sum += category.all.current_bytes;
      }
      ASSERT_EQ(sum, snapshot.all.current_bytes);
      ASSERT_LE(snapshot.pinned_peak_bytes, uint64_t{kThreads} * 1000);
    }
  });
  std::vector<std::thread> threads;
  std::atomic<uint64_t> total{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      uint64_t mine = 0;
      for (int i = 0; i < kRounds; ++i) {
        const CategoryId id = ids[(i * 7 + t * 31) % ids.size()];
        const uint64_t bytes = 1 + (i * 13 + t) % 1000;
        const bool mapped = i % 2 == 0;
        const UsageKind kind =
            mapped ? UsageKind::kMappedPinned : UsageKind::kStaged;
        ledger.Allocated(id, kind, bytes);
        mine += bytes;
        if (!mapped) {
          ledger.Moved(id, kind, UsageKind::kPromoted, bytes);
          ledger.Released(id, UsageKind::kPromoted, bytes);
        } else {
          ledger.Released(id, kind, bytes);
        }
        ledger.Copied(kDefaultCategory, CopyDirection::kHostToDevice,
                      CopyPath::kStagedSync, bytes, i % 3);
      }
      total.fetch_add(mine);
    });
  }
  for (std::thread& thread : threads) thread.join();
  done = true;
  reader.join();

  const UsageSnapshot snapshot = ledger.Snapshot();
  EXPECT_EQ(snapshot.all.current_bytes, 0u);
  EXPECT_EQ(snapshot.all.current_count, 0u);
  EXPECT_EQ(snapshot.pinned_bytes, 0u);
  EXPECT_GE(snapshot.pinned_peak_bytes, 1000u - 13);
  EXPECT_EQ(snapshot.kind(UsageKind::kStaged).total_bytes +
                snapshot.kind(UsageKind::kMappedPinned).total_bytes,
            total.load());
  const CopyUsage& copies =
      snapshot.copy(CopyDirection::kHostToDevice, CopyPath::kStagedSync);
  EXPECT_EQ(copies.count, uint64_t{kThreads} * kRounds);
  EXPECT_EQ(copies.bytes, total.load());
  EXPECT_TRUE(ledger.CheckInvariants().ok()) << ledger.CheckInvariants();
}

TEST(UsageLedgerTest, PinnedPeakIsTrueWhenThreadsHoldAtOnce) {
  UsageLedger ledger;
  std::atomic<int> holding{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      ledger.Allocated(kDefaultCategory, UsageKind::kRing, 10);
      holding.fetch_add(1);
      while (holding.load() < 4) std::this_thread::yield();
      ledger.Released(kDefaultCategory, UsageKind::kRing, 10);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ledger.pinned_peak_bytes(), 40u);
  EXPECT_EQ(ledger.pinned_bytes(), 0u);
}

TEST(UsageLedgerTest, CopiesAreCountedByDirectionAndPath) {
  UsageLedger ledger;
  ledger.Copied(kDefaultCategory, CopyDirection::kHostToDevice,
                CopyPath::kStagedIdle, 100, 7);
  ledger.Copied(kDefaultCategory, CopyDirection::kHostToDevice,
                CopyPath::kStagedIdle, 0);
  ledger.Copied(kDefaultCategory, CopyDirection::kDeviceToHost,
                CopyPath::kPassed, 5);
  const UsageSnapshot snapshot = ledger.Snapshot();
  const CopyUsage& idle =
      snapshot.copy(CopyDirection::kHostToDevice, CopyPath::kStagedIdle);
  EXPECT_EQ(idle.bytes, 100u);
  EXPECT_EQ(idle.count, 2u);
  EXPECT_EQ(idle.wait_ns, 7u);
  EXPECT_EQ(
      snapshot.copy(CopyDirection::kDeviceToHost, CopyPath::kPassed).bytes, 5u);
  EXPECT_EQ(
      snapshot.copy(CopyDirection::kHostToDevice, CopyPath::kPassed).count, 0u);
}

TEST(UsageLedgerTest, FirstOfAnEventIsKnownToItsCaller) {
  UsageLedger ledger;
  EXPECT_EQ(ledger.Count(UsageEvent::kSmallPoolFull), 0u);
  EXPECT_EQ(ledger.Count(UsageEvent::kSmallPoolFull, 3), 1u);
  EXPECT_EQ(ledger.Count(UsageEvent::kRingRefused), 0u);
  EXPECT_EQ(ledger.Snapshot().event(UsageEvent::kSmallPoolFull), 4u);
}

TEST(UsageLedgerTest, CopiesOfACategoryAreItsOwn) {
  UsageLedger ledger;
  const CategoryId far = MustIntern(ledger.categories(), "far");
  ledger.Copied(far, CopyDirection::kHostToDevice, CopyPath::kStagedSync, 10);
  ledger.Copied(kDefaultCategory, CopyDirection::kHostToDevice,
                CopyPath::kStagedSync, 5, 2);
  const UsageSnapshot snapshot = ledger.Snapshot();
  const auto d = static_cast<size_t>(CopyDirection::kHostToDevice);
  const auto p = static_cast<size_t>(CopyPath::kStagedSync);
  EXPECT_EQ(Find(snapshot, "far").copies[d][p].bytes, 10u);
  EXPECT_EQ(Find(snapshot, "default").copies[d][p].bytes, 5u);
  EXPECT_EQ(snapshot.copies[d][p].bytes, 15u);
  EXPECT_EQ(snapshot.copies[d][p].wait_ns, 2u);
}

TEST(UsageLedgerTest, AHardLimitRefusesWhatIsBeyondItAndLosesNothing) {
  UsageLedger ledger;
  const CategoryId id = MustIntern(ledger.categories(), "loader");
  ledger.SetLimits(id, {0, 100});
  EXPECT_TRUE(ledger.TryAllocated(id, UsageKind::kMappedPinned, 60));
  EXPECT_FALSE(ledger.TryAllocated(id, UsageKind::kStaged, 41));
  EXPECT_TRUE(ledger.TryAllocated(id, UsageKind::kStaged, 40));
  EXPECT_FALSE(ledger.TryAllocated(id, UsageKind::kStaged,
                                   std::numeric_limits<uint64_t>::max()));
  // Another category has no part in it.
  EXPECT_TRUE(ledger.TryAllocated(kDefaultCategory, UsageKind::kStaged, 1000));
  EXPECT_EQ(ledger.pinned_bytes(), 60u);
  UsageSnapshot snapshot = ledger.Snapshot();
  EXPECT_EQ(Find(snapshot, "loader").all.current_bytes, 100u);
  EXPECT_EQ(Find(snapshot, "loader").all.total_count, 2u);
  EXPECT_EQ(Find(snapshot, "loader").hard_limit_bytes, 100u);
  EXPECT_EQ(snapshot.event(UsageEvent::kCategoryRefused), 2u);
  ledger.Released(id, UsageKind::kStaged, 40);
  EXPECT_TRUE(ledger.TryAllocated(id, UsageKind::kStaged, 40));
  ledger.SetLimits(id, {});
  EXPECT_TRUE(ledger.TryAllocated(id, UsageKind::kStaged, 1000));
  EXPECT_TRUE(ledger.CheckInvariants().ok());
}

std::atomic<int> warnings_of_soft{0};
std::atomic<int> warnings_of_hard{0};

TEST(UsageLedgerTest, EachLimitWarnsOnceACategory) {
  UsageLedger ledger;
  ledger.SetWarning([](const UsageLedger&, CategoryId, UsageEvent event) {
    ++(event == UsageEvent::kCategoryRefused ? warnings_of_hard
                                             : warnings_of_soft);
  });
  const CategoryId a = MustIntern(ledger.categories(), "a");
  const CategoryId b = MustIntern(ledger.categories(), "b");
  ledger.SetLimits(a, {10, 20});
  ledger.SetLimits(b, {10, 0});
  EXPECT_TRUE(ledger.TryAllocated(a, UsageKind::kStaged, 10));
  EXPECT_EQ(warnings_of_soft, 0);  // at it, not beyond
  EXPECT_TRUE(ledger.TryAllocated(a, UsageKind::kStaged, 1));
  EXPECT_TRUE(ledger.TryAllocated(a, UsageKind::kStaged, 1));
  EXPECT_EQ(warnings_of_soft, 1);
  EXPECT_TRUE(ledger.TryAllocated(b, UsageKind::kStaged, 11));
  EXPECT_EQ(warnings_of_soft, 2);
  EXPECT_FALSE(ledger.TryAllocated(a, UsageKind::kStaged, 100));
  EXPECT_FALSE(ledger.TryAllocated(a, UsageKind::kStaged, 100));
  EXPECT_EQ(warnings_of_hard, 1);
  EXPECT_EQ(ledger.Snapshot().event(UsageEvent::kCategoryOverLimit), 3u);
}

TEST(UsageLedgerTest, ThreadsNeverBringACategoryBeyondItsHardLimit) {
  UsageLedger ledger;
  const CategoryId id = MustIntern(ledger.categories(), "shared");
  ledger.SetLimits(id, {0, 1000});
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20000; ++i) {
        const auto bytes = static_cast<uint64_t>(100 + (i * 7 + t) % 300);
        if (!ledger.TryAllocated(id, UsageKind::kStaged, bytes)) {
          ++refused;
          continue;
        }
        if (i % 16 == 0) std::this_thread::yield();
        ledger.Released(id, UsageKind::kStaged, bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const UsageSnapshot snapshot = ledger.Snapshot();
  EXPECT_LE(Find(snapshot, "shared").all.peak_bytes, 1000u);
  EXPECT_EQ(Find(snapshot, "shared").all.current_bytes, 0u);
  EXPECT_EQ(snapshot.event(UsageEvent::kCategoryRefused),
            static_cast<uint64_t>(refused));
  EXPECT_TRUE(ledger.CheckInvariants().ok());
}

TEST(UsageLedgerTest, PeaksSinceAMarkBeginAtWhatIsHeldThen) {
  UsageLedger ledger;
  const CategoryId id = MustIntern(ledger.categories(), "step");
  ledger.Allocated(id, UsageKind::kMappedPinned, 100);
  ledger.Released(id, UsageKind::kMappedPinned, 70);
  ledger.Mark();
  UsageSnapshot snapshot = ledger.Snapshot();
  EXPECT_EQ(Find(snapshot, "step").all.peak_bytes, 100u);
  EXPECT_EQ(Find(snapshot, "step").all.marked_peak_bytes, 30u);
  EXPECT_EQ(snapshot.pinned_marked_peak_bytes, 30u);
  ledger.Allocated(id, UsageKind::kMappedPinned, 20);
  ledger.Released(id, UsageKind::kMappedPinned, 50);
  snapshot = ledger.Snapshot();
  for (const UsageAmount& amount : {Find(snapshot, "step").all, snapshot.all,
                                    snapshot.kind(UsageKind::kMappedPinned)}) {
    EXPECT_EQ(amount.peak_bytes, 100u);
    EXPECT_EQ(amount.marked_peak_bytes, 50u);
    EXPECT_EQ(amount.current_bytes, 0u);
  }
  EXPECT_EQ(snapshot.pinned_marked_peak_bytes, 50u);
  EXPECT_EQ(snapshot.pinned_peak_bytes, 100u);
}

// At every instant, under threads that allocate, free and copy.
TEST(UsageLedgerTest, TotalsAreTheSumsOfThousandsOfCategories) {
  constexpr size_t kCategories = 3000;
  constexpr int kThreads = 4;
  UsageLedger ledger;
  std::vector<CategoryId> ids;
  for (size_t i = 0; i < kCategories; ++i) {
    ids.push_back(
        MustIntern(ledger.categories(), "category " + std::to_string(i)));
  }
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 30000; ++i) {
        const CategoryId id =
            ids[(i * 31 + static_cast<size_t>(t)) % kCategories];
        ledger.Allocated(id, UsageKind::kStaged, i);
        ledger.Copied(id, CopyDirection::kHostToDevice,
                      CopyPath::kStagedDeferred, i);
        ledger.Released(id, UsageKind::kStaged, i);
      }
      --running;
    });
  }
  const auto check = [&ledger] {
    const UsageSnapshot snapshot = ledger.Snapshot();
    const auto d = static_cast<size_t>(CopyDirection::kHostToDevice);
    const auto p = static_cast<size_t>(CopyPath::kStagedDeferred);
    UsageAmount sum;
    uint64_t copied = 0;
    uint64_t copies = 0;
    for (const CategoryUsage& category : snapshot.categories) {
      sum.current_bytes += category.all.current_bytes;
      sum.total_bytes += category.all.total_bytes;
      sum.total_count += category.all.total_count;
      copied += category.copies[d][p].bytes;
      copies += category.copies[d][p].count;
    }
    EXPECT_EQ(sum.current_bytes, snapshot.all.current_bytes);
    EXPECT_EQ(sum.total_bytes, snapshot.all.total_bytes);
    EXPECT_EQ(sum.total_count, snapshot.all.total_count);
    EXPECT_EQ(copied, snapshot.copies[d][p].bytes);
    EXPECT_EQ(copies, snapshot.copies[d][p].count);
    return snapshot.copies[d][p].count;
  };
  while (running > 0) check();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(check(), uint64_t{kThreads} * 30000);
  EXPECT_TRUE(ledger.CheckInvariants().ok());
}

TEST(UsagePrintTest, HumanBytesNeverShowsAThousandOfAUnit) {
  EXPECT_EQ(HumanBytes(0), "0 B");
  EXPECT_EQ(HumanBytes(1023), "1023 B");
  EXPECT_EQ(HumanBytes(1024), "1.0 KiB");
  EXPECT_EQ(HumanBytes(1536), "1.5 KiB");
  EXPECT_EQ(HumanBytes(kMiB - 1), "1.0 MiB");
  EXPECT_EQ(HumanBytes(64 * kMiB), "64.0 MiB");
  EXPECT_EQ(HumanBytes(uint64_t{8} << 30), "8.0 GiB");
  EXPECT_EQ(HumanBytes(std::numeric_limits<uint64_t>::max()), "16.0 EiB");
}

TEST(UsagePrintTest, ExactCountGroupsDigits) {
  EXPECT_EQ(ExactCount(0), "0");
  EXPECT_EQ(ExactCount(999), "999");
  EXPECT_EQ(ExactCount(1000), "1,000");
  EXPECT_EQ(ExactCount(67108864), "67,108,864");
  EXPECT_EQ(ExactCount(std::numeric_limits<uint64_t>::max()),
            "18,446,744,073,709,551,615");
}

TEST(UsagePrintTest, TextShowsHumanAndExactBytes) {
  UsageLedger ledger;
  const CategoryId id = MustIntern(ledger.categories(), "data loader");
  ledger.Allocated(id, UsageKind::kStaged, 64 * kMiB + 1);
  ledger.Copied(kDefaultCategory, CopyDirection::kHostToDevice,
                CopyPath::kStagedDeferred, 2048, 1'500'000);
  ledger.Count(UsageEvent::kSmallPoolFull);
  UsageSnapshot snapshot = ledger.Snapshot();
  std::string text = FormatUsageText(snapshot);
  EXPECT_TRUE(Has(text, "data loader  staged")) << text;
  EXPECT_TRUE(Has(text, "64.0 MiB (67,108,865)")) << text;
  EXPECT_TRUE(Has(text, "staged_deferred")) << text;
  EXPECT_TRUE(Has(text, "1.500 ms")) << text;
  EXPECT_TRUE(Has(text, "1 small blocks staged")) << text;
  EXPECT_TRUE(Has(text, "limit not set")) << text;
  EXPECT_FALSE(Has(text, "quarantined")) << text << "it never happened";
  snapshot.pinned_limit_bytes = 96 * kMiB;
  EXPECT_TRUE(Has(FormatUsageText(snapshot), "limit 96.0 MiB (100,663,296)"));
}

TEST(UsagePrintTest, EmptyLedgerPrints) {
  UsageLedger ledger;
  const std::string text = FormatUsageText(ledger.Snapshot());
  EXPECT_TRUE(Has(text, "nothing allocated")) << text;
  EXPECT_TRUE(Has(text, "Fallbacks:\n  none\n")) << text;
}

TEST(UsagePrintTest, TextColumnsLineUp) {
  UsageLedger ledger;
  ledger.Allocated(MustIntern(ledger.categories(), "a"), UsageKind::kStaged, 1);
  ledger.Allocated(MustIntern(ledger.categories(), "much longer"),
                   UsageKind::kMappedPinned, 10 * kMiB);
  const std::string text = FormatUsageText(ledger.Snapshot());
  const size_t begin = text.find("By category:\n") + 13;
  size_t previous = 0;
  size_t lines = 0;
  for (size_t at = begin; text[at] != '\n'; at = text.find('\n', at) + 1) {
    const size_t length = text.find('\n', at) - at;
    if (lines++ != 0) {
      EXPECT_EQ(length, previous);
    }
    previous = length;
  }
  EXPECT_EQ(lines, 3u);
}

TEST(UsagePrintTest, NamesWithControlCharactersDoNotReachTheTerminal) {
  UsageLedger ledger;
  ledger.Allocated(MustIntern(ledger.categories(), "evil\x1b[2J\n"),
                   UsageKind::kStaged, 1);
  EXPECT_TRUE(Has(FormatUsageText(ledger.Snapshot()), "evil\\x1b[2J\\n"));
}

TEST(UsagePrintTest, JsonHasEveryFigure) {
  UsageLedger ledger;
  const CategoryId id = MustIntern(ledger.categories(), "say \"hi\"\\\n");
  ledger.SetLimits(id, {1, 0});
  ledger.Allocated(id, UsageKind::kStaged, 9007199254740993);
  ledger.Mark();
  ledger.Copied(id, CopyDirection::kDeviceToHost, CopyPath::kPageableFallback,
                3, 4);
  ledger.Count(UsageEvent::kPageableFallback);
  const auto amount = [](const std::string& n, const std::string& count) {
    return "{\"current_bytes\":" + n + ",\"peak_bytes\":" + n +
           ",\"peak_since_mark_bytes\":" + n + ",\"total_bytes\":" + n +
           ",\"current_count\":" + count + ",\"total_count\":" + count + "}";
  };
  const std::string none = amount("0", "0");
  const std::string one = amount("9007199254740993", "1");
  const std::string copies =
      "\"copies\":[{\"direction\":\"device_to_host\","
      "\"path\":\"pageable_fallback\",\"bytes\":3,\"count\":1,"
      "\"wait_ns\":4}]";
  EXPECT_EQ(FormatUsageJson(ledger.Snapshot()),
            "{\"schema\":\"pinring.usage\",\"version\":1,"
            "\"pinned\":{\"current_bytes\":0,\"peak_bytes\":0,"
            "\"peak_since_mark_bytes\":0,\"limit_bytes\":0},"
            "\"all\":" +
                one + ",\"kinds\":{\"staged\":" + one +
                ",\"small_pinned\":" + none + ",\"mapped_pinned\":" + none +
                ",\"promoted\":" + none + ",\"ring\":" + none +
                "},\"categories\":[{\"name\":\"default\",\"all\":" + none +
                ",\"kinds\":{},\"soft_limit_bytes\":0,\"hard_limit_bytes\":0,"
                "\"copies\":[]},"
                "{\"name\":\"say \\\"hi\\\"\\\\\\n\",\"all\":" +
                one + ",\"kinds\":{\"staged\":" + one +
                "},\"soft_limit_bytes\":1,\"hard_limit_bytes\":0," + copies +
                "}]," + copies +
                ",\"events\":{\"small_pool_full\":0,\"ring_refused\":0,"
                "\"promoted_no_slot\":0,\"promotion_refused\":0,"
                "\"pageable_fallback\":1,\"slot_quarantined\":0,"
                "\"budget_refused\":0,\"stream_memory_ops_absent\":0,"
                "\"promoted_on_use\":0,\"category_over_limit\":1,"
                "\"category_refused\":0}}");
}

std::string Quoted(std::string_view value) {
  JsonWriter json;
  json.String(value);
  return std::move(json).Take();
}

TEST(JsonWriterTest, StringsAreEscaped) {
  EXPECT_EQ(Quoted("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(Quoted(std::string_view("\0\x1f\n\t\x7f", 5)),
            "\"\\u0000\\u001f\\n\\t\\u007f\"");
  EXPECT_EQ(Quoted("h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82"),
            "\"h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x99\x82\"");
}

TEST(JsonWriterTest, BytesThatAreNotUtf8AreReplaced) {
  const std::string replaced = "\xef\xbf\xbd";
  EXPECT_EQ(Quoted("a\xff"
                   "b"),
            "\"a" + replaced + "b\"");
  EXPECT_EQ(Quoted("\xc3"), "\"" + replaced + "\"") << "cut off";
  EXPECT_EQ(Quoted("\xc0\x80"), "\"" + replaced + replaced + "\"")
      << "overlong";
  EXPECT_EQ(Quoted("\xed\xa0\x80"),
            "\"" + replaced + replaced + replaced + "\"")
      << "a surrogate";
  EXPECT_EQ(Quoted("\xf4\x90\x80\x80"),
            "\"" + replaced + replaced + replaced + replaced + "\"")
      << "beyond U+10FFFF";
}

TEST(JsonWriterTest, CommasAndNesting) {
  JsonWriter json;
  json.BeginArray();
  json.Number(uint64_t{1});
  json.Number(int64_t{-2});
  json.BeginObject();
  json.EndObject();
  json.BeginObject();
  json.Field("a", uint64_t{1});
  json.Key("b");
  json.BeginArray();
  json.Bool(true);
  json.Null();
  json.EndArray();
  json.Field("c", "d");
  json.EndObject();
  json.Number(0.5);
  json.Number(std::numeric_limits<double>::infinity());
  json.EndArray();
  EXPECT_EQ(std::move(json).Take(),
            R"([1,-2,{},{"a":1,"b":[true,null],"c":"d"},0.5,null])");
}

}  // namespace
}  // namespace pinring
