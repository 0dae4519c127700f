#include "src/driver/nvml.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/os/library.h"

namespace pinring {
namespace {

constexpr int kSuccess = 0;
constexpr int kInsufficientSize = 7;
constexpr int kFunctionNotFound = 13;
constexpr unsigned long long kValueNotAvailable = ~0ull;

// As nvml.h lays them out.
struct MemoryV1 {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;  // what is reserved is part of it
};
struct MemoryV2 {
  unsigned version;
  unsigned long long total;
  unsigned long long reserved;
  unsigned long long free;
  unsigned long long used;
};
struct ProcessInfo {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};

// A struct's version says its size and a number.
template <typename T>
constexpr unsigned VersionOf(unsigned number) {
  return static_cast<unsigned>(sizeof(T)) | (number << 24);
}

}  // namespace

// X(field, "symbol", required, (parameters)).
#define PINRING_NVML_FUNCTIONS(X)                                         \
  X(Init, "nvmlInit_v2", true, ())                                        \
  X(ErrorString, "nvmlErrorString", true, (int code))                     \
  X(DeviceByBusId, "nvmlDeviceGetHandleByPciBusId_v2", true,              \
    (const char* bus_id, nvmlDevice_st** device))                         \
  X(MemoryInfo, "nvmlDeviceGetMemoryInfo", true,                          \
    (nvmlDevice_st * device, MemoryV1 * memory))                          \
  X(MemoryInfoV2, "nvmlDeviceGetMemoryInfo_v2", false,                    \
    (nvmlDevice_st * device, MemoryV2 * memory))                          \
  X(ComputeProcesses, "nvmlDeviceGetComputeRunningProcesses_v3", false,   \
    (nvmlDevice_st * device, unsigned* count, ProcessInfo* processes))    \
  X(GraphicsProcesses, "nvmlDeviceGetGraphicsRunningProcesses_v3", false, \
    (nvmlDevice_st * device, unsigned* count, ProcessInfo* processes))    \
  X(DriverModelV2, "nvmlDeviceGetDriverModel_v2", false,                  \
    (nvmlDevice_st * device, int* current, int* pending))                 \
  X(DriverModel, "nvmlDeviceGetDriverModel", false,                       \
    (nvmlDevice_st * device, int* current, int* pending))                 \
  X(LinkGeneration, "nvmlDeviceGetCurrPcieLinkGeneration", false,         \
    (nvmlDevice_st * device, unsigned* value))                            \
  X(MaxLinkGeneration, "nvmlDeviceGetMaxPcieLinkGeneration", false,       \
    (nvmlDevice_st * device, unsigned* value))                            \
  X(LinkWidth, "nvmlDeviceGetCurrPcieLinkWidth", false,                   \
    (nvmlDevice_st * device, unsigned* value))                            \
  X(MaxLinkWidth, "nvmlDeviceGetMaxPcieLinkWidth", false,                 \
    (nvmlDevice_st * device, unsigned* value))                            \
  X(SystemDriverVersion, "nvmlSystemGetDriverVersion", false,             \
    (char* version, unsigned bytes))

// All answer an int but nvmlErrorString.
template <typename Signature>
struct NvmlResult {
  using Type = int;
};
template <>
struct NvmlResult<void(int)> {
  using Type = const char*;
};

struct Nvml::Functions {
#define PINRING_NVML_FIELD(field, symbol, required, parameters) \
  NvmlResult<void parameters>::Type(*field) parameters = nullptr;
  PINRING_NVML_FUNCTIONS(PINRING_NVML_FIELD)
#undef PINRING_NVML_FIELD
};

absl::StatusOr<Nvml> Nvml::Open() {
#ifdef _WIN32
  auto library = os::SharedLibrary::Open({"nvml.dll"});
#else
  auto library = os::SharedLibrary::Open({"libnvidia-ml.so.1"});
#endif
  if (!library.ok()) {
    return absl::NotFoundError(
        absl::StrCat("no NVML: ", library.status().message()));
  }
  auto* functions = new Functions;
  const char* missing = nullptr;
#define PINRING_NVML_FILL(field, symbol, required, parameters)     \
  functions->field = reinterpret_cast<decltype(functions->field)>( \
      library->FindOrNull(symbol));                                \
  if (required && functions->field == nullptr) missing = symbol;
  PINRING_NVML_FUNCTIONS(PINRING_NVML_FILL)
#undef PINRING_NVML_FILL
  if (missing != nullptr) {
    delete functions;
    return absl::NotFoundError(absl::StrCat("NVML has no ", missing));
  }
  const Nvml nvml(functions);
  // Never shut down: the process's other users of NVML are counted with it.
  if (auto status = nvml.Check(functions->Init(), "nvmlInit"); !status.ok()) {
    delete functions;
    return status;
  }
  return nvml;
}

absl::Status Nvml::Check(int code, const char* call) const {
  if (code == kSuccess) return absl::OkStatus();
  const char* const text = functions_->ErrorString(code);
  return absl::UnavailableError(absl::StrCat(
      call, ": ", text == nullptr ? absl::StrCat("error ", code) : text));
}

absl::StatusOr<Nvml::Device> Nvml::Find(const std::string& bus_id) const {
  Device device = nullptr;
  auto status = Check(functions_->DeviceByBusId(bus_id.c_str(), &device),
                      "nvmlDeviceGetHandleByPciBusId");
  if (!status.ok()) return status;
  return device;
}

absl::StatusOr<Nvml::Memory> Nvml::MemoryOf(const std::string& bus_id) const {
  const auto device = Find(bus_id);
  if (!device.ok()) return device.status();
  if (functions_->MemoryInfoV2 != nullptr) {
    MemoryV2 memory{};
    memory.version = VersionOf<MemoryV2>(2);
    const int code = functions_->MemoryInfoV2(*device, &memory);
    if (code == kSuccess) {
      return Memory{memory.total, memory.used, memory.reserved};
    }
  }
  MemoryV1 memory{};
  if (auto status = Check(functions_->MemoryInfo(*device, &memory),
                          "nvmlDeviceGetMemoryInfo");
      !status.ok()) {
    return status;
  }
  return Memory{memory.total, memory.used, 0};
}

absl::StatusOr<std::vector<Nvml::Process>> Nvml::ProcessesOn(
    const std::string& bus_id) const {
  const auto device = Find(bus_id);
  if (!device.ok()) return device.status();
  if (functions_->ComputeProcesses == nullptr) {
    return absl::UnimplementedError(
        "NVML has no nvmlDeviceGetComputeRunningProcesses_v3");
  }
  std::vector<Process> processes;
  for (auto* list :
       {functions_->ComputeProcesses, functions_->GraphicsProcesses}) {
    if (list == nullptr) continue;
    std::vector<ProcessInfo> infos(64);
    unsigned count = 0;
    int code = kInsufficientSize;
    // Others may come between two calls.
    for (int attempt = 0; attempt < 4 && code == kInsufficientSize; ++attempt) {
      infos.resize(std::max<size_t>(infos.size(), size_t{2} * count));
      count = static_cast<unsigned>(infos.size());
      code = list(*device, &count, infos.data());
    }
    if (auto status = Check(code, "nvmlDeviceGet...RunningProcesses");
        !status.ok()) {
      if (processes.empty()) return status;
      continue;  // what the first list said stands
    }
    for (unsigned i = 0; i < count; ++i) {
      const bool seen = std::any_of(
          processes.begin(), processes.end(),
          [&](const Process& known) { return known.pid == infos[i].pid; });
      if (seen) continue;
      processes.push_back({infos[i].pid, absl::UnavailableError(
                                             "the driver does not say how much "
                                             "the process uses")});
      if (infos[i].used_bytes != kValueNotAvailable) {
        processes.back().used_bytes = uint64_t{infos[i].used_bytes};
      }
    }
  }
  return processes;
}

absl::StatusOr<Nvml::DriverModel> Nvml::DriverModelOf(
    const std::string& bus_id) const {
  const auto device = Find(bus_id);
  if (!device.ok()) return device.status();
  int current = 0;
  int pending = 0;
  // The first form knows nothing of MCDM.
  const auto ask = functions_->DriverModelV2 != nullptr
                       ? functions_->DriverModelV2
                       : functions_->DriverModel;
  const int code =
      ask == nullptr ? kFunctionNotFound : ask(*device, &current, &pending);
  if (auto status = Check(code, "nvmlDeviceGetDriverModel"); !status.ok()) {
    return status;
  }
  switch (current) {
    case 0:
      return DriverModel::kWddm;
    case 1:
      return DriverModel::kTcc;
    case 2:
      return DriverModel::kMcdm;
    default:
      return absl::UnknownError(
          absl::StrCat("NVML names the driver model ", current));
  }
}

absl::StatusOr<Nvml::Link> Nvml::LinkOf(const std::string& bus_id) const {
  const auto device = Find(bus_id);
  if (!device.ok()) return device.status();
  Link link;
  const struct {
    int (*ask)(nvmlDevice_st*, unsigned*);
    unsigned* value;
  } questions[] = {
      {functions_->LinkGeneration, &link.generation},
      {functions_->MaxLinkGeneration, &link.generation_at_most},
      {functions_->LinkWidth, &link.width},
      {functions_->MaxLinkWidth, &link.width_at_most},
  };
  for (const auto& question : questions) {
    const int code = question.ask == nullptr
                         ? kFunctionNotFound
                         : question.ask(*device, question.value);
    if (auto status = Check(code, "nvmlDeviceGet...PcieLink..."); !status.ok())
      return status;
  }
  return link;
}

absl::StatusOr<std::string> Nvml::DriverVersion() const {
  char version[96] = {};
  const int code =
      functions_->SystemDriverVersion == nullptr
          ? kFunctionNotFound
          : functions_->SystemDriverVersion(version, sizeof(version));
  if (auto status = Check(code, "nvmlSystemGetDriverVersion"); !status.ok()) {
    return status;
  }
  return std::string(version);
}

}  // namespace pinring
