// What rows of the table do: launches, operations on words, and nodes of
// graphs.
//
// A handler's Run gets the driver's function and the program's arguments; where
// it finds no block in them it calls the one with the others.

#ifndef PINRING_SRC_PRELOAD_HANDLERS_LAUNCH_H_
#define PINRING_SRC_PRELOAD_HANDLERS_LAUNCH_H_

#include <cuda.h>

#include <cstddef>
#include <tuple>

#include "src/preload/launch.h"
#include "src/preload/promote.h"
#include "src/preload/staging.h"

namespace pinring::preload {

struct BatchMemOp {
  template <typename Row, typename Function>
  static CUresult Run(Function real, CUstream stream, unsigned count,
                      CUstreamBatchMemOpParams* operations, unsigned flags) {
    const CUresult code = PromoteArray(Row::kName, operations, count);
    return code != CUDA_SUCCESS ? code : real(stream, count, operations, flags);
  }
};

struct Launch {
  template <typename Row, typename Function>
  static CUresult Run(Function real, CUfunction kernel, unsigned grid_x,
                      unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared,
                      CUstream stream, void** parameters, void** extra) {
    const CUresult code =
        PromoteKernelArguments(Row::kName, kernel, parameters, extra);
    return code != CUDA_SUCCESS
               ? code
               : real(kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                      shared, stream, parameters, extra);
  }
};
struct LaunchEx {
  template <typename Row, typename Function>
  static CUresult Run(Function real, const CUlaunchConfig* config,
                      CUfunction kernel, void** parameters, void** extra) {
    const CUresult code =
        PromoteKernelArguments(Row::kName, kernel, parameters, extra);
    return code != CUDA_SUCCESS ? code
                                : real(config, kernel, parameters, extra);
  }
};
struct LaunchCooperative {
  template <typename Row, typename Function>
  static CUresult Run(Function real, CUfunction kernel, unsigned grid_x,
                      unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared,
                      CUstream stream, void** parameters) {
    const CUresult code =
        PromoteKernelArguments(Row::kName, kernel, parameters, nullptr);
    return code != CUDA_SUCCESS
               ? code
               : real(kernel, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                      shared, stream, parameters);
  }
};
struct LaunchMultiDevice {
  template <typename Row, typename Function>
  static CUresult Run(Function real, CUDA_LAUNCH_PARAMS* launches,
                      unsigned devices, unsigned flags) {
    for (unsigned i = 0; launches != nullptr && i < devices; ++i) {
      if (const CUresult code =
              PromoteKernelArguments(Row::kName, launches[i].function,
                                     launches[i].kernelParams, nullptr);
          code != CUDA_SUCCESS) {
        return code;
      }
    }
    return real(launches, devices, flags);
  }
};
struct ParamSetv {
  template <typename Row, typename Function>
  static CUresult Run(Function real, CUfunction kernel, int offset,
                      void* argument, unsigned bytes) {
    const CUresult code = PromoteWords(Row::kName, argument, bytes);
    return code != CUDA_SUCCESS ? code : real(kernel, offset, argument, bytes);
  }
};

// Handles that are gone may come back for other kernels.
struct UnloadCode {
  template <typename Row, typename Function, typename Handle>
  static CUresult Run(Function real, Handle handle) {
    const CUresult code = real(handle);
    ForgetKernels();
    return code;
  }
};

// A node names its kernel by a handle of either kind.
template <typename Node>
CUfunction KernelOf(const Node& node) {
  if constexpr (requires { node.kern; }) {
    if (node.func == nullptr) return reinterpret_cast<CUfunction>(node.kern);
  }
  return node.func;
}

// The calls that make a node or change one have its parameters last: Node says
// what becomes of them.
template <typename Node>
struct NodeParameters {
  template <typename Row, typename Function, typename... Arguments>
  static CUresult Run(Function real, Arguments... arguments) {
    const CUresult code = Node::Promote(
        Row::kName, std::get<sizeof...(Arguments) - 1>(std::tie(arguments...)));
    return code != CUDA_SUCCESS ? code : real(arguments...);
  }
};

struct KernelNode : NodeParameters<KernelNode> {
  template <typename Node>
  static CUresult Promote(const char* function, const Node* node) {
    return node == nullptr
               ? CUDA_SUCCESS
               : PromoteKernelArguments(function, KernelOf(*node),
                                        node->kernelParams, node->extra);
  }
};

struct BatchMemOpNode : NodeParameters<BatchMemOpNode> {
  static CUresult Promote(const char* function,
                          const CUDA_BATCH_MEM_OP_NODE_PARAMS* node) {
    return node == nullptr
               ? CUDA_SUCCESS
               : PromoteArray(function, node->paramArray, node->count);
  }
};

#if CUDA_VERSION >= 12030
struct GraphNode : NodeParameters<GraphNode> {
  static CUresult Promote(const char* function, const CUgraphNodeParams* node) {
    if (node == nullptr || !Blocks().MayHoldBlocks()) return CUDA_SUCCESS;
    switch (node->type) {
      case CU_GRAPH_NODE_TYPE_KERNEL:
        return PromoteKernelArguments(function, KernelOf(node->kernel),
                                      node->kernel.kernelParams,
                                      node->kernel.extra);
      case CU_GRAPH_NODE_TYPE_MEMCPY:
        return PromoteWords(function, &node->memcpy.copyParams,
                            sizeof(node->memcpy.copyParams));
      case CU_GRAPH_NODE_TYPE_MEMSET:
        return PromoteFor(function, Pointer(node->memset.dst));
      case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return PromoteArray(function, node->memOp.paramArray,
                            node->memOp.count);
      case CU_GRAPH_NODE_TYPE_HOST:
        return CUDA_SUCCESS;
      default:
        return PromoteWords(function, node, sizeof(*node));
    }
  }
};
#endif

}  // namespace pinring::preload

#endif  // PINRING_SRC_PRELOAD_HANDLERS_LAUNCH_H_
