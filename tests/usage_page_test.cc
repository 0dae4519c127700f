// Usage that processes show each other: what readers see of live, dead and
// half-dead writers.

#include "src/usage/usage_page.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "src/os/shared_file.h"
#include "src/os/threads.h"
#include "src/usage/usage_ledger.h"

#if defined(__linux__)
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#endif

namespace pinring {
namespace {

// Of this process, among those of the user.
std::optional<PublishedProcess> Mine(uint64_t instance,
                                     int64_t pid = os::ProcessId()) {
  auto processes = ReadPublished();
  EXPECT_TRUE(processes.ok()) << processes.status();
  if (!processes.ok()) return std::nullopt;
  for (PublishedProcess& process : *processes) {
    if (process.pid == pid && process.instance == instance) return process;
  }
  return std::nullopt;
}

struct Published {
  explicit Published(uint64_t instance) : publisher(&ledger, instance, 77) {
    ledger.SetObserver(&publisher);
  }
  ~Published() {
    ledger.SetObserver(nullptr);
    publisher.Stop();
  }
  UsageLedger ledger;
  UsagePublisher publisher;
};

TEST(UsagePageTest, NothingIsShownBeforeTheFirstAllocationNorAfterTheEnd) {
  {
    Published shown(101);
    EXPECT_FALSE(Mine(101).has_value());
    shown.ledger.Allocated(kDefaultCategory, UsageKind::kStaged, 4096);
    const auto mine = Mine(101);
    ASSERT_TRUE(mine.has_value());
    EXPECT_EQ(mine->usage.all_bytes, 4096u);
    EXPECT_EQ(mine->usage.pinned_limit_bytes, 77u);
    EXPECT_FALSE(mine->behind);
    EXPECT_FALSE(mine->program.empty());
    ASSERT_EQ(mine->usage.category_count, 1u);
    EXPECT_STREQ(mine->usage.categories[0].name, "default");
  }
  EXPECT_FALSE(Mine(101).has_value());
}

TEST(UsagePageTest, ACopyAnswersWhoAsks) {
  Published shown(102);
  shown.ledger.Allocated(kDefaultCategory, UsageKind::kStaged, 4096);
  const auto copy = [&shown] {
    shown.ledger.Copied(kDefaultCategory, CopyDirection::kHostToDevice,
                        CopyPath::kStagedSync, 10);
  };
  const auto copied = [] {
    const auto mine = Mine(102);
    return mine->usage.categories[0].copies[0][1].bytes;
  };
  copy();
  EXPECT_EQ(copied(), 0u);
  EXPECT_TRUE(Mine(102)->behind);
  ASSERT_TRUE(RequestPublished().ok());
  copy();
  EXPECT_EQ(copied(), 20u);
  EXPECT_FALSE(Mine(102)->behind);
  // One answer to one question.
  copy();
  EXPECT_EQ(copied(), 20u);
  EXPECT_TRUE(Mine(102)->behind);
}

TEST(UsagePageTest, SumsAreKeptWhereThereAreTooManyCategories) {
  UsageLedger ledger;
  uint64_t bytes = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto id = ledger.categories().Intern(absl::StrCat("c", i));
    ASSERT_TRUE(id.ok());
    ledger.Allocated(*id, UsageKind::kStaged, static_cast<uint64_t>(i));
    bytes += static_cast<uint64_t>(i);
  }
  auto usage = std::make_unique<PublishedUsage>();
  FillPublished(ledger.Snapshot(), usage.get());
  EXPECT_EQ(usage->category_count, 1000u);
  EXPECT_STREQ(usage->categories[0].name, "c999");
  EXPECT_STREQ(usage->categories[PublishedUsage::kMostCategories - 1].name,
               "(others)");
  uint64_t sum = 0;
  for (const PublishedCategory& category : usage->categories) {
    sum += category.current_bytes;
  }
  EXPECT_EQ(sum, bytes);
  EXPECT_EQ(usage->all_bytes, bytes);
}

// Every word of a writing is the same, so a mixture shows.
TEST(UsagePageTest, ReadersSeeOneMomentOrNothing) {
  auto page = std::make_unique<UsagePage>();
  page->sequence.store(0);
  std::atomic<bool> stop{false};
  auto filled = std::make_unique<PublishedUsage>();
  std::memset(static_cast<void*>(filled.get()), 1, sizeof(PublishedUsage));
  page->Write(*filled);
  std::thread writer([&] {
    auto usage = std::make_unique<PublishedUsage>();
    for (int i = 0; !stop; ++i) {
      std::memset(static_cast<void*>(usage.get()), i % 250,
                  sizeof(PublishedUsage));
      page->Write(*usage);
    }
  });
  int seen = 0;
  for (int i = 0; i < 300; ++i) {
    const auto usage = page->Read();
    if (!usage.has_value()) continue;
    ++seen;
    const auto* words = reinterpret_cast<const unsigned char*>(&*usage);
    for (size_t at = 1; at < sizeof(PublishedUsage); ++at) {
      ASSERT_EQ(words[at], words[0]) << at;
    }
  }
  stop = true;
  writer.join();
  EXPECT_TRUE(page->Read().has_value());
  EXPECT_GT(seen, 0);
}

TEST(UsagePageTest, AWritingThatNeverEndsIsGivenUp) {
  auto page = std::make_unique<UsagePage>();
  page->sequence.store(3);
  EXPECT_FALSE(page->Read().has_value());
}

TEST(UsagePageTest, ThreadsPublishAtOnce) {
  Published shown(103);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&shown] {
      for (int i = 0; i < 3000; ++i) {
        shown.ledger.Allocated(kDefaultCategory, UsageKind::kStaged, 100);
        shown.ledger.Copied(kDefaultCategory, CopyDirection::kDeviceToHost,
                            CopyPath::kStagedSync, 1);
        shown.ledger.Released(kDefaultCategory, UsageKind::kStaged, 100);
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(RequestPublished().ok());
    if (const auto mine = Mine(103); mine.has_value()) {
      EXPECT_LE(mine->usage.all_bytes, 400u);
    }
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(RequestPublished().ok());
  shown.ledger.Copied(kDefaultCategory, CopyDirection::kDeviceToHost,
                      CopyPath::kStagedSync, 1);
  EXPECT_EQ(Mine(103)->usage.categories[0].copies[1][1].bytes, 12001u);
  EXPECT_EQ(Mine(103)->usage.all_bytes, 0u);
}

// The first allocations of several threads: one of them makes the page, and
// nobody makes another while it is in use.
TEST(UsagePageTest, ThreadsOpenItAtOnce) {
  constexpr int kThreads = 8;
  constexpr uint64_t kRounds = 100;
  for (uint64_t round = 0; round < kRounds; ++round) {
    Published shown(1000 + round);
    std::atomic<int> there{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&shown, &there] {
        ++there;
        while (there < kThreads) std::this_thread::yield();
        for (int i = 0; i < 20; ++i) {
          shown.ledger.Allocated(kDefaultCategory, UsageKind::kStaged, 100);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_TRUE(RequestPublished().ok());
    shown.ledger.Copied(kDefaultCategory, CopyDirection::kDeviceToHost,
                        CopyPath::kStagedSync, 1);
    const auto mine = Mine(1000 + round);
    ASSERT_TRUE(mine.has_value());
    EXPECT_EQ(mine->usage.all_bytes, kThreads * 20 * 100u);
  }
}

#if defined(__linux__)

std::string PathOf(int64_t pid, uint64_t instance) {
  return "/dev/shm/pinring." + std::to_string(::geteuid()) + ".usage." +
         std::to_string(pid) + "." + std::to_string(instance);
}

TEST(UsagePageTest, NoOtherUserCanReadIt) {
  Published shown(104);
  shown.ledger.Allocated(kDefaultCategory, UsageKind::kStaged, 1);
  struct stat status {};
  ASSERT_EQ(::stat(PathOf(os::ProcessId(), 104).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  // A page that others can write is not believed.
  ASSERT_EQ(::chmod(PathOf(os::ProcessId(), 104).c_str(), 0606), 0);
  EXPECT_FALSE(Mine(104).has_value());
}

TEST(UsagePageTest, TheFileOfAProcessThatWasKilledIsRemoved) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto* const shown = new Published(105);  // Never destroyed.
    shown->ledger.Allocated(kDefaultCategory, UsageKind::kStaged, 1);
    (void)!::write(ready[1], "x", 1);
    for (;;) ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_TRUE(Mine(105, child).has_value());
  EXPECT_EQ(::access(PathOf(child, 105).c_str(), F_OK), 0);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(Mine(105, child).has_value());
  EXPECT_NE(::access(PathOf(child, 105).c_str(), F_OK), 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(UsagePageTest, AChildOfForkDoesNotWriteToItsParentsPage) {
  Published shown(106);
  shown.ledger.Allocated(kDefaultCategory, UsageKind::kStaged, 500);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    shown.publisher.Abandon();
    shown.ledger.Released(kDefaultCategory, UsageKind::kStaged, 500);
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const auto mine = Mine(106);
  ASSERT_TRUE(mine.has_value());
  EXPECT_EQ(mine->usage.all_bytes, 500u);
}

#endif

TEST(SharedFileTest, SmallFilesAndOtherPrefixesArePassedOver) {
  auto file = os::SharedFile::Create("test.small", 4096, [](void* data) {
    static_cast<char*>(data)[0] = 'x';
  });
  ASSERT_TRUE(file.ok()) << file.status();
  int visits = 0;
  const auto count = [&visits](const std::string& name, void* data, size_t) {
    EXPECT_EQ(name, "test.small");
    EXPECT_EQ(static_cast<char*>(data)[0], 'x');
    ++visits;
  };
  ASSERT_TRUE(os::ForEachSharedFile("test.", 4096, count).ok());
  EXPECT_EQ(visits, 1);
  ASSERT_TRUE(os::ForEachSharedFile("test.", 4097, count).ok());
  ASSERT_TRUE(os::ForEachSharedFile("tests.", 1, count).ok());
  EXPECT_EQ(visits, 1);
}

}  // namespace
}  // namespace pinring
