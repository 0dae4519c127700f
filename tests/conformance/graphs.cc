// Rule 19: captured copies, and what is called while somebody captures.

#include <cstring>
#include <memory>
#include <thread>

#include "tests/conformance/scenario.h"

namespace conformance {
namespace {

class Graph {
 public:
  Graph() = default;
  ~Graph() {
    if (graph_ != nullptr) CHECK_OK(cudaGraphDestroy(graph_));
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  cudaGraph_t* out() { return &graph_; }
  cudaGraph_t get() const { return graph_; }

 private:
  cudaGraph_t graph_ = nullptr;
};

class Executable {
 public:
  explicit Executable(const Graph& graph) {
    CHECK_OK(cudaGraphInstantiateWithFlags(&exec_, graph.get(), 0));
  }
  ~Executable() { CHECK_OK(cudaGraphExecDestroy(exec_)); }
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;
  cudaGraphExec_t get() const { return exec_; }

 private:
  cudaGraphExec_t exec_ = nullptr;
};

// Other copies that go through the ring between replays.
void OtherCopies(Run& run, size_t bytes) {
  Pinned block(bytes);
  Device device(bytes);
  Stream stream;
  run.Fill(block.get(), bytes);
  for (int i = 0; i < 3; ++i) {
    CHECK_OK(cudaMemcpyAsync(device.get(), block.get(), bytes,
                             cudaMemcpyHostToDevice, stream));
    CHECK_OK(cudaMemcpyAsync(block.get(), device.get(), bytes,
                             cudaMemcpyDeviceToHost, stream));
  }
  CHECK_OK(cudaStreamSynchronize(stream));
}

void CaptureThereAndBack(Run& run, cudaStream_t stream, Graph& graph,
                         cudaStreamCaptureMode mode, void* device,
                         Guarded& source, Guarded& target) {
  const size_t bytes = source.bytes();
  CHECK_OK(cudaStreamBeginCapture(stream, mode));
  run.Code("captured up", cudaMemcpyAsync(device, source.get(), bytes,
                                          cudaMemcpyHostToDevice, stream));
  run.Code("captured memset", cudaMemsetAsync(device, 9, bytes / 7, stream));
  run.Code("captured down", cudaMemcpyAsync(target.get(), device, bytes,
                                            cudaMemcpyDeviceToHost, stream));
  run.Code("end", cudaStreamEndCapture(stream, graph.out()));
}

// Case 7: every replay moves the bytes of its moment.
void BytesOfTheMoment(Run& run) {
  const size_t bytes = run.Size(1 << 20) + 1;
  Guarded source(run, bytes), target(run, bytes);
  Device device(bytes);
  Stream stream;
  run.Fill(source.get(), bytes);
  std::memset(target.get(), 0x11, bytes);
  if (run.OneIn(2)) {  // It has been through the ring before.
    run.Code("before", cudaMemcpyAsync(device.get(), source.get(), bytes,
                                       cudaMemcpyHostToDevice, stream));
  }
  Graph graph;
  CaptureThereAndBack(
      run, stream, graph,
      run.Pick<cudaStreamCaptureMode>({cudaStreamCaptureModeGlobal,
                                       cudaStreamCaptureModeThreadLocal,
                                       cudaStreamCaptureModeRelaxed}),
      device.get(), source, target);
  CHECK_OK(cudaStreamSynchronize(stream));
  run.Right("nothing moved", target.get()[0] == 0x11);
  const Executable exec(graph);
  for (int replay = 0; replay < 3; ++replay) {
    run.Fill(source.get(), bytes);
    OtherCopies(run, run.Between(1, 300'000));
    run.Code("launch", cudaGraphLaunch(exec.get(), stream));
    run.Code("sync", cudaStreamSynchronize(stream));
    run.Right("bytes",
              std::memcmp(target.get() + bytes / 7, source.get() + bytes / 7,
                          bytes - bytes / 7) == 0);
    run.Digest("target", target.get(), bytes);
  }
  run.Right("guards", source.Intact() && target.Intact());
  // The same memory by ordinary copies, in order with a launch.
  run.Fill(source.get(), bytes);
  run.Code("launch", cudaGraphLaunch(exec.get(), stream));
  run.Code("up", cudaMemcpyAsync(device.get(), target.get(), bytes,
                                 cudaMemcpyHostToDevice, stream));
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Right("up again", DigestOf(Contents(device.get(), bytes).data(), bytes) ==
                            DigestOf(target.get(), bytes));
}

// Launched behind a gate: the host writes until then.
void ReplayBehindAGate(Run& run) {
  const size_t bytes = run.Between(1, 500'000);
  Guarded source(run, bytes), target(run, bytes);
  Device device(bytes);
  Stream stream;
  Graph graph;
  CaptureThereAndBack(run, stream, graph, cudaStreamCaptureModeRelaxed,
                      device.get(), source, target);
  const Executable exec(graph);
  Gate gate;
  gate.Hold(stream);
  run.Code("launch", cudaGraphLaunch(exec.get(), stream));
  run.Code("launch", cudaGraphLaunch(exec.get(), stream));
  run.Right("returned before", !gate.open());
  run.Fill(source.get(), bytes);
  gate.Open();
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Digest("target", target.get(), bytes);
  run.Right("guards", source.Intact() && target.Intact());
}

// Two executable graphs from one, launched on two streams, one after the other
// and side by side.
void TwoOfOneGraph(Run& run) {
  const size_t bytes = run.Between(1, 500'000);
  Guarded source(run, bytes), target(run, bytes);
  Device device(bytes);
  Stream first, second;
  Event between;
  Graph graph;
  CaptureThereAndBack(run, first, graph, cudaStreamCaptureModeThreadLocal,
                      device.get(), source, target);
  auto one = std::make_unique<Executable>(graph);
  const Executable other(graph);
  for (int i = 0; i < 3; ++i) {
    run.Fill(source.get(), bytes);
    std::memset(target.get(), 0, bytes);
    if (one != nullptr) {
      run.Code("launch", cudaGraphLaunch(one->get(), first));
    }
    CHECK_OK(cudaEventRecord(between, first));
    CHECK_OK(cudaStreamWaitEvent(second, between, 0));
    run.Code("launch other", cudaGraphLaunch(other.get(), second));
    run.Code("sync", cudaStreamSynchronize(second));
    run.Digest("target", target.get(), bytes);
    if (i == 1) one.reset();  // The other one stays.
  }
  run.Right("guards", source.Intact() && target.Intact());
}

// Graphs over different memory, replayed side by side from two threads, each
// of them again before its last replay is over.
void SideBySide(Run& run) {
  constexpr size_t kThreads = 3;
  const size_t bytes = run.Between(1, 400'000);
  std::vector<std::unique_ptr<Guarded>> sources, targets;
  for (size_t i = 0; i < kThreads; ++i) {
    sources.push_back(std::make_unique<Guarded>(run, bytes));
    targets.push_back(std::make_unique<Guarded>(run, bytes));
    run.Fill(sources[i]->get(), bytes);
  }
  std::vector<std::string> lines(kThreads);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      Stream stream;
      Device device(bytes);
      Graph graph;
      Run own(i);
      CaptureThereAndBack(own, stream, graph, cudaStreamCaptureModeThreadLocal,
                          device.get(), *sources[i], *targets[i]);
      const Executable exec(graph);
      for (int replay = 0; replay < 4; ++replay) {
        own.Code("launch", cudaGraphLaunch(exec.get(), stream));
      }
      own.Code("sync", cudaStreamSynchronize(stream));
      lines[i] = own.TakeLines();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < kThreads; ++i) {
    run.Digest("lines", lines[i].data(), lines[i].size());
    run.Digest("target", targets[i]->get(), bytes);
    run.Right("guards", targets[i]->Intact() && sources[i]->Intact());
  }
}

// A second stream joins the capture and comes back.
void ForkAndJoin(Run& run) {
  const size_t bytes = run.Between(1, 500'000);
  Guarded source(run, bytes), target(run, bytes);
  Device device(bytes);
  Stream stream, other;
  Event event;
  Graph graph;
  CHECK_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  run.Code("up", cudaMemcpyAsync(device.get(), source.get(), bytes,
                                 cudaMemcpyHostToDevice, stream));
  run.Code("record", cudaEventRecord(event, stream));
  run.Code("wait", cudaStreamWaitEvent(other, event, 0));
  run.Code("down", cudaMemcpyAsync(target.get(), device.get(), bytes,
                                   cudaMemcpyDeviceToHost, other));
  if (run.OneIn(4)) {
    run.Code("end, not joined", cudaStreamEndCapture(stream, graph.out()));
    run.Code("last", cudaGetLastError());
    return;
  }
  run.Code("record", cudaEventRecord(event, other));
  run.Code("wait", cudaStreamWaitEvent(stream, event, 0));
  run.Code("end", cudaStreamEndCapture(stream, graph.out()));
  const Executable exec(graph);
  run.Fill(source.get(), bytes);
  run.Code("launch", cudaGraphLaunch(exec.get(), stream));
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Right("bytes", std::memcmp(source.get(), target.get(), bytes) == 0);
  run.Right("guards", source.Intact() && target.Intact());
}

// What a thread may call while it, or another one, captures.
void CallsDuringACapture(Run& run) {
  const auto mode = run.Pick<cudaStreamCaptureMode>(
      {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
       cudaStreamCaptureModeRelaxed});
  const bool elsewhere = run.OneIn(2);
  const size_t bytes = run.Pick<size_t>({100, 70'000, 1 << 20});
  run.Note("mode", mode);
  run.Note("another thread", elsewhere ? 1 : 0);
  run.Note("bytes", static_cast<int64_t>(bytes));
  Guarded block(run, bytes), source(run, bytes), target(run, bytes);
  Device device(bytes), other_device(bytes);
  Stream stream, other;
  run.Fill(block.get(), bytes);
  run.Fill(source.get(), bytes);
  std::vector<unsigned char> plain(bytes);
  void* pointer = nullptr;
  cudaPointerAttributes attributes;
  const size_t which = run.Between(0, 7);
  run.Note("call", static_cast<int64_t>(which));
  const auto call = [&]() -> cudaError_t {
    switch (which) {
      case 0:
        return cudaPointerGetAttributes(&attributes, block.get());
      case 1: {
        unsigned flags = 0;
        return cudaHostGetFlags(&flags, block.get());
      }
      case 2:
        return cudaMemcpyAsync(other_device.get(), block.get(), bytes,
                               cudaMemcpyHostToDevice, other);
      case 3:
        return cudaMemcpyAsync(other_device.get(), block.get(), bytes,
                               cudaMemcpyHostToDevice, nullptr);
      case 4:
        return cudaMemcpy2DAsync(other_device.get(), 10, block.get(), 10, 5,
                                 bytes / 10, cudaMemcpyHostToDevice, other);
      case 5:
        return cudaMemsetAsync(block.get(), 1, bytes, other);
      case 6:
        return cudaHostGetDevicePointer(&pointer, block.get(), 0);
      default:
        return cudaHostRegister(plain.data(), bytes, cudaHostRegisterDefault);
    }
  };
  CHECK_OK(cudaStreamBeginCapture(stream, mode));
  run.Code("up", cudaMemcpyAsync(device.get(), source.get(), bytes,
                                 cudaMemcpyHostToDevice, stream));
  if (elsewhere) {
    std::thread([&] {
      run.Code("the call", call());
      run.Code("its last error", cudaGetLastError());
    }).join();
  } else {
    run.Code("the call", call());
    run.Code("its last error", cudaGetLastError());
  }
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  run.Code("is capturing", cudaStreamIsCapturing(stream, &status));
  run.Note("status", status);
  run.Code("down", cudaMemcpyAsync(target.get(), device.get(), bytes,
                                   cudaMemcpyDeviceToHost, stream));
  Graph graph;
  run.Code("end", cudaStreamEndCapture(stream, graph.out()));
  run.Note("graph", graph.get() != nullptr ? 1 : 0);
  run.Code("last", cudaGetLastError());
  if (graph.get() != nullptr) {
    const Executable exec(graph);
    run.Fill(source.get(), bytes);
    run.Code("launch", cudaGraphLaunch(exec.get(), stream));
    run.Code("sync", cudaStreamSynchronize(stream));
    run.Right("bytes", std::memcmp(source.get(), target.get(), bytes) == 0);
  }
  CHECK_OK(cudaDeviceSynchronize());
  run.Digest("block", block.get(), bytes);
  run.Right("guards", block.Intact() && source.Intact() && target.Intact());
  if (which == 7) run.Code("unregister", cudaHostUnregister(plain.data()));
  run.Code("last", cudaGetLastError());
}

// Rows and boxes in a capture.
void CapturedShapes(Run& run) {
  const size_t width = run.Between(1, 500), rows = run.Between(1, 200);
  const size_t pitch = width + run.Between(0, 20);
  Guarded source(run, pitch * rows), target(run, pitch * rows);
  Device device(width * rows);
  Stream stream;
  run.Fill(target.get(), target.bytes());
  Graph graph;
  CHECK_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  run.Code("rows up",
           cudaMemcpy2DAsync(device.get(), width, source.get(), pitch, width,
                             rows, cudaMemcpyHostToDevice, stream));
  cudaMemcpy3DParms box = {};
  box.srcPtr = {device.get(), width, width, rows};
  box.dstPtr = {target.get(), pitch, pitch, rows};
  box.extent = {width, rows, 1};
  box.kind = cudaMemcpyDeviceToHost;
  run.Code("box down", cudaMemcpy3DAsync(&box, stream));
  run.Code("end", cudaStreamEndCapture(stream, graph.out()));
  const Executable exec(graph);
  for (int i = 0; i < 2; ++i) {
    run.Fill(source.get(), source.bytes());
    run.Code("launch", cudaGraphLaunch(exec.get(), stream));
    run.Code("sync", cudaStreamSynchronize(stream));
    run.Digest("target", target.get(), target.bytes());
  }
  run.Right("guards", source.Intact() && target.Intact());
}

// Copies between an array and a block.
void CapturedArrays(Run& run) {
  const size_t width = 4 * run.Between(1, 100), rows = run.Between(1, 200);
  const size_t pitch = width + run.Between(0, 20);
  Guarded source(run, pitch * rows), target(run, pitch * rows);
  const cudaChannelFormatDesc channels =
      cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindUnsigned);
  cudaArray_t array = nullptr;
  CHECK_OK(cudaMallocArray(&array, &channels, width / 4, rows));
  {
    Stream stream;
    run.Fill(target.get(), target.bytes());
    Graph graph;
    CHECK_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    run.Code("to the array",
             cudaMemcpy2DToArrayAsync(array, 0, 0, source.get(), pitch, width,
                                      rows, cudaMemcpyHostToDevice, stream));
    run.Code("from the array",
             cudaMemcpy2DFromArrayAsync(target.get(), pitch, array,
                                        width / 8 * 4, 0, width / 8 * 4, rows,
                                        cudaMemcpyDeviceToHost, stream));
    run.Code("end", cudaStreamEndCapture(stream, graph.out()));
    const Executable exec(graph);
    for (int i = 0; i < 2; ++i) {
      run.Fill(source.get(), source.bytes());
      run.Code("launch", cudaGraphLaunch(exec.get(), stream));
      run.Code("sync", cudaStreamSynchronize(stream));
      run.Digest("target", target.get(), target.bytes());
    }
  }
  run.Code("free", cudaFreeArray(array));
  run.Right("guards", source.Intact() && target.Intact());
}

// Copies between devices in a capture, as far as there is such a thing.
void CapturedPeers(Run& run) {
  const size_t bytes = 4 * run.Between(1, 100'000);
  Guarded source(run, bytes);
  Device device(bytes);
  CHECK_OK(cudaMemset(device.get(), 0x31, bytes));
  CHECK_OK(cudaDeviceSynchronize());
  for (const bool box : {false, true}) {
    Stream stream;
    cudaGraph_t graph = nullptr;
    CHECK_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    if (box) {
      cudaMemcpy3DPeerParms parameters = {};
      parameters.srcPtr = {source.get(), bytes, bytes, 1};
      parameters.dstPtr = {device.get(), bytes, bytes, 1};
      parameters.extent = {bytes, 1, 1};
      run.Code("box", cudaMemcpy3DPeerAsync(&parameters, stream));
    } else {
      run.Code("copy", cudaMemcpyPeerAsync(device.get(), 0, source.get(), 0,
                                           bytes, stream));
    }
    run.Code("end", cudaStreamEndCapture(stream, &graph));
    if (graph != nullptr) run.Code("destroy", cudaGraphDestroy(graph));
    run.Digest("device", Contents(device.get(), bytes).data(), bytes);
  }
  run.Right("guards", source.Intact());
}

// A host function of the graph writes what its next copy reads, and looks at
// what its last one wrote.
void HostFunctionsBetween(Run& run) {
  struct Work {
    unsigned char* source;
    const unsigned char* target;
    size_t bytes;
    unsigned seen = 0;
  };
  const size_t bytes = run.Between(70'000, 500'000);
  Guarded source(run, bytes), target(run, bytes);
  Device device(bytes);
  Stream stream;
  run.Fill(source.get(), bytes);
  Work work = {static_cast<unsigned char*>(source.get()),
               static_cast<const unsigned char*>(target.get()), bytes};
  Graph graph;
  CHECK_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  run.Code("write", cudaLaunchHostFunc(
                        stream,
                        [](void* data) {
                          auto* const own = static_cast<Work*>(data);
                          ++own->source[0];
                          ++own->source[own->bytes - 1];
                        },
                        &work));
  run.Code("up", cudaMemcpyAsync(device.get(), source.get(), bytes,
                                 cudaMemcpyHostToDevice, stream));
  run.Code("down", cudaMemcpyAsync(target.get(), device.get(), bytes,
                                   cudaMemcpyDeviceToHost, stream));
  run.Code("look", cudaLaunchHostFunc(
                       stream,
                       [](void* data) {
                         auto* const own = static_cast<Work*>(data);
                         own->seen = own->seen * 31 + own->target[0] +
                                     own->target[own->bytes - 1];
                       },
                       &work));
  run.Code("end", cudaStreamEndCapture(stream, graph.out()));
  const Executable exec(graph);
  for (int i = 0; i < 4; ++i) {
    run.Code("launch", cudaGraphLaunch(exec.get(), stream));
  }
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Note("seen", work.seen);
  run.Digest("target", target.get(), bytes);
  run.Right("guards", source.Intact() && target.Intact());
}

// Destroyed while its replays are queued, and its memory freed behind it; the
// next one is made of the same addresses, perhaps.
void DestroyedWhileQueued(Run& run) {
  const size_t bytes = run.Between(70'000, 500'000);
  Device device(bytes);
  Stream stream;
  for (int round = 0; round < 3; ++round) {
    Guarded target(run, bytes);
    void* source = nullptr;
    CHECK_OK(cudaMallocHost(&source, bytes));
    Graph graph;
    CHECK_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    run.Code("up", cudaMemcpyAsync(device.get(), source, bytes,
                                   cudaMemcpyHostToDevice, stream));
    run.Code("down", cudaMemcpyAsync(target.get(), device.get(), bytes,
                                     cudaMemcpyDeviceToHost, stream));
    run.Code("end", cudaStreamEndCapture(stream, graph.out()));
    cudaGraphExec_t exec = nullptr;
    run.Code("instantiate", cudaGraphInstantiate(&exec, graph.get(), 0));
    run.Fill(source, bytes);
    for (int i = 0; i < 3; ++i) {
      run.Code("launch", cudaGraphLaunch(exec, stream));
    }
    run.Code("destroy", cudaGraphExecDestroy(exec));
    run.Code("free", cudaFreeHost(source));
    run.Code("sync", cudaStreamSynchronize(stream));
    run.Digest("target", target.get(), bytes);
    run.Right("guards", target.Intact());
  }
  run.Code("last", cudaGetLastError());
}

// A node that is made by hand, a clone, a child.
void ByHand(Run& run) {
  const size_t bytes = run.Between(1, 500'000);
  Guarded source(run, bytes), target(run, bytes);
  Device device(bytes);
  Stream stream;
  Graph graph, clone, parent;
  cudaGraphNode_t up = nullptr;
  cudaGraphNode_t down = nullptr;
  CHECK_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  CHECK_OK(cudaStreamEndCapture(stream, graph.out()));
  const cudaError_t added =
      cudaGraphAddMemcpyNode1D(&up, graph.get(), nullptr, 0, device.get(),
                               source.get(), bytes, cudaMemcpyHostToDevice);
  if (added == cudaErrorNotSupported) {
    (void)cudaGetLastError();
    run.Skip("the simulated runtime makes no nodes by hand");
    return;
  }
  run.Code("up", added);
  run.Code("down", cudaGraphAddMemcpyNode1D(&down, graph.get(), &up, 1,
                                            target.get(), device.get(), bytes,
                                            cudaMemcpyDeviceToHost));
  run.Code("clone", cudaGraphClone(clone.out(), graph.get()));
  run.Code("parent", cudaGraphCreate(parent.out(), 0));
  cudaGraphNode_t child = nullptr;
  run.Code("child", cudaGraphAddChildGraphNode(&child, parent.get(), nullptr, 0,
                                               graph.get()));
  for (const Graph* each : {&graph, &clone, &parent}) {
    const Executable exec(*each);
    run.Fill(source.get(), bytes);
    run.Code("launch", cudaGraphLaunch(exec.get(), stream));
    run.Code("sync", cudaStreamSynchronize(stream));
    run.Right("bytes", std::memcmp(source.get(), target.get(), bytes) == 0);
  }
  run.Right("guards", source.Intact() && target.Intact());
}

}  // namespace

std::vector<Scenario> GraphScenarios() {
  return {
      {"19", "bytes_of_the_moment", BytesOfTheMoment, 50},
      {"19", "replay_behind_a_gate", ReplayBehindAGate, 30, Needs::kQueueing},
      {"19", "two_of_one_graph", TwoOfOneGraph, 30},
      {"19", "side_by_side", SideBySide, 20},
      {"19", "fork_and_join", ForkAndJoin, 30},
      {"19", "calls_during_a_capture", CallsDuringACapture, 100},
      {"19", "captured_shapes", CapturedShapes, 30},
      {"19", "captured_arrays", CapturedArrays, 20},
      {"19", "captured_peers", CapturedPeers, 20},
      {"19", "host_functions_between", HostFunctionsBetween, 30},
      {"19", "destroyed_while_queued", DestroyedWhileQueued, 30},
      {"19", "by_hand", ByHand, 10}};
}

}  // namespace conformance
