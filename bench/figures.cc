// The figures that pinring is judged by: each path beside what it stands in
// for, in turns, so that a ratio is within one run of one machine. Writes them
// as one JSON object:
//
//   PINRING_TEST_DRIVER=native figures [--only=<group>,...] [--commit=<name>]
//       [--output=<file>]
//
// On the simulated device, with small sizes, it shows that it works and
// measures nothing. Every row copies fresh bytes and compares all of them.

#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/capi/instance.h"
#include "src/capi/instances.h"
#include "src/capi/options.h"
#include "src/cli/doctor_facts.h"
#include "src/cli/doctor_machine.h"
#include "src/copy/worker_pool.h"
#include "src/driver/status.h"
#include "src/os/pages.h"
#include "src/os/threads.h"
#include "src/usage/json_writer.h"
#include "tests/support/random_bytes.h"
#include "tests/support/testbed.h"

ABSL_FLAG(std::string, commit, "", "the commit that is measured, for the JSON");
ABSL_FLAG(std::vector<std::string>, only, {},
          "which groups of rows: pinned, small, streams, movers, rings, "
          "slots, pageable, shapes, calls, kernels, ring, load, processors");
ABSL_FLAG(std::string, settings, "",
          "options for every instance, as in \"movers=8, ring_bytes=32MiB\"");
ABSL_FLAG(std::string, output, "", "where to write the JSON; empty: print it");

namespace pinring {
namespace {

constexpr size_t kKiB = size_t{1} << 10;
constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kGiB = size_t{1} << 30;
constexpr int kRounds = 9;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "figures: %s\n", what.c_str());
  std::exit(1);
}
void Must(CUresult code) {
  if (code != CUDA_SUCCESS) Fail(absl::StrCat("the driver answers ", code));
}
void Must(const absl::Status& status) {
  if (!status.ok()) Fail(status.ToString());
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double SecondsOf(const std::function<void()>& action) {
  const uint64_t begin = os::MonotonicNanos();
  action();
  return static_cast<double>(os::MonotonicNanos() - begin) / 1e9;
}

// The medians of several actions that take turns.
std::vector<double> InTurns(int rounds,
                            const std::vector<std::function<void()>>& actions) {
  std::vector<std::vector<double>> seconds(actions.size());
  for (int round = -1; round < rounds; ++round) {
    for (size_t i = 0; i < actions.size(); ++i) {
      const double took = SecondsOf(actions[i]);
      if (round >= 0) seconds[i].push_back(took);
    }
  }
  std::vector<double> medians;
  medians.reserve(seconds.size());
  for (std::vector<double>& each : seconds)
    medians.push_back(Median(std::move(each)));
  return medians;
}

// The medians of actions that each have some rounds to themselves.
std::vector<double> OneByOne(
    int rounds, const std::vector<std::function<void()>>& actions) {
  std::vector<double> medians;
  medians.reserve(actions.size());
  for (const auto& action : actions)
    medians.push_back(InTurns(rounds, {action})[0]);
  return medians;
}

class Figures {
 public:
  Figures() : full_(TestsRunNatively()) {}

  // Those groups of rows; all of them where none is named.
  void Measure(const std::vector<std::string>& only) {
    const std::pair<const char*, void (Figures::*)()> kGroups[] = {
        {"pinned", &Figures::PinnedLike},
        {"small", &Figures::SmallCopies},
        {"streams", &Figures::SeveralStreams},
        {"movers", &Figures::Movers},
        {"rings", &Figures::Rings},
        {"slots", &Figures::FewSlots},
        {"pageable", &Figures::Pageable},
        {"shapes", &Figures::Shapes},
        {"calls", &Figures::CallTime},
        {"kernels", &Figures::BesideKernels},
        {"ring", &Figures::Ring},
        {"load", &Figures::LoadModel},
        {"processors", &Figures::Processors}};
    for (const std::string& name : only) {
      if (std::none_of(std::begin(kGroups), std::end(kGroups),
                       [&](const auto& group) { return name == group.first; }))
        Fail(absl::StrCat("there is no group of rows \"", name, "\""));
    }
    for (const auto& [name, measure] : kGroups) {
      if (only.empty() ||
          std::find(only.begin(), only.end(), name) != only.end())
        (this->*measure)();
    }
  }

  std::string Json() const {
    auto machine = cli::DoctorMachine::Open(!full_);
    Must(machine.status());
    JsonWriter json;
    json.BeginObject();
    json.Field("schema", "pinring.figures");
    json.Field("version", uint64_t{1});
    json.Key("simulated");
    json.Bool(!full_);
    json.Field("commit", absl::GetFlag(FLAGS_commit));
    json.Field("device", DeviceName());
    json.Field("processors", static_cast<uint64_t>(os::UsableCpus()));
    json.Field("movers",
               static_cast<uint64_t>(copy::DefaultMovers(os::UsableCpus())));
    json.Field("rounds", static_cast<uint64_t>(kRounds));
    json.Key("system");
    cli::WriteFacts(cli::SystemFacts(**machine), json);
    json.Key("device_facts");
    cli::WriteFacts(cli::ExamineDevice(**machine, 0).facts, json);
    json.Key("seconds");
    json.BeginObject();
    for (const auto& [name, seconds] : seconds_) {
      json.Key(name);
      json.Number(seconds);
    }
    json.EndObject();
    json.Key("targets");
    json.BeginObject();
    for (const Target& target : targets_) {
      json.Key(target.name);
      json.BeginObject();
      json.Key("measured");
      json.Number(target.measured);
      json.Key("target");
      json.Number(target.target);
      json.Field("better", target.higher ? "higher" : "lower");
      json.EndObject();
    }
    json.EndObject();
    json.EndObject();
    return std::move(json).Take();
  }

  void Print() const {
    for (const Target& target : targets_) {
      const bool met = target.higher ? target.measured >= target.target
                                     : target.measured <= target.target;
      std::fprintf(stderr, "%-44s %8.3f  target %s %6.3f %s\n",
                   target.name.c_str(), target.measured,
                   target.higher ? ">=" : "<=", target.target,
                   met ? "" : "MISSED");
    }
  }

 private:
  struct Target {
    std::string name;
    double measured;
    double target;
    bool higher;
  };

  // Sizes are what they are on a GPU, and small on the simulated device.
  size_t Sized(size_t bytes) const {
    return full_ ? bytes : std::max<size_t>(bytes / 1024, 4 * kKiB);
  }
  static std::string Name(size_t bytes) {
    return bytes >= kMiB ? absl::StrCat(bytes / kMiB, "MiB")
                         : absl::StrCat(bytes / kKiB, "KiB");
  }
  void AtLeast(std::string name, double measured, double target) {
    targets_.push_back({std::move(name), measured, target, true});
  }
  void AtMost(std::string name, double measured, double target) {
    targets_.push_back({std::move(name), measured, target, false});
  }
  void Note(std::string name, double seconds) {
    seconds_.emplace_back(std::move(name), seconds);
  }

  std::string DeviceName() const {
    char name[256] = {};
    Must(driver().DeviceGetName(name, sizeof(name), bed_.device()));
    return name;
  }

  const Driver& driver() const { return bed_.driver(); }

  std::unique_ptr<Instance> Make(const std::string& settings) {
    bed_.UseContext();
    Options options;
    Must(ApplySettings(absl::GetFlag(FLAGS_settings), &options));
    Must(ApplySettings(settings, &options));
    auto made = Instance::Create(&driver(), options, &Blocks());
    Must(made.status());
    return std::move(*made);
  }

  // Host memory of one kind, filled with fresh bytes.
  enum class Kind { kPinned, kStaged, kPlain, kPlainSmallPages };
  class Memory {
   public:
    Memory(Figures& figures, Kind kind, size_t bytes,
           Instance* instance = nullptr)
        : figures_(figures), kind_(kind), bytes_(bytes), instance_(instance) {
      void* at = nullptr;
      switch (kind) {
        case Kind::kPinned:
          Must(figures.driver().MemHostAlloc(&at, bytes, 0));
          break;
        case Kind::kStaged:
          if (instance == nullptr) Fail("staged memory of no instance");
          Must(instance->HostAlloc(&at, bytes, 0));
          break;
        case Kind::kPlain:
        case Kind::kPlainSmallPages: {
          auto pages = os::ReservePages(bytes, 2 * kMiB);
          Must(pages.status());
          at = *pages;
          if (kind == Kind::kPlain) (void)os::AdviseHuge(at, bytes);
          break;
        }
      }
      data_ = static_cast<char*>(at);
      Refill();
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory() {
      switch (kind_) {
        case Kind::kPinned:
          Must(figures_.driver().MemFreeHost(data_));
          break;
        case Kind::kStaged:
          if (instance_ != nullptr) Must(instance_->FreeHost(data_));
          break;
        default:
          Must(os::ReleasePages(data_, bytes_));
      }
    }
    char* data() const { return data_; }
    void Refill() {
      seed_ = std::random_device()();
      FillRandom(data_, bytes_, seed_);
    }
    bool Right() const { return WrongBytes(data_, bytes_, seed_) == 0; }
    uint64_t seed() const { return seed_; }

   private:
    Figures& figures_;
    const Kind kind_;
    const size_t bytes_;
    Instance* const instance_;
    char* data_ = nullptr;
    uint64_t seed_ = 0;
  };

  CUdeviceptr Device(size_t bytes) {
    if (bytes > device_bytes_) {
      if (device_ != 0) Must(driver().MemFree(device_));
      Must(driver().MemAlloc(&device_, bytes));
      device_bytes_ = bytes;
    }
    return device_;
  }
  static void* At(CUdeviceptr device) {
    return reinterpret_cast<void*>(device);  // NOLINT
  }

  // Fresh bytes there and back.
  void Verify(Instance& instance, size_t bytes, CUstream stream) {
    Memory out(*this, Kind::kStaged, bytes, &instance);
    Memory back(*this, Kind::kStaged, bytes, &instance);
    const CUdeviceptr device = Device(bytes);
    Must(instance.MemcpyAsync(At(device), out.data(), bytes,
                              cudaMemcpyHostToDevice, stream));
    Must(instance.MemcpyAsync(back.data(), At(device), bytes,
                              cudaMemcpyDeviceToHost, stream));
    Must(driver().StreamSynchronize(stream));
    if (WrongBytes(back.data(), bytes, out.seed()) != 0) Fail("WRONG BYTES");
  }

  struct Paths {
    double pinned_in, pinned_out, plain_in, plain_out;
    double sync_in, sync_out, deferred_in, deferred_out;
  };
  // Each path by itself for some rounds, as a program that uses it does.
  Paths MeasurePaths(Instance& instance, size_t bytes, int rounds) {
    const CUstream stream = bed_.NonBlockingStream();
    const CUdeviceptr device = Device(bytes);
    Memory pinned(*this, Kind::kPinned, bytes);
    Memory plain(*this, Kind::kPlain, bytes);
    Memory staged(*this, Kind::kStaged, bytes, &instance);
    const auto in = [&](bool wait) {
      Must(wait ? instance.Memcpy(At(device), staged.data(), bytes,
                                  cudaMemcpyHostToDevice)
                : instance.MemcpyAsync(At(device), staged.data(), bytes,
                                       cudaMemcpyHostToDevice, stream));
      if (!wait) Must(driver().StreamSynchronize(stream));
    };
    const auto out = [&](bool wait) {
      Must(wait ? instance.Memcpy(staged.data(), At(device), bytes,
                                  cudaMemcpyDeviceToHost)
                : instance.MemcpyAsync(staged.data(), At(device), bytes,
                                       cudaMemcpyDeviceToHost, stream));
      if (!wait) Must(driver().StreamSynchronize(stream));
    };
    const auto s = OneByOne(
        rounds,
        {[&] { Must(driver().MemcpyHtoD(device, pinned.data(), bytes)); },
         [&] { Must(driver().MemcpyDtoH(pinned.data(), device, bytes)); },
         [&] { Must(driver().MemcpyHtoD(device, plain.data(), bytes)); },
         [&] { Must(driver().MemcpyDtoH(plain.data(), device, bytes)); },
         [&] { in(true); }, [&] { out(true); }, [&] { in(false); },
         [&] { out(false); }});
    const std::string size = Name(bytes);
    const char* const names[] = {"pinned_in",    "pinned_out",  "pageable_in",
                                 "pageable_out", "sync_in",     "sync_out",
                                 "deferred_in",  "deferred_out"};
    for (size_t i = 0; i < s.size(); ++i)
      Note(absl::StrCat(names[i], "_", size), s[i]);
    Verify(instance, bytes, stream);
    return {s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]};
  }

  void PinnedLike() {
    const auto instance = Make("");
    const Paths p = MeasurePaths(*instance, Sized(kGiB), kRounds);
    AtLeast("sync_1GiB_of_pinned_h2d", p.pinned_in / p.sync_in, 0.97);
    AtLeast("sync_1GiB_of_pinned_d2h", p.pinned_out / p.sync_out, 0.99);
    AtLeast("deferred_1GiB_of_pinned_h2d", p.pinned_in / p.deferred_in, 0.97);
    AtLeast("deferred_1GiB_of_pinned_d2h", p.pinned_out / p.deferred_out,
            0.985);
    AtLeast("sync_1GiB_of_pageable_h2d", p.plain_in / p.sync_in, 8);
    AtLeast("sync_1GiB_of_pageable_d2h", p.plain_out / p.sync_out, 4);
  }

  void SmallCopies() {
    const auto instance = Make("small_limit_bytes=0");
    for (const size_t bytes : {4 * kKiB, 16 * kKiB}) {
      const CUstream stream = bed_.NonBlockingStream();
      const CUdeviceptr device = Device(bytes);
      Memory pinned(*this, Kind::kPinned, bytes);
      Memory staged(*this, Kind::kStaged, bytes, instance.get());
      const auto s = OneByOne(
          full_ ? 201 : 3,
          {[&] {
             Must(driver().MemcpyHtoDAsync(device, pinned.data(), bytes,
                                           stream));
             Must(driver().StreamSynchronize(stream));
           },
           [&] {
             Must(instance->MemcpyAsync(At(device), staged.data(), bytes,
                                        cudaMemcpyHostToDevice, stream));
             Must(driver().StreamSynchronize(stream));
           },
           [&] { Must(driver().MemcpyHtoD(device, pinned.data(), bytes)); },
           [&] {
             Must(instance->Memcpy(At(device), staged.data(), bytes,
                                   cudaMemcpyHostToDevice));
           },
           [&] { Must(driver().MemcpyDtoH(pinned.data(), device, bytes)); },
           [&] {
             Must(instance->Memcpy(staged.data(), At(device), bytes,
                                   cudaMemcpyDeviceToHost));
           },
           [&] {
             Must(driver().MemcpyDtoHAsync(pinned.data(), device, bytes,
                                           stream));
             Must(driver().StreamSynchronize(stream));
           },
           [&] {
             Must(instance->MemcpyAsync(staged.data(), At(device), bytes,
                                        cudaMemcpyDeviceToHost, stream));
             Must(driver().StreamSynchronize(stream));
           }});
      const std::string size = Name(bytes);
      AtMost(absl::StrCat("idle_", size, "_of_pinned_h2d"), s[1] / s[0], 1.25);
      AtMost(absl::StrCat("sync_", size, "_of_pinned_h2d"), s[3] / s[2], 1.25);
      AtMost(absl::StrCat("sync_", size, "_of_pinned_d2h"), s[5] / s[4], 1.25);
      AtMost(absl::StrCat("async_", size, "_of_pinned_d2h"), s[7] / s[6], 2.2);
      Verify(*instance, bytes, stream);
    }
    for (const size_t bytes : {64 * kKiB, 128 * kKiB, 256 * kKiB, 512 * kKiB}) {
      const Paths p = MeasurePaths(*instance, bytes, full_ ? 101 : 3);
      const std::string size = Name(bytes);
      AtMost(absl::StrCat("sync_", size, "_of_pageable_h2d"),
             p.sync_in / p.plain_in, 0.75);
      AtMost(absl::StrCat("sync_", size, "_of_pageable_d2h"),
             p.sync_out / p.plain_out, 0.75);
    }
    const std::pair<size_t, double> kSizes[] = {
        {kMiB, 0.6}, {4 * kMiB, 0.5}, {16 * kMiB, 0.4}};
    for (const auto& [bytes, target] : kSizes) {
      const Paths p = MeasurePaths(*instance, bytes, full_ ? 51 : 3);
      const std::string size = Name(bytes);
      AtMost(absl::StrCat("deferred_", size, "_of_pageable_h2d"),
             p.deferred_in / p.plain_in, target);
      AtMost(absl::StrCat("deferred_", size, "_of_pageable_d2h"),
             p.deferred_out / p.plain_out, target);
    }
  }

  // Lanes, each with memory and a stream of its own; some of them to the host.
  struct Lane {
    std::unique_ptr<Memory> pinned;
    std::unique_ptr<Memory> staged;
    CUdeviceptr device = 0;
    CUstream stream = nullptr;
    bool out = false;
  };
  std::vector<Lane> Lanes(Instance& instance, int in, int out, size_t bytes) {
    std::vector<Lane> lanes;
    for (int i = 0; i < in + out; ++i) {
      lanes.push_back(
          {std::make_unique<Memory>(*this, Kind::kPinned, bytes),
           std::make_unique<Memory>(*this, Kind::kStaged, bytes, &instance),
           bed_.DeviceBuffer(bytes), bed_.NonBlockingStream(), i >= in});
    }
    return lanes;
  }
  std::vector<double> CompareLanes(Instance& instance,
                                   const std::vector<Lane>& lanes,
                                   size_t bytes) {
    const auto all = [&](bool staged) {
      for (const Lane& lane : lanes) {
        char* const host = (staged ? lane.staged : lane.pinned)->data();
        if (!staged) {
          Must(lane.out ? driver().MemcpyDtoHAsync(host, lane.device, bytes,
                                                   lane.stream)
                        : driver().MemcpyHtoDAsync(lane.device, host, bytes,
                                                   lane.stream));
        } else {
          Must(lane.out
                   ? instance.MemcpyAsync(host, At(lane.device), bytes,
                                          cudaMemcpyDeviceToHost, lane.stream)
                   : instance.MemcpyAsync(At(lane.device), host, bytes,
                                          cudaMemcpyHostToDevice, lane.stream));
        }
      }
      for (const Lane& lane : lanes)
        Must(driver().StreamSynchronize(lane.stream));
    };
    return OneByOne(kRounds, {[&] { all(false); }, [&] { all(true); }});
  }

  void SeveralStreams() {
    const auto instance = Make("");
    const size_t bytes = Sized(128 * kMiB);
    {
      const auto lanes = Lanes(*instance, 4, 4, bytes);
      const auto s = CompareLanes(*instance, lanes, bytes);
      AtLeast("both_ways_8_streams_of_pinned", s[0] / s[1], 0.88);
      Verify(lanes, bytes);
    }
    const auto lanes = Lanes(*instance, 8, 0, bytes);
    const auto s = CompareLanes(*instance, lanes, bytes);
    AtLeast("in_8_streams_of_pinned", s[0] / s[1], 0.95);
    Verify(lanes, bytes);
  }

  // The device has what the lane's staged block has.
  void Verify(const std::vector<Lane>& lanes, size_t bytes) {
    for (const Lane& lane : lanes) {
      std::vector<char> there(bytes);
      Must(driver().MemcpyDtoH(there.data(), lane.device, bytes));
      if (std::memcmp(there.data(), lane.staged->data(), bytes) != 0)
        Fail("WRONG BYTES");
    }
  }

  // 1 GiB, synchronously, both ways: pinned in, staged in, pinned out, staged
  // out. Notes the staged ones, with what is different about the instance.
  std::vector<double> CompareSync(Instance& instance, const std::string& what) {
    const size_t bytes = Sized(kGiB);
    const CUdeviceptr device = Device(bytes);
    Memory pinned(*this, Kind::kPinned, bytes);
    Memory staged(*this, Kind::kStaged, bytes, &instance);
    auto s = OneByOne(
        kRounds,
        {[&] { Must(driver().MemcpyHtoD(device, pinned.data(), bytes)); },
         [&] {
           Must(instance.Memcpy(At(device), staged.data(), bytes,
                                cudaMemcpyHostToDevice));
         },
         [&] { Must(driver().MemcpyDtoH(pinned.data(), device, bytes)); },
         [&] {
           Must(instance.Memcpy(staged.data(), At(device), bytes,
                                cudaMemcpyDeviceToHost));
         }});
    if (!staged.Right()) Fail("WRONG BYTES");
    Verify(instance, bytes, bed_.NonBlockingStream());
    Note(absl::StrCat("sync_in_", Name(bytes), "_", what), s[1]);
    Note(absl::StrCat("sync_out_", Name(bytes), "_", what), s[3]);
    return s;
  }

  void Movers() {
    const struct {
      int movers;
      double in, out;  // targets; 0: none
    } kCases[] = {
        {1, 0, 0},       {2, 0, 0},
        {4, 0.65, 0.92}, {8, 0.93, 0.98},
        {12, 0, 0},      {copy::DefaultMovers(os::UsableCpus()), 0, 0}};
    int before = 0;
    for (const auto& one : kCases) {
      if (one.movers <= before) continue;  // the default is one of them
      before = one.movers;
      const auto instance = Make(absl::StrCat("movers=", one.movers));
      const auto s =
          CompareSync(*instance, absl::StrCat(one.movers, "_movers"));
      if (one.in == 0) continue;
      AtLeast(absl::StrCat("sync_1GiB_", one.movers, "_movers_of_pinned_h2d"),
              s[0] / s[1], one.in);
      AtLeast(absl::StrCat("sync_1GiB_", one.movers, "_movers_of_pinned_d2h"),
              s[2] / s[3], one.out);
    }
  }

  void Rings() {
    for (const size_t size : {16 * kMiB, 32 * kMiB, 64 * kMiB, 128 * kMiB}) {
      const size_t ring = std::max(Sized(size), 64 * kKiB);
      const auto instance = Make(absl::StrCat("ring_bytes=", ring));
      CompareSync(*instance, absl::StrCat("ring_", Name(ring)));
    }
  }

  // One stream that owns only so much of the ring.
  void FewSlots() {
    const struct {
      const char* settings;
      const char* name;
      double target;
    } kCases[] = {{"slot_bytes=512KiB, slots_per_stream=4", "2MiB", 0.60},
                  {"slot_bytes=2MiB, slots_per_stream=4", "8MiB", 0.85}};
    for (const auto& one : kCases) {
      const auto instance = Make(one.settings);
      const size_t bytes = Sized(kGiB);
      const CUstream stream = bed_.NonBlockingStream();
      const CUdeviceptr device = Device(bytes);
      Memory pinned(*this, Kind::kPinned, bytes);
      Memory staged(*this, Kind::kStaged, bytes, instance.get());
      const auto s = OneByOne(
          kRounds, {[&] {
                      Must(driver().MemcpyHtoDAsync(device, pinned.data(),
                                                    bytes, stream));
                      Must(driver().StreamSynchronize(stream));
                    },
                    [&] {
                      Must(instance->Memcpy(At(device), staged.data(), bytes,
                                            cudaMemcpyHostToDevice));
                    }});
      AtLeast(absl::StrCat("owning_", one.name, "_of_pinned_h2d"), s[0] / s[1],
              one.target);
      Verify(*instance, Sized(64 * kMiB), stream);
    }
  }

  // Ordinary memory of the program's, which pinring copies through the ring
  // too.
  void Pageable() {
    const auto instance = Make("");
    for (const Kind kind : {Kind::kPlain, Kind::kPlainSmallPages}) {
      for (const size_t size : {64 * kMiB, kGiB}) {
        const size_t bytes = Sized(size);
        const CUdeviceptr device = Device(bytes);
        Memory plain(*this, kind, bytes);
        const auto copy = [&](bool in) {
          Must(instance->CopyPageable(
              {.dst = in ? At(device) : plain.data(),
               .src = in ? plain.data() : At(device),
               .bytes = bytes,
               .kind = in ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
               .stream = nullptr,
               .wait = true}));
        };
        const auto s = OneByOne(
            kRounds,
            {[&] { Must(driver().MemcpyHtoD(device, plain.data(), bytes)); },
             [&] { copy(true); },
             [&] { Must(driver().MemcpyDtoH(plain.data(), device, bytes)); },
             [&] { copy(false); }});
        const std::string name =
            absl::StrCat("malloc_", Name(size),
                         kind == Kind::kPlainSmallPages ? "_4KiB_pages" : "");
        AtLeast(absl::StrCat(name, "_of_pageable_h2d"), s[0] / s[1], 4);
        AtLeast(absl::StrCat(name, "_of_pageable_d2h"), s[2] / s[3], 2.5);
        if (!plain.Right()) Fail("WRONG BYTES");
      }
    }
  }

  // Rows: a million of one byte, and an image whose rows have gaps.
  void Shapes() {
    const auto instance = Make("");
    const size_t rows = full_ ? 1'000'000 : 1000;
    {
      const size_t pitch = 8;
      const CUdeviceptr device = Device(rows * pitch);
      Memory pinned(*this, Kind::kPinned, rows * pitch);
      Memory staged(*this, Kind::kStaged, rows * pitch, instance.get());
      const auto s =
          CompareRows(*instance, pinned, staged, device, 1, rows, pitch, pitch);
      AtMost("million_rows_of_1_byte_of_native_h2d", s[1] / s[0], 10);
      AtMost("million_rows_of_1_byte_of_native_d2h", s[3] / s[2], 10);
    }
    const size_t width = 4 * kKiB;
    const size_t pitch = width + 512;
    const size_t height = Sized(kGiB) / width;
    const CUdeviceptr device = Device(height * pitch);
    Memory pinned(*this, Kind::kPinned, height * pitch);
    Memory staged(*this, Kind::kStaged, height * pitch, instance.get());
    const auto s = CompareRows(*instance, pinned, staged, device, width, height,
                               pitch, pitch);
    const size_t bytes = width * height;
    const auto flat = OneByOne(
        kRounds, {[&] {
                    Must(instance->Memcpy(At(device), staged.data(), bytes,
                                          cudaMemcpyHostToDevice));
                  },
                  [&] {
                    Must(instance->Memcpy(staged.data(), At(device), bytes,
                                          cudaMemcpyDeviceToHost));
                  }});
    AtLeast("pitched_1GiB_of_staged_1d_h2d", flat[0] / s[1], 0.85);
    AtLeast("pitched_1GiB_of_staged_1d_d2h", flat[1] / s[3], 0.85);
  }
  // In natively, in staged, out natively, out staged.
  std::vector<double> CompareRows(Instance& instance, const Memory& pinned,
                                  const Memory& staged, CUdeviceptr device,
                                  size_t width, size_t height,
                                  size_t host_pitch, size_t device_pitch) {
    const auto native = [&](bool in) {
      CUDA_MEMCPY2D copy;
      std::memset(&copy, 0, sizeof(copy));
      copy.srcMemoryType = in ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      copy.dstMemoryType = in ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
      copy.srcHost = copy.dstHost = pinned.data();
      copy.srcDevice = copy.dstDevice = device;
      copy.srcPitch = in ? host_pitch : device_pitch;
      copy.dstPitch = in ? device_pitch : host_pitch;
      copy.WidthInBytes = width;
      copy.Height = height;
      Must(driver().Memcpy2DUnaligned(&copy));
    };
    const auto through = [&](bool in) {
      Instance::Rows rows;
      rows.width = width;
      rows.height = height;
      const Pitch host{host_pitch, host_pitch * height};
      const Pitch there{device_pitch, device_pitch * height};
      rows.dst = in ? there : host;
      rows.src = in ? host : there;
      Must(instance.MemcpyRows(
          {.dst = in ? At(device) : staged.data(),
           .src = in ? staged.data() : At(device),
           .rows = &rows,
           .kind = in ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
           .stream = nullptr,
           .wait = true}));
    };
    const auto s =
        OneByOne(kRounds, {[&] { native(true); }, [&] { through(true); },
                           [&] { native(false); }, [&] { through(false); }});
    // The staged copy out brought back what the staged copy in had brought, or
    // what the native one had: the same place.
    through(true);
    through(false);
    if (!staged.Right()) Fail("WRONG BYTES");
    return s;
  }

  // Of a copy whose stream is held, and of one that is not pinring's.
  void CallTime() {
    const auto instance = Make("");
    Memory staged(*this, Kind::kStaged, 4 * kMiB, instance.get());
    const CUstream stream = bed_.NonBlockingStream();
    const CUdeviceptr device = Device(4 * kMiB);
    const auto call = [&](size_t bytes) {
      std::vector<double> seconds;
      for (int round = 0; round < (full_ ? 40 : 4); ++round) {
        Gate gate(bed_);
        gate.Hold(stream);
        for (int i = 0; i < 8; ++i) {
          seconds.push_back(SecondsOf([&] {
            Must(instance->MemcpyAsync(At(device), staged.data(), bytes,
                                       cudaMemcpyHostToDevice, stream));
          }));
        }
        gate.Open();
        Must(driver().StreamSynchronize(stream));
      }
      return Median(seconds) * 1e6;
    };
    call(256 * kKiB);
    const double one = call(256 * kKiB);
    const double four = call(kMiB);
    AtMost("deferred_call_one_chunk_us", one, 7);
    AtMost("deferred_call_each_further_chunk_us", (four - one) / 3, 4);
  }

  // Kernels of fifteen other streams beside a large copy.
  void BesideKernels() {
    const auto instance = Make("");
    const size_t bytes = Sized(512 * kMiB);
    constexpr int kStreams = 15;
    std::vector<CUstream> streams;
    std::vector<CUdeviceptr> buffers;
    const size_t buffer_bytes = Sized(4 * kMiB);
    for (int i = 0; i < kStreams; ++i) {
      streams.push_back(bed_.NonBlockingStream());
      buffers.push_back(bed_.DeviceBuffer(buffer_bytes));
    }
    const CUstream stream = bed_.NonBlockingStream();
    const CUdeviceptr device = Device(bytes);
    Memory pinned(*this, Kind::kPinned, bytes);
    Memory staged(*this, Kind::kStaged, bytes, instance.get());
    const auto run = [&](bool with_staged) {
      Must(
          with_staged
              ? CudaCode(instance->MemcpyAsync(At(device), staged.data(), bytes,
                                               cudaMemcpyHostToDevice, stream))
              : driver().MemcpyHtoDAsync(device, pinned.data(), bytes, stream));
      const double seconds = SecondsOf([&] {
        for (int round = 0; round < 10; ++round) {
          for (int i = 0; i < kStreams; ++i) {
            bed_.LaunchFill(streams[i], buffers[i], buffer_bytes,
                            static_cast<uint32_t>(round));
          }
        }
        for (const CUstream each : streams)
          Must(driver().StreamSynchronize(each));
      });
      Must(driver().StreamSynchronize(stream));
      return seconds;
    };
    std::vector<double> beside[2];
    for (int round = -1; round < kRounds; ++round) {
      for (const bool with_staged : {false, true}) {
        const double seconds = run(with_staged);
        if (round >= 0) beside[with_staged ? 1 : 0].push_back(seconds);
      }
    }
    Note("kernels_beside_pinned", Median(beside[0]));
    Note("kernels_beside_staged", Median(beside[1]));
    AtMost("kernels_beside_512MiB_of_beside_pinned",
           Median(beside[1]) / Median(beside[0]), 1.25);
  }

  void Ring() {
    const size_t bytes = Sized(64 * kMiB);
    std::vector<double> ring;
    std::vector<double> pinned;
    for (int round = 0; round < kRounds; ++round) {
      const auto instance =
          Make(full_ ? "" : "ring_bytes=64KiB, small_pool_bytes=64KiB");
      Memory staged(*this, Kind::kStaged, kMiB, instance.get());
      const CUstream stream = bed_.NonBlockingStream();
      const CUdeviceptr device = Device(kMiB);
      ring.push_back(SecondsOf([&] {
        Must(instance->MemcpyAsync(At(device), staged.data(), kMiB,
                                   cudaMemcpyHostToDevice, stream));
        Must(driver().StreamSynchronize(stream));
      }));
      void* at = nullptr;
      pinned.push_back(
          SecondsOf([&] { Must(driver().MemHostAlloc(&at, bytes, 0)); }));
      Must(driver().MemFreeHost(at));
    }
    Note("ring_and_first_copy", Median(ring));
    Note("pinned_as_much", Median(pinned));
    AtMost("first_copy_and_ring_of_pinning_64MiB",
           Median(ring) / Median(pinned), 0.25);
  }

  // From nothing to 8 GiB on the device.
  void LoadModel() {
    const size_t bytes = Sized(8 * kGiB);
    const auto instance = Make("");
    const CUdeviceptr device = Device(bytes);
    const auto load = [&](bool with_staged) {
      void* at = nullptr;
      const double seconds = SecondsOf([&] {
        Must(with_staged ? CudaCode(instance->HostAlloc(&at, bytes, 0))
                         : driver().MemHostAlloc(&at, bytes, 0));
        copy::ParallelFor(8, bytes, 16 * kMiB, [&](size_t begin, size_t end) {
          std::memset(static_cast<char*>(at) + begin, 1, end - begin);
        });
        Must(with_staged ? CudaCode(instance->Memcpy(At(device), at, bytes,
                                                     cudaMemcpyHostToDevice))
                         : driver().MemcpyHtoD(device, at, bytes));
      });
      Must(with_staged ? CudaCode(instance->FreeHost(at))
                       : driver().MemFreeHost(at));
      return seconds;
    };
    load(true);
    const double staged = Median({load(true), load(true), load(true)});
    const double pinned = Median({load(false), load(false), load(false)});
    Note("load_8GiB_staged", staged);
    Note("load_8GiB_pinned", pinned);
    AtMost("load_8GiB_of_pinned", staged / pinned, 0.25);
  }

  // Of this process: of one core.
  static double CpuShare(double seconds) {
    const std::clock_t begin = std::clock();
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / seconds;
  }

  void Processors() {
    const auto instance = Make("");
    const size_t bytes = Sized(64 * kMiB);
    const CUstream stream = bed_.NonBlockingStream();
    const CUdeviceptr device = Device(bytes);
    Memory staged(*this, Kind::kStaged, bytes, instance.get());
    const auto copy = [&] {
      Must(instance->MemcpyAsync(At(device), staged.data(), bytes,
                                 cudaMemcpyHostToDevice, stream));
    };
    const double at_once = InTurns(kRounds, {[&] {
                                     copy();
                                     Must(driver().StreamSynchronize(stream));
                                   }})[0];
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    AtMost("cpu_with_nothing_outstanding", CpuShare(1), 0.001);
    // The kernel that holds the stream takes no processor of the host.
    std::vector<double> shares;
    std::vector<double> held;
    std::vector<double> briefly;
    for (const bool for_long : {true, false, true, false, true, false}) {
      Gate gate(bed_);
      gate.Hold(stream);
      copy();
      if (for_long) {
        shares.push_back(CpuShare(full_ ? 1 : 0.05));
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
      (for_long ? held : briefly).push_back(SecondsOf([&] {
        gate.Open();
        Must(driver().StreamSynchronize(stream));
      }));
    }
    Note("held_copy_after_gate", Median(held));
    Note("briefly_held_copy_after_gate", Median(briefly));
    Note("copy_64MiB_not_held", at_once);
    AtMost("cpu_while_one_transfer_waits", Median(shares), 0.02);
    AtMost("latency_added_by_waiting_1s_us",
           (Median(held) - Median(briefly)) * 1e6, 100);
  }

  const bool full_;
  Testbed bed_;
  CUdeviceptr device_ = 0;
  size_t device_bytes_ = 0;
  std::vector<Target> targets_;
  std::vector<std::pair<std::string, double>> seconds_;
};

int Main() {
  if (const std::string why = Testbed::WhySkip(); !why.empty()) {
    std::fprintf(stderr, "SKIPPED: %s\n", why.c_str());
    return 0;
  }
  Figures figures;
  figures.Measure(absl::GetFlag(FLAGS_only));
  if (TestsRunNatively()) figures.Print();
  const std::string json = figures.Json();
  const std::string output = absl::GetFlag(FLAGS_output);
  if (output.empty()) {
    std::printf("%s\n", json.c_str());
    return 0;
  }
  std::ofstream file(output);
  file << json << "\n";
  if (!file.flush()) Fail(absl::StrCat("cannot write ", output));
  return 0;
}

}  // namespace
}  // namespace pinring

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return pinring::Main();
}
