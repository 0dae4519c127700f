#include "src/capi/default_instance.h"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/base/const_init.h"
#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "src/capi/error_codes.h"
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
std::atomic<const DefaultInstanceError*> failure{nullptr};

absl::Mutex setup_mutex(absl::kConstInit);
const Driver* replaced_driver ABSL_GUARDED_BY(setup_mutex) = nullptr;
// What Configure was told, in the order of the calls. Null while it is empty,
// so that no constructor or destructor runs at load or at exit.
std::string* settings_told ABSL_GUARDED_BY(setup_mutex) = nullptr;
bool hooks_set ABSL_GUARDED_BY(setup_mutex) = false;

absl::StatusOr<const Driver*> FindDriver()
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(setup_mutex) {
  if (replaced_driver != nullptr) return replaced_driver;
  auto driver = LoadDriver();
  if (!driver.ok()) return driver.status();
  return new Driver(*driver);  // Lives as long as the process.
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

void PrintUsageAtExit() {
  if (Instance* made = instance.load(std::memory_order_acquire)) {
    os::WriteErrorLine(absl::StripSuffix(FormatUsageText(made->Usage()), "\n"));
  }
}

void AfterForkInChild() {
  if (Instance* made = instance.load(std::memory_order_acquire)) {
    made->AbandonAfterFork();
  }
}

void SetHooks(const Options& options)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(setup_mutex) {
  if (hooks_set) return;
  hooks_set = true;
  if (auto status = os::AtFork(nullptr, nullptr, &AfterForkInChild);
      !status.ok()) {
    os::WriteErrorLine(absl::StrCat("pinring: ", status.message()));
  }
  if (options.show_usage) (void)std::atexit(&PrintUsageAtExit);
}

void Fail(cudaError_t code, absl::string_view message)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(setup_mutex) {
  failure.store(new DefaultInstanceError{code, std::string(message)},
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
    // Only a driver that was found has an answer of its own.
    const bool found = driver.status().code() != absl::StatusCode::kNotFound;
    return Fail(
        found ? RuntimeCode(driver.status()) : cudaErrorInsufficientDriver,
        driver.status().message());
  }
  auto made = Instance::Create(*driver, *options);
  if (!made.ok()) {
    os::WriteErrorLine(absl::StrCat("pinring: ", made.status().message()));
    return Fail(cudaErrorInitializationError, made.status().message());
  }
  SetHooks(*options);
  instance.store(std::move(*made).release(), std::memory_order_release);
}

}  // namespace

Instance* DefaultInstance(const DefaultInstanceError** error) {
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

void ResetDefaultInstanceForTesting(const Driver* driver) {
  absl::MutexLock lock(&setup_mutex);
  delete instance.exchange(nullptr, std::memory_order_acq_rel);
  delete failure.exchange(nullptr, std::memory_order_acq_rel);
  delete settings_told;
  settings_told = nullptr;
  replaced_driver = driver;
}

}  // namespace pinring
