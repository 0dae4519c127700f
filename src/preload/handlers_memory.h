// What rows of the table do: allocation, free, queries and look-ups.
//
// A handler's Run gets the driver's function and the program's arguments; where
// it finds no block in them it calls the one with the others.

#ifndef PINRING_SRC_PRELOAD_HANDLERS_MEMORY_H_
#define PINRING_SRC_PRELOAD_HANDLERS_MEMORY_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "src/preload/promote.h"
#include "src/preload/staging.h"

namespace pinring::preload {

struct HostAlloc {
  template <typename Row, typename Function>
  static CUresult Run(Function real, void** pointer, size_t bytes,
                      unsigned flags) {
    const auto answer = Allocate(pointer, bytes, flags);
    return answer.has_value() ? *answer : real(pointer, bytes, flags);
  }
};

struct AllocHost {
  template <typename Row, typename Function, typename Size>
  static CUresult Run(Function real, void** pointer, Size bytes) {
    const auto answer = Allocate(pointer, bytes, 0);
    return answer.has_value() ? *answer : real(pointer, bytes);
  }
};

struct FreeHost {
  template <typename Row, typename Function>
  static CUresult Run(Function real, void* pointer) {
    return FindBlock(pointer) != nullptr ? Free(pointer) : real(pointer);
  }
};

struct HostGetDevicePointer {
  template <typename Row, typename Function>
  static CUresult Run(Function real, CUdeviceptr* device_pointer, void* pointer,
                      unsigned flags) {
    if (device_pointer == nullptr || !IsStaged(pointer) || !HasContext()) {
      return real(device_pointer, pointer, flags);
    }
    return GetDevicePointer(device_pointer, pointer, flags);
  }
};

// Of what the driver pinned itself it knows whether it still is.
inline bool IsOurs(const Block* block) {
  return block != nullptr && block->kind() != BlockKind::kMappedPinned;
}

struct HostGetFlags {
  template <typename Row, typename Function>
  static CUresult Run(Function real, unsigned* flags, void* pointer) {
    return flags != nullptr && IsOurs(FindBlock(pointer))
               ? GetFlags(flags, pointer)
               : real(flags, pointer);
  }
};

struct HostRegister {
  template <typename Row, typename Function>
  static CUresult Run(Function real, void* pointer, size_t bytes,
                      unsigned flags) {
    if (bytes > 0 && IsOurs(Blocks().FindOverlap(
                         reinterpret_cast<uintptr_t>(pointer), bytes))) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return real(pointer, bytes, flags);
  }
};

struct HostUnregister {
  template <typename Row, typename Function>
  static CUresult Run(Function real, void* pointer) {
    return IsOurs(FindBlock(pointer)) ? CUDA_ERROR_INVALID_VALUE
                                      : real(pointer);
  }
};

// An address that nobody knows, to ask the driver what it says of such.
inline CUdeviceptr UnknownAddress() {
  static const char nobodys = 0;
  return reinterpret_cast<CUdeviceptr>(&nobodys);
}

// The address to ask the driver about in place of one in the pool of small
// blocks, parts of which are in no block.
inline CUdeviceptr AddressToAsk(CUdeviceptr pointer) {
  const Block* const block = FindBlock(Pointer(pointer));
  if (block == nullptr || block->kind() != BlockKind::kSmallArena) {
    return pointer;
  }
  const Instance* const owner = OwnerOf(Pointer(pointer));
  return owner == nullptr || owner->Describe(Pointer(pointer)).has_value()
             ? pointer
             : UnknownAddress();
}

// Whether the driver is to be asked about the address.
inline bool DriverKnows(CUdeviceptr pointer) {
  return !IsOurs(FindBlock(Pointer(pointer))) ||
         AddressToAsk(pointer) != pointer;
}

struct PointerGetAttribute {
  template <typename Row, typename Function>
  static CUresult Run(Function real, void* data, CUpointer_attribute attribute,
                      CUdeviceptr pointer) {
    if (data == nullptr || DriverKnows(pointer)) {
      return real(data, attribute, AddressToAsk(pointer));
    }
    const auto answer = GetAttribute(data, attribute, Pointer(pointer));
    if (answer.has_value()) return *answer;
    const CUresult code = PromoteFor(Row::kName, Pointer(pointer));
    return code != CUDA_SUCCESS ? code : real(data, attribute, pointer);
  }
};

struct PointerGetAttributes {
  template <typename Row, typename Function>
  static CUresult Run(Function real, unsigned count,
                      CUpointer_attribute* attributes, void** data,
                      CUdeviceptr pointer) {
    if (count == 0 || attributes == nullptr || data == nullptr ||
        DriverKnows(pointer)) {
      return real(count, attributes, data, AddressToAsk(pointer));
    }
    for (unsigned i = 0; i < count; ++i) {
      const auto answer =
          GetAttribute(data[i], attributes[i], Pointer(pointer));
      if (answer.has_value()) continue;
      CUresult code = PromoteFor(Row::kName, Pointer(pointer));
      if (code == CUDA_SUCCESS)
        code = real(1, attributes + i, data + i, pointer);
      if (code != CUDA_SUCCESS) return code;
    }
    return CUDA_SUCCESS;
  }
};

struct GetProcAddress {
  template <typename Row, typename Function, typename... Rest>
  static CUresult Run(Function real, const char* name, void** function,
                      int version, cuuint64_t flags, Rest... rest) {
    const CUresult code = real(name, function, version, flags, rest...);
    if (code == CUDA_SUCCESS && name != nullptr && function != nullptr &&
        *function != nullptr) {
      *function = EntryPoints::ForName(
          name, version,
          (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0,
          *function);
    }
    return code;
  }
};

}  // namespace pinring::preload

#endif  // PINRING_SRC_PRELOAD_HANDLERS_MEMORY_H_
