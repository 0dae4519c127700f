// What a fuzzed program is made of: typed operations on streams, events, gates,
// device buffers and host memory, and the machine and the options that it runs
// with. Plain values; how a string of bytes becomes one is decoder.h.

#ifndef PINRING_TESTS_FUZZ_OPERATION_H_
#define PINRING_TESTS_FUZZ_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/simcuda/machine.h"

namespace pinring::fuzz {

// How many there are of each; an operation names one by its index.
inline constexpr int kBlocks = 6;        // made by kAlloc
inline constexpr int kPlainBuffers = 2;  // pageable memory of the program's own
inline constexpr int kRegistrableBuffers =
    2;  // the same, page-aligned, for kRegister
inline constexpr int kDeviceBuffers = 4;  // device buffers, always there
inline constexpr int kArrays = 2;
inline constexpr int kEvents = 3;
inline constexpr int kGraphs = 2;
inline constexpr int kGates = 12;  // each is closed once and opened once
// Streams by index: the legacy one, the thread's, then those that are made.
inline constexpr int kLegacyStream = 0;
inline constexpr int kThreadStream = 1;
inline constexpr int kFirstMadeStream = 2;
inline constexpr int kStreams = 6;

inline constexpr size_t kPlainBytes[kPlainBuffers] = {5'003, 150'001};
inline constexpr size_t kRegistrableBytes[kRegistrableBuffers] = {4096, 40'960};
inline constexpr size_t kDeviceBytes[kDeviceBuffers] = {1'000, 30'011, 131'072,
                                                        300'000};

// Arrays of rows of elements.
inline constexpr size_t kElementBytes = 4;
inline constexpr size_t kArrayRowBytes[kArrays] = {400, 4096};
inline constexpr size_t kArrayRows[kArrays] = {50, 20};

enum class MemoryKind : uint8_t {
  kBlock,
  kPlain,
  kRegistrable,
  kDevice,
  kArray
};

struct Object {
  MemoryKind kind = MemoryKind::kBlock;
  int index = 0;

  friend bool operator==(const Object&, const Object&) = default;
};

enum class OpKind : uint8_t {
  // The library's.
  kAlloc,          // of `bytes` with `flags` as block `index`
  kFree,           // block `index`
  kFreeInvalid,    // of what `variant` says: refused
  kCopy,           // `copy`
  kMemset,         // of `object` from `offset` on; `variant`: synchronous
  kRegister,       // `variant`: all of registrable `index`, or over a block
  kUnregister,     // `variant`: registrable `index`, or a block
  kPromote,        // block `index`
  kDevicePointer,  // of block `index` at `offset`
  kAttributes,     // of `object` at `offset`, which may be its end
  kHostFlags,      // of block `index`
  kPushInstance,   // `variant`: which of two
  kPopInstance,
  // The driver's, in `stream`.
  kDeviceFill,        // device buffer `index`, all of it
  kHostFunctionFill,  // of `object`, from `offset` on, `bytes`
  kHostFunctionLook,
  kHold,  // until gate `index` is open
  kRecord,
  kWaitEvent,
  kEventSync,
  kEventPoll,  // until it is done
  kEventBusy,  // behind a closed gate: not ready
  kStreamSync,
  kStreamPoll,
  kStreamBusy,
  kDeviceSync,
  kStreamCreate,  // `variant`: blocking or not
  kStreamDestroy,
  kBeginCapture,  // `variant`: the mode, and 2 for the library's function
  kEndCapture,    // as graph `index`
  kLaunchGraph,
  kDropGraph,
  // The host's.
  kFill,   // the host writes `object` from `offset` on
  kLook,   // and reads it
  kAllow,  // gates `mask` may be opened from here on by another thread
};
const char* Name(OpKind kind);

enum class CopyForm : uint8_t {
  kFlat,
  kRows,
  kBox,
  kPageable,
  kPeer,         // bytes, said to be between devices
  kPeerBox,      // a box, the same
  kPageableBox,  // a box, accessed as `access` says
  kOfArray,      // rows, of an array at one end
};

struct CopyEnd {
  Object object = {};
  size_t offset = 0;  // in an array: bytes in its row
  size_t pitch = 0;   // from row to row
  size_t rows = 0;    // of a slice; in an array: the first row
};

struct Copy {
  CopyForm form = CopyForm::kFlat;
  CopyEnd dst = {};
  CopyEnd src = {};
  size_t width = 0;
  size_t height = 1;
  size_t depth = 1;
  int direction = 0;  // a cudaMemcpyKind, or none
  bool wait = false;
  int access = 1;        // pinringAccess, of kPageable and kPageableBox
  bool refused = false;  // reaches beyond an end, or no direction
};

// Whether it is of a box, and whether pageable memory takes the ring too.
bool IsBox(CopyForm form);
bool IsPageable(CopyForm form);
bool IsPeer(CopyForm form);

struct Operation {
  OpKind kind = OpKind::kLook;
  int index = 0;
  int stream = 0;
  int variant = 0;
  Object object = {};
  size_t offset = 0;
  size_t bytes = 0;
  unsigned flags = 0;
  uint32_t mask = 0;
  uint64_t seed = 0;  // of the bytes that are written
  Copy copy = {};
  // Set before the operation, cleared after it.
  std::vector<simcuda::Fault> faults = {};
};

struct Configuration {
  uint64_t schedule_seed = 1;
  simcuda::MachineOptions machine;
  std::string settings;  // of the first instance
  int movers = 2;
  // A copy of a block may wait for its stream, as pinning can be refused.
  bool copies_may_wait = false;
  // Pinning can be refused: out of memory where natively there is enough.
  bool limited = false;
  size_t pinned_limit_bytes = 0;
};

struct Program {
  Configuration configuration;
  std::vector<Operation> operations;

  // One operation a line, for people.
  std::string Describe() const;
};

std::string Describe(const Operation& operation);
const char* Name(MemoryKind kind);
// The size of memory that is no block.
size_t BytesOf(const Object& object);

}  // namespace pinring::fuzz

#endif  // PINRING_TESTS_FUZZ_OPERATION_H_
