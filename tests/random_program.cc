#include "tests/random_program.h"

#include <algorithm>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"

namespace pinring {
namespace {

class Maker {
 public:
  Maker(uint64_t seed, size_t max_bytes) : random_(seed) {
    program_.seed = seed;
    program_.block_bytes = 1 + Pick(max_bytes);
    const int threads = 1 + static_cast<int>(Pick(3));
    program_.threads.resize(threads);
    for (int thread = 0; thread < threads; ++thread) {
      const int streams = 1 + static_cast<int>(Pick(4));
      for (int i = 0; i < streams; ++i) {
        streams_of_.emplace_back(thread);
        program_.non_blocking.push_back(Pick(4) != 0);
      }
    }
    dirty_.assign(streams_of_.size(), false);
    host_function_.assign(streams_of_.size(), false);
    program_.events = 1 + static_cast<int>(Pick(3));
  }

  RandomProgram Make() {
    const size_t threads = program_.threads.size();
    for (size_t thread = 0; thread < threads; ++thread) {
      for (size_t s = 0; s < streams_of_.size(); ++s) {
        if (streams_of_[s] == static_cast<int>(thread)) mine_.push_back(s);
      }
      const size_t steps = 4 + Pick(22);
      for (size_t i = 0; i < steps; ++i) AddSteps(thread);
      OpenAll(thread);
      for (const size_t s : mine_) {
        Add(thread, {StepKind::kSyncStream, static_cast<int>(s)});
        Add(thread, {StepKind::kCheck, static_cast<int>(s)});
      }
      mine_.clear();
    }
    // Gates that threads open for each other: anywhere in their course.
    for (const int gate : foreign_gates_) {
      auto& steps = program_.threads[Pick(threads)];
      steps.insert(
          steps.begin() + static_cast<ptrdiff_t>(Pick(steps.size() + 1)),
          {StepKind::kOpen, 0, gate});
    }
    return program_;
  }

 private:
  uint64_t Pick(uint64_t below) { return random_() % below; }

  void Add(size_t thread, const ProgramStep& step) {
    program_.threads[thread].push_back(step);
  }

  // A range of the block: mostly odd, sometimes all of it.
  ProgramStep Ranged(StepKind kind, size_t stream, int index) {
    ProgramStep step{kind, static_cast<int>(stream), index};
    if (Pick(4) == 0) {
      step.bytes = program_.block_bytes;
    } else {
      step.offset = Pick(program_.block_bytes);
      step.bytes = 1 + Pick(program_.block_bytes - step.offset);
    }
    step.value = static_cast<uint8_t>(1 + Pick(255));
    return step;
  }

  void Sync(size_t thread, size_t s) {
    Add(thread, {StepKind::kSyncStream, static_cast<int>(s)});
    dirty_[s] = false;
    host_function_[s] = false;
  }

  void OpenAll(size_t thread) {
    std::shuffle(own_gates_.begin(), own_gates_.end(), random_);
    for (const int gate : own_gates_) Add(thread, {StepKind::kOpen, 0, gate});
    own_gates_.clear();
  }

  void AddSteps(size_t thread) {
    const size_t s = mine_[Pick(mine_.size())];
    const int buffer = static_cast<int>(Pick(2));
    switch (Pick(22)) {
      case 0:
      case 1: {  // a gate that this thread opens later
        own_gates_.push_back(program_.gates);
        Add(thread, {StepKind::kGate, static_cast<int>(s), program_.gates++});
        dirty_[s] = true;
        break;
      }
      case 2:
        if (Pick(3) == 0) {
          foreign_gates_.push_back(program_.gates);
          Add(thread, {StepKind::kGate, static_cast<int>(s), program_.gates++});
          dirty_[s] = true;
        }
        break;
      case 3:
      case 4:
        if (!own_gates_.empty()) {
          const size_t i = Pick(own_gates_.size());
          Add(thread, {StepKind::kOpen, 0, own_gates_[i]});
          own_gates_.erase(own_gates_.begin() + static_cast<ptrdiff_t>(i));
        }
        break;
      case 5:
      case 6:
      case 7:
        Add(thread, Ranged(StepKind::kHostToDevice, s, buffer));
        dirty_[s] = true;
        break;
      case 8:
      case 9:
      case 10:
        Add(thread, Ranged(StepKind::kDeviceToHost, s, buffer));
        dirty_[s] = true;
        break;
      case 11: {  // the host writes the source after the call, before the
                  // stream gets there
        if (dirty_[s]) OpenAll(thread);
        Sync(thread, s);
        const int gate = program_.gates++;
        Add(thread, {StepKind::kGate, static_cast<int>(s), gate});
        const ProgramStep copy = Ranged(StepKind::kHostToDevice, s, buffer);
        Add(thread, copy);
        ProgramStep fill = copy;
        fill.kind = StepKind::kHostFill;
        fill.value = static_cast<uint8_t>(1 + Pick(255));
        Add(thread, fill);
        Add(thread, {StepKind::kOpen, 0, gate});
        dirty_[s] = true;
        break;
      }
      case 12:
        if (dirty_[s]) Sync(thread, s);
        Add(thread, Ranged(StepKind::kHostFill, s, 0));
        break;
      case 13:
        Add(thread, Ranged(StepKind::kHostFunctionFill, s, 0));
        dirty_[s] = true;
        host_function_[s] = true;
        break;
      case 14:
        Add(thread, Ranged(StepKind::kDeviceFill, s, buffer));
        dirty_[s] = true;
        break;
      case 15:
        Add(thread, {StepKind::kPinnedCopy, static_cast<int>(s)});
        dirty_[s] = true;
        break;
      case 16: {
        const int event = static_cast<int>(Pick(program_.events));
        Add(thread, {StepKind::kRecord, static_cast<int>(s), event});
        const size_t other = mine_[Pick(mine_.size())];
        Add(thread, {StepKind::kWaitEvent, static_cast<int>(other), event});
        dirty_[other] = true;
        break;
      }
      case 17:
        if (Pick(2) == 0) OpenAll(thread);
        Add(thread,
            {StepKind::kSyncEvent, 0, static_cast<int>(Pick(program_.events))});
        break;
      case 18:
        if (Pick(2) == 0) OpenAll(thread);
        Sync(thread, s);
        Add(thread, {StepKind::kCheck, static_cast<int>(s)});
        break;
      case 19:  // ordered behind the stream's own work: the legacy stream waits
                // for blocking streams, and the host for a non-blocking one
        if (program_.non_blocking[s] && dirty_[s]) Sync(thread, s);
        Add(thread, Ranged(Pick(2) == 0 ? StepKind::kSyncHostToDevice
                                        : StepKind::kSyncDeviceToHost,
                           s, buffer));
        if (!program_.non_blocking[s]) {
          dirty_[s] = false;
          host_function_[s] = false;
        }
        break;
      case 20:
        Add(thread,
            {Pick(2) == 0 ? StepKind::kAllocFree : StepKind::kPinUnpin});
        break;
      case 21: {
        const bool block = Pick(2) == 0;
        // Freeing waits for copies of the block; a host function that still
        // writes it is the program's own business.
        if (block && host_function_[s]) Sync(thread, s);
        Add(thread,
            {block ? StepKind::kReplaceBlock : StepKind::kReplaceStream,
             static_cast<int>(s), 0, 0, 0, static_cast<uint8_t>(Pick(256))});
        break;
      }
      default:
        break;
    }
  }

  std::mt19937_64 random_;
  RandomProgram program_;
  std::vector<int> streams_of_;  // the thread of each stream
  std::vector<size_t> mine_;
  std::vector<bool> dirty_;  // work was enqueued since the last synchronization
  std::vector<bool> host_function_;  // one that writes the block, likewise
  std::vector<int> own_gates_;
  std::vector<int> foreign_gates_;
};

const char* Name(StepKind kind) {
  switch (kind) {
    case StepKind::kGate:
      return "gate";
    case StepKind::kOpen:
      return "open";
    case StepKind::kHostToDevice:
      return "host to device";
    case StepKind::kDeviceToHost:
      return "device to host";
    case StepKind::kSyncHostToDevice:
      return "sync host to device";
    case StepKind::kSyncDeviceToHost:
      return "sync device to host";
    case StepKind::kHostFill:
      return "host fill";
    case StepKind::kHostFunctionFill:
      return "host function fill";
    case StepKind::kDeviceFill:
      return "device fill";
    case StepKind::kPinnedCopy:
      return "pinned copy";
    case StepKind::kRecord:
      return "record";
    case StepKind::kWaitEvent:
      return "wait event";
    case StepKind::kSyncEvent:
      return "sync event";
    case StepKind::kSyncStream:
      return "sync stream";
    case StepKind::kCheck:
      return "check";
    case StepKind::kAllocFree:
      return "alloc, free";
    case StepKind::kPinUnpin:
      return "pin, unpin";
    case StepKind::kReplaceBlock:
      return "replace block";
    case StepKind::kReplaceStream:
      return "replace stream";
  }
  return "?";
}

}  // namespace

RandomProgram MakeRandomProgram(uint64_t seed, size_t max_bytes) {
  return Maker(seed, max_bytes).Make();
}

std::string RandomProgram::Describe() const {
  std::string text =
      absl::StrCat("program ", seed, ": blocks of ", block_bytes, " bytes\n");
  for (size_t thread = 0; thread < threads.size(); ++thread) {
    absl::StrAppend(&text, "thread ", thread, ":\n");
    for (const ProgramStep& step : threads[thread]) {
      absl::StrAppend(&text, "  ", Name(step.kind), " stream ", step.stream,
                      " index ", step.index, " [", step.offset, ", +",
                      step.bytes, ")\n");
    }
  }
  return text;
}

}  // namespace pinring
