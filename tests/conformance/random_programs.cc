// Random programs: operations on several streams over shared blocks and device
// memory, put in order by events and waits as a careful program does, so that
// what each host function and each look of the host sees is decided.

#include <algorithm>
#include <cstring>
#include <memory>

#include "tests/conformance/scenario.h"

namespace conformance {
namespace {

// Memory, and what has to be over before it may be touched again.
struct Memory {
  unsigned char* at = nullptr;
  size_t bytes = 0;
  int writer = -1;           // the stream that wrote it last; -1: the host
  std::vector<int> readers;  // since then
  // A host function uses it, which a free need not wait for.
  bool in_function = false;
};

class Program {
 public:
  Program(Run& run, bool holds) : run_(run), holds_(holds) {
    const size_t streams = run_.Between(1, 5);
    for (size_t i = 0; i < streams; ++i) MakeStream();
    for (size_t i = run_.Between(2, 5); i > 0; --i) {
      blocks_.emplace_back();
      MakeBlock(blocks_.back());
    }
    for (size_t i = run_.Between(1, 3); i > 0; --i) {
      Memory memory;
      memory.bytes = kDeviceBytes;
      CHECK_OK(cudaMalloc(&memory.at, memory.bytes));
      CHECK_OK(cudaMemset(memory.at, 0x33, memory.bytes));
      devices_.push_back(memory);
    }
    CHECK_OK(cudaDeviceSynchronize());
    CHECK_OK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void Execute(size_t steps) {
    for (size_t i = 0; i < steps; ++i) {
      if (holds_ && gate_ == nullptr && run_.OneIn(8)) {
        gate_ = std::make_unique<Gate>();
        gate_->Hold(streams_[run_.Between(0, streams_.size() - 1)]);
        until_ = i + run_.Between(1, 10);
      }
      if (gate_ != nullptr && i >= until_) Open();
      Step();
    }
    Open();
    Expect(cudaDeviceSynchronize());
    for (Memory& block : blocks_) {
      run_.Digest("block", block.at, block.bytes);
      Expect(cudaFreeHost(block.at));
    }
    for (Memory& device : devices_) {
      run_.Digest("device", Contents(device.at, device.bytes).data(),
                  device.bytes);
      Expect(cudaFree(device.at));
    }
    for (size_t i = 0; i < functions_.size(); ++i) {
      run_.Note("host function", static_cast<int64_t>(*seen_[i]));
    }
    for (size_t i = 0; i < streams_.size(); ++i) {
      if (made_[i]) Expect(cudaStreamDestroy(streams_[i]));
    }
    Expect(cudaEventDestroy(event_));
    run_.Note("calls", calls_);
  }

 private:
  static constexpr size_t kDeviceBytes = 250'000;

  void Expect(cudaError_t code) {
    ++calls_;
    if (code != cudaSuccess) run_.Code("call " + std::to_string(calls_), code);
  }

  void Open() {
    if (gate_ == nullptr) return;
    gate_->Open();
    // Its streams have to be past it before it goes.
    Expect(cudaDeviceSynchronize());
    gate_.reset();
  }

  void MakeStream() {
    cudaStream_t stream = nullptr;
    switch (run_.Between(0, 5)) {
      case 0:
        stream = nullptr;
        made_.push_back(false);
        break;
      case 1:
        stream = cudaStreamPerThread;
        made_.push_back(false);
        break;
      case 2:
        CHECK_OK(cudaStreamCreate(&stream));
        made_.push_back(true);
        break;
      default:
        CHECK_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        made_.push_back(true);
        break;
    }
    streams_.push_back(stream);
  }

  void MakeBlock(Memory& block) {
    block = {};
    block.bytes = run_.OneIn(3) ? run_.Between(1, 65'536)
                                : run_.Between(65'537, kDeviceBytes);
    Expect(cudaMallocHost(&block.at, block.bytes));
    run_.Fill(block.at, block.bytes);
  }

  // Makes `stream` wait for what another one has done so far.
  void Wait(int stream, int earlier) {
    if (earlier < 0 || earlier == stream) return;
    Expect(cudaEventRecord(event_, streams_[static_cast<size_t>(earlier)]));
    Expect(
        cudaStreamWaitEvent(streams_[static_cast<size_t>(stream)], event_, 0));
  }
  void Reads(int stream, Memory& memory) {
    Wait(stream, memory.writer);
    memory.readers.push_back(stream);
  }
  void Writes(int stream, Memory& memory) {
    Wait(stream, memory.writer);
    for (const int reader : memory.readers) Wait(stream, reader);
    memory.readers.clear();
    memory.writer = stream;
  }
  // The host does, after whatever tells it that it may.
  void HostWaits(int stream) {
    if (stream < 0) return;
    const cudaStream_t waited = streams_[static_cast<size_t>(stream)];
    cudaError_t code = cudaErrorNotReady;
    switch (run_.Between(0, 3)) {
      case 0:
        code = cudaStreamSynchronize(waited);
        break;
      case 1:
        Expect(cudaEventRecord(event_, waited));
        code = cudaEventSynchronize(event_);
        break;
      case 2:
        code = Poll([&] { return cudaStreamQuery(waited); });
        break;
      default:
        Expect(cudaEventRecord(event_, waited));
        code = Poll([&] { return cudaEventQuery(event_); });
        break;
    }
    Expect(code);
  }
  void HostReads(Memory& memory) { HostWaits(memory.writer); }
  void HostWrites(Memory& memory) {
    HostWaits(memory.writer);
    for (const int reader : memory.readers) HostWaits(reader);
    memory.readers.clear();
    memory.writer = -1;
    memory.in_function = false;
  }

  Memory& AnyOf(std::vector<Memory>& memories) {
    return memories[run_.Between(0, memories.size() - 1)];
  }

  void Copy(int stream) {
    Memory& block = AnyOf(blocks_);
    Memory& device = AnyOf(devices_);
    const bool down = run_.OneIn(2);
    Memory& to = down ? block : device;
    Memory& from = down ? device : block;
    Reads(stream, from);
    Writes(stream, to);
    const cudaStream_t on = streams_[static_cast<size_t>(stream)];
    const auto kind = run_.OneIn(4) ? cudaMemcpyDefault
                                    : (down ? cudaMemcpyDeviceToHost
                                            : cudaMemcpyHostToDevice);
    if (run_.OneIn(4)) {
      const size_t pitch = run_.Between(1, 3000);
      const size_t width = run_.Between(1, pitch);
      const size_t rows = std::min(to.bytes, from.bytes) / pitch;
      Expect(cudaMemcpy2DAsync(to.at, pitch, from.at, pitch, width, rows, kind,
                               on));
      return;
    }
    const size_t bytes = run_.Between(0, std::min(to.bytes, from.bytes));
    Expect(cudaMemcpyAsync(to.at + run_.Between(0, to.bytes - bytes),
                           from.at + run_.Between(0, from.bytes - bytes), bytes,
                           kind, on));
  }

  void OnTheDevice(int stream) {
    Memory& to = AnyOf(devices_);
    Memory& from = AnyOf(devices_);
    const cudaStream_t on = streams_[static_cast<size_t>(stream)];
    if (&to == &from) {
      Writes(stream, to);
      Expect(cudaMemsetAsync(to.at + run_.Between(0, 1000),
                             static_cast<int>(run_.Between(0, 255)),
                             run_.Between(0, 100'000), on));
      return;
    }
    Reads(stream, from);
    Writes(stream, to);
    Expect(cudaMemcpyAsync(to.at, from.at, kDeviceBytes,
                           cudaMemcpyDeviceToDevice, on));
  }

  // A host function looks at a block, or changes it.
  void Function(int stream) {
    if (functions_.size() >= 20) return;
    Memory& block = AnyOf(blocks_);
    const bool changes = run_.OneIn(2);
    if (changes) {
      Writes(stream, block);
    } else {
      Reads(stream, block);
    }
    block.in_function = true;
    seen_.push_back(std::make_unique<uint64_t>(0));
    unsigned char* const at = block.at;
    const size_t bytes = block.bytes;
    uint64_t* const seen = seen_.back().get();
    functions_.push_back(std::make_unique<std::function<void()>>([=] {
      *seen = DigestOf(at, bytes);
      if (!changes) return;
      for (size_t i = 0; i < bytes; i += 61) {
        at[i] = static_cast<unsigned char>(at[i] * 3 + 1);
      }
    }));
    HostFunction(streams_[static_cast<size_t>(stream)],
                 functions_.back().get());
  }

  void MemsetOfABlock(int stream) {
    Memory& block = AnyOf(blocks_);
    Writes(stream, block);
    const size_t bytes = run_.Between(0, block.bytes);
    Expect(cudaMemsetAsync(block.at + run_.Between(0, block.bytes - bytes),
                           static_cast<int>(run_.Between(0, 255)), bytes,
                           streams_[static_cast<size_t>(stream)]));
  }

  // These may wait for streams.
  void OfTheHost() {
    Memory& block = AnyOf(blocks_);
    switch (run_.Between(0, 5)) {
      case 0:
        HostReads(block);
        run_.Digest("look", block.at, block.bytes);
        break;
      case 1:
        HostWrites(block);
        run_.Fill(block.at, block.bytes);
        break;
      case 2: {  // while copies are queued
        if (block.in_function) HostWrites(block);
        Expect(cudaFreeHost(block.at));
        MakeBlock(block);
        break;
      }
      case 3: {
        Memory& device = AnyOf(devices_);
        HostReads(block);
        HostWrites(device);
        const size_t bytes = run_.Between(0, block.bytes);
        Expect(cudaMemcpy(device.at, block.at, bytes, cudaMemcpyHostToDevice));
        break;
      }
      case 4: {
        Memory& device = AnyOf(devices_);
        HostReads(device);
        HostWrites(block);
        const size_t bytes = run_.Between(0, block.bytes);
        Expect(cudaMemcpy(block.at, device.at, bytes, cudaMemcpyDeviceToHost));
        break;
      }
      default: {
        const size_t index = run_.Between(0, streams_.size() - 1);
        if (!made_[index]) break;
        HostWaits(static_cast<int>(index));
        Expect(cudaStreamDestroy(streams_[index]));
        Expect(cudaStreamCreateWithFlags(
            &streams_[index],
            run_.OneIn(2) ? cudaStreamNonBlocking : cudaStreamDefault));
        break;
      }
    }
  }

  void Step() {
    const int stream = static_cast<int>(run_.Between(0, streams_.size() - 1));
    switch (run_.Between(0, 9)) {
      case 0:
        OnTheDevice(stream);
        break;
      case 1:
        Function(stream);
        break;
      case 2:
        if (run_.OneIn(6)) {
          MemsetOfABlock(stream);
        } else {
          Copy(stream);
        }
        break;
      case 3:
      case 4:
        if (gate_ == nullptr) {
          OfTheHost();
        } else {
          Copy(stream);
        }
        break;
      default:
        Copy(stream);
        break;
    }
  }

  Run& run_;
  const bool holds_;
  std::vector<cudaStream_t> streams_;
  std::vector<bool> made_;
  std::vector<Memory> blocks_;
  std::vector<Memory> devices_;
  cudaEvent_t event_ = nullptr;
  std::vector<std::unique_ptr<uint64_t>> seen_;
  std::vector<std::unique_ptr<std::function<void()>>> functions_;
  std::unique_ptr<Gate> gate_;
  size_t until_ = 0;
  int64_t calls_ = 0;
};

void RandomPrograms(Run& run) { Program(run, false).Execute(25); }
void RandomProgramsHeld(Run& run) { Program(run, true).Execute(25); }

}  // namespace

std::vector<Scenario> RandomScenarios() {
  return {
      {"3", "random_programs", RandomPrograms, 500},
      {"2", "random_programs_held", RandomProgramsHeld, 500, Needs::kQueueing}};
}

}  // namespace conformance
