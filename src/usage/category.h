// Category names, interned, and the stack of categories each thread is in.
//
//   CategoryTable table;
//   {
//     ScopedCategory loader(&table, "loader");
//     table.Current();  // "loader" for this thread, until the scope ends
//   }
//
// Thread-safe. Ids are small, dense, and valid while the table lives. The
// stack belongs to a thread and a table; it needs no lock and, once a thread
// has been as deep before, no allocation. A thread that ends inside scopes
// leaves nothing behind.
#ifndef PINRING_SRC_USAGE_CATEGORY_H_
#define PINRING_SRC_USAGE_CATEGORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace pinring {

using CategoryId = uint32_t;

// The category of a thread that is in none; its name is "default".
inline constexpr CategoryId kDefaultCategory = 0;

class CategoryTable {
 public:
  static constexpr size_t kMaxCategories = size_t{1} << 16;
  static constexpr size_t kMaxNameBytes = 255;

  CategoryTable();
  CategoryTable(const CategoryTable&) = delete;
  CategoryTable& operator=(const CategoryTable&) = delete;

  // The id of `name`, made if new. InvalidArgument for an empty name or one
  // beyond kMaxNameBytes; ResourceExhausted beyond kMaxCategories.
  absl::StatusOr<CategoryId> Intern(std::string_view name)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // The name of an id that Intern returned; empty for any other.
  std::string Name(CategoryId id) const ABSL_LOCKS_EXCLUDED(mutex_);

  // All names, at the index of their id.
  std::vector<std::string> Names() const ABSL_LOCKS_EXCLUDED(mutex_);

  // Enters a category on this thread; InvalidArgument for an id that is not of
  // this table. By id it takes no lock.
  absl::Status Push(CategoryId id);
  absl::Status Push(std::string_view name) ABSL_LOCKS_EXCLUDED(mutex_);

  // Leaves the innermost category of this thread and returns it;
  // FailedPrecondition when the thread is in none.
  absl::StatusOr<CategoryId> Pop();

  // The innermost category of this thread. Takes no lock, never allocates,
  // and is safe during thread exit and static destruction.
  CategoryId Current() const;

  // How many categories this thread is in.
  size_t Depth() const;

 private:
  // Tells this table's stack entries from those of a table that lived at the
  // same address before.
  const uint64_t serial_;

  // How many ids are valid: names_.size(), for those without the lock. Only
  // grows; an id reaches another thread with or after this.
  std::atomic<CategoryId> count_{0};

  mutable absl::Mutex mutex_;
  // The names' home: a deque never moves them, and ids_ points into it.
  std::deque<std::string> names_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<absl::string_view, CategoryId> ids_
      ABSL_GUARDED_BY(mutex_);
};

// Enters a category for the life of the scope. When the name is refused the
// scope changes nothing and status() says why.
class [[nodiscard]] ScopedCategory {
 public:
  ScopedCategory(CategoryTable* table, std::string_view name)
      : table_(table), status_(table->Push(name)) {}
  ScopedCategory(const ScopedCategory&) = delete;
  ScopedCategory& operator=(const ScopedCategory&) = delete;
  ~ScopedCategory() {
    if (status_.ok()) (void)table_->Pop();
  }

  const absl::Status& status() const { return status_; }

 private:
  CategoryTable* const table_;
  const absl::Status status_;
};

}  // namespace pinring

#endif  // PINRING_SRC_USAGE_CATEGORY_H_
