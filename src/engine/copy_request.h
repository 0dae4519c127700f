// A copy as the engine is asked for it.

#ifndef PINRING_SRC_ENGINE_COPY_REQUEST_H_
#define PINRING_SRC_ENGINE_COPY_REQUEST_H_

#include <cuda.h>

#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "src/engine/shape.h"
#include "src/engine/transfer.h"

namespace pinring {

// Where a copy begins in an array of the driver's.
struct ArrayPlace {
  CUarray array = nullptr;
  uint64_t x = 0;  // bytes
  uint64_t y = 0;  // rows
  uint64_t z = 0;  // slices
};

struct CopyRequest {
  Direction direction = Direction::kHostToDevice;
  // Pageable memory that stays until the copy is done: the whole range in one
  // staged block, or the program's own.
  void* host = nullptr;
  CUdeviceptr device = 0;
  Shape shape;  // not empty; host and device are where its first bytes lie
  CUstream stream =
      nullptr;  // 0 is the legacy default stream, CU_STREAM_PER_THREAD as such
  bool wait = false;  // a synchronous copy
  HostAccess access = HostAccess::kInStreamOrder;
  std::optional<ArrayPlace> array =
      std::nullopt;  // instead of `device`; the shape's device
                     // pitch is of no account
  // Instead of a device's end, device to host: `host` is filled with the value
  // in stream order. Takes no slots, and is not cut.
  std::optional<unsigned char> fill = std::nullopt;
  // Says whether `host` may be pinned by now, so that the driver would not be
  // done with it when its call returns; null: it is not. Asked during the call,
  // more than once: another thread may pin it meanwhile.
  const absl::FunctionRef<bool()>* pinned = nullptr;

  [[nodiscard]] bool MayBePinned() const {
    return pinned != nullptr && (*pinned)();
  }
};

}  // namespace pinring

#endif  // PINRING_SRC_ENGINE_COPY_REQUEST_H_
