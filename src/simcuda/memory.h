// What every address of a simulated machine is: device memory, pinned host
// memory, or neither.
//
// Device memory lives in ordinary memory, and a device pointer is its address:
// kernels can then be host functions. Externally synchronized.

#ifndef PINRING_SRC_SIMCUDA_MEMORY_H_
#define PINRING_SRC_SIMCUDA_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace pinring::simcuda {

enum class MemoryKind {
  kDevice,
  kHostAllocated,   // by cuMemHostAlloc
  kHostRegistered,  // by cuMemHostRegister; the memory is the program's
};

struct FreeStorage {
  void operator()(char* storage) const;
};

struct Block {
  MemoryKind kind;
  char* base;
  size_t bytes;
  int device;
  unsigned flags;
  uint64_t id;
  std::unique_ptr<char, FreeStorage>
      storage;  // null when the memory is the program's

  bool pinned() const { return kind != MemoryKind::kDevice; }
  bool Contains(const void* address, size_t length) const {
    const size_t offset =
        static_cast<size_t>(static_cast<const char*>(address) - base);
    return offset <= bytes && length <= bytes - offset;
  }
};

class MemoryMap {
 public:
  explicit MemoryMap(int devices)
      : device_bytes_(static_cast<size_t>(devices)) {}

  // The block that the address lies in, or null.
  const Block* Find(const void* address) const;
  // A block that shares a byte with the range, or null.
  const Block* FindOverlap(const void* base, size_t bytes) const;

  // New memory; null when there is none.
  const Block* Allocate(MemoryKind kind, size_t bytes, int device,
                        unsigned flags);
  // The program's own memory, now pinned.
  const Block* Register(void* base, size_t bytes, int device, unsigned flags);
  // Forgets the block; its memory goes away, unless `keep_storage`, for good.
  void Erase(const Block* block, bool keep_storage);
  // Everything that a device's context owns.
  void EraseDevice(int device);

  size_t pinned_bytes() const { return pinned_bytes_; }
  size_t peak_pinned_bytes() const { return peak_pinned_bytes_; }
  size_t device_bytes(int device) const {
    return device_bytes_[static_cast<size_t>(device)];
  }

 private:
  const Block* Add(Block block);

  std::map<uintptr_t, Block> blocks_;  // by base; they do not overlap
  std::vector<std::unique_ptr<char, FreeStorage>> kept_;
  std::vector<size_t> device_bytes_;
  size_t pinned_bytes_ = 0;
  size_t peak_pinned_bytes_ = 0;
  uint64_t next_id_ = 1;
};

}  // namespace pinring::simcuda

#endif  // PINRING_SRC_SIMCUDA_MEMORY_H_
