// Initialization, devices, contexts.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/simcuda/errors.h"
#include "src/simcuda/model.h"

namespace pinring::simcuda {
namespace {

constexpr unsigned kContextApiVersion = 3020;
constexpr unsigned kContextFlags =
    CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX;
constexpr int kGreatestPriority = -5;  // as on the device that was measured
// "0000:01:00.0" and its end.
constexpr int kPciBusIdBytes = 13;

// No two devices share a bus.
int PciBus(CUdevice device) { return device + 1; }

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

// Windows alone has them.
CUresult Model::DeviceGetLuid(char* luid, unsigned* node_mask,
                              CUdevice device) {
  if (luid == nullptr || node_mask == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (device < 0 || device >= options_.devices)
    return CUDA_ERROR_INVALID_DEVICE;
  return CUDA_ERROR_NOT_SUPPORTED;
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
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      *value = 1024;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      *value = 64;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
      *value = std::numeric_limits<int>::max();
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      *value = 65535;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      *value = 2048;
      break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      *value = PciBus(device);
      break;
    default:
      *value = 0;  // among others: no pageable memory access, no TCC driver
      break;
  }
  return CUDA_SUCCESS;
}

CUresult Model::DeviceGetPCIBusId(char* id, int bytes, CUdevice device) {
  if (id == nullptr || bytes < kPciBusIdBytes) return CUDA_ERROR_INVALID_VALUE;
  if (device < 0 || device >= options_.devices)
    return CUDA_ERROR_INVALID_DEVICE;
  const std::string text = absl::StrFormat("0000:%02x:00.0", PciBus(device));
  std::memcpy(id, text.c_str(), text.size() + 1);
  return CUDA_SUCCESS;
}

// The domain and the function may be left out, one of them at a time.
CUresult Model::DeviceGetByPCIBusId(CUdevice* device, const char* id) {
  if (device == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  unsigned domain = 0;
  unsigned bus = 0;
  unsigned slot = 0;
  unsigned function = 0;
  if (std::sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3 &&
      std::sscanf(id, "%x:%x.%x", &bus, &slot, &function) != 3) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (CUdevice candidate = 0; candidate < options_.devices; ++candidate) {
    if (domain != 0 || slot != 0 || function != 0 ||
        bus != static_cast<unsigned>(PciBus(candidate)))
      continue;
    *device = candidate;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult Model::DeviceGetUuid(CUuuid* uuid, CUdevice device) {
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (device < 0 || device >= options_.devices)
    return CUDA_ERROR_INVALID_DEVICE;
  static_assert(sizeof(uuid->bytes) == 16);
  std::memcpy(uuid->bytes, "pinring-simcuda", 15);
  uuid->bytes[15] = static_cast<char>(device);
  return CUDA_SUCCESS;
}

CUresult Model::DeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (device < 0 || device >= options_.devices || peer < 0 ||
      peer >= options_.devices) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *can = 0;  // copies between devices work all the same
  return CUDA_SUCCESS;
}

CUresult Model::DevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
  if (device < 0 || device >= options_.devices)
    return CUDA_ERROR_INVALID_DEVICE;
  if ((flags & ~kContextFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  contexts_[static_cast<size_t>(device)]->flags = flags;
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
  *flags = contexts_[static_cast<size_t>(device)]->flags;
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
  ThreadState& thread = Thread();
  if (thread.current.full()) return CUDA_ERROR_OUT_OF_MEMORY;
  thread.current.push_back(context);
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

CUresult Model::CtxGetFlags(unsigned* flags) {
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context;
  PINRING_SIMCUDA_TRY(Current(&context));
  *flags = context->flags;
  return CUDA_SUCCESS;
}

CUresult Model::CtxGetApiVersion(CUcontext handle, unsigned* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context;
  PINRING_SIMCUDA_TRY(handle == nullptr ? Current(&context)
                                        : CheckHandle(handle));
  *version = kContextApiVersion;
  return CUDA_SUCCESS;
}

CUresult Model::CtxGetStreamPriorityRange(int* least, int* greatest) {
  Context* context;
  PINRING_SIMCUDA_TRY(Current(&context));
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = kGreatestPriority;
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
