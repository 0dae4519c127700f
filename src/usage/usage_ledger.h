// UsageLedger: every byte of host memory by category and kind, every copy by
// direction and path, every fallback.
//
// Thread-safe; recording takes no lock and allocates nothing (but for the
// first block of each group of 64 categories), so that it costs a copy a few
// nanoseconds, however many categories there are. Nothing rounds and nothing
// is sampled: when all is released, all current figures are zero.
//
//   UsageLedger ledger;
//   const CategoryId category = ledger.categories().Current();
//   ledger.Allocated(category, UsageKind::kStaged, bytes);
//   ...
//   ledger.Released(category, UsageKind::kStaged, bytes);
//   std::string text = FormatUsageText(ledger.Snapshot());
//
// To keep the peak of really pinned bytes a true one, record a pinning before
// the call that pins and an unpinning after the call that unpins.
#ifndef PINRING_SRC_USAGE_USAGE_LEDGER_H_
#define PINRING_SRC_USAGE_USAGE_LEDGER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "src/usage/category.h"
#include "src/usage/usage_kinds.h"
#include "src/usage/usage_snapshot.h"

namespace pinring {

// Told of what a ledger recorded, by the thread that did it. Not of the ring,
// whose makers hold locks.
class UsageObserver {
 public:
  virtual ~UsageObserver() = default;
  virtual void AfterAllocation() = 0;  // or a release, or a promotion
  virtual void AfterCopy() = 0;
};

class UsageLedger {
 public:
  UsageLedger();
  UsageLedger(const UsageLedger&) = delete;
  UsageLedger& operator=(const UsageLedger&) = delete;
  ~UsageLedger();

  CategoryTable& categories() { return categories_; }
  const CategoryTable& categories() const { return categories_; }

  // One block of `bytes` came or went. What was recorded as allocated must be
  // recorded as released with the same category, kind and bytes.
  void Allocated(CategoryId category, UsageKind kind, uint64_t bytes);
  void Released(CategoryId category, UsageKind kind, uint64_t bytes);

  // The same, unless it would bring the category beyond its hard limit: then
  // nothing is recorded but the refusal, and the answer is no.
  [[nodiscard]] bool TryAllocated(CategoryId category, UsageKind kind,
                                  uint64_t bytes);

  // Limits over all kinds of a category, from now on; 0: none. Beyond the soft
  // one allocations are counted, and the first time there is something to say;
  // at no instant does TryAllocated bring it beyond the hard one.
  struct Limits {
    uint64_t soft_bytes = 0;
    uint64_t hard_bytes = 0;
  };
  void SetLimits(CategoryId category, Limits limits);
  Limits LimitsOf(CategoryId category) const;
  // Called once a category, the first time a limit of it has effect. Set before
  // the ledger is used; may be called by several threads at once.
  using Warning = void (*)(const UsageLedger& ledger, CategoryId category,
                           UsageEvent event);
  void SetWarning(Warning warning) { warning_ = warning; }
  uint64_t CategoryBytes(CategoryId category) const;

  // Null: nobody. Set before the ledger is used, or by nobody's harm.
  void SetObserver(UsageObserver* observer) {
    observer_.store(observer, std::memory_order_release);
  }

  // The marked peaks begin anew, at the current figures.
  void Mark();

  // One block became another kind (a promotion). The category's sum over all
  // kinds, and so its peak, does not change.
  void Moved(CategoryId category, UsageKind from, UsageKind to, uint64_t bytes);

  // The small pool's arena was pinned or unpinned: really pinned bytes that
  // no block accounts for.
  void ArenaPinned(uint64_t bytes);
  void ArenaUnpinned(uint64_t bytes);

  // One copy that the program asked for.
  void Copied(CategoryId category, CopyDirection direction, CopyPath path,
              uint64_t bytes, uint64_t wait_ns = 0);

  // Returns how often it had been counted before: 0 says that this is the
  // time to tell the user.
  uint64_t Count(UsageEvent event, uint64_t times = 1);

  uint64_t pinned_bytes() const {
    return pinned_.current.load(std::memory_order_relaxed);
  }
  uint64_t pinned_peak_bytes() const;

  // Never stops a copy or an allocation: only loads, and a reader's lock on
  // the names.
  UsageSnapshot Snapshot() const;

  // For a ledger at rest: Internal when sums disagree or a peak is below its
  // current figure.
  absl::Status CheckInvariants() const;

 private:
  // A figure that goes up and down, and the largest it ever was. The values
  // that `current` takes are those that its read-modify-writes return, one
  // after the other, so the maximum of them is the true peak.
  struct Gauge {
    std::atomic<uint64_t> current{0};
    std::atomic<uint64_t> peak{0};
    std::atomic<uint64_t> marked_peak{0};

    uint64_t Add(uint64_t bytes);  // Returns the new figure.
    // Unless it would be above `most`.
    bool TryAdd(uint64_t bytes, uint64_t most);
    void Subtract(uint64_t bytes);
    void Mark();
    void Raised(uint64_t now);
  };

  struct alignas(64) Cell {
    Gauge bytes;
    std::atomic<uint64_t> total_bytes{0};
    std::atomic<uint64_t> current_count{0};
    std::atomic<uint64_t> total_count{0};

    void Add(uint64_t n);
    void Subtract(uint64_t n);
    UsageAmount Read() const;
  };

  struct CategoryCells {
    std::array<Cell, kNumUsageKinds> kinds;
    Gauge all;
    std::atomic<uint64_t> soft_limit{0};
    std::atomic<uint64_t> hard_limit{0};
    std::atomic<bool> warned_soft{false};
    std::atomic<bool> warned_hard{false};
  };

  static constexpr size_t kGroupSize = 64;
  static constexpr size_t kNumGroups =
      CategoryTable::kMaxCategories / kGroupSize;
  using Group = std::array<CategoryCells, kGroupSize>;

  struct CopyCell {
    std::atomic<uint64_t> bytes{0};
    std::atomic<uint64_t> count{0};
    std::atomic<uint64_t> wait_ns{0};
  };
  struct alignas(64) CopyCells {
    std::array<std::array<CopyCell, kNumCopyPaths>, kNumCopyDirections> cells;
  };
  using CopyGroup = std::array<CopyCells, kGroupSize>;
  // Threads that copy at the same time write different lines. Groups are made
  // as those of the allocations are.
  struct CopyShard {
    std::array<std::atomic<CopyGroup*>, kNumGroups> groups{};
  };
  static constexpr size_t kNumShards = 8;

  CategoryCells& Cells(CategoryId category);
  const CategoryCells* FindCells(CategoryId category) const;
  void RecordInKind(CategoryCells& cells, UsageKind kind, uint64_t bytes);
  void TellOfAllocation(UsageKind kind) {
    if (kind == UsageKind::kRing) return;
    UsageObserver* const observer = observer_.load(std::memory_order_acquire);
    if (observer != nullptr) observer->AfterAllocation();
  }
  void AfterGrowth(CategoryId category, CategoryCells& cells, uint64_t now);
  void AddCopies(CategoryId category, CopyUsages& copies) const;

  CategoryTable categories_;
  // A group is made by the first use of one of its categories, published with
  // release (read with acquire), and lives as long as the ledger.
  std::array<std::atomic<Group*>, kNumGroups> groups_{};
  std::array<Gauge, kNumUsageKinds> kinds_;
  Gauge all_;
  Gauge pinned_;
  std::atomic<uint64_t> arena_bytes_{0};
  std::array<CopyShard, kNumShards> shards_;
  Warning warning_ = nullptr;
  std::atomic<UsageObserver*> observer_{nullptr};
  std::array<std::atomic<uint64_t>, kNumUsageEvents> events_{};
};

}  // namespace pinring

#endif  // PINRING_SRC_USAGE_USAGE_LEDGER_H_
