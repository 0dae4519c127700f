// The kernels that tests launch, the same on a GPU (as PTX) and on the
// simulated device (as host functions).

#ifndef PINRING_TESTS_SUPPORT_TEST_KERNELS_H_
#define PINRING_TESTS_SUPPORT_TEST_KERNELS_H_

#include <cstdint>

#include "src/simcuda/machine.h"

namespace pinring {

// pinring_hold(const uint32_t* flag, uint32_t value): runs until *flag is
//   `value` or has gone past it (cyclically). It reads with acquire loads.
// pinring_fill(uint8_t* dst, uint64_t bytes, uint32_t seed): writes FillByte.
// pinring_add_one(uint32_t* counter): adds one atomically.
inline constexpr char kHoldKernel[] = "pinring_hold";
inline constexpr char kFillKernel[] = "pinring_fill";
inline constexpr char kAddOneKernel[] = "pinring_add_one";

// What pinring_fill writes at `index`; buffers up to 4 GiB.
constexpr uint8_t FillByte(uint32_t seed, uint64_t index) {
  const auto i = static_cast<uint32_t>(index);
  return static_cast<uint8_t>(seed * 31u + i * 7u + (i >> 8) * 13u);
}

// An image for cuModuleLoadData, for devices of compute capability 7.0 on.
extern const char kTestKernelsPtx[];

void RegisterTestKernels(simcuda::Machine& machine);

}  // namespace pinring

#endif  // PINRING_TESTS_SUPPORT_TEST_KERNELS_H_
