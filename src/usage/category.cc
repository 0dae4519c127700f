#include "src/usage/category.h"

#include <atomic>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace pinring {
namespace {

struct Frame {
  uint64_t table_serial;
  CategoryId id;
  Frame* below;
};

// Plain pointers, so that they can be read when the thread's destructors have
// run already: a program may free a block from a static destructor, which the
// main thread runs after its thread-local ones.
constinit thread_local Frame* tls_top = nullptr;
constinit thread_local Frame* tls_spare = nullptr;

void DeleteAll(Frame** list) {
  while (*list != nullptr) {
    Frame* frame = *list;
    *list = frame->below;
    delete frame;
  }
}

// Frees a thread's frames when it ends. Constructed by its first use.
struct FrameCleaner {
  bool armed = false;
  ~FrameCleaner() {
    DeleteAll(&tls_top);
    DeleteAll(&tls_spare);
  }
};
thread_local FrameCleaner tls_cleaner;

Frame* NewFrame() {
  if (Frame* frame = tls_spare; frame != nullptr) {
    tls_spare = frame->below;
    return frame;
  }
  tls_cleaner.armed = true;
  return new Frame;
}

uint64_t NextTableSerial() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

absl::string_view View(std::string_view s) { return {s.data(), s.size()}; }

}  // namespace

CategoryTable::CategoryTable() : serial_(NextTableSerial()) {
  absl::MutexLock lock(&mutex_);
  names_.emplace_back("default");
  ids_.emplace(absl::string_view(names_.back()), kDefaultCategory);
  count_.store(1, std::memory_order_relaxed);
}

absl::StatusOr<CategoryId> CategoryTable::Intern(std::string_view name) {
  {
    absl::ReaderMutexLock lock(&mutex_);
    auto it = ids_.find(View(name));
    if (it != ids_.end()) return it->second;
  }
  if (name.empty()) {
    return absl::InvalidArgumentError("a category name must not be empty");
  }
  if (name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "category name of ", name.size(), " bytes: at most ", kMaxNameBytes,
        " are allowed (it starts \"",
        absl::Utf8SafeCHexEscape(View(name.substr(0, 32))), "\")"));
  }
  absl::MutexLock lock(&mutex_);
  auto it = ids_.find(View(name));
  if (it != ids_.end()) return it->second;
  if (names_.size() >= kMaxCategories) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "no room for category \"", absl::Utf8SafeCHexEscape(View(name)),
        "\": there are ", kMaxCategories, " already"));
  }
  const auto id = static_cast<CategoryId>(names_.size());
  names_.emplace_back(name);
  ids_.emplace(absl::string_view(names_.back()), id);
  count_.store(id + 1, std::memory_order_relaxed);
  return id;
}

std::string CategoryTable::Name(CategoryId id) const {
  absl::ReaderMutexLock lock(&mutex_);
  return id < names_.size() ? names_[id] : std::string();
}

std::vector<std::string> CategoryTable::Names() const {
  absl::ReaderMutexLock lock(&mutex_);
  return {names_.begin(), names_.end()};
}

absl::Status CategoryTable::Push(CategoryId id) {
  if (id >= count_.load(std::memory_order_relaxed)) {
    return absl::InvalidArgumentError(
        absl::StrCat("category id ", id, " is not of this table"));
  }
  Frame* frame = NewFrame();
  *frame = Frame{serial_, id, tls_top};
  tls_top = frame;
  return absl::OkStatus();
}

absl::Status CategoryTable::Push(std::string_view name) {
  absl::StatusOr<CategoryId> id = Intern(name);
  if (!id.ok()) return id.status();
  return Push(*id);
}

absl::StatusOr<CategoryId> CategoryTable::Pop() {
  // Entries of other tables may lie above: each table sees its own stack.
  for (Frame** link = &tls_top; *link != nullptr; link = &(*link)->below) {
    Frame* frame = *link;
    if (frame->table_serial != serial_) continue;
    const CategoryId id = frame->id;
    *link = frame->below;
    frame->below = tls_spare;
    tls_spare = frame;
    return id;
  }
  return absl::FailedPreconditionError(
      "category pop without a push on this thread");
}

CategoryId CategoryTable::Current() const {
  for (const Frame* frame = tls_top; frame != nullptr; frame = frame->below) {
    if (frame->table_serial == serial_) return frame->id;
  }
  return kDefaultCategory;
}

size_t CategoryTable::Depth() const {
  size_t depth = 0;
  for (const Frame* frame = tls_top; frame != nullptr; frame = frame->below) {
    if (frame->table_serial == serial_) ++depth;
  }
  return depth;
}

}  // namespace pinring
