# Builds pinring and runs its demo, from a bare clone:
#
#   cmake [-DSIZE=8GiB] -P cmake/demo.cmake
include("${CMAKE_CURRENT_LIST_DIR}/setup.cmake")

# The demo needs no shared library, for which Abseil would be built from source. A folder that has been configured
# before, such as by check.cmake, keeps what it has.
set(shared "")
if(NOT EXISTS "${build}/CMakeCache.txt")
  set(shared "-DPINRING_SHARED=OFF;")
endif()
pinring_build(pinring_cli_program "libabsl-dev:absl/status/status.h"
    "${shared}-DPINRING_BUILD_CLI=ON;-DPINRING_BUILD_TESTS=OFF;-DPINRING_BUILD_BENCHMARKS=OFF;-DPINRING_BUILD_EXAMPLES=OFF")
if(DEFINED SIZE)
  set(size "--size=${SIZE}")
endif()
pinring_run_and_exit("${build}/pinring" demo ${size})
