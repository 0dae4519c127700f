#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/os/mapped_file.h"

namespace pinring::os {
namespace {

absl::Status Failed(const char* call, const std::string& path, int error) {
  const std::string message =
      absl::StrCat(call, " of ", path, ": ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(message)
                         : absl::UnavailableError(message);
}

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return Failed("open", path, errno);
  struct stat info = {};
  absl::StatusOr<MappedFile> result =
      absl::InvalidArgumentError(absl::StrCat(path, " is no file with bytes"));
  if (fstat(file, &info) != 0) {
    result = Failed("fstat", path, errno);
  } else if (S_ISREG(info.st_mode) && info.st_size > 0) {
    const auto bytes = static_cast<size_t>(info.st_size);
    void* const data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file, 0);
    if (data == MAP_FAILED) {
      result = Failed("mmap", path, errno);
    } else {
      result = MappedFile(data, bytes);
    }
  }
  if (close(file) != 0 && result.ok()) result = Failed("close", path, errno);
  return result;
}

MappedFile::~MappedFile() {
  // Fails only for a range that is none.
  if (data_ != nullptr) (void)munmap(data_, bytes_);
}

}  // namespace pinring::os
