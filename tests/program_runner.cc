#include "tests/program_runner.h"

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/driver/status.h"
#include "src/os/check.h"
#include "src/os/pages.h"
#include "tests/support/scheduled_engine.h"

namespace pinring {
namespace {

using simcuda::Machine;
using simcuda::Scheduler;

void Ok(CUresult code, const char* what) {
  if (code == CUDA_SUCCESS) return;
  PINRING_CHECK(code == CUDA_SUCCESS,
                absl::StrCat(what, ": ", CudaCodeName(code)).c_str());
}

uint64_t Hash(const void* data, size_t bytes) {
  uint64_t hash = 1469598103934665603u;
  for (size_t i = 0; i < bytes; ++i) {
    hash = (hash ^ static_cast<const uint8_t*>(data)[i]) * 1099511628211u;
  }
  return hash;
}

struct HostFill {
  std::byte* at;
  size_t bytes;
  uint8_t value;
};

struct StreamState {
  CUstream stream = nullptr;
  std::byte* block = nullptr;
  bool registered = false;  // staged, and promoted since
  CUdeviceptr buffers[2] = {0, 0};
  CUdeviceptr scratch = 0;
  std::byte* pinned = nullptr;
  int pinned_copies = 0;
};

class Runner {
 public:
  Runner(const RandomProgram& program, const RunSettings& settings)
      : program_(program),
        settings_(settings),
        scheduler_(settings.schedule_seed),
        machine_(settings.machine, &scheduler_),
        driver_(machine_.driver()),
        gates_(static_cast<size_t>(program.gates)) {}

  RunResult Run() {
    SetUp();
    for (size_t thread = 0; thread < program_.threads.size(); ++thread) {
      scheduler_.AddCaller(absl::StrCat("thread ", thread), [this, thread] {
        Ok(driver_.CtxSetCurrent(context_), "cuCtxSetCurrent");
        for (const ProgramStep& step : program_.threads[thread]) {
          Execute(thread, step);
        }
        ReadBack(thread);
      });
    }
    const Scheduler::Outcome outcome = scheduler_.Run(settings_.max_steps);
    result_.outcome = outcome.kind;
    result_.detail = outcome.detail;
    result_.hazards = machine_.Hazards();
    if (!result_.completed()) {
      absl::StrAppend(&result_.detail, machine_.Describe());
    } else if (engine_ != nullptr) {
      engine_->CheckInvariants();
      PINRING_CHECK(engine_->outstanding() == 0, "transfers are left over");
    }
    engine_.reset();
    for (const auto& [block, bytes] : pages_) {
      PINRING_CHECK(os::ReleasePages(block, bytes).ok(), "releasing pages");
    }
    return std::move(result_);
  }

 private:
  void SetUp() {
    Ok(driver_.Init(0), "cuInit");
    Ok(driver_.DevicePrimaryCtxRetain(&context_, 0), "retain");
    Ok(driver_.CtxSetCurrent(context_), "cuCtxSetCurrent");
    machine_.RegisterKernel("hold", {sizeof(void*)}, [](void** parameters) {
      const auto* gate = *static_cast<std::atomic<int>**>(parameters[0]);
      return gate->load(std::memory_order_acquire) != 0;
    });
    CUmodule module = nullptr;
    Ok(driver_.ModuleLoadData(&module, "hold"), "cuModuleLoadData");
    Ok(driver_.ModuleGetFunction(&hold_, module, "hold"), "get function");
    result_.seen.resize(program_.threads.size());
    stream_thread_.resize(program_.non_blocking.size());
    for (size_t thread = 0; thread < program_.threads.size(); ++thread) {
      for (const ProgramStep& step : program_.threads[thread]) {
        if (step.kind == StepKind::kCheck)
          stream_thread_[static_cast<size_t>(step.stream)] = thread;
      }
    }
    events_.resize(static_cast<size_t>(program_.events));
    for (CUevent& event : events_) {
      Ok(driver_.EventCreate(&event, CU_EVENT_DISABLE_TIMING), "event");
    }
    if (settings_.staged) {
      EngineOptions options = settings_.engine;
      options.movers = -1;
      engine_ = std::make_unique<Engine>(
          options,
          EngineSurroundings{&driver_, &parking_, [](size_t) { return true; },
                             [](size_t) {}});
      for (int i = 0; i < settings_.movers; ++i) {
        movers_.push_back(std::make_unique<ScheduledMover>(engine_.get()));
        scheduler_.AddActor(movers_.back().get());
      }
    }
    const size_t bytes = program_.block_bytes;
    for (size_t i = 0; i < program_.non_blocking.size(); ++i) {
      StreamState& state = streams_.emplace_back();
      MakeStream(i);
      state.block = MakeBlock();
      std::memset(state.block, static_cast<int>(i + 1), bytes);
      for (CUdeviceptr& buffer : state.buffers) {
        Ok(driver_.MemAlloc(&buffer, bytes), "cuMemAlloc");
        Ok(driver_.MemsetD8(buffer, static_cast<unsigned char>(100 + i), bytes),
           "cuMemsetD8");
      }
      Ok(driver_.MemAlloc(&state.scratch, bytes), "cuMemAlloc");
      void* pinned = nullptr;
      Ok(driver_.MemHostAlloc(&pinned, bytes, 0), "cuMemHostAlloc");
      state.pinned = static_cast<std::byte*>(pinned);
    }
    // The kernel's first launch, which loads it, is no part of the program.
    Launch(&open_gate_, streams_[0].stream);
  }

  void MakeStream(size_t i) {
    Ok(driver_.StreamCreateWithPriority(&streams_[i].stream,
                                        program_.non_blocking[i]
                                            ? CU_STREAM_NON_BLOCKING
                                            : CU_STREAM_DEFAULT,
                                        0),
       "cuStreamCreateWithPriority");
  }

  std::byte* MakeBlock() {
    if (!settings_.staged) {
      void* block = nullptr;
      Ok(driver_.MemHostAlloc(&block, program_.block_bytes, 0), "host alloc");
      return static_cast<std::byte*>(block);
    }
    absl::StatusOr<void*> block = os::ReservePages(program_.block_bytes, 4096);
    PINRING_CHECK(block.ok(), "reserving pages");
    pages_[*block] = program_.block_bytes;
    return static_cast<std::byte*>(*block);
  }

  void FreeBlock(StreamState& state) {
    if (!settings_.staged) {
      Ok(driver_.MemFreeHost(state.block), "cuMemFreeHost");
      return;
    }
    engine_->WaitForHost(state.block, program_.block_bytes);
    if (state.registered) {
      Ok(driver_.MemHostUnregister(state.block), "cuMemHostUnregister");
    }
    state.registered = false;
    // Anything that still touches it is wrong; a sanitizer would say so too.
    pages_.erase(state.block);
    PINRING_CHECK(os::ReleasePages(state.block, program_.block_bytes).ok(),
                  "releasing pages");
  }

  void Launch(std::atomic<int>* gate, CUstream stream) {
    void* parameters[] = {&gate};
    Ok(driver_.LaunchKernel(hold_, 1, 1, 1, 1, 1, 1, 0, stream, parameters,
                            nullptr),
       "cuLaunchKernel");
  }

  void Copy(const ProgramStep& step, Direction direction, bool wait) {
    StreamState& state = streams_[static_cast<size_t>(step.stream)];
    std::byte* host = state.block + step.offset;
    const CUdeviceptr device =
        state.buffers[static_cast<size_t>(step.index)] + step.offset;
    const CUstream stream = wait ? nullptr : state.stream;
    if (settings_.staged && !state.registered) {
      absl::StatusOr<CopyResult> result = engine_->Copy(CopyRequest{
          direction, host, device, Shape::Flat(step.bytes), stream, wait});
      PINRING_CHECK(result.ok(), result.status().ToString().c_str());
      if (result->outcome == CopyOutcome::kDeferred ||
          result->outcome == CopyOutcome::kIdle ||
          result->outcome == CopyOutcome::kSync) {
        ++result_.ring_copies;
        return;
      }
      PINRING_CHECK(result->outcome == CopyOutcome::kNoSlot ||
                        result->outcome == CopyOutcome::kTooDeep,
                    "the ring is not there");
      Ok(driver_.MemHostRegister(state.block, program_.block_bytes, 0),
         "cuMemHostRegister");
      state.registered = true;
    }
    if (settings_.staged) ++result_.promoted_copies;
    if (direction == Direction::kHostToDevice) {
      Ok(wait ? driver_.MemcpyHtoD(device, host, step.bytes)
              : driver_.MemcpyHtoDAsync(device, host, step.bytes, stream),
         "copy to the device");
    } else {
      Ok(wait ? driver_.MemcpyDtoH(host, device, step.bytes)
              : driver_.MemcpyDtoHAsync(host, device, step.bytes, stream),
         "copy to the host");
    }
  }

  void Execute(size_t thread, const ProgramStep& step) {
    Scheduler::Yield();
    StreamState& state = streams_[static_cast<size_t>(step.stream)];
    switch (step.kind) {
      case StepKind::kGate:
        Launch(&gates_[static_cast<size_t>(step.index)], state.stream);
        break;
      case StepKind::kOpen:
        gates_[static_cast<size_t>(step.index)].store(
            1, std::memory_order_release);
        break;
      case StepKind::kHostToDevice:
        Copy(step, Direction::kHostToDevice, false);
        break;
      case StepKind::kDeviceToHost:
        Copy(step, Direction::kDeviceToHost, false);
        break;
      case StepKind::kSyncHostToDevice:
        Copy(step, Direction::kHostToDevice, true);
        break;
      case StepKind::kSyncDeviceToHost:
        Copy(step, Direction::kDeviceToHost, true);
        break;
      case StepKind::kHostFill:
        std::memset(state.block + step.offset, step.value, step.bytes);
        break;
      case StepKind::kHostFunctionFill: {
        auto* fill =
            new HostFill{state.block + step.offset, step.bytes, step.value};
        fills_.emplace_back(fill);
        Ok(driver_.LaunchHostFunc(
               state.stream,
               [](void* data) {
                 const auto* f = static_cast<const HostFill*>(data);
                 std::memset(f->at, f->value, f->bytes);
               },
               fill),
           "cuLaunchHostFunc");
        break;
      }
      case StepKind::kDeviceFill:
        Ok(driver_.MemsetD8Async(
               state.buffers[static_cast<size_t>(step.index)] + step.offset,
               step.value, step.bytes, state.stream),
           "cuMemsetD8Async");
        break;
      case StepKind::kPinnedCopy:
        if (state.pinned_copies++ % 2 == 0) {
          Ok(driver_.MemcpyHtoDAsync(state.scratch, state.pinned,
                                     program_.block_bytes, state.stream),
             "pinned copy");
        } else {
          Ok(driver_.MemcpyDtoHAsync(state.pinned, state.scratch,
                                     program_.block_bytes, state.stream),
             "pinned copy");
        }
        break;
      case StepKind::kRecord:
        Ok(driver_.EventRecord(events_[static_cast<size_t>(step.index)],
                               state.stream),
           "cuEventRecord");
        break;
      case StepKind::kWaitEvent:
        Ok(driver_.StreamWaitEvent(state.stream,
                                   events_[static_cast<size_t>(step.index)], 0),
           "cuStreamWaitEvent");
        break;
      case StepKind::kSyncEvent:
        Ok(driver_.EventSynchronize(events_[static_cast<size_t>(step.index)]),
           "cuEventSynchronize");
        break;
      case StepKind::kSyncStream:
        Ok(driver_.StreamSynchronize(state.stream), "cuStreamSynchronize");
        break;
      case StepKind::kCheck:
        result_.seen[thread].push_back(Hash(state.block, program_.block_bytes));
        break;
      case StepKind::kAllocFree: {
        CUdeviceptr pointer = 0;
        Ok(driver_.MemAlloc(&pointer, 512), "cuMemAlloc");
        Ok(driver_.MemFree(pointer), "cuMemFree");
        break;
      }
      case StepKind::kPinUnpin: {
        void* pointer = nullptr;
        Ok(driver_.MemHostAlloc(&pointer, 512, 0), "cuMemHostAlloc");
        Ok(driver_.MemFreeHost(pointer), "cuMemFreeHost");
        break;
      }
      case StepKind::kReplaceBlock:
        FreeBlock(state);
        state.block = MakeBlock();
        std::memset(state.block, step.value, program_.block_bytes);
        break;
      case StepKind::kReplaceStream: {
        CUevent event = nullptr;
        Ok(driver_.EventCreate(&event, CU_EVENT_DISABLE_TIMING), "event");
        Ok(driver_.EventRecord(event, state.stream), "cuEventRecord");
        Ok(driver_.StreamDestroy(state.stream), "cuStreamDestroy");
        MakeStream(static_cast<size_t>(step.stream));
        Ok(driver_.StreamWaitEvent(state.stream, event, 0), "wait event");
        Ok(driver_.EventDestroy(event), "cuEventDestroy");
        break;
      }
    }
  }

  void ReadBack(size_t thread) {
    for (size_t i = 0; i < streams_.size(); ++i) {
      if (stream_thread_[i] != thread) continue;
      StreamState& state = streams_[i];
      for (const CUdeviceptr buffer : state.buffers) {
        Ok(driver_.MemcpyDtoHAsync(state.pinned, buffer, program_.block_bytes,
                                   state.stream),
           "read back");
        Ok(driver_.StreamSynchronize(state.stream), "cuStreamSynchronize");
        result_.seen[thread].push_back(
            Hash(state.pinned, program_.block_bytes));
      }
    }
  }

  const RandomProgram& program_;
  const RunSettings& settings_;
  std::map<void*, size_t> pages_;
  Scheduler scheduler_;
  Machine machine_;
  const Driver& driver_;
  ScheduledParking parking_;
  CUcontext context_ = nullptr;
  CUfunction hold_ = nullptr;
  std::atomic<int> open_gate_{1};
  std::vector<std::atomic<int>> gates_;
  std::vector<CUevent> events_;
  std::vector<StreamState> streams_;
  std::vector<size_t> stream_thread_;
  std::vector<std::unique_ptr<HostFill>> fills_;
  std::unique_ptr<Engine> engine_;
  std::vector<std::unique_ptr<ScheduledMover>> movers_;
  RunResult result_;
};

}  // namespace

RunResult RunProgram(const RandomProgram& program,
                     const RunSettings& settings) {
  return Runner(program, settings).Run();
}

}  // namespace pinring
