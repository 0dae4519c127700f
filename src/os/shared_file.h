#ifndef PINRING_SRC_OS_SHARED_FILE_H_
#define PINRING_SRC_OS_SHARED_FILE_H_

// Small files of shared memory by which processes of one user show each other
// something. Each has one owner; when it ends, however it ends, the file counts
// as abandoned, and readers remove it. Other users can neither read nor write
// them. Thread-safe where nothing else is said.

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace pinring::os {

class SharedFile {
 public:
  // Makes `name` with `bytes` of zeros, fills it by `prepare`, and shows it to
  // readers from then on. All of it is there: writing to it cannot fail later.
  // Errors: kAlreadyExists, kUnavailable (the system refuses).
  [[nodiscard]] static absl::StatusOr<SharedFile> Create(
      const std::string& name, size_t bytes,
      absl::FunctionRef<void(void* data)> prepare);

  SharedFile(SharedFile&& other) noexcept { Swap(other); }
  SharedFile& operator=(SharedFile&& other) noexcept {
    Swap(other);
    return *this;
  }
  // Takes the file away, if it is the owner's.
  ~SharedFile();

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

  // Takes the file away, and keeps the memory: who writes to it still, writes
  // to nobody.
  void Remove();

  // In the child of fork: forgets the file, which is the parent's. Calls the
  // system only in ways that are safe there.
  void Abandon();

 private:
  friend absl::Status ForEachSharedFile(
      const std::string& prefix, size_t least_bytes,
      absl::FunctionRef<void(const std::string& name, void* data, size_t bytes)>
          visit);

  SharedFile() = default;
  void Swap(SharedFile& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(handle_, other.handle_);
    std::swap(mapping_, other.mapping_);
    std::swap(path_, other.path_);
  }

  void* data_ = nullptr;
  size_t bytes_ = 0;
  intptr_t handle_ = -1;   // of the file
  intptr_t mapping_ = -1;  // on Linux, the file's number
  std::string path_;       // empty: not the owner
};

// Visits the files of this user whose names begin with `prefix` and whose
// owners live; those without are removed. What cannot be opened, is another
// user's or is smaller is passed over. `data` may be read and written during
// the visit. Errors: kUnavailable.
absl::Status ForEachSharedFile(
    const std::string& prefix, size_t least_bytes,
    absl::FunctionRef<void(const std::string& name, void* data, size_t bytes)>
        visit);

}  // namespace pinring::os

#endif  // PINRING_SRC_OS_SHARED_FILE_H_
