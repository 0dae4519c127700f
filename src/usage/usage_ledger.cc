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

// The group at `slot`, which the first to need it makes.
template <typename Group>
Group* GroupAt(std::atomic<Group*>& slot) {
  Group* present = slot.load(std::memory_order_acquire);
  if (ABSL_PREDICT_TRUE(present != nullptr)) return present;
  auto made = std::make_unique<Group>();
  if (slot.compare_exchange_strong(present, made.get(),
                                   std::memory_order_acq_rel)) {
    return made.release();
  }
  return present;
}

void AddTo(UsageAmount& sum, const UsageAmount& amount) {
  sum.current_bytes += amount.current_bytes;
  sum.total_bytes += amount.total_bytes;
  sum.current_count += amount.current_count;
  sum.total_count += amount.total_count;
}

void AddTo(CopyUsages& sum, const CopyUsages& copies) {
  for (size_t d = 0; d < kNumCopyDirections; ++d) {
    for (size_t p = 0; p < kNumCopyPaths; ++p) {
      sum[d][p].bytes += copies[d][p].bytes;
      sum[d][p].count += copies[d][p].count;
      sum[d][p].wait_ns += copies[d][p].wait_ns;
    }
  }
}

}  // namespace

void UsageLedger::Gauge::Raised(uint64_t now) {
  RaiseTo(peak, now);
  RaiseTo(marked_peak, now);
}

uint64_t UsageLedger::Gauge::Add(uint64_t n) {
  // Release pairs with the acquire in Cell::Read: a reader that sees these
  // bytes also sees the totals that were raised for them before.
  const uint64_t now = current.fetch_add(n, std::memory_order_release) + n;
  Raised(now);
  return now;
}

bool UsageLedger::Gauge::TryAdd(uint64_t n, uint64_t most) {
  uint64_t seen = current.load(std::memory_order_relaxed);
  do {
    if (seen > most || n > most - seen) return false;
  } while (!current.compare_exchange_weak(
      seen, seen + n, std::memory_order_release, std::memory_order_relaxed));
  Raised(seen + n);
  return true;
}

// What others raise after the store stands; what they raised before is either
// still held, and seen by the load, or was over before the mark.
void UsageLedger::Gauge::Mark() {
  marked_peak.store(0);
  RaiseTo(marked_peak, current.load());
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
  amount.marked_peak_bytes = std::max(
      bytes.marked_peak.load(std::memory_order_relaxed), amount.current_bytes);
  return amount;
}

UsageLedger::UsageLedger() = default;

UsageLedger::~UsageLedger() {
  for (std::atomic<Group*>& group : groups_) {
    delete group.load(std::memory_order_acquire);
  }
  for (CopyShard& shard : shards_) {
    for (std::atomic<CopyGroup*>& group : shard.groups) {
      delete group.load(std::memory_order_acquire);
    }
  }
}

UsageLedger::CategoryCells& UsageLedger::Cells(CategoryId category) {
  assert(category < CategoryTable::kMaxCategories);
  if (ABSL_PREDICT_FALSE(category >= CategoryTable::kMaxCategories)) {
    category = kDefaultCategory;
  }
  const size_t index = category / kGroupSize;
  return (*GroupAt(groups_[index]))[category % kGroupSize];
}

const UsageLedger::CategoryCells* UsageLedger::FindCells(
    CategoryId category) const {
  if (category >= CategoryTable::kMaxCategories) return nullptr;
  const Group* group =
      groups_[category / kGroupSize].load(std::memory_order_acquire);
  return group == nullptr ? nullptr : &(*group)[category % kGroupSize];
}

void UsageLedger::Allocated(CategoryId category, UsageKind kind,
                            uint64_t bytes) {
  if (IsReallyPinned(kind)) pinned_.Add(bytes);
  CategoryCells& cells = Cells(category);
  const uint64_t now = cells.all.Add(bytes);
  RecordInKind(cells, kind, bytes);
  AfterGrowth(category, cells, now);
  TellOfAllocation(kind);
}

bool UsageLedger::TryAllocated(CategoryId category, UsageKind kind,
                               uint64_t bytes) {
  CategoryCells& cells = Cells(category);
  const uint64_t most = cells.hard_limit.load(std::memory_order_relaxed);
  if (ABSL_PREDICT_TRUE(most == 0)) {
    Allocated(category, kind, bytes);
    return true;
  }
  if (!cells.all.TryAdd(bytes, most)) {
    Count(UsageEvent::kCategoryRefused);
    if (warning_ != nullptr && !cells.warned_hard.exchange(true)) {
      warning_(*this, category, UsageEvent::kCategoryRefused);
    }
    return false;
  }
  if (IsReallyPinned(kind)) pinned_.Add(bytes);
  RecordInKind(cells, kind, bytes);
  AfterGrowth(category, cells,
              cells.all.current.load(std::memory_order_relaxed));
  TellOfAllocation(kind);
  return true;
}

void UsageLedger::RecordInKind(CategoryCells& cells, UsageKind kind,
                               uint64_t bytes) {
  cells.kinds[Index(kind)].Add(bytes);
  kinds_[Index(kind)].Add(bytes);
  all_.Add(bytes);
}

void UsageLedger::AfterGrowth(CategoryId category, CategoryCells& cells,
                              uint64_t now) {
  const uint64_t soft = cells.soft_limit.load(std::memory_order_relaxed);
  if (ABSL_PREDICT_TRUE(soft == 0 || now <= soft)) return;
  Count(UsageEvent::kCategoryOverLimit);
  if (warning_ != nullptr && !cells.warned_soft.exchange(true)) {
    warning_(*this, category, UsageEvent::kCategoryOverLimit);
  }
}

void UsageLedger::SetLimits(CategoryId category, Limits limits) {
  CategoryCells& cells = Cells(category);
  cells.soft_limit.store(limits.soft_bytes, std::memory_order_relaxed);
  cells.hard_limit.store(limits.hard_bytes, std::memory_order_relaxed);
  // Other limits are worth a warning of their own.
  cells.warned_soft.store(false);
  cells.warned_hard.store(false);
}

UsageLedger::Limits UsageLedger::LimitsOf(CategoryId category) const {
  const CategoryCells* cells = FindCells(category);
  if (cells == nullptr) return {};
  return {cells->soft_limit.load(std::memory_order_relaxed),
          cells->hard_limit.load(std::memory_order_relaxed)};
}

uint64_t UsageLedger::CategoryBytes(CategoryId category) const {
  const CategoryCells* cells = FindCells(category);
  return cells == nullptr ? 0
                          : cells->all.current.load(std::memory_order_relaxed);
}

void UsageLedger::Mark() {
  for (std::atomic<Group*>& slot : groups_) {
    Group* group = slot.load(std::memory_order_acquire);
    if (group == nullptr) continue;
    for (CategoryCells& cells : *group) {
      for (Cell& cell : cells.kinds) cell.bytes.Mark();
      cells.all.Mark();
    }
  }
  for (Gauge& kind : kinds_) kind.Mark();
  all_.Mark();
  pinned_.Mark();
}

void UsageLedger::Released(CategoryId category, UsageKind kind,
                           uint64_t bytes) {
  CategoryCells& cells = Cells(category);
  cells.kinds[Index(kind)].Subtract(bytes);
  cells.all.Subtract(bytes);
  kinds_[Index(kind)].Subtract(bytes);
  all_.Subtract(bytes);
  if (IsReallyPinned(kind)) pinned_.Subtract(bytes);
  TellOfAllocation(kind);
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
  TellOfAllocation(to);
}

void UsageLedger::ArenaPinned(uint64_t bytes) {
  arena_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  pinned_.Add(bytes);
}

void UsageLedger::ArenaUnpinned(uint64_t bytes) {
  pinned_.Subtract(bytes);
  arena_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
}

void UsageLedger::Copied(CategoryId category, CopyDirection direction,
                         CopyPath path, uint64_t bytes, uint64_t wait_ns) {
  static_assert(kNumShards == 8);  // ThreadShard's modulus.
  if (ABSL_PREDICT_FALSE(category >= CategoryTable::kMaxCategories)) {
    category = kDefaultCategory;
  }
  CopyGroup* group =
      GroupAt(shards_[ThreadShard()].groups[category / kGroupSize]);
  CopyCell& cell =
      (*group)[category % kGroupSize]
          .cells[static_cast<size_t>(direction)][static_cast<size_t>(path)];
  cell.bytes.fetch_add(bytes, std::memory_order_relaxed);
  cell.count.fetch_add(1, std::memory_order_relaxed);
  if (wait_ns != 0) {
    cell.wait_ns.fetch_add(wait_ns, std::memory_order_relaxed);
  }
  UsageObserver* const observer = observer_.load(std::memory_order_acquire);
  if (observer != nullptr) observer->AfterCopy();
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
    AddCopies(static_cast<CategoryId>(id), usage.copies);
    AddTo(snapshot.copies, usage.copies);
    const CategoryCells* found = FindCells(static_cast<CategoryId>(id));
    if (found == nullptr) continue;
    const CategoryCells& cells = *found;
    const Limits limits = LimitsOf(static_cast<CategoryId>(id));
    usage.soft_limit_bytes = limits.soft_bytes;
    usage.hard_limit_bytes = limits.hard_bytes;
    for (size_t kind = 0; kind < kNumUsageKinds; ++kind) {
      usage.by_kind[kind] = cells.kinds[kind].Read();
      AddTo(usage.all, usage.by_kind[kind]);
      AddTo(snapshot.kinds[kind], usage.by_kind[kind]);
    }
    AddTo(snapshot.all, usage.all);
    usage.all.peak_bytes = cells.all.peak.load(std::memory_order_relaxed);
    usage.all.marked_peak_bytes =
        cells.all.marked_peak.load(std::memory_order_relaxed);
  }
  for (size_t kind = 0; kind < kNumUsageKinds; ++kind) {
    snapshot.kinds[kind].peak_bytes =
        kinds_[kind].peak.load(std::memory_order_relaxed);
    snapshot.kinds[kind].marked_peak_bytes =
        kinds_[kind].marked_peak.load(std::memory_order_relaxed);
  }
  snapshot.all.peak_bytes = all_.peak.load(std::memory_order_relaxed);
  snapshot.all.marked_peak_bytes =
      all_.marked_peak.load(std::memory_order_relaxed);
  snapshot.pinned_bytes = pinned_bytes();
  snapshot.pinned_peak_bytes = std::max(
      pinned_.peak.load(std::memory_order_relaxed), snapshot.pinned_bytes);
  snapshot.pinned_marked_peak_bytes =
      std::max(pinned_.marked_peak.load(std::memory_order_relaxed),
               snapshot.pinned_bytes);
  for (size_t e = 0; e < kNumUsageEvents; ++e) {
    snapshot.events[e] = events_[e].load(std::memory_order_relaxed);
  }
  return snapshot;
}

void UsageLedger::AddCopies(CategoryId category, CopyUsages& copies) const {
  for (const CopyShard& shard : shards_) {
    const CopyGroup* group =
        shard.groups[category / kGroupSize].load(std::memory_order_acquire);
    if (group == nullptr) continue;
    const CopyCells& cells = (*group)[category % kGroupSize];
    for (size_t d = 0; d < kNumCopyDirections; ++d) {
      for (size_t p = 0; p < kNumCopyPaths; ++p) {
        const CopyCell& cell = cells.cells[d][p];
        copies[d][p].bytes += cell.bytes.load(std::memory_order_relaxed);
        copies[d][p].count += cell.count.load(std::memory_order_relaxed);
        copies[d][p].wait_ns += cell.wait_ns.load(std::memory_order_relaxed);
      }
    }
  }
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
