// Graphs: which captures the library sees to their end, and what becomes of
// their copies when they are made executable.

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "src/capi/addresses.h"
#include "src/capi/instance.h"
#include "src/driver/status.h"
#include "src/engine/graph_nodes.h"
#include "src/usage/usage_print.h"

namespace pinring {

// None where the stream is not in an active capture.
absl::StatusOr<std::optional<uint64_t>> Instance::CaptureId(CUstream stream) {
  CUstreamCaptureStatus capturing = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  if (auto status =
          CudaStatus(driver_.StreamGetCaptureInfo(stream, &capturing, &id),
                     "cuStreamGetCaptureInfo");
      !status.ok()) {
    return status;
  }
  if (capturing != CU_STREAM_CAPTURE_STATUS_ACTIVE) return std::nullopt;
  return uint64_t{id};
}

bool Instance::Records(CUstream stream) {
  {
    absl::MutexLock lock(&graphs_mutex_);
    if (captures_.empty()) return false;
  }
  const auto id = CaptureId(stream);
  if (!id.ok() || !id->has_value()) return false;
  absl::MutexLock lock(&graphs_mutex_);
  return captures_.contains(**id);
}

absl::Status Instance::StreamBeginCapture(CUstream stream,
                                          CUstreamCaptureMode mode) {
  if (auto status = CheckProcess(); !status.ok()) return status;
  if (auto status =
          CallDriver("cuStreamBeginCapture",
                     [&] { return driver_.StreamBeginCapture(stream, mode); });
      !status.ok()) {
    return status;
  }
  // A capture whose id is not told is one that began elsewhere; and so is every
  // one where graphs cannot be edited.
  if (driver_.StreamGetCaptureInfo == nullptr || !CanEditGraphs(driver_)) {
    return absl::OkStatus();
  }
  const auto id = CaptureId(stream);
  if (!id.ok() || !id->has_value()) return absl::OkStatus();
  absl::MutexLock lock(&graphs_mutex_);
  captures_.insert(**id);
  return absl::OkStatus();
}

absl::Status Instance::StreamEndCapture(CUstream stream, CUgraph* graph) {
  if (auto status = CheckProcess(); !status.ok()) return status;
  if (driver_.StreamGetCaptureInfo != nullptr) {
    const auto id = CaptureId(stream);
    absl::MutexLock lock(&graphs_mutex_);
    if (id.ok() && id->has_value()) captures_.erase(**id);
  }
  return CallDriver("cuStreamEndCapture",
                    [&] { return driver_.StreamEndCapture(stream, graph); });
}

absl::Status Instance::GraphInstantiate(CUgraphExec* executable, CUgraph graph,
                                        unsigned long long flags) {
  if (auto status = CheckProcess(); !status.ok()) return status;
  if (auto status = contexts_.EnsureCurrent(); !status.ok()) return status;
  if (executable == nullptr || graph == nullptr) {
    return InvalidValue(
        "the graph, or the place for the executable one, is null");
  }
  if (!recorded_.load(std::memory_order_relaxed)) {
    return CudaStatus(
        driver_.GraphInstantiateWithFlags(executable, graph, flags),
        "cuGraphInstantiateWithFlags");
  }
  Engine::StagedGraph made;
  const auto outcome = engine_.InstantiateGraph(
      graph, flags,
      [this](const void* address) { return OwnsUnpinned(address); }, executable,
      &made);
  if (!outcome.ok()) return outcome.status();
  if (*outcome == GraphOutcome::kRefused) {
    if (options_.promote) {
      if (auto status = PromoteNodes(graph, true); !status.ok()) return status;
    } else {
      copies_past_engine_.store(true, std::memory_order_relaxed);
      CountAndSay(UsageEvent::kPageableFallback,
                  "a graph has copies that cannot go through the ring and take "
                  "the driver's path for pageable memory, which reads it when "
                  "the graph is launched. Let PINRING_PROMOTE be on");
    }
    if (auto status = CudaStatus(
            driver_.GraphInstantiateWithFlags(executable, graph, flags),
            "cuGraphInstantiateWithFlags");
        !status.ok()) {
      return status;
    }
  }
  // What had this handle is destroyed.
  CUgraph old = nullptr;
  {
    absl::MutexLock lock(&graphs_mutex_);
    if (const auto it = staged_graphs_.find(*executable);
        it != staged_graphs_.end()) {
      old = it->second.copy;
      staged_graphs_.erase(it);
    }
    if (*outcome == GraphOutcome::kStaged) {
      staged_graphs_.emplace(*executable, std::move(made));
    }
  }
  if (old != nullptr) (void)driver_.GraphDestroy(old);
  return absl::OkStatus();
}

// A block of another instance is that one's to pin, account for and free.
bool Instance::OwnsUnpinned(const void* address) const {
  const BlockUse block = memory_.UseStaged(address);
  return block && !block->promoted() &&
         HostMemory::InstanceOf(memory_.map(), address) == this;
}

absl::Status Instance::GraphPromote(CUgraph graph) {
  if (auto status = CheckProcess(); !status.ok()) return status;
  if (auto status = contexts_.EnsureCurrent(); !status.ok()) return status;
  if (graph == nullptr) return InvalidValue("the graph is null");
  return PromoteNodes(graph, false);
}

// The driver reads pageable memory when a graph is launched, not when its copy
// is reached, so a block that cannot be pinned is an error. `counted`: nobody
// has asked for it.
absl::Status Instance::PromoteNodes(CUgraph graph, bool counted) {
  if (!recorded_.load(std::memory_order_relaxed)) return absl::OkStatus();
  std::vector<StagedNode> nodes;
  const auto staged = [this](const void* address) {
    return OwnsUnpinned(address);
  };
  if (auto status = FindStagedNodes(driver_, graph, staged, &nodes);
      !status.ok()) {
    return status;
  }
  const RelaxedCapture relaxed(driver_);
  for (const StagedNode& node : nodes) {
    for (const void* address : {node.src, node.dst}) {
      const BlockUse block = memory_.UseStaged(address);
      if (!block || !OwnsUnpinned(address)) continue;
      if (auto status = memory_.Promote(*block); !status.ok()) return status;
      if (!counted) continue;
      CountAndSay(
          UsageEvent::kPromotedNoSlot,
          absl::StrCat("a graph has copies that cannot go through the "
                       "ring, so a block of ",
                       HumanBytes(block->bytes()), " is pinned in place"));
    }
  }
  return absl::OkStatus();
}

absl::Status Instance::GraphLaunch(CUgraphExec executable, CUstream stream) {
  if (auto status = CheckProcess(); !status.ok()) return status;
  const auto launch = [&] {
    return CallDriver("cuGraphLaunch",
                      [&] { return driver_.GraphLaunch(executable, stream); });
  };
  std::shared_ptr<const Engine::GraphLease> lease;
  {
    absl::MutexLock lock(&graphs_mutex_);
    if (const auto it = staged_graphs_.find(executable);
        it != staged_graphs_.end()) {
      lease = it->second.lease;
    }
  }
  if (lease == nullptr) return launch();
  // In a capture it would become a part of another graph, with the same flags.
  if (!IsLegacyStream(stream)) {
    const auto id = CaptureId(stream);
    if (id.ok() && id->has_value()) {
      return CudaStatus(
          CUDA_ERROR_NOT_SUPPORTED,
          "an executable graph whose copies go through the ring cannot be "
          "launched in a capture; add the graph as a child graph, or promote "
          "its blocks (pinringGraphPromote) before it is instantiated");
    }
  }
  engine_.ExpectReplay(*lease);
  absl::Status status = launch();
  if (!status.ok()) engine_.ForgetReplay(*lease);
  return status;
}

absl::Status Instance::GraphExecDestroy(CUgraphExec executable) {
  if (auto status = CheckProcess(); !status.ok()) return status;
  Engine::StagedGraph staged;
  {
    absl::MutexLock lock(&graphs_mutex_);
    if (const auto it = staged_graphs_.find(executable);
        it != staged_graphs_.end()) {
      staged = std::move(it->second);
      staged_graphs_.erase(it);
    }
  }
  auto status =
      CudaStatus(driver_.GraphExecDestroy(executable), "cuGraphExecDestroy");
  if (staged.copy != nullptr) (void)driver_.GraphDestroy(staged.copy);
  return status;
}

absl::Status Instance::GraphPrepareUpdate(CUgraphExec executable,
                                          CUgraph graph) {
  if (auto status = CheckProcess(); !status.ok()) return status;
  {
    absl::MutexLock lock(&graphs_mutex_);
    if (staged_graphs_.contains(executable)) {
      return CudaStatus(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
                        "an executable graph whose copies go through the ring "
                        "has other nodes than the graph; instantiate anew");
    }
  }
  if (auto status = contexts_.EnsureCurrent(); !status.ok()) return status;
  if (graph == nullptr) return InvalidValue("the graph is null");
  return PromoteNodes(graph, true);
}

absl::StatusOr<CUgraphNode> Instance::GraphExecNode(CUgraphExec executable,
                                                    CUgraphNode node) {
  if (auto status = CheckProcess(); !status.ok()) return status;
  CUgraph copy = nullptr;
  {
    absl::MutexLock lock(&graphs_mutex_);
    const auto it = staged_graphs_.find(executable);
    if (it == staged_graphs_.end()) return node;
    copy = it->second.copy;
  }
  CUgraphNode found = nullptr;
  if (driver_.GraphNodeFindInClone(&found, node, copy) != CUDA_SUCCESS) {
    return CudaStatus(
        CUDA_ERROR_NOT_SUPPORTED,
        "a node of an executable graph that is a copy through the ring, or "
        "lies in a child graph, cannot be changed; instantiate the changed "
        "graph, or promote its blocks (pinringGraphPromote) before it is "
        "instantiated");
  }
  return found;
}

}  // namespace pinring
