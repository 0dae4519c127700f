#ifndef PINRING_SRC_OS_MAPPED_FILE_H_
#define PINRING_SRC_OS_MAPPED_FILE_H_

// A whole file, mapped read-only: its bytes are read from disk when they are
// touched, and shared with the system's cache.

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace pinring::os {

// Thread-safe to read. A file that is truncated while it is mapped raises a
// signal at the next touch of what is gone.
class MappedFile {
 public:
  // Errors: kNotFound, kInvalidArgument (empty, or no regular file),
  // kUnavailable (the system refuses), naming the path.
  static absl::StatusOr<MappedFile> Open(const std::string& path);

  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedFile();

  const std::byte* data() const { return static_cast<const std::byte*>(data_); }
  size_t bytes() const { return bytes_; }

 private:
  MappedFile(void* data, size_t bytes) : data_(data), bytes_(bytes) {}

  void* data_;
  size_t bytes_;
};

}  // namespace pinring::os

#endif  // PINRING_SRC_OS_MAPPED_FILE_H_
