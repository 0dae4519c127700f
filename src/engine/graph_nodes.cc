#include "src/engine/graph_nodes.h"

#include <cstdint>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "src/driver/status.h"
#include "src/engine/chunk_copy.h"
#include "src/engine/memory_operations.h"

namespace pinring {
namespace {

// One end of a copy node, by whichever names it has there.
struct End {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  CUarray array;
  size_t x, y, z;
  size_t pitch, height;
};

End SourceOf(const CUDA_MEMCPY3D& copy) {
  return {copy.srcMemoryType, copy.srcHost,     copy.srcDevice,
          copy.srcArray,      copy.srcXInBytes, copy.srcY,
          copy.srcZ,          copy.srcPitch,    copy.srcHeight};
}

End DestinationOf(const CUDA_MEMCPY3D& copy) {
  return {copy.dstMemoryType, copy.dstHost,     copy.dstDevice,
          copy.dstArray,      copy.dstXInBytes, copy.dstY,
          copy.dstZ,          copy.dstPitch,    copy.dstHeight};
}

CUdeviceptr AddressOf(const End& end) {
  if (end.type == CU_MEMORYTYPE_ARRAY) return 0;
  return end.type == CU_MEMORYTYPE_HOST
             ? reinterpret_cast<CUdeviceptr>(end.host)
             : end.device;
}

bool IsStagedEnd(const End& end, IsStaged staged) {
  const CUdeviceptr address = AddressOf(end);
  return address != 0 && staged(reinterpret_cast<const void*>(address));
}

Pitch PitchOf(const End& end, const CUDA_MEMCPY3D& copy) {
  const uint64_t row = end.pitch != 0 ? end.pitch : copy.WidthInBytes;
  return {row, row * (end.height != 0 ? end.height : copy.Height)};
}

CUdeviceptr FirstByte(const End& end, const Pitch& pitch) {
  return AddressOf(end) + end.x + end.y * pitch.row + end.z * pitch.slice;
}

CopyRequest RequestOf(const CUDA_MEMCPY3D& copy, Direction direction) {
  const bool in = direction == Direction::kHostToDevice;
  const End host = in ? SourceOf(copy) : DestinationOf(copy);
  const End device = in ? DestinationOf(copy) : SourceOf(copy);
  Shape shape;
  shape.width = copy.WidthInBytes;
  shape.height = copy.Height;
  shape.depth = copy.Depth;
  shape.host = PitchOf(host, copy);
  shape.device = PitchOf(device, copy);
  CopyRequest request;
  request.direction = direction;
  request.host = reinterpret_cast<void*>(FirstByte(host, shape.host));
  if (device.type == CU_MEMORYTYPE_ARRAY) {
    request.array = ArrayPlace{device.array, device.x, device.y, device.z};
    request.shape = shape;
  } else {
    request.device = FirstByte(device, shape.device);
    request.shape = Simplified(shape);
  }
  return request;
}

absl::Status NodesOf(const Driver& driver, CUgraph graph,
                     std::vector<CUgraphNode>* nodes) {
  size_t count = 0;
  if (absl::Status status = CudaStatus(
          driver.GraphGetNodes(graph, nullptr, &count), "cuGraphGetNodes");
      !status.ok() || count == 0) {
    return status;
  }
  nodes->resize(count);
  return CudaStatus(driver.GraphGetNodes(graph, nodes->data(), &count),
                    "cuGraphGetNodes");
}

using Neighbours = CUresult(CUDAAPI*)(CUgraphNode node, CUgraphNode* found,
                                      size_t* count);

absl::Status NeighboursOf(Neighbours ask, const char* name, CUgraphNode node,
                          std::vector<CUgraphNode>* found) {
  size_t count = 0;
  if (absl::Status status = CudaStatus(ask(node, nullptr, &count), name);
      !status.ok() || count == 0) {
    return status;
  }
  found->resize(count);
  return CudaStatus(ask(node, found->data(), &count), name);
}

// The operations of a replay, in the order that graph_core.h argues for.
absl::Status EnqueueReplay(const Driver& driver, const CopyRequest& request,
                           const Transfer& transfer, const ReplayPlace& place) {
  const CUdeviceptr line = place.line;
  const auto enqueue = [&](std::vector<CUstreamBatchMemOpParams> operations) {
    return CudaStatus(
        driver.StreamBatchMemOp(request.stream,
                                static_cast<unsigned>(operations.size()),
                                operations.data(), 0),
        "cuStreamBatchMemOp");
  };
  std::vector<CUstreamBatchMemOpParams> before = {
      WriteOperation(line + kDoneOffset, 0),
      WriteOperation(line + kReadyOffset, 1)};
  for (uint32_t chunk = 0; chunk < transfer.chunks; ++chunk) {
    const Sequence number = transfer.ChunkSequence(chunk);
    before.push_back(WaitOperation(line + kPermittedOffset, number));
    if (absl::Status status = enqueue(std::move(before)); !status.ok())
      return status;
    if (absl::Status status =
            CopyChunk(driver, request, transfer.ChunkOffset(chunk),
                      transfer.ChunkBytes(chunk),
                      place.ring + transfer.ChunkSlot(chunk).offset);
        !status.ok()) {
      return status;
    }
    before = {WriteOperation(line + kDoneOffset, number)};
  }
  if (transfer.direction == Direction::kDeviceToHost)
    before.push_back(
        WaitOperation(line + kDrainedOffset, transfer.LastSequence()));
  if (place.permitted_first_for_test)
    before.push_back(WriteOperation(line + kPermittedOffset, 0));
  before.push_back(WriteOperation(line + kReadyOffset, 0));
  before.push_back(WriteOperation(line + kDrainedOffset, 0));
  if (!place.permitted_first_for_test)
    before.push_back(WriteOperation(line + kPermittedOffset, 0));
  return enqueue(std::move(before));
}

// Those operations as a graph of their own.
absl::Status MakeReplay(const Driver& driver, CopyRequest request,
                        const Transfer& transfer, const ReplayPlace& place,
                        CUgraph* replay) {
  if (absl::Status status =
          CudaStatus(driver.StreamCreateWithPriority(&request.stream,
                                                     CU_STREAM_NON_BLOCKING, 0),
                     "cuStreamCreateWithPriority");
      !status.ok()) {
    return status;
  }
  // Nothing runs in it; a driver that refuses to destroy it keeps it.
  const absl::Cleanup destroy = [&] {
    (void)driver.StreamDestroy(request.stream);
  };
  if (absl::Status status =
          CudaStatus(driver.StreamBeginCapture(request.stream,
                                               CU_STREAM_CAPTURE_MODE_RELAXED),
                     "cuStreamBeginCapture");
      !status.ok()) {
    return status;
  }
  absl::Status enqueued = EnqueueReplay(driver, request, transfer, place);
  const absl::Status ended = CudaStatus(
      driver.StreamEndCapture(request.stream, replay), "cuStreamEndCapture");
  if (enqueued.ok()) return ended;
  if (ended.ok()) (void)driver.GraphDestroy(*replay);
  return enqueued;
}

}  // namespace

bool CanEditGraphs(const Driver& driver) {
  return driver.StreamBatchMemOp != nullptr && driver.GraphClone != nullptr &&
         driver.GraphGetNodes != nullptr &&
         driver.GraphNodeGetType != nullptr &&
         driver.GraphMemcpyNodeGetParams != nullptr &&
         driver.GraphNodeGetDependencies != nullptr &&
         driver.GraphNodeGetDependentNodes != nullptr &&
         driver.GraphAddDependencies != nullptr &&
         driver.GraphAddChildGraphNode != nullptr &&
         driver.GraphChildGraphNodeGetGraph != nullptr &&
         driver.GraphDestroyNode != nullptr &&
         driver.GraphNodeFindInClone != nullptr &&
         driver.UserObjectCreate != nullptr &&
         driver.UserObjectRelease != nullptr &&
         driver.GraphRetainUserObject != nullptr &&
         driver.GraphReleaseUserObject != nullptr;
}

absl::Status FindStagedNodes(const Driver& driver, CUgraph graph,
                             IsStaged staged, std::vector<StagedNode>* nodes) {
  std::vector<CUgraphNode> all;
  if (absl::Status status = NodesOf(driver, graph, &all); !status.ok())
    return status;
  for (CUgraphNode node : all) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    if (absl::Status status = CudaStatus(driver.GraphNodeGetType(node, &type),
                                         "cuGraphNodeGetType");
        !status.ok()) {
      return status;
    }
    if (type == CU_GRAPH_NODE_TYPE_GRAPH) {
      CUgraph child = nullptr;
      absl::Status status =
          CudaStatus(driver.GraphChildGraphNodeGetGraph(node, &child),
                     "cuGraphChildGraphNodeGetGraph");
      if (status.ok()) status = FindStagedNodes(driver, child, staged, nodes);
      if (!status.ok()) return status;
    }
    if (type != CU_GRAPH_NODE_TYPE_MEMCPY) continue;
    CUDA_MEMCPY3D copy = {};
    if (absl::Status status =
            CudaStatus(driver.GraphMemcpyNodeGetParams(node, &copy),
                       "cuGraphMemcpyNodeGetParams");
        !status.ok()) {
      return status;
    }
    const bool in = IsStagedEnd(SourceOf(copy), staged);
    const bool out = IsStagedEnd(DestinationOf(copy), staged);
    const bool empty =
        copy.WidthInBytes == 0 || copy.Height == 0 || copy.Depth == 0;
    if ((!in && !out) || empty) continue;
    StagedNode found;
    found.graph = graph;
    found.node = node;
    found.src = reinterpret_cast<const void*>(AddressOf(SourceOf(copy)));
    found.dst = reinterpret_cast<const void*>(AddressOf(DestinationOf(copy)));
    found.possible = in != out;
    if (found.possible) {
      found.request = RequestOf(
          copy, in ? Direction::kHostToDevice : Direction::kDeviceToHost);
    }
    nodes->push_back(found);
  }
  return absl::OkStatus();
}

absl::Status ReplaceNode(const Driver& driver, const StagedNode& node,
                         const Transfer& transfer, const ReplayPlace& place) {
  std::vector<CUgraphNode> before;
  std::vector<CUgraphNode> after;
  if (absl::Status status =
          NeighboursOf(driver.GraphNodeGetDependencies,
                       "cuGraphNodeGetDependencies", node.node, &before);
      !status.ok()) {
    return status;
  }
  if (absl::Status status =
          NeighboursOf(driver.GraphNodeGetDependentNodes,
                       "cuGraphNodeGetDependentNodes", node.node, &after);
      !status.ok()) {
    return status;
  }
  CUgraph replay = nullptr;
  if (absl::Status status =
          MakeReplay(driver, node.request, transfer, place, &replay);
      !status.ok()) {
    return status;
  }
  CUgraphNode added = nullptr;
  absl::Status status =
      CudaStatus(driver.GraphAddChildGraphNode(
                     &added, node.graph, before.data(), before.size(), replay),
                 "cuGraphAddChildGraphNode");
  // The node has a copy of it.
  (void)driver.GraphDestroy(replay);
  if (!status.ok()) return status;
  const std::vector<CUgraphNode> from(after.size(), added);
  if (!after.empty()) {
    status = CudaStatus(driver.GraphAddDependencies(node.graph, from.data(),
                                                    after.data(), after.size()),
                        "cuGraphAddDependencies");
    if (!status.ok()) return status;
  }
  return CudaStatus(driver.GraphDestroyNode(node.node), "cuGraphDestroyNode");
}

}  // namespace pinring
