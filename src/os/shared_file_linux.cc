#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "src/os/shared_file.h"

namespace pinring::os {
namespace {

constexpr char kFolder[] = "/dev/shm";

absl::Status Refused(absl::string_view call, const std::string& path) {
  return absl::UnavailableError(
      absl::StrCat(call, " of ", path, ": ", ::strerror(errno)));
}

// The user is part of the name: the folder is everybody's.
std::string FileName(const std::string& name) {
  return absl::StrCat("pinring.", ::geteuid(), ".", name);
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// The number of the file that is open as `fd`; 0: none.
intptr_t FileNumber(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 ? static_cast<intptr_t>(status.st_ino) : 0;
}

// A program may have closed every descriptor that it did not know, and others
// may have its number by now.
void CloseIfStillThat(intptr_t handle, intptr_t number) {
  const int fd = static_cast<int>(handle);
  if (fd >= 0 && FileNumber(fd) == number) (void)::close(fd);
}

// Writing to a file of shared memory that has no room kills the program, so the
// room is taken at once.
bool TakeRoom(int fd, size_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
      limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes) {
    errno = EFBIG;  // The system would say it by a signal.
    return false;
  }
  errno = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  return errno == 0;
}

}  // namespace

absl::StatusOr<SharedFile> SharedFile::Create(
    const std::string& name, size_t bytes,
    absl::FunctionRef<void(void* data)> prepare) {
  const std::string path = absl::StrCat(kFolder, "/", FileName(name));
  // Readers do not look for names with a dot. One that is there is of a process
  // that ended half-way, or of one in another namespace with the same number.
  const std::string hidden = absl::StrCat(kFolder, "/.", FileName(name));
  Descriptor fd(::open(hidden.c_str(),
                       O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                       0600));
  if (fd.get() < 0 && errno == EEXIST) {
    (void)::unlink(hidden.c_str());
    return absl::AlreadyExistsError(hidden);
  }
  if (fd.get() < 0) return Refused("open", hidden);
  absl::Status status;
  void* data = MAP_FAILED;
  if (::fchmod(fd.get(), 0600) != 0) {
    status = Refused("fchmod", hidden);
  } else if (!TakeRoom(fd.get(), bytes)) {
    status = Refused("posix_fallocate", hidden);
  } else if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    status = Refused("flock", hidden);
  } else {
    data =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (data == MAP_FAILED) status = Refused("mmap", hidden);
  }
  if (status.ok()) {
    prepare(data);
    // One of the same name that is there is abandoned, or another namespace's.
    if (::rename(hidden.c_str(), path.c_str()) != 0) {
      status = Refused("rename", hidden);
      (void)::munmap(data, bytes);
    }
  }
  if (!status.ok()) {
    (void)::unlink(hidden.c_str());
    return status;
  }
  SharedFile file;
  file.data_ = data;
  file.bytes_ = bytes;
  file.mapping_ = FileNumber(fd.get());
  file.handle_ = fd.Release();
  file.path_ = path;
  return file;
}

SharedFile::~SharedFile() {
  if (!path_.empty()) (void)::unlink(path_.c_str());
  if (data_ != nullptr) (void)::munmap(data_, bytes_);
  CloseIfStillThat(handle_, mapping_);
}

void SharedFile::Remove() {
  if (!path_.empty()) (void)::unlink(path_.c_str());
  path_.clear();
}

// The lock is the parent's as well, and stays with its descriptor.
void SharedFile::Abandon() {
  path_.clear();
  if (data_ != nullptr) (void)::munmap(data_, bytes_);
  data_ = nullptr;
  CloseIfStillThat(handle_, mapping_);
  handle_ = -1;
}

absl::Status ForEachSharedFile(
    const std::string& prefix, size_t least_bytes,
    absl::FunctionRef<void(const std::string& name, void* data, size_t bytes)>
        visit) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(kFolder),
                                                   &::closedir);
  if (folder == nullptr) return Refused("opendir", kFolder);
  const std::string first = FileName(prefix);
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string name = entry->d_name;
    if (!absl::StartsWith(name, first)) continue;
    const std::string path = absl::StrCat(kFolder, "/", name);
    Descriptor fd(
        ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    struct stat status {};
    if (fd.get() < 0 || ::fstat(fd.get(), &status) != 0 ||
        !S_ISREG(status.st_mode) || status.st_uid != ::geteuid() ||
        (status.st_mode & 0077) != 0) {
      continue;
    }
    // The owner holds the lock until it ends.
    if (::flock(fd.get(), LOCK_SH | LOCK_NB) == 0) {
      (void)::unlink(path.c_str());
      continue;
    }
    const auto bytes = static_cast<size_t>(status.st_size);
    if (bytes < least_bytes) continue;
    SharedFile file;
    void* const data =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    if (data == MAP_FAILED) continue;
    file.data_ = data;
    file.bytes_ = bytes;
    visit(name.substr(FileName("").size()), data, bytes);
  }
  return absl::OkStatus();
}

}  // namespace pinring::os
