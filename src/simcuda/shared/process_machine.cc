#include "src/simcuda/shared/process_machine.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/base/const_init.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "src/os/env.h"
#include "src/os/threads.h"
#include "src/simcuda/machine.h"
#include "src/simcuda/shared/machine_options.h"

namespace pinring::simcuda {
namespace {

constexpr int kHazardExitStatus = 86;

ABSL_CONST_INIT absl::Mutex mutex(absl::kConstInit);
// Set once, then for good; released here and acquired by every call.
std::atomic<Machine*> process_machine{nullptr};
std::atomic<bool> in_child{false};

const absl::StatusOr<ProcessOptions>& Options() {
  static const auto* const options =
      new absl::StatusOr<ProcessOptions>(ReadProcessOptions(os::GetEnv));
  return *options;
}

// Made when the library is loaded, so that it goes after the statics of the
// program that link it, whose destructors may still make calls.
class ExitReport {
 public:
  ~ExitReport() {
    const Machine* machine = process_machine.load(std::memory_order_acquire);
    if (machine == nullptr || in_child.load(std::memory_order_relaxed)) return;
    const std::vector<std::string> hazards = machine->Hazards();
    for (const std::string& hazard : hazards)
      os::WriteErrorLine(absl::StrCat("simcuda: hazard: ", hazard));
    if (hazards.empty() || !Options()->fail_on_hazard) return;
    std::fflush(nullptr);
    std::_Exit(kHazardExitStatus);
  }
};

const ExitReport exit_report;

// add_words(const uint32_t* in, uint32_t* out, uint64_t count): the one kernel
// that there is, for programs of the driver API that launch one.
bool AddWords(void** parameters) {
  const auto value = [&](int index, auto* to) {
    std::memcpy(to, parameters[index], sizeof(*to));
  };
  const uint32_t* in = nullptr;
  uint32_t* out = nullptr;
  uint64_t count = 0;
  value(0, &in);
  value(1, &out);
  value(2, &count);
  for (uint64_t i = 0; i < count; ++i) out[i] += in[i];
  return true;
}

CUresult MakeMachine() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
  if (!Options().ok()) {
    os::WriteErrorLine(absl::StrCat("simcuda: ", Options().status().message()));
    return CUDA_ERROR_INVALID_VALUE;
  }
  const absl::Status forks = os::AtFork(nullptr, nullptr, [] {
    in_child.store(true, std::memory_order_relaxed);
  });
  if (!forks.ok()) {
    os::WriteErrorLine(absl::StrCat("simcuda: ", forks.message()));
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  auto* machine = new Machine(Options()->machine, nullptr);
  if (Options()->machine.device_code) {
    machine->RegisterKernel("add_words", {8, 8, 8}, &AddWords);
  }
  for (const Fault& fault : Options()->faults) machine->InjectFault(fault);
  process_machine.store(machine, std::memory_order_release);
  return CUDA_SUCCESS;
}

const Machine* UsableMachine() {
  if (in_child.load(std::memory_order_relaxed)) return nullptr;
  return process_machine.load(std::memory_order_acquire);
}

}  // namespace

CUresult InitializeProcess(unsigned flags) {
  if (in_child.load(std::memory_order_relaxed))
    return CUDA_ERROR_NOT_INITIALIZED;
  {
    absl::MutexLock lock(&mutex);
    if (process_machine.load(std::memory_order_relaxed) == nullptr) {
      if (const CUresult code = MakeMachine(); code != CUDA_SUCCESS)
        return code;
    }
  }
  return UsableMachine()->driver().Init(flags);
}

template <>
const Driver* ProcessTable<Driver>() {
  const Machine* machine = UsableMachine();
  return machine == nullptr ? nullptr : &machine->driver();
}

template <>
const ExtraDriver* ProcessTable<ExtraDriver>() {
  const Machine* machine = UsableMachine();
  return machine == nullptr ? nullptr : &machine->extra_driver();
}

bool ProcessHasStreamMemoryOperations() {
  return !Options().ok() || Options()->machine.stream_memory_operations;
}

}  // namespace pinring::simcuda
