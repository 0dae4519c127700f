// The shape of a copy: rows of bytes, slices of rows, and where they lie at
// both ends. In the ring the bytes are packed: row after row, with nothing
// between them.

#ifndef PINRING_SRC_ENGINE_SHAPE_H_
#define PINRING_SRC_ENGINE_SHAPE_H_

#include <cstddef>
#include <cstdint>

namespace pinring {

// Bytes from row to row and from slice to slice at one end of a copy.
struct Pitch {
  uint64_t row = 0;
  uint64_t slice = 0;
};

struct Shape {
  uint64_t width = 0;   // bytes of a row
  uint64_t height = 1;  // rows of a slice
  uint64_t depth = 1;   // slices
  Pitch host;
  Pitch device;

  static Shape Flat(uint64_t bytes) {
    Shape shape;
    shape.width = bytes;
    return shape;
  }
  bool flat() const { return height == 1 && depth == 1; }
  uint64_t slice_bytes() const { return width * height; }
  // Of all rows, without what lies between them.
  uint64_t bytes() const { return width * height * depth; }
  // How far the byte at `offset` of the packed bytes lies from the first.
  uint64_t At(uint64_t offset, const Pitch& pitch) const {
    if (flat()) return offset;
    const uint64_t row = offset / width;
    return row / height * pitch.slice + row % height * pitch.row +
           offset % width;
  }
  // From the first byte to one past the last, with what lies between.
  uint64_t Extent(const Pitch& pitch) const {
    return At(bytes() - 1, pitch) + 1;
  }
};

// The same bytes in fewer dimensions, where rows or slices follow each other
// without a gap at both ends.
Shape Simplified(Shape shape);

// How packed bytes are cut into chunks, each of them one copy of the driver's:
// part of one row, whole rows of one slice, or whole slices.
struct Cut {
  uint64_t chunk_bytes = 0;
  // Chunks start again at each multiple of period_bytes; 0: they follow each
  // other to the end.
  uint64_t period_bytes = 0;
  uint64_t chunks_per_period = 0;
  uint64_t chunks = 0;
  // Without a period: the first `halvings` chunks double in size until they are
  // whole ones. With `end_bytes`, where the cut ends, it is the last ones that
  // halve, and the first is what is left over.
  uint32_t halvings = 0;
  uint64_t end_bytes = 0;

  uint64_t Offset(uint64_t chunk) const {
    if (period_bytes != 0) {
      return chunk / chunks_per_period * period_bytes +
             chunk % chunks_per_period * chunk_bytes;
    }
    if (end_bytes == 0) return FromSmallEnd(chunk);
    return chunk == 0 ? 0 : end_bytes - FromSmallEnd(chunks - chunk);
  }

 private:
  // Bytes of so many chunks, counted from the end where they are small.
  uint64_t FromSmallEnd(uint64_t count) const {
    const uint64_t smallest = chunk_bytes >> halvings;
    return count <= halvings
               ? (smallest << count) - smallest
               : (chunk_bytes - smallest) + (count - halvings) * chunk_bytes;
  }
};

// Chunks of at most `most_bytes`, which is not 0, of a shape that is not empty.
Cut CutIntoChunks(const Shape& shape, uint64_t most_bytes);

// Makes the first chunks of a flat shape small, or with `last` the last ones,
// down to `smallest_bytes` (0: not at all), so that less time passes before the
// first is under way, or after the last has come. Leaves a cut of few chunks as
// it is.
void TaperCut(const Shape& shape, uint64_t smallest_bytes, bool last, Cut* cut);

// The driver's copy of a chunk: [offset, offset + bytes) of the packed bytes,
// cut as above.
struct ChunkShape {
  uint64_t width = 0;
  uint64_t height = 1;
  uint64_t depth = 1;
};
ChunkShape ShapeOfChunk(const Shape& shape, uint64_t offset, uint64_t bytes);

// Copies [offset, offset + bytes) of the packed bytes between a slot, where
// they lie packed, and the rows in host memory that begin at `host`. For rows
// that are too short for the kernels of src/copy.
void GatherRows(const Shape& shape, uint64_t offset, size_t bytes,
                const std::byte* host, std::byte* slot);
void ScatterRows(const Shape& shape, uint64_t offset, size_t bytes,
                 const std::byte* slot, std::byte* host);

// Calls `row(at, packed, bytes)` for each row, or part of one, of [offset,
// offset + bytes): its distance from the first byte in host memory, from the
// start of the range, and its length.
template <typename Row>
void ForRows(const Shape& shape, uint64_t offset, size_t bytes, Row row) {
  uint64_t x = offset % shape.width;
  uint64_t y = offset / shape.width % shape.height;
  uint64_t slice_at = offset / shape.slice_bytes() * shape.host.slice;
  uint64_t row_at = slice_at + y * shape.host.row;
  for (size_t packed = 0; packed < bytes;) {
    const uint64_t left = shape.width - x;
    const size_t n =
        left < bytes - packed ? static_cast<size_t>(left) : bytes - packed;
    row(row_at + x, packed, n);
    packed += n;
    x = 0;
    if (++y == shape.height) {
      y = 0;
      slice_at += shape.host.slice;
      row_at = slice_at;
    } else {
      row_at += shape.host.row;
    }
  }
}

}  // namespace pinring

#endif  // PINRING_SRC_ENGINE_SHAPE_H_
