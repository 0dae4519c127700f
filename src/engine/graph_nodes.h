// Copies of staged memory as nodes of a graph, in the driver's words: finding
// them, and putting operations through the ring in their place.
//
// Makes calls that are legal in relaxed capture mode only.

#ifndef PINRING_SRC_ENGINE_GRAPH_NODES_H_
#define PINRING_SRC_ENGINE_GRAPH_NODES_H_

#include <cuda.h>

#include <cstddef>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "src/driver/driver.h"
#include "src/engine/copy_request.h"
#include "src/engine/transfer.h"

namespace pinring {

// Whether an address lies in a staged block.
using IsStaged = absl::FunctionRef<bool(const void* address)>;

struct StagedNode {
  CUgraph graph = nullptr;  // that it is a node of: the one looked at, or a
                            // child graph in it
  CUgraphNode node = nullptr;
  const void* src = nullptr;  // null: an array
  const void* dst = nullptr;
  // False: the ring cannot take it (both ends are staged), and
  // there is no request.
  bool possible = false;
  CopyRequest request;  // without a stream
};

// Whether the driver has all that the functions below call. Others are not
// called where it has not.
bool CanEditGraphs(const Driver& driver);

// The copies from and to staged memory in a graph and its child graphs.
absl::Status FindStagedNodes(const Driver& driver, CUgraph graph,
                             IsStaged staged, std::vector<StagedNode>* nodes);

// Where a replay's flags are for the device, and its slots for the host.
struct ReplayPlace {
  CUdeviceptr line = 0;
  std::byte* ring = nullptr;
  // For the test that shows why the order of the resets matters.
  bool permitted_first_for_test = false;
};

// Puts a replayed transfer (graph_core.h) in the place of a copy.
absl::Status ReplaceNode(const Driver& driver, const StagedNode& node,
                         const Transfer& transfer, const ReplayPlace& place);

}  // namespace pinring

#endif  // PINRING_SRC_ENGINE_GRAPH_NODES_H_
