// What each row of the table does. A handler's Run gets the driver's function
// and the program's arguments; one that finds no block in them calls it with
// those.

#ifndef PINRING_SRC_PRELOAD_HANDLERS_H_
#define PINRING_SRC_PRELOAD_HANDLERS_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "src/driver/driver.h"
#include "src/preload/launch.h"
#include "src/preload/staging.h"

namespace pinring::preload {

// The stream of a call that names none, and of one that names `stream`.
template <typename Row>
CUstream DefaultStream() {
  return Row::kPerThread ? CU_STREAM_PER_THREAD : nullptr;
}
template <typename Row>
CUstream Stream(CUstream stream) {
  return stream == nullptr ? DefaultStream<Row>() : stream;
}

// --- Allocation, free, queries ---------------------------------------------

struct HostAlloc {
  template <typename Row, typename Function>
  static CUresult Run(Function real, void** pointer, size_t bytes,
                      unsigned flags) {
    const auto answer = Allocate(pointer, bytes, flags);
    return answer.has_value() ? *answer : real(pointer, bytes, flags);
  }
};

struct AllocHost {
  template <typename Row, typename Function, typename Size>
  static CUresult Run(Function real, void** pointer, Size bytes) {
    const auto answer = Allocate(pointer, bytes, 0);
    return answer.has_value() ? *answer : real(pointer, bytes);
  }
};

struct FreeHost {
  template <typename Row, typename Function>
  static CUresult Run(Function real, void* pointer) {
    return FindBlock(pointer) != nullptr ? Free(pointer) : real(pointer);
  }
};

struct HostGetDevicePointer {
  template <typename Row, typename Function>
  static CUresult Run(Function real, CUdeviceptr* device_pointer, void* pointer,
                      unsigned flags) {
    if (device_pointer == nullptr || !IsStaged(pointer) || !HasContext()) {
      return real(device_pointer, pointer, flags);
    }
    return GetDevicePointer(device_pointer, pointer, flags);
  }
};

// Of what the driver pinned itself it knows whether it still is.
inline bool IsOurs(const Block* block) {
  return block != nullptr && block->kind() != BlockKind::kMappedPinned;
}

struct HostGetFlags {
  template <typename Row, typename Function>
  static CUresult Run(Function real, unsigned* flags, void* pointer) {
    return flags != nullptr && IsOurs(FindBlock(pointer))
               ? GetFlags(flags, pointer)
               : real(flags, pointer);
  }
};

struct HostRegister {
  template <typename Row, typename Function>
  static CUresult Run(Function real, void* pointer, size_t bytes,
                      unsigned flags) {
    if (bytes > 0 && IsOurs(Blocks().FindOverlap(
                         reinterpret_cast<uintptr_t>(pointer), bytes))) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return real(pointer, bytes, flags);
  }
};

struct HostUnregister {
  template <typename Row, typename Function>
  static CUresult Run(Function real, void* pointer) {
    return IsOurs(FindBlock(pointer)) ? CUDA_ERROR_INVALID_VALUE
                                      : real(pointer);
  }
};

// An address that nobody knows, to ask the driver what it says of such.
inline CUdeviceptr UnknownAddress() {
  static const char nobodys = 0;
  return reinterpret_cast<CUdeviceptr>(&nobodys);
}

// The address to ask the driver about in place of one in the pool of small
// blocks, parts of which are in no block.
inline CUdeviceptr AddressToAsk(CUdeviceptr pointer) {
  const Block* const block = FindBlock(Pointer(pointer));
  if (block == nullptr || block->kind() != BlockKind::kSmallArena) {
    return pointer;
  }
  const Instance* const owner = OwnerOf(Pointer(pointer));
  return owner == nullptr || owner->Describe(Pointer(pointer)).has_value()
             ? pointer
             : UnknownAddress();
}

// Whether the driver is to be asked about the address.
inline bool DriverKnows(CUdeviceptr pointer) {
  return !IsOurs(FindBlock(Pointer(pointer))) ||
         AddressToAsk(pointer) != pointer;
}

struct PointerGetAttribute {
  template <typename Row, typename Function>
  static CUresult Run(Function real, void* data, CUpointer_attribute attribute,
                      CUdeviceptr pointer) {
    if (data == nullptr || DriverKnows(pointer)) {
      return real(data, attribute, AddressToAsk(pointer));
    }
    const auto answer = GetAttribute(data, attribute, Pointer(pointer));
    if (answer.has_value()) return *answer;
    const CUresult code = PromoteFor(Row::kName, Pointer(pointer));
    return code != CUDA_SUCCESS ? code : real(data, attribute, pointer);
  }
};

struct PointerGetAttributes {
  template <typename Row, typename Function>
  static CUresult Run(Function real, unsigned count,
                      CUpointer_attribute* attributes, void** data,
                      CUdeviceptr pointer) {
    if (count == 0 || attributes == nullptr || data == nullptr ||
        DriverKnows(pointer)) {
      return real(count, attributes, data, AddressToAsk(pointer));
    }
    for (unsigned i = 0; i < count; ++i) {
      const auto answer =
          GetAttribute(data[i], attributes[i], Pointer(pointer));
      if (answer.has_value()) continue;
      CUresult code = PromoteFor(Row::kName, Pointer(pointer));
      if (code == CUDA_SUCCESS)
        code = real(1, attributes + i, data + i, pointer);
      if (code != CUDA_SUCCESS) return code;
    }
    return CUDA_SUCCESS;
  }
};

// --- Copies ----------------------------------------------------------------

// Whether the bytes reach beyond the small block that they begin in, which the
// driver does not see: for it the pool is one block.
inline bool ReachesBeyondSmallBlock(CUdeviceptr address, size_t bytes) {
  const Block* const block = FindBlock(Pointer(address));
  if (block == nullptr || block->kind() != BlockKind::kSmallArena) return false;
  const Instance* const owner = OwnerOf(Pointer(address));
  if (owner == nullptr) return false;
  const auto facts = owner->Describe(Pointer(address));
  return facts.has_value() &&
         bytes > facts->bytes - (uint64_t{address} - facts->base);
}

// A copy of bytes in one piece.
template <typename Row, typename Call>
CUresult CopyBytes(Call native, CUdeviceptr dst, CUdeviceptr src, size_t bytes,
                   cudaMemcpyKind kind, CUstream stream, bool wait) {
  if (bytes == 0) return native();
  if (ReachesBeyondSmallBlock(dst, bytes) ||
      ReachesBeyondSmallBlock(src, bytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if ((!IsStaged(Pointer(dst)) && !IsStaged(Pointer(src))) || !HasContext()) {
    return native();
  }
  return CopyStaged({.dst = reinterpret_cast<void*>(dst),
                     .src = Pointer(src),
                     .bytes = bytes,
                     .kind = kind,
                     .stream = stream,
                     .wait = wait});
}

inline CUdeviceptr Address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}
inline CUdeviceptr Address(CUdeviceptr pointer) { return pointer; }

template <cudaMemcpyKind kind>
struct CopyOf {
  template <typename Row, typename Function, typename Dst, typename Src>
  static CUresult Run(Function real, Dst dst, Src src, size_t bytes) {
    return CopyBytes<Row>([&] { return real(dst, src, bytes); }, Address(dst),
                          Address(src), bytes, kind, DefaultStream<Row>(),
                          true);
  }
};
template <cudaMemcpyKind kind>
struct CopyAsyncOf {
  template <typename Row, typename Function, typename Dst, typename Src>
  static CUresult Run(Function real, Dst dst, Src src, size_t bytes,
                      CUstream stream) {
    return CopyBytes<Row>([&] { return real(dst, src, bytes, stream); },
                          Address(dst), Address(src), bytes, kind,
                          Stream<Row>(stream), false);
  }
};
using Copy = CopyOf<cudaMemcpyDefault>;
using CopyAsync = CopyAsyncOf<cudaMemcpyDefault>;
using CopyToDevice = CopyOf<cudaMemcpyHostToDevice>;
using CopyToDeviceAsync = CopyAsyncOf<cudaMemcpyHostToDevice>;
using CopyToHost = CopyOf<cudaMemcpyDeviceToHost>;
using CopyToHostAsync = CopyAsyncOf<cudaMemcpyDeviceToHost>;
using CopyOnDevice = CopyOf<cudaMemcpyDeviceToDevice>;
using CopyOnDeviceAsync = CopyAsyncOf<cudaMemcpyDeviceToDevice>;

// --- What pins the blocks and goes to the driver ---------------------------

// An argument that is an address, or a pointer to a description that holds
// some.
template <typename Argument>
CUresult PromoteArgument(const char* function, Argument argument) {
  if constexpr (std::is_pointer_v<Argument>) {
    using Pointee = std::remove_pointer_t<Argument>;
    if constexpr (std::is_class_v<std::remove_cv_t<Pointee>> &&
                  std::is_const_v<Pointee>) {
      return PromoteWords(function, argument, sizeof(Pointee));
    } else if constexpr (std::is_void_v<Pointee>) {
      return PromoteFor(function, argument);
    }
  } else if constexpr (std::is_same_v<Argument, CUdeviceptr>) {
    return PromoteFor(function, Pointer(argument));
  }
  return CUDA_SUCCESS;
}

// All of them; stops at the first that cannot be pinned.
template <typename... Arguments>
CUresult PromoteEach(const char* function, Arguments... arguments) {
  if (!Blocks().MayHoldBlocks()) return CUDA_SUCCESS;
  CUresult code = CUDA_SUCCESS;
  (void)((code = PromoteArgument(function, arguments), code == CUDA_SUCCESS) &&
         ...);
  return code;
}

struct PromoteArguments {
  template <typename Row, typename Function, typename... Arguments>
  static CUresult Run(Function real, Arguments... arguments) {
    const CUresult code = PromoteEach(Row::kName, arguments...);
    return code != CUDA_SUCCESS ? code : real(arguments...);
  }
};

// --- Rows and boxes --------------------------------------------------------

// One end of a copy in the driver's words.
struct CopyEnd {
  CUmemorytype type = CU_MEMORYTYPE_UNIFIED;
  const void* host = nullptr;
  CUdeviceptr device = 0;
  CUarray array = nullptr;
  uint64_t x = 0;
  uint64_t y = 0;
  uint64_t z = 0;
  uint64_t pitch = 0;
  uint64_t height = 0;

  bool is_array() const { return type == CU_MEMORYTYPE_ARRAY; }
  // Where the memory that it is cut out of begins.
  const void* start() const {
    return type == CU_MEMORYTYPE_HOST ? host
           : is_array()               ? nullptr
                                      : Pointer(device);
  }
  // Where the first byte is.
  const void* first() const {
    const void* const begin = start();
    return begin == nullptr
               ? nullptr
               : static_cast<const char*>(begin) + (z * height + y) * pitch + x;
  }
};

struct RowsCopy {
  CopyEnd dst;
  CopyEnd src;
  uint64_t width = 0;
  uint64_t height = 0;
  uint64_t depth = 1;
  // Something that only the driver does.
  bool special = false;

  bool empty() const { return width == 0 || height == 0 || depth == 0; }
};

RowsCopy Describe(const CUDA_MEMCPY2D& copy);
RowsCopy Describe(const CUDA_MEMCPY3D& copy);

// Whether an end is in a staged block.
bool TouchesStaged(const RowsCopy& copy);
// Copies it, if pinring can; false if the driver has to.
bool CopyRowsStaged(const RowsCopy& copy, CUstream stream, bool wait,
                    CUresult* code);

template <typename Row, typename Call, typename Parameters>
CUresult CopyBox(Call native, const Parameters* parameters, CUstream stream,
                 bool wait) {
  if (parameters == nullptr || !Blocks().MayHoldBlocks()) return native();
  const RowsCopy copy = Describe(*parameters);
  if (copy.empty() || !TouchesStaged(copy) || !HasContext()) return native();
  CUresult code = CUDA_SUCCESS;
  if (CopyRowsStaged(copy, stream, wait, &code)) return code;
  code = PromoteEach(Row::kName, parameters);
  return code != CUDA_SUCCESS ? code : native();
}

struct CopyRows {
  template <typename Row, typename Function, typename Parameters>
  static CUresult Run(Function real, const Parameters* copy) {
    return CopyBox<Row>([&] { return real(copy); }, copy, DefaultStream<Row>(),
                        true);
  }
};
struct CopyRowsAsync {
  template <typename Row, typename Function, typename Parameters>
  static CUresult Run(Function real, const Parameters* copy, CUstream stream) {
    return CopyBox<Row>([&] { return real(copy, stream); }, copy,
                        Stream<Row>(stream), false);
  }
};

// --- Memsets ---------------------------------------------------------------

// Whether all bytes of the value are the same, as pinring fills bytes.
template <typename Value>
bool IsOneByte(Value value) {
  return value == static_cast<Value>(static_cast<unsigned char>(value) *
                                     (static_cast<Value>(~Value{0}) / 0xff));
}

template <typename Row, typename Call, typename Value>
CUresult FillBox(Call native, CUdeviceptr dst, size_t pitch, Value value,
                 size_t width, size_t height, CUstream stream, bool wait) {
  if (!IsStaged(Pointer(dst)) || !HasContext()) return native();
  const uint64_t bytes = uint64_t{width} * sizeof(Value);
  if (!IsOneByte(value) || dst % sizeof(Value) != 0 || width == 0 ||
      height == 0 || width > SIZE_MAX / sizeof(Value) ||
      (height > 1 && (pitch < bytes || pitch % sizeof(Value) != 0))) {
    const CUresult code = PromoteFor(Row::kName, Pointer(dst));
    return code != CUDA_SUCCESS ? code : native();
  }
  Instance::Fill fill;
  fill.dst = reinterpret_cast<void*>(dst);
  fill.value = static_cast<unsigned char>(value);
  fill.rows.width = bytes;
  fill.rows.height = height;
  fill.rows.dst = {pitch, 0};
  fill.stream = stream;
  fill.wait = wait;
  return FillStaged(fill);
}

struct Fill {
  template <typename Row, typename Function, typename Value>
  static CUresult Run(Function real, CUdeviceptr dst, Value value,
                      size_t count) {
    return FillBox<Row>([&] { return real(dst, value, count); }, dst, 0, value,
                        count, 1, DefaultStream<Row>(), true);
  }
};
struct FillAsync {
  template <typename Row, typename Function, typename Value>
  static CUresult Run(Function real, CUdeviceptr dst, Value value, size_t count,
                      CUstream stream) {
    return FillBox<Row>([&] { return real(dst, value, count, stream); }, dst, 0,
                        value, count, 1, Stream<Row>(stream), false);
  }
};
struct FillRows {
  template <typename Row, typename Function, typename Value>
  static CUresult Run(Function real, CUdeviceptr dst, size_t pitch, Value value,
                      size_t width, size_t height) {
    return FillBox<Row>([&] { return real(dst, pitch, value, width, height); },
                        dst, pitch, value, width, height, DefaultStream<Row>(),
                        true);
  }
};
struct FillRowsAsync {
  template <typename Row, typename Function, typename Value>
  static CUresult Run(Function real, CUdeviceptr dst, size_t pitch, Value value,
                      size_t width, size_t height, CUstream stream) {
    return FillBox<Row>(
        [&] { return real(dst, pitch, value, width, height, stream); }, dst,
        pitch, value, width, height, Stream<Row>(stream), false);
  }
};

// --- Batches ---------------------------------------------------------------

// Pins what the elements of an array hold.
template <typename Element>
CUresult PromoteArray(const char* function, const Element* elements,
                      size_t count) {
  if (!Blocks().MayHoldBlocks() || elements == nullptr) return CUDA_SUCCESS;
  return PromoteWords(function, elements, count * sizeof(Element));
}

#if CUDA_VERSION >= 12080
// Each copy in its turn: through the ring where an end is staged, by the driver
// where none is.
struct CopyBatch {
  // With and without a place for the index of the copy that failed.
  template <typename Row, typename Function>
  static CUresult Run(Function real, CUdeviceptr* dsts, CUdeviceptr* srcs,
                      size_t* sizes, size_t count,
                      CUmemcpyAttributes* attributes, size_t* indices,
                      size_t attribute_count, size_t* failed, CUstream stream) {
    return RunAll<Row>(
        [&](size_t first, size_t copies, CUmemcpyAttributes* of,
            size_t* indices_of, size_t attributes_of) {
          return real(dsts + first, srcs + first, sizes + first, copies, of,
                      indices_of, attributes_of, failed, stream);
        },
        dsts, srcs, sizes, count, attributes, indices, attribute_count, failed,
        stream);
  }
  template <typename Row, typename Function>
  static CUresult Run(Function real, CUdeviceptr* dsts, CUdeviceptr* srcs,
                      size_t* sizes, size_t count,
                      CUmemcpyAttributes* attributes, size_t* indices,
                      size_t attribute_count, CUstream stream) {
    return RunAll<Row>(
        [&](size_t first, size_t copies, CUmemcpyAttributes* of,
            size_t* indices_of, size_t attributes_of) {
          return real(dsts + first, srcs + first, sizes + first, copies, of,
                      indices_of, attributes_of, stream);
        },
        dsts, srcs, sizes, count, attributes, indices, attribute_count, nullptr,
        stream);
  }

 private:
  // What only the driver can judge or take: it gets the whole batch.
  static bool IsTheDrivers(size_t count, const CUmemcpyAttributes* attributes,
                           const size_t* indices, size_t attribute_count,
                           CUstream stream) {
    if (IsLegacyStream(stream) || IsCapturing(stream) || !HasContext() ||
        attributes == nullptr || indices == nullptr || attribute_count == 0 ||
        attribute_count > count || indices[0] != 0) {
      return true;
    }
    for (size_t i = 0; i < attribute_count; ++i) {
      if (attributes[i].srcAccessOrder < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
          attributes[i].srcAccessOrder > CU_MEMCPY_SRC_ACCESS_ORDER_ANY ||
          indices[i] >= count || (i > 0 && indices[i] <= indices[i - 1])) {
        return true;
      }
    }
    return false;
  }

  template <typename Row, typename Call>
  static CUresult RunAll(Call native, const CUdeviceptr* dsts,
                         const CUdeviceptr* srcs, const size_t* sizes,
                         size_t count, CUmemcpyAttributes* attributes,
                         size_t* indices, size_t attribute_count,
                         size_t* failed, CUstream stream) {
    const auto all = [&] {
      return native(0, count, attributes, indices, attribute_count);
    };
    if (!Blocks().MayHoldBlocks() || dsts == nullptr || srcs == nullptr ||
        sizes == nullptr) {
      return all();
    }
    bool staged = false;
    for (size_t i = 0; i < count && !staged; ++i) {
      staged = IsStaged(Pointer(dsts[i])) || IsStaged(Pointer(srcs[i]));
    }
    if (!staged) return all();
    if (IsTheDrivers(count, attributes, indices, attribute_count, stream)) {
      CUresult code = PromoteArray(Row::kName, dsts, count);
      if (code == CUDA_SUCCESS) code = PromoteArray(Row::kName, srcs, count);
      return code != CUDA_SUCCESS ? code : all();
    }
    size_t attribute = 0;
    for (size_t i = 0; i < count; ++i) {
      if (attribute + 1 < attribute_count && indices[attribute + 1] == i) {
        ++attribute;
      }
      size_t first_index = 0;
      const CUresult code =
          sizes[i] > 0 &&
                  (IsStaged(Pointer(dsts[i])) || IsStaged(Pointer(srcs[i])))
              ? CopyOfBatch(dsts[i], srcs[i], sizes[i], attributes[attribute],
                            stream)
              : native(i, 1, attributes + attribute, &first_index, 1);
      if (code != CUDA_SUCCESS) {
        if (failed != nullptr) *failed = i;
        return code;
      }
    }
    return CUDA_SUCCESS;
  }
};
#endif

#if CUDA_VERSION >= 12080
struct CopyWithAttributes {
  template <typename Row, typename Function>
  static CUresult Run(Function real, CUdeviceptr dst, CUdeviceptr src,
                      size_t bytes, CUmemcpyAttributes* attributes,
                      CUstream stream) {
    const auto native = [&] {
      return real(dst, src, bytes, attributes, stream);
    };
    if (bytes == 0 || (!IsStaged(Pointer(dst)) && !IsStaged(Pointer(src))) ||
        !HasContext()) {
      return native();
    }
    CUstream in = Stream<Row>(stream);
    if (attributes != nullptr &&
        attributes->srcAccessOrder >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
        attributes->srcAccessOrder <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY &&
        !IsLegacyStream(in) && !IsCapturing(in)) {
      return CopyOfBatch(dst, src, bytes, *attributes, in);
    }
    const CUresult code = PromoteEach(Row::kName, dst, src);
    return code != CUDA_SUCCESS ? code : native();
  }
};

struct BoxWithAttributes {
  template <typename Row, typename Function>
  static CUresult Run(Function real, CUDA_MEMCPY3D_BATCH_OP* box,
                      unsigned long long flags, CUstream stream) {
    const CUresult code = PromoteArray(Row::kName, box, 1);
    return code != CUDA_SUCCESS ? code : real(box, flags, stream);
  }
};
#endif

struct BoxBatch {
  template <typename Row, typename Function, typename Box, typename... Rest>
  static CUresult Run(Function real, size_t count, Box* boxes, Rest... rest) {
    const CUresult code = PromoteArray(Row::kName, boxes, count);
    return code != CUDA_SUCCESS ? code : real(count, boxes, rest...);
  }
};

struct Decompress {
  template <typename Row, typename Function, typename Item, typename... Rest>
  static CUresult Run(Function real, Item* items, size_t count, Rest... rest) {
    const CUresult code = PromoteArray(Row::kName, items, count);
    return code != CUDA_SUCCESS ? code : real(items, count, rest...);
  }
};

struct BatchMemOp {
  template <typename Row, typename Function>
  static CUresult Run(Function real, CUstream stream, unsigned count,
                      CUstreamBatchMemOpParams* operations, unsigned flags) {
    const CUresult code = PromoteArray(Row::kName, operations, count);
    return code != CUDA_SUCCESS ? code : real(stream, count, operations, flags);
  }
};

// --- Launches and nodes ----------------------------------------------------

struct Launch {
  template <typename Row, typename Function>
  static CUresult Run(Function real, CUfunction kernel, unsigned grid_x,
                      unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared,
                      CUstream stream, void** parameters, void** extra) {
    const CUresult code =
        PromoteKernelArguments(Row::kName, kernel, parameters, extra);
    return code != CUDA_SUCCESS
               ? code
               : real(kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                      shared, stream, parameters, extra);
  }
};
struct LaunchEx {
  template <typename Row, typename Function>
  static CUresult Run(Function real, const CUlaunchConfig* config,
                      CUfunction kernel, void** parameters, void** extra) {
    const CUresult code =
        PromoteKernelArguments(Row::kName, kernel, parameters, extra);
    return code != CUDA_SUCCESS ? code
                                : real(config, kernel, parameters, extra);
  }
};
struct LaunchCooperative {
  template <typename Row, typename Function>
  static CUresult Run(Function real, CUfunction kernel, unsigned grid_x,
                      unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared,
                      CUstream stream, void** parameters) {
    const CUresult code =
        PromoteKernelArguments(Row::kName, kernel, parameters, nullptr);
    return code != CUDA_SUCCESS
               ? code
               : real(kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                      shared, stream, parameters);
  }
};
struct LaunchMultiDevice {
  template <typename Row, typename Function>
  static CUresult Run(Function real, CUDA_LAUNCH_PARAMS* launches,
                      unsigned devices, unsigned flags) {
    for (unsigned i = 0; launches != nullptr && i < devices; ++i) {
      if (const CUresult code =
              PromoteKernelArguments(Row::kName, launches[i].function,
                                     launches[i].kernelParams, nullptr);
          code != CUDA_SUCCESS) {
        return code;
      }
    }
    return real(launches, devices, flags);
  }
};
struct ParamSetv {
  template <typename Row, typename Function>
  static CUresult Run(Function real, CUfunction kernel, int offset,
                      void* argument, unsigned bytes) {
    const CUresult code = PromoteWords(Row::kName, argument, bytes);
    return code != CUDA_SUCCESS ? code : real(kernel, offset, argument, bytes);
  }
};

// Handles that are gone may come back for other kernels.
struct UnloadCode {
  template <typename Row, typename Function, typename Handle>
  static CUresult Run(Function real, Handle handle) {
    const CUresult code = real(handle);
    ForgetKernels();
    return code;
  }
};

// A node names its kernel by a handle of either kind.
template <typename Node>
CUfunction KernelOf(const Node& node) {
  if constexpr (requires { node.kern; }) {
    if (node.func == nullptr) return reinterpret_cast<CUfunction>(node.kern);
  }
  return node.func;
}

// Nodes have their parameters last.

struct KernelNode {
  template <typename Row, typename Function, typename First, typename... Rest>
  static CUresult Run(Function real, First first, Rest... rest) {
    const CUresult code = PromoteLast(Row::kName, rest...);
    return code != CUDA_SUCCESS ? code : real(first, rest...);
  }

 private:
  template <typename Node>
  static CUresult PromoteLast(const char* function, const Node* node) {
    return node == nullptr
               ? CUDA_SUCCESS
               : PromoteKernelArguments(function, KernelOf(*node),
                                        node->kernelParams, node->extra);
  }
  template <typename Argument, typename... Rest>
  requires(sizeof...(Rest) > 0) static CUresult
      PromoteLast(const char* function, Argument, Rest... rest) {
    return PromoteLast(function, rest...);
  }
};

struct BatchMemOpNode {
  template <typename Row, typename Function, typename First, typename... Rest>
  static CUresult Run(Function real, First first, Rest... rest) {
    const CUresult code = PromoteLast(Row::kName, rest...);
    return code != CUDA_SUCCESS ? code : real(first, rest...);
  }

 private:
  static CUresult PromoteLast(const char* function,
                              const CUDA_BATCH_MEM_OP_NODE_PARAMS* node) {
    return node == nullptr
               ? CUDA_SUCCESS
               : PromoteArray(function, node->paramArray, node->count);
  }
  template <typename Argument, typename... Rest>
  requires(sizeof...(Rest) > 0) static CUresult
      PromoteLast(const char* function, Argument, Rest... rest) {
    return PromoteLast(function, rest...);
  }
};

#if CUDA_VERSION >= 12030
struct GraphNode {
  template <typename Row, typename Function, typename First, typename... Rest>
  static CUresult Run(Function real, First first, Rest... rest) {
    const CUresult code = PromoteLast(Row::kName, rest...);
    return code != CUDA_SUCCESS ? code : real(first, rest...);
  }

 private:
  static CUresult PromoteLast(const char* function,
                              const CUgraphNodeParams* node) {
    if (node == nullptr || !Blocks().MayHoldBlocks()) return CUDA_SUCCESS;
    switch (node->type) {
      case CU_GRAPH_NODE_TYPE_KERNEL:
        return PromoteKernelArguments(function, KernelOf(node->kernel),
                                      node->kernel.kernelParams,
                                      node->kernel.extra);
      case CU_GRAPH_NODE_TYPE_MEMCPY:
        return PromoteWords(function, &node->memcpy.copyParams,
                            sizeof(node->memcpy.copyParams));
      case CU_GRAPH_NODE_TYPE_MEMSET:
        return PromoteFor(function, Pointer(node->memset.dst));
      case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return PromoteArray(function, node->memOp.paramArray,
                            node->memOp.count);
      case CU_GRAPH_NODE_TYPE_HOST:
        return CUDA_SUCCESS;
      default:
        return PromoteWords(function, node, sizeof(*node));
    }
  }
  template <typename Argument, typename... Rest>
  requires(sizeof...(Rest) > 0) static CUresult
      PromoteLast(const char* function, Argument, Rest... rest) {
    return PromoteLast(function, rest...);
  }
};
#endif

// --- The driver's own look-up ----------------------------------------------

struct GetProcAddress {
  template <typename Row, typename Function, typename... Rest>
  static CUresult Run(Function real, const char* name, void** function,
                      int version, cuuint64_t flags, Rest... rest) {
    const CUresult code = real(name, function, version, flags, rest...);
    if (code == CUDA_SUCCESS && name != nullptr && function != nullptr &&
        *function != nullptr) {
      *function = EntryPoints::ForName(
          name, version,
          (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0,
          *function);
    }
    return code;
  }
};

}  // namespace pinring::preload

#endif  // PINRING_SRC_PRELOAD_HANDLERS_H_
