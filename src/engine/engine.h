// The engine: copies between pageable and device memory, through the ring.
//
// A copy is enqueued whole on the program's own stream: per chunk a wait for a
// flag, the copy between slot and device, and a write that says so. Movers,
// threads of the engine that make no CUDA call, fill and drain the slots when
// the stream gets there. A synchronous copy is the same, with a caller that
// helps to move bytes and then waits.
//
// Thread-safe. The ring is made at the first copy; nothing is pinned before.
// Calls make CUDA calls on the calling thread, in the stream's context, never
// under a lock that a mover takes, and leave the current context as it was.
//
// Which layer does what: the caller (the host layer's owner) knows which
// addresses are staged blocks and what else can be done with one when the ring
// cannot take a copy: pin the block in place, or leave the copy to the driver's
// pageable path.

#ifndef PINRING_SRC_ENGINE_ENGINE_H_
#define PINRING_SRC_ENGINE_ENGINE_H_

#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "src/copy/kernels.h"
#include "src/copy/worker_pool.h"
#include "src/driver/driver.h"
#include "src/engine/copy_request.h"
#include "src/engine/core.h"
#include "src/engine/graph_nodes.h"
#include "src/engine/parking.h"
#include "src/engine/poll_turn.h"
#include "src/ring/division.h"
#include "src/ring/ring_memory.h"

namespace pinring {

struct EngineOptions {
  size_t ring_bytes = size_t{64} << 20;
  DivisionRules division;
  // 0: as many as the processors that the process may use deserve. Negative:
  // none, for scheduled tests, which step them.
  int movers = 0;
  copy::KernelSet kernels;
  size_t piece_bytes = size_t{512} << 10;
  // Sooner begun and sooner over than with whole chunks; see CoreOptions.
  size_t smallest_chunk_bytes = size_t{256} << 10;
  size_t hand_over_bytes = size_t{24} << 20;
  uint32_t lines = 2048;
  // Of the lines, so many at most are for copies in executable graphs: none
  // leaves graphs to the driver.
  uint32_t graph_lines = 0;
  Sequence first_sequence = 0;
  bool share_slots_for_test = false;
  bool share_graph_lines_for_test = false;      // see GraphCoreOptions
  bool reset_permitted_first_for_test = false;  // see ReplayPlace
};

// What the engine is given by its owner. Everything outlives the engine.
struct EngineSurroundings {
  const Driver* driver = nullptr;
  Parking* parking = nullptr;
  // Asks for `bytes` of really pinned memory for the ring, before it is pinned;
  // false: over the limit. And gives them back.
  std::function<bool(size_t bytes)> charge_ring;
  std::function<void(size_t bytes)> release_ring;
};

// What became of a copy that the driver raised no objection to.
enum class CopyOutcome {
  // Through the ring:
  kDeferred,  // enqueued; the bytes move when the stream gets there
  kIdle,  // host to device on an idle stream: read during the call, enqueued
  kSync,  // done
  // Not begun, nothing was enqueued, for want of:
  kNoSlot,     // slots: too many streams hold staged work
  kTooDeep,    // room in the driver's queue: the slots to be had are so small
               // that the call might block behind the program's gate
  kCapturing,  // a stream that runs: it is being captured
  kNoRing,  // the ring: it could not be made (see ring_status), or the device
            // has no stream memory operations
  kNotDevice,  // device memory at the other end: the driver decides what to do
               // with the pair
  kArrayFormat,  // an array whose rows can be cut: it is compressed in blocks,
                 // or has several planes
};

// What became of a graph that was to be made executable.
enum class GraphOutcome {
  kUntouched,  // no copy in it is of staged memory: it was instantiated as it
               // is
  kStaged,     // its copies of staged memory go through the ring
  kRefused,    // nothing was made: the ring cannot take them all
};

struct CopyResult {
  CopyOutcome outcome = CopyOutcome::kDeferred;
  uint64_t slot_wait_nanos = 0;  // known for kSync only
};

class Engine {
 public:
  Engine(const EngineOptions& options, const EngineSurroundings& surroundings);
  // Stops the movers. Transfers still outstanding are never finished: wait for
  // them first. The ring stays pinned if any are.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Copies as cuMemcpyHtoDAsync / cuMemcpyDtoHAsync (or, with `wait`, their
  // synchronous forms) do with pinned memory. May block only for another
  // thread's enqueueing on the same stream, as the driver's own calls do, and
  // for `wait` and HostAccess::kDuringCall. Errors: what the driver answers, by
  // the same code; a range that is not device memory to its end answers
  // CUDA_ERROR_INVALID_VALUE before anything moves.
  [[nodiscard]] absl::StatusOr<CopyResult> Copy(const CopyRequest& request);

  // Instantiates a graph in the current context, as cuGraphInstantiateWithFlags
  // does, with the copies of staged memory in it and in its child graphs led
  // through the ring: every replay moves the bytes of the moment. The graph
  // stays as it is, and each executable graph has flags and slots of its own.
  // They are given back when the driver has destroyed the executable graph and
  // its last replay is over. Errors: the driver's, by the same code; nothing is
  // left behind then.
  //
  // What goes through the ring was made from a copy of the graph, and the
  // driver knows it by the copy's nodes.
  struct GraphLease;  // the slots of one executable graph
  struct StagedGraph {
    CUgraph copy = nullptr;  // the caller's, to find nodes by and to destroy
    std::shared_ptr<const GraphLease> lease;
  };
  // *made is filled in where the outcome is kStaged.
  [[nodiscard]] absl::StatusOr<GraphOutcome> InstantiateGraph(
      CUgraph graph, unsigned long long flags, IsStaged staged,
      CUgraphExec* executable, StagedGraph* made);
  // The executable graph is about to be launched: movers look at once, and
  // WaitForHost waits for the replay. Without it they look within about a
  // millisecond. And: the driver has refused the launch.
  void ExpectReplay(const GraphLease& lease);
  void ForgetReplay(const GraphLease& lease);
  // Copies that executable graphs hold slots for, replayed or not.
  [[nodiscard]] size_t graph_copies() const;

  // Waits until the stream, of the current context, has done all that was
  // enqueued before. Synchronizing with it would not do: one that is idle
  // stands behind the legacy stream's work, or the legacy one behind others',
  // only from the next operation on.
  [[nodiscard]] absl::Status WaitUntilHere(CUstream stream) const;

  // Waits until no transfer from or to [begin, begin + bytes) is outstanding.
  // Transfers of a lost context are not waited for.
  void WaitForHost(const void* begin, size_t bytes);

  // Why the ring is not there: OK while it was not needed yet or exists.
  [[nodiscard]] absl::Status ring_status() const;
  // Really pinned bytes of the ring and its flags; 0 before it is made.
  [[nodiscard]] size_t pinned_bytes() const;
  [[nodiscard]] size_t quarantined_bytes() const;
  // No copy of an executable graph touches [begin, begin + bytes) any more,
  // whatever is launched: the memory is being freed.
  void SeverHost(const void* begin, size_t bytes);
  // Transfers that were published and have not retired, and replays.
  [[nodiscard]] size_t outstanding() const;

  // In the child of fork: the ring is not there, the movers are not there;
  // every copy answers CUDA_ERROR_NOT_INITIALIZED.
  void AbandonAfterFork();

  // For scheduled tests, which have no movers: one mover's step, in its parts.
  // StepTake observes and may take a move; the test carries it out (CarryOut)
  // and finishes it.
  [[nodiscard]] bool CanStep() const;
  [[nodiscard]] bool StepTake(Move* move);
  void CarryOut(const Move& move) const;
  void FinishMove(const Move& move);
  void CheckInvariants() const;

 private:
  // What the engine needs to know about a context. Kept for good: transfers
  // name it.
  struct Context {
    CUcontext handle = nullptr;
    unsigned long long id = 0;  // tells a new context with the handle of an old
                                // one apart, where the driver can
    const RingMemory* ring = nullptr;
    CUdeviceptr flags =
        0;  // the flag lines, as this context's device sees them
    CUevent probe = nullptr;  // never recorded: a query answers the context's
                              // sticky error and waits for nothing
  };
  class ContextScope;
  // How the driver took a transfer's operations.
  struct Enqueued {
    absl::Status status;  // of the first call that failed
    uint32_t chunks = 0;  // copies accepted
  };

  // What leases know of the engine, which may go first.
  class GraphLeases {
   public:
    explicit GraphLeases(Engine* engine) : engine_(engine) {}
    void EngineIsGone();
    void Return(const GraphLease& lease);

   private:
    absl::Mutex mutex_;
    Engine* engine_ ABSL_GUARDED_BY(mutex_);
  };
  absl::StatusOr<GraphOutcome> StageGraph(CUgraph graph, IsStaged staged,
                                          GraphLease* lease);
  absl::Status InstantiateStaged(CUgraph graph, unsigned long long flags,
                                 const std::shared_ptr<GraphLease>& lease,
                                 CUgraphExec* executable);
  absl::StatusOr<std::shared_ptr<GraphCopy>> AddGraphCopy(
      const CopyRequest& request, const Context& context);
  void ReturnGraph(const GraphLease& lease);
  static void CUDA_CB ReturnLease(void* lease);

  absl::StatusOr<CUcontext> ContextOfStream(CUstream stream) const;
  // The current context and a ring that is pinned in it. Null where there is no
  // ring to be had.
  absl::StatusOr<const Context*> FindContextAndRing();
  absl::StatusOr<const Context*> FindContext(CUcontext handle,
                                             unsigned long long id,
                                             const RingMemory* ring);
  absl::StatusOr<unsigned long long> ContextId(CUcontext handle) const;
  // In the current context, which has that id.
  absl::Status EnsureRing(CUcontext current, unsigned long long id);
  absl::StatusOr<std::unique_ptr<RingMemory>> MakeRing();
  void TakeOver(const RingMemory& ring);
  // Whether the ring is still pinned; its context may have been reset.
  absl::StatusOr<bool> StillPinned(const RingMemory& ring) const;
  void LoseRing(const RingMemory* ring);
  // Looks at the other end, all of it. `refused` says why the ring cannot take
  // the copy, if so.
  absl::Status CheckDeviceEnd(const CopyRequest& request,
                              std::optional<CopyOutcome>* refused) const;
  absl::Status CheckDeviceRange(const CopyRequest& request,
                                std::optional<CopyOutcome>* refused) const;
  absl::Status CheckArrayRange(const CopyRequest& request,
                               std::optional<CopyOutcome>* refused) const;
  absl::StatusOr<StreamKey> KeyOf(CUstream stream,
                                  const Context& context) const;
  absl::StatusOr<CopyResult> CopyInContext(const CopyRequest& request);
  bool Plain(const CopyRequest& request, size_t most_bytes) const;
  bool WaitsFirst(const CopyRequest& request) const;
  // Whether a copy enqueued now is at once reached by the stream, as far as it
  // can be asked; and whether the stream has nothing of its own to do.
  absl::StatusOr<bool> IsHere(CUstream stream, bool* idle) const;
  // A copy that is enqueued: through the ring, or (without a transfer) by the
  // driver alone. Or refused.
  struct Begun {
    CopyOutcome outcome = CopyOutcome::kDeferred;
    std::shared_ptr<Transfer> transfer = nullptr;
  };
  absl::StatusOr<Begun> BeginCopy(const CopyRequest& request,
                                  const Context& context, const StreamKey& key,
                                  bool here);
  absl::StatusOr<Core::Published> Publish(const StreamKey& key,
                                          const Context& context,
                                          const TransferRequest& wanted,
                                          bool waits);
  // Waits as far as the request says.
  absl::StatusOr<CopyResult> AwaitCopy(const CopyRequest& request,
                                       const Context& context,
                                       const Begun& begun);
  // Waits until the stream's queue has room for `places` more, as long as the
  // stream moves on. False where it does not.
  bool AwaitPlaces(const StreamKey& key, size_t places)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The driver's copy of a chunk between its slot and the device.
  absl::Status CopySlot(const CopyRequest& request, const Context& context,
                        const Transfer& transfer, uint32_t chunk) const;
  void Fill(const Move& move) const;
  void Drain(const Move& move) const;
  Enqueued EnqueueDeferred(const CopyRequest& request, const Context& context,
                           const Transfer& transfer) const;
  Enqueued EnqueueFill(const CopyRequest& request, const Context& context,
                       const Transfer& transfer) const;
  Enqueued EnqueueDriven(const CopyRequest& request, const Context& context,
                         const std::shared_ptr<Transfer>& transfer);
  // Has a driver that gathers work hand it to the device.
  void Flush(CUstream stream) const;
  void EndEarly(const CopyRequest& request, const Context& context,
                Transfer& transfer, uint32_t chunks);
  // Helps to move the transfer's bytes until `over` says so, which is asked
  // under mutex_, or the transfer has retired.
  absl::Status WaitFor(const std::shared_ptr<Transfer>& transfer,
                       const Context& context,
                       absl::FunctionRef<bool(const Transfer&)> over);
  // Asks the context for its sticky error; its transfers are lost if it has
  // one.
  absl::Status Probe(const Context& context);

  bool TakeMove(Core::Work work, Move* move);
  void MakeMoves(Core::Work work, Move* move);
  void MoverBody();
  void FillerBody();
  bool PollForMove(Move* move);
  bool WaitForPublished();
  void MakeFirstMove(Move* move);
  void WakeForMore(uint64_t bytes);
  void SignalPublished() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const EngineOptions options_;
  const EngineSurroundings around_;
  const Driver& driver_;
  std::atomic<bool> abandoned_{false};
  const std::shared_ptr<GraphLeases> graph_leases_ =
      std::make_shared<GraphLeases>(this);

  // Taken by movers: no CUDA call is made under it, and nothing that holds it
  // waits for one.
  mutable absl::Mutex mutex_;
  std::unique_ptr<Core> core_
      ABSL_GUARDED_BY(mutex_);  // null until the ring exists
  // Streams that a thread is enqueueing a transfer on: published to and
  // enqueued by one thread at a time.
  absl::flat_hash_set<StreamKey> enqueueing_ ABSL_GUARDED_BY(mutex_);
  absl::CondVar
      published_;  // for the mover that polls: there is something outstanding

  // Contexts and the ring's creation. Never held across a CUDA call: `making_`
  // stands for that.
  mutable absl::Mutex setup_mutex_;
  bool making_ ABSL_GUARDED_BY(setup_mutex_) = false;
  absl::Status ring_status_ ABSL_GUARDED_BY(setup_mutex_);
  std::unique_ptr<RingMemory> ring_ ABSL_GUARDED_BY(setup_mutex_);
  // The context that it was pinned in; null where the driver has no ids of
  // contexts, without which a handle says nothing.
  CUcontext home_ ABSL_GUARDED_BY(setup_mutex_) = nullptr;
  unsigned long long home_id_ ABSL_GUARDED_BY(setup_mutex_) = 0;
  // Whose contexts were reset. Threads that lose a transfer look at them still.
  std::vector<std::unique_ptr<RingMemory>> lost_rings_
      ABSL_GUARDED_BY(setup_mutex_);
  absl::flat_hash_map<CUcontext, const Context*> contexts_
      ABSL_GUARDED_BY(setup_mutex_);
  std::vector<std::unique_ptr<const Context>> all_contexts_
      ABSL_GUARDED_BY(setup_mutex_);
  // ring_, for those who need no lock: the release store after it was made
  // pairs with their acquire load.
  std::atomic<RingMemory*> ring_memory_{nullptr};

  // How often published_ was signalled, for a polling mover that is awake.
  std::atomic<uint32_t> publications_{0};
  // The polling mover is quiet while nothing is outstanding.
  PollTurn poll_turn_;
  // The polling one is to wake the others.
  std::atomic<bool> expect_fill_{false};
  std::atomic<bool> expect_many_{false};
  std::atomic<uint64_t> last_move_nanos_{0};  // when a mover last took a piece
  std::unique_ptr<copy::WorkerPool> movers_;
};

}  // namespace pinring

#endif  // PINRING_SRC_ENGINE_ENGINE_H_
