// Functions of the runtime that are not simulated. No CUDA header here: see
// runtime_missing.cc.

#ifndef PINRING_SRC_SIMCUDA_SHARED_RUNTIME_MISSING_H_
#define PINRING_SRC_SIMCUDA_SHARED_RUNTIME_MISSING_H_

#include <atomic>

namespace pinring::simcudart {

// cudaErrorNotSupported, kept as the calling thread's last error. The first
// call of each function says on standard error that it is not simulated.
int NotSimulated(const char* function, std::atomic<bool>* said);

}  // namespace pinring::simcudart

#endif  // PINRING_SRC_SIMCUDA_SHARED_RUNTIME_MISSING_H_
