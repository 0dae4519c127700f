#include "src/capi/default_instance.h"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/base/const_init.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "src/capi/error_codes.h"
#include "src/capi/instances.h"
#include "src/driver/loader.h"
#include "src/driver/status.h"
#include "src/os/env.h"
#include "src/os/threads.h"
#include "src/usage/usage_print.h"

namespace pinring {
namespace {

// Both are stored with release once they are complete, loaded with acquire by
// the calls' fast path; at most one is ever set.
std::atomic<Instance*> instance{nullptr};
std::atomic<const NoInstance*> failure{nullptr};

absl::Mutex setup_mutex(absl::kConstInit);
const Driver* replaced_driver ABSL_GUARDED_BY(setup_mutex) = nullptr;
absl::StatusOr<Driver> (*driver_loader)()
    ABSL_GUARDED_BY(setup_mutex) = &LoadDriver;
// What Configure was told, in the order of the calls. Null while it is empty,
// so that no constructor or destructor runs at load or at exit.
std::string* settings_told ABSL_GUARDED_BY(setup_mutex) = nullptr;
bool hooks_set ABSL_GUARDED_BY(setup_mutex) = false;

absl::StatusOr<const Driver*> FindDriver()
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(setup_mutex) {
  if (replaced_driver != nullptr) return replaced_driver;
  static const Driver* installed = nullptr;
  if (installed != nullptr) return installed;
  auto driver = driver_loader();
  if (!driver.ok()) return driver.status();
  installed = new Driver(*driver);  // Lives as long as the process.
  return installed;
}

absl::StatusOr<Options> FindOptions()
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(setup_mutex) {
  Options options;
  if (auto status = ReadEnvironment(os::GetEnv, &options); !status.ok()) {
    return status;
  }
  if (settings_told != nullptr) {
    if (auto status = ApplySettings(*settings_told, &options); !status.ok()) {
      return status;
    }
  }
  return options;
}

void ShowUsage(const Instance& shown) {
  os::WriteErrorLine(absl::StripSuffix(FormatUsageText(shown.Usage()), "\n"));
}

void AtExit() {
  // Within a DLL, too late: the accounts may be locked for ever.
  if (os::OtherThreadsAreGone()) return;
  ForEachInstance([](Instance& made) {
    made.StopPublishing();
    if (made.options().show_usage) ShowUsage(made);
  });
}

void AfterForkInChild() {
  ForEachInstance([](Instance& made) { made.AbandonAfterFork(); });
}

void SetHooks() ABSL_EXCLUSIVE_LOCKS_REQUIRED(setup_mutex) {
  if (hooks_set) return;
  hooks_set = true;
  if (auto status = os::AtFork(nullptr, nullptr, &AfterForkInChild);
      !status.ok()) {
    os::WriteErrorLine(absl::StrCat("pinring: ", status.message()));
  }
  (void)std::atexit(&AtExit);
}

// Only a driver that was found has an answer of its own.
cudaError_t CodeWithoutDriver(const absl::Status& status) {
  return status.code() == absl::StatusCode::kNotFound
             ? cudaErrorInsufficientDriver
             : RuntimeCode(status);
}

void Fail(cudaError_t code, absl::string_view message)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(setup_mutex) {
  failure.store(new NoInstance{code, std::string(message)},
                std::memory_order_release);
}

void MakeInstance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(setup_mutex) {
  const auto options = FindOptions();
  if (!options.ok()) {
    os::WriteErrorLine(absl::StrCat("pinring: ", options.status().message()));
    return Fail(cudaErrorInitializationError, options.status().message());
  }
  const auto driver = FindDriver();
  if (!driver.ok()) {
    return Fail(CodeWithoutDriver(driver.status()), driver.status().message());
  }
  auto made = Instance::Create(*driver, *options, &Blocks());
  if (!made.ok()) {
    os::WriteErrorLine(absl::StrCat("pinring: ", made.status().message()));
    return Fail(cudaErrorInitializationError, made.status().message());
  }
  SetHooks();
  (*made)->StartPublishing(0);
  AddInstance(made->get(), InstanceRole::kDefault);
  instance.store(std::move(*made).release(), std::memory_order_release);
}

}  // namespace

Instance* DefaultInstance(const NoInstance** error) {
  if (Instance* made = instance.load(std::memory_order_acquire)) return made;
  absl::MutexLock lock(&setup_mutex);
  if (instance.load(std::memory_order_relaxed) == nullptr &&
      failure.load(std::memory_order_relaxed) == nullptr) {
    MakeInstance();
  }
  *error = failure.load(std::memory_order_relaxed);
  return instance.load(std::memory_order_relaxed);
}

absl::Status ConfigureDefaultInstance(absl::string_view settings) {
  absl::MutexLock lock(&setup_mutex);
  if (instance.load(std::memory_order_relaxed) != nullptr ||
      failure.load(std::memory_order_relaxed) != nullptr) {
    return CudaStatus(CUDA_ERROR_ILLEGAL_STATE,
                      "options cannot be changed any more: the library is in "
                      "use. Call pinringConfigure before everything else");
  }
  std::string all =
      settings_told == nullptr ? std::string() : *settings_told + ",";
  absl::StrAppend(&all, settings);
  Options options;
  if (auto status = ApplySettings(all, &options); !status.ok()) return status;
  if (settings_told == nullptr) settings_told = new std::string;
  *settings_told = std::move(all);
  return absl::OkStatus();
}

absl::StatusOr<Instance*> CreateInstance(absl::string_view settings) {
  Options options;
  if (auto status = ApplySettings(settings, &options); !status.ok()) {
    return status;
  }
  absl::MutexLock lock(&setup_mutex);
  const auto driver = FindDriver();
  if (!driver.ok()) {
    return CudaStatus(static_cast<CUresult>(CodeWithoutDriver(driver.status())),
                      driver.status().message());
  }
  auto made = Instance::Create(*driver, options, &Blocks());
  if (!made.ok()) return made.status();
  SetHooks();
  static uint64_t number = 0;
  (*made)->StartPublishing(++number);
  AddInstance(made->get(), InstanceRole::kFurther);
  return std::move(*made).release();
}

absl::Status DestroyInstance(Instance* made) {
  if (made == instance.load(std::memory_order_acquire) ||
      !InstanceExists(made)) {
    return CudaStatus(CUDA_ERROR_INVALID_HANDLE,
                      "the instance was destroyed before, or never was one "
                      "that pinringInstanceCreate made");
  }
  if (made->InForkedChild()) {
    return CudaStatus(CUDA_ERROR_NOT_INITIALIZED,
                      "an instance cannot be destroyed in a child of fork");
  }
  if (const uint64_t blocks = made->BlockCount(); blocks > 0) {
    return CudaStatus(CUDA_ERROR_ILLEGAL_STATE,
                      absl::StrCat("the instance has ", blocks,
                                   " blocks that were not freed; free them "
                                   "first"));
  }
  if (!RemoveInstance(made, InstanceRole::kFurther)) {
    return CudaStatus(CUDA_ERROR_INVALID_HANDLE,
                      "another thread destroys the instance");
  }
  if (made->options().show_usage) ShowUsage(*made);
  delete made;
  return absl::OkStatus();
}

Instance* CurrentInstance(const NoInstance** error) {
  Instance* const current = PushedInstance();
  if (current == nullptr) return DefaultInstance(error);
  if (InstanceExists(current)) return current;
  static const NoInstance* const destroyed =
      new NoInstance{cudaErrorInvalidResourceHandle,
                     "the calling thread's current instance was "
                     "destroyed; call pinringPopInstance"};
  *error = destroyed;
  return nullptr;
}

void SetDriverLoader(absl::StatusOr<Driver> (*load)()) {
  absl::MutexLock lock(&setup_mutex);
  driver_loader = load;
}

void ResetDefaultInstanceForTesting(const Driver* driver) {
  absl::MutexLock lock(&setup_mutex);
  Instance* const made = instance.exchange(nullptr, std::memory_order_acq_rel);
  if (made != nullptr) (void)RemoveInstance(made, InstanceRole::kDefault);
  delete made;
  delete failure.exchange(nullptr, std::memory_order_acq_rel);
  delete settings_told;
  settings_told = nullptr;
  replaced_driver = driver;
}

}  // namespace pinring
