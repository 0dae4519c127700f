#include "src/usage/usage_ledger.h"

#include <algorithm>
#include <cassert>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"

namespace pinring {
namespace {

size_t Index(UsageKind kind) { return static_cast<size_t>(kind); }

void RaiseTo(std::atomic<uint64_t>& peak, uint64_t value) {
  uint64_t seen = peak.load(std::memory_order_relaxed);
  while (seen < value &&
         !peak.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

// Which shard this thread's copies are counted in.
uint32_t ThreadShard() {
  static std::atomic<uint32_t> next{0};
  // One is added so that zero can say "not chosen yet" without a guard.
  constinit thread_local uint32_t shard_plus_one = 0;
  if (ABSL_PREDICT_FALSE(shard_plus_one == 0)) {
    shard_plus_one = next.fetch_add(1, std::memory_order_relaxed) % 8 + 1;
  }
  return shard_plus_one - 1;
}

void AddTo(UsageAmount& sum, const UsageAmount& amount) {
  sum.current_bytes += amount.current_bytes;
  sum.total_bytes += amount.total_bytes;
  sum.current_count += amount.current_count;
  sum.total_count += amount.total_count;
}

}  // namespace

void UsageLedger::Gauge::Add(uint64_t n) {
  // Release pairs with the acquire in Cell::Read: a reader that sees these
  // bytes also sees the totals that were raised for them before.
  const uint64_t now = current.fetch_add(n, std::memory_order_release) + n;
  RaiseTo(peak, now);
}

void UsageLedger::Gauge::Subtract(uint64_t n) {
  [[maybe_unused]] const uint64_t before =
      current.fetch_sub(n, std::memory_order_release);
  assert(before >= n && "more bytes released than were allocated");
}

void UsageLedger::Cell::Add(uint64_t n) {
  total_bytes.fetch_add(n, std::memory_order_relaxed);
  total_count.fetch_add(1, std::memory_order_relaxed);
  current_count.fetch_add(1, std::memory_order_release);
  bytes.Add(n);
}

void UsageLedger::Cell::Subtract(uint64_t n) {
  bytes.Subtract(n);
  current_count.fetch_sub(1, std::memory_order_release);
}

UsageAmount UsageLedger::Cell::Read() const {
  UsageAmount amount;
  // Current before total and peak, so that neither can look smaller.
  amount.current_bytes = bytes.current.load(std::memory_order_acquire);
  amount.current_count = current_count.load(std::memory_order_acquire);
  amount.total_bytes = total_bytes.load(std::memory_order_relaxed);
  amount.total_count = total_count.load(std::memory_order_relaxed);
  amount.peak_bytes = std::max(bytes.peak.load(std::memory_order_relaxed),
                               amount.current_bytes);
  return amount;
}

UsageLedger::UsageLedger() = default;

UsageLedger::~UsageLedger() {
  for (std::atomic<Group*>& group : groups_) {
    delete group.load(std::memory_order_acquire);
  }
}

UsageLedger::CategoryCells& UsageLedger::Cells(CategoryId category) {
  assert(category < CategoryTable::kMaxCategories);
  if (ABSL_PREDICT_FALSE(category >= CategoryTable::kMaxCategories)) {
    category = kDefaultCategory;
  }
  const size_t index = category / kGroupSize;
  Group* group = groups_[index].load(std::memory_order_acquire);
  if (ABSL_PREDICT_FALSE(group == nullptr)) group = MakeGroup(index);
  return (*group)[category % kGroupSize];
}

UsageLedger::Group* UsageLedger::MakeGroup(size_t index) {
  auto made = std::make_unique<Group>();
  Group* present = nullptr;
  if (groups_[index].compare_exchange_strong(present, made.get(),
                                             std::memory_order_acq_rel)) {
    return made.release();
  }
  return present;
}

void UsageLedger::Allocated(CategoryId category, UsageKind kind,
                            uint64_t bytes) {
  if (IsReallyPinned(kind)) pinned_.Add(bytes);
  CategoryCells& cells = Cells(category);
  cells.kinds[Index(kind)].Add(bytes);
  cells.all.Add(bytes);
  kinds_[Index(kind)].Add(bytes);
  all_.Add(bytes);
}

void UsageLedger::Released(CategoryId category, UsageKind kind,
                           uint64_t bytes) {
  CategoryCells& cells = Cells(category);
  cells.kinds[Index(kind)].Subtract(bytes);
  cells.all.Subtract(bytes);
  kinds_[Index(kind)].Subtract(bytes);
  all_.Subtract(bytes);
  if (IsReallyPinned(kind)) pinned_.Subtract(bytes);
}

void UsageLedger::Moved(CategoryId category, UsageKind from, UsageKind to,
                        uint64_t bytes) {
  if (from == to) return;
  // Bytes that stay pinned are not counted twice on the way.
  const bool was_pinned = IsReallyPinned(from);
  const bool is_pinned = IsReallyPinned(to);
  if (is_pinned && !was_pinned) pinned_.Add(bytes);
  CategoryCells& cells = Cells(category);
  cells.kinds[Index(from)].Subtract(bytes);
  kinds_[Index(from)].Subtract(bytes);
  cells.kinds[Index(to)].Add(bytes);
  kinds_[Index(to)].Add(bytes);
  if (was_pinned && !is_pinned) pinned_.Subtract(bytes);
}

void UsageLedger::ArenaPinned(uint64_t bytes) {
  arena_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  pinned_.Add(bytes);
}

void UsageLedger::ArenaUnpinned(uint64_t bytes) {
  pinned_.Subtract(bytes);
  arena_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
}

void UsageLedger::Copied(CopyDirection direction, CopyPath path, uint64_t bytes,
                         uint64_t wait_ns) {
  static_assert(kNumShards == 8);  // ThreadShard's modulus.
  CopyCell& cell =
      shards_[ThreadShard()]
          .cells[static_cast<size_t>(direction)][static_cast<size_t>(path)];
  cell.bytes.fetch_add(bytes, std::memory_order_relaxed);
  cell.count.fetch_add(1, std::memory_order_relaxed);
  if (wait_ns != 0) {
    cell.wait_ns.fetch_add(wait_ns, std::memory_order_relaxed);
  }
}

uint64_t UsageLedger::Count(UsageEvent event, uint64_t times) {
  return events_[static_cast<size_t>(event)].fetch_add(
      times, std::memory_order_relaxed);
}

uint64_t UsageLedger::pinned_peak_bytes() const {
  const uint64_t current = pinned_.current.load(std::memory_order_relaxed);
  return std::max(pinned_.peak.load(std::memory_order_relaxed), current);
}

UsageSnapshot UsageLedger::Snapshot() const {
  UsageSnapshot snapshot;
  std::vector<std::string> names = categories_.Names();
  snapshot.categories.resize(names.size());
  for (size_t id = 0; id < names.size(); ++id) {
    CategoryUsage& usage = snapshot.categories[id];
    usage.name = std::move(names[id]);
    const Group* group =
        groups_[id / kGroupSize].load(std::memory_order_acquire);
    if (group == nullptr) continue;
    const CategoryCells& cells = (*group)[id % kGroupSize];
    for (size_t kind = 0; kind < kNumUsageKinds; ++kind) {
      usage.by_kind[kind] = cells.kinds[kind].Read();
      AddTo(usage.all, usage.by_kind[kind]);
      AddTo(snapshot.kinds[kind], usage.by_kind[kind]);
    }
    AddTo(snapshot.all, usage.all);
    usage.all.peak_bytes = cells.all.peak.load(std::memory_order_relaxed);
  }
  for (size_t kind = 0; kind < kNumUsageKinds; ++kind) {
    snapshot.kinds[kind].peak_bytes =
        kinds_[kind].peak.load(std::memory_order_relaxed);
  }
  snapshot.all.peak_bytes = all_.peak.load(std::memory_order_relaxed);
  snapshot.pinned_bytes = pinned_bytes();
  snapshot.pinned_peak_bytes = std::max(
      pinned_.peak.load(std::memory_order_relaxed), snapshot.pinned_bytes);
  for (const CopyShard& shard : shards_) {
    for (size_t d = 0; d < kNumCopyDirections; ++d) {
      for (size_t p = 0; p < kNumCopyPaths; ++p) {
        const CopyCell& cell = shard.cells[d][p];
        CopyUsage& copies = snapshot.copies[d][p];
        copies.bytes += cell.bytes.load(std::memory_order_relaxed);
        copies.count += cell.count.load(std::memory_order_relaxed);
        copies.wait_ns += cell.wait_ns.load(std::memory_order_relaxed);
      }
    }
  }
  for (size_t e = 0; e < kNumUsageEvents; ++e) {
    snapshot.events[e] = events_[e].load(std::memory_order_relaxed);
  }
  return snapshot;
}

absl::Status UsageLedger::CheckInvariants() const {
  const UsageSnapshot snapshot = Snapshot();
  const auto differ = [](absl::string_view what, uint64_t got,
                         uint64_t expected) {
    return absl::InternalError(
        absl::StrCat(what, ": ", got, " instead of ", expected));
  };
  uint64_t pinned = arena_bytes_.load(std::memory_order_relaxed);
  for (size_t kind = 0; kind < kNumUsageKinds; ++kind) {
    const UsageAmount& amount = snapshot.kinds[kind];
    const uint64_t gauge = kinds_[kind].current.load(std::memory_order_relaxed);
    const std::string name(UsageKindName(static_cast<UsageKind>(kind)));
    if (gauge != amount.current_bytes) {
      return differ(absl::StrCat("current bytes of kind ", name), gauge,
                    amount.current_bytes);
    }
    if (amount.peak_bytes < amount.current_bytes) {
      return differ(absl::StrCat("peak of kind ", name), amount.peak_bytes,
                    amount.current_bytes);
    }
    if (IsReallyPinned(static_cast<UsageKind>(kind))) {
      pinned += amount.current_bytes;
    }
  }
  if (pinned != snapshot.pinned_bytes) {
    return differ("really pinned bytes", snapshot.pinned_bytes, pinned);
  }
  for (const CategoryUsage& category : snapshot.categories) {
    for (const UsageAmount& amount : category.by_kind) {
      if (amount.total_bytes < amount.current_bytes ||
          amount.total_count < amount.current_count ||
          (amount.current_count == 0 && amount.current_bytes != 0)) {
        return absl::InternalError(
            absl::StrCat("category ", category.name, ": current figures ",
                         amount.current_bytes, " bytes in ",
                         amount.current_count, " blocks do not fit the totals ",
                         amount.total_bytes, " in ", amount.total_count));
      }
    }
    if (category.all.peak_bytes < category.all.current_bytes) {
      return differ(absl::StrCat("peak of category ", category.name),
                    category.all.peak_bytes, category.all.current_bytes);
    }
  }
  return absl::OkStatus();
}

}  // namespace pinring
