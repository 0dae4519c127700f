// Graphs looked at, cloned, edited and replayed, and user objects, as the CUDA
// documentation says and an H200 answers: checked on the simulated device and,
// with PINRING_TEST_DRIVER=native, on a GPU.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/testbed.h"

namespace pinring {
namespace {

#define EXPECT_CU(call) EXPECT_EQ((call), CUDA_SUCCESS)
#define ASSERT_CU(call) ASSERT_EQ((call), CUDA_SUCCESS)

class GraphTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = 4096;

  void SetUp() override {
    const std::string why = Testbed::WhySkip();
    if (!why.empty()) GTEST_SKIP() << why;
    testbed_ = std::make_unique<Testbed>();
    host_ = bed().PinnedBuffer(2 * kBytes);
    device_ = bed().DeviceBuffer(kBytes);
    stream_ = bed().NonBlockingStream();
  }

  Testbed& bed() { return *testbed_; }
  const Driver& cu() { return testbed_->driver(); }

  // host -> device -> host + kBytes.
  CUgraph RoundTrip() {
    CUgraph graph = nullptr;
    EXPECT_CU(
        cu().StreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    EXPECT_CU(cu().MemcpyHtoDAsync(device_, host_, kBytes, stream_));
    EXPECT_CU(cu().MemcpyDtoHAsync(host_ + kBytes, device_, kBytes, stream_));
    EXPECT_CU(cu().StreamEndCapture(stream_, &graph));
    return graph;
  }
  std::vector<CUgraphNode> Nodes(CUgraph graph) {
    size_t count = 0;
    EXPECT_CU(cu().GraphGetNodes(graph, nullptr, &count));
    std::vector<CUgraphNode> nodes(count);
    EXPECT_CU(cu().GraphGetNodes(graph, nodes.data(), &count));
    return nodes;
  }
  CUgraphNodeType Type(CUgraphNode node) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    EXPECT_CU(cu().GraphNodeGetType(node, &type));
    return type;
  }
  std::vector<CUgraphNode> DependenciesOf(CUgraphNode node) {
    size_t count = 0;
    EXPECT_CU(cu().GraphNodeGetDependencies(node, nullptr, &count));
    std::vector<CUgraphNode> nodes(count);
    EXPECT_CU(cu().GraphNodeGetDependencies(node, nodes.data(), &count));
    return nodes;
  }
  std::vector<CUgraphNode> DependentsOf(CUgraphNode node) {
    size_t count = 0;
    EXPECT_CU(cu().GraphNodeGetDependentNodes(node, nullptr, &count));
    std::vector<CUgraphNode> nodes(count);
    EXPECT_CU(cu().GraphNodeGetDependentNodes(node, nodes.data(), &count));
    return nodes;
  }
  CUgraphExec Instantiate(CUgraph graph) {
    CUgraphExec executable = nullptr;
    EXPECT_CU(cu().GraphInstantiateWithFlags(&executable, graph, 0));
    return executable;
  }
  // Replays once with new bytes; whether they came back.
  bool ComesBack(CUgraphExec executable) {
    ++value_;
    std::memset(host_, value_, kBytes);
    EXPECT_CU(cu().GraphLaunch(executable, stream_));
    EXPECT_CU(cu().StreamSynchronize(stream_));
    return std::memcmp(host_, host_ + kBytes, kBytes) == 0;
  }

  std::unique_ptr<Testbed> testbed_;
  char* host_ = nullptr;
  CUdeviceptr device_ = 0;
  CUstream stream_ = nullptr;
  int value_ = 0;
};

TEST_F(GraphTest, CapturedCopiesTellTheirEndsAndTheirOrder) {
  CUgraph graph = RoundTrip();
  const std::vector<CUgraphNode> nodes = Nodes(graph);
  ASSERT_EQ(nodes.size(), 2u);
  CUDA_MEMCPY3D in = {};
  ASSERT_EQ(Type(nodes[0]), CU_GRAPH_NODE_TYPE_MEMCPY);
  ASSERT_CU(cu().GraphMemcpyNodeGetParams(nodes[0], &in));
  EXPECT_EQ(in.WidthInBytes, kBytes);
  EXPECT_EQ(in.Height, 1u);
  EXPECT_EQ(in.Depth, 1u);
  const auto address = [](CUmemorytype type, const void* host,
                          CUdeviceptr device) {
    return type == CU_MEMORYTYPE_HOST ? reinterpret_cast<CUdeviceptr>(host)
                                      : device;
  };
  EXPECT_EQ(address(in.srcMemoryType, in.srcHost, in.srcDevice),
            reinterpret_cast<CUdeviceptr>(host_));
  EXPECT_EQ(address(in.dstMemoryType, in.dstHost, in.dstDevice), device_);
  EXPECT_TRUE(DependenciesOf(nodes[0]).empty());
  EXPECT_EQ(DependenciesOf(nodes[1]), std::vector<CUgraphNode>{nodes[0]});
  EXPECT_EQ(DependentsOf(nodes[0]), std::vector<CUgraphNode>{nodes[1]});
  EXPECT_CU(cu().GraphDestroy(graph));
}

TEST_F(GraphTest, ACapturedCopyOfPageableMemoryKeepsItsAddress) {
  std::vector<char> pageable(kBytes);
  CUgraph graph = nullptr;
  ASSERT_CU(
      cu().StreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  ASSERT_CU(cu().MemcpyHtoDAsync(device_, pageable.data(), kBytes, stream_));
  ASSERT_CU(cu().StreamEndCapture(stream_, &graph));
  const std::vector<CUgraphNode> nodes = Nodes(graph);
  ASSERT_EQ(nodes.size(), 1u);
  CUDA_MEMCPY3D copy = {};
  ASSERT_CU(cu().GraphMemcpyNodeGetParams(nodes[0], &copy));
  EXPECT_EQ(copy.srcMemoryType == CU_MEMORYTYPE_HOST
                ? reinterpret_cast<CUdeviceptr>(copy.srcHost)
                : copy.srcDevice,
            reinterpret_cast<CUdeviceptr>(pageable.data()));
  EXPECT_CU(cu().GraphDestroy(graph));
}

TEST_F(GraphTest, MemoryOperationsAreNodesAndAreReplayed) {
  if (cu().StreamBatchMemOp == nullptr) GTEST_SKIP() << "no such call";
  uint32_t* const flag = bed().PinnedFlag();
  uint32_t* const seen = bed().PinnedFlag();
  CUgraph graph = nullptr;
  ASSERT_CU(
      cu().StreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  ASSERT_CU(cu().StreamWaitValue32(stream_, reinterpret_cast<CUdeviceptr>(flag),
                                   5, CU_STREAM_WAIT_VALUE_EQ));
  ASSERT_CU(cu().StreamWriteValue32(stream_,
                                    reinterpret_cast<CUdeviceptr>(seen), 1, 0));
  ASSERT_CU(cu().StreamWriteValue32(stream_,
                                    reinterpret_cast<CUdeviceptr>(flag), 0, 0));
  ASSERT_CU(cu().StreamEndCapture(stream_, &graph));
  for (CUgraphNode node : Nodes(graph))
    EXPECT_EQ(Type(node), CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  CUgraphExec executable = Instantiate(graph);
  std::atomic_ref<uint32_t> flag_word(*flag);
  std::atomic_ref<uint32_t> seen_word(*seen);
  for (int replay = 0; replay < 3; ++replay) {
    ASSERT_CU(cu().GraphLaunch(executable, stream_));
    EXPECT_FALSE(bed().Idle(stream_));
    flag_word.store(5, std::memory_order_release);
    ASSERT_CU(cu().StreamSynchronize(stream_));
    EXPECT_EQ(seen_word.exchange(0), 1u);
    EXPECT_EQ(flag_word.load(), 0u);
  }
  EXPECT_CU(cu().GraphExecDestroy(executable));
  EXPECT_CU(cu().GraphDestroy(graph));
}

TEST_F(GraphTest, AClonesNodesAreItsOwn) {
  CUgraph graph = RoundTrip();
  CUgraph clone = nullptr;
  ASSERT_CU(cu().GraphClone(&clone, graph));
  const std::vector<CUgraphNode> nodes = Nodes(clone);
  ASSERT_EQ(nodes.size(), 2u);
  ASSERT_CU(cu().GraphDestroyNode(nodes[1]));
  EXPECT_EQ(Nodes(clone).size(), 1u);
  EXPECT_TRUE(DependentsOf(nodes[0]).empty());
  EXPECT_EQ(Nodes(graph).size(), 2u);
  EXPECT_CU(cu().GraphDestroy(graph));
  // It lives on without the original.
  CUgraphExec executable = Instantiate(clone);
  EXPECT_FALSE(ComesBack(executable));
  EXPECT_CU(cu().GraphExecDestroy(executable));
  EXPECT_CU(cu().GraphDestroy(clone));
}

TEST_F(GraphTest, AChildGraphTakesThePlaceOfANode) {
  CUgraph graph = RoundTrip();
  std::vector<CUgraphNode> nodes = Nodes(graph);
  ASSERT_EQ(nodes.size(), 2u);
  // In the place of the first copy.
  CUgraph part = nullptr;
  ASSERT_CU(
      cu().StreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  ASSERT_CU(cu().MemcpyHtoDAsync(device_, host_, kBytes / 2, stream_));
  ASSERT_CU(cu().MemcpyHtoDAsync(device_ + kBytes / 2, host_ + kBytes / 2,
                                 kBytes / 2, stream_));
  ASSERT_CU(cu().StreamEndCapture(stream_, &part));
  CUgraphNode child = nullptr;
  ASSERT_CU(cu().GraphAddChildGraphNode(&child, graph, nullptr, 0, part));
  ASSERT_CU(cu().GraphDestroy(part));
  ASSERT_CU(cu().GraphAddDependencies(graph, &child, &nodes[1], 1));
  ASSERT_CU(cu().GraphDestroyNode(nodes[0]));
  EXPECT_EQ(Type(child), CU_GRAPH_NODE_TYPE_GRAPH);
  EXPECT_EQ(DependenciesOf(nodes[1]), std::vector<CUgraphNode>{child});
  CUgraph inside = nullptr;
  ASSERT_CU(cu().GraphChildGraphNodeGetGraph(child, &inside));
  EXPECT_EQ(Nodes(inside).size(), 2u);
  CUgraphExec executable = Instantiate(graph);
  for (int replay = 0; replay < 3; ++replay) EXPECT_TRUE(ComesBack(executable));
  EXPECT_CU(cu().GraphExecDestroy(executable));
  EXPECT_CU(cu().GraphDestroy(graph));
}

TEST_F(GraphTest, LaunchesOfOneExecutableGraphFollowEachOther) {
  CUstream other = bed().NonBlockingStream();
  uint32_t* const flag = bed().PinnedFlag();
  uint32_t* const reached = bed().PinnedFlag();
  if (cu().StreamWaitValue32 == nullptr) GTEST_SKIP() << "no such call";
  CUgraph graph = nullptr;
  ASSERT_CU(
      cu().StreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  ASSERT_CU(cu().StreamWriteValue32(
      stream_, reinterpret_cast<CUdeviceptr>(reached), 1, 0));
  ASSERT_CU(cu().StreamWaitValue32(stream_, reinterpret_cast<CUdeviceptr>(flag),
                                   1, CU_STREAM_WAIT_VALUE_GEQ));
  ASSERT_CU(cu().StreamEndCapture(stream_, &graph));
  CUgraphExec executable = Instantiate(graph);
  std::atomic_ref<uint32_t> reached_word(*reached);
  ASSERT_CU(cu().GraphLaunch(executable, stream_));
  while (reached_word.load() == 0) std::this_thread::yield();
  reached_word.store(0);
  ASSERT_CU(cu().GraphLaunch(executable, other));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(reached_word.load(), 0u);
  std::atomic_ref<uint32_t>(*flag).store(1, std::memory_order_release);
  ASSERT_CU(cu().StreamSynchronize(other));
  EXPECT_EQ(reached_word.load(), 1u);
  ASSERT_CU(cu().StreamSynchronize(stream_));
  EXPECT_CU(cu().GraphExecDestroy(executable));
  EXPECT_CU(cu().GraphDestroy(graph));
}

// Says when the driver lets go of it.
class Held {
 public:
  explicit Held(const Driver& driver) {
    EXPECT_CU(driver.UserObjectCreate(
        &object_, this,
        [](void* self) { static_cast<Held*>(self)->let_go_ = true; }, 1,
        CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  CUuserObject object() const { return object_; }
  bool held() const {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return !let_go_;
  }
  bool LetGo() const {
    for (int i = 0; i < 500 && !let_go_; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return let_go_;
  }

 private:
  CUuserObject object_ = nullptr;
  std::atomic<bool> let_go_{false};
};

TEST_F(GraphTest, AUserObjectGoesWithTheLastThatHoldsIt) {
  Held held(cu());
  CUgraph graph = RoundTrip();
  CUgraph clone = nullptr;
  ASSERT_CU(cu().GraphRetainUserObject(graph, held.object(), 1,
                                       CU_GRAPH_USER_OBJECT_MOVE));
  ASSERT_CU(cu().GraphClone(&clone, graph));
  ASSERT_CU(cu().GraphDestroy(graph));
  EXPECT_TRUE(held.held());
  CUgraphExec executable = Instantiate(clone);
  ASSERT_CU(cu().GraphDestroy(clone));
  EXPECT_TRUE(held.held());
  EXPECT_TRUE(ComesBack(executable));
  ASSERT_CU(cu().GraphExecDestroy(executable));
  EXPECT_TRUE(held.LetGo());
}

TEST_F(GraphTest, AUserObjectOfAChildGraphIsHeldByTheExecutableGraph) {
  Held held(cu());
  CUgraph graph = RoundTrip();
  ASSERT_CU(cu().GraphRetainUserObject(graph, held.object(), 1,
                                       CU_GRAPH_USER_OBJECT_MOVE));
  CUgraph parent = RoundTrip();
  CUgraphNode child = nullptr;
  ASSERT_CU(cu().GraphAddChildGraphNode(&child, parent, nullptr, 0, graph));
  ASSERT_CU(cu().GraphDestroy(graph));
  CUgraphExec executable = Instantiate(parent);
  ASSERT_CU(cu().GraphDestroy(parent));
  EXPECT_TRUE(held.held());
  ASSERT_CU(cu().GraphExecDestroy(executable));
  EXPECT_TRUE(held.LetGo());
}

TEST_F(GraphTest, AUserObjectOutlivesTheExecutableGraphWhileThatRuns) {
  Held held(cu());
  Gate gate(bed());
  CUgraph graph = nullptr;
  ASSERT_CU(
      cu().StreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  gate.Hold(stream_);
  ASSERT_CU(cu().StreamEndCapture(stream_, &graph));
  ASSERT_CU(cu().GraphRetainUserObject(graph, held.object(), 1,
                                       CU_GRAPH_USER_OBJECT_MOVE));
  CUgraphExec executable = Instantiate(graph);
  ASSERT_CU(cu().GraphDestroy(graph));
  ASSERT_CU(cu().GraphLaunch(executable, stream_));
  ASSERT_CU(cu().GraphExecDestroy(executable));
  EXPECT_TRUE(held.held());
  gate.Open();
  ASSERT_CU(cu().StreamSynchronize(stream_));
  EXPECT_TRUE(held.LetGo());
}

TEST_F(GraphTest, AUserObjectThatNoGraphTakesGoesWhenItIsReleased) {
  Held held(cu());
  ASSERT_CU(cu().UserObjectRelease(held.object(), 1));
  EXPECT_TRUE(held.LetGo());
}

}  // namespace
}  // namespace pinring
