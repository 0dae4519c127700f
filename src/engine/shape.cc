#include "src/engine/shape.h"

#include <cstring>
#include <type_traits>

namespace pinring {
namespace {

bool WholeRows(const Shape& shape, uint64_t offset, size_t bytes) {
  return offset % shape.width == 0 && bytes % shape.width == 0;
}

template <size_t kBytes, typename Copy>
void FixedRows(const Shape& shape, uint64_t offset, size_t bytes, Copy copy) {
  ForRows(shape, offset, bytes, [=](uint64_t at, size_t packed, size_t) {
    copy(at, packed, std::integral_constant<size_t, kBytes>());
  });
}

// Rows of a few bytes take longer to find than to copy: where `copy` is given
// their length as a constant, the compiler makes one load and one store of it.
template <typename Copy>
void ShortRows(const Shape& shape, uint64_t offset, size_t bytes, Copy copy) {
  if (WholeRows(shape, offset, bytes)) {
    switch (shape.width) {
      case 1:
        return FixedRows<1>(shape, offset, bytes, copy);
      case 2:
        return FixedRows<2>(shape, offset, bytes, copy);
      case 4:
        return FixedRows<4>(shape, offset, bytes, copy);
      case 8:
        return FixedRows<8>(shape, offset, bytes, copy);
      case 16:
        return FixedRows<16>(shape, offset, bytes, copy);
      default:
        break;
    }
  }
  ForRows(shape, offset, bytes, copy);
}

}  // namespace

Shape Simplified(Shape shape) {
  // A pitch between rows or slices of which there is one says nothing.
  if (shape.height == 1) {
    shape.height = shape.depth;
    shape.depth = 1;
    shape.host.row = shape.host.slice;
    shape.device.row = shape.device.slice;
  } else if (shape.depth > 1 &&
             shape.host.slice == shape.host.row * shape.height &&
             shape.device.slice == shape.device.row * shape.height) {
    shape.height *= shape.depth;
    shape.depth = 1;
  }
  if (shape.height > 1 && shape.host.row == shape.width &&
      shape.device.row == shape.width) {
    shape.width *= shape.height;
    shape.height = shape.depth;
    shape.depth = 1;
    shape.host.row = shape.host.slice;
    shape.device.row = shape.device.slice;
  }
  return shape.height == 1 && shape.depth == 1 ? Shape::Flat(shape.width)
                                               : shape;
}

Cut CutIntoChunks(const Shape& shape, uint64_t most_bytes) {
  Cut cut;
  const uint64_t bytes = shape.bytes();
  const auto whole = [&](uint64_t unit) { return most_bytes / unit * unit; };
  if (shape.flat()) {
    cut.chunk_bytes = most_bytes;
  } else if (shape.width > most_bytes) {
    // An array's row can be cut between its elements only.
    constexpr uint64_t kLargestElement = 16;
    cut.chunk_bytes =
        most_bytes < kLargestElement ? most_bytes : whole(kLargestElement);
    cut.period_bytes = shape.width;
  } else if (shape.depth > 1 && shape.slice_bytes() > most_bytes) {
    cut.chunk_bytes = whole(shape.width);
    cut.period_bytes = shape.slice_bytes();
  } else {
    cut.chunk_bytes =
        whole(shape.depth > 1 ? shape.slice_bytes() : shape.width);
  }
  if (cut.period_bytes == 0) {
    cut.chunks = (bytes + cut.chunk_bytes - 1) / cut.chunk_bytes;
  } else {
    cut.chunks_per_period =
        (cut.period_bytes + cut.chunk_bytes - 1) / cut.chunk_bytes;
    cut.chunks = bytes / cut.period_bytes * cut.chunks_per_period;
  }
  return cut;
}

void TaperCut(const Shape& shape, uint64_t smallest_bytes, bool last,
              Cut* cut) {
  constexpr uint32_t kMostHalvings = 3;
  constexpr uint64_t kFewestChunks = 4;
  if (smallest_bytes == 0 || !shape.flat() || cut->chunks < kFewestChunks) {
    return;
  }
  uint32_t halvings = 0;
  while (halvings < kMostHalvings &&
         cut->chunk_bytes >> (halvings + 1) >= smallest_bytes &&
         cut->chunk_bytes % (uint64_t{2} << halvings) == 0) {
    ++halvings;
  }
  if (halvings == 0) return;
  cut->halvings = halvings;
  const uint64_t bytes = shape.bytes();
  const uint64_t small =
      cut->chunk_bytes - (cut->chunk_bytes >> halvings);  // of all small ones
  cut->chunks =
      halvings + (bytes - small + cut->chunk_bytes - 1) / cut->chunk_bytes;
  if (last) cut->end_bytes = bytes;
}

ChunkShape ShapeOfChunk(const Shape& shape, uint64_t offset, uint64_t bytes) {
  if (shape.flat() || !WholeRows(shape, offset, bytes)) return {bytes, 1, 1};
  if (shape.depth > 1 && offset % shape.slice_bytes() == 0 &&
      bytes % shape.slice_bytes() == 0) {
    return {shape.width, shape.height, bytes / shape.slice_bytes()};
  }
  return {shape.width, bytes / shape.width, 1};
}

void GatherRows(const Shape& shape, uint64_t offset, size_t bytes,
                const std::byte* host, std::byte* slot) {
  ShortRows(shape, offset, bytes, [=](uint64_t at, size_t packed, auto n) {
    std::memcpy(slot + packed, host + at, n);
  });
}

void ScatterRows(const Shape& shape, uint64_t offset, size_t bytes,
                 const std::byte* slot, std::byte* host) {
  ShortRows(shape, offset, bytes, [=](uint64_t at, size_t packed, auto n) {
    std::memcpy(host + at, slot + packed, n);
  });
}

}  // namespace pinring
