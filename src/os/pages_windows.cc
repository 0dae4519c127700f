#include <windows.h>
// psapi.h needs windows.h before it.
#include <psapi.h>
#include <stdint.h>

#include <algorithm>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "src/os/pages.h"
#include "src/os/text_windows.h"

namespace pinring::os {
namespace {

absl::Status Refused(const char* call, size_t bytes, DWORD error) {
  return absl::ResourceExhaustedError(
      absl::StrCat(call, " of ", bytes, " bytes: ", WindowsErrorText(error)));
}

// A reservation begins at a multiple of this, and the rest of the last one is
// lost: 64 KiB.
size_t ReservationBytes() {
  static const size_t reservation_bytes = [] {
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return static_cast<size_t>(info.dwAllocationGranularity);
  }();
  return reservation_bytes;
}

// The end of a range, rounded up to a page.
absl::StatusOr<uintptr_t> EndOf(const void* base, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(base);
  std::optional<size_t> end = CheckedAdd(begin, bytes);
  if (end.has_value()) end = RoundUp(*end, PageBytes());
  if (!end.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a range of ", bytes, " bytes at 0x", absl::Hex(begin),
                     " leaves the address space"));
  }
  return *end;
}

// How many of the pages in [page, end), all reserved, are resident.
absl::StatusOr<size_t> ResidentPages(uintptr_t page, uintptr_t end) {
  constexpr size_t kPagesAtOnce = 1024;
  PSAPI_WORKING_SET_EX_INFORMATION pages[kPagesAtOnce];
  size_t resident = 0;
  while (page < end) {
    size_t count = 0;
    for (; count < kPagesAtOnce && page < end; ++count, page += PageBytes()) {
      pages[count] = {};
      pages[count].VirtualAddress = reinterpret_cast<void*>(page);
    }
    if (K32QueryWorkingSetEx(GetCurrentProcess(), pages,
                             static_cast<DWORD>(count * sizeof pages[0])) ==
        0) {
      return absl::InternalError(absl::StrCat(
          "QueryWorkingSetEx: ", WindowsErrorText(GetLastError())));
    }
    for (size_t i = 0; i < count; ++i) {
      if (pages[i].VirtualAttributes.Valid) ++resident;
    }
  }
  return resident;
}

}  // namespace

size_t PageBytes() {
  static const size_t page_bytes = [] {
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return static_cast<size_t>(info.dwPageSize);
  }();
  return page_bytes;
}

size_t HugePageBytes() {
  static const size_t huge_page_bytes = [] {
    const size_t reported = GetLargePageMinimum();
    return reported != 0 ? reported : size_t{2} << 20;
  }();
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
      size.has_value() ? CheckedAdd(*size, alignment) : std::nullopt;
  if (!span.has_value()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a reservation of ", bytes,
                     " bytes is more than the address space holds"));
  }

  constexpr DWORD kMemory = MEM_RESERVE | MEM_COMMIT;
  if (alignment <= ReservationBytes()) {
    void* const base = VirtualAlloc(nullptr, *size, kMemory, PAGE_READWRITE);
    if (base == nullptr) return Refused("VirtualAlloc", *size, GetLastError());
    return base;
  }
  // A reservation cannot be trimmed: find a place that holds the aligned range,
  // give it back and ask for exactly that range. Another thread may take the
  // place in between; then look again.
  constexpr int kAttempts = 64;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    void* const place =
        VirtualAlloc(nullptr, *span, MEM_RESERVE, PAGE_NOACCESS);
    if (place == nullptr) return Refused("VirtualAlloc", *span, GetLastError());
    const uintptr_t aligned =
        (reinterpret_cast<uintptr_t>(place) + alignment - 1) &
        ~static_cast<uintptr_t>(alignment - 1);
    if (VirtualFree(place, 0, MEM_RELEASE) == 0) {
      return Refused("VirtualFree", *span, GetLastError());
    }
    void* const base = VirtualAlloc(reinterpret_cast<void*>(aligned), *size,
                                    kMemory, PAGE_READWRITE);
    if (base != nullptr) return base;
    const DWORD error = GetLastError();
    if (error != ERROR_INVALID_ADDRESS) {
      return Refused("VirtualAlloc", *size, error);
    }
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("no place for ", *size, " bytes aligned to ", alignment));
}

absl::Status ReleasePages(void* base, size_t bytes) {
  // VirtualFree is content with any address within the first page.
  MEMORY_BASIC_INFORMATION region = {};
  if (VirtualQuery(base, &region, sizeof region) == 0 ||
      region.AllocationBase != base) {
    return absl::InvalidArgumentError(
        absl::StrCat("a release of ", bytes, " bytes at 0x",
                     absl::Hex(reinterpret_cast<uintptr_t>(base)),
                     ", where no reservation begins"));
  }
  if (VirtualFree(base, 0, MEM_RELEASE) == 0) {
    return Refused("VirtualFree", bytes, GetLastError());
  }
  return absl::OkStatus();
}

absl::Status DiscardPages(void* base, size_t bytes) {
  if (VirtualAlloc(base, bytes, MEM_RESET, PAGE_READWRITE) == nullptr) {
    return Refused("VirtualAlloc(MEM_RESET)", bytes, GetLastError());
  }
  return absl::OkStatus();
}

absl::Status AdviseHuge(void* /*base*/, size_t /*bytes*/) {
  return absl::UnimplementedError(
      "Windows gives huge pages only to privileged, locked memory");
}

absl::Status Populate(void* base, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  const absl::StatusOr<uintptr_t> end = EndOf(base, bytes);
  if (!end.ok()) return end.status();
  // Adding zero is atomic, so that no concurrent write is undone. Committed
  // memory exists: there is no failure to report.
  for (uintptr_t page =
           RoundDown(reinterpret_cast<uintptr_t>(base), PageBytes());
       page < *end; page += PageBytes()) {
    InterlockedExchangeAdd(reinterpret_cast<volatile LONG*>(page), 0);
  }
  return absl::OkStatus();
}

absl::Status DontFork(void* /*base*/, size_t /*bytes*/) {
  return absl::OkStatus();  // There is no fork.
}

absl::StatusOr<size_t> ResidentBytes(const void* base, size_t bytes) {
  if (bytes == 0) return size_t{0};
  const absl::StatusOr<uintptr_t> end = EndOf(base, bytes);
  if (!end.ok()) return end.status();
  size_t resident = 0;
  // The working set says of memory that is not there that it is not resident.
  for (uintptr_t page =
           RoundDown(reinterpret_cast<uintptr_t>(base), PageBytes());
       page < *end;) {
    MEMORY_BASIC_INFORMATION region = {};
    if (VirtualQuery(reinterpret_cast<void*>(page), &region, sizeof region) ==
            0 ||
        region.State == MEM_FREE) {
      return absl::NotFoundError(
          absl::StrCat("there is no memory at 0x", absl::Hex(page)));
    }
    const uintptr_t region_end =
        std::min(*end, reinterpret_cast<uintptr_t>(region.BaseAddress) +
                           region.RegionSize);
    if (region.State == MEM_COMMIT) {
      const absl::StatusOr<size_t> pages = ResidentPages(page, region_end);
      if (!pages.ok()) return pages.status();
      resident += *pages * PageBytes();
    }
    page = region_end;
  }
  return resident;
}

}  // namespace pinring::os
