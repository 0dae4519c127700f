// What rows of the table do: copies of rows and boxes, and memsets.
//
// A handler's Run gets the driver's function and the program's arguments; where
// it finds no block in them it calls the one with the others.

#ifndef PINRING_SRC_PRELOAD_HANDLERS_SHAPES_H_
#define PINRING_SRC_PRELOAD_HANDLERS_SHAPES_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "src/preload/promote.h"
#include "src/preload/staging.h"
#include "src/preload/streams.h"

namespace pinring::preload {

// One end of a copy in the driver's words.
struct CopyEnd {
  CUmemorytype type = CU_MEMORYTYPE_UNIFIED;
  const void* host = nullptr;
  CUdeviceptr device = 0;
  CUarray array = nullptr;
  uint64_t x = 0;
  uint64_t y = 0;
  uint64_t z = 0;
  uint64_t pitch = 0;
  uint64_t height = 0;

  bool is_array() const { return type == CU_MEMORYTYPE_ARRAY; }
  // Where the memory that it is cut out of begins.
  const void* start() const {
    return type == CU_MEMORYTYPE_HOST ? host
           : is_array()               ? nullptr
                                      : Pointer(device);
  }
  // Where the first byte is.
  const void* first() const {
    const void* const begin = start();
    return begin == nullptr
               ? nullptr
               : static_cast<const char*>(begin) + (z * height + y) * pitch + x;
  }
};

struct RowsCopy {
  CopyEnd dst;
  CopyEnd src;
  uint64_t width = 0;
  uint64_t height = 0;
  uint64_t depth = 1;
  // Something that only the driver does.
  bool special = false;

  bool empty() const { return width == 0 || height == 0 || depth == 0; }
};

RowsCopy Describe(const CUDA_MEMCPY2D& copy);
RowsCopy Describe(const CUDA_MEMCPY3D& copy);
RowsCopy Describe(const CUDA_MEMCPY3D_PEER& copy);

// Whether an end is in a staged block.
bool TouchesStaged(const RowsCopy& copy);
// Whether an end begins in a small block and reaches beyond it.
bool ReachesBeyondSmallBlock(const RowsCopy& copy);
// Calls `copy_it` with the copy in the instance's words, but for its stream and
// whether it waits, if pinring can make it; false if the driver has to.
bool CopyRowsStaged(
    const RowsCopy& copy,
    absl::FunctionRef<CUresult(Instance::Copy& described)> copy_it,
    CUresult* code);

template <typename Row, typename Call, typename Parameters>
CUresult CopyBox(Call native, const Parameters* parameters, CUstream stream,
                 bool wait) {
  if (parameters == nullptr || !Blocks().MayHoldBlocks()) return native();
  const RowsCopy copy = Describe(*parameters);
  if (copy.empty()) return native();
  if (ReachesBeyondSmallBlock(copy)) return CUDA_ERROR_INVALID_VALUE;
  if (!TouchesStaged(copy) || !HasContext()) return native();
  CUresult code = CUDA_SUCCESS;
  const bool copied = CopyRowsStaged(
      copy,
      [&](Instance::Copy& described) {
        described.stream = stream;
        described.wait = wait;
        return CopyStaged(described);
      },
      &code);
  if (copied) return code;
  code = PromoteEach(Row::kName, parameters);
  return code != CUDA_SUCCESS ? code : native();
}

template <typename Row, typename Call>
CUresult CopyPeerBox(Call native, const CUDA_MEMCPY3D_PEER* parameters,
                     CUstream stream, bool wait) {
  if (parameters == nullptr || !Blocks().MayHoldBlocks()) return native();
  const RowsCopy copy = Describe(*parameters);
  if (copy.empty()) return native();
  if (ReachesBeyondSmallBlock(copy)) return CUDA_ERROR_INVALID_VALUE;
  if (!TouchesStaged(copy) || !HasContext()) return native();
  CUresult code = CUDA_SUCCESS;
  const bool copied =
      parameters->dstContext != nullptr && parameters->srcContext != nullptr &&
      CopyRowsStaged(
          copy,
          [&](Instance::Copy& described) {
            described.stream = stream;
            described.wait = wait;
            return CopyStagedPeer(described, {.dst = parameters->dstContext,
                                              .src = parameters->srcContext});
          },
          &code);
  if (copied) return code;
  code = PromoteEach(Row::kName, parameters);
  return code != CUDA_SUCCESS ? code : native();
}

struct CopyRows {
  template <typename Row, typename Function, typename Parameters>
  static CUresult Run(Function real, const Parameters* copy) {
    return CopyBox<Row>([&] { return real(copy); }, copy, DefaultStream<Row>(),
                        true);
  }
};
struct CopyRowsAsync {
  template <typename Row, typename Function, typename Parameters>
  static CUresult Run(Function real, const Parameters* copy, CUstream stream) {
    return CopyBox<Row>([&] { return real(copy, stream); }, copy,
                        Stream<Row>(stream), false);
  }
};

struct CopyPeerRows {
  template <typename Row, typename Function>
  static CUresult Run(Function real, const CUDA_MEMCPY3D_PEER* copy) {
    return CopyPeerBox<Row>([&] { return real(copy); }, copy,
                            DefaultStream<Row>(), true);
  }
};
struct CopyPeerRowsAsync {
  template <typename Row, typename Function>
  static CUresult Run(Function real, const CUDA_MEMCPY3D_PEER* copy,
                      CUstream stream) {
    return CopyPeerBox<Row>([&] { return real(copy, stream); }, copy,
                            Stream<Row>(stream), false);
  }
};

// Bytes between a block and an array, from a byte of its first row on. What
// reaches beyond that row is the driver's to judge.
template <typename Row, typename Call>
CUresult CopyArrayBytes(Call native, CUarray to, CUarray from, uint64_t offset,
                        const void* memory, size_t bytes, CUstream stream,
                        bool wait) {
  if (bytes == 0) return native();
  if (ReachesBeyondSmallBlock(memory, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (!IsStaged(memory) || !HasContext()) return native();
  const Instance::ArrayFacts facts =
      DescribeArray(memory, to != nullptr ? to : from);
  if (facts.element_bytes == 0 || offset > facts.row_bytes ||
      bytes > facts.row_bytes - offset) {
    const CUresult code = PromoteFor(Row::kName, memory);
    return code != CUDA_SUCCESS ? code : native();
  }
  Instance::Rows rows;
  rows.width = bytes;
  const bool in = to != nullptr;
  return CopyStaged({.dst = in ? nullptr : const_cast<void*>(memory),
                     .src = in ? memory : nullptr,
                     .rows = &rows,
                     .array = ArrayPlace{in ? to : from, offset, 0, 0},
                     .kind = cudaMemcpyDefault,
                     .stream = stream,
                     .wait = wait});
}
struct CopyToArray {
  template <typename Row, typename Function, typename Size>
  static CUresult Run(Function real, CUarray dst, Size offset, const void* src,
                      Size bytes) {
    return CopyArrayBytes<Row>([&] { return real(dst, offset, src, bytes); },
                               dst, nullptr, offset, src, bytes,
                               DefaultStream<Row>(), true);
  }
};
struct CopyToArrayAsync {
  template <typename Row, typename Function, typename Size>
  static CUresult Run(Function real, CUarray dst, Size offset, const void* src,
                      Size bytes, CUstream stream) {
    return CopyArrayBytes<Row>(
        [&] { return real(dst, offset, src, bytes, stream); }, dst, nullptr,
        offset, src, bytes, Stream<Row>(stream), false);
  }
};
struct CopyFromArray {
  template <typename Row, typename Function, typename Size>
  static CUresult Run(Function real, void* dst, CUarray src, Size offset,
                      Size bytes) {
    return CopyArrayBytes<Row>([&] { return real(dst, src, offset, bytes); },
                               nullptr, src, offset, dst, bytes,
                               DefaultStream<Row>(), true);
  }
};
struct CopyFromArrayAsync {
  template <typename Row, typename Function, typename Size>
  static CUresult Run(Function real, void* dst, CUarray src, Size offset,
                      Size bytes, CUstream stream) {
    return CopyArrayBytes<Row>(
        [&] { return real(dst, src, offset, bytes, stream); }, nullptr, src,
        offset, dst, bytes, Stream<Row>(stream), false);
  }
};
struct CopyDeviceToArray {
  template <typename Row, typename Function>
  static CUresult Run(Function real, CUarray dst, size_t offset,
                      CUdeviceptr src, size_t bytes) {
    return CopyArrayBytes<Row>([&] { return real(dst, offset, src, bytes); },
                               dst, nullptr, offset, Pointer(src), bytes,
                               DefaultStream<Row>(), true);
  }
};
struct CopyArrayToDevice {
  template <typename Row, typename Function>
  static CUresult Run(Function real, CUdeviceptr dst, CUarray src,
                      size_t offset, size_t bytes) {
    return CopyArrayBytes<Row>([&] { return real(dst, src, offset, bytes); },
                               nullptr, src, offset, Pointer(dst), bytes,
                               DefaultStream<Row>(), true);
  }
};

#if CUDA_VERSION >= 12080
// What a box of a batch is; special where the driver has to judge it.
RowsCopy Describe(const CUDA_MEMCPY3D_BATCH_OP& box);

// Each box in its turn: through the ring where an end is staged, by the driver
// where none is.
struct BoxBatch {
  // With and without a place for the index of the box that failed.
  template <typename Row, typename Function>
  static CUresult Run(Function real, size_t count,
                      CUDA_MEMCPY3D_BATCH_OP* boxes, size_t* failed,
                      unsigned long long flags, CUstream stream) {
    return RunAll<Row>(
        [&](size_t first, size_t copies) {
          return real(copies, boxes + first, failed, flags, stream);
        },
        count, boxes, flags, failed, stream);
  }
  template <typename Row, typename Function>
  static CUresult Run(Function real, size_t count,
                      CUDA_MEMCPY3D_BATCH_OP* boxes, unsigned long long flags,
                      CUstream stream) {
    return RunAll<Row>(
        [&](size_t first, size_t copies) {
          return real(copies, boxes + first, flags, stream);
        },
        count, boxes, flags, nullptr, stream);
  }
  // cuMemcpy3DWithAttributesAsync, which takes one.
  template <typename Row, typename Function>
  static CUresult Run(Function real, CUDA_MEMCPY3D_BATCH_OP* box,
                      unsigned long long flags, CUstream stream) {
    return RunAll<Row>([&](size_t, size_t) { return real(box, flags, stream); },
                       1, box, flags, nullptr, Stream<Row>(stream));
  }

 private:
  template <typename Row, typename Call>
  static CUresult RunAll(Call native, size_t count,
                         const CUDA_MEMCPY3D_BATCH_OP* boxes,
                         unsigned long long flags, size_t* failed,
                         CUstream stream) {
    if (!Blocks().MayHoldBlocks() || boxes == nullptr) return native(0, count);
    bool staged = false;
    bool special = flags != 0 || IsLegacyStream(stream) || !HasContext() ||
                   IsCapturing(stream);
    for (size_t i = 0; i < count; ++i) {
      const RowsCopy copy = Describe(boxes[i]);
      if (!copy.special && ReachesBeyondSmallBlock(copy)) {
        if (failed != nullptr) *failed = i;
        return CUDA_ERROR_INVALID_VALUE;
      }
      staged = staged || TouchesStaged(copy);
      special = special || copy.special;
    }
    if (!staged) return native(0, count);
    if (special) {
      const CUresult code = PromoteArray(Row::kName, boxes, count);
      return code != CUDA_SUCCESS ? code : native(0, count);
    }
    for (size_t i = 0; i < count; ++i) {
      const CUresult code =
          RunOne<Row>([&] { return native(i, 1); }, boxes[i], stream);
      if (code != CUDA_SUCCESS) {
        if (failed != nullptr) *failed = i;
        return code;
      }
    }
    return CUDA_SUCCESS;
  }

  template <typename Row, typename Call>
  static CUresult RunOne(Call native, const CUDA_MEMCPY3D_BATCH_OP& box,
                         CUstream stream) {
    const RowsCopy copy = Describe(box);
    if (!TouchesStaged(copy)) return native();
    CUresult code = CUDA_SUCCESS;
    const bool copied = CopyRowsStaged(
        copy,
        [&](Instance::Copy& described) {
          described.stream = stream;
          return CopyOfBatch(described, box.srcAccessOrder);
        },
        &code);
    if (copied) return code;
    code = PromoteArray(Row::kName, &box, 1);
    return code != CUDA_SUCCESS ? code : native();
  }
};
#endif

// Whether all bytes of the value are the same, as pinring fills bytes.
template <typename Value>
bool IsOneByte(Value value) {
  return value == static_cast<Value>(static_cast<unsigned char>(value) *
                                     (static_cast<Value>(~Value{0}) / 0xff));
}

// From the first byte of rows to one past the last; the most there is where
// that is more than 64 bits can say.
uint64_t Reach(uint64_t width, uint64_t rows, uint64_t pitch);

template <typename Row, typename Call, typename Value>
CUresult FillBox(Call native, CUdeviceptr dst, size_t pitch, Value value,
                 size_t width, size_t height, CUstream stream, bool wait) {
  const uint64_t bytes = uint64_t{width} * sizeof(Value);
  if (width > 0 && height > 0 && width <= SIZE_MAX / sizeof(Value) &&
      ReachesBeyondSmallBlock(Pointer(dst), Reach(bytes, height, pitch))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!IsStaged(Pointer(dst)) || !HasContext()) return native();
  if (!IsOneByte(value) || dst % sizeof(Value) != 0 || width == 0 ||
      height == 0 || width > SIZE_MAX / sizeof(Value) ||
      (height > 1 && (pitch < bytes || pitch % sizeof(Value) != 0))) {
    const CUresult code = PromoteFor(Row::kName, Pointer(dst));
    return code != CUDA_SUCCESS ? code : native();
  }
  Instance::Fill fill;
  fill.dst = reinterpret_cast<void*>(dst);
  fill.value = static_cast<unsigned char>(value);
  fill.rows.width = bytes;
  fill.rows.height = height;
  fill.rows.dst = {pitch, 0};
  fill.stream = stream;
  fill.wait = wait;
  return FillStaged(fill);
}

struct Fill {
  template <typename Row, typename Function, typename Value>
  static CUresult Run(Function real, CUdeviceptr dst, Value value,
                      size_t count) {
    return FillBox<Row>([&] { return real(dst, value, count); }, dst, 0, value,
                        count, 1, DefaultStream<Row>(), true);
  }
};
struct FillAsync {
  template <typename Row, typename Function, typename Value>
  static CUresult Run(Function real, CUdeviceptr dst, Value value, size_t count,
                      CUstream stream) {
    return FillBox<Row>([&] { return real(dst, value, count, stream); }, dst, 0,
                        value, count, 1, Stream<Row>(stream), false);
  }
};
struct FillRows {
  template <typename Row, typename Function, typename Value>
  static CUresult Run(Function real, CUdeviceptr dst, size_t pitch, Value value,
                      size_t width, size_t height) {
    return FillBox<Row>([&] { return real(dst, pitch, value, width, height); },
                        dst, pitch, value, width, height, DefaultStream<Row>(),
                        true);
  }
};
struct FillRowsAsync {
  template <typename Row, typename Function, typename Value>
  static CUresult Run(Function real, CUdeviceptr dst, size_t pitch, Value value,
                      size_t width, size_t height, CUstream stream) {
    return FillBox<Row>(
        [&] { return real(dst, pitch, value, width, height, stream); }, dst,
        pitch, value, width, height, Stream<Row>(stream), false);
  }
};

}  // namespace pinring::preload

#endif  // PINRING_SRC_PRELOAD_HANDLERS_SHAPES_H_
