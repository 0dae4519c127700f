#include "src/host/staged_block.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "src/os/pages.h"

namespace pinring {

absl::StatusOr<size_t> StagedMappedBytes(size_t bytes) {
  if (bytes == 0) {
    return absl::InvalidArgumentError("a staged block of 0 bytes");
  }
  const std::optional<size_t> mapped = os::RoundUp(bytes, os::PageBytes());
  if (!mapped.has_value()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a staged block of ", bytes, " bytes: the size overflows"));
  }
  return *mapped;
}

absl::StatusOr<StagedPages> AllocateStagedPages(size_t bytes) {
  absl::StatusOr<size_t> mapped = StagedMappedBytes(bytes);
  if (!mapped.ok()) return mapped.status();
  const bool huge = bytes >= kHugeBlockBytes;
  const size_t page = os::PageBytes();
  absl::StatusOr<void*> base =
      os::ReservePages(*mapped, huge ? std::max(page, kHugeBlockBytes) : page);
  if (!base.ok()) return base.status();
  if (huge) {
    // A hint: a system without huge pages gives small ones.
    os::AdviseHuge(*base, *mapped).IgnoreError();
  }
  return StagedPages{.base = *base, .bytes = bytes, .mapped_bytes = *mapped};
}

absl::Status ReleaseStagedPages(const StagedPages& pages) {
  return os::ReleasePages(pages.base, pages.mapped_bytes);
}

}  // namespace pinring
