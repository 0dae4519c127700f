#include "tests/fuzz/runner.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "include/pinring/pinring.h"
#include "src/capi/default_instance.h"
#include "src/capi/error_codes.h"
#include "src/capi/instances.h"
#include "src/capi/options.h"
#include "src/driver/status.h"
#include "src/os/check.h"
#include "src/os/pages.h"
#include "src/simcuda/scheduler.h"
#include "tests/fuzz/calls.h"
#include "tests/support/random_bytes.h"
#include "tests/support/scheduled_engine.h"

namespace pinring::fuzz {
namespace {

using simcuda::Machine;
using simcuda::Scheduler;

constexpr uint64_t kMostSteps = 5'000'000;
constexpr size_t kGuardBytes = 64;
constexpr auto kGuard = std::byte{0xc3};
constexpr int kInstances = 2;
constexpr size_t kPageBytes = 4096;

void Ok(CUresult code, const char* what) {
  if (code == CUDA_SUCCESS) return;
  PINRING_CHECK(code == CUDA_SUCCESS,
                absl::StrCat(what, ": ", CudaCodeName(code)).c_str());
}

uint64_t Hash(const std::byte* data, size_t bytes) {
  uint64_t hash = 1469598103934665603u + bytes;
  size_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    uint64_t word;
    std::memcpy(&word, data + i, 8);
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  for (; i < bytes; ++i) {
    hash = (hash ^ static_cast<uint8_t>(data[i])) * 1099511628211u;
  }
  return hash;
}

// Memory of the program's own, with guards on both sides.
struct Guarded {
  std::byte* all = nullptr;
  size_t bytes = 0;

  std::byte* data() const { return all + kGuardBytes; }
  bool Holds() const {
    for (size_t i = 0; i < kGuardBytes; ++i) {
      if (all[i] != kGuard || all[kGuardBytes + bytes + i] != kGuard) {
        return false;
      }
    }
    return true;
  }
};

struct BlockMemory {
  std::byte* data = nullptr;
  size_t bytes = 0;
};

struct HostFunction {
  Result* result;
  std::byte* at;
  size_t bytes;
  uint64_t seed;
  bool write;
};

class Runner {
 public:
  // `pinring` is the report of the run with pinring where this is the native
  // one, and null where it is that run itself.
  Runner(const Program& program, const Report* pinring, size_t end)
      : program_(program),
        configuration_(program.configuration),
        pinring_(pinring),
        end_(std::min(end, program.operations.size())),
        scheduler_(configuration_.schedule_seed),
        machine_(MachineOf(configuration_, pinring != nullptr), &scheduler_),
        driver_(machine_.driver()),
        gates_(kGates) {
    report_.results.resize(program.operations.size());
  }

  Report Run() {
    SetUp();
    scheduler_.AddCaller("host", [this] {
      Ok(driver_.CtxSetCurrent(context_), "cuCtxSetCurrent");
      if (Staged()) Push(0);
      for (size_t i = 0; i < end_; ++i) {
        now_ = i;
        Execute(program_.operations[i], &report_.results[i]);
      }
      now_ = end_;
      Finish();
      finished_ = true;
    });
    scheduler_.AddCaller("opener", [this] { OpenGates(); });
    const Scheduler::Outcome outcome = scheduler_.Run(kMostSteps);
    if (outcome.kind != Scheduler::Outcome::kCompleted) {
      report_.hung = true;
      Wrong(absl::StrCat("hang at operation ", now_, ": ", outcome.detail,
                         machine_.Describe()));
      return std::move(report_);
    }
    report_.trace = outcome.trace;
    TearDown();
    return std::move(report_);
  }

 private:
  static simcuda::MachineOptions MachineOf(const Configuration& configuration,
                                           bool native) {
    simcuda::MachineOptions options = configuration.machine;
    if (native) {
      options.host_pinnable_bytes = size_t{256} << 30;
      options.host_register_supported = true;
    }
    return options;
  }

  bool Staged() const { return pinring_ == nullptr; }
  void Wrong(std::string what) { absl::StrAppend(&report_.wrong, what, "\n"); }
  void Check(bool right, const char* what) {
    if (!right) Wrong(absl::StrCat("after operation ", now_, ": ", what));
  }

  void SetUp();
  void MakeInstances();
  CUresult CopyWholeArray(size_t index, std::byte* memory, bool to);
  CUresult MakeStream(int index, bool blocking);
  void OpenGates();
  void Finish();
  void TearDown();
  void Push(int instance);
  void CheckUsage();
  void CheckHazards();
  void CheckTail(const BlockMemory& block);

  void Execute(const Operation& op, Result* result);
  int ExecuteLibrary(const Operation& op, Result* result);
  int ExecuteStream(const Operation& op, Result* result);
  int ExecuteGraph(const Operation& op);
  cudaError_t DoCopy(const Operation& op);
  void StandIn(const Operation& op);
  cudaError_t Alloc(const Operation& op, Result* result);
  cudaError_t Free(int index);
  cudaError_t FreeInvalid(const Operation& op);
  cudaError_t Attributes(const Operation& op, Result* result);
  CUresult LaunchFunction(const Operation& op, Result* result);
  int BeginCapture(const Operation& op);
  int EndCapture(const Operation& op);
  struct Graph;
  int DropGraph(Graph* graph);
  int LaunchGraph(const Graph& graph, CUstream stream);
  template <typename Query>
  static CUresult Poll(Query query) {
    CUresult code;
    do code = query();
    while (code == CUDA_ERROR_NOT_READY);
    return code;
  }

  bool Missing(const Object& object) const {
    const auto index = static_cast<size_t>(object.index);
    if (object.kind == MemoryKind::kBlock) {
      return blocks_[index].data == nullptr;
    }
    return object.kind == MemoryKind::kRegistrable && !registered_[index];
  }
  std::byte* Data(const Object& object) const {
    const auto index = static_cast<size_t>(object.index);
    switch (object.kind) {
      case MemoryKind::kBlock:
        return blocks_[index].data;
      case MemoryKind::kPlain:
        return plain_[index].data();
      case MemoryKind::kRegistrable:
        return registrable_[index];
      case MemoryKind::kDevice:
        return devices_[index] + kGuardBytes;
      case MemoryKind::kArray:
        break;  // has no address
    }
    return nullptr;
  }

  const Program& program_;
  const Configuration& configuration_;
  const Report* const pinring_;
  const size_t end_;
  Report report_;
  size_t now_ = 0;
  Scheduler scheduler_;
  Machine machine_;
  const Driver& driver_;
  // Time finds out that a context is lost, and asks a driver that gathers work.
  ScheduledParking parking_{
      [this] { return lost_ || configuration_.machine.wddm; }};
  std::unique_ptr<Calls> calls_;
  CUcontext context_ = nullptr;
  CUfunction hold_ = nullptr;
  std::vector<std::atomic<int>> gates_;
  uint32_t allowed_ = 0;
  uint32_t opened_ = 0;
  bool finished_ = false;
  size_t hazards_ = 0;  // told
  bool faulted_ = false;
  bool lost_ = false;
  bool endless_ = false;
  Instance* instances_[kInstances] = {};
  int pushed_ = 0;
  std::vector<std::unique_ptr<ScheduledMover>> movers_;
  std::array<BlockMemory, kBlocks> blocks_;
  std::byte* last_freed_ = nullptr;
  std::vector<void*> free_failed_;
  std::array<Guarded, kPlainBuffers> plain_;
  std::array<std::byte*, kRegistrableBuffers> registrable_ = {};
  std::array<bool, kRegistrableBuffers> registered_ = {};
  std::array<std::byte*, kDeviceBuffers> devices_ = {};
  CUdeviceptr scratch_ = 0;
  std::array<CUstream, kStreams> streams_ = {};
  std::array<CUevent, kEvents + 1> events_ = {};
  std::array<CUarray, kArrays> arrays_ = {};
  struct Graph {
    CUgraphExec exec = nullptr;
    bool ours = false;  // and not the driver's
  };
  std::array<Graph, kGraphs> graphs_;
  bool capture_is_ours_ = false;
  std::vector<std::unique_ptr<HostFunction>> functions_;
  std::vector<std::unique_ptr<std::byte[]>> plain_storage_;
};

void Runner::SetUp() {
  Ok(driver_.Init(0), "cuInit");
  Ok(driver_.DevicePrimaryCtxRetain(&context_, 0), "retain");
  Ok(driver_.CtxSetCurrent(context_), "cuCtxSetCurrent");
  machine_.RegisterKernel("hold", {sizeof(void*)}, [](void** parameters) {
    const auto* gate = *static_cast<std::atomic<int>**>(parameters[0]);
    return gate->load(std::memory_order_acquire) != 0;
  });
  CUmodule module = nullptr;
  Ok(driver_.ModuleLoadData(&module, "eager"), "cuModuleLoadData");
  Ok(driver_.ModuleGetFunction(&hold_, module, "hold"), "get function");
  for (CUevent& event : events_) {
    Ok(driver_.EventCreate(&event, CU_EVENT_DISABLE_TIMING), "event");
  }
  Ok(driver_.MemAlloc(&scratch_, 16), "cuMemAlloc");
  streams_[kThreadStream] = CU_STREAM_PER_THREAD;
  (void)MakeStream(kFirstMadeStream, false);
  (void)MakeStream(kFirstMadeStream + 1, true);
  for (size_t i = 0; i < kDeviceBuffers; ++i) {
    CUdeviceptr memory = 0;
    const size_t bytes = kDeviceBytes[i] + kGuardBytes;
    Ok(driver_.MemAlloc(&memory, bytes), "cuMemAlloc");
    devices_[i] = reinterpret_cast<std::byte*>(memory);
    std::memset(devices_[i], static_cast<int>(kGuard), kGuardBytes);
    FillRandom(devices_[i] + kGuardBytes, kDeviceBytes[i], 1000 + i);
  }
  for (size_t i = 0; i < kArrays; ++i) {
    CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
    descriptor.Width = kArrayRowBytes[i] / kElementBytes;
    descriptor.Height = kArrayRows[i];
    descriptor.Format = CU_AD_FORMAT_UNSIGNED_INT32;
    descriptor.NumChannels = 1;
    Ok(driver_.Array3DCreate(&arrays_[i], &descriptor), "cuArray3DCreate");
    std::vector<std::byte> bytes(kArrayRowBytes[i] * kArrayRows[i]);
    FillRandom(bytes.data(), bytes.size(), 4000 + i);
    Ok(CopyWholeArray(i, bytes.data(), true), "an array's first bytes");
  }
  for (size_t i = 0; i < kPlainBuffers; ++i) {
    const size_t bytes = kPlainBytes[i] + 2 * kGuardBytes;
    plain_[i].bytes = kPlainBytes[i];
    if (Staged()) {
      plain_storage_.push_back(std::make_unique<std::byte[]>(bytes));
      plain_[i].all = plain_storage_.back().get();
    } else {
      // A natively deferred copy is one of pinned memory.
      void* memory = nullptr;
      Ok(driver_.MemHostAlloc(&memory, bytes, 0), "cuMemHostAlloc");
      plain_[i].all = static_cast<std::byte*>(memory);
    }
    std::memset(plain_[i].all, static_cast<int>(kGuard), bytes);
    FillRandom(plain_[i].data(), kPlainBytes[i], 2000 + i);
  }
  for (size_t i = 0; i < kRegistrableBuffers; ++i) {
    const auto pages = os::ReservePages(kRegistrableBytes[i], kPageBytes);
    PINRING_CHECK(pages.ok(), "reserving pages");
    registrable_[i] = static_cast<std::byte*>(*pages);
    FillRandom(registrable_[i], kRegistrableBytes[i], 3000 + i);
  }
  if (Staged()) {
    calls_ = std::make_unique<LibraryCalls>();
    MakeInstances();
  } else {
    calls_ = std::make_unique<NativeCalls>(driver_);
  }
}

CUresult Runner::CopyWholeArray(size_t index, std::byte* memory, bool to) {
  CUDA_MEMCPY2D rows = {};
  rows.srcMemoryType = to ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_ARRAY;
  rows.dstMemoryType = to ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_HOST;
  rows.srcHost = rows.dstHost = memory;
  rows.srcArray = rows.dstArray = arrays_[index];
  rows.srcPitch = rows.dstPitch = rows.WidthInBytes = kArrayRowBytes[index];
  rows.Height = kArrayRows[index];
  const CUresult code = driver_.Memcpy2DUnaligned(&rows);
  return code == CUDA_SUCCESS && to ? driver_.CtxSynchronize() : code;
}

// The second has what options say by themselves but for a small ring.
void Runner::MakeInstances() {
  const std::string settings[kInstances] = {
      configuration_.settings,
      "ring_bytes=64KiB,small_limit_bytes=256,small_pool_bytes=64KiB"};
  for (int i = 0; i < kInstances; ++i) {
    Options options;
    absl::Status status = ApplySettings(settings[i], &options);
    PINRING_CHECK(status.ok(), status.ToString().c_str());
    auto instance = Instance::Create(&driver_, options, &Blocks(),
                                     {.parking = &parking_, .movers = false});
    PINRING_CHECK(instance.ok(), instance.status().ToString().c_str());
    instances_[i] = std::move(*instance).release();
    AddInstance(instances_[i], InstanceRole::kFurther);
    for (int mover = 0; mover < configuration_.movers; ++mover) {
      movers_.push_back(
          std::make_unique<ScheduledMover>(&instances_[i]->engine()));
      scheduler_.AddActor(movers_.back().get());
    }
  }
}

// Fails only where the context is lost.
CUresult Runner::MakeStream(int index, bool blocking) {
  const CUresult code = driver_.StreamCreateWithPriority(
      &streams_[static_cast<size_t>(index)],
      blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING, 0);
  if (!lost_) Ok(code, "cuStreamCreateWithPriority");
  return code;
}

void Runner::OpenGates() {
  for (;;) {
    scheduler_.BlockUntil("for a gate that may be opened", [this] {
      return finished_ || (allowed_ & ~opened_) != 0;
    });
    for (uint64_t n = scheduler_.Random() % 8; n > 0; --n) Scheduler::Yield();
    const uint32_t next = allowed_ & ~opened_;
    if (next == 0) {
      if (finished_) return;
      continue;
    }
    const int gate = std::countr_zero(next);
    opened_ |= uint32_t{1} << gate;
    gates_[static_cast<size_t>(gate)].store(1, std::memory_order_release);
  }
}

void Runner::Push(int instance) {
  ++pushed_;
  const cudaError_t code = pinringPushInstance(
      reinterpret_cast<pinringInstance_t>(instances_[instance]));
  Check(code == cudaSuccess, "pushing an instance failed");
}

void Runner::Execute(const Operation& op, Result* result) {
  if (scheduler_.Aborting()) throw simcuda::ScheduleAborted();
  if (pinring_ != nullptr) {
    const int code = pinring_->results[now_].code;
    const bool must_run =
        op.kind == OpKind::kFree || op.kind == OpKind::kEndCapture;
    if (code != 0 && !must_run && MayFail(program_, op, code)) {
      result->code = code;
      StandIn(op);
      return;
    }
  }
  for (const simcuda::Fault& fault : op.faults) {
    if (!Staged()) break;
    faulted_ = true;
    lost_ = lost_ || fault.sticky;
    // Nothing tells the end of a copy that failed half-way: the stream is let
    // through, while a mover may still fill a slot that goes nowhere.
    endless_ = endless_ || op.faults.size() > 1;
    machine_.InjectFault(fault);
  }
  if (op.kind <= OpKind::kPopInstance) {
    result->code = ExecuteLibrary(op, result);
  } else if (op.kind >= OpKind::kBeginCapture &&
             op.kind <= OpKind::kDropGraph) {
    result->code = ExecuteGraph(op);
  } else {
    result->code = ExecuteStream(op, result);
  }
  if (!op.faults.empty()) machine_.ClearFaults();
  if (result->code != 0) StandIn(op);
  if (Staged() && op.kind <= OpKind::kPopInstance) CheckUsage();
  CheckHazards();
}

void Runner::CheckHazards() {
  const std::vector<std::string> hazards = machine_.Hazards();
  for (; hazards_ < hazards.size(); ++hazards_) {
    if (lost_ || endless_) continue;
    Check(false, hazards[hazards_].c_str());
  }
}

cudaError_t Runner::Alloc(const Operation& op, Result* result) {
  void* pointer = this;  // to be left as it is, or null, where nothing is made
  const cudaError_t code = calls_->Alloc(&pointer, op.bytes, op.flags);
  const bool made = code == cudaSuccess && op.bytes > 0;
  Check(made != (pointer == this || pointer == nullptr),
        "an allocation's address");
  if (!made) return code;
  BlockMemory& block = blocks_[static_cast<size_t>(op.index)];
  block = {static_cast<std::byte*>(pointer), op.bytes};
  result->seen = 1;
  if (Staged() && pinringGetBlockKind(pointer) == pinringBlockStaged) {
    Check(std::all_of(block.data, block.data + op.bytes,
                      [](std::byte b) { return b == std::byte{0}; }),
          "a fresh block does not read zero");
  }
  FillRandom(block.data, block.bytes, op.seed);
  return code;
}

// Between a staged block's end and the end of its page nobody writes.
void Runner::CheckTail(const BlockMemory& block) {
  if (!Staged() || pinringGetBlockKind(block.data) != pinringBlockStaged) {
    return;
  }
  const std::byte* end = block.data + block.bytes;
  const std::byte* page_end =
      block.data + os::RoundUp(block.bytes, kPageBytes).value_or(block.bytes);
  Check(
      std::all_of(end, page_end, [](std::byte b) { return b == std::byte{0}; }),
      "bytes behind a block were written");
}

cudaError_t Runner::Free(int index) {
  BlockMemory& block = blocks_[static_cast<size_t>(index)];
  CheckTail(block);
  const cudaError_t code = calls_->Free(block.data);
  // Where a free failed, a second one may succeed.
  last_freed_ = code == cudaSuccess ? block.data : nullptr;
  if (code != cudaSuccess) free_failed_.push_back(block.data);
  block = {};
  return code;
}

cudaError_t Runner::FreeInvalid(const Operation& op) {
  void* pointer = plain_[0].data();
  if (op.variant == 0) {
    const BlockMemory& block = blocks_[static_cast<size_t>(op.index)];
    if (block.data == nullptr) return cudaErrorInvalidValue;
    pointer = block.data + std::max<size_t>(1, block.bytes / 2);
  } else if (op.variant == 2) {
    pointer = devices_[0];
  } else if (op.variant == 3) {
    if (last_freed_ == nullptr) return cudaErrorInvalidValue;
    pointer = last_freed_;
  } else if (op.variant == 4) {
    pointer = registrable_[0];
  }
  return calls_->Free(pointer);
}

cudaError_t Runner::Attributes(const Operation& op, Result* result) {
  std::byte* at = Data(op.object) + op.offset;
  cudaPointerAttributes attributes = {};
  const cudaError_t code = calls_->Attributes(&attributes, at);
  const auto relative = [&](const void* pointer) {
    return pointer == nullptr
               ? uint64_t{77}
               : static_cast<uint64_t>(static_cast<const std::byte*>(pointer) -
                                       at);
  };
  result->seen = static_cast<uint64_t>(attributes.type) |
                 static_cast<uint64_t>(attributes.device + 5) << 8 |
                 relative(attributes.hostPointer) << 16 |
                 relative(attributes.devicePointer) << 40;
  const bool past =
      op.offset == blocks_[static_cast<size_t>(op.object.index)].bytes;
  // Another block may begin there, or memory of the device.
  result->compared = !past || attributes.type == cudaMemoryTypeUnregistered;
  return code;
}

cudaError_t Runner::DoCopy(const Operation& op) {
  const Copy& copy = op.copy;
  if (copy.form == CopyForm::kOfArray) {
    const bool to = copy.dst.object.kind == MemoryKind::kArray;
    const CopyEnd& memory = to ? copy.src : copy.dst;
    const auto array =
        static_cast<size_t>((to ? copy.dst : copy.src).object.index);
    return calls_->CopyArray(copy, arrays_[array], to,
                             Data(memory.object) + memory.offset,
                             streams_[static_cast<size_t>(op.stream)]);
  }
  return calls_->CopyBytes(copy, Data(copy.dst.object) + copy.dst.offset,
                           Data(copy.src.object) + copy.src.offset,
                           streams_[static_cast<size_t>(op.stream)]);
}

// What a copy that was not made is to what comes after it.
void Runner::StandIn(const Operation& op) {
  if (op.kind != OpKind::kCopy && op.kind != OpKind::kMemset) return;
  if (op.copy.refused || (op.copy.width == 0 && op.bytes == 0)) return;
  const CUstream stream = streams_[static_cast<size_t>(op.stream)];
  (void)driver_.MemsetD8Async(scratch_, 0, 16, stream);
  const bool waits =
      op.kind == OpKind::kMemset
          ? op.variant == 1
          : op.copy.wait || op.copy.access == pinringAccessDuringCall;
  if (waits) {
    (void)driver_.StreamSynchronize(stream);
  }
}

int Runner::ExecuteLibrary(const Operation& op, Result* result) {
  const auto index = static_cast<size_t>(op.index);
  switch (op.kind) {
    case OpKind::kAlloc:
      return Alloc(op, result);
    case OpKind::kFree:
      if (blocks_[index].data != nullptr) return Free(op.index);
      last_freed_ = nullptr;
      return Result::kNotRun;
    case OpKind::kFreeInvalid:
      return FreeInvalid(op);
    case OpKind::kCopy:
      if (Missing(op.copy.dst.object) || Missing(op.copy.src.object)) {
        return Result::kNotRun;
      }
      return DoCopy(op);
    case OpKind::kMemset:
      if (Missing(op.object)) return Result::kNotRun;
      return calls_->Memset(
          Data(op.object) + op.offset, static_cast<int>(op.seed), op.bytes,
          op.variant == 1, streams_[static_cast<size_t>(op.stream)]);
    case OpKind::kRegister: {
      if (op.variant == 1) {
        if (blocks_[index].data == nullptr) return Result::kNotRun;
        return calls_->Register(blocks_[index].data + op.offset, 16);
      }
      const cudaError_t code =
          calls_->Register(registrable_[index], kRegistrableBytes[index]);
      if (code == cudaSuccess) registered_[index] = true;
      return code;
    }
    case OpKind::kUnregister:
      if (op.variant == 1) {
        if (blocks_[index].data == nullptr) return Result::kNotRun;
        return calls_->Unregister(blocks_[index].data);
      }
      registered_[index] = false;
      return calls_->Unregister(registrable_[index]);
    case OpKind::kPromote:
      if (blocks_[index].data == nullptr) return Result::kNotRun;
      return calls_->Promote(blocks_[index].data);
    case OpKind::kDevicePointer: {
      if (blocks_[index].data == nullptr) return Result::kNotRun;
      void* pointer = nullptr;
      std::byte* const at = blocks_[index].data + op.offset;
      const cudaError_t code = calls_->DevicePointer(&pointer, at);
      if (code == cudaSuccess) {
        result->seen =
            static_cast<uint64_t>(static_cast<std::byte*>(pointer) - at);
      }
      return code;
    }
    case OpKind::kAttributes:
      return Missing(op.object) ? Result::kNotRun : Attributes(op, result);
    case OpKind::kHostFlags: {
      if (blocks_[index].data == nullptr) return Result::kNotRun;
      unsigned flags = 0;
      const cudaError_t code = calls_->HostFlags(&flags, blocks_[index].data);
      result->seen = flags;
      return code;
    }
    case OpKind::kPushInstance:
      if (Staged()) Push(op.variant);
      return 0;
    default:
      if (!Staged()) return 0;
      --pushed_;
      return pinringPopInstance();
  }
}

CUresult Runner::LaunchFunction(const Operation& op, Result* result) {
  result->compared = false;  // until it has run
  functions_.push_back(std::make_unique<HostFunction>(
      HostFunction{result, Data(op.object) + op.offset, op.bytes, op.seed,
                   op.kind == OpKind::kHostFunctionFill}));
  return driver_.LaunchHostFunc(
      streams_[static_cast<size_t>(op.stream)],
      [](void* data) {
        const auto& function = *static_cast<HostFunction*>(data);
        if (function.write) {
          FillRandom(function.at, function.bytes, function.seed);
        } else {
          function.result->seen = Hash(function.at, function.bytes);
        }
        function.result->compared = true;
      },
      functions_.back().get());
}

int Runner::ExecuteStream(const Operation& op, Result* result) {
  const auto index = static_cast<size_t>(op.index);
  const CUstream stream = streams_[static_cast<size_t>(op.stream)];
  switch (op.kind) {
    case OpKind::kDeviceFill:
      return driver_.MemsetD8Async(
          reinterpret_cast<CUdeviceptr>(devices_[index] + kGuardBytes),
          static_cast<unsigned char>(op.seed), kDeviceBytes[index], stream);
    case OpKind::kHostFunctionFill:
    case OpKind::kHostFunctionLook:
      if (op.object.kind != MemoryKind::kRegistrable && Missing(op.object)) {
        return Result::kNotRun;
      }
      return LaunchFunction(op, result);
    case OpKind::kHold: {
      std::atomic<int>* gate = &gates_[index];
      void* parameters[] = {&gate};
      return driver_.LaunchKernel(hold_, 1, 1, 1, 1, 1, 1, 0, stream,
                                  parameters, nullptr);
    }
    case OpKind::kRecord:
      return driver_.EventRecord(events_[index], stream);
    case OpKind::kWaitEvent:
      return driver_.StreamWaitEvent(stream, events_[index], 0);
    case OpKind::kEventSync:
      return driver_.EventSynchronize(events_[index]);
    case OpKind::kEventPoll:
      return Poll([&] { return driver_.EventQuery(events_[index]); });
    case OpKind::kEventBusy:
      return driver_.EventQuery(events_[index]);
    case OpKind::kStreamSync:
      return driver_.StreamSynchronize(stream);
    case OpKind::kStreamPoll:
      return Poll([&] { return driver_.StreamQuery(stream); });
    case OpKind::kStreamBusy:
      return driver_.StreamQuery(stream);
    case OpKind::kDeviceSync:
      return driver_.CtxSynchronize();
    case OpKind::kStreamCreate:
      return MakeStream(op.stream, op.variant == 1);
    case OpKind::kStreamDestroy:
      streams_[static_cast<size_t>(op.stream)] = nullptr;
      return driver_.StreamDestroy(stream);
    case OpKind::kFill:
    case OpKind::kLook: {
      if (op.object.kind == MemoryKind::kBlock && Missing(op.object)) {
        return Result::kNotRun;
      }
      Scheduler::Yield();
      std::byte* const at = Data(op.object) + op.offset;
      if (op.kind == OpKind::kFill) {
        FillRandom(at, op.bytes, op.seed);
      } else {
        result->seen = Hash(at, op.bytes);
      }
      return 0;
    }
    case OpKind::kAllow:
      allowed_ |= op.mask;
      return 0;
    default:
      return Result::kNotRun;
  }
}

// With pinring a graph is the first instance's, as the C functions make it the
// default one's, or the driver's; natively it is always the driver's.
int Runner::BeginCapture(const Operation& op) {
  const CUstream stream = streams_[static_cast<size_t>(op.stream)];
  const CUstreamCaptureMode mode = (op.variant & 1) == 0
                                       ? CU_STREAM_CAPTURE_MODE_RELAXED
                                       : CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  capture_is_ours_ = Staged() && (op.variant & 2) != 0;
  return capture_is_ours_
             ? int{RuntimeCode(instances_[0]->StreamBeginCapture(stream, mode))}
             : int{driver_.StreamBeginCapture(stream, mode)};
}

int Runner::EndCapture(const Operation& op) {
  Graph& made = graphs_[static_cast<size_t>(op.index)];
  (void)DropGraph(&made);
  made.ours = std::exchange(capture_is_ours_, false);
  const CUstream stream = streams_[static_cast<size_t>(op.stream)];
  CUgraph graph = nullptr;
  int code =
      made.ours
          ? int{RuntimeCode(instances_[0]->StreamEndCapture(stream, &graph))}
          : int{driver_.StreamEndCapture(stream, &graph)};
  if (code != 0) return code;
  code = made.ours
             ? int{RuntimeCode(
                   instances_[0]->GraphInstantiate(&made.exec, graph, 0))}
             : int{driver_.GraphInstantiateWithFlags(&made.exec, graph, 0)};
  (void)driver_.GraphDestroy(graph);
  if (code != 0) made.exec = nullptr;
  if (pinring_ != nullptr && pinring_->results[now_].code != 0 &&
      MayFail(program_, op, pinring_->results[now_].code)) {
    (void)DropGraph(&made);
    return pinring_->results[now_].code;
  }
  return code;
}

int Runner::DropGraph(Graph* graph) {
  CUgraphExec const exec = std::exchange(graph->exec, nullptr);
  if (exec == nullptr) return 0;
  return graph->ours ? int{RuntimeCode(instances_[0]->GraphExecDestroy(exec))}
                     : int{driver_.GraphExecDestroy(exec)};
}

int Runner::LaunchGraph(const Graph& graph, CUstream stream) {
  return graph.ours
             ? int{RuntimeCode(instances_[0]->GraphLaunch(graph.exec, stream))}
             : int{driver_.GraphLaunch(graph.exec, stream)};
}

int Runner::ExecuteGraph(const Operation& op) {
  switch (op.kind) {
    case OpKind::kBeginCapture:
      return BeginCapture(op);
    case OpKind::kEndCapture:
      return EndCapture(op);
    default:
      break;
  }
  Graph& graph = graphs_[static_cast<size_t>(op.index)];
  if (graph.exec == nullptr) return Result::kNotRun;
  if (op.kind == OpKind::kLaunchGraph) {
    return LaunchGraph(graph, streams_[static_cast<size_t>(op.stream)]);
  }
  return DropGraph(&graph);
}

void Runner::CheckUsage() {
  uint64_t pinned = 0;
  for (int i = 0; i < kInstances; ++i) {
    const UsageSnapshot usage = instances_[i]->Usage();
    uint64_t sum = 0;
    for (const UsageAmount& kind : usage.kinds) sum += kind.current_bytes;
    Check(sum == usage.all.current_bytes, "the kinds' bytes are not all bytes");
    if (usage.pinned_limit_bytes != 0) {
      Check(usage.pinned_peak_bytes <= usage.pinned_limit_bytes,
            "more was pinned than the limit");
    }
    pinned += usage.pinned_bytes;
  }
  if (lost_) return;
  for (size_t i = 0; i < kRegistrableBuffers; ++i) {
    if (registered_[i]) pinned += kRegistrableBytes[i];
  }
  const size_t really = machine_.PinnedBytes();
  // A fault can make the library lose what it can no longer give back.
  Check(
      faulted_ ? pinned <= really : pinned == really,
      absl::StrCat("usage shows ", pinned, " pinned bytes, there are ", really)
          .c_str());
}

// What the program itself would do at its end.
void Runner::Finish() {
  allowed_ = ~uint32_t{0} >> (32 - kGates);
  if (end_ < program_.operations.size()) {  // perhaps in the middle of one
    for (CUstream stream : streams_) {
      CUgraph graph = nullptr;
      if (stream != nullptr) (void)driver_.StreamEndCapture(stream, &graph);
      if (graph != nullptr) (void)driver_.GraphDestroy(graph);
    }
  }
  const CUresult code = driver_.CtxSynchronize();
  Check(lost_ || code == CUDA_SUCCESS, "the last synchronization failed");
  for (const auto& function : functions_) {
    Check(lost_ || function->result->compared, "a host function has not run");
  }
  for (size_t i = 0; i < kDeviceBuffers; ++i) {
    report_.devices.push_back(Hash(devices_[i] + kGuardBytes, kDeviceBytes[i]));
    Check(std::all_of(devices_[i], devices_[i] + kGuardBytes,
                      [](std::byte b) { return b == kGuard; }),
          "bytes before a device buffer were written");
  }
  for (size_t i = 0; i < kArrays; ++i) {
    std::vector<std::byte> bytes(kArrayRowBytes[i] * kArrayRows[i]);
    const CUresult read = CopyWholeArray(i, bytes.data(), false);
    Check(lost_ || read == CUDA_SUCCESS, "an array cannot be read");
    report_.arrays.push_back(Hash(bytes.data(), bytes.size()));
  }
  for (const Guarded& memory : plain_) {
    Check(memory.Holds(), "bytes around memory of the program were written");
  }
  for (int i = 0; i < kBlocks; ++i) {
    if (blocks_[static_cast<size_t>(i)].data == nullptr) continue;
    const cudaError_t freed = Free(i);
    Check(lost_ || faulted_ || freed == cudaSuccess, "a free failed");
  }
  if (Staged()) {
    // A failed call may or may not have freed.
    for (void* pointer : free_failed_) {
      if (pinringGetBlockKind(pointer) == pinringBlockStaged) {
        (void)calls_->Free(pointer);
      }
    }
    while (pushed_-- > 0) (void)pinringPopInstance();
  }
  for (Graph& graph : graphs_) (void)DropGraph(&graph);
  for (CUarray array : arrays_) (void)driver_.ArrayDestroy(array);
  for (size_t i = 0; i < kRegistrableBuffers; ++i) {
    if (registered_[i]) (void)driver_.MemHostUnregister(registrable_[i]);
  }
}

void Runner::TearDown() {
  CheckHazards();
  bool quarantined = false;
  for (int i = 0; i < kInstances && Staged(); ++i) {
    Engine& engine = instances_[i]->engine();
    engine.CheckInvariants();
    quarantined = quarantined || engine.quarantined_bytes() != 0;
    // Nobody waits for those of a lost context.
    Check(lost_ || engine.outstanding() == 0, "transfers are left over");
    const UsageSnapshot usage = instances_[i]->Usage();
    for (size_t kind = 0; kind < usage.kinds.size(); ++kind) {
      if (static_cast<UsageKind>(kind) == UsageKind::kRing) continue;
      Check(usage.kinds[kind].current_bytes == 0, "blocks are left over");
    }
    for (const auto& paths : usage.copies) {
      for (const CopyPath path : {CopyPath::kStagedSync, CopyPath::kStagedIdle,
                                  CopyPath::kStagedDeferred}) {
        report_.ring_copies += paths[static_cast<size_t>(path)].count;
      }
    }
    const absl::Status destroyed = DestroyInstance(instances_[i]);
    Check(destroyed.ok(), destroyed.ToString().c_str());
  }
  if (Staged()) {
    Check(faulted_ || !quarantined, "slots are quarantined");
    Check(lost_ || faulted_ || machine_.PinnedBytes() == 0,
          "pinned memory is left over");
  }
  for (size_t i = 0; i < kRegistrableBuffers; ++i) {
    PINRING_CHECK(os::ReleasePages(registrable_[i], kRegistrableBytes[i]).ok(),
                  "releasing pages");
  }
}

}  // namespace

bool MayFail(const Program& program, const Operation& operation, int code) {
  // What a capture does not take it does not take natively either.
  if (code == 0 || code == Result::kNotRun ||
      code == cudaErrorStreamCaptureUnsupported) {
    return false;
  }
  const bool faulty =
      std::any_of(program.operations.begin(), program.operations.end(),
                  [](const Operation& op) { return !op.faults.empty(); });
  // What a fault does to a capture is found out at its end.
  if (operation.kind == OpKind::kEndCapture ||
      code == cudaErrorStreamCaptureInvalidated) {
    return faulty || (operation.kind == OpKind::kEndCapture &&
                      program.configuration.copies_may_wait);
  }
  if (!operation.faults.empty()) return true;
  return program.configuration.limited &&
         (code == cudaErrorMemoryAllocation || code == cudaErrorNotSupported);
}

Report RunWithPinring(const Program& program) {
  return Runner(program, nullptr, SIZE_MAX).Run();
}

Report RunNatively(const Program& program, const Report& pinring, size_t end) {
  return Runner(program, &pinring, end).Run();
}

}  // namespace pinring::fuzz
