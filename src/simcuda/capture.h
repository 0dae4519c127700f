// Stream capture and graphs, at their least: what a capture records is a list
// of operations in the order of the calls, each depending on the one before.
// Graphs can be looked at, cloned and edited; a replay runs the operations one
// after the other in the launching stream, in an order that the dependencies
// allow. Externally synchronized.

#ifndef PINRING_SRC_SIMCUDA_CAPTURE_H_
#define PINRING_SRC_SIMCUDA_CAPTURE_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "src/simcuda/op.h"

namespace pinring::simcuda {

struct Capture {
  uint64_t id = 0;
  StreamRef origin;
  uint64_t thread = 0;  // that began it
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  bool invalidated = false;
  std::vector<OpRef> recorded;
  std::set<StreamRef> streams;  // that capture now, the origin among them
  std::map<const Stream*, size_t>
      appended;  // how many operations each of them gave
  std::set<const Stream*>
      unjoined;  // that gave some which the origin does not wait for yet
};

// What a program ties to the life of graphs. Its destructor function runs on
// the thread of the host functions once no graph, executable graph or launch in
// progress holds it, at the latest when the machine ends.
struct UserObject {
  UserObject(CUhostFn function, void* user_data,
             const std::shared_ptr<std::deque<OpRef>>& host_functions)
      : destroy(function), data(user_data), queue(host_functions) {}
  ~UserObject();
  UserObject(const UserObject&) = delete;
  UserObject& operator=(const UserObject&) = delete;

  CUhostFn destroy;
  void* data;
  std::weak_ptr<std::deque<OpRef>> queue;
};
using UserObjects = std::vector<std::shared_ptr<UserObject>>;

struct Graph;

struct GraphNode {
  OpRef op;                      // never run itself; null for a child graph
  std::shared_ptr<Graph> child;  // the node's own
  std::vector<GraphNode*> after;
  Graph* graph = nullptr;
  CUgraphNode handle = nullptr;
  CUgraphNode original = nullptr;  // in a clone: of which
};

struct Graph {
  std::vector<std::unique_ptr<GraphNode>> nodes;
  UserObjects objects;
  CUgraph handle = nullptr;
  bool child = false;  // belongs to a node
};

struct GraphExec {
  std::vector<OpRef> recorded;
  std::shared_ptr<UserObjects> objects;
  OpRef latest;  // the last operation of its previous launch
};

struct Event {
  int device = 0;
  uint64_t generation = 0;
  unsigned flags = 0;
  OpRef record;  // null until recorded
  // Recorded in a capture instead: which, by which stream, and how much that
  // had appended then.
  std::shared_ptr<Capture> capture;
  const Stream* captured_from = nullptr;
  size_t captured_after = 0;
};

}  // namespace pinring::simcuda

#endif  // PINRING_SRC_SIMCUDA_CAPTURE_H_
