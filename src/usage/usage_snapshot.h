// UsageSnapshot: the ledger's figures, copied out at one moment.
#ifndef PINRING_SRC_USAGE_USAGE_SNAPSHOT_H_
#define PINRING_SRC_USAGE_USAGE_SNAPSHOT_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "src/usage/usage_kinds.h"

namespace pinring {

struct UsageAmount {
  uint64_t current_bytes = 0;
  uint64_t peak_bytes = 0;         // Largest current_bytes there ever was.
  uint64_t marked_peak_bytes = 0;  // The same since UsageLedger::Mark.
  uint64_t total_bytes = 0;        // Of all allocations ever.
  uint64_t current_count = 0;
  uint64_t total_count = 0;
};

struct CopyUsage {
  uint64_t bytes = 0;
  uint64_t count = 0;
  uint64_t wait_ns = 0;  // Spent waiting for slots.
};
using CopyUsages =
    std::array<std::array<CopyUsage, kNumCopyPaths>, kNumCopyDirections>;

struct CategoryUsage {
  std::string name;
  std::array<UsageAmount, kNumUsageKinds> by_kind;
  // Over all kinds. Its peak is the category's own peak, which may be less
  // than the sum of the kinds' peaks: those may have been at different times.
  UsageAmount all;
  CopyUsages copies;
  uint64_t soft_limit_bytes = 0;  // 0 says that there is none.
  uint64_t hard_limit_bytes = 0;
};

// Taken while the program runs, each figure is one that was true at some
// moment of the call, and the current and total figures of `kinds` and `all`,
// and `copies`, are the sums of the categories shown. At rest all figures agree
// exactly.
struct UsageSnapshot {
  std::vector<CategoryUsage> categories;  // At the index of the category's id.
  std::array<UsageAmount, kNumUsageKinds> kinds;  // Over all categories.
  UsageAmount all;                                // Over everything.

  // Page-locked bytes: ring, arena of the small pool, mapped and promoted
  // blocks. The peak is that of one instant.
  uint64_t pinned_bytes = 0;
  uint64_t pinned_peak_bytes = 0;
  uint64_t pinned_marked_peak_bytes = 0;
  // Filled by whoever holds the budget; 0 says that there is no limit.
  uint64_t pinned_limit_bytes = 0;

  CopyUsages copies;
  std::array<uint64_t, kNumUsageEvents> events{};

  const UsageAmount& kind(UsageKind k) const {
    return kinds[static_cast<size_t>(k)];
  }
  const CopyUsage& copy(CopyDirection direction, CopyPath path) const {
    return copies[static_cast<size_t>(direction)][static_cast<size_t>(path)];
  }
  uint64_t event(UsageEvent e) const { return events[static_cast<size_t>(e)]; }
};

}  // namespace pinring

#endif  // PINRING_SRC_USAGE_USAGE_SNAPSHOT_H_
