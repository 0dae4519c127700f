// The runtime's calls about devices, versions, and where the driver's entry
// points are.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <type_traits>

#include "src/simcuda/shared/runtime_state.h"

namespace pinring::simcudart {
namespace {

// What of cudaDeviceProp is an attribute of the device's.
template <typename Field>
struct Property {
  Field cudaDeviceProp::*field;
  CUdevice_attribute attribute;
};

constexpr Property<int> kIntProperties[] = {
    {&cudaDeviceProp::regsPerBlock,
     CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK},
    {&cudaDeviceProp::warpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE},
    {&cudaDeviceProp::maxThreadsPerBlock,
     CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
    {&cudaDeviceProp::major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
    {&cudaDeviceProp::minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
    {&cudaDeviceProp::multiProcessorCount,
     CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
    {&cudaDeviceProp::integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED},
    {&cudaDeviceProp::canMapHostMemory,
     CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY},
    {&cudaDeviceProp::concurrentKernels,
     CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS},
    {&cudaDeviceProp::ECCEnabled, CU_DEVICE_ATTRIBUTE_ECC_ENABLED},
    {&cudaDeviceProp::pciBusID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID},
    {&cudaDeviceProp::pciDeviceID, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID},
    {&cudaDeviceProp::pciDomainID, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID},
    {&cudaDeviceProp::tccDriver, CU_DEVICE_ATTRIBUTE_TCC_DRIVER},
    {&cudaDeviceProp::asyncEngineCount, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT},
    {&cudaDeviceProp::unifiedAddressing,
     CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING},
    {&cudaDeviceProp::memoryBusWidth,
     CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH},
    {&cudaDeviceProp::l2CacheSize, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
    {&cudaDeviceProp::maxThreadsPerMultiProcessor,
     CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR},
    {&cudaDeviceProp::streamPrioritiesSupported,
     CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED},
    {&cudaDeviceProp::managedMemory, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY},
    {&cudaDeviceProp::pageableMemoryAccess,
     CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS},
    {&cudaDeviceProp::concurrentManagedAccess,
     CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS},
    {&cudaDeviceProp::canUseHostPointerForRegisteredMem,
     CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM},
    {&cudaDeviceProp::pageableMemoryAccessUsesHostPageTables,
     CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES},
#if CUDART_VERSION >= 12000
    {&cudaDeviceProp::hostRegisterSupported,
     CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED},
    {&cudaDeviceProp::memoryPoolsSupported,
     CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED},
#endif
};

constexpr Property<size_t> kSizeProperties[] = {
    {&cudaDeviceProp::sharedMemPerBlock,
     CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK},
    {&cudaDeviceProp::memPitch, CU_DEVICE_ATTRIBUTE_MAX_PITCH},
    {&cudaDeviceProp::totalConstMem, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY},
    {&cudaDeviceProp::textureAlignment, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT},
};

CUresult GetProperties(const DriverTable& driver, cudaDeviceProp* properties,
                       int device) {
  *properties = {};
  const auto get = [&](CUdevice_attribute attribute, auto* field) {
    int value = 0;
    const CUresult code = driver.DeviceGetAttribute(&value, attribute, device);
    *field = static_cast<std::remove_pointer_t<decltype(field)>>(value);
    return code;
  };
  CUresult code = driver.DeviceGetName(
      properties->name, static_cast<int>(sizeof properties->name), device);
  if (code == CUDA_SUCCESS)
    code = driver.DeviceTotalMem(&properties->totalGlobalMem, device);
  if (code == CUDA_SUCCESS)
    code = driver.DeviceGetUuid(&properties->uuid, device);
  for (const auto& one : kIntProperties) {
    if (code == CUDA_SUCCESS)
      code = get(one.attribute, &(properties->*one.field));
  }
  for (const auto& one : kSizeProperties) {
    if (code == CUDA_SUCCESS)
      code = get(one.attribute, &(properties->*one.field));
  }
  for (int i = 0; i < 3 && code == CUDA_SUCCESS; ++i) {
    code = get(static_cast<CUdevice_attribute>(
                   CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i),
               &properties->maxThreadsDim[i]);
    if (code != CUDA_SUCCESS) break;
    code = get(
        static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i),
        &properties->maxGridSize[i]);
  }
  return code;
}

// What cudaDriverEntryPointQueryResult says, which older headers lack.
enum QueryResult { kFound = 0, kSymbolNotFound = 1, kVersionNotSufficient = 2 };

cudaError_t FindEntryPoint(const char* symbol, void** function, int version,
                           unsigned long long flags, QueryResult* status,
                           DefaultStream default_stream) {
  const LoadedDriver& driver = GetDriver();
  if (driver.get_proc_address == nullptr) return Keep(driver.status);
  if (symbol == nullptr || function == nullptr)
    return Keep(cudaErrorInvalidValue);
  if (flags == cudaEnableDefault) {
    flags = default_stream == DefaultStream::kPerThread
                ? cudaEnablePerThreadDefaultStream
                : cudaEnableLegacyStream;
  }
  *function = nullptr;
  const CUresult code =
      driver.get_proc_address(symbol, function, version, flags);
  if (code != CUDA_SUCCESS && code != CUDA_ERROR_NOT_FOUND)
    return Keep(Error(code));
  *status = kFound;
  if (*function == nullptr) {
    void* newest = nullptr;
    int newest_version = 0;
    const bool exists =
        driver.legacy.DriverGetVersion(&newest_version) == CUDA_SUCCESS &&
        driver.get_proc_address(symbol, &newest, newest_version, flags) ==
            CUDA_SUCCESS &&
        newest != nullptr;
    *status = exists ? kVersionNotSufficient : kSymbolNotFound;
  }
  return cudaSuccess;
}

}  // namespace

PINRING_EXPORT cudaError_t CUDARTAPI cudaGetDeviceCount(int* count) {
  if (count == nullptr) return Keep(cudaErrorInvalidValue);
  *count = 0;
  return WithDriver([&](const DriverTable& driver) {
    const CUresult code = driver.DeviceGetCount(count);
    return code == CUDA_SUCCESS && *count == 0 ? CUDA_ERROR_NO_DEVICE : code;
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaSetDevice(int device) {
  return WithDriver([&](const DriverTable& driver) {
    return SetThreadDevice(driver, device);
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaGetDevice(int* device) {
  return WithDriver(
      [&](const DriverTable& driver) { return ThreadDevice(driver, device); });
}

#if CUDART_VERSION >= 12000
PINRING_EXPORT cudaError_t CUDARTAPI cudaInitDevice(int device, unsigned,
                                                    unsigned) {
  return WithDriver([&](const DriverTable& driver) {
    CUcontext context = nullptr;
    return PrimaryContext(driver, device, &context);
  });
}
#endif

PINRING_EXPORT cudaError_t CUDARTAPI cudaDeviceSynchronize() {
  return InContext(
      [](const DriverTable& driver) { return driver.CtxSynchronize(); });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaDeviceReset() {
  return WithDriver(
      [](const DriverTable& driver) { return ResetThreadDevice(driver); });
}

// Headers before CUDA 13 rename this to its second form.
PINRING_EXPORT cudaError_t CUDARTAPI cudaGetDeviceProperties(cudaDeviceProp* to,
                                                             int device) {
  if (to == nullptr) return Keep(cudaErrorInvalidValue);
  return WithDriver([&](const DriverTable& driver) {
    return GetProperties(driver, to, device);
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI
cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  // The two APIs number them alike.
  return WithDriver([&](const DriverTable& driver) {
    return driver.DeviceGetAttribute(
        value, static_cast<CUdevice_attribute>(attribute), device);
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaDeviceGetPCIBusId(char* id, int bytes,
                                                           int device) {
  return WithDriver([&](const DriverTable& driver) {
    return driver.DeviceGetPCIBusId(id, bytes, device);
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaDeviceGetByPCIBusId(int* device,
                                                             const char* id) {
  return WithDriver([&](const DriverTable& driver) {
    return driver.DeviceGetByPCIBusId(device, id);
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaDeviceCanAccessPeer(int* can,
                                                             int device,
                                                             int peer) {
  return WithDriver([&](const DriverTable& driver) {
    return driver.DeviceCanAccessPeer(can, device, peer);
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI
cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return InContext([&](const DriverTable& driver) {
    return driver.CtxGetStreamPriorityRange(least, greatest);
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaSetDeviceFlags(unsigned flags) {
  return WithDriver([&](const DriverTable& driver) {
    int device = 0;
    const cudaError_t code = ThreadDevice(driver, &device);
    return code != cudaSuccess
               ? code
               : Error(driver.DevicePrimaryCtxSetFlags(device, flags));
  });
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaGetDeviceFlags(unsigned* flags) {
  return WithDriver([&](const DriverTable& driver) {
    int device = 0;
    int active = 0;
    const cudaError_t code = ThreadDevice(driver, &device);
    return code != cudaSuccess
               ? code
               : Error(driver.DevicePrimaryCtxGetState(device, flags, &active));
  });
}

// Works without a device. 0 where there is no driver (documented).
PINRING_EXPORT cudaError_t CUDARTAPI cudaDriverGetVersion(int* version) {
  if (version == nullptr) return Keep(cudaErrorInvalidValue);
  *version = 0;
  const auto& driver = GetDriver();
  if (driver.get_proc_address == nullptr) return cudaSuccess;
  return Keep(Error(driver.legacy.DriverGetVersion(version)));
}

PINRING_EXPORT cudaError_t CUDARTAPI cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return Keep(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

#if CUDART_VERSION >= 12000
#define PINRING_CUDART_ENTRY_POINT(name, default_stream)                      \
  PINRING_EXPORT cudaError_t CUDARTAPI name(                                  \
      const char* symbol, void** function, unsigned long long flags,          \
      cudaDriverEntryPointQueryResult* status) {                              \
    QueryResult found = kFound;                                               \
    const cudaError_t code = FindEntryPoint(symbol, function, CUDART_VERSION, \
                                            flags, &found, default_stream);   \
    if (status != nullptr)                                                    \
      *status = static_cast<cudaDriverEntryPointQueryResult>(found);          \
    return code;                                                              \
  }
#else
#define PINRING_CUDART_ENTRY_POINT(name, default_stream)                   \
  PINRING_EXPORT cudaError_t CUDARTAPI name(                               \
      const char* symbol, void** function, unsigned long long flags) {     \
    QueryResult found = kFound;                                            \
    return FindEntryPoint(symbol, function, CUDART_VERSION, flags, &found, \
                          default_stream);                                 \
  }
#endif
PINRING_CUDART_ENTRY_POINT(cudaGetDriverEntryPoint, DefaultStream::kLegacy)
PINRING_CUDART_ENTRY_POINT(cudaGetDriverEntryPoint_ptsz,
                           DefaultStream::kPerThread)

#if CUDART_VERSION >= 12050
#define PINRING_CUDART_ENTRY_POINT_BY_VERSION(name, default_stream)        \
  PINRING_EXPORT cudaError_t CUDARTAPI name(                               \
      const char* symbol, void** function, unsigned version,               \
      unsigned long long flags, cudaDriverEntryPointQueryResult* status) { \
    QueryResult found = kFound;                                            \
    const cudaError_t code =                                               \
        FindEntryPoint(symbol, function, static_cast<int>(version), flags, \
                       &found, default_stream);                            \
    if (status != nullptr)                                                 \
      *status = static_cast<cudaDriverEntryPointQueryResult>(found);       \
    return code;                                                           \
  }
PINRING_CUDART_ENTRY_POINT_BY_VERSION(cudaGetDriverEntryPointByVersion,
                                      DefaultStream::kLegacy)
PINRING_CUDART_ENTRY_POINT_BY_VERSION(cudaGetDriverEntryPointByVersion_ptsz,
                                      DefaultStream::kPerThread)
#endif

}  // namespace pinring::simcudart
