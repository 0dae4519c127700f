// Executable graphs whose copies go through the ring, under the scheduler: the
// bytes of the moment in every replay, whatever else the ring does meanwhile.
//
// PINRING_TEST_PROGRAMS=<count> runs more or fewer programs.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tests/support/scheduled_engine.h"

namespace pinring {
namespace {

struct Broken {
  bool shared_lines = false;
  bool permitted_first = false;
};

// A graph that copies a block to the device, there to another place, and back
// into a second block.
struct RoundTrip {
  std::vector<std::byte> in;
  std::vector<std::byte> out;
  CUdeviceptr to = 0;
  CUdeviceptr from = 0;
  CUgraph graph = nullptr;
  // Written by the graph itself, before it reads the block; -1: it does not.
  int stamp = -1;
};

class GraphProgram {
 public:
  GraphProgram(uint64_t seed, Broken broken)
      : bench_(seed, 1 + static_cast<int>(seed % 3), 1,
               [&](EngineOptions* options) {
                 options->lines = 48;
                 options->graph_lines = 24;
                 options->ring_bytes = 160 << 10;
                 options->share_graph_lines_for_test = broken.shared_lines;
                 options->reset_permitted_first_for_test =
                     broken.permitted_first;
               }) {}

  std::string Run() {
    one_ = MakeRoundTrip();
    other_ = MakeRoundTrip();
    bench_.AddCaller("replays one graph in two forms",
                     [this] { ReplayTwoForms(); });
    bench_.AddCaller("replays, destroys and makes anew",
                     [this] { ReplayAndDestroy(); });
    bench_.AddCaller("transfers", [this] { Transfers(); });
    return bench_.Run([this] {
      if (bench_.engine().graph_copies() != 0)
        bench_.Wrong("slots of destroyed graphs are not given back");
    });
  }

  uint64_t replays() const { return replays_; }

 private:
  static constexpr int kRounds = 4;

  size_t RandomSize() { return 1 + bench_.random()() % 4500; }
  bool Chance(uint64_t of) { return bench_.random()() % of == 0; }

  RoundTrip MakeRoundTrip() {
    RoundTrip trip;
    const size_t bytes = RandomSize();
    trip.in = bench_.RandomBytes(bytes);
    trip.out.resize(bytes);
    trip.to = bench_.NewMemory(bytes);
    trip.from = bench_.NewMemory(bytes);
    if (Chance(2)) trip.stamp = static_cast<int>(bench_.random()() % bytes);
    return trip;
  }

  // Its own bytes, so that the graph's first node changes what a later one
  // reads.
  static void CUDA_CB Stamp(void* data) {
    auto& trip = *static_cast<RoundTrip*>(data);
    std::byte& byte = trip.in[static_cast<size_t>(trip.stamp)];
    byte = static_cast<std::byte>(std::to_integer<int>(byte) + 1);
  }

  void Capture(RoundTrip* trip) {
    const Driver& cu = bench_.driver();
    const CUstream stream = bench_.NewStream();
    bench_.Must(
        cu.StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
        "begin capture");
    if (trip->stamp >= 0)
      bench_.Must(cu.LaunchHostFunc(stream, &Stamp, trip), "stamp");
    bench_.Must(
        cu.MemcpyHtoDAsync(trip->to, trip->in.data(), trip->in.size(), stream),
        "in");
    bench_.Must(
        cu.MemcpyDtoDAsync(trip->from, trip->to, trip->in.size(), stream),
        "across");
    bench_.Must(cu.MemcpyDtoHAsync(trip->out.data(), trip->from,
                                   trip->out.size(), stream),
                "out");
    bench_.Must(cu.StreamEndCapture(stream, &trip->graph), "end capture");
    bench_.Must(cu.StreamDestroy(stream), "destroy stream");
  }

  CUgraphExec Instantiate(const RoundTrip& trip, CUgraph graph) {
    CUgraphExec executable = nullptr;
    Engine::StagedGraph made;
    const auto within = [](const std::vector<std::byte>& block,
                           const void* address) {
      const auto* const byte = static_cast<const std::byte*>(address);
      return byte >= block.data() && byte < block.data() + block.size();
    };
    const absl::StatusOr<GraphOutcome> outcome =
        bench_.engine().InstantiateGraph(
            graph, 0,
            [&](const void* address) {
              return within(trip.in, address) || within(trip.out, address);
            },
            &executable, &made);
    if (made.copy != nullptr) {
      bench_.Must(bench_.driver().GraphDestroy(made.copy), "destroy copy");
    }
    if (made.lease != nullptr) leases_[executable] = made.lease;
    if (!outcome.ok()) {
      bench_.Wrong(absl::StrCat("instantiate: ", outcome.status().message()));
    } else if (*outcome != GraphOutcome::kStaged) {
      bench_.Wrong("a graph was not staged");
    }
    return executable;
  }

  void Launch(CUgraphExec executable, CUstream stream) {
    if (executable == nullptr) return;
    if (Chance(2)) bench_.engine().ExpectReplay(*leases_[executable]);
    bench_.Must(bench_.driver().GraphLaunch(executable, stream), "launch");
    ++replays_;
  }

  void ExpectRoundTrip(const RoundTrip& trip, const char* what) {
    bench_.Expect(trip.in, trip.to, absl::StrCat(what, ", in"));
    if (trip.out != trip.in)
      bench_.Wrong(absl::StrCat("wrong bytes: ", what, ", out"));
  }

  // Two executable graphs of one graph, one of them perhaps of a graph that has
  // it twice as a child, at once on two streams.
  void ReplayTwoForms() {
    const Driver& cu = bench_.driver();
    RoundTrip& trip = one_;
    trip.stamp = -1;  // both would write it
    Capture(&trip);
    const CUgraphExec first = Instantiate(trip, trip.graph);
    CUgraphExec second = nullptr;
    if (Chance(2)) {
      CUgraph parent = nullptr;
      CUgraphNode nodes[2] = {};
      bench_.Must(cu.GraphClone(&parent, trip.graph), "clone");
      bench_.Must(
          cu.GraphAddChildGraphNode(&nodes[0], parent, nullptr, 0, trip.graph),
          "child");
      bench_.Must(
          cu.GraphAddChildGraphNode(&nodes[1], parent, nodes, 1, trip.graph),
          "child again");
      second = Instantiate(trip, parent);
      bench_.Must(cu.GraphDestroy(parent), "destroy parent");
    } else {
      second = Instantiate(trip, trip.graph);
    }
    bench_.Must(cu.GraphDestroy(trip.graph), "destroy graph");
    const CUstream streams[] = {bench_.NewStream(), bench_.NewStream()};
    for (int round = 0; round < kRounds; ++round) {
      trip.in = Refilled(trip.in);
      std::fill(trip.out.begin(), trip.out.end(), std::byte{0});
      Launch(first, streams[0]);
      if (Chance(2)) Launch(first, streams[bench_.random()() % 2]);
      Launch(second, streams[1]);
      if (Chance(2)) Launch(second, streams[bench_.random()() % 2]);
      for (CUstream stream : streams)
        bench_.Must(cu.StreamSynchronize(stream), "synchronize");
      ExpectRoundTrip(trip, "two forms of a graph");
    }
    bench_.Must(cu.GraphExecDestroy(first), "destroy first");
    bench_.Must(cu.GraphExecDestroy(second), "destroy second");
  }

  // New bytes where the old ones are: the graph knows the address.
  std::vector<std::byte>& Refilled(std::vector<std::byte>& block) {
    for (std::byte& byte : block)
      byte = static_cast<std::byte>(bench_.random()());
    return block;
  }

  void ReplayAndDestroy() {
    const Driver& cu = bench_.driver();
    RoundTrip& trip = other_;
    Capture(&trip);
    const CUstream stream = bench_.NewStream();
    for (int round = 0; round < kRounds; ++round) {
      const CUgraphExec executable = Instantiate(trip, trip.graph);
      for (uint64_t replays = 1 + bench_.random()() % 3; replays > 0;
           --replays) {
        Refilled(trip.in);
        std::fill(trip.out.begin(), trip.out.end(), std::byte{0});
        Launch(executable, stream);
        const bool last = replays == 1;
        // Perhaps before the replay is over.
        if (last) {
          bench_.Must(cu.GraphExecDestroy(executable), "destroy");
        }
        bench_.Must(cu.StreamSynchronize(stream), "synchronize");
        ExpectRoundTrip(trip, "a graph of its own");
      }
    }
    bench_.Must(cu.GraphDestroy(trip.graph), "destroy graph");
  }

  void Transfers() {
    const Driver& cu = bench_.driver();
    const CUstream stream = bench_.NewStream();
    std::vector<std::byte> in = bench_.RandomBytes(RandomSize());
    std::vector<std::byte> out(in.size());
    const CUdeviceptr device = bench_.NewMemory(in.size());
    for (int round = 0; round < 2 * kRounds; ++round) {
      Refilled(in);
      bench_.Check(bench_.Copy(Direction::kHostToDevice, in, device, stream));
      bench_.Check(bench_.Copy(Direction::kDeviceToHost, out, device, stream));
      bench_.Must(cu.StreamSynchronize(stream), "synchronize");
      if (out != in) bench_.Wrong("wrong bytes: transfers beside graphs");
    }
  }

  EngineBench bench_;
  RoundTrip one_;
  RoundTrip other_;
  std::map<CUgraphExec, std::shared_ptr<const Engine::GraphLease>> leases_;
  uint64_t replays_ = 0;
};

uint64_t Programs(uint64_t otherwise) {
  const char* text = std::getenv("PINRING_TEST_PROGRAMS");
  uint64_t programs = otherwise;
  if (text != nullptr && !absl::SimpleAtoi(text, &programs))
    ADD_FAILURE() << "PINRING_TEST_PROGRAMS=" << text << " is not a number";
  return programs;
}

TEST(EngineGraphScheduleTest, EveryReplayMovesTheBytesOfTheMoment) {
  uint64_t replays = 0;
  const uint64_t programs = Programs(2000);
  for (uint64_t seed = 1; seed <= programs; ++seed) {
    GraphProgram program(seed, {});
    ASSERT_EQ(program.Run(), "") << "seed " << seed;
    replays += program.replays();
  }
  EXPECT_GE(replays, programs * 12);
}

// Whether some schedule shows that the protocol is broken.
bool Shows(Broken broken) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    GraphProgram program(seed, broken);
    if (!program.Run().empty()) return true;
  }
  return false;
}

TEST(EngineGraphScheduleTest, FlagsThatTwoExecutableGraphsShareAreFoundOut) {
  EXPECT_TRUE(Shows({.shared_lines = true}));
}

TEST(EngineGraphScheduleTest, PermissionThatIsTakenBackTooEarlyIsFoundOut) {
  EXPECT_TRUE(Shows({.permitted_first = true}));
}

}  // namespace
}  // namespace pinring
