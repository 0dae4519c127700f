// What rows of the table do: copies of rows and boxes, and memsets.
//
// A handler's Run gets the driver's function and the program's arguments; where
// it finds no block in them it calls the one with the others.

#ifndef PINRING_SRC_PRELOAD_HANDLERS_SHAPES_H_
#define PINRING_SRC_PRELOAD_HANDLERS_SHAPES_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>

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

// Whether an end is in a staged block.
bool TouchesStaged(const RowsCopy& copy);
// Copies it, if pinring can; false if the driver has to.
bool CopyRowsStaged(const RowsCopy& copy, CUstream stream, bool wait,
                    CUresult* code);

template <typename Row, typename Call, typename Parameters>
CUresult CopyBox(Call native, const Parameters* parameters, CUstream stream,
                 bool wait) {
  if (parameters == nullptr || !Blocks().MayHoldBlocks()) return native();
  const RowsCopy copy = Describe(*parameters);
  if (copy.empty() || !TouchesStaged(copy) || !HasContext()) return native();
  CUresult code = CUDA_SUCCESS;
  if (CopyRowsStaged(copy, stream, wait, &code)) return code;
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

// Whether all bytes of the value are the same, as pinring fills bytes.
template <typename Value>
bool IsOneByte(Value value) {
  return value == static_cast<Value>(static_cast<unsigned char>(value) *
                                     (static_cast<Value>(~Value{0}) / 0xff));
}

template <typename Row, typename Call, typename Value>
CUresult FillBox(Call native, CUdeviceptr dst, size_t pitch, Value value,
                 size_t width, size_t height, CUstream stream, bool wait) {
  if (!IsStaged(Pointer(dst)) || !HasContext()) return native();
  const uint64_t bytes = uint64_t{width} * sizeof(Value);
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
