// A tool that NVTX attaches to a process (NVTX_INJECTION64_PATH): counts the
// ranges of pinring's domain and prints them at exit, with the threads' names.

#include <nvtx3/nvToolsExt.h>

#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <set>
#include <string>

namespace {

struct Counts {
  uint64_t ranges = 0;
  uint64_t bytes = 0;
};

std::mutex mutex;
std::map<std::string, Counts> counts;
std::set<std::string> names;  // strings live as long as their set does
uint64_t pushes = 0;
uint64_t pops = 0;
const char domain_of_pinring = 0;

nvtxDomainHandle_t CreateDomain(const char* name) {
  return std::string(name) == "pinring"
             ? reinterpret_cast<nvtxDomainHandle_t>(
                   const_cast<char*>(&domain_of_pinring))
             : nullptr;
}

nvtxStringHandle_t RegisterString(nvtxDomainHandle_t, const char* string) {
  const std::lock_guard lock(mutex);
  const std::string& kept = *names.insert(string).first;
  return reinterpret_cast<nvtxStringHandle_t>(const_cast<std::string*>(&kept));
}

int Push(nvtxDomainHandle_t, const nvtxEventAttributes_t* attributes) {
  const std::lock_guard lock(mutex);
  Counts& count = counts[*reinterpret_cast<const std::string*>(
      attributes->message.registered)];
  ++count.ranges;
  count.bytes += attributes->payload.ullValue;
  return static_cast<int>(pushes++);
}

int Pop(nvtxDomainHandle_t) {
  const std::lock_guard lock(mutex);
  return static_cast<int>(pops++);
}

void NameThread(uint32_t, const char* name) {
  std::fprintf(stderr, "nvtx: a thread is called %s\n", name);
}

struct Printer {
  ~Printer() {
    const std::lock_guard lock(mutex);
    for (const auto& [name, count] : counts) {
      std::fprintf(stderr, "nvtx: %s: %s, %llu bytes\n", name.c_str(),
                   count.ranges > 0 ? "ranges" : "none",
                   static_cast<unsigned long long>(count.bytes));
    }
    std::fprintf(stderr, "nvtx: %s\n",
                 pushes == pops ? "every range has ended" : "A RANGE IS OPEN");
  }
} printer;

template <typename Function>
void Set(NvtxFunctionTable table, unsigned size, unsigned id,
         Function function) {
  if (id < size && table[id] != nullptr) {
    *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
  }
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_table) {
  const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(
      get_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr || callbacks->GetModuleFunctionTable(
                                  NVTX_CB_MODULE_CORE, &table, &size) == 0) {
    return 0;
  }
  Set(table, size, NVTX_CBID_CORE_NameOsThreadA, &NameThread);
  if (callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) ==
      0) {
    return 0;
  }
  Set(table, size, NVTX_CBID_CORE2_DomainCreateA, &CreateDomain);
  Set(table, size, NVTX_CBID_CORE2_DomainRegisterStringA, &RegisterString);
  Set(table, size, NVTX_CBID_CORE2_DomainRangePushEx, &Push);
  Set(table, size, NVTX_CBID_CORE2_DomainRangePop, &Pop);
  return 1;
}
