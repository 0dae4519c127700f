// Modules and kernels, host functions, memory operations.

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "src/simcuda/model.h"

namespace pinring::simcuda {
namespace {

constexpr unsigned kMaxBatchOperations = 256;
constexpr char kEagerImage[] = "eager";

}  // namespace

// Any image offers all kernels registered so far.
CUresult Model::ModuleLoadData(CUmodule* handle, const void* image) {
  Context* context;
  PINRING_SIMCUDA_TRY(Current(&context));
  if (handle == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  PINRING_SIMCUDA_TRY(CheckUnsafe());
  if (!options_.device_code) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  Lock lock;
  PINRING_SIMCUDA_TRY(lock.Acquire(*this, *context, "cuModuleLoadData"));
  Module module;
  module.context = context;
  module.generation = context->generation;
  module.lazy = options_.lazy_loading &&
                std::strcmp(static_cast<const char*>(image), kEagerImage) != 0;
  for (const auto& [name, kernel] : kernels_) {
    Function function;
    function.context = context;
    function.generation = context->generation;
    function.lazy = module.lazy;
    function.kernel = kernel;
    module.functions[name] = functions_.Add(std::move(function));
  }
  *handle = modules_.Add(std::move(module));
  return CUDA_SUCCESS;
}

CUresult Model::ModuleUnload(CUmodule handle) {
  const Module* module = modules_.Find(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Context& context = *module->context;
  if (module->generation != context.generation)
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  PINRING_SIMCUDA_TRY(CheckUnsafe());
  Lock lock;
  PINRING_SIMCUDA_TRY(lock.Acquire(*this, context, "cuModuleUnload"));
  PINRING_SIMCUDA_TRY(WaitForWork(context, "cuModuleUnload", false));
  module = modules_.Find(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  for (const auto& [name, function] : module->functions)
    functions_.Remove(function);
  modules_.Remove(handle);
  return CUDA_SUCCESS;
}

CUresult Model::ModuleGetFunction(CUfunction* function, CUmodule handle,
                                  const char* name) {
  if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Module* module = modules_.Find(handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  auto it = module->functions.find(name);
  if (it == module->functions.end()) return CUDA_ERROR_NOT_FOUND;
  *function = it->second;
  return CUDA_SUCCESS;
}

// Parameters lie at multiples of their size, of 8 bytes at most.
CUresult Model::FuncGetParamInfo(CUfunction handle, size_t index,
                                 size_t* offset, size_t* bytes) {
  const Function* function = functions_.Find(handle);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::vector<size_t>& sizes = function->kernel->parameter_bytes;
  if (offset == nullptr || index >= sizes.size())
    return CUDA_ERROR_INVALID_VALUE;
  size_t at = 0;
  for (size_t i = 0;; ++i) {
    const size_t step = std::clamp<size_t>(sizes[i], 1, 8);
    at = (at + step - 1) / step * step;
    if (i == index) break;
    at += sizes[i];
  }
  *offset = at;
  if (bytes != nullptr) *bytes = sizes[index];
  return CUDA_SUCCESS;
}

CUresult Model::LaunchKernel(CUfunction handle, unsigned grid_x,
                             unsigned grid_y, unsigned grid_z, unsigned block_x,
                             unsigned block_y, unsigned block_z, unsigned,
                             CUstream stream, void** parameters, void** extra) {
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(stream, &target));
  Function* function = functions_.Find(handle);
  if (function == nullptr || function->context != target.context ||
      function->generation != target.context->generation) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (extra != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  const uint64_t threads = uint64_t{block_x} * block_y * block_z;
  if (grid_x == 0 || grid_y == 0 || grid_z == 0 || threads == 0 ||
      threads > 1024)
    return CUDA_ERROR_INVALID_VALUE;
  auto op = std::make_shared<Op>();
  op->kind = OpKind::kKernel;
  op->route = Route::kCompute;
  op->kernel = function->kernel;
  for (size_t i = 0; i < op->kernel->parameter_bytes.size(); ++i) {
    if (parameters == nullptr || parameters[i] == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    const auto* bytes = static_cast<const char*>(parameters[i]);
    op->parameters.emplace_back(bytes, bytes + op->kernel->parameter_bytes[i]);
  }
  if (function->lazy && !function->launched &&
      target.stream->capture == nullptr) {
    Lock lock;
    PINRING_SIMCUDA_TRY(
        lock.Acquire(*this, *target.context, "cuLaunchKernel (first launch)"));
    PINRING_SIMCUDA_TRY(
        WaitForWork(*target.context, "cuLaunchKernel (first launch)", false));
    function = functions_.Find(handle);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    function->launched = true;
  }
  return Launch("cuLaunchKernel", target, op, true);
}

CUresult Model::LaunchHostFunc(CUstream stream, CUhostFn function,
                               void* user_data) {
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(stream, &target));
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto op = std::make_shared<Op>();
  op->kind = OpKind::kHostFunction;
  op->route = Route::kCompute;
  op->host_function = function;
  op->user_data = user_data;
  return Launch("cuLaunchHostFunc", target, op, false);
}

// A host function that is told its stream. (When the context is lost natively
// it is called with the error; here it is not called.)
CUresult Model::StreamAddCallback(CUstream stream, CUstreamCallback function,
                                  void* user_data, unsigned flags) {
  struct Callback {
    CUstreamCallback function;
    CUstream stream;
    void* user_data;
  };
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(stream, &target));
  if (function == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  PINRING_SIMCUDA_TRY(CheckNotCapturing(target));
  auto callback = std::make_shared<Callback>();
  *callback = {function, stream, user_data};
  auto op = std::make_shared<Op>();
  op->kind = OpKind::kHostFunction;
  op->route = Route::kCompute;
  op->host_function = [](void* data) {
    const auto* call = static_cast<const Callback*>(data);
    call->function(call->stream, CUDA_SUCCESS, call->user_data);
  };
  op->user_data = callback.get();
  op->owned_data = std::move(callback);
  return Launch("cuStreamAddCallback", target, op, false);
}

CUresult Model::MakeMemoryOperation(bool wait, CUdeviceptr address,
                                    uint32_t value, unsigned flags,
                                    MemoryOperation* op) {
  const unsigned known =
      wait ? 3u | CU_STREAM_WAIT_VALUE_FLUSH
           : unsigned{CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER};
  if ((flags & ~known) != 0 || address % sizeof(uint32_t) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  const auto* at = reinterpret_cast<const void*>(address);
  const Block* block = memory_.Find(at);
  if (block == nullptr || !block->Contains(at, sizeof(uint32_t)))
    return CUDA_ERROR_INVALID_VALUE;
  op->wait = wait;
  op->address = reinterpret_cast<uint32_t*>(address);
  op->value = value;
  op->flags = flags;
  return CUDA_SUCCESS;
}

// A batch is one operation whose parts run in order.
CUresult Model::SubmitMemoryOperations(
    const char* entry, CUstream stream,
    std::vector<MemoryOperation> operations) {
  Target target;
  PINRING_SIMCUDA_TRY(Resolve(stream, &target));
  if (operations.empty()) return CUDA_SUCCESS;
  auto op = std::make_shared<Op>();
  op->kind = OpKind::kMemoryOperations;
  op->route = Route::kCompute;
  op->memory_operations = std::move(operations);
  Lock lock;
  return Submit(entry, target, op, lock);
}

CUresult Model::StreamWriteValue32(CUstream stream, CUdeviceptr address,
                                   cuuint32_t value, unsigned flags) {
  std::vector<MemoryOperation> operations(1);
  PINRING_SIMCUDA_TRY(
      MakeMemoryOperation(false, address, value, flags, &operations[0]));
  return SubmitMemoryOperations("cuStreamWriteValue32", stream,
                                std::move(operations));
}

CUresult Model::StreamWaitValue32(CUstream stream, CUdeviceptr address,
                                  cuuint32_t value, unsigned flags) {
  std::vector<MemoryOperation> operations(1);
  PINRING_SIMCUDA_TRY(
      MakeMemoryOperation(true, address, value, flags, &operations[0]));
  return SubmitMemoryOperations("cuStreamWaitValue32", stream,
                                std::move(operations));
}

CUresult Model::StreamBatchMemOp(CUstream stream, unsigned count,
                                 CUstreamBatchMemOpParams* ops,
                                 unsigned flags) {
  if (flags != 0 || count == 0 || count > kMaxBatchOperations || ops == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  std::vector<MemoryOperation> operations;
  for (unsigned i = 0; i < count; ++i) {
    const CUstreamBatchMemOpParams& op = ops[i];
    switch (op.operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        PINRING_SIMCUDA_TRY(MakeMemoryOperation(
            true, op.waitValue.address, op.waitValue.value, op.waitValue.flags,
            &operations.emplace_back()));
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        PINRING_SIMCUDA_TRY(MakeMemoryOperation(
            false, op.writeValue.address, op.writeValue.value,
            op.writeValue.flags, &operations.emplace_back()));
        break;
      case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
      case CU_STREAM_MEM_OP_BARRIER:
        break;  // every step here is visible to all at once
      default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
  }
  return SubmitMemoryOperations("cuStreamBatchMemOp", stream,
                                std::move(operations));
}

}  // namespace pinring::simcuda
