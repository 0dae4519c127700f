# Builds pinring with its tests and runs them all, from a bare clone:
#
#   cmake -P cmake/check.cmake
#
# Tests that need a GPU say that they are skipped where there is none.
include("${CMAKE_CURRENT_LIST_DIR}/setup.cmake")

pinring_build(all "libabsl-dev:absl/status/status.h;libgtest-dev:gtest/gtest.h;libbenchmark-dev:benchmark/benchmark.h"
    "-DPINRING_SHARED=ON;-DPINRING_BUILD_CLI=ON;-DPINRING_BUILD_TESTS=ON;-DPINRING_BUILD_BENCHMARKS=ON;-DPINRING_BUILD_EXAMPLES=ON")
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
pinring_run_and_exit("${CMAKE_CTEST_COMMAND}" --test-dir "${build}" --output-on-failure --no-tests=error
    --no-label-summary --parallel ${cores} --output-junit "${build}/check.xml")
