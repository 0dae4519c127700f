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
  if (ReachesBeyondSmallBlock(Pointer(dst), bytes) ||
      ReachesBeyondSmallBlock(Pointer(src), bytes)) {
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

// A copy between the memory of devices, or of one and a block. Where a context
// is missing the driver has an error to tell.
template <typename Row, typename Call>
CUresult CopyPeerBytes(Call native, CUdeviceptr dst, CUdeviceptr src,
                       size_t bytes, const Instance::Peers& peers,
                       CUstream stream, bool wait) {
  if (bytes == 0) return native();
  if (ReachesBeyondSmallBlock(Pointer(dst), bytes) ||
      ReachesBeyondSmallBlock(Pointer(src), bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if ((!IsStaged(Pointer(dst)) && !IsStaged(Pointer(src))) || !HasContext() ||
      peers.dst == nullptr || peers.src == nullptr) {
    return native();
  }
  return CopyStagedPeer({.dst = reinterpret_cast<void*>(dst),
                         .src = Pointer(src),
                         .bytes = bytes,
                         .stream = stream,
                         .wait = wait},
                        peers);
}

struct CopyPeer {
  template <typename Row, typename Function>
  static CUresult Run(Function real, CUdeviceptr dst, CUcontext dst_context,
                      CUdeviceptr src, CUcontext src_context, size_t bytes) {
    return CopyPeerBytes<Row>(
        [&] { return real(dst, dst_context, src, src_context, bytes); }, dst,
        src, bytes, {.dst = dst_context, .src = src_context},
        DefaultStream<Row>(), true);
  }
};
struct CopyPeerAsync {
  template <typename Row, typename Function>
  static CUresult Run(Function real, CUdeviceptr dst, CUcontext dst_context,
                      CUdeviceptr src, CUcontext src_context, size_t bytes,
                      CUstream stream) {
    return CopyPeerBytes<Row>(
        [&] { return real(dst, dst_context, src, src_context, bytes, stream); },
        dst, src, bytes, {.dst = dst_context, .src = src_context},
        Stream<Row>(stream), false);
  }
};

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
    for (size_t i = 0; i < count; ++i) {
      if (ReachesBeyondSmallBlock(Pointer(dsts[i]), sizes[i]) ||
          ReachesBeyondSmallBlock(Pointer(srcs[i]), sizes[i])) {
        if (failed != nullptr) *failed = i;
        return CUDA_ERROR_INVALID_VALUE;
      }
      staged =
          staged || IsStaged(Pointer(dsts[i])) || IsStaged(Pointer(srcs[i]));
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
              ? CopyOfBatch({.dst = reinterpret_cast<void*>(dsts[i]),
                             .src = Pointer(srcs[i]),
                             .bytes = sizes[i],
                             .kind = cudaMemcpyDefault,
                             .stream = stream},
                            attributes[attribute].srcAccessOrder)
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
    if (bytes == 0) return native();
    if (ReachesBeyondSmallBlock(Pointer(dst), bytes) ||
        ReachesBeyondSmallBlock(Pointer(src), bytes)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if ((!IsStaged(Pointer(dst)) && !IsStaged(Pointer(src))) || !HasContext()) {
      return native();
    }
    CUstream in = Stream<Row>(stream);
    if (attributes != nullptr &&
        attributes->srcAccessOrder >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
        attributes->srcAccessOrder <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY &&
        !IsLegacyStream(in) && !IsCapturing(in)) {
      return CopyOfBatch({.dst = reinterpret_cast<void*>(dst),
                          .src = Pointer(src),
                          .bytes = bytes,
                          .kind = cudaMemcpyDefault,
                          .stream = in},
                         attributes->srcAccessOrder);
    }
    const CUresult code = PromoteEach(Row::kName, dst, src);
    return code != CUDA_SUCCESS ? code : native();
  }
};
#endif

struct Decompress {
  template <typename Row, typename Function, typename Item, typename... Rest>
  static CUresult Run(Function real, Item* items, size_t count, Rest... rest) {
    const CUresult code = PromoteArray(Row::kName, items, count);
    return code != CUDA_SUCCESS ? code : real(items, count, rest...);
  }
};

}  // namespace pinring::preload

#endif  // PINRING_SRC_PRELOAD_HANDLERS_COPY_H_
