// The C functions: calls of the default instance whose errors become codes,
// and whose exceptions (out of memory inside the library) end here.

#include "include/pinring/pinring.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "src/capi/addresses.h"
#include "src/capi/default_instance.h"
#include "src/capi/error_codes.h"
#include "src/capi/instances.h"
#include "src/capi/usage_struct.h"
#include "src/driver/status.h"
#include "src/os/env.h"
#include "src/os/threads.h"
#include "src/usage/usage_print.h"
#include "src/usage/usage_prometheus.h"

namespace {

using pinring::Instance;
using pinring::InvalidValue;
using pinring::LastError;

cudaError_t Report(const absl::Status& status) {
  if (status.ok()) return cudaSuccess;
  return LastError::Keep(pinring::RuntimeCode(status), status.message());
}

// Runs `body`, which returns a status, and makes its outcome the caller's.
template <typename Body>
cudaError_t Guarded(Body body) noexcept {
  try {
    return Report(body());
  } catch (const std::bad_alloc&) {
    return LastError::Keep(cudaErrorMemoryAllocation,
                           "no memory for the library's own records");
  } catch (const std::exception& exception) {
    return LastError::Keep(cudaErrorUnknown, exception.what());
  } catch (...) {
    return LastError::Keep(cudaErrorUnknown, "an unknown exception");
  }
}

// The same, with the instance that `find` finds.
template <typename Find, typename Body>
cudaError_t WithFound(Find find, Body body) noexcept {
  // As natively, when CUDA has gone. Also no lock is taken: it may be held by
  // a thread that is not there.
  if (pinring::os::OtherThreadsAreGone()) return cudaErrorCudartUnloading;
  cudaError_t unavailable = cudaSuccess;
  const cudaError_t code = Guarded([&]() -> absl::Status {
    const pinring::NoInstance* error = nullptr;
    if (Instance* instance = find(&error)) return body(*instance);
    unavailable = LastError::Keep(error->code, error->message);
    return absl::OkStatus();
  });
  return unavailable != cudaSuccess ? unavailable : code;
}

// With the calling thread's current instance.
template <typename Body>
cudaError_t WithInstance(Body body) noexcept {
  return WithFound(&pinring::CurrentInstance, std::move(body));
}

// With the process's default instance.
template <typename Body>
cudaError_t WithDefault(Body body) noexcept {
  return WithFound(&pinring::DefaultInstance, std::move(body));
}

// With the instance whose block one of the addresses is in; with the current
// one where there is none.
template <typename Body>
cudaError_t WithOwner(const void* first, const void* second,
                      Body body) noexcept {
  return WithFound(
      [&](const pinring::NoInstance** error) {
        if (!pinring::FurtherInstances()) {
          return pinring::CurrentInstance(error);
        }
        Instance* owner = pinring::OwnerOf(first);
        if (owner == nullptr) owner = pinring::OwnerOf(second);
        return owner != nullptr ? owner : pinring::CurrentInstance(error);
      },
      std::move(body));
}
template <typename Body>
cudaError_t WithOwner(const void* pointer, Body body) noexcept {
  return WithOwner(pointer, nullptr, std::move(body));
}

pinringInstance_t Handle(Instance* instance) {
  return reinterpret_cast<pinringInstance_t>(instance);
}
Instance* FromHandle(pinringInstance_t handle) {
  return reinterpret_cast<Instance*>(handle);
}

// The number of an enumeration's value. Takes it by reference and looks at its
// bytes: a C caller may have put any number there, which C++ must not load as
// the enumeration.
template <typename Enumeration>
std::underlying_type_t<Enumeration> Number(const Enumeration& value) {
  std::underlying_type_t<Enumeration> number = 0;
  static_assert(sizeof(number) == sizeof(value));
  std::memcpy(&number, &value, sizeof(number));
  return number;
}

// Calls `copy` with the kind, if it is one. As with the runtime, it is of no
// account where there is nothing to copy.
template <typename Copy>
cudaError_t CheckKind(size_t bytes, const cudaMemcpyKind& kind, Copy copy) {
  const auto number = Number(kind);
  if (number >= cudaMemcpyHostToHost && number <= cudaMemcpyDefault) {
    return copy(kind);
  }
  if (bytes == 0) return copy(cudaMemcpyDefault);
  return LastError::Keep(cudaErrorInvalidMemcpyDirection,
                         "the direction is none of cudaMemcpyKind");
}

cudaError_t CopyPageable(void* dst, const void* src, size_t bytes,
                         const cudaMemcpyKind& kind, pinring::HostAccess access,
                         cudaStream_t stream, bool wait) {
  return CheckKind(bytes, kind, [&](cudaMemcpyKind checked) {
    return WithOwner(dst, src, [&](Instance& instance) {
      return instance.CopyPageable({.dst = dst,
                                    .src = src,
                                    .bytes = bytes,
                                    .kind = checked,
                                    .stream = stream,
                                    .wait = wait,
                                    .access = access});
    });
  });
}

cudaError_t CopyRows(void* dst, const void* src, const Instance::Rows& rows,
                     const std::optional<pinring::ArrayPlace>& array,
                     const cudaMemcpyKind& kind, cudaStream_t stream,
                     bool wait) {
  return CheckKind(rows.empty() ? 0 : 1, kind, [&](cudaMemcpyKind checked) {
    return WithOwner(dst, src, [&](Instance& instance) {
      return instance.MemcpyRows({.dst = dst,
                                  .src = src,
                                  .rows = &rows,
                                  .array = array,
                                  .kind = checked,
                                  .stream = stream,
                                  .wait = wait});
    });
  });
}

cudaError_t CopyRectangle(void* dst, size_t dst_pitch, const void* src,
                          size_t src_pitch, size_t width, size_t height,
                          const cudaMemcpyKind& kind, cudaStream_t stream,
                          bool wait) {
  // Of a single row the driver says whether it fits, as natively.
  if (width > 0 && height > 1 && (width > dst_pitch || width > src_pitch)) {
    return LastError::Keep(
        cudaErrorInvalidPitchValue,
        absl::StrCat("rows of ", width, " bytes do not fit into pitches of ",
                     dst_pitch, " (destination) and ", src_pitch, " (source)"));
  }
  return CopyRows(dst, src,
                  {.width = width,
                   .height = height,
                   .depth = 1,
                   .dst = {dst_pitch, 0},
                   .src = {src_pitch, 0}},
                  std::nullopt, kind, stream, wait);
}

Instance::Rows RowsOf(const cudaExtent& extent) {
  Instance::Rows rows;
  rows.width = extent.width;
  rows.height = extent.height;
  rows.depth = extent.depth;
  return rows;
}

// The runtime's arrays are the driver's.
CUarray DriverArray(cudaArray_const_t array) {
  return reinterpret_cast<CUarray>(const_cast<cudaArray_t>(array));
}

// Rows between memory, of which one address is null, and an array.
cudaError_t CopyArrayRows(cudaArray_const_t array, size_t x, size_t y,
                          void* dst, const void* src, size_t pitch,
                          size_t width, size_t height,
                          const cudaMemcpyKind& kind, cudaStream_t stream,
                          bool wait) {
  if (array == nullptr)
    return LastError::Keep(cudaErrorInvalidResourceHandle, "the array is null");
  if (width > 0 && height > 1 && width > pitch) {
    return LastError::Keep(
        cudaErrorInvalidPitchValue,
        absl::StrCat("rows of ", width, " bytes do not fit into a pitch of ",
                     pitch));
  }
  Instance::Rows rows;
  rows.width = width;
  rows.height = height;
  (dst != nullptr ? rows.dst : rows.src) = {pitch, 0};
  return CopyRows(dst, src, rows,
                  pinring::ArrayPlace{DriverArray(array), x, y, 0}, kind,
                  stream, wait);
}

cudaError_t Fill(void* dst, int value, const Instance::Rows& rows,
                 cudaStream_t stream, bool wait) {
  return WithOwner(dst, [&](Instance& instance) {
    return instance.Memset({.dst = dst,
                            .value = static_cast<unsigned char>(value),
                            .rows = rows,
                            .stream = stream,
                            .wait = wait});
  });
}

cudaError_t FillBytes(void* dst, int value, size_t bytes, cudaStream_t stream,
                      bool wait) {
  Instance::Rows rows;
  rows.width = bytes;
  return Fill(dst, value, rows, stream, wait);
}

cudaError_t FillBox(const cudaPitchedPtr& dst, int value,
                    const cudaExtent& extent, cudaStream_t stream, bool wait) {
  Instance::Rows rows = RowsOf(extent);
  rows.dst = {dst.pitch, dst.pitch * dst.ysize};
  if (!rows.empty() && ((rows.width > dst.pitch && rows.height > 1) ||
                        (rows.height > dst.ysize && rows.depth > 1))) {
    return Report(InvalidValue(
        absl::StrCat("rows of ", rows.width, " bytes in slices of ",
                     rows.height, " rows do not fit into a pitch of ",
                     dst.pitch, " and slices of ", dst.ysize, " rows")));
  }
  return Fill(dst.ptr, value, rows, stream, wait);
}

// Where a copy's first byte lies, and its pitches.
std::byte* Start(const cudaPitchedPtr& pointer, const cudaPos& position,
                 pinring::Pitch* pitch) {
  *pitch = {pointer.pitch, pointer.pitch * pointer.ysize};
  return static_cast<std::byte*>(pointer.ptr) + position.z * pitch->slice +
         position.y * pitch->row + position.x;
}

// A box that reaches over the edges of what it is cut out of.
bool Outside(const cudaPitchedPtr& pointer, const cudaPos& position,
             const cudaExtent& extent) {
  return position.x > pointer.pitch ||
         extent.width > pointer.pitch - position.x ||
         (extent.depth > 1 && (position.y > pointer.ysize ||
                               extent.height > pointer.ysize - position.y));
}

cudaError_t BoxOutside(const cudaExtent& extent) {
  return LastError::Keep(
      extent.height > 1 || extent.depth > 1 ? cudaErrorInvalidPitchValue
                                            : cudaErrorInvalidValue,
      absl::StrCat(
          "a box of ", extent.width, " bytes, ", extent.height, " rows and ",
          extent.depth,
          " slices reaches over the pitch or the height of its source or "
          "destination"));
}

// A box that has been looked at: what it is in the library's words.
struct KnownBox {
  Instance::Copy copy;  // but for its rows
  Instance::Rows rows;
};

// A box between an array and memory.
cudaError_t DescribeArrayBox(const cudaMemcpy3DParms& copy, KnownBox* box) {
  const bool to = copy.dstArray != nullptr;
  if (to && copy.srcArray != nullptr) {
    return Report(InvalidValue(
        "both ends are arrays, none is memory: call cudaMemcpy3D"));
  }
  auto* const array = DriverArray(to ? copy.dstArray : copy.srcArray);
  uint64_t element = 0;
  const cudaError_t error = WithInstance([&](Instance& instance) {
    const auto facts = instance.DescribeArray(array);
    if (facts.ok()) element = facts->element_bytes;
    return facts.status();
  });
  if (error != cudaSuccess) return error;
  if (element == 0) {
    return LastError::Keep(
        cudaErrorNotSupported,
        "the array is not made of equal channels: call pinringPromote for the "
        "block, then cudaMemcpy3D");
  }
  cudaExtent extent = copy.extent;
  if (extent.width > SIZE_MAX / element) {
    return Report(InvalidValue(absl::StrCat(
        "rows of ", extent.width, " elements of ", element, " bytes")));
  }
  extent.width *= element;  // said in elements of the array
  const cudaPitchedPtr& memory = to ? copy.srcPtr : copy.dstPtr;
  const cudaPos& position = to ? copy.srcPos : copy.dstPos;
  const cudaPos& at = to ? copy.dstPos : copy.srcPos;
  if (Outside(memory, position, extent)) return BoxOutside(extent);
  Instance::Rows rows = RowsOf(extent);
  std::byte* const start = Start(memory, position, to ? &rows.src : &rows.dst);
  const uint64_t x = std::min<uint64_t>(at.x, SIZE_MAX / element) * element;
  box->rows = rows;
  box->copy.dst = to ? nullptr : start;
  box->copy.src = to ? start : nullptr;
  box->copy.array = pinring::ArrayPlace{array, x, at.y, at.z};
  return cudaSuccess;
}

// What the box is; of no rows where it is empty.
cudaError_t DescribeBox(const cudaMemcpy3DParms& copy, KnownBox* box) {
  const cudaExtent& extent = copy.extent;
  if (extent.width == 0 || extent.height == 0 || extent.depth == 0) {
    box->rows.width = 0;
    return cudaSuccess;
  }
  if (copy.srcArray != nullptr || copy.dstArray != nullptr) {
    return DescribeArrayBox(copy, box);
  }
  if (Outside(copy.srcPtr, copy.srcPos, extent) ||
      Outside(copy.dstPtr, copy.dstPos, extent)) {
    return BoxOutside(extent);
  }
  box->rows = RowsOf(extent);
  box->copy.src = Start(copy.srcPtr, copy.srcPos, &box->rows.src);
  box->copy.dst = Start(copy.dstPtr, copy.dstPos, &box->rows.dst);
  return cudaSuccess;
}

// Describes the box, and has `copy` copy it: with an instance and a copy whose
// ends, rows and kind are set.
template <typename CopyIt>
cudaError_t WithBox(const cudaMemcpy3DParms* parameters, CopyIt copy) {
  if (parameters == nullptr) {
    return Report(InvalidValue("the parameters are null"));
  }
  KnownBox box;
  const cudaError_t error = DescribeBox(*parameters, &box);
  if (error != cudaSuccess || box.rows.empty()) return error;
  return CheckKind(1, parameters->kind, [&](cudaMemcpyKind kind) {
    return WithOwner(box.copy.dst, box.copy.src, [&](Instance& instance) {
      Instance::Copy described = box.copy;
      described.rows = &box.rows;
      described.kind = kind;
      return copy(instance, described);
    });
  });
}

// Calls `copy` with when it may access host memory, if the value says so.
template <typename CopyIt>
cudaError_t WithAccess(const pinringAccess& access, CopyIt copy) {
  switch (Number(access)) {
    case pinringAccessStream:
      return copy(pinring::HostAccess::kInStreamOrder);
    case pinringAccessDuringCall:
      return copy(pinring::HostAccess::kDuringCall);
    case pinringAccessAny:
      return copy(pinring::HostAccess::kAnyTime);
    default:
      return Report(InvalidValue("the access is none of pinringAccess"));
  }
}

cudaError_t CopyBox(const cudaMemcpy3DParms* parameters, cudaStream_t stream,
                    bool wait) {
  return WithBox(parameters, [&](Instance& instance, Instance::Copy& copy) {
    copy.stream = stream;
    copy.wait = wait;
    return instance.MemcpyRows(copy);
  });
}

// A copy between the memory of two devices, each said by its number.
absl::Status CopyPeer(Instance& instance, const Instance::Copy& copy,
                      int dst_device, int src_device) {
  const auto dst = instance.PrimaryContext(dst_device);
  if (!dst.ok()) return dst.status();
  const auto src = instance.PrimaryContext(src_device);
  if (!src.ok()) return src.status();
  return instance.MemcpyPeer(copy, {.dst = *dst, .src = *src});
}

cudaError_t CopyPeerBytes(void* dst, int dst_device, const void* src,
                          int src_device, size_t bytes, cudaStream_t stream,
                          bool wait) {
  return WithOwner(dst, src, [&](Instance& instance) {
    return CopyPeer(instance,
                    {.dst = dst,
                     .src = src,
                     .bytes = bytes,
                     .stream = stream,
                     .wait = wait},
                    dst_device, src_device);
  });
}

cudaError_t CopyPeerBox(const cudaMemcpy3DPeerParms* parameters,
                        cudaStream_t stream, bool wait) {
  if (parameters == nullptr) {
    return Report(InvalidValue("the parameters are null"));
  }
  cudaMemcpy3DParms box = {};
  box.srcArray = parameters->srcArray;
  box.srcPos = parameters->srcPos;
  box.srcPtr = parameters->srcPtr;
  box.dstArray = parameters->dstArray;
  box.dstPos = parameters->dstPos;
  box.dstPtr = parameters->dstPtr;
  box.extent = parameters->extent;
  box.kind = cudaMemcpyDefault;
  return WithBox(&box, [&](Instance& instance, Instance::Copy& copy) {
    copy.stream = stream;
    copy.wait = wait;
    return CopyPeer(instance, copy, parameters->dstDevice,
                    parameters->srcDevice);
  });
}

}  // namespace

extern "C" {

cudaError_t pinringMallocHost(void** pointer, size_t bytes) {
  return pinringHostAlloc(pointer, bytes, cudaHostAllocDefault);
}

cudaError_t pinringHostAlloc(void** pointer, size_t bytes, unsigned int flags) {
  return WithInstance([&](Instance& instance) {
    return instance.HostAlloc(pointer, bytes, flags);
  });
}

cudaError_t pinringFreeHost(void* pointer) {
  // The system frees the rest, and no mover touches it.
  if (pinring::os::OtherThreadsAreGone()) return cudaSuccess;
  return WithOwner(
      pointer, [&](Instance& instance) { return instance.FreeHost(pointer); });
}

cudaError_t pinringHostRegister(void* pointer, size_t bytes,
                                unsigned int flags) {
  return WithInstance([&](Instance& instance) {
    return instance.HostRegister(pointer, bytes, flags);
  });
}

cudaError_t pinringHostUnregister(void* pointer) {
  return WithOwner(pointer, [&](Instance& instance) {
    return instance.HostUnregister(pointer);
  });
}

cudaError_t pinringMemcpy(void* dst, const void* src, size_t bytes,
                          enum cudaMemcpyKind kind) {
  return CheckKind(bytes, kind, [&](cudaMemcpyKind checked) {
    return WithOwner(dst, src, [&](Instance& instance) {
      return instance.Memcpy(dst, src, bytes, checked);
    });
  });
}

cudaError_t pinringMemcpyAsync(void* dst, const void* src, size_t bytes,
                               enum cudaMemcpyKind kind, cudaStream_t stream) {
  return CheckKind(bytes, kind, [&](cudaMemcpyKind checked) {
    return WithOwner(dst, src, [&](Instance& instance) {
      return instance.MemcpyAsync(dst, src, bytes, checked, stream);
    });
  });
}

cudaError_t pinringMemcpy2D(void* dst, size_t dst_pitch, const void* src,
                            size_t src_pitch, size_t width, size_t height,
                            enum cudaMemcpyKind kind) {
  return CopyRectangle(dst, dst_pitch, src, src_pitch, width, height, kind,
                       nullptr, true);
}

cudaError_t pinringMemcpy2DAsync(void* dst, size_t dst_pitch, const void* src,
                                 size_t src_pitch, size_t width, size_t height,
                                 enum cudaMemcpyKind kind,
                                 cudaStream_t stream) {
  return CopyRectangle(dst, dst_pitch, src, src_pitch, width, height, kind,
                       stream, false);
}

cudaError_t pinringMemcpy3D(const struct cudaMemcpy3DParms* copy) {
  return CopyBox(copy, nullptr, true);
}

cudaError_t pinringMemcpy3DAsync(const struct cudaMemcpy3DParms* copy,
                                 cudaStream_t stream) {
  return CopyBox(copy, stream, false);
}

cudaError_t pinringMemcpyPeer(void* dst, int dst_device, const void* src,
                              int src_device, size_t bytes) {
  return CopyPeerBytes(dst, dst_device, src, src_device, bytes, nullptr, true);
}

cudaError_t pinringMemcpyPeerAsync(void* dst, int dst_device, const void* src,
                                   int src_device, size_t bytes,
                                   cudaStream_t stream) {
  return CopyPeerBytes(dst, dst_device, src, src_device, bytes, stream, false);
}

cudaError_t pinringMemcpy3DPeer(const struct cudaMemcpy3DPeerParms* copy) {
  return CopyPeerBox(copy, nullptr, true);
}

cudaError_t pinringMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms* copy,
                                     cudaStream_t stream) {
  return CopyPeerBox(copy, stream, false);
}

cudaError_t pinringMemcpy2DToArray(cudaArray_t dst, size_t x, size_t y,
                                   const void* src, size_t src_pitch,
                                   size_t width, size_t height,
                                   enum cudaMemcpyKind kind) {
  return CopyArrayRows(dst, x, y, nullptr, src, src_pitch, width, height, kind,
                       nullptr, true);
}

cudaError_t pinringMemcpy2DToArrayAsync(cudaArray_t dst, size_t x, size_t y,
                                        const void* src, size_t src_pitch,
                                        size_t width, size_t height,
                                        enum cudaMemcpyKind kind,
                                        cudaStream_t stream) {
  return CopyArrayRows(dst, x, y, nullptr, src, src_pitch, width, height, kind,
                       stream, false);
}

cudaError_t pinringMemcpy2DFromArray(void* dst, size_t dst_pitch,
                                     cudaArray_const_t src, size_t x, size_t y,
                                     size_t width, size_t height,
                                     enum cudaMemcpyKind kind) {
  return CopyArrayRows(src, x, y, dst, nullptr, dst_pitch, width, height, kind,
                       nullptr, true);
}

cudaError_t pinringMemcpy2DFromArrayAsync(void* dst, size_t dst_pitch,
                                          cudaArray_const_t src, size_t x,
                                          size_t y, size_t width, size_t height,
                                          enum cudaMemcpyKind kind,
                                          cudaStream_t stream) {
  return CopyArrayRows(src, x, y, dst, nullptr, dst_pitch, width, height, kind,
                       stream, false);
}

cudaError_t pinringMemset(void* dst, int value, size_t bytes) {
  return FillBytes(dst, value, bytes, nullptr, true);
}

cudaError_t pinringMemsetAsync(void* dst, int value, size_t bytes,
                               cudaStream_t stream) {
  return FillBytes(dst, value, bytes, stream, false);
}

cudaError_t pinringMemset2D(void* dst, size_t pitch, int value, size_t width,
                            size_t height) {
  return FillBox({dst, pitch, width, height}, value, {width, height, 1},
                 nullptr, true);
}

cudaError_t pinringMemset2DAsync(void* dst, size_t pitch, int value,
                                 size_t width, size_t height,
                                 cudaStream_t stream) {
  return FillBox({dst, pitch, width, height}, value, {width, height, 1}, stream,
                 false);
}

cudaError_t pinringMemset3D(struct cudaPitchedPtr dst, int value,
                            struct cudaExtent extent) {
  return FillBox(dst, value, extent, nullptr, true);
}

cudaError_t pinringMemset3DAsync(struct cudaPitchedPtr dst, int value,
                                 struct cudaExtent extent,
                                 cudaStream_t stream) {
  return FillBox(dst, value, extent, stream, false);
}

cudaError_t pinringCopyAsync(void* dst, const void* src, size_t bytes,
                             enum cudaMemcpyKind kind,
                             enum pinringAccess access, cudaStream_t stream) {
  return WithAccess(access, [&](pinring::HostAccess host_access) {
    return CopyPageable(dst, src, bytes, kind, host_access, stream, false);
  });
}

cudaError_t pinringCopy3DAsync(const struct cudaMemcpy3DParms* copy,
                               enum pinringAccess access, cudaStream_t stream) {
  return WithAccess(access, [&](pinring::HostAccess host_access) {
    return WithBox(copy, [&](Instance& instance, Instance::Copy& described) {
      described.stream = stream;
      described.access = host_access;
      return instance.CopyPageable(described);
    });
  });
}

cudaError_t pinringCopy(void* dst, const void* src, size_t bytes,
                        enum cudaMemcpyKind kind, cudaStream_t stream) {
  return CopyPageable(dst, src, bytes, kind,
                      pinring::HostAccess::kInStreamOrder, stream, true);
}

cudaError_t pinringPointerGetAttributes(
    struct cudaPointerAttributes* attributes, const void* pointer) {
  return WithOwner(pointer, [&](Instance& instance) {
    return instance.PointerGetAttributes(attributes, pointer);
  });
}

cudaError_t pinringHostGetDevicePointer(void** device_pointer, void* pointer,
                                        unsigned int flags) {
  return WithOwner(pointer, [&](Instance& instance) {
    return instance.HostGetDevicePointer(device_pointer, pointer, flags);
  });
}

cudaError_t pinringHostGetFlags(unsigned int* flags, void* pointer) {
  return WithOwner(pointer, [&](Instance& instance) {
    return instance.HostGetFlags(flags, pointer);
  });
}

cudaError_t pinringStreamBeginCapture(cudaStream_t stream,
                                      enum cudaStreamCaptureMode mode) {
  const auto number = Number(mode);
  if (number < cudaStreamCaptureModeGlobal ||
      number > cudaStreamCaptureModeRelaxed) {
    return LastError::Keep(cudaErrorInvalidValue,
                           "the mode is none of cudaStreamCaptureMode");
  }
  return WithDefault([&](Instance& instance) {
    return instance.StreamBeginCapture(
        stream, static_cast<CUstreamCaptureMode>(number));
  });
}

cudaError_t pinringStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return WithDefault([&](Instance& instance) {
    return instance.StreamEndCapture(stream, graph);
  });
}

cudaError_t pinringGraphInstantiate(cudaGraphExec_t* executable,
                                    cudaGraph_t graph,
                                    unsigned long long flags) {
  return WithDefault([&](Instance& instance) {
    return instance.GraphInstantiate(executable, graph, flags);
  });
}

cudaError_t pinringGraphLaunch(cudaGraphExec_t executable,
                               cudaStream_t stream) {
  return WithDefault([&](Instance& instance) {
    return instance.GraphLaunch(executable, stream);
  });
}

cudaError_t pinringGraphExecDestroy(cudaGraphExec_t executable) {
  return WithDefault([&](Instance& instance) {
    return instance.GraphExecDestroy(executable);
  });
}

cudaError_t pinringGraphPromote(cudaGraph_t graph) {
  return WithDefault(
      [&](Instance& instance) { return instance.GraphPromote(graph); });
}

cudaError_t pinringGraphPrepareUpdate(cudaGraphExec_t executable,
                                      cudaGraph_t graph) {
  return WithDefault([&](Instance& instance) {
    return instance.GraphPrepareUpdate(executable, graph);
  });
}

cudaError_t pinringGraphExecNode(cudaGraphExec_t executable,
                                 cudaGraphNode_t node, cudaGraphNode_t* found) {
  return WithDefault([&](Instance& instance) -> absl::Status {
    if (found == nullptr) return InvalidValue("the place for the node is null");
    const auto known = instance.GraphExecNode(executable, node);
    if (!known.ok()) return known.status();
    *found = *known;
    return absl::OkStatus();
  });
}

enum pinringBlockKind pinringGetBlockKind(const void* pointer) {
  const pinring::Block* block = pinring::Blocks().Find(pointer);
  if (block == nullptr) return pinringBlockNone;
  return block->kind() == pinring::BlockKind::kStaged ? pinringBlockStaged
                                                      : pinringBlockPinned;
}

cudaError_t pinringPromote(void* pointer) {
  return WithOwner(
      pointer, [&](Instance& instance) { return instance.Promote(pointer); });
}

cudaError_t pinringSetDevice(int device) {
  return WithInstance(
      [&](Instance& instance) { return instance.SetDevice(device); });
}

cudaError_t pinringInstanceCreate(pinringInstance_t* instance,
                                  const char* settings) {
  return Guarded([&]() -> absl::Status {
    if (instance == nullptr) return InvalidValue("a null pointer");
    if (settings == nullptr) return InvalidValue("the settings are null");
    const auto made = pinring::CreateInstance(settings);
    if (made.ok()) *instance = Handle(*made);
    return made.status();
  });
}

cudaError_t pinringInstanceDestroy(pinringInstance_t instance) {
  return Guarded(
      [&] { return pinring::DestroyInstance(FromHandle(instance)); });
}

cudaError_t pinringPushInstance(pinringInstance_t instance) {
  return Guarded([&]() -> absl::Status {
    if (instance != nullptr && !pinring::InstanceExists(FromHandle(instance))) {
      return pinring::CudaStatus(CUDA_ERROR_INVALID_HANDLE,
                                 "no instance that pinringInstanceCreate made");
    }
    return pinring::PushInstance(FromHandle(instance));
  });
}

cudaError_t pinringPopInstance(void) {
  return Guarded([] { return pinring::PopInstance(); });
}

cudaError_t pinringPushCategory(const char* name) {
  return WithInstance([&](Instance& instance) {
    if (name == nullptr) return InvalidValue("the category's name is null");
    return instance.PushCategory(name);
  });
}

cudaError_t pinringPopCategory(void) {
  return WithInstance(
      [](Instance& instance) { return instance.PopCategory(); });
}

cudaError_t pinringSetCategoryLimit(const char* name, uint64_t soft_bytes,
                                    uint64_t hard_bytes) {
  return WithInstance([&](Instance& instance) {
    if (name == nullptr) return InvalidValue("the category's name is null");
    return instance.SetCategoryLimits(name, {soft_bytes, hard_bytes});
  });
}

cudaError_t pinringMarkUsage(void) {
  return WithInstance([](Instance& instance) {
    instance.MarkUsage();
    return absl::OkStatus();
  });
}

cudaError_t pinringGetUsage(pinringUsage* usage) {
  return WithInstance([&](Instance& instance) {
    return pinring::FillUsage(instance.Usage(), usage);
  });
}

cudaError_t pinringPrintUsage(void) {
  return WithInstance([](Instance& instance) {
    pinring::os::WriteErrorLine(
        absl::StripSuffix(pinring::FormatUsageText(instance.Usage()), "\n"));
    return absl::OkStatus();
  });
}

cudaError_t pinringFormatUsage(int format, char* buffer, size_t buffer_bytes,
                               size_t* needed_bytes) {
  return WithInstance([&](Instance& instance) {
    if (buffer == nullptr && buffer_bytes > 0) {
      return InvalidValue("the buffer is null");
    }
    std::string text;
    switch (format) {
      case pinringUsageText:
        text = pinring::FormatUsageText(instance.Usage());
        break;
      case pinringUsageJson:
        text = pinring::FormatUsageJson(instance.Usage());
        break;
      case pinringUsagePrometheus:
        text = pinring::FormatUsagePrometheus(instance.Usage());
        break;
      default:
        return InvalidValue(
            "the format is none of text (0), JSON (1) and Prometheus (2)");
    }
    if (needed_bytes != nullptr) *needed_bytes = text.size() + 1;
    if (buffer_bytes > 0) {
      const size_t bytes = std::min(text.size(), buffer_bytes - 1);
      std::memcpy(buffer, text.data(), bytes);
      buffer[bytes] = '\0';
    }
    return absl::OkStatus();
  });
}

cudaError_t pinringConfigure(const char* settings) {
  return Guarded([&] {
    if (settings == nullptr) return InvalidValue("the settings are null");
    return pinring::ConfigureDefaultInstance(settings);
  });
}

cudaError_t pinringSetLogger(pinringLogger_t logger, void* user) {
  return Guarded([&] {
    struct Program {
      pinringLogger_t logger;
      void* user;
    };
    if (logger == nullptr) {
      pinring::os::SetLineSink({});
      return absl::OkStatus();
    }
    // Lives as long as the process: another thread may be in it.
    auto* program = new Program{logger, user};
    pinring::os::SetLineSink({[](void* self, absl::string_view line) {
                                const auto* to = static_cast<Program*>(self);
                                // A zero byte behind it, for loggers that want
                                // one.
                                const std::string text(line);
                                to->logger(to->user, text.c_str(), text.size());
                              },
                              program});
    return absl::OkStatus();
  });
}

cudaError_t pinringGetVersion(int* version) {
  return Guarded([&] {
    if (version == nullptr) return InvalidValue("a null pointer");
    *version = PINRING_VERSION;
    return absl::OkStatus();
  });
}

cudaError_t pinringGetLastError(void) { return LastError::Take(); }

cudaError_t pinringPeekAtLastError(void) { return LastError::Peek(); }

const char* pinringGetLastErrorMessage(void) { return LastError::Message(); }

}  // extern "C"
