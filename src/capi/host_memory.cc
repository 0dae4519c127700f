#include "src/capi/host_memory.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/capi/contexts.h"
#include "src/driver/status.h"
#include "src/host/staged_block.h"
#include "src/os/env.h"
#include "src/os/pages.h"
#include "src/os/threads.h"
#include "src/usage/usage_print.h"

namespace pinring {
namespace {

// Memory that every context may use, at an address of the device's.
constexpr unsigned kSharedPinnedFlags =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
constexpr unsigned kSharedRegisterFlags =
    CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
// The program wants the device to see the very bytes, or their caching.
constexpr unsigned kReallyPinnedFlags =
    CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;

uintptr_t AddressOf(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

absl::Status NotABlock(const void* pointer) {
  return absl::InvalidArgumentError(absl::StrCat(
      "0x", absl::Hex(AddressOf(pointer)),
      " is not the start of a block of pinned memory: it is inside "
      "one, was freed before, or came from elsewhere"));
}

absl::Status LimitReached(absl::string_view what, uint64_t bytes,
                          const PinnedBudget& budget) {
  return CudaStatus(CUDA_ERROR_OUT_OF_MEMORY,
                    absl::StrCat(what, " of ", HumanBytes(bytes), ": ",
                                 HumanBytes(budget.current_bytes()),
                                 " are pinned and the limit is ",
                                 HumanBytes(budget.limit_bytes()),
                                 "; raise PINRING_PINNED_LIMIT_BYTES"));
}

}  // namespace

HostMemory::HostMemory(const Options& options, const Driver* driver,
                       UsageLedger* ledger, PinnedBudget* budget,
                       AddressMap* map, Instance* instance)
    : options_(options),
      driver_(*driver),
      ledger_(*ledger),
      budget_(*budget),
      process_id_(os::ProcessId()),
      map_(*map),
      instance_(instance) {}

HostMemory::~HostMemory() {
  if (InForkedChild()) return;
  std::vector<Block*> blocks;
  map_.ForEach([&](Block& block) {
    if (block.owner() == this && block.kind() != BlockKind::kSmallArena) {
      blocks.push_back(&block);
    }
  });
  for (Block* block : blocks) {
    if (!block->BeginFree()) continue;
    const auto no_copies = [](const std::byte*, const std::byte*) {};
    (block->kind() == BlockKind::kStaged ? FreeStaged(*block, no_copies)
                                         : FreePinned(*block))
        .IgnoreError();
  }
  absl::MutexLock lock(&pool_mutex_);
  if (arena_ == nullptr) return;
  // Out of the map first: the address may come back as soon as it is free.
  if (Block* block = map_.Find(arena_)) Forget(*block);
  (void)driver_.MemFreeHost(arena_);
}

bool HostMemory::InForkedChild() const {
  return os::ProcessId() != process_id_;
}

absl::StatusOr<void*> HostMemory::Allocate(
    size_t bytes, unsigned flags, int device,
    absl::FunctionRef<absl::Status()> ensure_context) {
  if (!options_.stage || (flags & kReallyPinnedFlags) != 0) {
    if (auto status = ensure_context(); !status.ok()) return status;
    return AllocatePinned(bytes, flags, device);
  }
  if (bytes <= options_.small_limit_bytes && options_.small_pool_bytes > 0) {
    if (void* small = AllocateSmall(bytes, flags, device, ensure_context)) {
      return small;
    }
  }
  return AllocateStaged(bytes, flags, device);
}

absl::StatusOr<Block*> HostMemory::Insert(BlockSpec spec) {
  spec.owner = this;
  while (true) {
    auto inserted = map_.Insert(spec);
    if (inserted.status().code() != absl::StatusCode::kAlreadyExists) {
      return inserted;
    }
    // The system has just handed the range out, so what the driver had there
    // went with a context that was reset. Pages of our own are never lost.
    Block* stale = map_.FindOverlap(spec.base, spec.mapped_bytes);
    if (stale == nullptr) continue;
    if (stale->kind() == BlockKind::kStaged) return inserted;
    static_cast<HostMemory*>(stale->owner())->Forget(*stale);
  }
}

// Takes a block that the driver has freed out of map and accounts.
void HostMemory::Forget(Block& block) {
  const bool arena = block.kind() == BlockKind::kSmallArena;
  const uint64_t bytes = block.bytes();
  const CategoryId category = block.category();
  if (!block.BeginFree()) return;
  block.WaitUntilUnused();
  if (!map_.Erase(&block).ok()) return;
  if (arena) {
    ledger_.ArenaUnpinned(bytes);
  } else {
    ledger_.Released(category, UsageKind::kMappedPinned, bytes);
  }
  budget_.Release(bytes);
}

absl::Status HostMemory::CategoryFull(CategoryId category,
                                      uint64_t bytes) const {
  return CudaStatus(
      CUDA_ERROR_OUT_OF_MEMORY,
      absl::StrCat("category ", ledger_.categories().Name(category), " holds ",
                   HumanBytes(ledger_.CategoryBytes(category)), " and ",
                   HumanBytes(bytes), " more go beyond its limit of ",
                   HumanBytes(ledger_.LimitsOf(category).hard_bytes),
                   "; raise it (PINRING_CATEGORY_LIMITS, "
                   "pinringSetCategoryLimit) or free memory"));
}

absl::StatusOr<void*> HostMemory::AllocateStaged(size_t bytes, unsigned flags,
                                                 int device) {
  auto pages = AllocateStagedPages(bytes);
  if (!pages.ok()) return pages.status();
  const CategoryId category = ledger_.categories().Current();
  if (!ledger_.TryAllocated(category, UsageKind::kStaged,
                            pages->mapped_bytes)) {
    const uint64_t wanted = pages->mapped_bytes;
    ReleaseStagedPages(*pages).IgnoreError();
    return CategoryFull(category, wanted);
  }
  auto block = Insert({.base = AddressOf(pages->base),
                       .bytes = bytes,
                       .mapped_bytes = pages->mapped_bytes,
                       .kind = BlockKind::kStaged,
                       .category = category,
                       .device = device,
                       .host_flags = flags});
  if (!block.ok()) {
    ledger_.Released(category, UsageKind::kStaged, pages->mapped_bytes);
    ReleaseStagedPages(*pages).IgnoreError();
    return block.status();
  }
  return pages->base;
}

absl::StatusOr<void*> HostMemory::AllocatePinned(size_t bytes, unsigned flags,
                                                 int device) {
  const std::optional<size_t> mapped =
      os::RoundUp(bytes, AddressMap::kGrainBytes);
  PinnedCharge charge = PinnedCharge::Try(&budget_, bytes);
  if (!mapped.has_value() || !charge) {
    ledger_.Count(UsageEvent::kBudgetRefused);
    return LimitReached("pinned memory", bytes, budget_);
  }
  const CategoryId category = ledger_.categories().Current();
  void* base = nullptr;
  if (!ledger_.TryAllocated(category, UsageKind::kMappedPinned, bytes)) {
    return CategoryFull(category, bytes);
  }
  if (const CUresult code = driver_.MemHostAlloc(&base, bytes, flags);
      code != CUDA_SUCCESS) {
    ledger_.Released(category, UsageKind::kMappedPinned, bytes);
    return CudaStatus(code,
                      absl::StrCat("cuMemHostAlloc of ", HumanBytes(bytes)));
  }
  auto block = Insert({.base = AddressOf(base),
                       .bytes = bytes,
                       .mapped_bytes = *mapped,
                       .kind = BlockKind::kMappedPinned,
                       .category = category,
                       .device = device,
                       .host_flags = flags});
  if (!block.ok()) {
    (void)driver_.MemFreeHost(base);
    ledger_.Released(category, UsageKind::kMappedPinned, bytes);
    return block.status();
  }
  charge.Keep();
  return base;
}

void* HostMemory::AllocateSmall(
    size_t bytes, unsigned flags, int device,
    absl::FunctionRef<absl::Status()> ensure_context) {
  SmallPool* pool = Pool(ensure_context);
  if (pool == nullptr) return nullptr;
  const CategoryId category = ledger_.categories().Current();
  auto block = pool->Allocate(
      bytes, {.category = category, .device = device, .host_flags = flags});
  if (block.ok()) {
    if (ledger_.TryAllocated(category, UsageKind::kSmallPinned,
                             block->occupied_bytes)) {
      return block->data;
    }
    pool->Free(block->data).IgnoreError();
    // A staged block would be larger, and so refused with its reason.
    return nullptr;
  }
  if (ledger_.Count(UsageEvent::kSmallPoolFull) == 0) {
    os::WriteErrorLine(absl::StrCat(
        "pinring: the pool of small pinned blocks (",
        HumanBytes(options_.small_pool_bytes),
        ") is full; small blocks are staged from here on, so kernels cannot "
        "use them. Raise PINRING_SMALL_POOL_BYTES"));
  }
  return nullptr;
}

SmallPool* HostMemory::Pool(absl::FunctionRef<absl::Status()> ensure_context) {
  absl::MutexLock lock(&pool_mutex_);
  if (arena_ != nullptr && !ArenaIsThere()) {
    pool_.store(nullptr, std::memory_order_release);
    if (Block* block = map_.Find(arena_)) Forget(*block);
    arena_ = nullptr;
  }
  // Asked once: on some systems a refused pin makes the next one fail.
  if (arena_ == nullptr && !pool_refused_) {
    const absl::Status status = MakePool(ensure_context);
    if (!status.ok()) {
      pool_refused_ = true;
      ledger_.Count(UsageEvent::kSmallPoolFull);
      os::WriteErrorLine(absl::StrCat(
          "pinring: no pool for small pinned blocks (", status.message(),
          "); they are staged, so kernels cannot use them. Lower "
          "PINRING_SMALL_POOL_BYTES or raise PINRING_PINNED_LIMIT_BYTES"));
    }
  }
  return pool_.load(std::memory_order_relaxed);
}

bool HostMemory::ArenaIsThere() const {
  unsigned type = 0;
  CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
  void* value = &type;
  const CUresult code = driver_.PointerGetAttributes(
      1, &attribute, &value, reinterpret_cast<CUdeviceptr>(arena_));
  // Where the driver does not answer at all, nothing is known.
  return code != CUDA_SUCCESS || type == CU_MEMORYTYPE_HOST;
}

absl::Status HostMemory::MakePool(
    absl::FunctionRef<absl::Status()> ensure_context) {
  if (auto status = ensure_context(); !status.ok()) return status;
  const size_t bytes = options_.small_pool_bytes;
  PinnedCharge charge = PinnedCharge::Try(&budget_, bytes);
  if (!charge) {
    ledger_.Count(UsageEvent::kBudgetRefused);
    return LimitReached("a pool", bytes, budget_);
  }
  RelaxedCapture relaxed(driver_);
  void* arena = nullptr;
  ledger_.ArenaPinned(bytes);
  absl::Status status =
      CudaStatus(driver_.MemHostAlloc(&arena, bytes, kSharedPinnedFlags),
                 absl::StrCat("cuMemHostAlloc of ", HumanBytes(bytes)));
  if (status.ok()) {
    status =
        Insert({.base = AddressOf(arena),
                .bytes = bytes,
                .mapped_bytes =
                    os::RoundUp(bytes, AddressMap::kGrainBytes).value_or(bytes),
                .kind = BlockKind::kSmallArena,
                .host_flags = kSharedPinnedFlags})
            .status();
    if (!status.ok()) (void)driver_.MemFreeHost(arena);
  }
  if (!status.ok()) {
    ledger_.ArenaUnpinned(bytes);
    return status;
  }
  charge.Keep();
  arena_ = arena;
  pools_.push_back(std::make_unique<SmallPool>(arena, bytes));
  pool_.store(pools_.back().get(), std::memory_order_release);
  return absl::OkStatus();
}

absl::Status HostMemory::Free(
    void* pointer,
    absl::FunctionRef<void(const std::byte* begin, const std::byte* end)> wait,
    absl::FunctionRef<absl::Status()> synchronize) {
  Block* block = map_.Find(pointer);
  if (block == nullptr) return NotABlock(pointer);
  if (InForkedChild()) return FreeInForkedChild(*block, pointer);
  if (block->kind() == BlockKind::kSmallArena) {
    return FreeSmall(pointer, synchronize);
  }
  // The address first: a block that is freed by another thread right now may
  // be described by a record that is another block's a moment later.
  if (block->data() != pointer || !block->BeginFree()) {
    return NotABlock(pointer);
  }
  block->WaitUntilUnused();
  return block->kind() == BlockKind::kStaged ? FreeStaged(*block, wait)
                                             : FreePinned(*block);
}

absl::Status HostMemory::FreeSmall(
    void* pointer, absl::FunctionRef<absl::Status()> synchronize) {
  SmallPool* pool = pool_.load(std::memory_order_acquire);
  if (pool == nullptr) return NotABlock(pointer);
  const std::optional<SmallBlock> block = pool->Find(pointer);
  if (!block.has_value() || block->data != pointer) return NotABlock(pointer);
  // The driver copies small blocks itself, so nobody here knows which copies
  // are in flight. Freeing pinned memory waits for the device natively too.
  absl::Status status = synchronize();
  const auto freed = pool->Free(pointer);
  if (!freed.ok()) return NotABlock(pointer);
  ledger_.Released(freed->label.category, UsageKind::kSmallPinned,
                   freed->occupied_bytes);
  return status;
}

absl::Status HostMemory::FreePinned(Block& block) {
  void* const base = block.data();
  const size_t bytes = block.bytes();
  const CategoryId category = block.category();
  // Out of the map first: the address may come back as soon as it is free.
  if (auto status = map_.Erase(&block); !status.ok()) return status;
  const CUresult code = driver_.MemFreeHost(base);
  // Where the driver refuses, its context is gone, and the memory with it.
  ledger_.Released(category, UsageKind::kMappedPinned, bytes);
  budget_.Release(bytes);
  return CudaStatus(code, "cuMemFreeHost");
}

absl::Status HostMemory::FreeStaged(
    Block& block,
    absl::FunctionRef<void(const std::byte*, const std::byte*)> wait) {
  const StagedPages pages = {.base = block.data(),
                             .bytes = block.bytes(),
                             .mapped_bytes = block.mapped_bytes()};
  const CategoryId category = block.category();
  const auto* begin = static_cast<const std::byte*>(pages.base);
  wait(begin, begin + pages.mapped_bytes);
  absl::Status result = absl::OkStatus();
  UsageKind kind = UsageKind::kStaged;
  if (block.promoted()) {
    // Waits for the device, as freeing pinned memory does. Asked again where it
    // is refused: an error that comes twice is that of a lost context, whose
    // registrations are gone. Any other would leave the address registered, and
    // the driver would take the next block there for the old pages.
    CUresult code = driver_.MemHostUnregister(pages.base);
    if (code != CUDA_SUCCESS) code = driver_.MemHostUnregister(pages.base);
    result = CudaStatus(code, "cuMemHostUnregister");
    kind = UsageKind::kPromoted;
  }
  if (auto status = map_.Erase(&block); !status.ok()) return status;
  if (auto status = ReleaseStagedPages(pages); !status.ok()) {
    result.Update(status);
  }
  ledger_.Released(category, kind, pages.mapped_bytes);
  if (kind == UsageKind::kPromoted) budget_.Release(pages.mapped_bytes);
  return result;
}

absl::Status HostMemory::FreeInForkedChild(Block& block, void* pointer) {
  switch (block.kind()) {
    case BlockKind::kSmallArena:
      return absl::OkStatus();  // The pool's lock may be held for ever.
    case BlockKind::kMappedPinned:
    case BlockKind::kStaged:
      break;
  }
  if (block.data() != pointer || !block.BeginFree()) return NotABlock(pointer);
  if (block.kind() != BlockKind::kStaged) return absl::OkStatus();
  // Uses are the parent's, and so is the map's lock; the block stays in the
  // map, as one that is being freed.
  return ReleaseStagedPages({.base = pointer,
                             .bytes = block.bytes(),
                             .mapped_bytes = block.mapped_bytes()});
}

absl::Status HostMemory::Promote(Block& block) {
  if (block.kind() != BlockKind::kStaged) return absl::OkStatus();
  if (block.BeginPromotion() == Block::PromotionTurn::kDone) {
    return absl::OkStatus();
  }
  const uint64_t bytes = block.mapped_bytes();
  PinnedCharge charge = PinnedCharge::Try(&budget_, bytes);
  if (!charge) {
    block.AbandonPromotion();
    ledger_.Count(UsageEvent::kBudgetRefused);
    return LimitReached("promotion", bytes, budget_);
  }
  RelaxedCapture relaxed(driver_);
  ledger_.Moved(block.category(), UsageKind::kStaged, UsageKind::kPromoted,
                bytes);
  absl::Status status = CudaStatus(
      driver_.MemHostRegister(block.data(), bytes, kSharedRegisterFlags),
      absl::StrCat("cuMemHostRegister of ", HumanBytes(bytes)));
  CUdeviceptr device_pointer = 0;
  if (status.ok()) {
    status = CudaStatus(
        driver_.MemHostGetDevicePointer(&device_pointer, block.data(), 0),
        "cuMemHostGetDevicePointer");
    if (!status.ok()) (void)driver_.MemHostUnregister(block.data());
  }
  if (!status.ok()) {
    ledger_.Moved(block.category(), UsageKind::kPromoted, UsageKind::kStaged,
                  bytes);
    block.AbandonPromotion();
    return status;
  }
  charge.Keep();
  block.FinishPromotion(device_pointer);
  return absl::OkStatus();
}

std::optional<HostMemory::Facts> HostMemory::FindShorter(const void* address,
                                                         uint64_t bytes) const {
  // In a child of fork the driver refuses all copies.
  if (InForkedChild()) return std::nullopt;
  const std::optional<Facts> facts = Describe(address);
  if (!facts.has_value() ||
      bytes <= facts->bytes - (AddressOf(address) - facts->base)) {
    return std::nullopt;
  }
  return facts;
}

std::optional<HostMemory::Facts> HostMemory::Describe(
    const void* address) const {
  const Block* block = map_.Find(address);
  if (block == nullptr || block->freeing()) return std::nullopt;
  if (block->kind() != BlockKind::kSmallArena) {
    Facts facts = {.device = block->device(),
                   .host_flags = block->host_flags(),
                   .device_pointer = AddressOf(address),
                   .base = block->base(),
                   .bytes = block->bytes()};
    if (block->promoted()) {
      facts.device_pointer =
          block->device_pointer() + (AddressOf(address) - block->base());
    }
    return facts;
  }
  if (InForkedChild()) {  // Without the pool's lock.
    return Facts{.device_pointer = AddressOf(address)};
  }
  const SmallPool* pool = pool_.load(std::memory_order_acquire);
  const std::optional<SmallBlock> small =
      pool == nullptr ? std::nullopt : pool->Find(address);
  if (!small.has_value()) return std::nullopt;
  return Facts{.device = small->label.device,
               .host_flags = small->label.host_flags,
               .device_pointer = AddressOf(address),
               .base = AddressOf(small->data),
               .bytes = small->bytes};
}

}  // namespace pinring
