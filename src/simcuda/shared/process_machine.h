// The machine that a process has behind libcuda.so.1.
//
// Made by the first cuInit, as the environment describes it, and never
// destroyed. When the process ends, hazards that the machine has seen are
// printed on standard error. A child of fork has no machine: every call answers
// that CUDA is not initialized, as natively.

#ifndef PINRING_SRC_SIMCUDA_SHARED_PROCESS_MACHINE_H_
#define PINRING_SRC_SIMCUDA_SHARED_PROCESS_MACHINE_H_

#include <cuda.h>

#include "src/driver/driver.h"
#include "src/simcuda/extra_functions.h"

namespace pinring::simcuda {

// cuInit. CUDA_ERROR_INVALID_VALUE when the environment cannot be read; which
// variable is wrong is said on standard error.
CUresult InitializeProcess(unsigned flags);

// The machine's entry points; null where there is no machine, or, in the child
// of fork, not any more. Thread-safe, takes no lock.
template <typename Table>
const Table* ProcessTable();
template <>
const Driver* ProcessTable<Driver>();
template <>
const ExtraDriver* ProcessTable<ExtraDriver>();

// Whether the machine has, or will have, memory operations in streams.
bool ProcessHasStreamMemoryOperations();

}  // namespace pinring::simcuda

#endif  // PINRING_SRC_SIMCUDA_SHARED_PROCESS_MACHINE_H_
