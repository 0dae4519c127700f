#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "src/os/pages.h"

#ifndef MADV_POPULATE_WRITE  // Linux 5.14; absent from older headers.
#define MADV_POPULATE_WRITE 23
#endif

namespace pinring::os {
namespace {

constexpr size_t kUsualHugePageBytes = size_t{2} << 20;

absl::Status SystemError(const char* call, const void* base, size_t bytes,
                         int error) {
  return absl::ErrnoToStatus(
      error, absl::StrCat(call, " of ", bytes, " bytes at 0x",
                          absl::Hex(reinterpret_cast<uintptr_t>(base))));
}

// The pages that a range touches.
struct PageRange {
  char* begin;
  size_t bytes;
};

absl::StatusOr<PageRange> PagesOf(const void* base, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(base);
  std::optional<size_t> end = CheckedAdd(begin, bytes);
  if (end.has_value()) end = RoundUp(*end, PageBytes());
  if (!end.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a range of ", bytes, " bytes at 0x", absl::Hex(begin),
                     " leaves the address space"));
  }
  const uintptr_t first = RoundDown(begin, PageBytes());
  return PageRange{reinterpret_cast<char*>(first), *end - first};
}

// Makes pages resident by writing to each what it holds. The addition of zero
// is atomic, so that no concurrent write is undone.
void Touch(PageRange range) {
  for (size_t offset = 0; offset < range.bytes; offset += PageBytes()) {
    __atomic_fetch_add(range.begin + offset, 0, __ATOMIC_RELAXED);
  }
}

size_t ReadHugePageBytes() {
  const int file = open("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size",
                        O_RDONLY | O_CLOEXEC);
  if (file < 0) return kUsualHugePageBytes;
  char text[32] = {};
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return kUsualHugePageBytes;
  const unsigned long long value = strtoull(text, nullptr, 10);
  const bool power_of_two = value != 0 && (value & (value - 1)) == 0;
  return power_of_two ? static_cast<size_t>(value) : kUsualHugePageBytes;
}

}  // namespace

size_t PageBytes() {
  static const size_t page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return page_bytes;
}

size_t HugePageBytes() {
  static const size_t huge_page_bytes = ReadHugePageBytes();
  return huge_page_bytes;
}

absl::StatusOr<void*> ReservePages(size_t bytes, size_t alignment) {
  if (bytes == 0) {
    return absl::InvalidArgumentError("a reservation of 0 bytes");
  }
  if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("alignment ", alignment, " is not a power of two"));
  }
  alignment = std::max(alignment, PageBytes());
  const std::optional<size_t> size = RoundUp(bytes, PageBytes());
  const std::optional<size_t> span =
      size.has_value() ? CheckedAdd(*size, alignment - PageBytes())
                       : std::nullopt;
  if (!span.has_value()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a reservation of ", bytes,
                     " bytes is more than the address space holds"));
  }

  // Inaccessible memory is not charged to the process; only the aligned part is
  // when it becomes writable, and that is where a hopeless request is refused.
  void* const found =
      mmap(nullptr, *span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (found == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("mmap of ", *span,
                     " bytes: ", absl::ErrnoToStatus(errno, "").ToString()));
  }
  char* const raw = static_cast<char*>(found);
  const size_t skew = reinterpret_cast<uintptr_t>(raw) & (alignment - 1);
  const size_t head = skew == 0 ? 0 : alignment - skew;
  const size_t tail = *span - head - *size;
  char* const base = raw + head;

  int error = 0;
  if (mprotect(base, *size, PROT_READ | PROT_WRITE) != 0) error = errno;
  if (error == 0 && head != 0 && munmap(raw, head) != 0) error = errno;
  if (error == 0 && tail != 0 && munmap(base + *size, tail) != 0) error = errno;
  if (error != 0) {
    munmap(raw, *span);
    return absl::ResourceExhaustedError(
        absl::StrCat("a reservation of ", *size,
                     " bytes: ", absl::ErrnoToStatus(error, "").ToString()));
  }
  return base;
}

absl::Status ReleasePages(void* base, size_t bytes) {
  const std::optional<size_t> size = RoundUp(bytes, PageBytes());
  if (!size.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a release of ", bytes, " bytes"));
  }
  if (munmap(base, *size) != 0) {
    return SystemError("munmap", base, *size, errno);
  }
  return absl::OkStatus();
}

absl::Status DiscardPages(void* base, size_t bytes) {
  if (madvise(base, bytes, MADV_DONTNEED) != 0) {
    return SystemError("madvise(MADV_DONTNEED)", base, bytes, errno);
  }
  return absl::OkStatus();
}

absl::Status AdviseHuge(void* base, size_t bytes) {
  if (madvise(base, bytes, MADV_HUGEPAGE) == 0) return absl::OkStatus();
  const int error = errno;
  absl::Status status =
      SystemError("madvise(MADV_HUGEPAGE)", base, bytes, error);
  // A kernel without huge pages calls the advice itself invalid.
  if (error == EINVAL) return absl::UnimplementedError(status.message());
  return status;
}

absl::Status Populate(void* base, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  const absl::StatusOr<PageRange> range = PagesOf(base, bytes);
  if (!range.ok()) return range.status();
  while (madvise(range->begin, range->bytes, MADV_POPULATE_WRITE) != 0) {
    const int error = errno;
    if (error == EAGAIN || error == EINTR) continue;
    if (error == EINVAL || error == ENOSYS) {  // Before Linux 5.14.
      Touch(*range);
      return absl::OkStatus();
    }
    return absl::ResourceExhaustedError(
        SystemError("madvise(MADV_POPULATE_WRITE)", range->begin, range->bytes,
                    error)
            .ToString());
  }
  return absl::OkStatus();
}

absl::Status DontFork(void* base, size_t bytes) {
  if (madvise(base, bytes, MADV_DONTFORK) != 0) {
    return SystemError("madvise(MADV_DONTFORK)", base, bytes, errno);
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> ResidentBytes(const void* base, size_t bytes) {
  if (bytes == 0) return size_t{0};
  const absl::StatusOr<PageRange> range = PagesOf(base, bytes);
  if (!range.ok()) return range.status();
  constexpr size_t kPagesAtOnce = 4096;
  unsigned char state[kPagesAtOnce];
  size_t resident = 0;
  for (size_t offset = 0; offset < range->bytes;) {
    const size_t part =
        std::min(range->bytes - offset, kPagesAtOnce * PageBytes());
    if (mincore(range->begin + offset, part, state) != 0) {
      return SystemError("mincore", range->begin + offset, part, errno);
    }
    for (size_t page = 0; page < part / PageBytes(); ++page) {
      if ((state[page] & 1) != 0) resident += PageBytes();
    }
    offset += part;
  }
  return resident;
}

}  // namespace pinring::os
