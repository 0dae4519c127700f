// Graphs by the C functions: captured copies of staged blocks that go through
// the ring, and what becomes of those that cannot. On a simulated device or
// (PINRING_TEST_DRIVER=native) on a GPU.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "include/pinring/pinring.h"
#include "src/capi/default_instance.h"
#include "tests/support/default_instance_test.h"
#include "tests/support/testbed.h"

namespace pinring {
namespace {

constexpr size_t kBytes = 300'000;

class CapiGraphTest : public DefaultInstanceTest {
 protected:
  const Driver& cu() { return bed_->driver(); }

  void MakeBlocks() {
    ASSERT_EQ(pinringMallocHost(&in_, kBytes), cudaSuccess);
    ASSERT_EQ(pinringMallocHost(&out_, kBytes), cudaSuccess);
    ASSERT_EQ(pinringGetBlockKind(in_), pinringBlockStaged);
    device_ = reinterpret_cast<void*>(bed_->DeviceBuffer(kBytes));
    stream_ = bed_->NonBlockingStream();
  }
  void FreeBlocks() {
    EXPECT_EQ(pinringFreeHost(in_), cudaSuccess);
    EXPECT_EQ(pinringFreeHost(out_), cudaSuccess);
  }
  // in -> device -> out.
  void CopyThereAndBack() {
    ASSERT_EQ(pinringMemcpyAsync(device_, in_, kBytes, cudaMemcpyHostToDevice,
                                 stream_),
              cudaSuccess);
    ASSERT_EQ(pinringMemcpyAsync(out_, device_, kBytes, cudaMemcpyDeviceToHost,
                                 stream_),
              cudaSuccess);
  }
  cudaGraph_t Capture() {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(
        pinringStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
        cudaSuccess);
    CopyThereAndBack();
    EXPECT_EQ(pinringStreamEndCapture(stream_, &graph), cudaSuccess);
    return graph;
  }
  cudaGraphExec_t Instantiate(cudaGraph_t graph) {
    cudaGraphExec_t executable = nullptr;
    EXPECT_EQ(pinringGraphInstantiate(&executable, graph, 0), cudaSuccess)
        << pinringGetLastErrorMessage();
    return executable;
  }
  bool Staged(cudaGraphExec_t executable, cudaGraph_t graph) {
    const cudaError_t error = pinringGraphPrepareUpdate(executable, graph);
    return error == cudaErrorGraphExecUpdateFailure;
  }
  // Whether a replay brings new bytes there and back.
  bool Replays(cudaGraphExec_t executable) {
    std::memset(in_, ++value_, kBytes);
    EXPECT_EQ(pinringGraphLaunch(executable, stream_), cudaSuccess)
        << pinringGetLastErrorMessage();
    EXPECT_EQ(cu().StreamSynchronize(stream_), CUDA_SUCCESS);
    return std::memcmp(in_, out_, kBytes) == 0;
  }
  static uint64_t Promotions() {
    pinringUsage usage = PINRING_USAGE_INIT;
    EXPECT_EQ(pinringGetUsage(&usage), cudaSuccess);
    return usage.events[pinringEventPromotedNoSlot];
  }
  static uint64_t PromotedBytes() {
    pinringUsage usage = PINRING_USAGE_INIT;
    EXPECT_EQ(pinringGetUsage(&usage), cudaSuccess);
    return usage.kinds[pinringUsagePromoted].currentBytes;
  }
  static size_t GraphCopies() {
    const NoInstance* error = nullptr;
    return DefaultInstance(&error)->engine().graph_copies();
  }
  // The driver lets go of a graph in its own time.
  static size_t GraphCopiesInTheEnd(size_t expected) {
    for (int i = 0; i < 300 && GraphCopies() != expected; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return GraphCopies();
  }

  void* in_ = nullptr;
  void* out_ = nullptr;
  void* device_ = nullptr;
  CUstream stream_ = nullptr;
  int value_ = 0;
};

TEST_F(CapiGraphTest, ReplaysGoThroughTheRing) {
  MakeBlocks();
  const cudaGraph_t graph = Capture();
  const cudaGraphExec_t executable = Instantiate(graph);
  EXPECT_EQ(GraphCopies(), 2u);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Replays(executable));
  EXPECT_EQ(PromotedBytes(), 0u);
  EXPECT_TRUE(Staged(executable, graph));
  EXPECT_EQ(pinringGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cu().GraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(GraphCopiesInTheEnd(0), 0u);
  FreeBlocks();
}

// Nobody tells of the launch: the movers look from time to time.
TEST_F(CapiGraphTest, ALaunchThatIsNotSeenIsNoticed) {
  MakeBlocks();
  const cudaGraph_t graph = Capture();
  const cudaGraphExec_t executable = Instantiate(graph);
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::memset(in_, 10 + i, kBytes);
    ASSERT_EQ(cu().GraphLaunch(executable, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cu().StreamSynchronize(stream_), CUDA_SUCCESS);
    ASSERT_EQ(std::memcmp(in_, out_, kBytes), 0);
  }
  EXPECT_EQ(pinringGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cu().GraphDestroy(graph), CUDA_SUCCESS);
  FreeBlocks();
}

TEST_F(CapiGraphTest, ExecutableGraphsOfOneGraphRunSideBySide) {
  MakeBlocks();
  const cudaGraph_t graph = Capture();
  const cudaGraphExec_t one = Instantiate(graph);
  const cudaGraphExec_t other = Instantiate(graph);
  EXPECT_EQ(cu().GraphDestroy(graph), CUDA_SUCCESS);
  const CUstream second = bed_->NonBlockingStream();
  for (int i = 1; i < 6; ++i) {
    std::memset(in_, i, kBytes);
    std::memset(out_, 0, kBytes);
    ASSERT_EQ(pinringGraphLaunch(one, stream_), cudaSuccess);
    ASSERT_EQ(pinringGraphLaunch(other, second), cudaSuccess);
    ASSERT_EQ(pinringGraphLaunch(one, second), cudaSuccess);
    ASSERT_EQ(cu().StreamSynchronize(stream_), CUDA_SUCCESS);
    ASSERT_EQ(cu().StreamSynchronize(second), CUDA_SUCCESS);
    ASSERT_EQ(std::memcmp(in_, out_, kBytes), 0);
  }
  EXPECT_EQ(pinringGraphExecDestroy(one), cudaSuccess);
  EXPECT_TRUE(Replays(other));
  EXPECT_EQ(pinringGraphExecDestroy(other), cudaSuccess);
  EXPECT_EQ(GraphCopiesInTheEnd(0), 0u);
  FreeBlocks();
}

TEST_F(CapiGraphTest, AFreeWaitsForAReplayThatIsQueued) {
  MakeBlocks();
  const cudaGraph_t graph = Capture();
  const cudaGraphExec_t executable = Instantiate(graph);
  Gate gate(*bed_);
  gate.Hold(stream_);
  std::memset(in_, 7, kBytes);
  ASSERT_EQ(pinringGraphLaunch(executable, stream_), cudaSuccess);
  CallOnThread free(
      *bed_, [&] { return static_cast<CUresult>(pinringFreeHost(in_)); });
  EXPECT_TRUE(free.Blocks());
  gate.Open();
  EXPECT_EQ(free.result(), CUDA_SUCCESS);
  ASSERT_EQ(cu().StreamSynchronize(stream_), CUDA_SUCCESS);
  const std::string seven(kBytes, 7);
  EXPECT_EQ(std::memcmp(out_, seven.data(), kBytes), 0);
  // What is launched now reads what is not there, natively; it ends.
  EXPECT_EQ(pinringGraphLaunch(executable, stream_), cudaSuccess);
  EXPECT_EQ(cu().StreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(pinringGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cu().GraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(pinringFreeHost(out_), cudaSuccess);
}

TEST_F(CapiGraphTest, AGraphThatIsDestroyedRunsToItsEnd) {
  MakeBlocks();
  const cudaGraph_t graph = Capture();
  const cudaGraphExec_t executable = Instantiate(graph);
  EXPECT_EQ(cu().GraphDestroy(graph), CUDA_SUCCESS);
  Gate gate(*bed_);
  gate.Hold(stream_);
  ASSERT_EQ(pinringGraphLaunch(executable, stream_), cudaSuccess);
  ASSERT_EQ(pinringGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(GraphCopies(), 2u);
  std::memset(in_, 9, kBytes);
  gate.Open();
  ASSERT_EQ(cu().StreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(std::memcmp(in_, out_, kBytes), 0);
  EXPECT_EQ(GraphCopiesInTheEnd(0), 0u);
  FreeBlocks();
}

TEST_F(CapiGraphTest, ACaptureThatBeganElsewherePromotes) {
  MakeBlocks();
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(
      cu().StreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
      CUDA_SUCCESS);
  CopyThereAndBack();
  ASSERT_EQ(cu().StreamEndCapture(stream_, &graph), CUDA_SUCCESS);
  EXPECT_GT(PromotedBytes(), 0u);
  const cudaGraphExec_t executable = Instantiate(graph);
  EXPECT_EQ(GraphCopies(), 0u);
  EXPECT_TRUE(Replays(executable));
  EXPECT_EQ(pinringGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cu().GraphDestroy(graph), CUDA_SUCCESS);
  FreeBlocks();
}

TEST_F(CapiGraphTest, WhereTheRingHasNoRoomInstantiationPromotes) {
  // A quarter of it is less than the slots of one copy.
  ASSERT_EQ(pinringConfigure("ring_bytes=64KiB, small_limit_bytes=0"),
            cudaSuccess);
  MakeBlocks();
  const cudaGraph_t graph = Capture();
  EXPECT_EQ(PromotedBytes(), 0u);
  testing::internal::CaptureStderr();
  const cudaGraphExec_t executable = Instantiate(graph);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("pinned in place"),
            std::string::npos);
  EXPECT_GT(PromotedBytes(), 0u);
  EXPECT_EQ(Promotions(), 2u);
  EXPECT_EQ(GraphCopies(), 0u);
  EXPECT_TRUE(Replays(executable));
  EXPECT_EQ(pinringGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cu().GraphDestroy(graph), CUDA_SUCCESS);
  FreeBlocks();
}

TEST_F(CapiGraphTest, AChildGraphIsStagedAsOftenAsItIsUsed) {
  MakeBlocks();
  const cudaGraph_t graph = Capture();
  CUgraph parent = nullptr;
  CUgraphNode nodes[2] = {};
  ASSERT_EQ(cu().GraphClone(&parent, graph), CUDA_SUCCESS);
  ASSERT_EQ(cu().GraphAddChildGraphNode(&nodes[0], parent, nullptr, 0, graph),
            CUDA_SUCCESS);
  ASSERT_EQ(cu().GraphAddChildGraphNode(&nodes[1], parent, nullptr, 0, graph),
            CUDA_SUCCESS);
  const cudaGraphExec_t executable = Instantiate(parent);
  EXPECT_EQ(GraphCopies(), 6u);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Replays(executable));
  EXPECT_EQ(pinringGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cu().GraphDestroy(parent), CUDA_SUCCESS);
  EXPECT_EQ(cu().GraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(GraphCopiesInTheEnd(0), 0u);
  FreeBlocks();
}

TEST_F(CapiGraphTest, NodesAreFoundUnlessTheyAreCopiesThroughTheRing) {
  MakeBlocks();
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(
      pinringStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
      cudaSuccess);
  CopyThereAndBack();
  ASSERT_EQ(cu().MemsetD8Async(reinterpret_cast<CUdeviceptr>(device_), 1,
                               kBytes, stream_),
            CUDA_SUCCESS);
  ASSERT_EQ(pinringStreamEndCapture(stream_, &graph), cudaSuccess);
  const cudaGraphExec_t executable = Instantiate(graph);
  CUgraphNode nodes[3] = {};
  size_t count = 3;
  ASSERT_EQ(cu().GraphGetNodes(graph, nodes, &count), CUDA_SUCCESS);
  ASSERT_EQ(count, 3u);
  for (CUgraphNode node : nodes) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    ASSERT_EQ(cu().GraphNodeGetType(node, &type), CUDA_SUCCESS);
    cudaGraphNode_t found = nullptr;
    const cudaError_t error = pinringGraphExecNode(executable, node, &found);
    if (type == CU_GRAPH_NODE_TYPE_MEMSET) {
      EXPECT_EQ(error, cudaSuccess);
      EXPECT_NE(found, node);
    } else {
      EXPECT_EQ(error, cudaErrorNotSupported);
    }
  }
  EXPECT_EQ(pinringGraphExecNode(executable, nodes[0], nullptr),
            cudaErrorInvalidValue);
  EXPECT_EQ(pinringGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cu().GraphDestroy(graph), CUDA_SUCCESS);
  FreeBlocks();
}

TEST_F(CapiGraphTest, ALaunchInACaptureIsRefusedWithWords) {
  MakeBlocks();
  const cudaGraph_t graph = Capture();
  const cudaGraphExec_t executable = Instantiate(graph);
  ASSERT_EQ(
      pinringStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal),
      cudaSuccess);
  EXPECT_EQ(pinringGraphLaunch(executable, stream_), cudaErrorNotSupported);
  EXPECT_NE(std::string(pinringGetLastErrorMessage()).find("child graph"),
            std::string::npos);
  cudaGraph_t empty = nullptr;
  EXPECT_EQ(pinringStreamEndCapture(stream_, &empty), cudaSuccess);
  EXPECT_EQ(cu().GraphDestroy(empty), CUDA_SUCCESS);
  EXPECT_TRUE(Replays(executable));
  EXPECT_EQ(pinringGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cu().GraphDestroy(graph), CUDA_SUCCESS);
  FreeBlocks();
}

TEST_F(CapiGraphTest, AfterPromotionAGraphIsAnOrdinaryOne) {
  MakeBlocks();
  const cudaGraph_t graph = Capture();
  ASSERT_EQ(pinringGraphPromote(graph), cudaSuccess);
  EXPECT_GT(PromotedBytes(), 0u);
  const cudaGraphExec_t executable = Instantiate(graph);
  EXPECT_EQ(GraphCopies(), 0u);
  EXPECT_FALSE(Staged(executable, graph));
  EXPECT_TRUE(Replays(executable));
  EXPECT_EQ(pinringGraphExecDestroy(executable), cudaSuccess);
  EXPECT_EQ(cu().GraphDestroy(graph), CUDA_SUCCESS);
  FreeBlocks();
}

// Whatever the driver refuses on the way: the graph is made, or it is not and
// nothing is left of it, and the next one is made.
TEST_F(CapiGraphTest, EveryCallOfAnInstantiationMayFail) {
  if (TestsRunNatively()) GTEST_SKIP() << "SIMULATED ONLY: faults";
  simcuda::Machine& machine = *bed_->machine();
  int failures = 0;
  size_t held = 0;  // by graphs that the driver would not let go of
  bool reached = true;
  for (uint64_t call = 0; reached; ++call) {
    // New ones each time: those of a graph that was refused are promoted.
    MakeBlocks();
    const cudaGraph_t graph = Capture();
    const uint64_t before = machine.TotalCalls();
    machine.InjectFault(
        {.function = "*", .call = call, .code = CUDA_ERROR_OPERATING_SYSTEM});
    cudaGraphExec_t executable = nullptr;
    const cudaError_t error = pinringGraphInstantiate(&executable, graph, 0);
    reached = machine.TotalCalls() - before > call;
    machine.ClearFaults();
    if (error == cudaSuccess) {
      EXPECT_TRUE(Replays(executable)) << "call " << call;
      EXPECT_EQ(pinringGraphExecDestroy(executable), cudaSuccess);
    } else {
      ++failures;
      EXPECT_EQ(error, cudaErrorOperatingSystem) << "call " << call;
    }
    for (int i = 0; i < 20 && GraphCopies() > held; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_LE(GraphCopies(), held + 2) << "call " << call;
    held = GraphCopies();
    EXPECT_EQ(cu().GraphDestroy(graph), CUDA_SUCCESS);
    FreeBlocks();
  }
  EXPECT_TRUE(machine.Hazards().empty());
  EXPECT_GT(failures, 20);
  // Where the driver refuses to destroy what holds them.
  EXPECT_LE(held, 6u);
}

TEST_F(CapiGraphTest, WrongArgumentsAreNamed) {
  cudaGraphExec_t executable = nullptr;
  EXPECT_EQ(pinringGraphInstantiate(&executable, nullptr, 0),
            cudaErrorInvalidValue);
  EXPECT_EQ(pinringGraphPromote(nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(pinringStreamBeginCapture(bed_->NonBlockingStream(),
                                      static_cast<cudaStreamCaptureMode>(3)),
            cudaErrorInvalidValue);
}

}  // namespace
}  // namespace pinring
