// Names and texts of the codes that the simulated driver answers with.

#ifndef PINRING_SRC_SIMCUDA_ERRORS_H_
#define PINRING_SRC_SIMCUDA_ERRORS_H_

#include <cuda.h>

namespace pinring::simcuda {

// Null for a code that is none.
const char* ErrorName(CUresult code);
const char* ErrorText(CUresult code);

}  // namespace pinring::simcuda

#endif  // PINRING_SRC_SIMCUDA_ERRORS_H_
