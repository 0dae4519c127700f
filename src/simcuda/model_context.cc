// Initialization, devices, contexts.

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "src/simcuda/errors.h"
#include "src/simcuda/model.h"

namespace pinring::simcuda {
namespace {

constexpr int kDriverVersion = 13000;

CUcontext Handle(Context* context) {
  return reinterpret_cast<CUcontext>(context);
}

}  // namespace

CUresult Model::Init(unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  initialized_ = true;
  return contexts_.empty() ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

CUresult Model::DriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = kDriverVersion;
  return CUDA_SUCCESS;
}

CUresult Model::GetErrorName(CUresult code, const char** name) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = ErrorName(code);
  return *name == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult Model::GetErrorString(CUresult code, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *text = ErrorText(code);
  return *text == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult Model::DeviceGet(CUdevice* device, int ordinal) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (ordinal < 0 || ordinal >= options_.devices)
    return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult Model::DeviceGetCount(int* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = options_.devices;
  return CUDA_SUCCESS;
}

CUresult Model::DeviceGetName(char* name, int bytes, CUdevice device) {
  if (name == nullptr || bytes < 1) return CUDA_ERROR_INVALID_VALUE;
  if (device < 0 || device >= options_.devices)
    return CUDA_ERROR_INVALID_DEVICE;
  const std::string text = "Simulated CUDA device";
  const size_t length = std::min(text.size(), static_cast<size_t>(bytes) - 1);
  std::memcpy(name, text.data(), length);
  name[length] = '\0';
  return CUDA_SUCCESS;
}

CUresult Model::DeviceTotalMem(size_t* bytes, CUdevice device) {
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (device < 0 || device >= options_.devices)
    return CUDA_ERROR_INVALID_DEVICE;
  *bytes = options_.device_bytes;
  return CUDA_SUCCESS;
}

CUresult Model::DeviceGetAttribute(int* value, CUdevice_attribute attribute,
                                   CUdevice device) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (device < 0 || device >= options_.devices)
    return CUDA_ERROR_INVALID_DEVICE;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = 9;
      break;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
      *value = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
      *value = 3;
      break;
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
      *value = options_.host_register_supported;
      break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      *value = 32;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      break;
    default:
      *value = 0;  // among others: no pageable memory access, no TCC driver
      break;
  }
  return CUDA_SUCCESS;
}

CUresult Model::DevicePrimaryCtxRetain(CUcontext* handle, CUdevice device) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (device < 0 || device >= options_.devices)
    return CUDA_ERROR_INVALID_DEVICE;
  Context& context = *contexts_[static_cast<size_t>(device)];
  if (context.active && context.error != CUDA_SUCCESS) return context.error;
  if (!context.active) {
    context.active = true;
    context.id = next_context_id_++;
    context.legacy =
        NewStream(context, StreamType::kLegacy, CU_STREAM_DEFAULT, 0);
  }
  ++context.retained;
  *handle = Handle(&context);
  return CUDA_SUCCESS;
}

CUresult Model::DevicePrimaryCtxRelease(CUdevice device) {
  if (device < 0 || device >= options_.devices)
    return CUDA_ERROR_INVALID_DEVICE;
  Context& context = *contexts_[static_cast<size_t>(device)];
  if (context.retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--context.retained == 0 && context.active) ResetContext(context);
  return CUDA_SUCCESS;
}

CUresult Model::DevicePrimaryCtxReset(CUdevice device) {
  if (device < 0 || device >= options_.devices)
    return CUDA_ERROR_INVALID_DEVICE;
  Context& context = *contexts_[static_cast<size_t>(device)];
  if (context.active) ResetContext(context);
  return CUDA_SUCCESS;
}

CUresult Model::DevicePrimaryCtxGetState(CUdevice device, unsigned* flags,
                                         int* active) {
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (device < 0 || device >= options_.devices)
    return CUDA_ERROR_INVALID_DEVICE;
  *flags = 0;
  *active = contexts_[static_cast<size_t>(device)]->active;
  return CUDA_SUCCESS;
}

CUresult Model::CtxGetCurrent(CUcontext* handle) {
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const ThreadState& thread = Thread();
  *handle = thread.current.empty() ? nullptr : Handle(thread.current.back());
  return CUDA_SUCCESS;
}

CUresult Model::CtxSetCurrent(CUcontext handle) {
  auto* context = reinterpret_cast<Context*>(handle);
  if (context != nullptr && !context->active)
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  ThreadState& thread = Thread();
  if (!thread.current.empty()) thread.current.pop_back();
  if (context != nullptr) thread.current.push_back(context);
  return CUDA_SUCCESS;
}

CUresult Model::CtxPushCurrent(CUcontext handle) {
  auto* context = reinterpret_cast<Context*>(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (!context->active) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  Thread().current.push_back(context);
  return CUDA_SUCCESS;
}

CUresult Model::CtxPopCurrent(CUcontext* handle) {
  ThreadState& thread = Thread();
  if (thread.current.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (handle != nullptr) *handle = Handle(thread.current.back());
  thread.current.pop_back();
  return CUDA_SUCCESS;
}

CUresult Model::CtxGetDevice(CUdevice* device) {
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context;
  PINRING_SIMCUDA_TRY(Current(&context));
  *device = context->ordinal;
  return CUDA_SUCCESS;
}

CUresult Model::CtxSynchronize() {
  Context* context;
  PINRING_SIMCUDA_TRY(Current(&context));
  for (const auto& capture : captures_) {
    if (capture->origin->device != context->ordinal) continue;
    capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  const uint64_t until = context->device.latest_number();
  return WaitFor(*context, "cuCtxSynchronize",
                 "waits for all work enqueued so far",
                 [&] { return !context->device.HasOutstanding(until); });
}

CUresult Model::CtxGetId(CUcontext handle, unsigned long long* id) {
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto* context = reinterpret_cast<Context*>(handle);
  if (context == nullptr) PINRING_SIMCUDA_TRY(Current(&context));
  if (!context->active) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *id = context->id;
  return CUDA_SUCCESS;
}

}  // namespace pinring::simcuda
