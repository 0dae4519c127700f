// Which bytes a copy or a memset touches: rows of one length, in slices of one
// number of rows. How far apart these lie is each end's own affair; what lies
// between them is not touched.

#ifndef PINRING_SRC_SIMCUDA_SHAPE_H_
#define PINRING_SRC_SIMCUDA_SHAPE_H_

#include <cstddef>
#include <optional>

namespace pinring::simcuda {

struct Shape {
  size_t width = 0;   // bytes in a row
  size_t height = 1;  // rows in a slice
  size_t depth = 1;   // slices

  bool empty() const { return width == 0 || height == 0 || depth == 0; }
  size_t bytes() const { return width * height * depth; }
};

// Bytes from one row, or slice, to the next. Means nothing where there is but
// one of them.
struct Strides {
  size_t row = 0;
  size_t slice = 0;
};

inline std::optional<size_t> Product(size_t a, size_t b) {
  size_t result;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}
inline std::optional<size_t> Sum(size_t a, size_t b) {
  size_t result;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

// The number of bytes from the first one to behind the last one, of a shape
// that is not empty; none if that, or the number of its bytes, is beyond
// size_t.
std::optional<size_t> Span(const Shape& shape, const Strides& strides);

// How far the at-th byte of the shape lies behind its first one.
inline size_t Offset(const Shape& shape, const Strides& strides, size_t at) {
  const size_t row = at / shape.width;
  return row / shape.height * strides.slice + row % shape.height * strides.row +
         at % shape.width;
}

}  // namespace pinring::simcuda

#endif  // PINRING_SRC_SIMCUDA_SHAPE_H_
