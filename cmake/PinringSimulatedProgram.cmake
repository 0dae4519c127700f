# Whole, unchanged CUDA programs on the simulated device (src/simcuda/shared): CTest entries that run them with its
# libraries in place of NVIDIA's.
include_guard(GLOBAL)

# pinring_simulated_program_test(<name> [LABELS <label>...] [TIMEOUT <seconds>] [ENVIRONMENT <VAR=value>...]
#                                COMMAND <program> <argument>...)
#
# The program is one that is linked with NVIDIA's shared runtime (CUDA::cudart), its driver library, or neither: it finds
# libcuda.so.1 and libcudart.so.<major> in LD_LIBRARY_PATH. It fails also when the device has seen a DMA hazard, which
# ENVIRONMENT can change, as it can everything that src/simcuda/shared/machine_options.h names. Where the simulated
# libraries are not built the entry says why, and that it is skipped. A build that was configured with
# PINRING_TEST_DRIVER=native in the environment runs it on NVIDIA's libraries.
function(pinring_simulated_program_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "LABELS;ENVIRONMENT;COMMAND")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_COMMAND)
    message(FATAL_ERROR "pinring_simulated_program_test(${name}): no COMMAND, or unexpected ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT TARGET pinring_simulated_cudart)
    if(NOT PINRING_SIMULATED_MISSING)
      set(PINRING_SIMULATED_MISSING "the simulated libraries are not part of this build")
    endif()
    add_test(NAME ${name} COMMAND "${CMAKE_COMMAND}" -E echo "Skipped: ${PINRING_SIMULATED_MISSING}")
    set_tests_properties(${name} PROPERTIES SKIP_REGULAR_EXPRESSION "^Skipped: " LABELS "${arg_LABELS}")
    return()
  endif()

  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT ${PINRING_TEST_TIMEOUT})
  endif()
  pinring_add_test(${name} ENVIRONMENT PINRING_SIMCUDA_FAIL_ON_HAZARD=1 ${arg_ENVIRONMENT} COMMAND ${arg_COMMAND})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}")
  if(NOT "$ENV{PINRING_TEST_DRIVER}" STREQUAL "native")
    set_tests_properties(${name} PROPERTIES
        ENVIRONMENT_MODIFICATION "LD_LIBRARY_PATH=path_list_prepend:${PINRING_SIMULATED_LIBRARY_DIR}")
  endif()
  list(GET arg_COMMAND 0 program)
  if(TARGET ${program})
    add_dependencies(${program} pinring_simulated_cuda pinring_simulated_cudart)
  endif()
endfunction()
