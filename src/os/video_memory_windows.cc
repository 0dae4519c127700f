#include <windows.h>

#include "src/os/video_memory.h"
// After windows.h.
#include <dxgi1_4.h>
#include <pdh.h>
#include <pdhmsg.h>

#include <cwchar>
#include <map>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/os/library.h"
#include "src/os/text_windows.h"

namespace pinring::os {
namespace {

// Releases a COM object when it goes.
template <typename T>
class Com {
 public:
  Com() = default;
  Com(const Com&) = delete;
  Com& operator=(const Com&) = delete;
  ~Com() {
    if (object_ != nullptr) object_->Release();
  }
  T** Out() { return &object_; }
  T* operator->() const { return object_; }
  T* get() const { return object_; }

 private:
  T* object_ = nullptr;
};

absl::Status Refused(absl::string_view call, HRESULT code) {
  return absl::UnavailableError(
      absl::StrCat(call, ": ", WindowsErrorText(static_cast<uint32_t>(code))));
}

uint64_t Number(const LUID& luid) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(luid.HighPart)) << 32) |
         luid.LowPart;
}

// The functions of pdh.dll that are used; opened at run time, since a program
// that never asks should not load it.
struct Pdh {
  decltype(&::PdhOpenQueryW) open_query = nullptr;
  decltype(&::PdhAddEnglishCounterW) add_counter = nullptr;
  decltype(&::PdhCollectQueryData) collect = nullptr;
  decltype(&::PdhGetFormattedCounterArrayW) get_array = nullptr;
  decltype(&::PdhCloseQuery) close_query = nullptr;

  static absl::StatusOr<Pdh> Open() {
    auto library = SharedLibrary::Open({"pdh.dll"});
    if (!library.ok()) return library.status();
    Pdh pdh;
    if (!Find(*library, "PdhOpenQueryW", pdh.open_query) ||
        !Find(*library, "PdhAddEnglishCounterW", pdh.add_counter) ||
        !Find(*library, "PdhCollectQueryData", pdh.collect) ||
        !Find(*library, "PdhGetFormattedCounterArrayW", pdh.get_array) ||
        !Find(*library, "PdhCloseQuery", pdh.close_query)) {
      return absl::NotFoundError("pdh.dll lacks a function");
    }
    return pdh;
  }

 private:
  template <typename Function>
  static bool Find(const SharedLibrary& library, const char* name,
                   Function& function) {
    function = reinterpret_cast<Function>(library.FindOrNull(name));
    return function != nullptr;
  }
};

// The counter's value for each adapter, by LUID. Its instances are named
// "luid_0x00000000_0x0000B5C9_phys_0".
std::map<uint64_t, uint64_t> ReadCounter(const Pdh& pdh, const wchar_t* path) {
  std::map<uint64_t, uint64_t> values;
  PDH_HQUERY query = nullptr;
  if (pdh.open_query(nullptr, 0, &query) != ERROR_SUCCESS) return values;
  PDH_HCOUNTER counter = nullptr;
  DWORD bytes = 0;
  DWORD count = 0;
  if (pdh.add_counter(query, path, 0, &counter) == ERROR_SUCCESS &&
      pdh.collect(query) == ERROR_SUCCESS &&
      pdh.get_array(counter, PDH_FMT_LARGE, &bytes, &count, nullptr) ==
          static_cast<PDH_STATUS>(PDH_MORE_DATA)) {
    std::vector<PDH_FMT_COUNTERVALUE_ITEM_W> items(
        bytes / sizeof(PDH_FMT_COUNTERVALUE_ITEM_W) + 1);
    if (pdh.get_array(counter, PDH_FMT_LARGE, &bytes, &count, items.data()) ==
        ERROR_SUCCESS) {
      for (DWORD i = 0; i < count; ++i) {
        unsigned high = 0;
        unsigned low = 0;
        if (std::swscanf(items[i].szName, L"luid_0x%x_0x%x", &high, &low) ==
            2) {
          values[(static_cast<uint64_t>(high) << 32) | low] +=
              static_cast<uint64_t>(items[i].FmtValue.largeValue);
        }
      }
    }
  }
  (void)pdh.close_query(query);
  return values;
}

void FillSegments(IDXGIAdapter1* adapter, VideoAdapter& found) {
  Com<IDXGIAdapter3> newer;
  if (FAILED(adapter->QueryInterface(__uuidof(IDXGIAdapter3),
                                     reinterpret_cast<void**>(newer.Out())))) {
    return;  // Before Windows 10.
  }
  DXGI_QUERY_VIDEO_MEMORY_INFO info{};
  if (SUCCEEDED(newer->QueryVideoMemoryInfo(0, DXGI_MEMORY_SEGMENT_GROUP_LOCAL,
                                            &info))) {
    found.local_used = info.CurrentUsage;
    found.local_budget = info.Budget;
  }
  if (SUCCEEDED(newer->QueryVideoMemoryInfo(
          0, DXGI_MEMORY_SEGMENT_GROUP_NON_LOCAL, &info))) {
    found.non_local_used = info.CurrentUsage;
    found.non_local_budget = info.Budget;
  }
}

}  // namespace

absl::StatusOr<std::vector<VideoAdapter>> VideoAdapters() {
  const auto library = SharedLibrary::Open({"dxgi.dll"});
  if (!library.ok()) return library.status();
  const auto create = reinterpret_cast<decltype(&::CreateDXGIFactory1)>(
      library->FindOrNull("CreateDXGIFactory1"));
  if (create == nullptr) {
    return absl::NotFoundError("dxgi.dll has no CreateDXGIFactory1");
  }
  Com<IDXGIFactory1> factory;
  if (const HRESULT code = create(__uuidof(IDXGIFactory1),
                                  reinterpret_cast<void**>(factory.Out()));
      FAILED(code)) {
    return Refused("CreateDXGIFactory1", code);
  }
  std::map<uint64_t, uint64_t> dedicated;
  std::map<uint64_t, uint64_t> shared;
  if (const auto pdh = Pdh::Open(); pdh.ok()) {
    dedicated = ReadCounter(*pdh, L"\\GPU Adapter Memory(*)\\Dedicated Usage");
    shared = ReadCounter(*pdh, L"\\GPU Adapter Memory(*)\\Shared Usage");
  }
  std::vector<VideoAdapter> adapters;
  for (UINT i = 0;; ++i) {
    Com<IDXGIAdapter1> adapter;
    const HRESULT code = factory->EnumAdapters1(i, adapter.Out());
    if (code == DXGI_ERROR_NOT_FOUND) return adapters;
    if (FAILED(code)) return Refused("EnumAdapters1", code);
    DXGI_ADAPTER_DESC1 description{};
    if (const HRESULT described = adapter->GetDesc1(&description);
        FAILED(described)) {
      return Refused("GetDesc1", described);
    }
    VideoAdapter found;
    found.name = Narrow(description.Description);
    found.luid = Number(description.AdapterLuid);
    found.dedicated_bytes = description.DedicatedVideoMemory;
    if (const auto used = dedicated.find(found.luid); used != dedicated.end()) {
      found.dedicated_used = used->second;
    }
    if (const auto used = shared.find(found.luid); used != shared.end()) {
      found.shared_used = used->second;
    }
    FillSegments(adapter.get(), found);
    adapters.push_back(std::move(found));
  }
}

}  // namespace pinring::os
