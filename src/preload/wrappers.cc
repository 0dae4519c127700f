// The functions that stand for the driver's: one wrapper for each row of the
// table, and the symbols that programs link.

#include <cuda.h>
#include <cudaTypedefs.h>

#include "src/preload/entry_points.h"
#include "src/preload/handlers_copy.h"
#include "src/preload/handlers_launch.h"
#include "src/preload/handlers_memory.h"
#include "src/preload/handlers_shapes.h"
#include "src/preload/promote.h"
#include "src/preload/staging.h"
#include "src/preload/table.h"

namespace pinring::preload {
namespace {

// Forms that the header no longer names.
using PFN_cuMemAllocHost_v2000 = CUresult(CUDAAPI*)(void** pointer,
                                                    unsigned bytes);
using PFN_cuMemcpyHtoA_v2000 = CUresult(CUDAAPI*)(CUarray dst, unsigned offset,
                                                  const void* src,
                                                  unsigned bytes);
using PFN_cuMemcpyHtoAAsync_v2000 = CUresult(CUDAAPI*)(CUarray dst,
                                                       unsigned offset,
                                                       const void* src,
                                                       unsigned bytes,
                                                       CUstream stream);
using PFN_cuMemcpyAtoH_v2000 = CUresult(CUDAAPI*)(void* dst, CUarray src,
                                                  unsigned offset,
                                                  unsigned bytes);
using PFN_cuMemcpyAtoHAsync_v2000 = CUresult(CUDAAPI*)(void* dst, CUarray src,
                                                       unsigned offset,
                                                       unsigned bytes,
                                                       CUstream stream);
#if CUDA_VERSION >= 12080 && CUDA_VERSION < 13020
// Forms that it does not name yet.
using PFN_cuMemcpyWithAttributesAsync_v13020 =
    CUresult(CUDAAPI*)(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
                       CUmemcpyAttributes* attributes, CUstream stream);
using PFN_cuMemcpyWithAttributesAsync_v13020_ptsz =
    PFN_cuMemcpyWithAttributesAsync_v13020;
using PFN_cuMemcpy3DWithAttributesAsync_v13020 = CUresult(CUDAAPI*)(
    CUDA_MEMCPY3D_BATCH_OP* box, unsigned long long flags, CUstream stream);
using PFN_cuMemcpy3DWithAttributesAsync_v13020_ptsz =
    PFN_cuMemcpy3DWithAttributesAsync_v13020;
#endif
#if CUDA_VERSION >= 12080 && CUDA_VERSION < 13040
using PFN_cuGraphAddNode_v13040 = PFN_cuGraphAddNode_v12030;
using PFN_cuGraphNodeSetParams_v13040 = PFN_cuGraphNodeSetParams_v12020;
#endif
using PFN_cuMemHostRegister_v4000 = PFN_cuMemHostRegister_v6050;
using PFN_cuTexRefSetAddress2D_v3020 = PFN_cuTexRefSetAddress2D_v4010;

#define PINRING_PRELOAD_ROW(symbol, name, version, action, handler) \
  struct Row_##symbol {                                             \
    using Function = PFN_##name##_v##version;                       \
    using Handler = handler;                                        \
    static constexpr int kIndex = kRow_##symbol;                    \
    [[maybe_unused]] static constexpr bool kPerThread = false;      \
    [[maybe_unused]] static constexpr const char* kName = #symbol;  \
  };
#define PINRING_PRELOAD_TWO_ROWS(symbol, name, version, form, form_version,  \
                                 action, handler)                            \
  struct Row_##symbol {                                                      \
    using Function = PFN_##name##_v##version;                                \
    using Handler = handler;                                                 \
    static constexpr int kIndex = kRow_##symbol;                             \
    [[maybe_unused]] static constexpr bool kPerThread = false;               \
    [[maybe_unused]] static constexpr const char* kName = #symbol;           \
  };                                                                         \
  struct Row_##symbol##_##form {                                             \
    using Function = PFN_##name##_v##form_version##_##form;                  \
    using Handler = handler;                                                 \
    static constexpr int kIndex = kRow_##symbol##_##form;                    \
    [[maybe_unused]] static constexpr bool kPerThread = true;                \
    [[maybe_unused]] static constexpr const char* kName = #symbol "_" #form; \
  };
PINRING_PRELOAD_ROWS(PINRING_PRELOAD_ROW, PINRING_PRELOAD_TWO_ROWS)
#undef PINRING_PRELOAD_ROW
#undef PINRING_PRELOAD_TWO_ROWS

template <typename Row, typename Function = typename Row::Function>
struct Wrapper;
template <typename Row, typename... Arguments>
struct Wrapper<Row, CUresult(CUDAAPI*)(Arguments...)> {
  static CUresult CUDAAPI Call(Arguments... arguments) {
    const auto real = reinterpret_cast<typename Row::Function>(
        EntryPoints::Real(Row::kIndex));
    if (real == nullptr) return CUDA_ERROR_NOT_FOUND;
    if (Passes(__builtin_return_address(0))) return real(arguments...);
    return Row::Handler::template Run<Row>(real, arguments...);
  }
};

}  // namespace

#define PINRING_PRELOAD_WRAPPER(symbol, name, version, action, handler) \
  reinterpret_cast<void*>(&Wrapper<Row_##symbol>::Call),
#define PINRING_PRELOAD_TWO_WRAPPERS(symbol, name, version, form,   \
                                     form_version, action, handler) \
  reinterpret_cast<void*>(&Wrapper<Row_##symbol>::Call),            \
      reinterpret_cast<void*>(&Wrapper<Row_##symbol##_##form>::Call),
void* const kWrappers[] = {PINRING_PRELOAD_ROWS(PINRING_PRELOAD_WRAPPER,
                                                PINRING_PRELOAD_TWO_WRAPPERS)};
#undef PINRING_PRELOAD_WRAPPER
#undef PINRING_PRELOAD_TWO_WRAPPERS

}  // namespace pinring::preload

// The symbols: jumps, so that a wrapper sees who called.
#if defined(__x86_64__)
#define PINRING_PRELOAD_JUMP(variable) "endbr64\njmp *" variable "(%rip)\n"
#define PINRING_PRELOAD_FUNCTION "@function"
#else
#define PINRING_PRELOAD_JUMP(variable)                                \
  "hint #34\nadrp x16, " variable "\nldr x16, [x16, #:lo12:" variable \
  "]\nbr x16\n"
#define PINRING_PRELOAD_FUNCTION "%function"
#endif

#define PINRING_PRELOAD_SYMBOL(row, variable, name, variable_name)        \
  extern "C" __attribute__((                                              \
      visibility("hidden"),                                               \
      used)) constinit const pinring::preload::row::Function variable =   \
      &pinring::preload::Wrapper<pinring::preload::row>::Call;            \
  asm(".text\n.globl " name "\n.type " name ", " PINRING_PRELOAD_FUNCTION \
      "\n.p2align 4\n" name ":\n.cfi_startproc\n" PINRING_PRELOAD_JUMP(   \
          variable_name) ".cfi_endproc\n.size " name ", .-" name "\n");
#define PINRING_PRELOAD_EXPORT(symbol, name, version, action, handler)    \
  PINRING_PRELOAD_SYMBOL(Row_##symbol, pinring_preload_##symbol, #symbol, \
                         "pinring_preload_" #symbol)
#define PINRING_PRELOAD_EXPORT_TWO(symbol, name, version, form, form_version,  \
                                   action, handler)                            \
  PINRING_PRELOAD_SYMBOL(Row_##symbol, pinring_preload_##symbol, #symbol,      \
                         "pinring_preload_" #symbol)                           \
  PINRING_PRELOAD_SYMBOL(Row_##symbol##_##form,                                \
                         pinring_preload_##symbol##_##form, #symbol "_" #form, \
                         "pinring_preload_" #symbol "_" #form)
PINRING_PRELOAD_ROWS(PINRING_PRELOAD_EXPORT, PINRING_PRELOAD_EXPORT_TWO)
