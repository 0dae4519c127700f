// What the programs of this folder share. They are ordinary CUDA programs,
// which would run on a GPU as they are: nothing of simcuda is visible to them.

#ifndef PINRING_TESTS_SIMCUDA_PROGRAMS_TEST_PROGRAM_H_
#define PINRING_TESTS_SIMCUDA_PROGRAMS_TEST_PROGRAM_H_

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <vector>

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, \
                   #condition);                                       \
      std::exit(1);                                                   \
    }                                                                 \
  } while (false)

// Of the runtime: the call answers exactly this code.
#define CHECK_CODE(expected, call)                                         \
  do {                                                                     \
    const cudaError_t check_got = (call);                                  \
    const cudaError_t check_expected = (expected);                         \
    if (check_got != check_expected) {                                     \
      std::fprintf(stderr, "%s:%d: %s answered %d (%s), not %d (%s)\n",    \
                   __FILE__, __LINE__, #call, static_cast<int>(check_got), \
                   cudaGetErrorName(check_got),                            \
                   static_cast<int>(check_expected),                       \
                   cudaGetErrorName(check_expected));                      \
      std::exit(1);                                                        \
    }                                                                      \
  } while (false)

#define CHECK_OK(call) CHECK_CODE(cudaSuccess, call)

// A call that fails, and leaves its code behind as the last error.
#define CHECK_FAILS(expected, call)              \
  do {                                           \
    CHECK_CODE(expected, call);                  \
    CHECK_CODE(expected, cudaPeekAtLastError()); \
    CHECK_CODE(expected, cudaGetLastError());    \
    CHECK_CODE(cudaSuccess, cudaGetLastError()); \
  } while (false)

// Of the driver.
#define CHECK_CU(expected, call)                                            \
  do {                                                                      \
    const int check_got = static_cast<int>(call);                           \
    if (check_got != static_cast<int>(expected)) {                          \
      std::fprintf(stderr, "%s:%d: %s answered %d, not %d\n", __FILE__,     \
                   __LINE__, #call, check_got, static_cast<int>(expected)); \
      std::exit(1);                                                         \
    }                                                                       \
  } while (false)

// Bytes that no two seeds, and no two places, have in common for long.
inline char ByteAt(uint64_t seed, size_t at) {
  uint64_t x = seed * 0x9e3779b97f4a7c15u + at;
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9u;
  return static_cast<char>(x >> 56);
}

inline void Fill(char* bytes, size_t count, uint64_t seed) {
  for (size_t i = 0; i < count; ++i) bytes[i] = ByteAt(seed, i);
}

// Whether the bytes are those of Fill, from `from` on.
inline bool Holds(const char* bytes, size_t count, uint64_t seed,
                  size_t from = 0) {
  for (size_t i = 0; i < count; ++i) {
    if (bytes[i] == ByteAt(seed, from + i)) continue;
    std::fprintf(stderr, "byte %zu of %zu is wrong\n", i, count);
    return false;
  }
  return true;
}

// Holds a stream until it is opened. Outlives what the stream has enqueued.
class Gate {
 public:
  void Hold(cudaStream_t stream) {
    CHECK_OK(cudaLaunchHostFunc(stream, &Gate::Wait, this));
  }
  void Open() {
    std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }

 private:
  static void CUDART_CB Wait(void* gate) {
    auto* self = static_cast<Gate*>(gate);
    std::unique_lock<std::mutex> lock(self->mutex_);
    self->opened_.wait(lock, [self] { return self->open_; });
  }

  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

#endif  // PINRING_TESTS_SIMCUDA_PROGRAMS_TEST_PROGRAM_H_
