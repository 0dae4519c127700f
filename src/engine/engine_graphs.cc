// Copies of staged memory in executable graphs.

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/driver/status.h"
#include "src/engine/engine.h"
#include "src/engine/graph_nodes.h"

namespace pinring {

struct Engine::GraphLease {
  std::shared_ptr<GraphLeases> leases;
  const std::byte* ring = nullptr;  // that the copies are of
  std::vector<std::shared_ptr<GraphCopy>> copies;
};

void Engine::GraphLeases::EngineIsGone() {
  absl::MutexLock lock(&mutex_);
  engine_ = nullptr;
}

void Engine::GraphLeases::Return(const GraphLease& lease) {
  absl::MutexLock lock(&mutex_);
  if (engine_ != nullptr) engine_->ReturnGraph(lease);
}

// Called by the driver, on a thread of its own: no CUDA calls.
void CUDA_CB Engine::ReturnLease(void* data) {
  const std::unique_ptr<GraphLease> lease(static_cast<GraphLease*>(data));
  lease->leases->Return(*lease);
}

void Engine::ReturnGraph(const GraphLease& lease) {
  absl::MutexLock lock(&mutex_);
  // A ring that was lost has lost its copies.
  if (core_ == nullptr || core_->ring() != lease.ring) return;
  for (const std::shared_ptr<GraphCopy>& copy : lease.copies)
    core_->graphs().Remove(*copy);
}

absl::StatusOr<GraphOutcome> Engine::InstantiateGraph(CUgraph graph,
                                                      unsigned long long flags,
                                                      IsStaged staged,
                                                      CUgraphExec* executable) {
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
  const auto instantiate = [&](CUgraph made) {
    return CudaStatus(
        driver_.GraphInstantiateWithFlags(executable, made, flags),
        "cuGraphInstantiateWithFlags");
  };
  if (nodes.empty()) {
    if (absl::Status status = instantiate(graph); !status.ok()) return status;
    return GraphOutcome::kUntouched;
  }
  CUgraph clone = nullptr;
  // What cannot be cloned (allocations in a graph) is left to the driver.
  if (driver_.GraphClone(&clone, graph) != CUDA_SUCCESS)
    return GraphOutcome::kRefused;
  // The executable graph holds what it needs; a clone that the driver does not
  // destroy holds the slots.
  const absl::Cleanup destroy = [&] { (void)driver_.GraphDestroy(clone); };
  absl::StatusOr<GraphOutcome> outcome = StageGraph(clone, staged);
  if (!outcome.ok() || *outcome != GraphOutcome::kStaged) return outcome;
  if (absl::Status status = instantiate(clone); !status.ok()) return status;
  return outcome;
}

// Replaces the copies of a graph that nobody else knows, and has it hold their
// slots.
absl::StatusOr<GraphOutcome> Engine::StageGraph(CUgraph graph,
                                                IsStaged staged) {
  std::vector<StagedNode> nodes;
  if (absl::Status status = FindStagedNodes(driver_, graph, staged, &nodes);
      !status.ok()) {
    return status;
  }
  const absl::StatusOr<const Context*> found = FindContextAndRing();
  if (!found.ok()) return found.status();
  if (*found == nullptr) return GraphOutcome::kRefused;
  const Context& context = **found;

  auto lease = std::make_unique<GraphLease>();
  lease->leases = graph_leases_;
  lease->ring = context.ring->bytes();
  absl::Cleanup give_back = [&] { ReturnGraph(*lease); };
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
  CUuserObject object = nullptr;
  if (absl::Status status = CudaStatus(
          driver_.UserObjectCreate(&object, lease.get(), &Engine::ReturnLease,
                                   1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC),
          "cuUserObjectCreate");
      !status.ok()) {
    return status;
  }
  // From here on the object's end gives the copies back.
  std::move(give_back).Cancel();
  lease.release();
  if (absl::Status status =
          CudaStatus(driver_.GraphRetainUserObject(graph, object, 1,
                                                   CU_GRAPH_USER_OBJECT_MOVE),
                     "cuGraphRetainUserObject");
      !status.ok()) {
    (void)driver_.UserObjectRelease(object, 1);
    return status;
  }
  return GraphOutcome::kStaged;
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
  absl::MutexLock lock(&mutex_);
  if (core_ == nullptr || core_->ring() != context.ring->bytes())
    return nullptr;
  std::shared_ptr<GraphCopy> copy =
      core_->graphs().Add({.direction = request.direction,
                           .host = static_cast<std::byte*>(request.host),
                           .shape = request.shape,
                           .context = &context});
  // The mover that polls is to look from now on.
  if (copy != nullptr) published_.Signal();
  return copy;
}

void Engine::NoteGraphLaunch() {
  absl::MutexLock lock(&mutex_);
  published_.Signal();
}

size_t Engine::graph_copies() const {
  absl::MutexLock lock(&mutex_);
  return core_ == nullptr ? 0 : core_->graphs().copies();
}

}  // namespace pinring
