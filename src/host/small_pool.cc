#include "src/host/small_pool.h"

#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace pinring {
namespace {

constexpr uintptr_t AlignUp(uintptr_t address) {
  constexpr uintptr_t kMask = SmallPool::kGrainBytes - 1;
  return (address + kMask) & ~kMask;
}

size_t UsableBytes(uintptr_t arena, size_t bytes) {
  const size_t lost = AlignUp(arena) - arena;
  if (bytes <= lost) return 0;
  return (bytes - lost) / SmallPool::kGrainBytes * SmallPool::kGrainBytes;
}

}  // namespace

SmallPool::SmallPool(void* arena, size_t bytes)
    : base_(AlignUp(reinterpret_cast<uintptr_t>(arena))),
      usable_bytes_(UsableBytes(reinterpret_cast<uintptr_t>(arena), bytes)) {
  absl::MutexLock lock(&mutex_);
  if (usable_bytes_ != 0) AddFree(0, usable_bytes_ / kGrainBytes);
}

SmallBlock SmallPool::Describe(size_t offset, const Taken& taken) const {
  return SmallBlock{
      .data = reinterpret_cast<void*>(base_ + offset * kGrainBytes),
      .bytes = taken.bytes,
      .occupied_bytes = taken.grains * kGrainBytes,
      .label = taken.label};
}

void SmallPool::AddFree(size_t offset, size_t grains) {
  free_.emplace(offset, grains);
  free_by_size_.emplace(grains, offset);
}

void SmallPool::RemoveFree(size_t offset, size_t grains) {
  free_.erase(offset);
  free_by_size_.erase({grains, offset});
}

absl::StatusOr<SmallBlock> SmallPool::Allocate(size_t bytes,
                                               const SmallBlockLabel& label) {
  if (bytes == 0) {
    return absl::InvalidArgumentError("a small pinned block of 0 bytes");
  }
  SmallBlock block;
  {
    absl::MutexLock lock(&mutex_);
    // Not rounded up before it is known to be small: that could overflow.
    const size_t grains =
        bytes > usable_bytes_ ? 0 : (bytes + kGrainBytes - 1) / kGrainBytes;
    const auto fit = free_by_size_.lower_bound({grains, 0});
    if (grains == 0 || fit == free_by_size_.end()) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "no room for ", bytes, " bytes in the small-block pool of ",
          usable_bytes_, " bytes, of which ", taken_grains_ * kGrainBytes,
          " are taken"));
    }
    const auto [free_grains, offset] = *fit;
    RemoveFree(offset, free_grains);
    if (free_grains > grains) AddFree(offset + grains, free_grains - grains);
    const Taken taken{.grains = grains, .bytes = bytes, .label = label};
    taken_.emplace(offset, taken);
    taken_bytes_ += bytes;
    taken_grains_ += grains;
    block = Describe(offset, taken);
  }
  std::memset(block.data, 0, block.occupied_bytes);
  return block;
}

absl::StatusOr<SmallBlock> SmallPool::Free(void* data) {
  const uintptr_t distance = reinterpret_cast<uintptr_t>(data) - base_;
  absl::MutexLock lock(&mutex_);
  const size_t offset = distance / kGrainBytes;
  const auto it = distance < usable_bytes_ && distance % kGrainBytes == 0
                      ? taken_.find(offset)
                      : taken_.end();
  if (it == taken_.end()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("no small pinned block starts at %#x",
                        reinterpret_cast<uintptr_t>(data)));
  }
  const SmallBlock block = Describe(offset, it->second);
  size_t begin = offset;
  size_t grains = it->second.grains;
  taken_bytes_ -= it->second.bytes;
  taken_grains_ -= grains;
  taken_.erase(it);

  auto after = free_.upper_bound(begin);
  if (after != free_.begin()) {
    const auto [before_offset, before_grains] = *std::prev(after);
    if (before_offset + before_grains == begin) {
      RemoveFree(before_offset, before_grains);
      begin = before_offset;
      grains += before_grains;
    }
  }
  after = free_.upper_bound(begin);
  if (after != free_.end() && after->first == begin + grains) {
    const size_t after_grains = after->second;
    RemoveFree(begin + grains, after_grains);
    grains += after_grains;
  }
  AddFree(begin, grains);
  return block;
}

std::optional<SmallBlock> SmallPool::Find(const void* address) const {
  const uintptr_t distance = reinterpret_cast<uintptr_t>(address) - base_;
  if (distance >= usable_bytes_) return std::nullopt;
  absl::MutexLock lock(&mutex_);
  auto it = taken_.upper_bound(distance / kGrainBytes);
  if (it == taken_.begin()) return std::nullopt;
  --it;
  if (distance - it->first * kGrainBytes >= it->second.bytes) {
    return std::nullopt;
  }
  return Describe(it->first, it->second);
}

SmallPool::Stats SmallPool::stats() const {
  absl::MutexLock lock(&mutex_);
  return Stats{
      .arena_bytes = usable_bytes_,
      .blocks = taken_.size(),
      .bytes = taken_bytes_,
      .occupied_bytes = taken_grains_ * kGrainBytes,
      .largest_free_bytes = free_by_size_.empty()
                                ? 0
                                : free_by_size_.rbegin()->first * kGrainBytes};
}

absl::Status SmallPool::CheckInvariants() const {
  absl::MutexLock lock(&mutex_);
  size_t taken_bytes = 0;
  size_t taken_grains = 0;
  size_t at = 0;
  bool after_free = false;
  auto taken = taken_.begin();
  auto free = free_.begin();
  while (at < usable_bytes_ / kGrainBytes) {
    if (taken != taken_.end() && taken->first == at) {
      const Taken& range = taken->second;
      if (range.bytes == 0 || range.bytes > range.grains * kGrainBytes ||
          range.bytes + kGrainBytes <= range.grains * kGrainBytes) {
        return absl::InternalError(absl::StrCat("block at grain ", at, " of ",
                                                range.bytes, " bytes takes ",
                                                range.grains, " grains"));
      }
      taken_bytes += range.bytes;
      taken_grains += range.grains;
      at += range.grains;
      ++taken;
      after_free = false;
    } else if (free != free_.end() && free->first == at && !after_free) {
      if (!free_by_size_.contains({free->second, at})) {
        return absl::InternalError(
            absl::StrCat("free range at grain ", at, " is not in the index"));
      }
      at += free->second;
      ++free;
      after_free = true;
    } else {
      return absl::InternalError(
          absl::StrCat("nothing, or a second free range, at grain ", at));
    }
  }
  if (at != usable_bytes_ / kGrainBytes || taken != taken_.end() ||
      free != free_.end() || free_by_size_.size() != free_.size()) {
    return absl::InternalError("ranges do not tile the arena");
  }
  if (taken_bytes != taken_bytes_ || taken_grains != taken_grains_) {
    return absl::InternalError("the sums of taken bytes are wrong");
  }
  return absl::OkStatus();
}

}  // namespace pinring
