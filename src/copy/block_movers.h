#ifndef PINRING_SRC_COPY_BLOCK_MOVERS_H_
#define PINRING_SRC_COPY_BLOCK_MOVERS_H_

// The inner loops of the copy kernels, one for each set of vector instructions
// and kind of store. Internal to src/copy.

#include <cstddef>

#if defined(__x86_64__) || defined(_M_X64)
#define PINRING_COPY_X86_64 1
#else
#define PINRING_COPY_X86_64 0
#endif

namespace pinring::copy {

#if PINRING_COPY_X86_64

inline constexpr size_t kLineBytes = 64;
inline constexpr size_t kBlockBytes = 256;

// Moves `blocks` blocks. `dst` begins a cache line, `src` need not; the ranges
// do not overlap. Non-temporal movers end with a store fence.
using BlockMover = void (*)(char* dst, const char* src, size_t blocks);

void MoveSse2(char* dst, const char* src, size_t blocks);
void MoveSse2NonTemporal(char* dst, const char* src, size_t blocks);
// The processor must have AVX2.
void MoveAvx2(char* dst, const char* src, size_t blocks);
void MoveAvx2NonTemporal(char* dst, const char* src, size_t blocks);
// The processor must have AVX-512F.
void MoveAvx512(char* dst, const char* src, size_t blocks);
void MoveAvx512NonTemporal(char* dst, const char* src, size_t blocks);

// `rep movsb`: any alignment, any number of bytes.
void MoveStringBytes(void* dst, const void* src, size_t bytes);

// What the processor has and the system saves when it switches threads.
// Moves whole cache lines from this core's own caches to the one that all
// share. Only where CpuFeatures says so.
void DemoteLines(const char* at, size_t lines);

struct CpuFeatures {
  bool avx2;
  bool avx512f;
  bool cldemote;
};
CpuFeatures DetectCpuFeatures();

#endif  // PINRING_COPY_X86_64

}  // namespace pinring::copy

#endif  // PINRING_SRC_COPY_BLOCK_MOVERS_H_
