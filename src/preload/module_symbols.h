// The symbols of a loaded library, read from its tables in memory.
//
// Unlike dlsym this takes no lock, runs no code of the library's and leaves no
// text for dlerror, so that it may be used inside a dlsym of our own.

#ifndef PINRING_SRC_PRELOAD_MODULE_SYMBOLS_H_
#define PINRING_SRC_PRELOAD_MODULE_SYMBOLS_H_

#include <link.h>

#include <cstdint>

namespace pinring::preload {

// The loaded library that the code at `address` is part of; null for none.
const link_map* ModuleOf(const void* address);

class ModuleSymbols {
 public:
  explicit ModuleSymbols(const link_map& module);

  // The address of the function that the library defines under `name`, of
  // whatever version; null where it defines none.
  void* Find(const char* name) const;

 private:
  const ElfW(Sym) * FindInGnuHash(const char* name) const;
  const ElfW(Sym) * FindInHash(const char* name) const;
  bool Is(const ElfW(Sym) & symbol, const char* name) const;

  ElfW(Addr) base_ = 0;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* strings_ = nullptr;
  const uint32_t* gnu_hash_ = nullptr;
  const uint32_t* hash_ = nullptr;
};

}  // namespace pinring::preload

#endif  // PINRING_SRC_PRELOAD_MODULE_SYMBOLS_H_
