#include "src/capi/usage_struct.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "src/driver/status.h"

namespace pinring {
namespace {

// What version 1 was made of; later versions only append.
constexpr size_t kFirstUsageBytes =
    offsetof(pinringUsage, events) + sizeof(pinringUsage::events);
constexpr size_t kFirstCategoryBytes =
    offsetof(pinringCategoryUsage, kinds) + sizeof(pinringCategoryUsage::kinds);

// What version 2 was made of.
constexpr size_t kSecondUsageBytes =
    offsetof(pinringUsage, kindPeaksSinceMarkBytes) +
    sizeof(pinringUsage::kindPeaksSinceMarkBytes);
constexpr size_t kSecondCategoryBytes = offsetof(pinringCategoryUsage, copies) +
                                        sizeof(pinringCategoryUsage::copies);

static_assert(PINRING_USAGE_KINDS >= kNumUsageKinds);
static_assert(PINRING_COPY_DIRECTIONS >= kNumCopyDirections);
static_assert(PINRING_COPY_PATHS >= kNumCopyPaths);
static_assert(PINRING_USAGE_EVENTS >= kNumUsageEvents);

template <typename CEnum, typename Enum>
constexpr bool Same(CEnum a, Enum b) {
  return static_cast<int>(a) == static_cast<int>(b);
}
static_assert(Same(pinringUsageStaged, UsageKind::kStaged));
static_assert(Same(pinringUsageSmallPinned, UsageKind::kSmallPinned));
static_assert(Same(pinringUsageMappedPinned, UsageKind::kMappedPinned));
static_assert(Same(pinringUsagePromoted, UsageKind::kPromoted));
static_assert(Same(pinringUsageRing, UsageKind::kRing));
static_assert(Same(pinringCopyHostToDevice, CopyDirection::kHostToDevice));
static_assert(Same(pinringCopyDeviceToHost, CopyDirection::kDeviceToHost));
static_assert(Same(pinringCopyDeviceToDevice, CopyDirection::kDeviceToDevice));
static_assert(Same(pinringCopyHostToHost, CopyDirection::kHostToHost));
static_assert(Same(pinringCopyByAddress, CopyDirection::kByAddress));
static_assert(Same(pinringCopyPassed, CopyPath::kPassed));
static_assert(Same(pinringCopyStagedSync, CopyPath::kStagedSync));
static_assert(Same(pinringCopyStagedDeferred, CopyPath::kStagedDeferred));
static_assert(Same(pinringCopyStagedIdle, CopyPath::kStagedIdle));
static_assert(Same(pinringCopyPromoted, CopyPath::kPromoted));
static_assert(Same(pinringCopyPageableFallback, CopyPath::kPageableFallback));
static_assert(Same(pinringEventSmallPoolFull, UsageEvent::kSmallPoolFull));
static_assert(Same(pinringEventRingRefused, UsageEvent::kRingRefused));
static_assert(Same(pinringEventPromotedNoSlot, UsageEvent::kPromotedNoSlot));
static_assert(Same(pinringEventPromotionRefused,
                   UsageEvent::kPromotionRefused));
static_assert(Same(pinringEventPageableFallback,
                   UsageEvent::kPageableFallback));
static_assert(Same(pinringEventSlotQuarantined, UsageEvent::kSlotQuarantined));
static_assert(Same(pinringEventBudgetRefused, UsageEvent::kBudgetRefused));
static_assert(Same(pinringEventStreamMemoryOpsAbsent,
                   UsageEvent::kStreamMemoryOpsAbsent));
static_assert(Same(pinringEventPromotedOnUse, UsageEvent::kPromotedOnUse));
static_assert(Same(pinringEventCategoryOverLimit,
                   UsageEvent::kCategoryOverLimit));
static_assert(Same(pinringEventCategoryRefused, UsageEvent::kCategoryRefused));

pinringUsageAmount Amount(const UsageAmount& amount) {
  return {amount.current_bytes, amount.peak_bytes, amount.total_bytes,
          amount.current_count, amount.total_count};
}

void FillCopies(const CopyUsages& copies,
                pinringCopyAmount (*out)[PINRING_COPY_PATHS]) {
  for (size_t direction = 0; direction < kNumCopyDirections; ++direction) {
    for (size_t path = 0; path < kNumCopyPaths; ++path) {
      const CopyUsage& each = copies[direction][path];
      out[direction][path] = {each.bytes, each.count, each.wait_ns};
    }
  }
}

void FillCategory(const CategoryUsage& category, pinringCategoryUsage* out) {
  *out = {};
  const size_t bytes = std::min(category.name.size(), sizeof(out->name) - 1);
  std::memcpy(out->name, category.name.data(), bytes);
  out->all = Amount(category.all);
  for (size_t kind = 0; kind < kNumUsageKinds; ++kind) {
    out->kinds[kind] = Amount(category.by_kind[kind]);
  }
  out->peakSinceMarkBytes = category.all.marked_peak_bytes;
  out->softLimitBytes = category.soft_limit_bytes;
  out->hardLimitBytes = category.hard_limit_bytes;
  FillCopies(category.copies, out->copies);
}

// An array whose elements are as large as the caller's version has them.
void FillCategories(const UsageSnapshot& snapshot, const pinringUsage& usage) {
  auto* at = reinterpret_cast<std::byte*>(usage.categories);
  const size_t count =
      std::min(usage.categoryCapacity, snapshot.categories.size());
  for (size_t i = 0; i < count; ++i, at += usage.categoryStructBytes) {
    pinringCategoryUsage category;
    FillCategory(snapshot.categories[i], &category);
    std::memset(at, 0, usage.categoryStructBytes);
    std::memcpy(at, &category,
                std::min(sizeof(category), usage.categoryStructBytes));
  }
}

}  // namespace

absl::Status FillUsage(const UsageSnapshot& snapshot, pinringUsage* usage) {
  if (usage == nullptr) {
    return CudaStatus(CUDA_ERROR_INVALID_VALUE, "the usage struct is null");
  }
  const bool first = usage->version == 1;
  if (usage->version < 1 ||
      usage->structBytes < (first ? kFirstUsageBytes : kSecondUsageBytes)) {
    return CudaStatus(
        CUDA_ERROR_INVALID_VALUE,
        absl::StrCat("a usage struct of version ", usage->version, " and ",
                     usage->structBytes,
                     " bytes never was; start it with PINRING_USAGE_INIT"));
  }
  const bool wants_categories =
      usage->categories != nullptr && usage->categoryCapacity > 0;
  if (wants_categories &&
      usage->categoryStructBytes <
          (first ? kFirstCategoryBytes : kSecondCategoryBytes)) {
    return CudaStatus(
        CUDA_ERROR_INVALID_VALUE,
        absl::StrCat("category structs of ", usage->categoryStructBytes,
                     " bytes never were; start with PINRING_USAGE_INIT"));
  }
  pinringUsage filled = {};
  filled.structBytes = usage->structBytes;
  filled.version = std::min<uint32_t>(usage->version, PINRING_USAGE_VERSION);
  filled.categories = usage->categories;
  filled.categoryCapacity = usage->categoryCapacity;
  filled.categoryStructBytes = usage->categoryStructBytes;
  filled.categoryCount = snapshot.categories.size();
  filled.pinnedBytes = snapshot.pinned_bytes;
  filled.pinnedPeakBytes = snapshot.pinned_peak_bytes;
  filled.pinnedLimitBytes = snapshot.pinned_limit_bytes;
  filled.all = Amount(snapshot.all);
  for (size_t kind = 0; kind < kNumUsageKinds; ++kind) {
    filled.kinds[kind] = Amount(snapshot.kinds[kind]);
  }
  FillCopies(snapshot.copies, filled.copies);
  filled.pinnedPeakSinceMarkBytes = snapshot.pinned_marked_peak_bytes;
  filled.allPeakSinceMarkBytes = snapshot.all.marked_peak_bytes;
  for (size_t kind = 0; kind < kNumUsageKinds; ++kind) {
    filled.kindPeaksSinceMarkBytes[kind] =
        snapshot.kinds[kind].marked_peak_bytes;
  }
  for (size_t event = 0; event < kNumUsageEvents; ++event) {
    filled.events[event] = snapshot.events[event];
  }
  if (wants_categories) FillCategories(snapshot, filled);
  // A caller of a later version gets zeros for what this one does not know.
  const size_t room = usage->structBytes;
  std::memcpy(static_cast<void*>(usage), &filled,
              std::min(sizeof(filled), room));
  if (room > sizeof(filled)) {
    std::memset(reinterpret_cast<std::byte*>(usage) + sizeof(filled), 0,
                room - sizeof(filled));
  }
  return absl::OkStatus();
}

}  // namespace pinring
