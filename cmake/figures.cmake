# Measures on the GPU of this machine everything that README.md's figures say, and writes them as one JSON object:
#
#   cmake [-DOUTPUT=figures.json] [-DONLY=<group>,...] -P cmake/figures.cmake
#
# It takes some minutes and pins up to 8 GiB, to compare with. bench/plot.py draws what was written.
include("${CMAKE_CURRENT_LIST_DIR}/setup.cmake")

if(NOT DEFINED OUTPUT)
  set(OUTPUT figures.json)
endif()
get_filename_component(OUTPUT "${OUTPUT}" ABSOLUTE)
pinring_build(figures "libabsl-dev:absl/status/status.h;libgtest-dev:gtest/gtest.h;libbenchmark-dev:benchmark/benchmark.h"
    "-DPINRING_BUILD_CLI=ON;-DPINRING_BUILD_TESTS=ON;-DPINRING_BUILD_BENCHMARKS=ON")
execute_process(
    COMMAND git describe --always --dirty WORKING_DIRECTORY "${root}" OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_QUIET)
if(NOT DEFINED ENV{PINRING_TEST_DRIVER})
  set(ENV{PINRING_TEST_DRIVER} native)
endif()
set(only "")
if(ONLY)
  set(only "--only=${ONLY}")
endif()
pinring_run_and_exit("${build}/bench/figures" "--commit=${commit}" "--output=${OUTPUT}" ${only})
