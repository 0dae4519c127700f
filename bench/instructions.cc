// Counts of instructions, which need no quiet machine: what a look-up, the call
// of a copy and a chunk take of pinring's own, without the driver's part.
// bench/instructions.py runs this under valgrind's callgrind and compares with
// the figures that are kept; by itself it only shows that it works.
//
// Each row is measured in rounds of the same work, dumped one by one: a round
// in which another thread was in the way counts more, so the least is the
// figure.

#include <cuda.h>
#include <cuda_runtime_api.h>
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#define PINRING_HAS_CALLGRIND 1
#endif

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "src/capi/instance.h"
#include "src/capi/instances.h"
#include "src/capi/options.h"
#include "src/engine/core.h"
#include "src/host/address_map.h"
#include "src/usage/usage_ledger.h"
#include "tests/support/testbed.h"

namespace pinring {
namespace {

constexpr int kRounds = 9;

void Require(bool condition, absl::string_view what) {
  if (condition) return;
  std::fprintf(stderr, "failed: %.*s\n", static_cast<int>(what.size()),
               what.data());
  std::_Exit(1);
}
void Require(const absl::Status& status) {
  Require(status.ok(), status.message());
}
void Require(CUresult code, absl::string_view what) {
  Require(code == CUDA_SUCCESS, what);
}

// Counts what the calling thread does between Begin and End, but for what it
// does in the driver.
class Counter {
 public:
  static void Begin() {
    Zero();
    counting_ = true;
    Toggle();
  }
  static void End(const std::string& row) {
    Toggle();
    counting_ = false;
    Dump(row);
  }
  static bool Counting() { return counting_; }

#if defined(PINRING_HAS_CALLGRIND)
  static void Toggle() { CALLGRIND_TOGGLE_COLLECT; }

 private:
  static void Zero() { CALLGRIND_ZERO_STATS; }
  static void Dump(const std::string& row) {
    CALLGRIND_DUMP_STATS_AT(row.c_str());
  }
#else
  static void Toggle() {}

 private:
  static void Zero() {}
  static void Dump(const std::string& /*row*/) {}
#endif

  static thread_local bool counting_;
};
thread_local bool Counter::counting_ = false;

// One row: `round` does something `times` times over; bench/instructions.py
// takes the number from the row's name.
void Count(absl::string_view row, int times, absl::FunctionRef<void()> round) {
  round();  // what is made at first use
  const std::string name = absl::StrCat(row, " ", times);
  for (int i = 0; i < kRounds; ++i) {
    Counter::Begin();
    round();
    Counter::End(name);
  }
}

// Stands in front of each of the driver's functions.
const Driver* real_driver = nullptr;

template <auto Field>
struct Uncounted;
template <typename... Parameters,
          CUresult (CUDAAPI* Driver::*Field)(Parameters...)>
struct Uncounted<Field> {
  static CUresult CUDAAPI Call(Parameters... parameters) {
    if (!Counter::Counting()) return (real_driver->*Field)(parameters...);
    Counter::Toggle();
    const CUresult code = (real_driver->*Field)(parameters...);
    Counter::Toggle();
    return code;
  }
};

Driver MakeUncountedDriver(const Driver& real) {
  real_driver = &real;
  Driver driver = real;
#define PINRING_UNCOUNTED(Field, ...) \
  if (real.Field != nullptr) driver.Field = &Uncounted<&Driver::Field>::Call;
  PINRING_DRIVER_FUNCTIONS(PINRING_UNCOUNTED)
#undef PINRING_UNCOUNTED
  return driver;
}

// --- The look-up ----------------------------------------------------------

void CountLookUps() {
  constexpr uintptr_t kBase = 0x7f12'3440'0000;
  constexpr size_t kApart = size_t{256} << 10;
  constexpr size_t kBytes = size_t{20} << 10;
  constexpr int kBlocks = 10'000;
  constexpr int kLookUps = 1'000;
  AddressMap map;
  for (int i = 0; i < kBlocks; ++i) {
    Require(map.Insert({.base = kBase + static_cast<size_t>(i) * kApart,
                        .bytes = kBytes,
                        .mapped_bytes = kBytes})
                .status());
  }
  std::minstd_rand random(1);
  std::vector<uintptr_t> inside;
  std::vector<uintptr_t> outside;
  for (int i = 0; i < kLookUps; ++i) {
    const uintptr_t offset = random() % kBlocks * kApart + random() % kBytes;
    inside.push_back(kBase + offset);
    outside.push_back(0x5555'5555'0000 + offset);
  }
  uintptr_t found = 0;
  const auto look_up = [&](const std::vector<uintptr_t>& addresses) {
    for (const uintptr_t address : addresses) {
      found += map.Find(address) != nullptr ? 1 : 0;
    }
  };
  Count("look-up of an address in one of 10,000 blocks", kLookUps,
        [&] { look_up(inside); });
  Require(found == (kRounds + 1) * kLookUps, "each address is found");
  Count("look-up of an address outside of them", kLookUps,
        [&] { look_up(outside); });
  Require(found == (kRounds + 1) * kLookUps, "no other address is found");
}

// --- The accounts ---------------------------------------------------------

void CountAccounts() {
  constexpr int kTimes = 1'000;
  UsageLedger ledger;
  Count("account of a copy", kTimes, [&] {
    for (int i = 0; i < kTimes; ++i) {
      ledger.Copied(kDefaultCategory, CopyDirection::kHostToDevice,
                    CopyPath::kStagedDeferred, 4096);
    }
  });
  Count("account of an allocation and its free", kTimes, [&] {
    for (int i = 0; i < kTimes; ++i) {
      ledger.Allocated(kDefaultCategory, UsageKind::kStaged, 4096);
      ledger.Released(kDefaultCategory, UsageKind::kStaged, 4096);
    }
  });
}

// --- The call -------------------------------------------------------------

class Calls {
 public:
  explicit Calls(absl::string_view settings)
      : driver_(MakeUncountedDriver(bed_.driver())),
        stream_(bed_.NonBlockingStream()),
        device_(bed_.DeviceBuffer(kBytes)) {
    Options options;
    Require(ApplySettings(
        absl::StrCat("ring_bytes=4MiB, movers=1, publish=off", settings),
        &options));
    auto made = Instance::Create(&driver_, options, &blocks_);
    Require(made.status());
    instance_ = *std::move(made);
    void* block = nullptr;
    Require(instance_->HostAlloc(&block, kBytes, 0));
    block_ = static_cast<char*>(block);
    Copy(kBytes);  // makes the ring
    Synchronize();
  }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;
  ~Calls() {
    Require(instance_->FreeHost(block_));
    Synchronize();
  }

  // The stream stands still meanwhile, so that movers have nothing to do.
  void CountDeferred() {
    constexpr int kCopies = 8;
    Held("call of a deferred copy of 1 chunk", kCopies, kChunkBytes);
    Held("call of a deferred copy of 17 chunks", 1, 17 * kChunkBytes);
  }

  // Where there is nothing before it.
  void CountSmall() {
    const uint64_t before = Copies(CopyPath::kStagedIdle);
    Count("call of a copy of 4 KiB on an idle stream", 1, [&] {
      Copy(kSmallBytes);
      if (Counter::Counting()) Counter::Toggle();
      Synchronize();
      if (Counter::Counting()) Counter::Toggle();
    });
    Require(Copies(CopyPath::kStagedIdle) == before + kRounds + 1,
            "each copy finds the stream idle");
  }

  void CountPassed() {
    constexpr int kCopies = 100;
    const std::vector<char> heap(kSmallBytes);
    const uint64_t before = Copies(CopyPath::kPassed);
    Count("call of a copy of memory that is not pinring's", kCopies, [&] {
      for (int i = 0; i < kCopies; ++i) {
        Require(instance_->MemcpyAsync(reinterpret_cast<void*>(device_),
                                       heap.data(), kSmallBytes,
                                       cudaMemcpyHostToDevice, stream_));
      }
    });
    Synchronize();
    Require(Copies(CopyPath::kPassed) == before + (kRounds + 1) * kCopies,
            "each copy is passed on");
  }

 private:
  static constexpr size_t kChunkBytes = size_t{16} << 10;
  static constexpr size_t kBytes = 32 * kChunkBytes;
  static constexpr size_t kSmallBytes = 4096;

  void Held(absl::string_view row, int copies, size_t bytes) {
    const uint64_t before = Copies(CopyPath::kStagedDeferred);
    Gate gate(bed_);
    gate.Hold(stream_);
    Count(row, copies, [&] {
      for (int i = 0; i < copies; ++i) Copy(bytes);
    });
    gate.Open();
    Synchronize();
    Require(Copies(CopyPath::kStagedDeferred) ==
                before + static_cast<uint64_t>((kRounds + 1) * copies),
            "each copy is deferred");
  }
  uint64_t Copies(CopyPath path) const {
    return instance_->Usage().copy(CopyDirection::kHostToDevice, path).count;
  }
  void Copy(size_t bytes) {
    Require(instance_->MemcpyAsync(reinterpret_cast<void*>(device_), block_,
                                   bytes, cudaMemcpyHostToDevice, stream_));
  }
  void Synchronize() {
    Require(real_driver->StreamSynchronize(stream_), "synchronization");
  }

  Testbed bed_;
  const Driver driver_;
  CUstream stream_;
  CUdeviceptr device_;
  AddressMap blocks_;
  std::unique_ptr<Instance> instance_;
  char* block_ = nullptr;
};

// --- A chunk --------------------------------------------------------------

// All decisions about one transfer, but for the bytes: the stream's part is
// played by whoever writes its flags.
class Chunks {
 public:
  Chunks() : ring_(kRingBytes), host_(kChunks * kChunkBytes) {
    CoreOptions options;
    options.ring_bytes = kRingBytes;
    options.unit_bytes = kChunkBytes;
    options.division = {kChunkBytes, kRingBytes / kChunkBytes};
    options.lines = 8;
    flags_ = std::make_unique<FlagLine[]>(options.lines);
    core_ = std::make_unique<Core>(options, ring_.data(), flags_.get());
  }

  void CountIn() {
    Count("decisions about a chunk to the device", kChunks, [this] {
      const auto transfer = Publish(Direction::kHostToDevice);
      FlagLine& line = flags_[transfer->line];
      line.ready = transfer->number;
      for (uint32_t chunk = 0; chunk < transfer->chunks; ++chunk) {
        Move();
        Require(AtLeast(line.permitted, transfer->ChunkSequence(chunk)),
                "a filled chunk may be copied");
        line.done = transfer->ChunkSequence(chunk);
      }
      End(*transfer);
    });
  }

  void CountOut() {
    Count("decisions about a chunk to the host", kChunks, [this] {
      const auto transfer = Publish(Direction::kDeviceToHost);
      FlagLine& line = flags_[transfer->line];
      line.ready = transfer->number;
      for (uint32_t chunk = 0; chunk < transfer->chunks; ++chunk) {
        line.done = transfer->ChunkSequence(chunk);
        Move();
        Require(AtLeast(line.drained, transfer->ChunkSequence(chunk)),
                "a copied chunk is drained");
      }
      End(*transfer);
    });
  }

 private:
  static constexpr size_t kChunkBytes = size_t{8} << 10;
  static constexpr size_t kRingBytes = 64 * kChunkBytes;
  static constexpr int kChunks = 200;

  std::shared_ptr<Transfer> Publish(Direction direction) {
    TransferRequest request;
    request.direction = direction;
    request.host = host_.data();
    request.shape = Shape::Flat(host_.size());
    auto transfer = core_->Publish(StreamKey{this, 1}, request).transfer;
    Require(transfer != nullptr && transfer->chunks == kChunks,
            "the transfer is published");
    return transfer;
  }
  void Move() {
    pinring::Move move;
    Require(core_->Take(0, nullptr, &move), "there is a chunk to move");
    core_->Finish(move);
  }
  void End(const Transfer& transfer) {
    (void)core_->Observe(0);
    Require(transfer.retired && core_->idle(), "the transfer is over");
  }

  std::vector<std::byte> ring_;
  std::vector<std::byte> host_;
  std::unique_ptr<FlagLine[]> flags_;
  std::unique_ptr<Core> core_;
};

int Run() {
  if (const std::string why = Testbed::WhySkip(); !why.empty()) {
    std::fprintf(stderr, "SKIPPED: %s\n", why.c_str());
    return 0;
  }
#if !defined(PINRING_HAS_CALLGRIND)
  std::puts("counts nothing: built without valgrind/callgrind.h");
#endif
#if defined(__VERSION__)
  std::printf("compiler %s\n", __VERSION__);
#endif
  CountLookUps();
  CountAccounts();
  Chunks chunks;
  chunks.CountIn();
  chunks.CountOut();
  {
    // So that the number of chunks is known.
    Calls calls(", slot_bytes=16KiB, slots_per_stream=32");
    calls.CountDeferred();
  }
  Calls calls("");
  calls.CountSmall();
  calls.CountPassed();
  return 0;
}

}  // namespace
}  // namespace pinring

int main() { return pinring::Run(); }
