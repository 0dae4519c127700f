#include "src/simcuda/machine.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "src/simcuda/model.h"

namespace pinring::simcuda {
namespace {

enum EntryPoint {
#define PINRING_SIMCUDA_ENTRY(field, symbol, version, need, parameters) \
  k##field,
  PINRING_SIMCUDA_FUNCTIONS(PINRING_SIMCUDA_ENTRY)
#undef PINRING_SIMCUDA_ENTRY
      kEntryPoints
};

constexpr const char* kSymbols[kEntryPoints] = {
#define PINRING_SIMCUDA_SYMBOL(field, symbol, version, need, parameters) symbol,
    PINRING_SIMCUDA_FUNCTIONS(PINRING_SIMCUDA_SYMBOL)
#undef PINRING_SIMCUDA_SYMBOL
};

bool NeedsInit(EntryPoint entry) {
  return entry != kInit && entry != kDriverGetVersion &&
         entry != kGetErrorName && entry != kGetErrorString;
}

// How long the device thread sleeps between looks at flags in memory, which
// nobody tells it of.
constexpr absl::Duration kShortestPoll = absl::Microseconds(20);
constexpr absl::Duration kLongestPoll = absl::Milliseconds(1);

std::atomic<uint64_t> next_machine{1};

}  // namespace

class Machine::Impl : public Environment {
 public:
  Impl(const MachineOptions& options, Scheduler* scheduler)
      : options_(options),
        scheduler_(scheduler),
        model_(options_, next_machine.fetch_add(1, std::memory_order_relaxed),
               this),
        device_actor_(this),
        host_actor_(this) {
    if (scheduler_ != nullptr) {
      scheduler_->AddActor(&device_actor_);
      scheduler_->AddActor(&host_actor_);
    } else {
      device_thread_ = std::thread([this] { RunDevices(); });
      host_thread_ = std::thread([this] { RunHostFunctions(); });
    }
  }

  ~Impl() override {
    {
      absl::MutexLock lock(&mu_);
      stop_ = true;
    }
    if (device_thread_.joinable()) device_thread_.join();
    if (host_thread_.joinable()) host_thread_.join();
    // Nobody else gives back what a user object holds.
    for (const OpRef& op : Left()) {
      if (op->stream == nullptr) op->host_function(op->user_data);
    }
  }

  // Every entry point comes through here.
  CUresult Call(EntryPoint entry, absl::FunctionRef<CUresult(Model&)> body) {
    if (NeedsInit(entry) && (Scheduler::InStep() || InCallback())) {
      absl::MutexLock lock(&mu_);
      model_.AddHazard(absl::StrCat(
          kSymbols[entry],
          " was called from a kernel, a host function or an actor's step"));
      return CUDA_ERROR_NOT_PERMITTED;
    }
    // Others may run between the caller's last step and the call, and between
    // the call and what the caller does with its result.
    Scheduler::Yield();
    const CUresult result = LockedCall(entry, body);
    Scheduler::Yield();
    return result;
  }

  // Called by the model, within Call: the mutex is held. The analysis cannot
  // follow that through the model.
  bool Wait(std::string_view why, absl::FunctionRef<bool()> ready) override
      ABSL_NO_THREAD_SAFETY_ANALYSIS {
    if (ready()) return true;
    if (scheduler_ == nullptr) {
      mu_.Await(absl::Condition(
          +[](absl::FunctionRef<bool()>* condition) { return (*condition)(); },
          &ready));
      return true;
    }
    struct Released {  // also while the caller's stack unwinds
      explicit Released(absl::Mutex* mutex) ABSL_NO_THREAD_SAFETY_ANALYSIS
          : mu(mutex) {
        mu->Unlock();
      }
      ~Released() ABSL_NO_THREAD_SAFETY_ANALYSIS { mu->Lock(); }
      absl::Mutex* const mu;
    } released(&mu_);
    const auto locked_ready = [&] {
      absl::MutexLock lock(&mu_);
      return ready();
    };
    if (Scheduler::Current() != scheduler_) return DriveUntil(locked_ready);
    scheduler_->BlockUntil(why, locked_ready);
    return !scheduler_->Aborting() || locked_ready();
  }

  void RegisterKernel(RegisteredKernel kernel) {
    absl::MutexLock lock(&mu_);
    model_.RegisterKernel(std::move(kernel));
  }

  void InjectFault(const Fault& fault) {
    absl::MutexLock lock(&mu_);
    faults_.push_back({fault, 0});
  }

  void ClearFaults() {
    absl::MutexLock lock(&mu_);
    faults_.clear();
  }

  uint64_t Calls(std::string_view function) const {
    absl::MutexLock lock(&mu_);
    uint64_t calls = 0;  // of all forms of that name
    for (int i = 0; i < kEntryPoints; ++i) {
      if (function == kSymbols[i]) calls += calls_[i];
    }
    return calls;
  }

  std::vector<std::pair<std::string, uint64_t>> AllCalls() const {
    absl::MutexLock lock(&mu_);
    std::map<std::string, uint64_t> all;
    for (int i = 0; i < kEntryPoints; ++i) {
      if (calls_[i] != 0) all[kSymbols[i]] += calls_[i];
    }
    return {all.begin(), all.end()};
  }

  uint64_t TotalCalls() const {
    absl::MutexLock lock(&mu_);
    uint64_t total = 0;
    for (const uint64_t calls : calls_) total += calls;
    return total;
  }

  // Looks at the model between calls.
  template <typename Look>
  auto With(Look look) const {
    absl::MutexLock lock(&mu_);
    return look(model_);
  }

  const Driver& driver() const { return driver_; }
  const ExtraDriver& extra_driver() const { return extra_driver_; }

  static std::atomic<Impl*> current;

 private:
  // The C function of an entry point that is this method of the model's.
  template <EntryPoint entry, typename Method>
  struct Thunk;
  template <EntryPoint entry, typename... Parameters>
  struct Thunk<entry, CUresult (Model::*)(Parameters...)> {
    template <CUresult (Model::*method)(Parameters...)>
    static CUresult CUDAAPI Function(Parameters... parameters) {
      Impl* impl = current.load(std::memory_order_acquire);
      if (impl == nullptr) return CUDA_ERROR_DEINITIALIZED;
      return impl->Call(
          entry, [&](Model& model) { return (model.*method)(parameters...); });
    }
  };

  static Driver MakeDriver(const MachineOptions& options) {
    Driver driver;
#define PINRING_SIMCUDA_FILL(field, symbol, version, need, parameters) \
  driver.field =                                                       \
      &Thunk<k##field,                                                 \
             decltype(&Model::field)>::template Function<&Model::field>;
    PINRING_DRIVER_FUNCTIONS(PINRING_SIMCUDA_FILL)
    if (!options.stream_memory_operations) {
      driver.StreamBatchMemOp = nullptr;
      driver.StreamWriteValue32 = nullptr;
      driver.StreamWaitValue32 = nullptr;
    }
    if (!options.batch_copies) {
      driver.MemcpyBatchAsync12 = nullptr;
      driver.MemcpyBatchAsync13 = nullptr;
    }
    driver.batches = options.wddm;
    return driver;
  }

  static ExtraDriver MakeExtraDriver() {
    ExtraDriver driver;
    PINRING_SIMCUDA_EXTRA_FUNCTIONS(PINRING_SIMCUDA_FILL)
#undef PINRING_SIMCUDA_FILL
    return driver;
  }

  struct CountedFault {
    Fault fault;
    uint64_t calls;
  };

  class DeviceActor : public Actor {
   public:
    explicit DeviceActor(Impl* impl) : impl_(impl) {}
    int EnabledSteps() override {
      return impl_->CollectRunnable(impl_->scheduler_->Epoch());
    }
    void Step(int which) override {
      if (impl_->StepDevice(which, impl_->scheduler_->Epoch())) return;
      impl_->scheduler_->Fruitless();
    }

   private:
    Impl* const impl_;
  };

  class HostFunctionActor : public Actor {
   public:
    explicit HostFunctionActor(Impl* impl) : impl_(impl) {}
    int EnabledSteps() override { return impl_->HasHostFunction(); }
    void Step(int) override { impl_->StepHostFunction(); }

   private:
    Impl* const impl_;
  };

  CUresult LockedCall(EntryPoint entry,
                      absl::FunctionRef<CUresult(Model&)> body) {
    absl::MutexLock lock(&mu_);
    ++calls_[entry];
    if (const std::optional<CUresult> fault = TakeFault(entry)) return *fault;
    if (NeedsInit(entry) && !model_.initialized())
      return CUDA_ERROR_NOT_INITIALIZED;
    return body(model_);
  }

  std::optional<CUresult> TakeFault(EntryPoint entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (CountedFault& one : faults_) {
      if (one.fault.function != "*" && one.fault.function != kSymbols[entry])
        continue;
      if (one.calls++ != one.fault.call) continue;
      if (one.fault.sticky) model_.BreakContext(one.fault.code);
      return one.fault.code;
    }
    return std::nullopt;
  }

  int CollectRunnable(uint64_t epoch) {
    absl::MutexLock lock(&mu_);
    size_t total = 0;
    for (auto& context : model_.contexts())
      total += context->device.CollectRunnable(epoch);
    return static_cast<int>(total);
  }

  // Runs the which-th step of the latest CollectRunnable. Returns whether it
  // changed anything.
  bool StepDevice(int which, uint64_t epoch) {
    OpRef op;
    Device* device = nullptr;
    {
      absl::MutexLock lock(&mu_);
      auto left = static_cast<size_t>(which);
      for (auto& context : model_.contexts()) {
        const size_t runnable = context->device.runnable();
        if (left < runnable) {
          device = &context->device;
          op = device->Take(left, epoch);
          break;
        }
        left -= runnable;
      }
      if (op == nullptr) return false;  // dropped since
      if (op->kind == OpKind::kHostFunction) {
        model_.host_functions().push_back(op);
        return true;
      }
    }
    const Performed performed = Perform(*op);
    absl::MutexLock lock(&mu_);
    if (!performed.hazard.empty()) model_.AddHazard(performed.hazard);
    device->Finish(op, performed);
    return !performed.fruitless;
  }

  bool HasHostFunction() {
    absl::MutexLock lock(&mu_);
    return !model_.host_functions().empty();
  }

  void StepHostFunction() {
    OpRef op;
    {
      absl::MutexLock lock(&mu_);
      if (model_.host_functions().empty()) return;
      op = std::move(model_.host_functions().front());
      model_.host_functions().pop_front();
      if (op->dropped) return;
    }
    {
      CallbackMark mark;
      op->host_function(op->user_data);
    }
    absl::MutexLock lock(&mu_);
    // The destructor of a user object is of no stream.
    if (op->dropped || op->stream == nullptr) return;
    model_.contexts()[static_cast<size_t>(op->stream->device)]->device.Finish(
        op, {.done = true});
    model_.NoteChange();
  }

  // Scheduled mode, on a thread that is no caller (before or after a run): lets
  // the devices run, in order, until ready.
  bool DriveUntil(absl::FunctionRef<bool()> ready) {
    // Epochs of its own, apart from the scheduler's.
    uint64_t epoch = uint64_t{1} << 63;
    while (!ready()) {
      if (HasHostFunction()) {
        StepHostFunction();
      } else if (CollectRunnable(epoch + driven_epoch_) == 0) {
        return false;
      } else if (!StepDevice(0, epoch + driven_epoch_)) {
        continue;
      }
      ++driven_epoch_;
    }
    return true;
  }

  // Threaded mode: the device thread. One step of each operation that may take
  // one, then the next round.
  void RunDevices() {
    absl::Duration poll = kShortestPoll;
    for (uint64_t round = 0;; ++round) {
      uint64_t version;
      bool polls = false;
      {
        absl::MutexLock lock(&mu_);
        if (stop_) return;
        version = model_.version();
        for (auto& context : model_.contexts())
          polls = polls || context->device.Polls();
      }
      bool changed = false;
      // Steps do not make others' steps impossible, except that a context may
      // be dropped between them.
      for (int left = CollectRunnable(round); left > 0; --left)
        changed = StepDevice(left - 1, round) || changed;
      if (changed) {
        poll = kShortestPoll;
        continue;
      }
      const auto woken = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return stop_ || model_.version() != version;
      };
      absl::MutexLock lock(&mu_);
      if (!polls) {
        mu_.Await(absl::Condition(&woken));
      } else if (mu_.AwaitWithTimeout(absl::Condition(&woken), poll)) {
        poll = kShortestPoll;
      } else {
        poll = std::min(poll * 2, kLongestPoll);
      }
    }
  }

  std::deque<OpRef> Left() {
    absl::MutexLock lock(&mu_);
    return std::move(model_.host_functions());
  }

  void RunHostFunctions() {
    const auto woken = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return stop_ || !model_.host_functions().empty();
    };
    for (;;) {
      {
        absl::MutexLock lock(&mu_);
        mu_.Await(absl::Condition(&woken));
        if (stop_) return;
      }
      StepHostFunction();
    }
  }

  const MachineOptions options_;
  const Driver driver_ = MakeDriver(options_);
  const ExtraDriver extra_driver_ = MakeExtraDriver();
  Scheduler* const scheduler_;
  mutable absl::Mutex mu_;
  Model model_ ABSL_GUARDED_BY(mu_);
  uint64_t calls_[kEntryPoints] ABSL_GUARDED_BY(mu_) = {};
  std::vector<CountedFault> faults_ ABSL_GUARDED_BY(mu_);
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  DeviceActor device_actor_;
  HostFunctionActor host_actor_;
  uint64_t driven_epoch_ = 0;
  std::thread device_thread_;
  std::thread host_thread_;
};

// C function pointers have no other way to it. Release in the constructor and
// acquire in the calls pair.
std::atomic<Machine::Impl*> Machine::Impl::current{nullptr};

Machine::Machine(const MachineOptions& options, Scheduler* scheduler)
    : impl_(std::make_unique<Impl>(options, scheduler)) {
  Impl::current.store(impl_.get(), std::memory_order_release);
}

Machine::~Machine() {
  Impl* self = impl_.get();
  Impl::current.compare_exchange_strong(self, nullptr);
}

const Driver& Machine::driver() const { return impl_->driver(); }
const ExtraDriver& Machine::extra_driver() const {
  return impl_->extra_driver();
}

void Machine::RegisterKernel(std::string name,
                             std::vector<size_t> parameter_bytes,
                             KernelFunction function) {
  impl_->RegisterKernel(
      {std::move(name), std::move(parameter_bytes), std::move(function)});
}

void Machine::InjectFault(const Fault& fault) { impl_->InjectFault(fault); }
void Machine::ClearFaults() { impl_->ClearFaults(); }
uint64_t Machine::Calls(std::string_view function) const {
  return impl_->Calls(function);
}
std::vector<std::pair<std::string, uint64_t>> Machine::AllCalls() const {
  return impl_->AllCalls();
}
uint64_t Machine::TotalCalls() const { return impl_->TotalCalls(); }

std::vector<std::string> Machine::Hazards() const {
  return impl_->With([](const Model& model) { return model.hazards(); });
}
size_t Machine::PinnedBytes() const {
  return impl_->With(
      [](const Model& model) { return model.memory().pinned_bytes(); });
}
size_t Machine::PeakPinnedBytes() const {
  return impl_->With(
      [](const Model& model) { return model.memory().peak_pinned_bytes(); });
}
size_t Machine::DeviceBytes(int device) const {
  return impl_->With([device](const Model& model) {
    return model.memory().device_bytes(device);
  });
}
size_t Machine::OutstandingOperations() const {
  return impl_->With([](const Model& model) {
    size_t count = 0;
    for (const auto& context : model.contexts())
      count += context->device.outstanding();
    return count;
  });
}
std::string Machine::Describe() const {
  return impl_->With([](const Model& model) { return model.Describe(); });
}

}  // namespace pinring::simcuda
