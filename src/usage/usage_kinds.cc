#include "src/usage/usage_kinds.h"

namespace pinring {

std::string_view UsageKindName(UsageKind kind) {
  switch (kind) {
    case UsageKind::kStaged:
      return "staged";
    case UsageKind::kSmallPinned:
      return "small_pinned";
    case UsageKind::kMappedPinned:
      return "mapped_pinned";
    case UsageKind::kPromoted:
      return "promoted";
    case UsageKind::kRing:
      return "ring";
  }
  return "unknown";
}

std::string_view CopyDirectionName(CopyDirection direction) {
  switch (direction) {
    case CopyDirection::kHostToDevice:
      return "host_to_device";
    case CopyDirection::kDeviceToHost:
      return "device_to_host";
    case CopyDirection::kDeviceToDevice:
      return "device_to_device";
    case CopyDirection::kHostToHost:
      return "host_to_host";
    case CopyDirection::kByAddress:
      return "by_address";
  }
  return "unknown";
}

std::string_view CopyPathName(CopyPath path) {
  switch (path) {
    case CopyPath::kPassed:
      return "passed";
    case CopyPath::kStagedSync:
      return "staged_sync";
    case CopyPath::kStagedDeferred:
      return "staged_deferred";
    case CopyPath::kStagedIdle:
      return "staged_idle";
    case CopyPath::kPromoted:
      return "promoted";
    case CopyPath::kPageableFallback:
      return "pageable_fallback";
  }
  return "unknown";
}

std::string_view UsageEventName(UsageEvent event) {
  switch (event) {
    case UsageEvent::kSmallPoolFull:
      return "small_pool_full";
    case UsageEvent::kRingRefused:
      return "ring_refused";
    case UsageEvent::kPromotedNoSlot:
      return "promoted_no_slot";
    case UsageEvent::kPromotionRefused:
      return "promotion_refused";
    case UsageEvent::kPageableFallback:
      return "pageable_fallback";
    case UsageEvent::kSlotQuarantined:
      return "slot_quarantined";
    case UsageEvent::kBudgetRefused:
      return "budget_refused";
    case UsageEvent::kStreamMemoryOpsAbsent:
      return "stream_memory_ops_absent";
    case UsageEvent::kPromotedOnUse:
      return "promoted_on_use";
    case UsageEvent::kCategoryOverLimit:
      return "category_over_limit";
    case UsageEvent::kCategoryRefused:
      return "category_refused";
  }
  return "unknown";
}

std::string_view UsageEventDescription(UsageEvent event) {
  switch (event) {
    case UsageEvent::kSmallPoolFull:
      return "small blocks staged, since the small-block pool was full";
    case UsageEvent::kRingRefused:
      return "times the ring could not be made or grown";
    case UsageEvent::kPromotedNoSlot:
      return "blocks promoted, since no slot was left";
    case UsageEvent::kPromotionRefused:
      return "blocks whose registration was refused";
    case UsageEvent::kPageableFallback:
      return "transfers on the driver's pageable path";
    case UsageEvent::kSlotQuarantined:
      return "slots quarantined after an error";
    case UsageEvent::kBudgetRefused:
      return "requests refused by the limit on pinned bytes";
    case UsageEvent::kStreamMemoryOpsAbsent:
      return "times stream memory operations were missing";
    case UsageEvent::kPromotedOnUse:
      return "blocks promoted, since a call needed them pinned";
    case UsageEvent::kCategoryOverLimit:
      return "allocations beyond the soft limit of their category";
    case UsageEvent::kCategoryRefused:
      return "requests refused by the hard limit of their category";
  }
  return "unknown";
}

}  // namespace pinring
