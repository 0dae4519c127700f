#include "src/simcuda/memory.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

namespace pinring::simcuda {
namespace {

constexpr std::align_val_t kAlignment{4096};
// Fresh memory up to this is filled, so that what a program reads too early
// does not depend on the heap's past.
constexpr size_t kFilledBytes = 64 << 10;
constexpr int kFreshByte = 0xA5;

}  // namespace

void FreeStorage::operator()(char* storage) const {
  ::operator delete(storage, kAlignment);
}

const Block* MemoryMap::Find(const void* address) const {
  auto next = blocks_.upper_bound(reinterpret_cast<uintptr_t>(address));
  if (next == blocks_.begin()) return nullptr;
  const Block& block = std::prev(next)->second;
  return static_cast<const char*>(address) < block.base + block.bytes ? &block
                                                                      : nullptr;
}

const Block* MemoryMap::FindOverlap(const void* base, size_t bytes) const {
  if (const Block* block = Find(base)) return block;
  auto next = blocks_.upper_bound(reinterpret_cast<uintptr_t>(base));
  if (next == blocks_.end() ||
      next->first - reinterpret_cast<uintptr_t>(base) >= bytes)
    return nullptr;
  return &next->second;
}

const Block* MemoryMap::Allocate(MemoryKind kind, size_t bytes, int device,
                                 unsigned flags) {
  std::unique_ptr<char, FreeStorage> memory(
      static_cast<char*>(::operator new(bytes, kAlignment, std::nothrow)));
  if (memory == nullptr) return nullptr;
  std::memset(memory.get(), kFreshByte, std::min(bytes, kFilledBytes));
  char* const base = memory.get();
  return Add({kind, base, bytes, device, flags, 0, std::move(memory)});
}

const Block* MemoryMap::Register(void* base, size_t bytes, int device,
                                 unsigned flags) {
  return Add({MemoryKind::kHostRegistered, static_cast<char*>(base), bytes,
              device, flags, 0, nullptr});
}

const Block* MemoryMap::Add(Block block) {
  block.id = next_id_++;
  if (block.pinned()) {
    pinned_bytes_ += block.bytes;
    peak_pinned_bytes_ = std::max(peak_pinned_bytes_, pinned_bytes_);
  } else {
    device_bytes_[static_cast<size_t>(block.device)] += block.bytes;
  }
  const uintptr_t key = reinterpret_cast<uintptr_t>(block.base);
  return &blocks_.emplace(key, std::move(block)).first->second;
}

void MemoryMap::Erase(const Block* block, bool keep_storage) {
  auto it = blocks_.find(reinterpret_cast<uintptr_t>(block->base));
  if (block->pinned()) {
    pinned_bytes_ -= block->bytes;
  } else {
    device_bytes_[static_cast<size_t>(block->device)] -= block->bytes;
  }
  if (keep_storage) kept_.push_back(std::move(it->second.storage));
  blocks_.erase(it);
}

void MemoryMap::EraseDevice(int device) {
  for (auto it = blocks_.begin(); it != blocks_.end();) {
    const Block* block = &(it++)->second;
    if (block->device == device) Erase(block, false);
  }
}

}  // namespace pinring::simcuda
