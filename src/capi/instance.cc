#include "src/capi/instance.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "src/capi/addresses.h"
#include "src/driver/status.h"
#include "src/os/env.h"
#include "src/usage/usage_print.h"

namespace pinring {
namespace {

constexpr unsigned kHostAllocFlags =
    cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
static_assert(cudaHostAllocPortable == CU_MEMHOSTALLOC_PORTABLE &&
              cudaHostAllocMapped == CU_MEMHOSTALLOC_DEVICEMAP &&
              cudaHostAllocWriteCombined == CU_MEMHOSTALLOC_WRITECOMBINED);

// How many copies executable graphs can have through the ring at once.
constexpr uint32_t kGraphCopies = 512;

absl::StatusOr<copy::KernelSet> ChooseKernels(absl::string_view option) {
  const std::pair<absl::string_view, absl::string_view> names =
      absl::StrSplit(option, absl::MaxSplits(':', 1));
  const auto named = [](absl::string_view name) {
    return name == "auto" ? absl::string_view() : name;
  };
  const bool one = option.find(':') == absl::string_view::npos;
  return copy::KernelSet::ByName(named(names.first),
                                 named(one ? names.first : names.second));
}

EngineOptions MakeEngineOptions(const Options& options,
                                const copy::KernelSet& kernels,
                                const InstanceThreads& threads) {
  EngineOptions engine;
  engine.ring_bytes = options.ring_bytes;
  engine.division.slot_bytes = options.slot_bytes;
  engine.division.slots_per_stream = options.slots_per_stream;
  engine.movers = threads.movers ? static_cast<int>(options.movers) : -1;
  engine.kernels = kernels;
  engine.graph_lines = kGraphCopies;
  return engine;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Instance>> Instance::Create(
    const Driver* driver, const Options& options, AddressMap* blocks,
    const InstanceThreads& threads) {
  auto kernels = ChooseKernels(options.kernel);
  if (!kernels.ok()) return kernels.status();
  const uint64_t slots =
      options.slots_per_stream == 0 ? 1 : options.slots_per_stream;
  if (options.slot_bytes > options.ring_bytes / slots) {
    return absl::InvalidArgumentError(absl::StrCat(
        "PINRING_SLOT_BYTES=", options.slot_bytes, " times ", slots,
        " slots do not fit into PINRING_RING_BYTES=", options.ring_bytes));
  }
  const auto limits = ParseCategoryLimits(options.category_limits);
  if (!limits.ok()) return limits.status();
  auto instance = std::unique_ptr<Instance>(
      new Instance(driver, options, *kernels, blocks, threads));
  for (const CategoryLimits& each : *limits) {
    if (auto status = instance->SetCategoryLimits(
            each.name, {each.soft_bytes, each.hard_bytes});
        !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("PINRING_CATEGORY_LIMITS: ", status.message()));
    }
  }
  if (options.verbose) instance->SayOptions(*kernels);
  return instance;
}

namespace {

void WarnOfLimit(const UsageLedger& ledger, CategoryId category,
                 UsageEvent event) {
  const UsageLedger::Limits limits = ledger.LimitsOf(category);
  const std::string name = ledger.categories().Name(category);
  os::WriteErrorLine(
      event == UsageEvent::kCategoryRefused
          ? absl::StrCat("pinring: category ", name, " has reached its limit (",
                         HumanBytes(limits.hard_bytes),
                         "): requests beyond it are out of memory")
          : absl::StrCat("pinring: category ", name,
                         " has gone beyond its soft limit (",
                         HumanBytes(limits.soft_bytes), "): it holds ",
                         HumanBytes(ledger.CategoryBytes(category))));
}

}  // namespace

Instance::Instance(const Driver* driver, const Options& options,
                   const copy::KernelSet& kernels, AddressMap* blocks,
                   const InstanceThreads& threads)
    : options_(options),
      driver_(*driver),
      own_category_(
          ledger_.categories().Intern("pinring").value_or(kDefaultCategory)),
      budget_(options.pinned_limit_bytes),
      contexts_(driver),
      memory_({.stage = options.enabled,
               .small_limit_bytes = options.small_limit_bytes,
               .small_pool_bytes = options.small_pool_bytes},
              driver, &ledger_, &budget_, blocks, this),
      engine_(
          MakeEngineOptions(options, kernels, threads),
          {.driver = driver,
           .parking = threads.parking != nullptr ? threads.parking : &parking_,
           .charge_ring = [this](size_t bytes) { return ChargeRing(bytes); },
           .release_ring = [this](size_t bytes) { ReleaseRing(bytes); }}) {
  ledger_.SetWarning(&WarnOfLimit);
}

void Instance::StartPublishing(uint64_t number) {
  if (!options_.publish) return;
  publisher_ = std::make_unique<UsagePublisher>(&ledger_, number,
                                                options_.pinned_limit_bytes);
  ledger_.SetObserver(publisher_.get());
}

Instance::~Instance() {
  // What is released below need not be shown.
  ledger_.SetObserver(nullptr);
  // What is pinned is unpinned below, which wants a context; where none was
  // ever made, nothing is pinned.
  if (budget_.current_bytes() == 0) return;
  contexts_.EnsureCurrent().IgnoreError();
  if (engine_.outstanding() > 0) contexts_.SynchronizeAll().IgnoreError();
}

absl::Status Instance::HostAlloc(void** pointer, size_t bytes, unsigned flags) {
  if (pointer == nullptr) {
    return InvalidValue("the address to put the block's address at is null");
  }
  if ((flags & ~kHostAllocFlags) != 0) {
    return InvalidValue(absl::StrCat("allocation flags 0x", absl::Hex(flags),
                                     ": only portable (1), mapped (2) and "
                                     "write-combined (4) are known"));
  }
  *pointer =
      nullptr;  // as natively, also where nothing is asked for or to be had
  if (bytes == 0) return absl::OkStatus();
  if (auto status = CheckProcess(); !status.ok()) return status;
  auto block = memory_.Allocate(bytes, flags, contexts_.CurrentDevice(),
                                [this] { return contexts_.EnsureCurrent(); });
  if (!block.ok()) return block.status();
  *pointer = *block;
  return absl::OkStatus();
}

absl::Status Instance::FreeHost(void* pointer) {
  if (pointer == nullptr) return absl::OkStatus();
  if (!memory_.Owns(pointer)) {
    return CallDriver("cuMemFreeHost",
                      [&] { return driver_.MemFreeHost(pointer); });
  }
  return memory_.Free(
      pointer,
      [this](const std::byte* begin, const std::byte* end) {
        engine_.WaitForHost(begin, static_cast<size_t>(end - begin));
        // The engine knows nothing of copies that went past it.
        if (host_page_tables_.load(std::memory_order_relaxed) ==
                HostPageTables::kYes ||
            copies_past_engine_.load(std::memory_order_relaxed)) {
          contexts_.SynchronizeAll().IgnoreError();
        }
        engine_.SeverHost(begin, static_cast<size_t>(end - begin));
      },
      [this] { return contexts_.SynchronizeAll(); });
}

absl::Status Instance::HostRegister(void* pointer, size_t bytes,
                                    unsigned flags) {
  if (bytes > 0 &&
      memory_.map().FindOverlap(reinterpret_cast<uintptr_t>(pointer), bytes)) {
    return InvalidValue(absl::StrCat(
        "registration of ", bytes, " bytes at ", AddressText(pointer),
        ": the range holds pinned memory already"));
  }
  return CallDriver("cuMemHostRegister", [&] {
    return driver_.MemHostRegister(pointer, bytes, flags);
  });
}

absl::Status Instance::HostUnregister(void* pointer) {
  if (memory_.Owns(pointer)) {
    return InvalidValue(absl::StrCat(AddressText(pointer),
                                     " was allocated pinned, not registered"));
  }
  return CallDriver("cuMemHostUnregister",
                    [&] { return driver_.MemHostUnregister(pointer); });
}

absl::Status Instance::PointerGetAttributes(cudaPointerAttributes* attributes,
                                            const void* pointer) {
  if (attributes == nullptr) return InvalidValue("the attributes are null");
  if (const auto facts = memory_.Describe(pointer); facts.has_value()) {
    *attributes = {};
    attributes->type = cudaMemoryTypeHost;
    attributes->device = facts->device;
    attributes->hostPointer = const_cast<void*>(pointer);
    attributes->devicePointer = reinterpret_cast<void*>(facts->device_pointer);
    return absl::OkStatus();
  }
  if (memory_.Owns(pointer)) {
    // Between the blocks of the pool, or being freed.
    *attributes = {};
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = cudaInvalidDeviceId;
    attributes->hostPointer = const_cast<void*>(pointer);
    return absl::OkStatus();
  }
  return QueryDriver(attributes, pointer);
}

absl::Status Instance::QueryDriver(cudaPointerAttributes* attributes,
                                   const void* pointer) {
  CUpointer_attribute wanted[] = {
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
      CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER,
      CU_POINTER_ATTRIBUTE_IS_MANAGED};
  unsigned type = 0;
  int device = cudaInvalidDeviceId;
  CUdeviceptr device_pointer = 0;
  void* host_pointer = nullptr;
  unsigned managed = 0;
  void* values[] = {&type, &device, &device_pointer, &host_pointer, &managed};
  auto status = CallDriver("cuPointerGetAttributes", [&] {
    return driver_.PointerGetAttributes(5, wanted, values,
                                        DeviceAddress(pointer));
  });
  if (!status.ok()) return status;
  *attributes = {};
  attributes->device = device;
  attributes->devicePointer = reinterpret_cast<void*>(device_pointer);
  attributes->hostPointer = host_pointer;
  if (managed != 0) {
    attributes->type = cudaMemoryTypeManaged;
  } else if (type == CU_MEMORYTYPE_HOST) {
    attributes->type = cudaMemoryTypeHost;
  } else if (type == CU_MEMORYTYPE_DEVICE) {
    attributes->type = cudaMemoryTypeDevice;
  } else {
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = cudaInvalidDeviceId;
    attributes->devicePointer = nullptr;
    attributes->hostPointer = const_cast<void*>(pointer);
  }
  return absl::OkStatus();
}

absl::Status Instance::HostGetDevicePointer(void** device_pointer,
                                            void* pointer, unsigned flags) {
  if (device_pointer == nullptr || pointer == nullptr) {
    return InvalidValue("a null pointer");
  }
  if (flags != 0) {
    return InvalidValue(
        absl::StrCat("device pointer flags ", flags, ": must be 0"));
  }
  if (const BlockUse block = memory_.UseStaged(pointer)) {
    if (auto status = CheckProcess(); !status.ok()) return status;
    if (auto status = contexts_.EnsureCurrent(); !status.ok()) return status;
    if (auto status = memory_.Promote(*block); !status.ok()) return status;
    *device_pointer = reinterpret_cast<void*>(
        block->device_pointer() + (DeviceAddress(pointer) - block->base()));
    return absl::OkStatus();
  }
  if (memory_.Owns(pointer) && !memory_.Describe(pointer).has_value()) {
    return InvalidValue(
        absl::StrCat(AddressText(pointer), " is in no block of pinned memory"));
  }
  CUdeviceptr address = 0;
  auto status = CallDriver("cuMemHostGetDevicePointer", [&] {
    return driver_.MemHostGetDevicePointer(&address, pointer, 0);
  });
  if (status.ok()) *device_pointer = reinterpret_cast<void*>(address);
  return status;
}

absl::Status Instance::Promote(void* pointer) {
  if (const BlockUse block = memory_.UseStaged(pointer)) {
    if (auto status = CheckProcess(); !status.ok()) return status;
    if (auto status = contexts_.EnsureCurrent(); !status.ok()) return status;
    return memory_.Promote(*block);
  }
  if (memory_.Describe(pointer).has_value()) return absl::OkStatus();
  return InvalidValue(
      absl::StrCat(AddressText(pointer), " is in no block of this library"));
}

absl::Status Instance::PromoteOnUse(void* pointer, absl::string_view function) {
  const BlockUse block = memory_.UseStaged(pointer);
  if (!block || block->promoted()) return absl::OkStatus();
  if (auto status = Promote(pointer); !status.ok()) {
    CountAndSay(
        UsageEvent::kPromotionRefused,
        absl::StrCat(function, " needs a block of ", HumanBytes(block->bytes()),
                     " that is really pinned, which cannot be pinned in "
                     "place: ",
                     status.message()));
    return status;
  }
  CountAndSay(UsageEvent::kPromotedOnUse,
              absl::StrCat("a block of ", HumanBytes(block->bytes()),
                           " is pinned in place, since ", function,
                           " needs it really pinned"));
  return absl::OkStatus();
}

absl::Status Instance::HostGetFlags(unsigned* flags, void* pointer) {
  if (flags == nullptr || pointer == nullptr)
    return InvalidValue("a null pointer");
  if (const auto facts = memory_.Describe(pointer); facts.has_value()) {
    // The runtime maps all pinned memory where addresses are unified.
    *flags = facts->host_flags | cudaHostAllocMapped;
    return absl::OkStatus();
  }
  if (memory_.Owns(pointer)) {
    return InvalidValue(
        absl::StrCat(AddressText(pointer), " is in no block of pinned memory"));
  }
  return CallDriver("cuMemHostGetFlags",
                    [&] { return driver_.MemHostGetFlags(flags, pointer); });
}

absl::Status Instance::PushCategory(std::string_view name) {
  return ledger_.categories().Push(name);
}

absl::Status Instance::PopCategory() {
  const auto popped = ledger_.categories().Pop();
  if (popped.ok()) return absl::OkStatus();
  return InvalidValue("the calling thread is in no category");
}

absl::Status Instance::SetCategoryLimits(std::string_view name,
                                         UsageLedger::Limits limits) {
  const auto category = ledger_.categories().Intern(name);
  if (!category.ok()) return category.status();
  ledger_.SetLimits(*category, limits);
  return absl::OkStatus();
}

UsageSnapshot Instance::Usage() const {
  UsageSnapshot snapshot = ledger_.Snapshot();
  snapshot.pinned_limit_bytes = options_.pinned_limit_bytes;
  return snapshot;
}

uint64_t Instance::BlockCount() const {
  const UsageSnapshot usage = ledger_.Snapshot();
  return usage.all.current_count - usage.kind(UsageKind::kRing).current_count;
}

// Nothing that needs CUDA works in a child of fork, and a call of the driver
// there can hang.
absl::Status Instance::CheckProcess() const {
  if (!memory_.InForkedChild()) return absl::OkStatus();
  return CudaStatus(CUDA_ERROR_NOT_INITIALIZED,
                    "CUDA cannot be used in a child of fork");
}

absl::Status Instance::CallDriver(absl::string_view what,
                                  absl::FunctionRef<CUresult()> call) {
  CUresult code = call();
  if (code == CUDA_ERROR_INVALID_CONTEXT) {
    if (auto status = contexts_.EnsureCurrent(); !status.ok()) return status;
    code = call();
  }
  // Texts are for errors only: this stands in the way of every native copy.
  return code == CUDA_SUCCESS ? absl::OkStatus() : CudaStatus(code, what);
}

bool Instance::ChargeRing(size_t bytes) {
  if (!budget_.TryCharge(bytes)) {
    ledger_.Count(UsageEvent::kBudgetRefused);
    return false;
  }
  ledger_.Allocated(own_category_, UsageKind::kRing, bytes);
  return true;
}

void Instance::ReleaseRing(size_t bytes) {
  ledger_.Released(own_category_, UsageKind::kRing, bytes);
  budget_.Release(bytes);
}

void Instance::CountAndSay(UsageEvent event, absl::string_view text) {
  if (ledger_.Count(event) == 0) {
    os::WriteErrorLine(absl::StrCat("pinring: ", text));
  }
}

void Instance::SayOptions(const copy::KernelSet& kernels) const {
  os::WriteErrorLine(absl::StrCat(
      "pinring: ring ", HumanBytes(options_.ring_bytes),
      ", small blocks up to ", HumanBytes(options_.small_limit_bytes),
      " from a pool of ", HumanBytes(options_.small_pool_bytes), ", limit ",
      options_.pinned_limit_bytes == 0
          ? std::string("not set")
          : HumanBytes(options_.pinned_limit_bytes),
      ", copy kernels ", kernels.in().name, " and ", kernels.out().name,
      options_.enabled ? "" : ", switched off"));
}

}  // namespace pinring
