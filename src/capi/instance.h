// Instance: one pinring, complete: a ring, its movers, blocks and accounts.
//
// The C functions are calls of the process's default instance
// (default_instance.h), with errors turned into the runtime's codes; what they
// promise in include/pinring/pinring.h holds here. Several instances may exist
// (instances.h). Copies of a block, and its free, are its own instance's: the
// other ones do not know which copies are in flight.
//
// Thread-safe. Errors keep the driver's code (src/driver/status.h).

#ifndef PINRING_SRC_CAPI_INSTANCE_H_
#define PINRING_SRC_CAPI_INSTANCE_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "src/capi/contexts.h"
#include "src/capi/host_memory.h"
#include "src/capi/options.h"
#include "src/driver/driver.h"
#include "src/engine/engine.h"
#include "src/engine/parking.h"
#include "src/host/address_map.h"
#include "src/host/budget.h"
#include "src/usage/usage_ledger.h"
#include "src/usage/usage_page.h"
#include "src/usage/usage_snapshot.h"

namespace pinring {

// How an instance waits, and whether its movers are threads of its own: what a
// test replaces that runs an instance under a scheduler and steps the movers
// itself.
struct InstanceThreads {
  Parking* parking = nullptr;  // outlives the instance; null: the real clock
  bool movers = true;
};

class Instance {
 public:
  // The driver and the map of blocks, which it may share with others, outlive
  // the instance. Makes no context and pins nothing.
  // Errors: kInvalidArgument, for options that contradict each other.
  static absl::StatusOr<std::unique_ptr<Instance>> Create(
      const Driver* driver, const Options& options, AddressMap* blocks,
      const InstanceThreads& threads = {});
  // Rows of a copy, and how they lie at each end.
  struct Rows {
    uint64_t width = 0;
    uint64_t height = 1;
    uint64_t depth = 1;
    Pitch dst;
    Pitch src;

    bool empty() const { return width == 0 || height == 0 || depth == 0; }
    // An error where the last byte is beyond what 64 bits can say. The driver
    // would say so too, but after this had been computed with. Not empty.
    absl::Status CheckPitch(const Pitch& pitch) const;
    absl::Status CheckReach(const Pitch& pitch) const;
  };
  // One copy that the program asked for.
  struct Copy {
    void* dst = nullptr;
    const void* src = nullptr;
    size_t bytes = 0;
    const Rows* rows = nullptr;  // null: `bytes` bytes in one piece
    // With rows: the end whose address is null lies here.
    std::optional<ArrayPlace> array = std::nullopt;
    cudaMemcpyKind kind = cudaMemcpyDefault;
    CUstream stream = nullptr;
    bool wait = false;
    // Of pageable memory; pinned memory is accessed in stream order.
    HostAccess access = HostAccess::kInStreamOrder;
  };

  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;
  // Nobody uses the instance or its blocks any more. Waits for the devices if
  // copies are in flight.
  ~Instance();

  absl::Status HostAlloc(void** pointer, size_t bytes, unsigned flags);
  absl::Status FreeHost(void* pointer);
  absl::Status HostRegister(void* pointer, size_t bytes, unsigned flags);
  absl::Status HostUnregister(void* pointer);

  // As cudaMemcpy and cudaMemcpyAsync.
  absl::Status Memcpy(void* dst, const void* src, size_t bytes,
                      cudaMemcpyKind kind) {
    return CopyBlock({.dst = dst,
                      .src = src,
                      .bytes = bytes,
                      .kind = kind,
                      .stream = nullptr,
                      .wait = true});
  }
  absl::Status MemcpyAsync(void* dst, const void* src, size_t bytes,
                           cudaMemcpyKind kind, CUstream stream) {
    return CopyBlock({.dst = dst,
                      .src = src,
                      .bytes = bytes,
                      .kind = kind,
                      .stream = stream});
  }
  // As cudaMemcpy3D and cudaMemcpy3DAsync between addresses: copy.rows, each
  // of them no longer than its pitches. copy.bytes is of no account.
  absl::Status MemcpyRows(const Copy& copy);
  // The same, of rows or not, but pageable memory of the program's own goes
  // through the ring too.
  absl::Status CopyPageable(const Copy& copy);
  // Whether one end is ordinary memory, which CUDA does not know and is no
  // staged block, and the other the device's, and which way it goes then.
  absl::StatusOr<std::optional<Direction>> PageableDirection(const Copy& copy);
  // As cuMemcpyPeer and cuMemcpy3DPeer, and their Async forms. The kind is of
  // no account; the contexts are those that the ends are said to be in.
  struct Peers {
    CUcontext dst = nullptr;
    CUcontext src = nullptr;
  };
  absl::Status MemcpyPeer(const Copy& copy, const Peers& peers);
  // The device's primary context.
  absl::StatusOr<CUcontext> PrimaryContext(int ordinal) {
    if (auto status = CheckProcess(); !status.ok()) return status;
    return contexts_.Primary(ordinal);
  }
  struct ArrayFacts {
    uint64_t element_bytes = 0;  // 0: it is not made of equal channels
    uint64_t row_bytes = 0;
  };
  absl::StatusOr<ArrayFacts> DescribeArray(CUarray array);

  // As cudaMemset3D and cudaMemset3DAsync: rows.dst says how the rows lie.
  struct Fill {
    void* dst = nullptr;
    unsigned char value = 0;
    Rows rows;
    CUstream stream = nullptr;
    bool wait = false;
  };
  absl::Status Memset(const Fill& fill);

  // As the functions of the runtime. Copies of the instance's blocks that are
  // captured between Begin and End are kept as they are until the graph is
  // instantiated; in a capture that began elsewhere their blocks are promoted.
  absl::Status StreamBeginCapture(CUstream stream, CUstreamCaptureMode mode);
  absl::Status StreamEndCapture(CUstream stream, CUgraph* graph);
  absl::Status GraphInstantiate(CUgraphExec* executable, CUgraph graph,
                                unsigned long long flags);
  absl::Status GraphLaunch(CUgraphExec executable, CUstream stream);
  absl::Status GraphExecDestroy(CUgraphExec executable);
  // Promotes the blocks that copies in the graph are of.
  absl::Status GraphPromote(CUgraph graph);
  // The same, before an update of the executable graph; refuses one whose
  // copies go through the ring.
  absl::Status GraphPrepareUpdate(CUgraphExec executable, CUgraph graph);
  // The node that the driver knows in the executable graph for one of the
  // graph that it was made from.
  absl::StatusOr<CUgraphNode> GraphExecNode(CUgraphExec executable,
                                            CUgraphNode node);

  absl::Status PointerGetAttributes(cudaPointerAttributes* attributes,
                                    const void* pointer);
  absl::Status HostGetDevicePointer(void** device_pointer, void* pointer,
                                    unsigned flags);
  absl::Status Promote(void* pointer);
  // The same for a staged block, since a call of `function` needs it pinned:
  // counted, and the first time said.
  absl::Status PromoteOnUse(void* pointer, absl::string_view function);
  absl::Status HostGetFlags(unsigned* flags, void* pointer);
  // What is known about an address in a block; none for other memory.
  std::optional<HostMemory::Facts> Describe(const void* pointer) const {
    return memory_.Describe(pointer);
  }

  // Whether the bytes begin in a small block and end after it.
  bool ReachesBeyondSmallBlock(const void* pointer, uint64_t bytes) const {
    return memory_.ShorterSmallBlock(pointer, bytes).has_value();
  }

  absl::Status PushCategory(std::string_view name);
  absl::Status PopCategory();
  absl::Status SetCategoryLimits(std::string_view name,
                                 UsageLedger::Limits limits);
  void MarkUsage() { ledger_.Mark(); }
  UsageSnapshot Usage() const;

  // Makes the primary context of the device current, unless the calling
  // thread's context is of it.
  absl::Status SetDevice(int ordinal) { return contexts_.SetDevice(ordinal); }

  // How many blocks are allocated.
  uint64_t BlockCount() const;
  bool InForkedChild() const { return memory_.InForkedChild(); }
  const Options& options() const { return options_; }
  Engine& engine() { return engine_; }
  const UsageLedger& ledger() const { return ledger_; }

  // In the child of fork, before anything else.
  void AbandonAfterFork() {
    engine_.AbandonAfterFork();
    if (publisher_ != nullptr) publisher_->Abandon();
  }

  // Shows the usage to other processes from the first allocation on, if the
  // options say so; `number` tells the process's instances apart. Once, before
  // the instance is used.
  void StartPublishing(uint64_t number);
  void StopPublishing() {
    if (publisher_ != nullptr) publisher_->Stop();
  }

 private:
  Instance(const Driver* driver, const Options& options,
           const copy::KernelSet& kernels, AddressMap* blocks,
           const InstanceThreads& threads);

  absl::Status CopyBlock(const Copy& copy);
  // Errors: `bytes` at `pointer`, in a small block, reach beyond it.
  absl::Status CheckSmallBlock(const void* pointer, uint64_t bytes,
                               absl::string_view what) const;
  absl::Status CheckSmallBlocks(const Copy& copy) const;
  // The copy with its rows' bytes counted. Errors: rows that do not fit.
  absl::StatusOr<Copy> CheckRows(const Copy& copy) const;
  absl::Status CopyPeerNatively(const Copy& copy, const Peers& peers);
  CUresult CallCopyPeer(const Copy& copy, const Peers& peers) const;
  // What a copy is counted under: the thread's category where it is in one,
  // else the block's.
  CategoryId CopyCategory(const Block* block) const;
  absl::Status FillBlock(const Fill& fill, Block& block);
  absl::Status FillNatively(const Fill& fill);
  CUresult CallFill(const Fill& fill, bool sync) const;
  CUresult CallCopy(const Copy& copy, bool sync) const;
  // `block` is null for pageable memory of the program's own.
  absl::Status CopyStaged(const Copy& copy, Block* block, Direction direction);
  absl::Status CopyWithoutRing(const Copy& copy, Block* block,
                               Direction direction, CopyOutcome outcome);
  absl::Status CopySlowly(const Copy& copy, Direction direction);
  // Waits until an operation that is enqueued on the stream now would begin.
  absl::Status RefuseCapture(CUstream stream);
  absl::StatusOr<bool> IsCapturing(CUstream stream);
  // Whether the stream is in a capture that began here.
  bool Records(CUstream stream);
  absl::StatusOr<std::optional<uint64_t>> CaptureId(CUstream stream);
  absl::Status PromoteNodes(CUgraph graph, bool counted);
  bool OwnsUnpinned(const void* address) const;
  bool PromoteFor(Block& block, CopyOutcome outcome);
  // What the driver knows about an address; pageable where it knows nothing.
  enum class Memory : uint8_t { kPageable, kDevice, kOther };
  absl::StatusOr<Memory> Classify(const void* pointer);
  absl::Status CheckKnown(const Copy& copy, Direction direction);
  // Hands a copy of a staged block to the driver, for which the block is
  // pageable memory.
  absl::Status CopyAsPageable(const Copy& copy, Direction direction,
                              CopyPath path);
  // Hands the copy to the driver as it is.
  absl::Status CopyNatively(const Copy& copy, CopyDirection direction,
                            CopyPath path);
  // Whether every device reads pageable memory through the host's page tables,
  // as fast as pinned memory. Then nothing is gained by the ring.
  bool DevicesUseHostPageTables();

  absl::Status QueryDriver(cudaPointerAttributes* attributes,
                           const void* pointer);
  absl::Status CheckProcess() const;
  // Calls the driver, again with a context where it wants one.
  absl::Status CallDriver(absl::string_view what,
                          absl::FunctionRef<CUresult()> call);
  bool ChargeRing(size_t bytes);
  void ReleaseRing(size_t bytes);
  // Counts a fallback, and tells the user of the first of its kind.
  void CountAndSay(UsageEvent event, absl::string_view text);
  void SayOptions(const copy::KernelSet& kernels) const;

  // Captures that began here and have not ended, by their ids, and executable
  // graphs whose copies go through the ring. Never held across a CUDA call.
  mutable absl::Mutex graphs_mutex_;
  absl::flat_hash_set<uint64_t> captures_ ABSL_GUARDED_BY(graphs_mutex_);
  // Whether any copy was captured as it is: else no graph need be looked at.
  std::atomic<bool> recorded_{false};
  absl::flat_hash_map<CUgraphExec, Engine::StagedGraph> staged_graphs_
      ABSL_GUARDED_BY(graphs_mutex_);

  const Options options_;
  const Driver& driver_;
  UsageLedger ledger_;
  std::unique_ptr<UsagePublisher> publisher_;
  // The library's own memory, as opposed to the program's.
  CategoryId own_category_ = kDefaultCategory;
  PinnedBudget budget_;
  Contexts contexts_;
  HostMemory memory_;
  ThreadParking parking_;
  std::atomic<bool> ring_refusal_counted_{false};
  // Whether copies of staged blocks were left to the driver that may still be
  // to come when the call is over: nodes of graphs that the block was not
  // promoted for. The engine knows nothing of them.
  std::atomic<bool> copies_past_engine_{false};
  // What DevicesUseHostPageTables found, once a staged block was copied.
  enum class HostPageTables : uint8_t { kNotAsked, kNo, kYes };
  std::atomic<HostPageTables> host_page_tables_{HostPageTables::kNotAsked};
  Engine engine_;
};

}  // namespace pinring

#endif  // PINRING_SRC_CAPI_INSTANCE_H_
