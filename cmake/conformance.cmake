# Builds the conformance suite, runs all its scenarios natively and with pinring, and prints the table:
#
#   cmake [-DSEEDS=100] [-DSEED=1] -P cmake/conformance.cmake
#
# On the simulated device, unless PINRING_TEST_DRIVER=native is in the environment.
include("${CMAKE_CURRENT_LIST_DIR}/setup.cmake")

pinring_build("conformance_native;conformance_pinring" "libabsl-dev:absl/status/status.h;libgtest-dev:gtest/gtest.h"
    "-DPINRING_BUILD_TESTS=ON")
set(libraries "")
if(NOT "$ENV{PINRING_TEST_DRIVER}" STREQUAL "native")
  set(libraries "-DLIBRARIES=${build}/simulated")
endif()
pinring_run_and_exit("${CMAKE_COMMAND}" "-DNATIVE=${build}/tests/conformance/conformance_native"
    "-DPINRING=${build}/tests/conformance/conformance_pinring" ${libraries} "-DSEEDS=${SEEDS}" "-DSEED=${SEED}"
    -P "${root}/tests/conformance/compare.cmake")
