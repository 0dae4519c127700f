// How an instance fills memory with a value. A staged block is filled by the
// movers, in stream order; nothing goes through the ring.

#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/capi/addresses.h"
#include "src/capi/instance.h"
#include "src/driver/status.h"
#include "src/engine/shape.h"

namespace pinring {
namespace {

Shape ShapeOf(const Instance::Fill& fill) {
  const Instance::Rows& rows = fill.rows;
  return Simplified({rows.width, rows.height, rows.depth, rows.dst, rows.dst});
}

}  // namespace

absl::Status Instance::Memset(const Fill& fill) {
  if (fill.rows.empty()) return absl::OkStatus();
  if (auto status = fill.rows.CheckReach(fill.rows.dst); !status.ok()) {
    return status;
  }
  const BlockUse block = memory_.UseStaged(fill.dst);
  const Shape shape = ShapeOf(fill);
  const auto bytes = static_cast<size_t>(shape.Extent(shape.host));
  if (!block) {
    if (auto status = CheckSmallBlock(fill.dst, bytes, "a memset");
        !status.ok()) {
      return status;
    }
    return FillNatively(fill);
  }
  if (!block->ContainsRange(DeviceAddress(fill.dst), bytes)) {
    return InvalidValue(
        absl::StrCat("a memset of ", bytes, " bytes at ", AddressText(fill.dst),
                     " reaches beyond its block of ", block->bytes(),
                     " bytes at ", AddressText(block->data())));
  }
  return FillBlock(fill, *block);
}

absl::Status Instance::FillBlock(const Fill& fill, Block& block) {
  if (block.promoted()) return FillNatively(fill);
  if (auto status = CheckProcess(); !status.ok()) return status;
  if (auto status = contexts_.EnsureCurrent(); !status.ok()) return status;
  const auto result = engine_.Copy({.direction = Direction::kDeviceToHost,
                                    .host = fill.dst,
                                    .shape = ShapeOf(fill),
                                    .stream = fill.stream,
                                    .wait = fill.wait,
                                    .fill = fill.value});
  if (!result.ok()) return result.status();
  if (result->outcome == CopyOutcome::kDeferred ||
      result->outcome == CopyOutcome::kSync) {
    return absl::OkStatus();
  }
  if (result->outcome == CopyOutcome::kCapturing &&
      IsLegacyStream(fill.stream)) {
    // The driver says what is wrong.
    return FillNatively(fill);
  }
  if (PromoteFor(block, result->outcome)) return FillNatively(fill);
  if (result->outcome == CopyOutcome::kCapturing) {
    return CudaStatus(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                      "a memset of a block that cannot be pinned cannot be "
                      "captured: raise PINRING_PINNED_LIMIT_BYTES");
  }
  // The device cannot write pageable memory.
  CountAndSay(UsageEvent::kPageableFallback,
              "a memset of a staged block waits for its stream. Raise "
              "PINRING_RING_BYTES or PINRING_PINNED_LIMIT_BYTES");
  {
    const RelaxedCapture relaxed(driver_);
    if (auto status = engine_.WaitUntilHere(fill.stream); !status.ok()) {
      return status;
    }
  }
  const Shape shape = ShapeOf(fill);
  ForRows(shape, 0, static_cast<size_t>(shape.bytes()),
          [&](uint64_t at, size_t, size_t bytes) {
            std::memset(static_cast<std::byte*>(fill.dst) + at, fill.value,
                        bytes);
          });
  return absl::OkStatus();
}

absl::Status Instance::FillNatively(const Fill& fill) {
  const bool sync = fill.wait && IsLegacyStream(fill.stream);
  auto status = CallDriver(sync ? "cuMemsetD8" : "cuMemsetD8Async",
                           [&] { return CallFill(fill, sync); });
  if (status.ok() && fill.wait && !sync) {
    status = CudaStatus(driver_.StreamSynchronize(fill.stream),
                        "cuStreamSynchronize");
  }
  return status;
}

CUresult Instance::CallFill(const Fill& fill, bool sync) const {
  const Shape shape = ShapeOf(fill);
  CUresult code = CUDA_SUCCESS;
  for (uint64_t z = 0; z < shape.depth && code == CUDA_SUCCESS; ++z) {
    const CUdeviceptr dst = DeviceAddress(fill.dst) + z * shape.host.slice;
    const size_t pitch = shape.host.row;
    if (shape.height == 1) {
      code = sync ? driver_.MemsetD8(dst, fill.value, shape.width)
                  : driver_.MemsetD8Async(dst, fill.value, shape.width,
                                          fill.stream);
    } else {
      code = sync ? driver_.MemsetD2D8(dst, pitch, fill.value, shape.width,
                                       shape.height)
                  : driver_.MemsetD2D8Async(dst, pitch, fill.value, shape.width,
                                            shape.height, fill.stream);
    }
  }
  return code;
}

}  // namespace pinring
