# Finds the CUDA headers (cuda.h and cuda_runtime_api.h): sets PINRING_CUDA_INCLUDE_DIR, and pinring_cuda_problem to what
# is wrong or to an empty value. Nothing of CUDA is linked: the driver is loaded at run time. The installed package
# finds them in the same way.

# A cross build uses the build machine's headers if the target's root has none: they are the same for every system.
find_path(PINRING_CUDA_INCLUDE_DIR cuda_runtime_api.h
    HINTS ${CUDAToolkit_INCLUDE_DIRS} "${CUDAToolkit_ROOT}" ENV CUDAToolkit_ROOT ENV CUDA_PATH ENV CUDA_HOME
    PATHS /usr/local/cuda /opt/cuda
    PATH_SUFFIXES include targets/x86_64-linux/include targets/sbsa-linux/include
    DOC "Directory that holds cuda.h and cuda_runtime_api.h"
    CMAKE_FIND_ROOT_PATH_BOTH)
if(NOT PINRING_CUDA_INCLUDE_DIR)
  find_package(CUDAToolkit QUIET)
  if(CUDAToolkit_FOUND)
    find_path(PINRING_CUDA_INCLUDE_DIR cuda_runtime_api.h PATHS ${CUDAToolkit_INCLUDE_DIRS} NO_DEFAULT_PATH)
  endif()
endif()

set(pinring_cuda_problem "")
if(EXISTS "${PINRING_CUDA_INCLUDE_DIR}/cuda.h" AND EXISTS "${PINRING_CUDA_INCLUDE_DIR}/cuda_runtime_api.h")
  file(STRINGS "${PINRING_CUDA_INCLUDE_DIR}/cuda.h" pinring_cuda_version REGEX "#define CUDA_VERSION [0-9]+")
  string(REGEX MATCH "[0-9]+" pinring_cuda_version "${pinring_cuda_version}")
  if(pinring_cuda_version LESS 11080)
    set(pinring_cuda_problem
        "pinring needs CUDA 11.8 or newer; ${PINRING_CUDA_INCLUDE_DIR}/cuda.h is ${pinring_cuda_version}")
  endif()
else()
  string(CONCAT pinring_cuda_problem
      "pinring needs the CUDA headers cuda.h and cuda_runtime_api.h of CUDA 11.8 or newer. Install the CUDA toolkit, or "
      "Debian's nvidia-cuda-dev, or pass -DPINRING_CUDA_INCLUDE_DIR=<dir>.")
endif()
