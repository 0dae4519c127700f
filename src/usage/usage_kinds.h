// The fixed vocabularies of the accounting: what memory is, how bytes were
// copied, and which events are counted because the program should know.
#ifndef PINRING_SRC_USAGE_USAGE_KINDS_H_
#define PINRING_SRC_USAGE_USAGE_KINDS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace pinring {

// What a byte of host memory is.
enum class UsageKind : uint8_t {
  kStaged,        // Pageable memory handed out in place of pinned memory.
  kSmallPinned,   // A block inside the small pool's arena.
  kMappedPinned,  // Really pinned because the program asked for it.
  kPromoted,      // A staged block that was registered in place later.
  kRing,          // The ring and its flags.
};
inline constexpr size_t kNumUsageKinds = 5;

// True for the kinds of which each byte is page-locked on its own account.
// Small pinned blocks are not: the arena they lie in is pinned as a whole,
// used or not (UsageLedger::ArenaPinned).
constexpr bool IsReallyPinned(UsageKind kind) {
  return kind == UsageKind::kMappedPinned || kind == UsageKind::kPromoted ||
         kind == UsageKind::kRing;
}

enum class CopyDirection : uint8_t {
  kHostToDevice,
  kDeviceToHost,
  kDeviceToDevice,
  kHostToHost,
  // Passed on with the kind cudaMemcpyDefault: only the driver knows, and
  // asking it would cost more than all the rest.
  kByAddress,
};
inline constexpr size_t kNumCopyDirections = 5;

// Which way a copy took.
enum class CopyPath : uint8_t {
  // The driver, untouched: no staged pointer, or a device that reads pageable
  // memory through the host's page tables.
  kPassed,
  kStagedSync,        // Through the ring, the caller helped and waited.
  kStagedDeferred,    // Through the ring, in stream order.
  kStagedIdle,        // Small, host to device, on an idle stream: no waits.
  kPromoted,          // The block was promoted: natively.
  kPageableFallback,  // The driver's pageable path on a staged block.
};
inline constexpr size_t kNumCopyPaths = 6;

// No fallback is silent: each is counted here, shown, and said once.
enum class UsageEvent : uint8_t {
  kSmallPoolFull,          // A small block was staged: the pool had no room.
  kRingRefused,            // The ring could not be made or grown.
  kPromotedNoSlot,         // A block was promoted since no slot was left.
  kPromotionRefused,       // Registering a block was refused.
  kPageableFallback,       // A transfer took the driver's pageable path.
  kSlotQuarantined,        // A slot whose DMA can never be known to be over.
  kBudgetRefused,          // The limit on really pinned bytes refused a charge.
  kStreamMemoryOpsAbsent,  // The driver lacks stream memory operations.
  kPromotedOnUse,          // A call needed a block that is really pinned.
  kCategoryOverLimit,      // A category went beyond its soft limit.
  kCategoryRefused,        // The hard limit of a category refused something.
};
inline constexpr size_t kNumUsageEvents = 11;

// Short names, stable: they are keys in the JSON form ("small_pinned",
// "host_to_device", "staged_sync", "small_pool_full").
std::string_view UsageKindName(UsageKind kind);
std::string_view CopyDirectionName(CopyDirection direction);
std::string_view CopyPathName(CopyPath path);
std::string_view UsageEventName(UsageEvent event);

// What an event means, for people: "small blocks staged, the pool was full".
std::string_view UsageEventDescription(UsageEvent event);

}  // namespace pinring

#endif  // PINRING_SRC_USAGE_USAGE_KINDS_H_
