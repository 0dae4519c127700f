# Finds the CUDA headers (cuda.h and cuda_runtime_api.h) and makes the target pinring_cuda_headers. Nothing of CUDA is
# linked: the driver is loaded at run time.
include_guard(GLOBAL)

find_path(PINRING_CUDA_INCLUDE_DIR cuda_runtime_api.h
    HINTS "${CUDAToolkit_ROOT}" ENV CUDAToolkit_ROOT ENV CUDA_PATH ENV CUDA_HOME
    PATHS /usr/local/cuda /opt/cuda
    PATH_SUFFIXES include targets/x86_64-linux/include targets/sbsa-linux/include
    DOC "Directory that holds cuda.h and cuda_runtime_api.h")
if(NOT PINRING_CUDA_INCLUDE_DIR)
  find_package(CUDAToolkit QUIET)
  if(CUDAToolkit_FOUND)
    find_path(PINRING_CUDA_INCLUDE_DIR cuda_runtime_api.h PATHS ${CUDAToolkit_INCLUDE_DIRS} NO_DEFAULT_PATH)
  endif()
endif()
if(NOT EXISTS "${PINRING_CUDA_INCLUDE_DIR}/cuda.h" OR NOT EXISTS "${PINRING_CUDA_INCLUDE_DIR}/cuda_runtime_api.h")
  message(FATAL_ERROR
      "pinring needs the CUDA headers cuda.h and cuda_runtime_api.h of CUDA 11.8 or newer. Install the "
      "CUDA toolkit, or Debian's nvidia-cuda-dev, or pass -DPINRING_CUDA_INCLUDE_DIR=<dir>.")
endif()

file(STRINGS "${PINRING_CUDA_INCLUDE_DIR}/cuda.h" pinring_cuda_version REGEX "#define CUDA_VERSION [0-9]+")
string(REGEX MATCH "[0-9]+" pinring_cuda_version "${pinring_cuda_version}")
if(pinring_cuda_version LESS 11080)
  message(FATAL_ERROR "pinring needs CUDA 11.8 or newer; ${PINRING_CUDA_INCLUDE_DIR}/cuda.h is ${pinring_cuda_version}")
endif()
message(STATUS "CUDA headers: ${PINRING_CUDA_INCLUDE_DIR} (${pinring_cuda_version})")

add_library(pinring_cuda_headers INTERFACE)
target_include_directories(pinring_cuda_headers SYSTEM INTERFACE "${PINRING_CUDA_INCLUDE_DIR}")
