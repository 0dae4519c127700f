// A process shows its usage to others of the same user: a page of shared memory
// that `pinring top` reads.
//
// No thread publishes. A reader raises a number in the page, and the next
// allocation or copy of the process answers by writing the figures; allocations
// do so unasked as well, as often as costs them no more than a hundredth of the
// time. A copy that nobody asks about costs two loads. What happened since the
// figures were written is marked as such (`behind`), not guessed. The
// alternative, counters that live in the page themselves, would be written by
// the children of fork as well.
//
// Figures are written under a sequence number, odd meanwhile: readers take no
// lock and see all of one moment or nothing. A writer that died half-way leaves
// an odd number, which readers give up on.
#ifndef PINRING_SRC_USAGE_USAGE_PAGE_H_
#define PINRING_SRC_USAGE_USAGE_PAGE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/os/shared_file.h"
#include "src/usage/usage_kinds.h"
#include "src/usage/usage_ledger.h"
#include "src/usage/usage_snapshot.h"

namespace pinring {

// Plain words, so that a process of the same version can read them.
struct PublishedCategory {
  static constexpr size_t kNameBytes = 64;
  char name[kNameBytes];  // cut to fit, ends with a zero byte
  uint64_t current_bytes;
  uint64_t peak_bytes;
  uint64_t blocks;
  uint64_t kinds[kNumUsageKinds];  // current bytes
  CopyUsage copies[kNumCopyDirections][kNumCopyPaths];
};

struct PublishedUsage {
  // Categories beyond that are summed up in the last, "(others)".
  static constexpr size_t kMostCategories = 64;

  uint64_t time_ns;  // os::MonotonicNanos
  uint64_t pinned_bytes;
  uint64_t pinned_peak_bytes;
  uint64_t pinned_limit_bytes;
  uint64_t all_bytes;
  uint64_t all_peak_bytes;
  uint64_t kinds[kNumUsageKinds];
  uint64_t kind_peaks[kNumUsageKinds];
  uint64_t events[kNumUsageEvents];
  uint64_t category_count;
  PublishedCategory categories[kMostCategories];
};
static_assert(std::is_trivially_copyable_v<PublishedUsage>);
static_assert(sizeof(PublishedUsage) % sizeof(uint64_t) == 0);

// The categories that hold most first; sums are kept.
void FillPublished(const UsageSnapshot& snapshot, PublishedUsage* usage);

// What lies in the shared memory.
struct UsagePage {
  static constexpr uint64_t kMagic = 0x676e69726e6970ff;
  static constexpr uint32_t kVersion = 1;
  static constexpr size_t kWords = sizeof(PublishedUsage) / sizeof(uint64_t);

  uint64_t magic;
  uint32_t version;
  uint32_t bytes;  // of all of it
  int64_t pid;
  uint64_t instance;
  char program[64];
  alignas(64) std::atomic<uint64_t> requested;
  alignas(64) std::atomic<uint64_t> sequence;
  std::atomic<uint32_t> behind;  // something happened since
  alignas(64) std::array<std::atomic<uint64_t>, kWords> words;

  // For one writer at a time.
  void Write(const PublishedUsage& usage);
  // Nothing where the writer does not come to an end.
  std::optional<PublishedUsage> Read() const;
};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// Publishes a ledger from its first allocation on. Thread-safe.
class UsagePublisher final : public UsageObserver {
 public:
  // `ledger` outlives it. `instance` tells those of one process apart.
  UsagePublisher(const UsageLedger* ledger, uint64_t instance,
                 uint64_t pinned_limit_bytes);

  void AfterAllocation() override;
  void AfterCopy() override {
    UsagePage* const page = page_.load(std::memory_order_acquire);
    if (page == nullptr) return;
    if (page->requested.load(std::memory_order_relaxed) !=
        answered_.load(std::memory_order_relaxed)) {
      return Publish(*page);
    }
    if (page->behind.load(std::memory_order_relaxed) == 0) {
      page->behind.store(1, std::memory_order_relaxed);
    }
  }

  // In the child of fork: the page is the parent's.
  void Abandon();
  // Takes the page away; nothing is published any more. Nobody else calls
  // meanwhile, or what they write goes to nobody.
  void Stop();

 private:
  void Open();
  void MakePage();  // by the thread that is busy_
  void Publish(UsagePage& page);

  const UsageLedger& ledger_;
  const uint64_t instance_;
  const uint64_t pinned_limit_bytes_;
  std::atomic<UsagePage*> page_{nullptr};
  std::atomic<bool> busy_{false};    // a thread opens or publishes
  std::atomic<bool> closed_{false};  // could not be opened, or stopped
  std::atomic<uint64_t> answered_{0};
  std::atomic<uint64_t> next_ns_{0};  // when an allocation publishes again
  std::optional<os::SharedFile> file_;
};

struct PublishedProcess {
  int64_t pid = 0;
  uint64_t instance = 0;
  std::string program;
  bool behind = false;
  PublishedUsage usage;
};

// Asks all processes of the user for new figures. Errors: the system's.
absl::Status RequestPublished();
// What they wrote last. Those that died are forgotten, and those of another
// version are passed over. Errors: the system's.
absl::StatusOr<std::vector<PublishedProcess>> ReadPublished();

}  // namespace pinring

#endif  // PINRING_SRC_USAGE_USAGE_PAGE_H_
