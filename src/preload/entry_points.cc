#include "src/preload/entry_points.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "src/preload/module_symbols.h"

namespace pinring::preload {
namespace {

constexpr char kDriverLibrary[] = "libcuda.so.1";
constexpr char kDriverLibraryPrefix[] = "libcuda.so";

// Everything below is zero at load, and written by whoever makes a driver
// known: where several threads do, all write the same.

std::atomic<void*> real_functions[kRows];
#define PINRING_PRELOAD_EXTRA_INDEX(field, symbol, parameters) kExtra##field,
enum ExtraIndex { PINRING_PRELOAD_EXTRA(PINRING_PRELOAD_EXTRA_INDEX) kExtras };
#undef PINRING_PRELOAD_EXTRA_INDEX
std::atomic<void*> extra_functions[kExtras];
std::atomic<bool> known{false};

// Where the driver's code is.
std::atomic<uintptr_t> code_begin{0};
std::atomic<uintptr_t> code_end{0};

// Function of the driver -> row, by open addressing. A key is never taken back:
// the address of a library that was unloaded is not asked for.
struct Place {
  std::atomic<void*> function{nullptr};
  std::atomic<int> row_plus_one{0};
};
constexpr size_t kPlaces = 2048;
static_assert(kPlaces >= 8 * kRows);
Place places[kPlaces];

size_t FirstPlace(const void* function) {
  const auto bits = reinterpret_cast<uintptr_t>(function) >> 4;
  return static_cast<size_t>(bits * 0x9e3779b97f4a7c15) >> 53;
}
static_assert(kPlaces == size_t{1} << (64 - 53));

void Remember(void* function, int row) {
  if (function == nullptr) return;
  size_t at = FirstPlace(function);
  for (size_t tries = 0; tries < kPlaces; ++tries, at = (at + 1) % kPlaces) {
    void* there = nullptr;
    if (places[at].function.compare_exchange_strong(
            there, function, std::memory_order_acq_rel) ||
        there == function) {
      // The first row of a function that has two symbols counts.
      int none = 0;
      places[at].row_plus_one.compare_exchange_strong(
          none, row + 1, std::memory_order_release);
      return;
    }
  }
}

// -1 for a function that is not known.
int RowOf(const void* function) {
  size_t at = FirstPlace(function);
  for (size_t tries = 0; tries < kPlaces; ++tries, at = (at + 1) % kPlaces) {
    const void* const there =
        places[at].function.load(std::memory_order_acquire);
    if (there == nullptr) return -1;
    if (there == function) {
      return places[at].row_plus_one.load(std::memory_order_acquire) - 1;
    }
  }
  return -1;
}

struct CodeSearch {
  ElfW(Addr) base;
  const char* name;
  uintptr_t begin = UINTPTR_MAX;
  uintptr_t end = 0;
};

int FindCode(dl_phdr_info* info, size_t, void* data) {
  auto* const search = static_cast<CodeSearch*>(data);
  if (info->dlpi_addr != search->base ||
      std::strcmp(info->dlpi_name, search->name) != 0) {
    return 0;
  }
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    const uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    if (begin < search->begin) search->begin = begin;
    if (begin + part.p_memsz > search->end) search->end = begin + part.p_memsz;
  }
  return 1;
}

// Makes the driver known that this library is. False if it is none.
bool Know(const link_map& library) {
  const ModuleSymbols symbols(library);
  if (symbols.Find("cuInit") == nullptr ||
      symbols.Find("cuDriverGetVersion") == nullptr) {
    return false;
  }
  CodeSearch search{.base = library.l_addr, .name = library.l_name};
  (void)dl_iterate_phdr(&FindCode, &search);
  if (search.end != 0) {
    code_begin.store(search.begin, std::memory_order_relaxed);
    code_end.store(search.end, std::memory_order_relaxed);
  }
#define PINRING_PRELOAD_EXTRA_FIND(field, symbol, parameters) \
  extra_functions[kExtra##field].store(symbols.Find(symbol),  \
                                       std::memory_order_relaxed);
  PINRING_PRELOAD_EXTRA(PINRING_PRELOAD_EXTRA_FIND)
#undef PINRING_PRELOAD_EXTRA_FIND
  for (int row = 0; row < kRows; ++row) {
    void* const function = symbols.Find(kRowTable[row].symbol);
    real_functions[row].store(function, std::memory_order_relaxed);
    Remember(function, row);
  }
  known.store(true, std::memory_order_release);
  return true;
}

// Makes the driver known that `function` is part of.
bool KnowOwnerOf(void* function) {
  const link_map* const library = ModuleOf(function);
  return library != nullptr && Know(*library);
}

// Makes the driver known that is loaded, if one is.
bool FindLoaded() {
  if (known.load(std::memory_order_acquire)) return true;
  // Neither loads it nor keeps it.
  void* const handle = dlopen(kDriverLibrary, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) {
    (void)dlerror();
    return false;
  }
  link_map* library = nullptr;
  const bool found = dlinfo(handle, RTLD_DI_LINKMAP, &library) == 0 &&
                     library != nullptr && Know(*library);
  (void)dlclose(handle);
  return found;
}

int RowOfSymbol(const char* symbol) {
  for (int row = 0; row < kRows; ++row) {
    if (std::strcmp(kRowTable[row].symbol, symbol) == 0) return row;
  }
  return -1;
}

// The form that a request for `version` gets; -1 for none.
int RowOfName(const char* name, int version, bool per_thread) {
  int best = -1;
  for (int row = 0; row < kRows; ++row) {
    const RowInfo& info = kRowTable[row];
    if (info.version > version || info.per_thread != per_thread ||
        std::strcmp(info.name, name) != 0) {
      continue;
    }
    if (best < 0 || info.version > kRowTable[best].version) best = row;
  }
  return best;
}

// Whether the function has no forms that differ in the default stream.
bool HasOneForm(const char* name) {
  for (int row = 0; row < kRows; ++row) {
    if (kRowTable[row].per_thread &&
        std::strcmp(kRowTable[row].name, name) == 0) {
      return false;
    }
  }
  return true;
}

// Whether the driver gives the function for the newest version that the table
// knows, too.
bool IsFormOf(const char* name, bool per_thread, const void* function) {
  using GetProcAddress =
      CUresult(CUDAAPI*)(const char*, void**, int, cuuint64_t);
  const auto get = reinterpret_cast<GetProcAddress>(
      real_functions[kRow_cuGetProcAddress].load(std::memory_order_relaxed));
  void* found = nullptr;
  const cuuint64_t flags = per_thread
                               ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                               : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
  return get != nullptr &&
         get(name, &found, CUDA_VERSION, flags) == CUDA_SUCCESS &&
         found == function;
}

int FindBase(dl_phdr_info* info, size_t, void*) {
  const char* const slash = std::strrchr(info->dlpi_name, '/');
  const char* const name = slash == nullptr ? info->dlpi_name : slash + 1;
  return std::strncmp(name, kDriverLibraryPrefix,
                      sizeof(kDriverLibraryPrefix) - 1) == 0;
}

}  // namespace

void* EntryPoints::Real(int row) {
  void* const function = real_functions[row].load(std::memory_order_relaxed);
  if (function != nullptr || !FindLoaded()) return function;
  return real_functions[row].load(std::memory_order_relaxed);
}

Extra EntryPoints::Extras() {
  Extra extra;
  if (!FindLoaded()) return extra;
#define PINRING_PRELOAD_EXTRA_GET(field, symbol, parameters) \
  extra.field = reinterpret_cast<decltype(extra.field)>(     \
      extra_functions[kExtra##field].load(std::memory_order_relaxed));
  PINRING_PRELOAD_EXTRA(PINRING_PRELOAD_EXTRA_GET)
#undef PINRING_PRELOAD_EXTRA_GET
  return extra;
}

void* EntryPoints::RealGetProcAddress() { return Real(kRow_cuGetProcAddress); }

void* EntryPoints::ForSymbol(const char* symbol, void* function) {
  int row = RowOf(function);
  if (row >= 0) return kWrappers[row];
  row = RowOfSymbol(symbol);
  if (row < 0 || !KnowOwnerOf(function)) return function;
  const int by_address = RowOf(function);
  return by_address >= 0 ? kWrappers[by_address] : function;
}

void* EntryPoints::ForName(const char* name, int version, bool per_thread,
                           void* function) {
  int row = RowOf(function);
  if (row >= 0) return kWrappers[row];
  row = RowOfName(name, version, per_thread && !HasOneForm(name));
  if (row < 0 || !KnowOwnerOf(function)) return function;
  if (const int by_address = RowOf(function); by_address >= 0) {
    return kWrappers[by_address];
  }
  // Either a form that is newer than the table, with who knows what parameters,
  // or another way into a function than the one that is exported.
  if (version > CUDA_VERSION && !IsFormOf(name, per_thread, function)) {
    return function;
  }
  Remember(function, row);
  void* none = nullptr;
  real_functions[row].compare_exchange_strong(none, function,
                                              std::memory_order_relaxed);
  return kWrappers[row];
}

bool EntryPoints::DriverIsLoaded() {
  return known.load(std::memory_order_acquire) ||
         dl_iterate_phdr(&FindBase, nullptr) != 0;
}

bool EntryPoints::IsDriverCode(const void* address) {
  const auto at = reinterpret_cast<uintptr_t>(address);
  return at >= code_begin.load(std::memory_order_relaxed) &&
         at < code_end.load(std::memory_order_relaxed);
}

bool EntryPoints::Stands(const char* symbol) {
  const int row = RowOfSymbol(symbol);
  if (row < 0) return true;
  if (!known.load(std::memory_order_acquire)) {
    return dl_iterate_phdr(&FindBase, nullptr) != 0;
  }
  return real_functions[row].load(std::memory_order_relaxed) != nullptr;
}

}  // namespace pinring::preload
