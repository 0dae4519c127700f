// What a fuzzed program calls for its host memory, two ways: pinring's C
// functions, and the driver with really pinned memory, as the CUDA runtime
// would call it. Whatever the second answers and does is what the first should.

#ifndef PINRING_TESTS_FUZZ_CALLS_H_
#define PINRING_TESTS_FUZZ_CALLS_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>

#include "src/driver/driver.h"
#include "tests/fuzz/operation.h"

namespace pinring::fuzz {

class Calls {
 public:
  virtual ~Calls() = default;
  virtual cudaError_t Alloc(void** pointer, size_t bytes, unsigned flags) = 0;
  virtual cudaError_t Free(void* pointer) = 0;
  virtual cudaError_t Register(void* pointer, size_t bytes) = 0;
  virtual cudaError_t Unregister(void* pointer) = 0;
  // dst and src are where the copy's first bytes lie.
  virtual cudaError_t CopyBytes(const Copy& copy, void* dst, const void* src,
                                CUstream stream) = 0;
  // Rows between memory and an array, which is the destination or not.
  virtual cudaError_t CopyArray(const Copy& copy, CUarray array, bool to,
                                void* memory, CUstream stream) = 0;
  virtual cudaError_t Memset(void* dst, int value, size_t bytes, bool wait,
                             CUstream stream) = 0;
  virtual cudaError_t Promote(void* pointer) = 0;
  virtual cudaError_t DevicePointer(void** device_pointer, void* pointer) = 0;
  virtual cudaError_t Attributes(cudaPointerAttributes* attributes,
                                 const void* pointer) = 0;
  virtual cudaError_t HostFlags(unsigned* flags, void* pointer) = 0;
};

class LibraryCalls final : public Calls {
 public:
  cudaError_t Alloc(void** pointer, size_t bytes, unsigned flags) override;
  cudaError_t Free(void* pointer) override;
  cudaError_t Register(void* pointer, size_t bytes) override;
  cudaError_t Unregister(void* pointer) override;
  cudaError_t CopyBytes(const Copy& copy, void* dst, const void* src,
                        CUstream stream) override;
  cudaError_t CopyArray(const Copy& copy, CUarray array, bool to, void* memory,
                        CUstream stream) override;
  cudaError_t Memset(void* dst, int value, size_t bytes, bool wait,
                     CUstream stream) override;
  cudaError_t Promote(void* pointer) override;
  cudaError_t DevicePointer(void** device_pointer, void* pointer) override;
  cudaError_t Attributes(cudaPointerAttributes* attributes,
                         const void* pointer) override;
  cudaError_t HostFlags(unsigned* flags, void* pointer) override;
};

class NativeCalls final : public Calls {
 public:
  explicit NativeCalls(const Driver& driver) : driver_(driver) {}
  cudaError_t Alloc(void** pointer, size_t bytes, unsigned flags) override;
  cudaError_t Free(void* pointer) override;
  cudaError_t Register(void* pointer, size_t bytes) override;
  cudaError_t Unregister(void* pointer) override;
  cudaError_t CopyBytes(const Copy& copy, void* dst, const void* src,
                        CUstream stream) override;
  cudaError_t CopyArray(const Copy& copy, CUarray array, bool to, void* memory,
                        CUstream stream) override;
  cudaError_t Memset(void* dst, int value, size_t bytes, bool wait,
                     CUstream stream) override;
  cudaError_t Promote(void* pointer) override;
  cudaError_t DevicePointer(void** device_pointer, void* pointer) override;
  cudaError_t Attributes(cudaPointerAttributes* attributes,
                         const void* pointer) override;
  cudaError_t HostFlags(unsigned* flags, void* pointer) override;

 private:
  CUcontext Context() const;
  CUresult CopyRows(const Copy& copy, void* dst, const void* src,
                    CUstream stream);

  const Driver& driver_;
};

}  // namespace pinring::fuzz

#endif  // PINRING_TESTS_FUZZ_CALLS_H_
