#include "src/copy/kernels.h"

#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "src/copy/block_movers.h"

#if defined(__SANITIZE_ADDRESS__)
#define PINRING_COPY_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define PINRING_COPY_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PINRING_COPY_ASAN 1
#elif __has_feature(thread_sanitizer)
#define PINRING_COPY_TSAN 1
#endif
#endif

#if defined(PINRING_COPY_ASAN)
extern "C" void* __asan_region_is_poisoned(void* begin, size_t bytes);
#elif defined(PINRING_COPY_TSAN)
extern "C" void __tsan_read_range(void* begin, unsigned long bytes);
extern "C" void __tsan_write_range(void* begin, unsigned long bytes);
#endif

namespace pinring::copy {
namespace {

// Sanitizers do not see what the movers' instructions read and write, or only
// half of it. This shows them; false when memcpy should run into an error that
// the address sanitizer reports best itself.
bool ShowSanitizers([[maybe_unused]] void* dst,
                    [[maybe_unused]] const void* src,
                    [[maybe_unused]] size_t bytes) {
#if defined(PINRING_COPY_ASAN)
  return __asan_region_is_poisoned(dst, bytes) == nullptr &&
         __asan_region_is_poisoned(const_cast<void*>(src), bytes) == nullptr;
#elif defined(PINRING_COPY_TSAN)
  __tsan_read_range(const_cast<void*>(src), bytes);
  __tsan_write_range(dst, bytes);
  return true;
#else
  return true;
#endif
}

void CopyByLibrary(void* dst, const void* src, size_t bytes) {
  // Null pointers are fine for 0 bytes here, but not for memcpy.
  if (bytes != 0) std::memcpy(dst, src, bytes);
}

#if PINRING_COPY_X86_64

// Lets `Mover` move the whole blocks from the first cache line of the
// destination on, and memcpy the edges.
template <BlockMover Mover>
void CopyByBlocks(void* dst, const void* src, size_t bytes) {
  if (bytes < kKernelMinBytes || !ShowSanitizers(dst, src, bytes)) {
    CopyByLibrary(dst, src, bytes);
    return;
  }
  char* to = static_cast<char*>(dst);
  const char* from = static_cast<const char*>(src);
  const size_t head =
      (kLineBytes - reinterpret_cast<uintptr_t>(to) % kLineBytes) % kLineBytes;
  const size_t blocks = (bytes - head) / kBlockBytes;
  const size_t middle = blocks * kBlockBytes;
  std::memcpy(to, from, head);
  Mover(to + head, from + head, blocks);
  std::memcpy(to + head + middle, from + head + middle, bytes - head - middle);
}

void CopyByMovsb(void* dst, const void* src, size_t bytes) {
  if (bytes < kKernelMinBytes || !ShowSanitizers(dst, src, bytes)) {
    CopyByLibrary(dst, src, bytes);
    return;
  }
  MoveStringBytes(dst, src, bytes);
}

#endif

struct KernelTable {
  KernelTable() {
#if PINRING_COPY_X86_64
    const CpuFeatures cpu = DetectCpuFeatures();
    Add("avx512", StoreKind::kPlain, cpu.avx512f, CopyByBlocks<MoveAvx512>);
    Add("avx2", StoreKind::kPlain, cpu.avx2, CopyByBlocks<MoveAvx2>);
    Add("sse2", StoreKind::kPlain, true, CopyByBlocks<MoveSse2>);
    Add("movsb", StoreKind::kPlain, true, CopyByMovsb);
    Add("avx512-nt", StoreKind::kNonTemporal, cpu.avx512f,
        CopyByBlocks<MoveAvx512NonTemporal>);
    Add("avx2-nt", StoreKind::kNonTemporal, cpu.avx2,
        CopyByBlocks<MoveAvx2NonTemporal>);
    Add("sse2-nt", StoreKind::kNonTemporal, true,
        CopyByBlocks<MoveSse2NonTemporal>);
#endif
    Add("memcpy", StoreKind::kLibrary, true, CopyByLibrary);
  }

  void Add(const char* name, StoreKind stores, bool supported,
           void (*copy)(void*, const void*, size_t)) {
    kernels[count++] = {name, stores, supported, copy};
  }

  // The first of `wanted` that this processor can run; memcpy where there is
  // none.
  const Kernel* Best(StoreKind wanted) const {
    for (size_t i = 0; i < count; ++i) {
      if (kernels[i].stores == wanted && kernels[i].supported) {
        return &kernels[i];
      }
    }
    return &kernels[count - 1];
  }

  Kernel kernels[8];
  size_t count = 0;
};

// Never changes: it says what the processor is.
const KernelTable& Table() {
  static const KernelTable table;
  return table;
}

}  // namespace

absl::Span<const Kernel> AllKernels() {
  return absl::MakeConstSpan(Table().kernels, Table().count);
}

absl::StatusOr<const Kernel*> FindKernel(absl::string_view name) {
  std::string names;
  for (const Kernel& kernel : AllKernels()) {
    if (name == kernel.name) {
      if (kernel.supported) return &kernel;
      return absl::UnimplementedError(absl::StrCat(
          "this processor cannot run the copy kernel \"", name, "\""));
    }
    if (kernel.supported) {
      absl::StrAppend(&names, names.empty() ? "" : ", ", kernel.name);
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no copy kernel \"", name, "\"; there are ", names));
}

KernelSet::KernelSet()
    : in_(Table().Best(StoreKind::kPlain)),
      out_(Table().Best(StoreKind::kNonTemporal)) {}

absl::StatusOr<KernelSet> KernelSet::ByName(absl::string_view in_name,
                                            absl::string_view out_name) {
  KernelSet set;
  if (!in_name.empty()) {
    const absl::StatusOr<const Kernel*> in = FindKernel(in_name);
    if (!in.ok()) return in.status();
    set.in_ = *in;
  }
  if (!out_name.empty()) {
    const absl::StatusOr<const Kernel*> out = FindKernel(out_name);
    if (!out.ok()) return out.status();
    set.out_ = *out;
  }
  return set;
}

void HandOver([[maybe_unused]] const void* slot,
              [[maybe_unused]] size_t bytes) {
#if PINRING_COPY_X86_64
  static const bool can = DetectCpuFeatures().cldemote;
  if (!can || bytes == 0) return;
  const auto* const at = static_cast<const char*>(slot);
  const char* const line = at - reinterpret_cast<uintptr_t>(at) % kLineBytes;
  DemoteLines(line, (static_cast<size_t>(at - line) + bytes + kLineBytes - 1) /
                        kLineBytes);
#endif
}

void CopyIn(void* slot, const void* src, size_t bytes) {
  static const KernelSet best;
  best.CopyIn(slot, src, bytes);
}

void CopyOut(void* dst, const void* slot, size_t bytes) {
  static const KernelSet best;
  best.CopyOut(dst, slot, bytes);
}

}  // namespace pinring::copy
