// Device memory, pinned host memory, what a pointer is.

#include <algorithm>

#include "absl/strings/str_format.h"
#include "src/simcuda/model.h"

namespace pinring::simcuda {
namespace {

constexpr unsigned kHostAllocFlags = CU_MEMHOSTALLOC_PORTABLE |
                                     CU_MEMHOSTALLOC_DEVICEMAP |
                                     CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned kHostRegisterFlags =
    CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
    CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

template <typename T>
void Put(void* value, T what) {
  *static_cast<T*>(value) = what;
}

}  // namespace

CUresult Model::MemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  if (free_bytes == nullptr || total_bytes == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  Context* context;
  PINRING_SIMCUDA_TRY(Current(&context));
  *total_bytes = options_.device_bytes;
  *free_bytes =
      options_.device_bytes -
      std::min(options_.device_bytes, memory_.device_bytes(context->ordinal));
  return CUDA_SUCCESS;
}

CUresult Model::AllocateDevice(const char* entry, size_t bytes,
                               CUdeviceptr* pointer) {
  Context* context;
  PINRING_SIMCUDA_TRY(Current(&context));
  if (pointer == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  PINRING_SIMCUDA_TRY(CheckUnsafe());
  Lock lock;
  PINRING_SIMCUDA_TRY(lock.Acquire(*this, *context, entry));
  const size_t used = memory_.device_bytes(context->ordinal) +
                      (options_.wddm ? memory_.pinned_bytes() : 0);
  if (used > options_.device_bytes || bytes > options_.device_bytes - used)
    return CUDA_ERROR_OUT_OF_MEMORY;
  const Block* block =
      memory_.Allocate(MemoryKind::kDevice, bytes, context->ordinal, 0);
  if (block == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *pointer = reinterpret_cast<CUdeviceptr>(block->base);
  return CUDA_SUCCESS;
}

CUresult Model::MemAlloc(CUdeviceptr* pointer, size_t bytes) {
  return AllocateDevice("cuMemAlloc", bytes, pointer);
}

// Work that is enqueued although the block goes away: the program's error, and
// one that corrupts memory natively.
bool Model::ReportUse(const char* entry, const Block& block) {
  bool used = false;
  for (const auto& context : contexts_) {
    for (const StreamRef& stream : context->device.active()) {
      for (const OpRef& op : stream->ops) {
        if (!op->Touches(block.base, block.bytes)) continue;
        used = true;
        AddHazard(absl::StrFormat(
            "%s of %p (%d bytes) while %s #%d of stream %d is to use it", entry,
            static_cast<const void*>(block.base), block.bytes, Name(op->kind),
            op->number, stream->id));
      }
    }
  }
  return used;
}

// The caller holds no lock. The block is looked up again after the wait, as
// others may have freed it meanwhile.
CUresult Model::FreeBlock(const char* entry, Context& context,
                          const Block* block) {
  char* const base = block->base;
  const uint64_t id = block->id;
  Lock lock;
  PINRING_SIMCUDA_TRY(lock.Acquire(*this, context, entry));
  PINRING_SIMCUDA_TRY(WaitForWork(context, entry, block->pinned()));
  block = memory_.Find(base);
  if (block == nullptr || block->id != id) return CUDA_ERROR_INVALID_VALUE;
  memory_.Erase(block, ReportUse(entry, *block));
  return CUDA_SUCCESS;
}

CUresult Model::MemFree(CUdeviceptr pointer) {
  Context* context;
  PINRING_SIMCUDA_TRY(Current(&context));
  if (pointer == 0) return CUDA_SUCCESS;
  PINRING_SIMCUDA_TRY(CheckUnsafe());
  auto* base = reinterpret_cast<char*>(pointer);
  const Block* block = memory_.Find(base);
  if (block == nullptr || block->base != base ||
      block->kind != MemoryKind::kDevice)
    return CUDA_ERROR_INVALID_VALUE;
  return FreeBlock("cuMemFree", *contexts_[static_cast<size_t>(block->device)],
                   block);
}

CUresult Model::Pin(const char* entry, size_t bytes, Context* context,
                    absl::FunctionRef<const Block*()> pin) {
  PINRING_SIMCUDA_TRY(CheckUnsafe());
  Lock lock;
  PINRING_SIMCUDA_TRY(lock.Acquire(*this, *context, entry));
  if (options_.wddm) {
    const size_t used =
        memory_.device_bytes(context->ordinal) + memory_.pinned_bytes();
    if (used > options_.device_bytes || bytes > options_.device_bytes - used)
      pinning_refused_ = true;
    if (pinning_refused_) return CUDA_ERROR_ALREADY_MAPPED;
  }
  const size_t left =
      options_.host_pinnable_bytes -
      std::min(options_.host_pinnable_bytes, memory_.pinned_bytes());
  if (bytes > left || pin() == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  return CUDA_SUCCESS;
}

CUresult Model::Unpin(const char* entry, void* pointer, MemoryKind kind) {
  Context* context;
  PINRING_SIMCUDA_TRY(Current(&context));
  PINRING_SIMCUDA_TRY(CheckUnsafe());
  const Block* block = memory_.Find(pointer);
  const bool registering = kind == MemoryKind::kHostRegistered;
  if (block == nullptr ||
      (registering && block->kind == kind && block->base != pointer)) {
    return registering ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED
                       : CUDA_ERROR_INVALID_VALUE;
  }
  if (block->kind != kind || block->base != pointer)
    return CUDA_ERROR_INVALID_VALUE;
  return FreeBlock(entry, *context, block);
}

CUresult Model::MemHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  Context* context;
  PINRING_SIMCUDA_TRY(Current(&context));
  if (pointer == nullptr || (flags & ~kHostAllocFlags) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  *pointer = nullptr;
  if (bytes == 0) return CUDA_SUCCESS;
  return Pin("cuMemHostAlloc", bytes, context, [&] {
    const Block* block = memory_.Allocate(MemoryKind::kHostAllocated, bytes,
                                          context->ordinal, flags);
    if (block != nullptr) *pointer = block->base;
    return block;
  });
}

CUresult Model::MemFreeHost(void* pointer) {
  return Unpin("cuMemFreeHost", pointer, MemoryKind::kHostAllocated);
}

CUresult Model::MemHostRegister(void* pointer, size_t bytes, unsigned flags) {
  Context* context;
  PINRING_SIMCUDA_TRY(Current(&context));
  if (pointer == nullptr || bytes == 0 || (flags & ~kHostRegisterFlags) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (!options_.host_register_supported) return CUDA_ERROR_NOT_SUPPORTED;
  if (reinterpret_cast<uintptr_t>(pointer) + bytes < bytes)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult overlap = CUDA_SUCCESS;
  const CUresult result =
      Pin("cuMemHostRegister", bytes, context, [&]() -> const Block* {
        const Block* other = memory_.FindOverlap(pointer, bytes);
        if (other == nullptr)
          return memory_.Register(pointer, bytes, context->ordinal, flags);
        overlap = other->kind == MemoryKind::kHostRegistered
                      ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
                      : CUDA_ERROR_INVALID_VALUE;
        return nullptr;
      });
  return overlap != CUDA_SUCCESS ? overlap : result;
}

CUresult Model::MemHostUnregister(void* pointer) {
  return Unpin("cuMemHostUnregister", pointer, MemoryKind::kHostRegistered);
}

CUresult Model::MemHostGetDevicePointer(CUdeviceptr* device_pointer,
                                        void* pointer, unsigned flags) {
  Context* context;
  PINRING_SIMCUDA_TRY(Current(&context));
  if (device_pointer == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const Block* block = memory_.Find(pointer);
  if (block == nullptr || !block->pinned()) return CUDA_ERROR_INVALID_VALUE;
  *device_pointer = reinterpret_cast<CUdeviceptr>(pointer);
  return CUDA_SUCCESS;
}

CUresult Model::MemHostGetFlags(unsigned* flags, void* pointer) {
  Context* context;
  PINRING_SIMCUDA_TRY(Current(&context));
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Block* block = memory_.Find(pointer);
  if (block == nullptr || !block->pinned()) return CUDA_ERROR_INVALID_VALUE;
  // With unified addressing everything is mapped.
  *flags = (block->flags & kHostAllocFlags) | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

void Model::GetAttribute(CUpointer_attribute attribute, void* value,
                         CUdeviceptr pointer, const Block* block) {
  const bool device = block != nullptr && !block->pinned();
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      Put<CUcontext>(
          value,
          block == nullptr
              ? nullptr
              : reinterpret_cast<CUcontext>(
                    contexts_[static_cast<size_t>(block->device)].get()));
      break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      Put<unsigned>(value, block == nullptr ? 0
                           : device         ? CU_MEMORYTYPE_DEVICE
                                            : CU_MEMORYTYPE_HOST);
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      Put<CUdeviceptr>(value, block == nullptr ? 0 : pointer);
      break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      Put<CUdeviceptr>(value, block == nullptr || device ? 0 : pointer);
      break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      Put<unsigned long long>(value, block == nullptr ? 0 : block->id);
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      Put<int>(value, block == nullptr ? -2 : block->device);
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      Put<CUdeviceptr>(value, block == nullptr
                                  ? 0
                                  : reinterpret_cast<CUdeviceptr>(block->base));
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      Put<size_t>(value, block == nullptr ? 0 : block->bytes);
      break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      Put<uint64_t>(value, 0);
      break;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      Put<int>(value, block != nullptr);
      break;
    default:
      Put<int>(value, 0);
      break;
  }
}

CUresult Model::MemGetAddressRange(CUdeviceptr* base, size_t* bytes,
                                   CUdeviceptr pointer) {
  Context* context;
  PINRING_SIMCUDA_TRY(Current(&context));
  const Block* block = memory_.Find(reinterpret_cast<const void*>(pointer));
  if (block == nullptr) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = reinterpret_cast<CUdeviceptr>(block->base);
  if (bytes != nullptr) *bytes = block->bytes;
  return CUDA_SUCCESS;
}

// Unlike its plural, this refuses memory that the driver does not know, and a
// host address for memory that has none (documented).
CUresult Model::PointerGetAttribute(void* value, CUpointer_attribute attribute,
                                    CUdeviceptr pointer) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context;
  PINRING_SIMCUDA_TRY(Current(&context));
  const Block* block = memory_.Find(reinterpret_cast<const void*>(pointer));
  if (block == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER && !block->pinned())
    return CUDA_ERROR_INVALID_VALUE;
  GetAttribute(attribute, value, pointer, block);
  return CUDA_SUCCESS;
}

CUresult Model::PointerGetAttributes(unsigned count,
                                     CUpointer_attribute* attributes,
                                     void** values, CUdeviceptr pointer) {
  if (count == 0 || attributes == nullptr || values == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  const ThreadState& thread = Thread();
  if (!thread.current.empty() && thread.current.back() != nullptr)
    PINRING_SIMCUDA_TRY(thread.current.back()->error);
  const Block* block = memory_.Find(reinterpret_cast<const void*>(pointer));
  for (unsigned i = 0; i < count; ++i) {
    if (values[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    GetAttribute(attributes[i], values[i], pointer, block);
  }
  return CUDA_SUCCESS;
}

}  // namespace pinring::simcuda
