#include "src/preload/module_symbols.h"

#include <dlfcn.h>

#include <cstring>

namespace pinring::preload {
namespace {

uint32_t GnuHash(const char* name) {
  uint32_t hash = 5381;
  for (; *name != '\0'; ++name) {
    hash = hash * 33 + static_cast<unsigned char>(*name);
  }
  return hash;
}

uint32_t SystemVHash(const char* name) {
  uint32_t hash = 0;
  for (; *name != '\0'; ++name) {
    hash = (hash << 4) + static_cast<unsigned char>(*name);
    const uint32_t high = hash & 0xf0000000;
    hash = (hash ^ (high >> 24)) & ~high;
  }
  return hash;
}

}  // namespace

const link_map* ModuleOf(const void* address) {
#if __GLIBC_PREREQ(2, 35)
  // Takes no lock: another thread may hold the loader's, and wait for this one.
  dl_find_object found;
  return _dl_find_object(const_cast<void*>(address), &found) == 0
             ? found.dlfo_link_map
             : nullptr;
#else
  Dl_info info;
  link_map* module = nullptr;
  return dladdr1(address, &info, reinterpret_cast<void**>(&module),
                 RTLD_DL_LINKMAP) != 0
             ? module
             : nullptr;
#endif
}

ModuleSymbols::ModuleSymbols(const link_map& module) : base_(module.l_addr) {
  if (module.l_ld == nullptr) return;
  // The loader has made addresses of most offsets, but not of all everywhere.
  const auto at = [this](ElfW(Addr) value) {
    return value < base_ ? value + base_ : value;
  };
  for (const ElfW(Dyn)* entry = module.l_ld; entry->d_tag != DT_NULL; ++entry) {
    switch (entry->d_tag) {
      case DT_SYMTAB:
        symbols_ = reinterpret_cast<const ElfW(Sym)*>(at(entry->d_un.d_ptr));
        break;
      case DT_STRTAB:
        strings_ = reinterpret_cast<const char*>(at(entry->d_un.d_ptr));
        break;
      case DT_GNU_HASH:
        gnu_hash_ = reinterpret_cast<const uint32_t*>(at(entry->d_un.d_ptr));
        break;
      case DT_HASH:
        hash_ = reinterpret_cast<const uint32_t*>(at(entry->d_un.d_ptr));
        break;
      default:
        break;
    }
  }
}

bool ModuleSymbols::Is(const ElfW(Sym) & symbol, const char* name) const {
  return symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0 &&
         ELF64_ST_TYPE(symbol.st_info) == STT_FUNC &&
         std::strcmp(strings_ + symbol.st_name, name) == 0;
}

void* ModuleSymbols::Find(const char* name) const {
  if (symbols_ == nullptr || strings_ == nullptr) return nullptr;
  const ElfW(Sym)* symbol = gnu_hash_ != nullptr ? FindInGnuHash(name)
                            : hash_ != nullptr   ? FindInHash(name)
                                                 : nullptr;
  if (symbol == nullptr) return nullptr;
  return reinterpret_cast<void*>(base_ + symbol->st_value);
}

// The table: counts, a Bloom filter, the first symbol of each bucket, and the
// hash of each symbol, whose lowest bit says that it is its bucket's last.
const ElfW(Sym) * ModuleSymbols::FindInGnuHash(const char* name) const {
  const uint32_t buckets = gnu_hash_[0];
  const uint32_t first_symbol = gnu_hash_[1];
  const uint32_t filter_words = gnu_hash_[2];
  if (buckets == 0) return nullptr;
  const auto* filter = reinterpret_cast<const ElfW(Addr)*>(gnu_hash_ + 4);
  const auto* bucket = reinterpret_cast<const uint32_t*>(filter + filter_words);
  const uint32_t* const chain = bucket + buckets;
  const uint32_t hash = GnuHash(name);
  uint32_t index = bucket[hash % buckets];
  if (index < first_symbol) return nullptr;
  for (;; ++index) {
    const uint32_t entry = chain[index - first_symbol];
    if ((entry | 1) == (hash | 1) && Is(symbols_[index], name)) {
      return &symbols_[index];
    }
    if ((entry & 1) != 0) return nullptr;
  }
}

const ElfW(Sym) * ModuleSymbols::FindInHash(const char* name) const {
  const uint32_t buckets = hash_[0];
  if (buckets == 0) return nullptr;
  const uint32_t* const bucket = hash_ + 2;
  const uint32_t* const chain = bucket + buckets;
  for (uint32_t index = bucket[SystemVHash(name) % buckets]; index != STN_UNDEF;
       index = chain[index]) {
    if (Is(symbols_[index], name)) return &symbols_[index];
  }
  return nullptr;
}

}  // namespace pinring::preload
