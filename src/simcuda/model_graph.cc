// Graphs: looking at them, cloning and editing them, launching them.

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "src/simcuda/model.h"

namespace pinring::simcuda {
namespace {

CUgraphNodeType TypeOf(const GraphNode& node) {
  if (node.child != nullptr) return CU_GRAPH_NODE_TYPE_GRAPH;
  switch (node.op->kind) {
    case OpKind::kCopy:
      return CU_GRAPH_NODE_TYPE_MEMCPY;
    case OpKind::kMemset:
      return CU_GRAPH_NODE_TYPE_MEMSET;
    case OpKind::kKernel:
      return CU_GRAPH_NODE_TYPE_KERNEL;
    case OpKind::kMemoryOperations:
      return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    case OpKind::kHostFunction:
      return CU_GRAPH_NODE_TYPE_HOST;
    case OpKind::kEventRecord:
    case OpKind::kEventWait:
      break;
  }
  return CU_GRAPH_NODE_TYPE_EMPTY;
}

// As many as there is room for; how many there are, where there is none.
CUresult Tell(const std::vector<CUgraphNode>& found, CUgraphNode* nodes,
              size_t* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (nodes == nullptr) {
    *count = found.size();
    return CUDA_SUCCESS;
  }
  for (size_t i = 0; i < *count; ++i)
    nodes[i] = i < found.size() ? found[i] : nullptr;
  *count = std::min(*count, found.size());
  return CUDA_SUCCESS;
}

// The nodes in an order that their dependencies allow, the first added first;
// fewer of them where the dependencies run in a circle.
std::vector<const GraphNode*> Sorted(const Graph& graph) {
  std::vector<const GraphNode*> sorted;
  const auto placed = [&](const GraphNode* node) {
    return std::find(sorted.begin(), sorted.end(), node) != sorted.end();
  };
  for (bool more = true; more;) {
    more = false;
    for (const auto& node : graph.nodes) {
      if (placed(node.get()) ||
          !std::all_of(node->after.begin(), node->after.end(), placed)) {
        continue;
      }
      sorted.push_back(node.get());
      more = true;
    }
  }
  return sorted;
}

// All operations, those of child graphs in their places.
bool Flatten(const Graph& graph, GraphExec* exec) {
  const std::vector<const GraphNode*> sorted = Sorted(graph);
  if (sorted.size() != graph.nodes.size()) return false;
  exec->objects->insert(exec->objects->end(), graph.objects.begin(),
                        graph.objects.end());
  return std::all_of(sorted.begin(), sorted.end(), [&](const GraphNode* node) {
    if (node->child != nullptr) return Flatten(*node->child, exec);
    exec->recorded.push_back(node->op);
    return true;
  });
}

}  // namespace

UserObject::~UserObject() {
  const std::shared_ptr<std::deque<OpRef>> host_functions = queue.lock();
  if (host_functions == nullptr) {  // the machine is at its end
    destroy(data);
    return;
  }
  auto op = std::make_shared<Op>();
  op->kind = OpKind::kHostFunction;
  op->host_function = destroy;
  op->user_data = data;
  host_functions->push_back(std::move(op));
}

std::shared_ptr<Graph> Model::NewGraph() {
  auto graph = std::make_shared<Graph>();
  graph->handle = graphs_.Add(graph);
  return graph;
}

GraphNode* Model::AddNode(Graph& graph, OpRef op,
                          std::shared_ptr<Graph> child) {
  auto node = std::make_unique<GraphNode>();
  node->op = std::move(op);
  node->child = std::move(child);
  if (node->child != nullptr) node->child->child = true;
  node->graph = &graph;
  node->handle = nodes_.Add(node.get());
  graph.nodes.push_back(std::move(node));
  return graph.nodes.back().get();
}

std::shared_ptr<Graph> Model::CloneGraph(const Graph& graph) {
  const std::shared_ptr<Graph> clone = NewGraph();
  clone->objects = graph.objects;
  std::map<const GraphNode*, GraphNode*> clones;
  for (const auto& node : graph.nodes) {
    clones[node.get()] =
        AddNode(*clone, node->op,
                node->child == nullptr ? nullptr : CloneGraph(*node->child));
  }
  for (const auto& node : graph.nodes) {
    clones[node.get()]->original = node->handle;
    for (const GraphNode* before : node->after)
      clones[node.get()]->after.push_back(clones[before]);
  }
  return clone;
}

void Model::ForgetNode(const GraphNode& node) {
  if (node.child != nullptr) ForgetGraph(*node.child);
  nodes_.Remove(node.handle);
}

void Model::ForgetGraph(Graph& graph) {
  for (const auto& node : graph.nodes) ForgetNode(*node);
  graphs_.Remove(graph.handle);
}

CUresult Model::FindNodes(const CUgraphNode* handles, size_t count,
                          const Graph& graph, std::vector<GraphNode*>* nodes) {
  if (count != 0 && handles == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    GraphNode** const node = nodes_.Find(handles[i]);
    if (node == nullptr || (*node)->graph != &graph)
      return CUDA_ERROR_INVALID_VALUE;
    nodes->push_back(*node);
  }
  return CUDA_SUCCESS;
}

CUresult Model::GraphClone(CUgraph* clone, CUgraph original) {
  const std::shared_ptr<Graph>* graph = graphs_.Find(original);
  if (clone == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *clone = CloneGraph(**graph)->handle;
  return CUDA_SUCCESS;
}

CUresult Model::GraphNodeFindInClone(CUgraphNode* node, CUgraphNode original,
                                     CUgraph clone) {
  const std::shared_ptr<Graph>* graph = graphs_.Find(clone);
  if (node == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& one : (*graph)->nodes) {
    if (one->original != original) continue;
    *node = one->handle;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult Model::GraphGetNodes(CUgraph handle, CUgraphNode* nodes,
                              size_t* count) {
  const std::shared_ptr<Graph>* graph = graphs_.Find(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> found;
  for (const auto& node : (*graph)->nodes) found.push_back(node->handle);
  return Tell(found, nodes, count);
}

CUresult Model::GraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
  GraphNode** const node = nodes_.Find(handle);
  if (node == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *type = TypeOf(**node);
  return CUDA_SUCCESS;
}

// What the operation kept of its description: addresses, and what they are of.
void Model::DescribeCopy(const Op& op, CUDA_MEMCPY3D* copy) const {
  *copy = {};
  const auto describe = [&](const char* at, const Strides& strides,
                            CUmemorytype* type, CUdeviceptr* device,
                            size_t* pitch, size_t* height, CUarray* array,
                            size_t* x, size_t* y, size_t* z) {
    const Block* const block = memory_.Find(at);
    *type = block != nullptr && !block->pinned() ? CU_MEMORYTYPE_DEVICE
                                                 : CU_MEMORYTYPE_HOST;
    for (const auto& [handle, one] : arrays_) {
      if (block == nullptr || !block->Contains(one.memory, 1)) continue;
      const auto offset = static_cast<size_t>(at - one.memory);
      const size_t rest = offset % one.strides.slice;
      *type = CU_MEMORYTYPE_ARRAY;
      *array = handle;
      *x = rest % one.strides.row;
      *y = rest / one.strides.row;
      *z = offset / one.strides.slice;
      return;
    }
    *device = reinterpret_cast<CUdeviceptr>(at);
    *pitch = strides.row == 0 ? op.shape.width : strides.row;
    *height = strides.slice == 0 ? op.shape.height : strides.slice / *pitch;
  };
  describe(op.src, op.src_strides, &copy->srcMemoryType, &copy->srcDevice,
           &copy->srcPitch, &copy->srcHeight, &copy->srcArray,
           &copy->srcXInBytes, &copy->srcY, &copy->srcZ);
  describe(op.dst, op.dst_strides, &copy->dstMemoryType, &copy->dstDevice,
           &copy->dstPitch, &copy->dstHeight, &copy->dstArray,
           &copy->dstXInBytes, &copy->dstY, &copy->dstZ);
  if (copy->srcMemoryType == CU_MEMORYTYPE_HOST) {
    copy->srcDevice = 0;
    copy->srcHost = op.src;
  }
  if (copy->dstMemoryType == CU_MEMORYTYPE_HOST) {
    copy->dstDevice = 0;
    copy->dstHost = op.dst;
  }
  copy->WidthInBytes = op.shape.width;
  copy->Height = op.shape.height;
  copy->Depth = op.shape.depth;
}

CUresult Model::GraphMemcpyNodeGetParams(CUgraphNode handle,
                                         CUDA_MEMCPY3D* copy) {
  GraphNode** const node = nodes_.Find(handle);
  if (node == nullptr || copy == nullptr ||
      TypeOf(**node) != CU_GRAPH_NODE_TYPE_MEMCPY) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  DescribeCopy(*(*node)->op, copy);
  return CUDA_SUCCESS;
}

CUresult Model::GraphNodeGetDependencies(CUgraphNode handle,
                                         CUgraphNode* dependencies,
                                         size_t* count) {
  GraphNode** const node = nodes_.Find(handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> found;
  for (const GraphNode* before : (*node)->after)
    found.push_back(before->handle);
  return Tell(found, dependencies, count);
}

CUresult Model::GraphNodeGetDependentNodes(CUgraphNode handle,
                                           CUgraphNode* dependents,
                                           size_t* count) {
  GraphNode** const node = nodes_.Find(handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> found;
  for (const auto& other : (*node)->graph->nodes) {
    if (std::find(other->after.begin(), other->after.end(), *node) !=
        other->after.end()) {
      found.push_back(other->handle);
    }
  }
  return Tell(found, dependents, count);
}

CUresult Model::GraphAddDependencies(CUgraph handle, const CUgraphNode* from,
                                     const CUgraphNode* to, size_t count) {
  const std::shared_ptr<Graph>* graph = graphs_.Find(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> before;
  std::vector<GraphNode*> after;
  PINRING_SIMCUDA_TRY(FindNodes(from, count, **graph, &before));
  PINRING_SIMCUDA_TRY(FindNodes(to, count, **graph, &after));
  for (size_t i = 0; i < count; ++i) {
    auto& known = after[i]->after;
    if (before[i] == after[i] ||
        std::find(known.begin(), known.end(), before[i]) != known.end()) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    known.push_back(before[i]);
  }
  return CUDA_SUCCESS;
}

CUresult Model::GraphAddChildGraphNode(CUgraphNode* node, CUgraph handle,
                                       const CUgraphNode* dependencies,
                                       size_t count, CUgraph child) {
  const std::shared_ptr<Graph>* found = graphs_.Find(handle);
  const std::shared_ptr<Graph>* found_child = graphs_.Find(child);
  if (node == nullptr || found == nullptr || found_child == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Graph> graph = *found;
  const std::shared_ptr<Graph> original = *found_child;
  std::vector<GraphNode*> before;
  PINRING_SIMCUDA_TRY(FindNodes(dependencies, count, *graph, &before));
  GraphNode* const added = AddNode(*graph, nullptr, CloneGraph(*original));
  added->after = std::move(before);
  *node = added->handle;
  return CUDA_SUCCESS;
}

CUresult Model::GraphChildGraphNodeGetGraph(CUgraphNode handle,
                                            CUgraph* graph) {
  GraphNode** const node = nodes_.Find(handle);
  if (node == nullptr || graph == nullptr || (*node)->child == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  *graph = (*node)->child->handle;
  return CUDA_SUCCESS;
}

CUresult Model::GraphDestroyNode(CUgraphNode handle) {
  GraphNode** const found = nodes_.Find(handle);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  GraphNode* const node = *found;
  Graph& graph = *node->graph;
  for (const auto& other : graph.nodes) std::erase(other->after, node);
  ForgetNode(*node);
  std::erase_if(graph.nodes,
                [&](const auto& one) { return one.get() == node; });
  return CUDA_SUCCESS;
}

// Without destruction in the program's own calls: the only kind there is.
CUresult Model::UserObjectCreate(CUuserObject* object, void* data,
                                 CUhostFn destroy, unsigned references,
                                 unsigned flags) {
  if (object == nullptr || destroy == nullptr || references == 0 ||
      flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *object = user_objects_.Add(
      {std::make_shared<UserObject>(destroy, data, host_functions_),
       references});
  return CUDA_SUCCESS;
}

// A handle to which the program has no reference left is not kept.
CUresult Model::UserObjectRelease(CUuserObject handle, unsigned count) {
  OwnedUserObject* const owned = user_objects_.Find(handle);
  if (owned == nullptr || count == 0 || count > owned->references)
    return CUDA_ERROR_INVALID_VALUE;
  owned->references -= count;
  if (owned->references == 0) user_objects_.Remove(handle);
  ++version_;
  return CUDA_SUCCESS;
}

CUresult Model::GraphRetainUserObject(CUgraph handle, CUuserObject object,
                                      unsigned count, unsigned flags) {
  const std::shared_ptr<Graph>* graph = graphs_.Find(handle);
  OwnedUserObject* const owned = user_objects_.Find(object);
  if (graph == nullptr || owned == nullptr || count == 0 ||
      (flags & ~unsigned{CU_GRAPH_USER_OBJECT_MOVE}) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool move = (flags & CU_GRAPH_USER_OBJECT_MOVE) != 0;
  if (move && count > owned->references) return CUDA_ERROR_INVALID_VALUE;
  (*graph)->objects.insert((*graph)->objects.end(), count, owned->object);
  return move ? UserObjectRelease(object, count) : CUDA_SUCCESS;
}

CUresult Model::GraphReleaseUserObject(CUgraph handle, CUuserObject object,
                                       unsigned count) {
  const std::shared_ptr<Graph>* graph = graphs_.Find(handle);
  OwnedUserObject* const owned = user_objects_.Find(object);
  if (graph == nullptr || owned == nullptr || count == 0)
    return CUDA_ERROR_INVALID_VALUE;
  UserObjects& objects = (*graph)->objects;
  if (std::count(objects.begin(), objects.end(), owned->object) <
      static_cast<std::ptrdiff_t>(count)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (; count > 0; --count)
    objects.erase(std::find(objects.begin(), objects.end(), owned->object));
  ++version_;
  return CUDA_SUCCESS;
}

CUresult Model::GraphInstantiateWithFlags(CUgraphExec* exec, CUgraph handle,
                                          unsigned long long) {
  Context* context;
  PINRING_SIMCUDA_TRY(Current(&context));
  const std::shared_ptr<Graph>* graph = graphs_.Find(handle);
  if (exec == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto made = std::make_shared<GraphExec>();
  made->objects = std::make_shared<UserObjects>();
  if (!Flatten(**graph, made.get())) return CUDA_ERROR_INVALID_VALUE;
  Lock lock;
  PINRING_SIMCUDA_TRY(
      lock.Acquire(*this, *context, "cuGraphInstantiateWithFlags"));
  *exec = execs_.Add(std::move(made));
  return CUDA_SUCCESS;
}

// A launch takes one entry in the queue of its first operation; the others
// follow without waiting for room.
CUresult Model::GraphLaunch(CUgraphExec handle, CUstream stream) {
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(stream, &target));
  const std::shared_ptr<GraphExec>* found = execs_.Find(handle);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<GraphExec> exec = *found;
  OpRef last;
  {
    Lock lock;
    PINRING_SIMCUDA_TRY(lock.Acquire(*this, *target.context, "cuGraphLaunch"));
    for (const OpRef& recorded : exec->recorded) {
      OpRef op = recorded->Clone();
      if (last == nullptr) {
        // Room first: another launch of the graph may come in between.
        PINRING_SIMCUDA_TRY(AwaitRoom("cuGraphLaunch", target, *op, lock));
        if (exec->latest != nullptr && !exec->latest->done)
          op->after.push_back(exec->latest);
        PINRING_SIMCUDA_TRY(Submit("cuGraphLaunch", target, op, lock));
      } else if (target.stream->capture != nullptr) {
        PINRING_SIMCUDA_TRY(Record(target, op));
      } else {
        op->entries = 0;
        target.context->device.Enqueue(target.stream, op);
      }
      last = std::move(op);
    }
    if (last == nullptr || last->number == 0) return CUDA_SUCCESS;
    last->owned_data = exec->objects;
    exec->latest = last;
    ++version_;
  }
  return options_.launch_blocking
             ? WaitForOp(*target.context, "cuGraphLaunch", last)
             : CUDA_SUCCESS;
}

CUresult Model::GraphExecDestroy(CUgraphExec exec) {
  return execs_.Remove(exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// A graph that belongs to a node goes with the node.
CUresult Model::GraphDestroy(CUgraph handle) {
  const std::shared_ptr<Graph>* found = graphs_.Find(handle);
  if (found == nullptr || (*found)->child) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Graph> graph = *found;
  ForgetGraph(*graph);
  ++version_;
  return CUDA_SUCCESS;
}

}  // namespace pinring::simcuda
