// How an instance copies: which way a copy goes, and what becomes of it where
// the ring cannot take it.

#include <cstdint>
#include <cstring>

#include "absl/functional/function_ref.h"
#include "absl/numeric/int128.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "src/capi/addresses.h"
#include "src/capi/instance.h"
#include "src/driver/status.h"
#include "src/engine/chunk_copy.h"
#include "src/usage/usage_print.h"

namespace pinring {
namespace {

absl::Status OutOfRange(const Block& block, const void* pointer, size_t bytes) {
  return InvalidValue(
      absl::StrCat("a copy of ", bytes, " bytes at ", AddressText(pointer),
                   " reaches beyond its block of ", block.bytes(), " bytes at ",
                   AddressText(block.data())));
}

CopyDirection UsageDirection(Direction direction) {
  return direction == Direction::kHostToDevice ? CopyDirection::kHostToDevice
                                               : CopyDirection::kDeviceToHost;
}

// Only for the accounts: the driver looks at the addresses.
CopyDirection DirectionOf(cudaMemcpyKind kind) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return CopyDirection::kHostToDevice;
    case cudaMemcpyDeviceToHost:
      return CopyDirection::kDeviceToHost;
    case cudaMemcpyDeviceToDevice:
      return CopyDirection::kDeviceToDevice;
    case cudaMemcpyHostToHost:
      return CopyDirection::kHostToHost;
    case cudaMemcpyDefault:
      break;
  }
  return CopyDirection::kByAddress;
}

CopyPath UsagePath(CopyOutcome outcome) {
  switch (outcome) {
    case CopyOutcome::kIdle:
      return CopyPath::kStagedIdle;
    case CopyOutcome::kSync:
      return CopyPath::kStagedSync;
    default:
      return CopyPath::kStagedDeferred;
  }
}

// The shape of a copy whose source (to the device) or destination (to the host)
// is the host's end.
Shape ShapeOf(const Instance::Copy& copy, Direction direction) {
  if (copy.rows == nullptr) return Shape::Flat(copy.bytes);
  const Instance::Rows& rows = *copy.rows;
  const bool in = direction == Direction::kHostToDevice;
  return {rows.width, rows.height, rows.depth, in ? rows.src : rows.dst,
          in ? rows.dst : rows.src};
}

// How far the copy reaches at its host's end.
size_t ExtentOf(const Instance::Copy& copy, Direction direction) {
  const Shape shape = ShapeOf(copy, direction);
  return static_cast<size_t>(shape.Extent(shape.host));
}

// Either end of a copy in the driver's words: it finds out what is at an
// address.
template <typename DriverCopy>
void SetEnds(const Instance::Copy& copy, DriverCopy* out) {
  out->srcMemoryType = CU_MEMORYTYPE_UNIFIED;
  out->srcDevice = DeviceAddress(copy.src);
  out->srcPitch = copy.rows->src.row;
  out->dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  out->dstDevice = DeviceAddress(copy.dst);
  out->dstPitch = copy.rows->dst.row;
  out->WidthInBytes = copy.rows->width;
  out->Height = copy.rows->height;
  if (!copy.array.has_value()) return;
  const bool to = copy.dst == nullptr;
  (to ? out->dstMemoryType : out->srcMemoryType) = CU_MEMORYTYPE_ARRAY;
  (to ? out->dstArray : out->srcArray) = copy.array->array;
  (to ? out->dstXInBytes : out->srcXInBytes) = copy.array->x;
  (to ? out->dstY : out->srcY) = copy.array->y;
}

template <typename DriverCopy>
void SetBox(const Instance::Copy& copy, DriverCopy* box) {
  const Instance::Rows& rows = *copy.rows;
  SetEnds(copy, box);
  box->srcHeight = rows.src.row == 0 ? 0 : rows.src.slice / rows.src.row;
  box->dstHeight = rows.dst.row == 0 ? 0 : rows.dst.slice / rows.dst.row;
  box->Depth = rows.depth;
  if (copy.array.has_value()) {
    (copy.dst == nullptr ? box->dstZ : box->srcZ) = copy.array->z;
  }
}

}  // namespace

// What the driver refuses: rows longer than their pitch, unless it is 0, and,
// between rows, a pitch of 2 GiB or more. It leaves the row of an array to the
// other end.
absl::Status Instance::Rows::CheckPitch(const Pitch& pitch) const {
  constexpr uint64_t kMostPitch = INT32_MAX;  // CU_DEVICE_ATTRIBUTE_MAX_PITCH
  if (pitch.row != 0 && pitch.row < width) {
    return InvalidValue(absl::StrCat(
        "rows of ", width, " bytes do not fit into a pitch of ", pitch.row));
  }
  if ((height > 1 || depth > 1) && pitch.row > kMostPitch) {
    return InvalidValue(absl::StrCat("a pitch of ", pitch.row,
                                     " bytes is over the most that a device "
                                     "takes, ",
                                     kMostPitch));
  }
  return absl::OkStatus();
}

absl::Status Instance::Rows::CheckReach(const Pitch& pitch) const {
  const auto last = [](uint64_t count, uint64_t step) {
    return absl::uint128(count - 1) * step;
  };
  const absl::uint128 extent =
      last(depth, pitch.slice) + last(height, pitch.row) + width;
  const absl::uint128 slice = absl::uint128(width) * height;
  if (extent <= INT64_MAX && slice <= INT64_MAX && slice * depth <= INT64_MAX) {
    return absl::OkStatus();
  }
  return InvalidValue(absl::StrCat(depth, " slices of ", height, " rows of ",
                                   width, " bytes with a pitch of ", pitch.row,
                                   " reach beyond all addresses"));
}

absl::StatusOr<Instance::Copy> Instance::CheckRows(const Copy& copy) const {
  if (copy.rows == nullptr) return copy;
  const Rows& rows = *copy.rows;
  Copy counted = copy;
  counted.bytes = 0;
  if (rows.empty()) return counted;
  for (const Pitch& pitch : {rows.dst, rows.src}) {
    if (auto status = rows.CheckPitch(pitch); !status.ok()) return status;
    if (auto status = rows.CheckReach(pitch); !status.ok()) return status;
  }
  counted.bytes = static_cast<size_t>(rows.width * rows.height * rows.depth);
  return counted;
}

absl::Status Instance::MemcpyRows(const Copy& copy) {
  const auto counted = CheckRows(copy);
  return counted.ok() ? CopyBlock(*counted) : counted.status();
}

absl::Status Instance::CheckSmallBlock(const void* pointer, uint64_t bytes,
                                       absl::string_view what) const {
  const auto shorter = memory_.ShorterSmallBlock(pointer, bytes);
  if (!shorter.has_value()) return absl::OkStatus();
  return InvalidValue(absl::StrCat(
      what, " of ", bytes, " bytes at ", AddressText(pointer),
      " reaches beyond its block of ", shorter->bytes, " bytes at ",
      AddressText(reinterpret_cast<const void*>(shorter->base))));
}

absl::Status Instance::CheckSmallBlocks(const Copy& copy) const {
  auto status = CheckSmallBlock(
      copy.dst, ExtentOf(copy, Direction::kDeviceToHost), "a copy");
  if (!status.ok()) return status;
  return CheckSmallBlock(copy.src, ExtentOf(copy, Direction::kHostToDevice),
                         "a copy");
}

absl::Status Instance::CopyBlock(const Copy& copy) {
  if (copy.bytes == 0) return absl::OkStatus();
  if (auto status = CheckSmallBlocks(copy); !status.ok()) return status;
  if (!memory_.IsStaged(copy.dst) && !memory_.IsStaged(copy.src)) {
    const bool to = memory_.Owns(copy.dst);
    if (to || memory_.Owns(copy.src)) {
      if (auto status = CheckProcess(); !status.ok()) return status;
      if (auto status = contexts_.EnsureCurrent(); !status.ok()) return status;
      auto status = CheckKnown(
          copy, to ? Direction::kDeviceToHost : Direction::kHostToDevice);
      if (!status.ok()) return status;
    }
    return CopyNatively(copy, DirectionOf(copy.kind), CopyPath::kPassed);
  }
  const BlockUse to = memory_.UseStaged(copy.dst);
  const BlockUse from = memory_.UseStaged(copy.src);
  if (to) {
    const size_t bytes = ExtentOf(copy, Direction::kDeviceToHost);
    if (!to->ContainsRange(DeviceAddress(copy.dst), bytes)) {
      return OutOfRange(*to, copy.dst, bytes);
    }
  }
  if (from) {
    const size_t bytes = ExtentOf(copy, Direction::kHostToDevice);
    if (!from->ContainsRange(DeviceAddress(copy.src), bytes)) {
      return OutOfRange(*from, copy.src, bytes);
    }
  }
  if (to && from) {
    return CopyNatively(copy, CopyDirection::kHostToHost, CopyPath::kPassed);
  }
  if (to) return CopyStaged(copy, to.get(), Direction::kDeviceToHost);
  if (from) return CopyStaged(copy, from.get(), Direction::kHostToDevice);
  // Freed by another thread just now.
  return CopyNatively(copy, DirectionOf(copy.kind), CopyPath::kPassed);
}

absl::Status Instance::CopyPageable(const Copy& asked) {
  const auto checked = CheckRows(asked);
  if (!checked.ok()) return checked.status();
  const Copy& copy = *checked;
  if (copy.bytes == 0) return absl::OkStatus();
  if (copy.wait || copy.access == HostAccess::kDuringCall) {
    if (auto status = RefuseCapture(copy.stream); !status.ok()) return status;
  }
  if (memory_.IsStaged(copy.dst) || memory_.IsStaged(copy.src)) {
    return CopyBlock(copy);
  }
  for (const void* pointer : {static_cast<const void*>(copy.dst), copy.src}) {
    if (copy.bytes > UINTPTR_MAX - DeviceAddress(pointer)) {
      return InvalidValue(absl::StrCat("a copy of ", copy.bytes, " bytes at ",
                                       AddressText(pointer),
                                       " reaches beyond all addresses"));
    }
  }
  if (auto status = CheckSmallBlocks(copy); !status.ok()) return status;
  const auto direction = PageableDirection(copy);
  if (!direction.ok()) return direction.status();
  if (direction->has_value()) return CopyStaged(copy, nullptr, **direction);
  return CopyNatively(copy, DirectionOf(copy.kind), CopyPath::kPassed);
}

absl::StatusOr<std::optional<Direction>> Instance::PageableDirection(
    const Copy& copy) {
  if (auto status = CheckProcess(); !status.ok()) return status;
  if (auto status = contexts_.EnsureCurrent(); !status.ok()) return status;
  if (memory_.IsStaged(copy.dst) || memory_.IsStaged(copy.src)) {
    return std::nullopt;
  }
  // The end that has no address is an array.
  const auto classify = [&](const void* pointer) -> absl::StatusOr<Memory> {
    if (pointer == nullptr && copy.array.has_value()) return Memory::kDevice;
    return Classify(pointer);
  };
  const auto to = classify(copy.dst);
  if (!to.ok()) return to.status();
  const auto from = classify(copy.src);
  if (!from.ok()) return from.status();
  // A small block can be read during the call as well as pageable memory can.
  const bool readable =
      *from == Memory::kPageable ||
      (copy.access == HostAccess::kDuringCall && memory_.Owns(copy.src));
  if (readable && *to == Memory::kDevice) {
    return Direction::kHostToDevice;
  }
  if (*from == Memory::kDevice && *to == Memory::kPageable) {
    return Direction::kDeviceToHost;
  }
  return std::nullopt;
}

absl::Status Instance::MemcpyPeer(const Copy& asked, const Peers& peers) {
  const auto checked = CheckRows(asked);
  if (!checked.ok()) return checked.status();
  Copy copy = *checked;
  if (copy.bytes == 0) return absl::OkStatus();
  const void* const block_address =
      memory_.IsStaged(copy.dst) ? copy.dst : copy.src;
  if (auto status = CheckSmallBlocks(copy); !status.ok()) return status;
  if (!memory_.IsStaged(block_address)) return CopyPeerNatively(copy, peers);
  if (auto status = CheckProcess(); !status.ok()) return status;
  if (auto status = contexts_.EnsureCurrent(); !status.ok()) return status;
  if (copy.array.has_value()) {
    // The ring's copies are the current context's, which need not know arrays
    // of others.
    CUcontext current = nullptr;
    if (auto status =
            CudaStatus(driver_.CtxGetCurrent(&current), "cuCtxGetCurrent");
        !status.ok()) {
      return status;
    }
    if ((copy.dst == nullptr ? peers.dst : peers.src) != current) {
      if (auto status =
              PromoteOnUse(const_cast<void*>(block_address),
                           "a copy to or from another device's array");
          !status.ok()) {
        return status;
      }
      return CopyPeerNatively(copy, peers);
    }
  }
  const auto capturing = IsCapturing(copy.stream);
  if (!capturing.ok()) return capturing.status();
  if (*capturing) {
    // Natively such a copy cannot be captured, or is a node of the graph: the
    // driver says which.
    if (auto status = PromoteOnUse(const_cast<void*>(block_address),
                                   "a captured copy between devices");
        !status.ok()) {
      return status;
    }
    return CopyPeerNatively(copy, peers);
  }
  if (copy.wait) {
    const RelaxedCapture relaxed(driver_);
    for (CUcontext peer : {peers.dst, peers.src}) {
      auto status = contexts_.OrderAfter(peer, copy.stream);
      if (!status.ok()) return status;
    }
  }
  // The addresses say which devices these are. The end that is no block has to
  // be memory that CUDA knows, as natively.
  copy.kind = cudaMemcpyDeviceToDevice;
  return CopyBlock(copy);
}

absl::StatusOr<Instance::ArrayFacts> Instance::DescribeArray(CUarray array) {
  if (auto status = CheckProcess(); !status.ok()) return status;
  CUDA_ARRAY3D_DESCRIPTOR descriptor;
  if (auto status = CallDriver(
          "cuArray3DGetDescriptor",
          [&] { return driver_.Array3DGetDescriptor(&descriptor, array); });
      !status.ok()) {
    return status;
  }
  const uint64_t element = ArrayElementBytes(descriptor);
  return ArrayFacts{element, element * descriptor.Width};
}

// A copy that is over when the call returns is no part of a graph. Asked before
// anything is done, since waiting for the stream would end its capture.
absl::Status Instance::RefuseCapture(CUstream stream) {
  const auto capturing = IsCapturing(stream);
  if (!capturing.ok()) return capturing.status();
  if (!*capturing) return absl::OkStatus();
  return CudaStatus(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                    "a copy that accesses host memory during the call cannot "
                    "be captured; let it be accessed in stream order");
}

// The legacy stream never is, and may not be asked.
absl::StatusOr<bool> Instance::IsCapturing(CUstream stream) {
  if (IsLegacyStream(stream)) return false;
  if (auto status = CheckProcess(); !status.ok()) return status;
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
  if (auto status = CallDriver(
          "cuStreamIsCapturing",
          [&] { return driver_.StreamIsCapturing(stream, &capturing); });
      !status.ok()) {
    return status;
  }
  return capturing != CU_STREAM_CAPTURE_STATUS_NONE;
}

absl::StatusOr<Instance::Memory> Instance::Classify(const void* pointer) {
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  CU_POINTER_ATTRIBUTE_IS_MANAGED};
  unsigned type = 0;
  unsigned managed = 0;
  void* values[] = {&type, &managed};
  if (auto status = CudaStatus(driver_.PointerGetAttributes(
                                   2, wanted, values, DeviceAddress(pointer)),
                               "cuPointerGetAttributes");
      !status.ok()) {
    return status;
  }
  if (managed != 0) return Memory::kOther;
  if (type == 0) return Memory::kPageable;
  return type == CU_MEMORYTYPE_DEVICE ? Memory::kDevice : Memory::kOther;
}

// With unified addressing the addresses say what a copy is. But an end that the
// kind says is the device's has to be memory that CUDA knows, as natively.
absl::Status Instance::CheckKnown(const Copy& copy, Direction direction) {
  const bool in = direction == Direction::kHostToDevice;
  const void* const other = in ? copy.dst : copy.src;
  if (copy.array.has_value() || memory_.Owns(other)) return absl::OkStatus();
  if (copy.kind != cudaMemcpyDeviceToDevice &&
      copy.kind != (in ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost)) {
    return absl::OkStatus();
  }
  const auto memory = Classify(other);
  if (!memory.ok()) return memory.status();
  if (*memory != Memory::kPageable) return absl::OkStatus();
  return InvalidValue(absl::StrCat("the direction says that ",
                                   AddressText(other),
                                   " is device memory, but CUDA does not know "
                                   "it"));
}

CategoryId Instance::CopyCategory(const Block* block) const {
  const CategoryId current = ledger_.categories().Current();
  return current == kDefaultCategory && block != nullptr ? block->category()
                                                         : current;
}

absl::Status Instance::CopyStaged(const Copy& copy, Block* block,
                                  Direction direction) {
  const CopyDirection counted = UsageDirection(direction);
  if (block != nullptr && block->promoted()) {
    if (auto status = CheckKnown(copy, direction); !status.ok()) return status;
    return CopyNatively(copy, counted, CopyPath::kPromoted);
  }
  if (auto status = CheckProcess(); !status.ok()) return status;
  if (auto status = contexts_.EnsureCurrent(); !status.ok()) return status;
  if (DevicesUseHostPageTables()) {
    return CopyAsPageable(copy, direction, CopyPath::kPassed);
  }
  const bool in = direction == Direction::kHostToDevice;
  // What is no staged block is a small one, or ordinary memory.
  const auto may_be_pinned = [&] {
    return block != nullptr ? block->may_be_pinned()
                            : memory_.Owns(in ? copy.src : copy.dst);
  };
  const absl::FunctionRef<bool()> pinned = may_be_pinned;
  const auto result = engine_.Copy(
      {.direction = direction,
       .host = in ? const_cast<void*>(copy.src) : copy.dst,
       .device = DeviceAddress(in ? copy.dst : copy.src),
       .shape = copy.array.has_value() ? ShapeOf(copy, direction)
                                       : Simplified(ShapeOf(copy, direction)),
       .stream = copy.stream,
       .wait = copy.wait,
       .access = copy.access,
       .array = copy.array,
       .pinned = &pinned});
  if (!result.ok()) return result.status();
  switch (result->outcome) {
    case CopyOutcome::kDeferred:
    case CopyOutcome::kIdle:
    case CopyOutcome::kSync:
      ledger_.Copied(CopyCategory(block), counted, UsagePath(result->outcome),
                     copy.bytes, result->slot_wait_nanos);
      return absl::OkStatus();
    case CopyOutcome::kNotDevice:
      if (auto status = CheckKnown(copy, direction); !status.ok()) {
        return status;
      }
      return CopyNatively(copy, CopyDirection::kHostToHost, CopyPath::kPassed);
    default:
      return CopyWithoutRing(copy, block, direction, result->outcome);
  }
}

absl::Status Instance::CopyWithoutRing(const Copy& copy, Block* block,
                                       Direction direction,
                                       CopyOutcome outcome) {
  if (outcome == CopyOutcome::kCapturing && IsLegacyStream(copy.stream)) {
    // It cannot be captured itself; another stream's capture forbids its use,
    // and the driver says so.
    return CopyNatively(copy, UsageDirection(direction),
                        CopyPath::kPageableFallback);
  }
  if (outcome == CopyOutcome::kNoRing) {
    const absl::Status ring = engine_.ring_status();
    const bool lacks_operations = ring.ok() ||
                                  driver_.StreamBatchMemOp == nullptr ||
                                  driver_.StreamWriteValue32 == nullptr;
    if (!lacks_operations) {
      // Pinning was refused once. Asking again and again makes it worse.
      if (!ring_refusal_counted_.exchange(true, std::memory_order_relaxed)) {
        CountAndSay(
            UsageEvent::kRingRefused,
            absl::StrCat("the ring of ", HumanBytes(options_.ring_bytes),
                         " cannot be made (", ring.message(),
                         "); copies of staged blocks take the driver's slow "
                         "path. Lower PINRING_RING_BYTES or raise "
                         "PINRING_PINNED_LIMIT_BYTES"));
      }
      return CopySlowly(copy, direction);
    }
    CountAndSay(UsageEvent::kStreamMemoryOpsAbsent,
                "this driver has no stream memory operations, which staged "
                "copies need; blocks are pinned instead");
  }
  // The graph that it becomes a node of is seen again when it is instantiated.
  if (outcome == CopyOutcome::kCapturing && block != nullptr &&
      Records(copy.stream)) {
    recorded_.store(true, std::memory_order_relaxed);
    return CopyNatively(copy, UsageDirection(direction),
                        CopyPath::kStagedDeferred);
  }
  if (block != nullptr && PromoteFor(*block, outcome)) {
    return CopyNatively(copy, UsageDirection(direction), CopyPath::kPromoted);
  }
  // What a captured copy of pageable memory means is the driver's to say.
  if (outcome == CopyOutcome::kCapturing) {
    copies_past_engine_.store(true, std::memory_order_relaxed);
    return CopyNatively(copy, UsageDirection(direction),
                        CopyPath::kPageableFallback);
  }
  return CopySlowly(copy, direction);
}

// Pins the block of a copy that the ring could not take.
bool Instance::PromoteFor(Block& block, CopyOutcome outcome) {
  if (!options_.promote) return false;
  if (auto status = memory_.Promote(block); !status.ok()) {
    CountAndSay(UsageEvent::kPromotionRefused,
                absl::StrCat("a block of ", HumanBytes(block.bytes()),
                             " cannot be pinned in place: ", status.message()));
    return false;
  }
  if (outcome == CopyOutcome::kNoSlot || outcome == CopyOutcome::kTooDeep) {
    CountAndSay(UsageEvent::kPromotedNoSlot,
                absl::StrCat("no slot of the ring was left for a copy, so its "
                             "block of ",
                             HumanBytes(block.bytes()),
                             " is pinned in place. Raise PINRING_RING_BYTES "
                             "where that happens often"));
  }
  return true;
}

absl::Status Instance::CopySlowly(const Copy& copy, Direction direction) {
  CountAndSay(UsageEvent::kPageableFallback,
              "a copy through the ring takes the driver's path for pageable "
              "memory, which is slower and waits for its stream. Raise "
              "PINRING_RING_BYTES or PINRING_PINNED_LIMIT_BYTES");
  // The driver reads pageable memory during the call. The program may have
  // work queued that writes it first, so the stream has to get here before.
  if (direction == Direction::kHostToDevice &&
      copy.access == HostAccess::kInStreamOrder) {
    const RelaxedCapture relaxed(driver_);
    if (auto status = engine_.WaitUntilHere(copy.stream); !status.ok()) {
      return status;
    }
  }
  return CopyAsPageable(copy, direction, CopyPath::kPageableFallback);
}

absl::Status Instance::CopyAsPageable(const Copy& copy, Direction direction,
                                      CopyPath path) {
  auto status = CopyNatively(copy, UsageDirection(direction), path);
  // A synchronous copy from pageable memory returns when the source has been
  // read, one from pinned memory when the data has arrived.
  if (status.ok() && copy.wait && direction == Direction::kHostToDevice) {
    status = CudaStatus(driver_.StreamSynchronize(copy.stream),
                        "cuStreamSynchronize");
  }
  return status;
}

absl::Status Instance::CopyNatively(const Copy& copy, CopyDirection direction,
                                    CopyPath path) {
  const bool sync = copy.wait && IsLegacyStream(copy.stream);
  absl::Status status = CallDriver(sync ? "cuMemcpy" : "cuMemcpyAsync",
                                   [&] { return CallCopy(copy, sync); });
  if (!status.ok()) return status;
  ledger_.Copied(CopyCategory(nullptr), direction, path, copy.bytes);
  // The driver accesses pinned memory in stream order.
  if (!sync && (copy.wait || copy.access == HostAccess::kDuringCall)) {
    status = CudaStatus(driver_.StreamSynchronize(copy.stream),
                        "cuStreamSynchronize");
  }
  return status;
}

CUresult Instance::CallCopy(const Copy& copy, bool sync) const {
  if (copy.rows == nullptr) {
    return sync ? driver_.Memcpy(DeviceAddress(copy.dst),
                                 DeviceAddress(copy.src), copy.bytes)
                : driver_.MemcpyAsync(DeviceAddress(copy.dst),
                                      DeviceAddress(copy.src), copy.bytes,
                                      copy.stream);
  }
  const Rows& rows = *copy.rows;
  if (rows.depth == 1 && (!copy.array.has_value() || copy.array->z == 0)) {
    CUDA_MEMCPY2D rectangle;
    std::memset(&rectangle, 0, sizeof(rectangle));
    SetEnds(copy, &rectangle);
    return sync ? driver_.Memcpy2DUnaligned(&rectangle)
                : driver_.Memcpy2DAsync(&rectangle, copy.stream);
  }
  CUDA_MEMCPY3D box;
  std::memset(&box, 0, sizeof(box));
  SetBox(copy, &box);
  return sync ? driver_.Memcpy3D(&box)
              : driver_.Memcpy3DAsync(&box, copy.stream);
}

absl::Status Instance::CopyPeerNatively(const Copy& copy, const Peers& peers) {
  auto status = CallDriver("a copy between devices",
                           [&] { return CallCopyPeer(copy, peers); });
  if (status.ok()) {
    ledger_.Copied(CopyCategory(nullptr), CopyDirection::kDeviceToDevice,
                   CopyPath::kPassed, copy.bytes);
  }
  return status;
}

CUresult Instance::CallCopyPeer(const Copy& copy, const Peers& peers) const {
  if (copy.rows == nullptr) {
    return copy.wait
               ? driver_.MemcpyPeer(DeviceAddress(copy.dst), peers.dst,
                                    DeviceAddress(copy.src), peers.src,
                                    copy.bytes)
               : driver_.MemcpyPeerAsync(DeviceAddress(copy.dst), peers.dst,
                                         DeviceAddress(copy.src), peers.src,
                                         copy.bytes, copy.stream);
  }
  CUDA_MEMCPY3D_PEER box;
  std::memset(&box, 0, sizeof(box));
  SetBox(copy, &box);
  box.dstContext = peers.dst;
  box.srcContext = peers.src;
  return copy.wait ? driver_.Memcpy3DPeer(&box)
                   : driver_.Memcpy3DPeerAsync(&box, copy.stream);
}

bool Instance::DevicesUseHostPageTables() {
  const HostPageTables known =
      host_page_tables_.load(std::memory_order_relaxed);
  if (known != HostPageTables::kNotAsked) {
    return known == HostPageTables::kYes;
  }
  int devices = 0;
  if (driver_.DeviceGetCount(&devices) != CUDA_SUCCESS) return false;
  bool all = devices > 0;
  for (int ordinal = 0; all && ordinal < devices; ++ordinal) {
    CUdevice device = 0;
    int value = 0;
    all = driver_.DeviceGet(&device, ordinal) == CUDA_SUCCESS &&
          driver_.DeviceGetAttribute(
              &value,
              CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
              device) == CUDA_SUCCESS &&
          value != 0;
  }
  // Threads that ask at the same time find the same.
  host_page_tables_.store(all ? HostPageTables::kYes : HostPageTables::kNo,
                          std::memory_order_relaxed);
  return all;
}

}  // namespace pinring
