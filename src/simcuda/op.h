// One operation of a stream, as the simulated device sees it, and what it does
// when it runs.
//
// An operation's life: made by a call; queued, in its stream and its hardware
// queue (here it belongs to the Device and is guarded as that is); taken by the
// device for one step at a time, when only Perform touches its work; done or
// dropped. A recorded operation of a graph is never run itself, only its copies
// are.

#ifndef PINRING_SRC_SIMCUDA_OP_H_
#define PINRING_SRC_SIMCUDA_OP_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/simcuda/machine.h"
#include "src/simcuda/shape.h"

namespace pinring::simcuda {

struct HardwareQueue;
struct Op;
struct Stream;
using OpRef = std::shared_ptr<Op>;
using StreamRef = std::shared_ptr<Stream>;

enum class OpKind {
  kCopy,
  kMemset,
  kKernel,
  kMemoryOperations,
  kHostFunction,
  kEventRecord,
  kEventWait,  // nothing but its dependence on the recording
};

// Which kind of hardware queue an operation goes through.
enum class Route {
  kCompute,
  kHostToDevice,
  kDeviceToHost,
  kLatest,  // that of the stream's operation before
  kNone,
};

struct RegisteredKernel {
  std::string name;
  std::vector<size_t> parameter_bytes;
  KernelFunction function;
};

// 32-bit wait or write.
struct MemoryOperation {
  bool wait = false;
  uint32_t* address = nullptr;
  uint32_t value = 0;
  unsigned flags = 0;

  bool Satisfied() const;  // for waits
  void Write() const;
};

struct Op {
  OpKind kind = OpKind::kEventWait;
  Route route = Route::kNone;

  // Queued.
  uint64_t number = 0;  // in the order of enqueueing, over the device
  StreamRef stream;
  HardwareQueue* queue = nullptr;
  size_t entries = 1;  // in the hardware queue
  std::vector<OpRef>
      after;              // besides those before it in the stream and the queue
  bool submitted = true;  // WDDM: has left the driver's batch
  bool busy = false;      // in Perform, or with the host-function thread
  bool done = false;
  bool dropped = false;  // its context was lost; it is done too

  // Copies and memsets. The pointers are to the first byte.
  char* dst = nullptr;
  const char* src = nullptr;
  Shape shape;
  Strides dst_strides;
  Strides src_strides;
  size_t bytes = 0;  // those of the shape
  size_t step_bytes = 0;
  size_t step_rows = 1;
  size_t moved = 0;
  uint64_t checksum = 0;  // of the pieces moved
  bool dst_is_host = false;
  std::shared_ptr<std::vector<char>>
      staging;  // what src points to, when the driver has read the source
  unsigned char fill[4] = {};  // over and over, from the start of each row
  bool check_hazards = false;

  // Kernels.
  std::shared_ptr<const RegisteredKernel> kernel;
  std::vector<std::vector<char>> parameters;
  uint64_t polled_epoch =
      ~uint64_t{0};  // when its callback last said that it still runs

  std::vector<MemoryOperation> memory_operations;
  size_t next_memory_operation = 0;

  CUhostFn host_function = nullptr;
  void* user_data = nullptr;
  // What user_data points to, if not theirs; of a graph's last operation, what
  // the graph holds while it runs.
  std::shared_ptr<void> owned_data;

  // A fresh one that does the same.
  OpRef Clone() const;
  bool Touches(const char* base, size_t length) const;
};

const char* Name(OpKind kind);

struct Performed {
  bool done = false;
  bool fruitless = false;
  std::string hazard = {};
};

// Does all of a copy that is not queued.
void PerformWhole(Op& copy);

// Does one step of a queued operation's work (not of host functions). Touches
// its work and the program's memory only.
Performed Perform(Op& op);

// Whether this thread is inside a callback of the machine's: a kernel or a host
// function.
bool InCallback();
class CallbackMark {
 public:
  CallbackMark();
  ~CallbackMark();
};

}  // namespace pinring::simcuda

#endif  // PINRING_SRC_SIMCUDA_OP_H_
