#include "src/host/address_map.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace pinring {
namespace {

std::string RangeText(uintptr_t begin, size_t bytes) {
  return absl::StrFormat("[%#x, +%d)", begin, bytes);
}

uintptr_t RangeEnd(const Block& block) {
  return block.base() + block.mapped_bytes();
}

}  // namespace

AddressMap::~AddressMap() = default;

template <typename Node>
Node* AddressMap::NodeStore<Node>::Take() {
  if (free.empty()) return &nodes.emplace_back();
  Node* node = free.back();
  free.pop_back();
  return node;
}

template <typename Node>
AddressMap::NodeStore<Node>& AddressMap::Store() {
  if constexpr (std::is_same_v<Node, PageNode>) {
    return page_nodes_;
  } else {
    return grain_nodes_;
  }
}

AddressMap::Entry& AddressMap::SpanEntry(uintptr_t address) {
  std::atomic<MiddleDirectory*>& root = root_[address >> kRootShift];
  MiddleDirectory* middle = root.load(std::memory_order_relaxed);
  if (middle == nullptr) {
    middle =
        middle_directories_.emplace_back(std::make_unique<MiddleDirectory>())
            .get();
    root.store(middle, std::memory_order_release);
  }
  std::atomic<SpanDirectory*>& child =
      middle->children[DirectoryIndex(address, kMiddleShift)];
  SpanDirectory* spans = child.load(std::memory_order_relaxed);
  if (spans == nullptr) {
    spans =
        span_directories_.emplace_back(std::make_unique<SpanDirectory>()).get();
    child.store(spans, std::memory_order_release);
  }
  return spans->entries[DirectoryIndex(address, kSpanShift)];
}

// Enters `block` for [begin, end), which lies within the range of `entry`.
// `Node` is the type of node that the entry may point to.
template <typename Node>
void AddressMap::InsertAt(Entry& entry, uintptr_t begin, uintptr_t end,
                          Block* block) {
  const uintptr_t value = entry.load(std::memory_order_relaxed);
  if (value == 0) {
    entry.store(reinterpret_cast<uintptr_t>(block), std::memory_order_release);
    return;
  }
  if constexpr (!std::is_void_v<Node>) {
    if ((value & kNodeTag) != 0) {
      InsertInto(reinterpret_cast<Node*>(value - kNodeTag), begin, end, block);
      return;
    }
    // A second block: both move into a node, which replaces the entry in one
    // store, so that a look-up finds the first one at every moment.
    Block* other = reinterpret_cast<Block*>(value);
    constexpr uintptr_t kRange = uintptr_t{Node::kEntries} << Node::kShift;
    const uintptr_t range_begin = begin & ~(kRange - 1);
    Node* node = Store<Node>().Take();
    InsertInto(node, std::max(other->base(), range_begin),
               std::min(RangeEnd(*other), range_begin + kRange), other);
    InsertInto(node, begin, end, block);
    entry.store(reinterpret_cast<uintptr_t>(node) | kNodeTag,
                std::memory_order_release);
  }
}

template <typename Node>
void AddressMap::InsertInto(Node* node, uintptr_t begin, uintptr_t end,
                            Block* block) {
  using Child =
      std::conditional_t<std::is_same_v<Node, PageNode>, GrainNode, void>;
  constexpr uintptr_t kStep = uintptr_t{1} << Node::kShift;
  for (uintptr_t at = begin; at < end;) {
    const uintptr_t next = std::min(end, (at & ~(kStep - 1)) + kStep);
    Entry& entry = node->entries[(at >> Node::kShift) & (Node::kEntries - 1)];
    if (entry.load(std::memory_order_relaxed) == 0) ++node->used;
    InsertAt<Child>(entry, at, next, block);
    at = next;
  }
}

template <typename Node>
void AddressMap::EraseAt(Entry& entry, uintptr_t begin, uintptr_t end,
                         Block* block) {
  const uintptr_t value = entry.load(std::memory_order_relaxed);
  if (value == reinterpret_cast<uintptr_t>(block)) {
    entry.store(0, std::memory_order_release);
    return;
  }
  if constexpr (!std::is_void_v<Node>) {
    using Child =
        std::conditional_t<std::is_same_v<Node, PageNode>, GrainNode, void>;
    constexpr uintptr_t kStep = uintptr_t{1} << Node::kShift;
    Node* node = reinterpret_cast<Node*>(value - kNodeTag);
    for (uintptr_t at = begin; at < end;) {
      const uintptr_t next = std::min(end, (at & ~(kStep - 1)) + kStep);
      Entry& child = node->entries[(at >> Node::kShift) & (Node::kEntries - 1)];
      EraseAt<Child>(child, at, next, block);
      if (child.load(std::memory_order_relaxed) == 0) --node->used;
      at = next;
    }
    // Only an empty node is reused: a look-up that still reads it was looking
    // for a block that is gone, and what it may find now is checked against
    // the record.
    if (node->used == 0) {
      entry.store(0, std::memory_order_release);
      Store<Node>().free.push_back(node);
    }
  }
}

Block* AddressMap::NewRecord() {
  if (free_records_.empty()) return &records_.emplace_back();
  Block* block = free_records_.back();
  free_records_.pop_back();
  return block;
}

void AddressMap::Fill(Block* block, const BlockSpec& spec) {
  const uint32_t generation =
      block->generation_.load(std::memory_order_relaxed);
  block->generation_.store(generation + 1, std::memory_order_relaxed);
  // Release: a reader that sees a new value sees the odd generation too.
  block->base_.store(spec.base, std::memory_order_release);
  block->bytes_.store(spec.bytes, std::memory_order_release);
  block->kind_.store(spec.kind, std::memory_order_relaxed);
  block->owner_.store(spec.owner, std::memory_order_relaxed);
  block->mapped_bytes_ = spec.mapped_bytes;
  block->category_ = spec.category;
  block->device_ = spec.device;
  block->host_flags_ = spec.host_flags;
  block->promotion_.store(Block::kUnpromoted, std::memory_order_relaxed);
  block->device_pointer_.store(0, std::memory_order_relaxed);
  block->generation_.store(generation + 2, std::memory_order_release);
  block->life_.store(Block::kLive, std::memory_order_release);
}

Block* AddressMap::OverlapLocked(uintptr_t begin, uintptr_t end) const {
  auto after = by_base_.lower_bound(end);  // The first one that starts beyond.
  if (after == by_base_.begin()) return nullptr;
  Block* candidate = std::prev(after)->second;
  return RangeEnd(*candidate) > begin ? candidate : nullptr;
}

absl::StatusOr<Block*> AddressMap::Insert(const BlockSpec& spec) {
  constexpr uintptr_t kLimit = uintptr_t{1} << kAddressBits;
  const auto range = [&spec] {
    return RangeText(spec.base, spec.mapped_bytes);
  };
  if (spec.bytes == 0 || spec.mapped_bytes < spec.bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "block ", range(), " of ", spec.bytes, " bytes: sizes do not fit"));
  }
  if (spec.base % kGrainBytes != 0 || spec.mapped_bytes % kGrainBytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "block ", range(), " is not aligned to ", kGrainBytes, " bytes"));
  }
  if (spec.base == 0 || spec.base >= kLimit ||
      spec.mapped_bytes > kLimit - spec.base) {
    return absl::InvalidArgumentError(absl::StrCat(
        "block ", range(), " is not within ", kAddressBits, " address bits"));
  }
  const uintptr_t end = spec.base + spec.mapped_bytes;

  absl::MutexLock lock(&mutex_);
  if (const Block* other = OverlapLocked(spec.base, end)) {
    return absl::AlreadyExistsError(
        absl::StrCat("block ", range(), " overlaps ",
                     RangeText(other->base(), other->mapped_bytes())));
  }
  Block* block = NewRecord();
  Fill(block, spec);
  if (spec.base < lowest_.load(std::memory_order_relaxed)) {
    lowest_.store(spec.base, std::memory_order_relaxed);
  }
  if (end > highest_.load(std::memory_order_relaxed)) {
    highest_.store(end, std::memory_order_relaxed);
  }
  constexpr uintptr_t kSpan = uintptr_t{1} << kSpanShift;
  for (uintptr_t at = spec.base; at < end;) {
    const uintptr_t next = std::min(end, (at & ~(kSpan - 1)) + kSpan);
    InsertAt<PageNode>(SpanEntry(at), at, next, block);
    at = next;
  }
  by_base_.emplace(spec.base, block);
  return block;
}

absl::Status AddressMap::Erase(Block* block) {
  absl::MutexLock lock(&mutex_);
  // Acquire pairs with the release of the last use.
  const uint32_t life = block->life_.load(std::memory_order_acquire);
  if (life != Block::kFreeing) {
    return absl::FailedPreconditionError(absl::StrCat(
        "erasing block ", RangeText(block->base(), block->mapped_bytes()),
        (life & Block::kFreeing) != 0
            ? absl::StrCat(" with ", life & Block::kUseMask, " uses")
            : std::string(" that is not being freed")));
  }
  const uintptr_t begin = block->base();
  const uintptr_t end = RangeEnd(*block);
  constexpr uintptr_t kSpan = uintptr_t{1} << kSpanShift;
  for (uintptr_t at = begin; at < end;) {
    const uintptr_t next = std::min(end, (at & ~(kSpan - 1)) + kSpan);
    EraseAt<PageNode>(SpanEntry(at), at, next, block);
    at = next;
  }
  by_base_.erase(begin);
  if (by_base_.empty()) {
    lowest_.store(UINTPTR_MAX, std::memory_order_relaxed);
    highest_.store(0, std::memory_order_relaxed);
  }
  block->life_.store(0, std::memory_order_release);
  free_records_.push_back(block);
  return absl::OkStatus();
}

Block* AddressMap::FindOverlap(uintptr_t begin, size_t bytes) const {
  if (bytes == 0) return nullptr;
  const uintptr_t end =
      bytes > UINTPTR_MAX - begin ? UINTPTR_MAX : begin + bytes;
  absl::MutexLock lock(&mutex_);
  return OverlapLocked(begin, end);
}

size_t AddressMap::size() const {
  absl::MutexLock lock(&mutex_);
  return by_base_.size();
}

void AddressMap::ForEach(const std::function<void(Block&)>& visit) const {
  absl::MutexLock lock(&mutex_);
  for (const auto& [base, block] : by_base_) visit(*block);
}

size_t AddressMap::overhead_bytes() const {
  absl::MutexLock lock(&mutex_);
  return sizeof(*this) + middle_directories_.size() * sizeof(MiddleDirectory) +
         span_directories_.size() * sizeof(SpanDirectory) +
         page_nodes_.nodes.size() * sizeof(PageNode) +
         grain_nodes_.nodes.size() * sizeof(GrainNode) +
         records_.size() * sizeof(Block);
}

// Checks one entry and all below it; `begin` is where its range starts. Adds
// the bytes of mapped ranges that are entered there to *covered.
template <typename Node>
absl::Status AddressMap::CheckEntry(const Entry& entry, uintptr_t begin,
                                    uintptr_t* covered,
                                    size_t* nodes_used) const {
  constexpr uintptr_t kRange = []() -> uintptr_t {
    if constexpr (std::is_void_v<Node>) {
      return kGrainBytes;
    } else {
      return uintptr_t{Node::kEntries} << Node::kShift;
    }
  }();
  const uintptr_t value = entry.load(std::memory_order_relaxed);
  if (value == 0) return absl::OkStatus();
  if ((value & kNodeTag) == 0) {
    const Block* block = reinterpret_cast<const Block*>(value);
    const uintptr_t from = std::max(begin, block->base());
    const uintptr_t to = std::min(begin + kRange, RangeEnd(*block));
    auto it = by_base_.find(block->base());
    if (it == by_base_.end() || it->second != block || from >= to) {
      return absl::InternalError(absl::StrFormat(
          "the entry at %#x names a block that is not there", begin));
    }
    *covered += to - from;
    return absl::OkStatus();
  }
  if constexpr (!std::is_void_v<Node>) {
    using Child =
        std::conditional_t<std::is_same_v<Node, PageNode>, GrainNode, void>;
    const Node* node = reinterpret_cast<const Node*>(value - kNodeTag);
    size_t used = 0;
    for (size_t i = 0; i < Node::kEntries; ++i) {
      if (node->entries[i].load(std::memory_order_relaxed) != 0) ++used;
      absl::Status status = CheckEntry<Child>(
          node->entries[i], begin + (i << Node::kShift), covered, nodes_used);
      if (!status.ok()) return status;
    }
    ++*nodes_used;
    if (used == 0 || used != node->used) {
      return absl::InternalError(
          absl::StrFormat("the node at %#x has %d entries and says %d", begin,
                          used, node->used));
    }
    return absl::OkStatus();
  }
  return absl::InternalError("a node below the finest level");
}

absl::Status AddressMap::CheckInvariants() const {
  absl::MutexLock lock(&mutex_);
  uintptr_t covered = 0;
  size_t nodes_used = 0;
  for (uintptr_t r = 0; r < kDirectorySize; ++r) {
    const MiddleDirectory* middle = root_[r].load(std::memory_order_relaxed);
    if (middle == nullptr) continue;
    for (uintptr_t m = 0; m < kDirectorySize; ++m) {
      const SpanDirectory* spans =
          middle->children[m].load(std::memory_order_relaxed);
      if (spans == nullptr) continue;
      for (uintptr_t s = 0; s < kDirectorySize; ++s) {
        const uintptr_t begin =
            r << kRootShift | m << kMiddleShift | s << kSpanShift;
        absl::Status status = CheckEntry<PageNode>(spans->entries[s], begin,
                                                   &covered, &nodes_used);
        if (!status.ok()) return status;
      }
    }
  }
  uintptr_t mapped = 0;
  uintptr_t previous_end = 0;
  for (const auto& [base, block] : by_base_) {
    const uint32_t life = block->life_.load(std::memory_order_relaxed);
    const bool alive = (life & (Block::kLive | Block::kFreeing)) != 0;
    if (base != block->base() || base < previous_end || !alive ||
        base < lowest_.load(std::memory_order_relaxed) ||
        RangeEnd(*block) > highest_.load(std::memory_order_relaxed)) {
      return absl::InternalError(
          absl::StrCat("the record of block ",
                       RangeText(base, block->mapped_bytes()), " is wrong"));
    }
    previous_end = RangeEnd(*block);
    mapped += block->mapped_bytes();
  }
  if (covered != mapped) {
    return absl::InternalError(
        absl::StrCat("entries cover ", covered, " bytes of ", mapped));
  }
  if (records_.size() != by_base_.size() + free_records_.size()) {
    return absl::InternalError("a record is neither in use nor free");
  }
  const size_t nodes_taken =
      page_nodes_.nodes.size() - page_nodes_.free.size() +
      grain_nodes_.nodes.size() - grain_nodes_.free.size();
  if (nodes_taken != nodes_used) {
    return absl::InternalError(absl::StrCat(nodes_taken, " nodes taken, ",
                                            nodes_used, " in the tree"));
  }
  return absl::OkStatus();
}

}  // namespace pinring
