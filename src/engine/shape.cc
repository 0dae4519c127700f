#include "src/engine/shape.h"

#include <cstring>

namespace pinring {
namespace {

// Rows of a few bytes take longer to find than to copy: the compiler makes one
// load and one store of each of these.
template <size_t kBytes>
void Gather(const Shape& shape, uint64_t offset, size_t bytes,
            const std::byte* host, std::byte* slot) {
  ForRows(shape, offset, bytes, [=](uint64_t at, size_t packed, size_t) {
    std::memcpy(slot + packed, host + at, kBytes);
  });
}
template <size_t kBytes>
void Scatter(const Shape& shape, uint64_t offset, size_t bytes,
             const std::byte* slot, std::byte* host) {
  ForRows(shape, offset, bytes, [=](uint64_t at, size_t packed, size_t) {
    std::memcpy(host + at, slot + packed, kBytes);
  });
}

bool WholeRows(const Shape& shape, uint64_t offset, size_t bytes) {
  return offset % shape.width == 0 && bytes % shape.width == 0;
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
    cut.chunk_bytes = most_bytes;
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
  if (WholeRows(shape, offset, bytes)) {
    switch (shape.width) {
      case 1:
        return Gather<1>(shape, offset, bytes, host, slot);
      case 2:
        return Gather<2>(shape, offset, bytes, host, slot);
      case 4:
        return Gather<4>(shape, offset, bytes, host, slot);
      case 8:
        return Gather<8>(shape, offset, bytes, host, slot);
      case 16:
        return Gather<16>(shape, offset, bytes, host, slot);
      default:
        break;
    }
  }
  ForRows(shape, offset, bytes, [=](uint64_t at, size_t packed, size_t n) {
    std::memcpy(slot + packed, host + at, n);
  });
}

void ScatterRows(const Shape& shape, uint64_t offset, size_t bytes,
                 const std::byte* slot, std::byte* host) {
  if (WholeRows(shape, offset, bytes)) {
    switch (shape.width) {
      case 1:
        return Scatter<1>(shape, offset, bytes, slot, host);
      case 2:
        return Scatter<2>(shape, offset, bytes, slot, host);
      case 4:
        return Scatter<4>(shape, offset, bytes, slot, host);
      case 8:
        return Scatter<8>(shape, offset, bytes, slot, host);
      case 16:
        return Scatter<16>(shape, offset, bytes, slot, host);
      default:
        break;
    }
  }
  ForRows(shape, offset, bytes, [=](uint64_t at, size_t packed, size_t n) {
    std::memcpy(host + at, slot + packed, n);
  });
}

}  // namespace pinring
