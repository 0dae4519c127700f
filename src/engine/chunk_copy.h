// A chunk's copy between its slot and the device, in the driver's words.

#ifndef PINRING_SRC_ENGINE_CHUNK_COPY_H_
#define PINRING_SRC_ENGINE_CHUNK_COPY_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "src/driver/driver.h"
#include "src/engine/copy_request.h"

namespace pinring {

// Bytes of an element of an array; 0 for formats that are not made of equal
// channels (block-compressed, several planes).
uint64_t ArrayElementBytes(const CUDA_ARRAY3D_DESCRIPTOR& array);

// Enqueues the copy of [offset, offset + bytes) of the packed bytes, cut as
// CutIntoChunks does. The context of the stream is current.
absl::Status CopyChunk(const Driver& driver, const CopyRequest& request,
                       uint64_t offset, size_t bytes, std::byte* slot);

}  // namespace pinring

#endif  // PINRING_SRC_ENGINE_CHUNK_COPY_H_
