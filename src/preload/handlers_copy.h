// What rows of the table do: copies of bytes, and batches of them.
//
// A handler's Run gets the driver's function and the program's arguments; where
// it finds no block in them it calls the one with the others.

#ifndef PINRING_SRC_PRELOAD_HANDLERS_COPY_H_
#define PINRING_SRC_PRELOAD_HANDLERS_COPY_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "src/driver/driver.h"
#include "src/preload/promote.h"
#include "src/preload/staging.h"
#include "src/preload/streams.h"

namespace pinring::preload {

// Whether the bytes reach beyond the small block that they begin in, which the
// driver does not see: for it the pool is one block.
inline bool ReachesBeyondSmallBlock(CUdeviceptr address, size_t bytes) {
  const Block* const block = FindBlock(Pointer(address));
  if (block == nullptr || block->kind() != BlockKind::kSmallArena) return false;
  const Instance* const owner = OwnerOf(Pointer(address));
  if (owner == nullptr) return false;
  const auto facts = owner->Describe(Pointer(address));
  return facts.has_value() &&
         bytes > facts->bytes - (uint64_t{address} - facts->base);
}

// Neither end is staged. Smaller copies are not looked at.
template <typename Call>
CUresult CopyOfOthers(Call native, const Instance::Copy& copy) {
  constexpr size_t kWorthALookBytes = size_t{64} << 10;
  if (copy.bytes < kWorthALookBytes || copy.kind == cudaMemcpyDeviceToDevice) {
    return native();
  }
  const std::optional<CUresult> code = CopyPageable(copy);
  return code.has_value() ? *code : native();
}

// A copy of bytes in one piece.
template <typename Row, typename Call>
CUresult CopyBytes(Call native, CUdeviceptr dst, CUdeviceptr src, size_t bytes,
                   cudaMemcpyKind kind, CUstream stream, bool wait) {
  if (bytes == 0) return native();
  if (ReachesBeyondSmallBlock(dst, bytes) ||
      ReachesBeyondSmallBlock(src, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Instance::Copy copy = {.dst = reinterpret_cast<void*>(dst),
                               .src = Pointer(src),
                               .bytes = bytes,
                               .kind = kind,
                               .stream = stream,
                               .wait = wait};
  if (!IsStaged(Pointer(dst)) && !IsStaged(Pointer(src))) {
    return CopyOfOthers(native, copy);
  }
  if (!HasContext()) return native();
  return CopyStaged(copy);
}

inline CUdeviceptr Address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}
inline CUdeviceptr Address(CUdeviceptr pointer) { return pointer; }

template <cudaMemcpyKind kind>
struct CopyOf {
  template <typename Row, typename Function, typename Dst, typename Src>
  static CUresult Run(Function real, Dst dst, Src src, size_t bytes) {
    return CopyBytes<Row>([&] { return real(dst, src, bytes); }, Address(dst),
                          Address(src), bytes, kind, DefaultStream<Row>(),
                          true);
  }
};
template <cudaMemcpyKind kind>
struct CopyAsyncOf {
  template <typename Row, typename Function, typename Dst, typename Src>
  static CUresult Run(Function real, Dst dst, Src src, size_t bytes,
                      CUstream stream) {
    return CopyBytes<Row>([&] { return real(dst, src, bytes, stream); },
                          Address(dst), Address(src), bytes, kind,
                          Stream<Row>(stream), false);
  }
};
using Copy = CopyOf<cudaMemcpyDefault>;
using CopyAsync = CopyAsyncOf<cudaMemcpyDefault>;
using CopyToDevice = CopyOf<cudaMemcpyHostToDevice>;
using CopyToDeviceAsync = CopyAsyncOf<cudaMemcpyHostToDevice>;
using CopyToHost = CopyOf<cudaMemcpyDeviceToHost>;
using CopyToHostAsync = CopyAsyncOf<cudaMemcpyDeviceToHost>;
using CopyOnDevice = CopyOf<cudaMemcpyDeviceToDevice>;
using CopyOnDeviceAsync = CopyAsyncOf<cudaMemcpyDeviceToDevice>;

#if CUDA_VERSION >= 12080
// Each copy in its turn: through the ring where an end is staged, by the driver
// where none is.
struct CopyBatch {
  // With and without a place for the index of the copy that failed.
  template <typename Row, typename Function>
  static CUresult Run(Function real, CUdeviceptr* dsts, CUdeviceptr* srcs,
                      size_t* sizes, size_t count,
                      CUmemcpyAttributes* attributes, size_t* indices,
                      size_t attribute_count, size_t* failed, CUstream stream) {
    return RunAll<Row>(
        [&](size_t first, size_t copies, CUmemcpyAttributes* of,
            size_t* indices_of, size_t attributes_of) {
          return real(dsts + first, srcs + first, sizes + first, copies, of,
                      indices_of, attributes_of, failed, stream);
        },
        dsts, srcs, sizes, count, attributes, indices, attribute_count, failed,
        stream);
  }
  template <typename Row, typename Function>
  static CUresult Run(Function real, CUdeviceptr* dsts, CUdeviceptr* srcs,
                      size_t* sizes, size_t count,
                      CUmemcpyAttributes* attributes, size_t* indices,
                      size_t attribute_count, CUstream stream) {
    return RunAll<Row>(
        [&](size_t first, size_t copies, CUmemcpyAttributes* of,
            size_t* indices_of, size_t attributes_of) {
          return real(dsts + first, srcs + first, sizes + first, copies, of,
                      indices_of, attributes_of, stream);
        },
        dsts, srcs, sizes, count, attributes, indices, attribute_count, nullptr,
        stream);
  }

 private:
  // What only the driver can judge or take: it gets the whole batch.
  static bool IsTheDrivers(size_t count, const CUmemcpyAttributes* attributes,
                           const size_t* indices, size_t attribute_count,
                           CUstream stream) {
    if (IsLegacyStream(stream) || IsCapturing(stream) || !HasContext() ||
        attributes == nullptr || indices == nullptr || attribute_count == 0 ||
        attribute_count > count || indices[0] != 0) {
      return true;
    }
    for (size_t i = 0; i < attribute_count; ++i) {
      if (attributes[i].srcAccessOrder < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
          attributes[i].srcAccessOrder > CU_MEMCPY_SRC_ACCESS_ORDER_ANY ||
          indices[i] >= count || (i > 0 && indices[i] <= indices[i - 1])) {
        return true;
      }
    }
    return false;
  }

  template <typename Row, typename Call>
  static CUresult RunAll(Call native, const CUdeviceptr* dsts,
                         const CUdeviceptr* srcs, const size_t* sizes,
                         size_t count, CUmemcpyAttributes* attributes,
                         size_t* indices, size_t attribute_count,
                         size_t* failed, CUstream stream) {
    const auto all = [&] {
      return native(0, count, attributes, indices, attribute_count);
    };
    if (!Blocks().MayHoldBlocks() || dsts == nullptr || srcs == nullptr ||
        sizes == nullptr) {
      return all();
    }
    bool staged = false;
    for (size_t i = 0; i < count && !staged; ++i) {
      staged = IsStaged(Pointer(dsts[i])) || IsStaged(Pointer(srcs[i]));
    }
    if (!staged) return all();
    if (IsTheDrivers(count, attributes, indices, attribute_count, stream)) {
      CUresult code = PromoteArray(Row::kName, dsts, count);
      if (code == CUDA_SUCCESS) code = PromoteArray(Row::kName, srcs, count);
      return code != CUDA_SUCCESS ? code : all();
    }
    size_t attribute = 0;
    for (size_t i = 0; i < count; ++i) {
      if (attribute + 1 < attribute_count && indices[attribute + 1] == i) {
        ++attribute;
      }
      size_t first_index = 0;
      const CUresult code =
          sizes[i] > 0 &&
                  (IsStaged(Pointer(dsts[i])) || IsStaged(Pointer(srcs[i])))
              ? CopyOfBatch(dsts[i], srcs[i], sizes[i], attributes[attribute],
                            stream)
              : native(i, 1, attributes + attribute, &first_index, 1);
      if (code != CUDA_SUCCESS) {
        if (failed != nullptr) *failed = i;
        return code;
      }
    }
    return CUDA_SUCCESS;
  }
};
#endif

#if CUDA_VERSION >= 12080
struct CopyWithAttributes {
  template <typename Row, typename Function>
  static CUresult Run(Function real, CUdeviceptr dst, CUdeviceptr src,
                      size_t bytes, CUmemcpyAttributes* attributes,
                      CUstream stream) {
    const auto native = [&] {
      return real(dst, src, bytes, attributes, stream);
    };
    if (bytes == 0 || (!IsStaged(Pointer(dst)) && !IsStaged(Pointer(src))) ||
        !HasContext()) {
      return native();
    }
    CUstream in = Stream<Row>(stream);
    if (attributes != nullptr &&
        attributes->srcAccessOrder >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
        attributes->srcAccessOrder <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY &&
        !IsLegacyStream(in) && !IsCapturing(in)) {
      return CopyOfBatch(dst, src, bytes, *attributes, in);
    }
    const CUresult code = PromoteEach(Row::kName, dst, src);
    return code != CUDA_SUCCESS ? code : native();
  }
};

struct BoxWithAttributes {
  template <typename Row, typename Function>
  static CUresult Run(Function real, CUDA_MEMCPY3D_BATCH_OP* box,
                      unsigned long long flags, CUstream stream) {
    const CUresult code = PromoteArray(Row::kName, box, 1);
    return code != CUDA_SUCCESS ? code : real(box, flags, stream);
  }
};
#endif

struct BoxBatch {
  template <typename Row, typename Function, typename Box, typename... Rest>
  static CUresult Run(Function real, size_t count, Box* boxes, Rest... rest) {
    const CUresult code = PromoteArray(Row::kName, boxes, count);
    return code != CUDA_SUCCESS ? code : real(count, boxes, rest...);
  }
};

struct Decompress {
  template <typename Row, typename Function, typename Item, typename... Rest>
  static CUresult Run(Function real, Item* items, size_t count, Rest... rest) {
    const CUresult code = PromoteArray(Row::kName, items, count);
    return code != CUDA_SUCCESS ? code : real(items, count, rest...);
  }
};

}  // namespace pinring::preload

#endif  // PINRING_SRC_PRELOAD_HANDLERS_COPY_H_
