// The driver API over simulated devices: every entry point's meaning, in one
// thread's words. How calls wait, and who lets the devices run, is the
// Environment's business (machine.cc).
//
// The context lock. Calls that change what the context has or enqueue launches
// and copies take it; memory operations, events, queries and attributes do not.
// These hold it while they wait for all work enqueued so far: freeing device
// memory, freeing or unregistering host memory, host-to-host copies, unloading
// a module, the first launch of a lazily loaded kernel. A call that finds its
// hardware queue full waits without it: calls that go to other queues return
// (measured for launches and copies both ways).
//
// Externally synchronized: one call, one device step or one look at it at a
// time; a call that waits lets others in.

#ifndef PINRING_SRC_SIMCUDA_MODEL_H_
#define PINRING_SRC_SIMCUDA_MODEL_H_

#include <cuda.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "src/driver/driver.h"
#include "src/simcuda/capture.h"
#include "src/simcuda/device.h"
#include "src/simcuda/extra_functions.h"
#include "src/simcuda/handles.h"
#include "src/simcuda/machine.h"
#include "src/simcuda/memory.h"
#include "src/simcuda/op.h"
#include "src/simcuda/shape.h"

namespace pinring::simcuda {

class Environment {
 public:
  virtual ~Environment() = default;
  // Lets others run until ready(). False: it gave up, as ready can never come
  // true or the run has ended.
  virtual bool Wait(std::string_view why, absl::FunctionRef<bool()> ready) = 0;
};

// The primary context of a device, and the device.
struct Context {
  Context(const MachineOptions& options, int device_ordinal)
      : ordinal(device_ordinal), device(options, device_ordinal) {}

  const int ordinal;
  Device device;
  bool active = false;
  int retained = 0;
  unsigned flags = 0;  // how callers wait: kept, and told
  uint64_t generation =
      0;  // counts activations: what belongs to an earlier one is gone
  uint64_t id = 0;
  CUresult error = CUDA_SUCCESS;  // sticky
  const char* lock_holder =
      nullptr;  // the entry point that holds the context lock
  StreamRef legacy;
  std::map<uint64_t, StreamRef> per_thread;  // by thread number
};

// A thread's contexts; the last one is current, and may be null. Without a
// destructor: a program's static ones may make calls when the thread's are
// over.
class ContextStack {
 public:
  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == contexts_.size(); }
  Context* back() const { return contexts_[size_ - 1]; }
  void push_back(Context* context) { contexts_[size_++] = context; }
  void pop_back() { --size_; }

 private:
  std::array<Context*, 128> contexts_ = {};
  size_t size_ = 0;
};

// What belongs to a calling thread (in scheduled mode, a caller).
struct ThreadState {
  uint64_t machine = 0;
  uint64_t caller = 0;
  uint64_t number = 0;  // unique in the process
  ContextStack current;
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
};

class Model {
 public:
  Model(const MachineOptions& options, uint64_t machine_number,
        Environment* environment);
  ~Model();

#define PINRING_SIMCUDA_METHOD(field, symbol, version, need, parameters) \
  CUresult field parameters;
  PINRING_SIMCUDA_FUNCTIONS(PINRING_SIMCUDA_METHOD)
#undef PINRING_SIMCUDA_METHOD

  bool initialized() const { return initialized_; }
  void RegisterKernel(RegisteredKernel kernel);
  // The current context answers `code` from now on, and its work never runs.
  void BreakContext(CUresult code);
  void AddHazard(std::string hazard);

  // For whoever lets the devices run.
  std::vector<std::unique_ptr<Context>>& contexts() { return contexts_; }
  const std::vector<std::unique_ptr<Context>>& contexts() const {
    return contexts_;
  }
  std::deque<OpRef>& host_functions() {
    return *host_functions_;
  }  // handed over, in the order in which they run
  // Counts what can make an idle device run.
  uint64_t version() const { return version_; }
  void NoteChange() { ++version_; }

  const std::vector<std::string>& hazards() const { return hazards_; }
  const MemoryMap& memory() const { return memory_; }
  std::string Describe() const;

 private:
  struct Target {
    Context* context = nullptr;
    StreamRef stream;
  };
  struct Module {
    Context* context = nullptr;
    uint64_t generation = 0;
    bool lazy = true;
    std::map<std::string, CUfunction, std::less<>> functions;
  };
  struct Function {
    Context* context = nullptr;
    uint64_t generation = 0;
    bool lazy = true;
    bool launched = false;
    std::shared_ptr<const RegisteredKernel> kernel;
  };
  // Holds the context lock from Acquire on.
  class Lock {
   public:
    Lock() = default;
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    ~Lock() { Release(); }
    CUresult Acquire(Model& model, Context& context, const char* entry);
    void Release();
    bool held() const { return context_ != nullptr; }

   private:
    Context* context_ = nullptr;
  };
  struct Array {
    const Context* context = nullptr;
    uint64_t generation = 0;  // of the context
    CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
    size_t element_bytes = 0;
    char* memory = nullptr;
    Shape shape;
    Strides strides;
  };
  struct CopyEnd {
    char* at = nullptr;  // the first byte
    Strides strides;
    bool must_be_known = false;  // pageable memory is an error
    enum { kPageable, kPinned, kDevice } memory = kPageable;  // once located
  };
  struct CopyRequest {
    Shape shape;
    CopyEnd dst;
    CopyEnd src;
    bool on_host() const {
      return dst.memory != CopyEnd::kDevice && src.memory != CopyEnd::kDevice;
    }
    bool on_device() const {
      return dst.memory == CopyEnd::kDevice && src.memory == CopyEnd::kDevice;
    }
  };
  // One end of a 2D or 3D copy as a program describes it.
  struct Operand {
    CUmemorytype type;
    const void* host;
    CUdeviceptr device;
    CUarray array;
    size_t x, y, z;
    size_t pitch, height;
  };

  // model.cc: contexts, waiting, enqueueing.
  ThreadState& Thread();
  CUresult Current(Context** context);
  CUresult Check(const Context& context) const;
  CUresult CheckHandle(CUcontext handle) const;
  CUresult Resolve(CUstream handle, Target* target);
  CUresult WaitFor(Context& context, const char* entry, const char* why,
                   absl::FunctionRef<bool()> ready);
  CUresult WaitForOp(Context& context, const char* entry, const OpRef& op);
  // All work enqueued so far, on this device or on all.
  CUresult WaitForWork(Context& context, const char* entry, bool all_devices);
  // Returns when the operation can be enqueued, or recorded. A lock that is
  // held is let go while it waits for room, and held again afterwards.
  CUresult AwaitRoom(const char* entry, const Target& target, const Op& op,
                     Lock& lock);
  // Enqueues, or records in the stream's capture; waits for room.
  CUresult Submit(const char* entry, const Target& target, const OpRef& op,
                  Lock& lock);
  // The same under the lock; under launch blocking it returns when the
  // operation is done.
  CUresult Launch(const char* entry, const Target& target, const OpRef& op,
                  bool can_block);
  std::vector<OpRef> LatestOps(const Target& target)
      const;  // that synchronizing with the stream waits for
  void ResetContext(Context& context);
  StreamRef NewStream(Context& context, StreamType type, unsigned flags,
                      int priority);

  // model_capture.cc.
  CUresult Record(const Target& target, const OpRef& op);
  CUresult JoinCapture(const Target& target, const Event& event);
  CUresult CheckUnsafe();
  CUresult CheckImplicit(const Target& target);
  CUresult CheckNotCapturing(const Target& target);
  CUresult CheckPeerCapture(CUstream stream);
  bool HasImplicitCapture(const Context& context) const;
  void DropCaptures(Context& context);
  void EndCaptureOf(const std::shared_ptr<Capture>& capture);

  // model_graph.cc.
  struct OwnedUserObject {
    std::shared_ptr<UserObject> object;
    unsigned references = 0;  // of the program's own
  };
  std::shared_ptr<Graph> NewGraph();
  GraphNode* AddNode(Graph& graph, OpRef op, std::shared_ptr<Graph> child);
  std::shared_ptr<Graph> CloneGraph(const Graph& graph);
  void ForgetGraph(Graph& graph);
  void ForgetNode(const GraphNode& node);
  CUresult FindNodes(const CUgraphNode* handles, size_t count,
                     const Graph& graph, std::vector<GraphNode*>* nodes);
  void DescribeCopy(const Op& op, CUDA_MEMCPY3D* copy) const;

  // model_memory.cc.
  CUresult AllocateDevice(const char* entry, size_t bytes,
                          CUdeviceptr* pointer);
  CUresult Pin(const char* entry, size_t bytes, Context* context,
               absl::FunctionRef<const Block*()> pin);
  CUresult Unpin(const char* entry, void* pointer, MemoryKind kind);
  CUresult FreeBlock(const char* entry, Context& context, const Block* block);
  bool ReportUse(const char* entry, const Block& block);
  void GetAttribute(CUpointer_attribute attribute, void* value,
                    CUdeviceptr pointer, const Block* block);

  // model_copy.cc.
  static CopyRequest Linear(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
                            bool dst_must_be_known, bool src_must_be_known);
  CUresult LocateEnd(const Shape& shape, CopyEnd* end);
  CUresult Locate(CopyRequest* request);
  OpRef MakeCopy(const CopyRequest& request);
  void ReadSource(Op& op);
  CUresult Copy(const char* entry, CopyRequest request);
  CUresult CopyAsync(const char* entry, CopyRequest request, CUstream stream);
  CUresult CopyHostToHost(const char* entry, Context& context,
                          const CopyRequest& request);

  // model_shapes.cc.
  CUresult MakeEnd(const Operand& operand, const Shape& shape, CopyEnd* end);
  CUresult MakeRequest(const CUDA_MEMCPY2D* copy, CopyRequest* request);
  CUresult MakeRequest(const CUDA_MEMCPY3D* copy, CopyRequest* request);
  CUresult MakeRequest(const CUDA_MEMCPY3D_PEER* copy, CopyRequest* request);
  // model_batch.cc; no headers before CUDA 12.8 know the structure.
  CUresult MakeRequest(const CUDA_MEMCPY3D_BATCH_OP_st& box,
                       CopyRequest* request);

  // model_array.cc.
  CUresult FindArray(CUarray handle, const Array** array);
  CUresult MakeRowEnd(CUarray array, size_t offset, size_t bytes, CopyEnd* end);

  // model_batch.cc.
  CUresult CopyBatch(const CUdeviceptr* dsts, const CUdeviceptr* srcs,
                     const size_t* sizes, size_t count,
                     const CUmemcpyAttributes_st* attributes,
                     const size_t* attribute_indices, size_t attribute_count,
                     CUstream stream, size_t* failed);
  CUresult CopyBoxes(size_t count, const CUDA_MEMCPY3D_BATCH_OP_st* boxes,
                     unsigned long long flags, CUstream stream, size_t* failed);
  struct BatchCopy {
    CopyRequest request;
    bool during_call = false;
  };
  CUresult SubmitBatch(const char* entry, const Target& target,
                       const std::vector<BatchCopy>& copies);

  // model_memset.cc. Width in elements.
  struct Fill {
    CUdeviceptr dst;
    size_t pitch;
    unsigned value;
    size_t element_bytes;
    size_t width;
    size_t height;
  };
  CUresult MakeMemset(const Fill& fill, OpRef* op);
  CUresult Memset(const char* entry, const Fill& fill);
  CUresult MemsetAsync(const char* entry, const Fill& fill, CUstream stream);

  // model_launch.cc.
  CUresult MakeMemoryOperation(bool wait, CUdeviceptr address, uint32_t value,
                               unsigned flags, MemoryOperation* op);
  CUresult SubmitMemoryOperations(const char* entry, CUstream stream,
                                  std::vector<MemoryOperation> operations);

  const MachineOptions& options_;
  const uint64_t machine_number_;
  Environment* const environment_;
  bool initialized_ = false;
  std::vector<std::unique_ptr<Context>> contexts_;
  MemoryMap memory_;
  std::map<std::string, std::shared_ptr<const RegisteredKernel>, std::less<>>
      kernels_;
  HandleTable<CUstream, StreamRef> streams_;
  HandleTable<CUevent, std::shared_ptr<Event>> events_;
  HandleTable<CUmodule, Module> modules_;
  HandleTable<CUfunction, Function> functions_;
  HandleTable<CUarray, Array> arrays_;
  HandleTable<CUgraph, std::shared_ptr<Graph>> graphs_;
  HandleTable<CUgraphNode, GraphNode*> nodes_;
  HandleTable<CUuserObject, OwnedUserObject> user_objects_;
  HandleTable<CUgraphExec, std::shared_ptr<GraphExec>> execs_;
  std::vector<std::shared_ptr<Capture>> captures_;
  const std::shared_ptr<std::deque<OpRef>> host_functions_ =
      std::make_shared<std::deque<OpRef>>();
  std::vector<std::string> hazards_;
  bool pinning_refused_ = false;  // WDDM: once, and so for ever
  uint64_t next_stream_id_ = 1;
  uint64_t next_context_id_ = 1;
  uint64_t next_capture_id_ = 1;
  uint64_t version_ = 0;
};

// Returns early with the code of `expression` unless it is success.
#define PINRING_SIMCUDA_TRY(expression)                                     \
  if (const CUresult try_result = (expression); try_result != CUDA_SUCCESS) \
  return try_result

}  // namespace pinring::simcuda

#endif  // PINRING_SRC_SIMCUDA_MODEL_H_
