// Copies of staged memory in executable graphs.

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/driver/status.h"
#include "src/engine/brief_lock.h"
#include "src/engine/engine.h"
#include "src/engine/graph_nodes.h"

namespace pinring {
namespace {

// CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH, which headers before CUDA 12 lack.
constexpr unsigned long long kDeviceLaunch = 4;

}  // namespace

struct Engine::GraphLease {
  std::shared_ptr<GraphLeases> leases;
  const std::byte* ring = nullptr;  // that the copies are of
  std::vector<std::shared_ptr<GraphCopy>> copies;
};

void Engine::GraphLeases::EngineIsGone() {
  const BriefLock lock(mutex_);
  engine_ = nullptr;
}

void Engine::GraphLeases::Return(const GraphLease& lease) {
  const BriefLock lock(mutex_);
  if (engine_ != nullptr) engine_->ReturnGraph(lease);
}

// Called by the driver, from a call that destroys the executable graph or on a
// thread of its own: no CUDA calls.
void CUDA_CB Engine::ReturnLease(void* data) {
  using Held = std::shared_ptr<GraphLease>;
  const std::unique_ptr<Held> lease(static_cast<Held*>(data));
  (*lease)->leases->Return(**lease);
}

void Engine::ReturnGraph(const GraphLease& lease) {
  if (abandoned_.load(std::memory_order_acquire)) return;
  const BriefLock lock(mutex_);
  // A ring that was lost has lost its copies.
  if (core_ == nullptr || core_->ring() != lease.ring) return;
  for (const std::shared_ptr<GraphCopy>& copy : lease.copies)
    core_->graphs().Remove(*copy);
}

absl::StatusOr<GraphOutcome> Engine::InstantiateGraph(CUgraph graph,
                                                      unsigned long long flags,
                                                      IsStaged staged,
                                                      CUgraphExec* executable,
                                                      StagedGraph* made) {
  if (abandoned_.load(std::memory_order_acquire)) {
    return CudaStatus(CUDA_ERROR_NOT_INITIALIZED, "a graph in a child of fork");
  }
  // What follows must not end a capture of another thread or stream.
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (absl::Status status =
          CudaStatus(driver_.ThreadExchangeStreamCaptureMode(&mode),
                     "cuThreadExchangeStreamCaptureMode");
      !status.ok()) {
    return status;
  }
  const absl::Cleanup restore = [&] {
    (void)driver_.ThreadExchangeStreamCaptureMode(&mode);
  };
  std::vector<StagedNode> nodes;
  if (absl::Status status = FindStagedNodes(driver_, graph, staged, &nodes);
      !status.ok()) {
    return status;
  }
  if (nodes.empty()) {
    if (absl::Status status = CudaStatus(
            driver_.GraphInstantiateWithFlags(executable, graph, flags),
            "cuGraphInstantiateWithFlags");
        !status.ok()) {
      return status;
    }
    return GraphOutcome::kUntouched;
  }
  // A graph that the device launches has no memory operations.
  if ((flags & kDeviceLaunch) != 0) return GraphOutcome::kRefused;
  CUgraph clone = nullptr;
  // What cannot be cloned (allocations in a graph) is left to the driver.
  if (driver_.GraphClone(&clone, graph) != CUDA_SUCCESS)
    return GraphOutcome::kRefused;
  absl::Cleanup destroy = [&] { (void)driver_.GraphDestroy(clone); };
  auto lease = std::make_shared<GraphLease>();
  lease->leases = graph_leases_;
  absl::StatusOr<GraphOutcome> outcome = StageGraph(clone, staged, lease.get());
  if (!outcome.ok() || *outcome != GraphOutcome::kStaged) {
    ReturnGraph(*lease);
    return outcome;
  }
  if (absl::Status status = InstantiateStaged(clone, flags, lease, executable);
      !status.ok()) {
    return status;
  }
  std::move(destroy).Cancel();
  *made = {clone, std::move(lease)};
  return outcome;
}

// Replaces the copies of a graph that nobody else knows.
absl::StatusOr<GraphOutcome> Engine::StageGraph(CUgraph graph, IsStaged staged,
                                                GraphLease* lease) {
  std::vector<StagedNode> nodes;
  if (absl::Status status = FindStagedNodes(driver_, graph, staged, &nodes);
      !status.ok()) {
    return status;
  }
  const absl::StatusOr<const Context*> found = FindContextAndRing();
  if (!found.ok()) return found.status();
  if (*found == nullptr) return GraphOutcome::kRefused;
  const Context& context = **found;
  lease->ring = context.ring->bytes();
  for (const StagedNode& node : nodes) {
    if (!node.possible) return GraphOutcome::kRefused;
    absl::StatusOr<std::shared_ptr<GraphCopy>> copy =
        AddGraphCopy(node.request, context);
    if (!copy.ok()) return copy.status();
    if (*copy == nullptr) return GraphOutcome::kRefused;
    lease->copies.push_back(*copy);
    const Transfer& transfer = *(*copy)->transfer;
    if (absl::Status status = ReplaceNode(
            driver_, node, transfer,
            {context.flags + transfer.line * sizeof(FlagLine),
             context.ring->bytes(), options_.reset_permitted_first_for_test});
        !status.ok()) {
      return status;
    }
  }
  return GraphOutcome::kStaged;
}

// The executable graph alone holds the lease, whatever becomes of the graph.
absl::Status Engine::InstantiateStaged(CUgraph graph, unsigned long long flags,
                                       const std::shared_ptr<GraphLease>& lease,
                                       CUgraphExec* executable) {
  auto held = std::make_unique<std::shared_ptr<GraphLease>>(lease);
  CUuserObject object = nullptr;
  if (absl::Status status = CudaStatus(
          driver_.UserObjectCreate(&object, held.get(), &Engine::ReturnLease, 1,
                                   CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
          "cuUserObjectCreate");
      !status.ok()) {
    ReturnGraph(*lease);
    return status;
  }
  // From here on the object's end gives the copies back.
  (void)held.release();
  const absl::Cleanup release = [&] {
    (void)driver_.UserObjectRelease(object, 1);
  };
  if (absl::Status status =
          CudaStatus(driver_.GraphRetainUserObject(graph, object, 1, 0),
                     "cuGraphRetainUserObject");
      !status.ok()) {
    return status;
  }
  absl::Status status =
      CudaStatus(driver_.GraphInstantiateWithFlags(executable, graph, flags),
                 "cuGraphInstantiateWithFlags");
  if (!status.ok()) return status;
  // Where this fails the graph holds the slots, until it is destroyed.
  (void)driver_.GraphReleaseUserObject(graph, object, 1);
  return status;
}

// Null where the ring has no room, or the copy's other end is no memory of the
// current context's device.
absl::StatusOr<std::shared_ptr<GraphCopy>> Engine::AddGraphCopy(
    const CopyRequest& request, const Context& context) {
  std::optional<CopyOutcome> refused;
  if (absl::Status status = CheckDeviceEnd(request, &refused); !status.ok())
    return status;
  if (refused.has_value()) return nullptr;
  if (!request.array.has_value()) {
    CUcontext owner = nullptr;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_CONTEXT};
    void* values[] = {&owner};
    if (absl::Status status = CudaStatus(
            driver_.PointerGetAttributes(1, attributes, values, request.device),
            "cuPointerGetAttributes");
        !status.ok()) {
      return status;
    }
    if (owner != context.handle) return nullptr;
  }
  const BriefLock lock(mutex_);
  if (core_ == nullptr || core_->ring() != context.ring->bytes())
    return nullptr;
  std::shared_ptr<GraphCopy> copy =
      core_->graphs().Add({.direction = request.direction,
                           .host = static_cast<std::byte*>(request.host),
                           .shape = request.shape,
                           .context = &context});
  // The mover that polls is to look from now on.
  if (copy != nullptr) SignalPublished();
  return copy;
}

void Engine::ExpectReplay(const GraphLease& lease) {
  const BriefLock lock(mutex_);
  if (core_ == nullptr || core_->ring() != lease.ring) return;
  for (const std::shared_ptr<GraphCopy>& copy : lease.copies)
    core_->graphs().Expect(*copy);
  SignalPublished();
}

void Engine::ForgetReplay(const GraphLease& lease) {
  const BriefLock lock(mutex_);
  if (core_ == nullptr || core_->ring() != lease.ring) return;
  for (const std::shared_ptr<GraphCopy>& copy : lease.copies)
    core_->graphs().ForgetExpected(*copy);
}

void Engine::SeverHost(const void* begin, size_t bytes) {
  // In a child of fork nobody may hold the lock any more.
  if (abandoned_.load(std::memory_order_acquire)) return;
  const auto* const first = static_cast<const std::byte*>(begin);
  {
    const BriefLock lock(mutex_);
    if (core_ == nullptr) return;
    core_->graphs().Sever(first, first + bytes);
  }
  // A replay that nobody expected may have begun just before.
  WaitForHost(begin, bytes);
}

size_t Engine::graph_copies() const {
  const BriefLock lock(mutex_);
  return core_ == nullptr ? 0 : core_->graphs().copies();
}

}  // namespace pinring
