#include "src/simcuda/shape.h"

namespace pinring::simcuda {

std::optional<size_t> Span(const Shape& shape, const Strides& strides) {
  const auto row_bytes = Product(shape.width, shape.height);
  if (!row_bytes || !Product(*row_bytes, shape.depth)) return std::nullopt;
  const auto slices = Product(shape.depth - 1, strides.slice);
  const auto rows = Product(shape.height - 1, strides.row);
  if (!slices || !rows) return std::nullopt;
  const auto last_row = Sum(*slices, *rows);
  return last_row ? Sum(*last_row, shape.width) : std::nullopt;
}

}  // namespace pinring::simcuda
