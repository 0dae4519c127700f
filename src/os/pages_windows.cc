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

namespace pinring::os {
namespace {

absl::Status Refused(const char* call, size_t bytes, DWORD error) {
  return absl::ResourceExhaustedError(
      absl::StrCat(call, " of ", bytes, " bytes: Windows error ", error));
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
    VirtualFree(place, 0, MEM_RELEASE);
    void* const base = VirtualAlloc(reinterpret_cast<void*>(aligned), *size,
                                    MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    if (base != nullptr) return base;
    const DWORD error = GetLastError();
    if (error != ERROR_INVALID_ADDRESS) {
      return Refused("VirtualAlloc", *size, error);
    }
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("no place for ", *size, " bytes aligned to ", alignment));
}

absl::Status ReleasePages(void* base, size_t /*bytes*/) {
  if (VirtualFree(base, 0, MEM_RELEASE) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("VirtualFree: Windows error ", GetLastError()));
  }
  return absl::OkStatus();
}

absl::Status AdviseHuge(void* /*base*/, size_t /*bytes*/) {
  return absl::UnimplementedError(
      "Windows gives huge pages only to privileged, locked memory");
}

absl::Status Populate(void* base, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  const auto begin = reinterpret_cast<uintptr_t>(base);
  const std::optional<size_t> end = CheckedAdd(begin, bytes);
  if (!end.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a range of ", bytes, " bytes leaves the address space"));
  }
  // Adding zero is atomic, so that no concurrent write is undone. Committed
  // memory exists: there is no failure to report.
  for (uintptr_t page = RoundDown(begin, PageBytes()); page < *end;
       page += PageBytes()) {
    InterlockedExchangeAdd(reinterpret_cast<volatile LONG*>(page), 0);
  }
  return absl::OkStatus();
}

absl::Status DontFork(void* /*base*/, size_t /*bytes*/) {
  return absl::OkStatus();  // There is no fork.
}

absl::StatusOr<size_t> ResidentBytes(const void* base, size_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(base);
  const std::optional<size_t> end = CheckedAdd(begin, bytes);
  if (!end.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a range of ", bytes, " bytes leaves the address space"));
  }
  constexpr size_t kPagesAtOnce = 1024;
  PSAPI_WORKING_SET_EX_INFORMATION pages[kPagesAtOnce];
  size_t resident = 0;
  for (uintptr_t page = RoundDown(begin, PageBytes()); page < *end;) {
    size_t count = 0;
    for (; count < kPagesAtOnce && page < *end; ++count, page += PageBytes()) {
      pages[count].VirtualAddress = reinterpret_cast<void*>(page);
    }
    if (K32QueryWorkingSetEx(GetCurrentProcess(), pages,
                             static_cast<DWORD>(count * sizeof pages[0])) ==
        0) {
      return absl::InternalError(
          absl::StrCat("QueryWorkingSetEx: Windows error ", GetLastError()));
    }
    for (size_t i = 0; i < count; ++i) {
      if (pages[i].VirtualAttributes.Valid) resident += PageBytes();
    }
  }
  return resident;
}

}  // namespace pinring::os
