# Builds the conformance suite, runs all its scenarios natively and with pinring, and prints the table:
#
#   cmake [-DSEEDS=100] [-DSEED=1] [-DPRELOAD=ON] -P cmake/conformance.cmake
#
# With pinring means recompiled with its header; with PRELOAD the native programs themselves under the preload library. On
# the simulated device, unless PINRING_TEST_DRIVER=native is in the environment.
include("${CMAKE_CURRENT_LIST_DIR}/setup.cmake")

if(PRELOAD)
  set(target pinring_preload)
else()
  set(target conformance_pinring)
endif()
pinring_build("conformance_native;${target}" "libabsl-dev:absl/status/status.h;libgtest-dev:gtest/gtest.h"
    "-DPINRING_BUILD_TESTS=ON")
set(libraries "")
if(NOT "$ENV{PINRING_TEST_DRIVER}" STREQUAL "native")
  set(libraries "-DLIBRARIES=${build}/simulated")
endif()
if(PRELOAD)
  set(with "-DPRELOAD=${build}/libpinring_preload.so")
else()
  set(with "-DPINRING=${build}/tests/conformance/conformance_pinring")
endif()
pinring_run_and_exit("${CMAKE_COMMAND}" "-DNATIVE=${build}/tests/conformance/conformance_native" "${with}" ${libraries}
    "-DSEEDS=${SEEDS}" "-DSEED=${SEED}" -P "${root}/tests/conformance/compare.cmake")
