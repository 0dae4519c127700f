#include "src/preload/staging.h"

#include <cstdint>
#include <cstring>
#include <exception>
#include <new>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "src/capi/addresses.h"
#include "src/capi/default_instance.h"
#include "src/driver/loader.h"
#include "src/driver/status.h"
#include "src/os/env.h"
#include "src/os/library.h"
#include "src/preload/caller.h"
#include "src/preload/report.h"

namespace pinring::preload {
namespace {

constexpr unsigned kKnownFlags = CU_MEMHOSTALLOC_PORTABLE |
                                 CU_MEMHOSTALLOC_DEVICEMAP |
                                 CU_MEMHOSTALLOC_WRITECOMBINED;

// Attributes that older headers do not know.
constexpr int kMappingSize = 18;
constexpr int kMappingBaseAddress = 19;
constexpr int kMemoryBlockId = 20;

absl::StatusOr<Driver> LoadRealDriver() {
  // The library stays from here on, whoever closes it.
  if (const auto library = os::SharedLibrary::Open({"libcuda.so.1"});
      !library.ok()) {
    return library.status();
  }
  return LoadDriver(EntryPoints::RealGetProcAddress());
}

// Runs `body`, which returns a status, inside the library.
template <typename Body>
CUresult Guarded(Body body) {
  const Inside inside;
  try {
    return CudaCode(body());
  } catch (const std::bad_alloc&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  } catch (const std::exception&) {
    return CUDA_ERROR_UNKNOWN;
  }
}

// The instance of a block that was found just now; the default one where it has
// been freed meanwhile. Null only where there never was a block.
Instance* InstanceOf(const void* address) {
  if (Instance* const owner = OwnerOf(address)) return owner;
  const NoInstance* error = nullptr;
  return DefaultInstance(&error);
}

// Runs `body` with that instance.
template <typename Body>
CUresult WithInstance(const void* address, Body body) {
  return Guarded([&]() -> absl::Status {
    Instance* const instance = InstanceOf(address);
    if (instance == nullptr) {
      return CudaStatus(CUDA_ERROR_NOT_INITIALIZED, "no instance");
    }
    return body(*instance);
  });
}

// The instance for new blocks; null where there is to be none: switched off, or
// with options that make no sense, which it has said then.
Instance* NewBlocksInstance() {
  static const bool loader_set = [] {
    SetDriverLoader(&LoadRealDriver);
    return true;
  }();
  (void)loader_set;
  const NoInstance* error = nullptr;
  Instance* const instance = DefaultInstance(&error);
  if (instance == nullptr || !instance->options().enabled) return nullptr;
  StartAnsweringSignal();
  return instance;
}

// The error of a context that is lost, which allocating would tell natively.
CUresult ContextError() {
  const Extra driver = EntryPoints::Extras();
  if (driver.EventCreate == nullptr || driver.EventDestroy == nullptr) {
    return CUDA_SUCCESS;
  }
  CUevent event = nullptr;
  const CUresult code = driver.EventCreate(&event, CU_EVENT_DISABLE_TIMING);
  return code == CUDA_SUCCESS ? driver.EventDestroy(event) : code;
}

bool IsLeftAlone(const Options& options, const Caller& caller) {
  if (options.leave_alone.empty()) return false;
  for (const absl::string_view name : absl::StrSplit(
           absl::string_view(options.leave_alone), ':', absl::SkipEmpty())) {
    if (name == caller.category || name == caller.library) return true;
  }
  return false;
}

absl::Status AllocateIn(Instance& instance, const Caller& caller,
                        void** pointer, size_t bytes, unsigned flags) {
  const bool named =
      !caller.category.empty() && instance.PushCategory(caller.category).ok();
  const absl::Status status = instance.HostAlloc(pointer, bytes, flags);
  if (named) (void)instance.PopCategory();
  return status;
}

template <typename Value>
CUresult Give(void* data, Value value) {
  std::memcpy(data, &value, sizeof(value));
  return CUDA_SUCCESS;
}

}  // namespace

constinit thread_local int Inside::depth_ = 0;

bool HasContext() {
  const auto get = EntryPoints::Extras().CtxGetCurrent;
  CUcontext context = nullptr;
  return get != nullptr && get(&context) == CUDA_SUCCESS && context != nullptr;
}

std::optional<CUresult> Allocate(void** pointer, size_t bytes, unsigned flags) {
  if (pointer == nullptr || bytes == 0 || (flags & ~kKnownFlags) != 0 ||
      !HasContext()) {
    return std::nullopt;
  }
  bool left = false;
  const CUresult code = Guarded([&]() -> absl::Status {
    Instance* const instance = NewBlocksInstance();
    if (instance == nullptr || bytes < instance->options().stage_min_bytes) {
      left = true;
      return absl::OkStatus();
    }
    if (const CUresult lost = ContextError(); lost != CUDA_SUCCESS) {
      return CudaStatus(lost, "the context");
    }
    const Caller caller = FindCaller();
    if (IsLeftAlone(instance->options(), caller)) {
      left = true;
      return absl::OkStatus();
    }
    if (instance->options().verbose) {
      os::WriteErrorLine(absl::StrCat("pinring: ", bytes, " bytes with flags ",
                                      flags, " for ", caller.category, " (",
                                      caller.library, ")"));
    }
    return AllocateIn(*instance, caller, pointer, bytes, flags);
  });
  if (left) return std::nullopt;
  return code;
}

CUresult Free(void* pointer) {
  return WithInstance(
      pointer, [&](Instance& instance) { return instance.FreeHost(pointer); });
}

CUresult GetDevicePointer(CUdeviceptr* device_pointer, void* pointer,
                          unsigned flags) {
  return WithInstance(pointer, [&](Instance& instance) {
    void* answer = nullptr;
    const absl::Status status =
        instance.HostGetDevicePointer(&answer, pointer, flags);
    if (status.ok()) *device_pointer = reinterpret_cast<CUdeviceptr>(answer);
    return status;
  });
}

CUresult GetFlags(unsigned* flags, void* pointer) {
  return WithInstance(pointer, [&](Instance& instance) {
    return instance.HostGetFlags(flags, pointer);
  });
}

CUresult CopyStaged(const Instance::Copy& copy) {
  const void* const address = IsStaged(copy.dst) ? copy.dst : copy.src;
  return WithInstance(address, [&](Instance& instance) {
    if (copy.rows != nullptr) return instance.MemcpyRows(copy);
    if (!copy.wait) {
      return instance.MemcpyAsync(copy.dst, copy.src, copy.bytes, copy.kind,
                                  copy.stream);
    }
    if (IsLegacyStream(copy.stream)) {
      return instance.Memcpy(copy.dst, copy.src, copy.bytes, copy.kind);
    }
    return instance.CopyPageable(copy);
  });
}

std::optional<CUresult> CopyPageable(const Instance::Copy& copy) {
  // Natively an asynchronous copy to the device of up to 1 MiB returns when the
  // source is read, whatever holds the stream, and one of 4 MiB when the stream
  // has got there.
  constexpr size_t kReadAtOnceBytes = size_t{4} << 20;
  if (!HasContext() ||
      (!IsLegacyStream(copy.stream) && IsCapturing(copy.stream))) {
    return std::nullopt;
  }
  bool left = false;
  const CUresult code = Guarded([&]() -> absl::Status {
    Instance* const instance = NewBlocksInstance();
    left = true;
    if (instance == nullptr) return absl::OkStatus();
    const size_t least = instance->options().pageable_min_bytes;
    if (least == 0 || copy.bytes < least) return absl::OkStatus();
    const auto direction = instance->PageableDirection(copy);
    // Whatever keeps it from telling, the driver will say.
    if (!direction.ok() || !direction->has_value()) return absl::OkStatus();
    left = false;
    Instance::Copy through = copy;
    if (!copy.wait) {
      const bool waits = **direction == Direction::kDeviceToHost ||
                         copy.bytes >= kReadAtOnceBytes;
      through.wait = waits;
      if (!waits) through.access = HostAccess::kDuringCall;
    }
    return instance->CopyPageable(through);
  });
  if (left) return std::nullopt;
  return code;
}

CUresult CopyStagedPeer(const Instance::Copy& copy,
                        const Instance::Peers& peers) {
  return WithInstance(
      IsStaged(copy.dst) ? copy.dst : copy.src,
      [&](Instance& instance) { return instance.MemcpyPeer(copy, peers); });
}

#if CUDA_VERSION >= 12080
CUresult CopyOfBatch(const Instance::Copy& copy, CUmemcpySrcAccessOrder order) {
  Instance::Copy ordered = copy;
  ordered.access = order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL
                       ? HostAccess::kDuringCall
                   : order == CU_MEMCPY_SRC_ACCESS_ORDER_ANY
                       ? HostAccess::kAnyTime
                       : HostAccess::kInStreamOrder;
  return WithInstance(
      IsStaged(copy.dst) ? copy.dst : copy.src,
      [&](Instance& instance) { return instance.CopyPageable(ordered); });
}
#endif

bool IsCapturing(CUstream stream) {
  const auto ask = EntryPoints::Extras().StreamIsCapturing;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return ask != nullptr && ask(stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

CUresult FillStaged(const Instance::Fill& fill) {
  return WithInstance(
      fill.dst, [&](Instance& instance) { return instance.Memset(fill); });
}

CUresult PromoteFor(const char* function, const void* address) {
  const Block* const block = FindBlock(address);
  if (block == nullptr || block->kind() != BlockKind::kStaged ||
      block->promoted() || Inside::Now() || !HasContext()) {
    return CUDA_SUCCESS;
  }
  return WithInstance(address, [&](Instance& instance) -> absl::Status {
    if (!instance.options().promote_on_use) {
      os::WriteErrorLine(
          absl::StrCat("pinring: ", function,
                       " needs memory that is really pinned, which "
                       "PINRING_PROMOTE_ON_USE=off forbids"));
      return CudaStatus(CUDA_ERROR_NOT_SUPPORTED, function);
    }
    return instance.PromoteOnUse(const_cast<void*>(address), function);
  });
}

CUresult PromoteWords(const char* function, const void* memory, size_t bytes) {
  if (memory == nullptr) return CUDA_SUCCESS;
  // Each launch of a kernel comes by here, with up to some hundred words.
  const AddressMap& blocks = Blocks();
  const auto* const begin = static_cast<const char*>(memory);
  for (size_t at = 0; at + sizeof(void*) <= bytes; at += sizeof(void*)) {
    const void* word = nullptr;
    std::memcpy(&word, begin + at, sizeof(word));
    if (blocks.Find(word) == nullptr) continue;
    if (const CUresult code = PromoteFor(function, word);
        code != CUDA_SUCCESS) {
      return code;
    }
  }
  return CUDA_SUCCESS;
}

Instance::ArrayFacts DescribeArray(const void* block_address, CUarray array) {
  Instance::ArrayFacts facts;
  (void)WithInstance(block_address, [&](Instance& instance) {
    const auto found = instance.DescribeArray(array);
    if (found.ok()) facts = *found;
    return found.status();
  });
  return facts;
}

std::optional<CUresult> GetAttribute(void* data, CUpointer_attribute attribute,
                                     const void* pointer) {
  const Instance* const instance = OwnerOf(pointer);
  if (instance == nullptr) return std::nullopt;
  const auto facts = instance->Describe(pointer);
  if (!facts.has_value()) return std::nullopt;
  switch (static_cast<int>(attribute)) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: {
      CUcontext context = nullptr;
      const auto get = EntryPoints::Extras().CtxGetCurrent;
      if (get != nullptr) (void)get(&context);
      return Give(data, reinterpret_cast<uintptr_t>(context));
    }
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return Give(data, static_cast<unsigned>(CU_MEMORYTYPE_HOST));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return Give(data, static_cast<CUdeviceptr>(facts->device_pointer));
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return Give(data, reinterpret_cast<uintptr_t>(pointer));
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return Give(data, facts->device);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case kMappingBaseAddress:
      return Give(data, static_cast<CUdeviceptr>(
                            facts->device_pointer -
                            (DeviceAddress(pointer) - facts->base)));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case kMappingSize:
      return Give(data, facts->bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return Give(data, 1U);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return Give(data, static_cast<unsigned>(
                            CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE));
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return Give(data, 0U);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return Give(data, uint64_t{0});
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case kMemoryBlockId:
      // As unique as the address, while the block is there.
      return Give(data, uint64_t{facts->base});
    default:
      return std::nullopt;
  }
}

}  // namespace pinring::preload
