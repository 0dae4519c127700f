# Fails unless AFTER is BEFORE with one include replaced.
file(READ "${BEFORE}" before)
file(READ "${AFTER}" after)
string(REPLACE "#include <cuda_runtime.h>" "#include <pinring/cuda_compat.h>" swapped "${before}")
if(swapped STREQUAL before OR NOT swapped STREQUAL after)
  message(FATAL_ERROR "${AFTER} is not ${BEFORE} with <pinring/cuda_compat.h> for <cuda_runtime.h>")
endif()
