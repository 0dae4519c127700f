// Copies whose source may be read before the stream gets there, among copies
// whose source may not, of every shape, and fills of host memory, under seeded
// schedules.

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "src/driver/status.h"
#include "src/engine/engine.h"
#include "tests/support/scheduled_engine.h"

namespace pinring {
namespace {

// What a host function writes.
struct Fill {
  std::vector<std::byte>* to;
  std::vector<std::byte> bytes;
};

class AccessRun {
 public:
  AccessRun(uint64_t seed, absl::FunctionRef<void(EngineOptions*)> adjust)
      : bench_(seed, 2, 1, adjust) {
    for (CUstream& stream : streams_) stream = bench_.NewStream();
  }

  // What went wrong, or nothing.
  std::string Run() {
    for (int i = 0; i < kStreams; ++i) {
      bench_.AddCaller(absl::StrCat("stream ", i), [this, i] { Copies(i); });
    }
    bench_.AddCaller("opener", [this] {
      for (std::atomic<int>& gate : gates_) {
        simcuda::Scheduler::Yield();
        gate = 1;
      }
    });
    return bench_.Run([] {});
  }
  int copies() const { return copies_; }

 private:
  static constexpr auto kGap = std::byte{0xe1};
  static constexpr unsigned char kFilled = 0x3c;
  static constexpr int kStreams = 2;
  static constexpr int kCopies = 6;

  size_t Pick(size_t n) { return bench_.random()() % n; }

  void Copies(int index) {
    const CUstream stream = streams_[index];
    if (Pick(3) > 0) bench_.Hold(stream, &gates_[index]);
    std::vector<std::vector<std::byte>> sources(kCopies);
    std::vector<std::vector<std::byte>> results(kCopies);
    std::vector<std::vector<std::byte>> expected(kCopies);
    std::vector<CUdeviceptr> devices(kCopies);
    std::vector<Fill> fills(kCopies);
    std::vector<bool> copied(kCopies), copied_back(kCopies), filled(kCopies);
    // Where the filled bytes are copied to, in stream order.
    std::vector<CUdeviceptr> after(kCopies);
    std::vector<Shape> shapes(kCopies);
    for (size_t i = 0; i < kCopies; ++i) {
      shapes[i] = RandomShape();
      const size_t bytes = shapes[i].Extent(shapes[i].host);
      const size_t device_bytes = shapes[i].Extent(shapes[i].device);
      expected[i] = bench_.RandomBytes(bytes);
      sources[i] = bench_.RandomBytes(bytes);
      results[i].assign(bytes, kGap);
      devices[i] = bench_.NewMemory(device_bytes);
      bench_.Must(bench_.driver().MemsetD8Async(
                      devices[i], static_cast<unsigned char>(kGap),
                      device_bytes, stream),
                  "memset");
      const HostAccess access = static_cast<HostAccess>(Pick(3));
      if (access == HostAccess::kInStreamOrder) {
        fills[i] = {&sources[i], expected[i]};
        bench_.Must(bench_.driver().LaunchHostFunc(
                        stream,
                        [](void* data) {
                          const Fill& fill = *static_cast<Fill*>(data);
                          *fill.to = fill.bytes;
                        },
                        &fills[i]),
                    "host function");
      } else {
        sources[i] = expected[i];
      }
      const bool wait = Pick(4) == 0;
      copied[i] =
          Done(bench_.CopyShape(Direction::kHostToDevice, sources[i],
                                devices[i], shapes[i], stream, access, wait));
      if (copied[i] && wait) {
        bench_.Expect(InDeviceMemory(expected[i], shapes[i]), devices[i],
                      "synchronous");
      }
      if (access == HostAccess::kDuringCall) {
        std::memset(sources[i].data(), 0x5a, bytes);
      }
      copied_back[i] =
          copied[i] && Pick(2) == 0 &&
          Done(bench_.CopyShape(
              Direction::kDeviceToHost, results[i], devices[i], shapes[i],
              stream, static_cast<HostAccess>(Pick(3)), Pick(4) == 0));
      filled[i] = Pick(2) == 0 &&
                  Done(bench_.Fill(results[i], shapes[i], kFilled, stream));
      if (filled[i]) {
        after[i] = bench_.NewMemory(bytes);
        if (!Done(bench_.Copy(Direction::kHostToDevice, results[i], after[i],
                              stream))) {
          after[i] = 0;
        }
      }
    }
    bench_.Must(bench_.driver().StreamSynchronize(stream), "synchronize");
    for (size_t i = 0; i < kCopies; ++i) {
      const Shape& shape = shapes[i];
      const std::string which = absl::StrCat("copy ", i, " of stream ", index);
      if (copied[i]) {
        bench_.Expect(InDeviceMemory(expected[i], shape), devices[i], which);
      }
      std::vector<std::byte> back(shape.Extent(shape.host), kGap);
      for (uint64_t at = 0; at < shape.bytes(); ++at) {
        const uint64_t place = shape.At(at, shape.host);
        if (copied_back[i]) back[place] = expected[i][place];
        if (filled[i]) back[place] = std::byte{kFilled};
      }
      if (results[i] != back) {
        bench_.Wrong(absl::StrCat("wrong bytes on the way back: ", which,
                                  filled[i] ? ", filled" : ""));
      }
      if (after[i] != 0) bench_.Expect(back, after[i], "copied after a fill");
      bench_.engine().WaitForHost(sources[i].data(), sources[i].size());
      bench_.engine().WaitForHost(results[i].data(), results[i].size());
    }
  }

  static std::vector<std::byte> InDeviceMemory(
      const std::vector<std::byte>& host, const Shape& shape) {
    std::vector<std::byte> there(shape.Extent(shape.device), kGap);
    for (uint64_t at = 0; at < shape.bytes(); ++at) {
      there[shape.At(at, shape.device)] = host[shape.At(at, shape.host)];
    }
    return there;
  }

  // In one piece, or with gaps; rows longer than a chunk, many to one, slices.
  Shape RandomShape() {
    if (Pick(3) == 0) return Shape::Flat(1 + Pick(4000));
    Shape shape;
    shape.width = 1 + Pick(Pick(4) == 0 ? 1500 : 200);
    shape.height = 1 + Pick(8);
    shape.depth = Pick(2) == 0 ? 1 : 1 + Pick(3);
    for (Pitch* pitch : {&shape.host, &shape.device}) {
      pitch->row = shape.width + Pick(30);
      pitch->slice = pitch->row * (shape.height + Pick(2));
    }
    return Simplified(shape);
  }

  bool Done(const absl::Status& status) {
    copies_ += status.ok() ? 1 : 0;
    if (!status.ok() && !absl::IsResourceExhausted(status)) {
      bench_.Wrong(status.ToString());
    }
    return status.ok();
  }

  EngineBench bench_;
  std::atomic<int> gates_[kStreams] = {};
  CUstream streams_[kStreams] = {};
  int copies_ = 0;
};

void RunAll(int seeds, int fewest_copies,
            absl::FunctionRef<void(EngineOptions*)> adjust) {
  int copies = 0;
  for (int seed = 1; seed <= seeds; ++seed) {
    AccessRun run(seed, adjust);
    ASSERT_EQ(run.Run(), "") << "seed " << seed;
    copies += run.copies();
  }
  EXPECT_GT(copies, fewest_copies);
}

TEST(EngineAccessScheduleTest, EachSourceIsReadWhenItMayBe) {
  RunAll(400, 4000, [](EngineOptions*) {});
}

// Slots by need, and small copies in one piece by the driver.
TEST(EngineAccessScheduleTest,
     EachSourceIsReadWhenItMayBeWithoutSlotsOfOneSize) {
  RunAll(400, 4000, [](EngineOptions* options) {
    options->division = {};
    options->ring_bytes = size_t{1} << 20;
  });
}

// Whoever waits for the stream holds up nobody who enqueues, and perhaps opens
// the gate afterwards.
TEST(EngineAccessScheduleTest, ASynchronousCopyLetsOthersEnqueueOnItsStream) {
  for (const bool small : {false, true}) {
    for (uint64_t seed = 1; seed <= 50; ++seed) {
      EngineBench bench(seed, 2, 1, [&](EngineOptions* options) {
        if (!small) return;
        options->division = {};
        options->ring_bytes = size_t{1} << 20;
      });
      const CUstream stream = bench.NewStream();
      std::atomic<int> gate{0};
      std::atomic<bool> held{false};
      const std::vector<std::byte> bytes = bench.RandomBytes(1000);
      for (const bool waits : {true, false}) {
        bench.AddCaller(waits ? "waits" : "opens", [&, waits] {
          std::vector<std::byte> source = bytes;
          const CUdeviceptr device = bench.NewMemory(source.size());
          if (waits) {
            bench.Hold(stream, &gate);
            held = true;
          } else {
            simcuda::Scheduler::Current()->BlockUntil(
                "the stream is held", [&] { return held.load(); });
            simcuda::Scheduler::Yield();
          }
          bench.Check(bench.Copy(Direction::kHostToDevice, source, device,
                                 stream, HostAccess::kInStreamOrder, waits));
          gate = 1;
          bench.Must(bench.driver().StreamSynchronize(stream), "synchronize");
          bench.Expect(bytes, device, waits ? "synchronous" : "deferred");
          bench.engine().WaitForHost(source.data(), source.size());
        });
      }
      ASSERT_EQ(bench.Run([] {}), "") << "small " << small << " seed " << seed;
    }
  }
}

// Pinned while a small copy is on its way, or before: the driver's own copy is
// not over then when its call returns.
TEST(EngineAccessScheduleTest,
     MemoryThatIsPinnedMeanwhileIsDoneWithAllTheSame) {
  for (const bool before : {true, false}) {
    for (uint64_t seed = 1; seed <= 50; ++seed) {
      EngineBench bench(seed, 2, 1, [](EngineOptions* options) {
        options->division = {};
        options->ring_bytes = size_t{1} << 20;
      });
      const CUstream stream = bench.NewStream();
      bench.AddCaller("caller", [&] {
        const std::vector<std::byte> bytes = bench.RandomBytes(4096);
        std::vector<std::byte> host = bytes;
        const CUdeviceptr device = bench.NewMemory(host.size());
        int asked = 0;
        const auto is = [&] { return before || ++asked > 1; };
        const absl::FunctionRef<bool()> pinned = is;
        CopyRequest request{.direction = Direction::kHostToDevice,
                            .host = host.data(),
                            .device = device,
                            .shape = Shape::Flat(host.size()),
                            .stream = stream,
                            .access = HostAccess::kDuringCall,
                            .pinned = &pinned};
        bench.Must(bench.driver().MemHostRegister(host.data(), host.size(), 0),
                   "register");
        bench.Check(EngineBench::Outcome(bench.engine().Copy(request)));
        std::memset(host.data(), 0x5a, host.size());
        bench.Must(bench.driver().StreamSynchronize(stream), "synchronize");
        bench.Expect(bytes, device, "read during the call");

        asked = 0;
        request.direction = Direction::kDeviceToHost;
        request.wait = true;
        bench.Check(EngineBench::Outcome(bench.engine().Copy(request)));
        if (host != bytes) bench.Wrong("not there when the call returns");
        bench.engine().WaitForHost(host.data(), host.size());
        bench.Must(bench.driver().MemHostUnregister(host.data()), "unregister");
      });
      ASSERT_EQ(bench.Run([] {}), "") << "before " << before << " " << seed;
    }
  }
}

// The caller opens the gate after the calls have returned: they must not need
// the stream. Two copies of one chunk each take the stream's two slots.
TEST(EngineAccessScheduleTest, ReadingDuringTheCallDoesNotWaitForTheStream) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    EngineBench bench(seed, 2);
    const CUstream stream = bench.NewStream();
    std::atomic<int> gate{0};
    bench.AddCaller("caller", [&] {
      std::vector<std::byte> sources[2];
      std::vector<std::byte> expected[2];
      CUdeviceptr devices[2];
      bench.Hold(stream, &gate);
      for (int i = 0; i < 2; ++i) {
        expected[i] = sources[i] = bench.RandomBytes(1000);
        devices[i] = bench.NewMemory(1000);
        bench.Must(
            CudaCode(bench.Copy(Direction::kHostToDevice, sources[i],
                                devices[i], stream, HostAccess::kDuringCall)),
            "copy");
        std::memset(sources[i].data(), 0x5a, 1000);
      }
      gate = 1;
      bench.Must(bench.driver().StreamSynchronize(stream), "synchronize");
      for (int i = 0; i < 2; ++i) {
        bench.Expect(expected[i], devices[i], "read during the call");
        bench.engine().WaitForHost(sources[i].data(), 1000);
      }
    });
    ASSERT_EQ(bench.Run([] {}), "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace pinring
