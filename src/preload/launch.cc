#include "src/preload/launch.h"

#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/const_init.h"
#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "src/preload/entry_points.h"
#include "src/preload/staging.h"

namespace pinring::preload {
namespace {

constexpr size_t kMostParameters = 4096;

using Sizes = std::vector<size_t>;
using Known = absl::flat_hash_map<CUfunction, std::shared_ptr<const Sizes>>;

absl::Mutex mutex(absl::kConstInit);
// Lives as long as the process.
Known* known ABSL_GUARDED_BY(mutex) = nullptr;

// The sizes of the parameters, in their order. *all says whether these are all,
// not what the driver could say just now.
std::shared_ptr<const Sizes> AskDriver(CUfunction kernel, bool* all) {
  const Inside inside;
  const Extra driver = EntryPoints::Extras();
  auto sizes = std::make_shared<Sizes>();
  for (size_t index = 0; index < kMostParameters; ++index) {
    size_t offset = 0;
    size_t size = 0;
    CUresult code = CUDA_ERROR_NOT_FOUND;
    if (driver.FuncGetParamInfo != nullptr) {
      code = driver.FuncGetParamInfo(kernel, index, &offset, &size);
    }
    // Launches take handles of either kind.
    if (code != CUDA_SUCCESS && driver.KernelGetParamInfo != nullptr) {
      code = driver.KernelGetParamInfo(reinterpret_cast<CUkernel>(kernel),
                                       index, &offset, &size);
    }
    *all = code == CUDA_ERROR_INVALID_VALUE;  // no parameter of this index
    if (code != CUDA_SUCCESS) break;
    sizes->push_back(size);
  }
  return sizes;
}

std::shared_ptr<const Sizes> ParameterSizes(CUfunction kernel) {
  {
    absl::ReaderMutexLock lock(&mutex);
    if (known != nullptr) {
      const auto found = known->find(kernel);
      if (found != known->end()) return found->second;
    }
  }
  bool all = false;
  std::shared_ptr<const Sizes> sizes = AskDriver(kernel, &all);
  if (!all) return sizes;
  absl::MutexLock lock(&mutex);
  if (known == nullptr) known = new Known;
  return known->insert_or_assign(kernel, std::move(sizes)).first->second;
}

// The words of a buffer that holds all arguments, as `extra` names it.
CUresult PromoteBuffer(const char* function, void** extra) {
  const void* buffer = nullptr;
  size_t bytes = 0;
  for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
    if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      buffer = extra[1];
    } else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[1] != nullptr) {
      std::memcpy(&bytes, extra[1], sizeof(bytes));
    } else {
      return CUDA_SUCCESS;  // The driver says what is wrong.
    }
  }
  return PromoteWords(function, buffer, bytes);
}

}  // namespace

CUresult PromoteKernelArguments(const char* function, CUfunction kernel,
                                void** parameters, void** extra) {
  if (!Blocks().MayHoldBlocks()) return CUDA_SUCCESS;
  if (extra != nullptr) return PromoteBuffer(function, extra);
  if (parameters == nullptr || kernel == nullptr) return CUDA_SUCCESS;
  const std::shared_ptr<const Sizes> sizes = ParameterSizes(kernel);
  for (size_t index = 0; index < sizes->size(); ++index) {
    if (const CUresult code =
            PromoteWords(function, parameters[index], (*sizes)[index]);
        code != CUDA_SUCCESS) {
      return code;
    }
  }
  return CUDA_SUCCESS;
}

void ForgetKernels() {
  absl::MutexLock lock(&mutex);
  if (known != nullptr) known->clear();
}

}  // namespace pinring::preload
