# The functions that declare pinring's layers, programs, tests and benchmarks.
include_guard(GLOBAL)

set(PINRING_TEST_TIMEOUT 120 CACHE STRING "Seconds that a test program may take unless it says otherwise")

# Gives `target` the language level, warnings and include path that all of pinring's own code is built with.
function(pinring_compile_settings target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES
      CXX_EXTENSIONS OFF
      POSITION_INDEPENDENT_CODE ON
      CXX_VISIBILITY_PRESET hidden
      VISIBILITY_INLINES_HIDDEN ON)
  target_include_directories(${target} PRIVATE "${pinring_SOURCE_DIR}" "${pinring_SOURCE_DIR}/include")
  if(MSVC)
    target_compile_options(${target} PRIVATE /W4 $<$<BOOL:${PINRING_WERROR}>:/WX>)
    # The C library's functions are not to be replaced by Microsoft's.
    target_compile_definitions(${target} PRIVATE _CRT_SECURE_NO_WARNINGS _CRT_NONSTDC_NO_WARNINGS)
  else()
    target_compile_options(${target} PRIVATE
        -Wall -Wextra -Wshadow
        $<$<CXX_COMPILER_ID:Clang,AppleClang>:-Wthread-safety$<SEMICOLON>-Werror=thread-safety>
        $<$<BOOL:${PINRING_WERROR}>:-Werror>)
    if(PINRING_SANITIZE)
      # Instrumented code of the standard library confuses that analysis of g++: it warns of std::regex.
      target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    endif()
  endif()
endfunction()

# pinring_layer(<name> [INTERNAL] SOURCES <file>... [HEADERS <file>...] [DEPS <target>...])
#
# Declares the layer src/<name> as the static library pinring_<name>, which a test links to build no more than it needs.
# The objects of all layers but the INTERNAL ones also make up the library `pinring`.
function(pinring_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "INTERNAL" "" "SOURCES;HEADERS;DEPS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "pinring_layer(${name}): unexpected ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(target pinring_${name})
  if(arg_SOURCES)
    add_library(${target} STATIC ${arg_SOURCES} ${arg_HEADERS})
    pinring_compile_settings(${target})
    target_link_libraries(${target} PUBLIC ${arg_DEPS} pinring_cuda_headers)
  else()
    add_library(${target} INTERFACE ${arg_HEADERS})
    target_link_libraries(${target} INTERFACE ${arg_DEPS} pinring_cuda_headers)
  endif()
  if(NOT arg_INTERNAL)
    set_property(GLOBAL APPEND PROPERTY pinring_layers ${target})
  endif()
endfunction()

# pinring_program(<name> [SOURCES <file>...] [DEPS <target>...] [OUTPUT_NAME <file>])
#
# A program of pinring's own; its source is <name>.cc unless SOURCES says otherwise. One that users run has an
# OUTPUT_NAME and lies at the top of the build folder: build/release/<OUTPUT_NAME>.
function(pinring_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "OUTPUT_NAME" "SOURCES;DEPS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${name}: unexpected ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_SOURCES)
    set(arg_SOURCES ${name}.cc)
  endif()
  add_executable(${name} ${arg_SOURCES})
  pinring_compile_settings(${name})
  target_link_libraries(${name} PRIVATE ${arg_DEPS})
  if(arg_OUTPUT_NAME)
    set_target_properties(${name} PROPERTIES
        OUTPUT_NAME "${arg_OUTPUT_NAME}"
        RUNTIME_OUTPUT_DIRECTORY "${pinring_BINARY_DIR}")
  endif()
endfunction()

# pinring_add_test(<name> [ENVIRONMENT <VAR=value>...] COMMAND <command>...)
#
# A CTest entry, in the environment that makes a sanitizer's report fail the test that it stands in.
function(pinring_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "ENVIRONMENT;COMMAND")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_COMMAND)
    message(FATAL_ERROR "pinring_add_test(${name}): no COMMAND, or unexpected ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(environment ${arg_ENVIRONMENT})
  if(PINRING_SANITIZE)
    list(APPEND environment "PINRING_TEST_PROGRAMS=300")  # Each takes several times as long.
  endif()
  if(PINRING_SANITIZE MATCHES "address")
    list(APPEND environment "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1")
  endif()
  if(PINRING_SANITIZE MATCHES "undefined")
    list(APPEND environment "UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1")
  endif()
  if(PINRING_SANITIZE STREQUAL "thread")
    set(suppressions "suppressions=${pinring_SOURCE_DIR}/cmake/tsan.supp:print_suppressions=0")
    list(APPEND environment "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:${suppressions}")
  endif()
  add_test(NAME ${name} COMMAND ${arg_COMMAND})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${PINRING_TEST_TIMEOUT} ENVIRONMENT "${environment}")
endfunction()

# What pinring_test and pinring_benchmark share: a program linked with `libraries`, and a CTest entry of the same name
# that runs it with `arguments`.
function(pinring_tested_program name libraries arguments labels)
  cmake_parse_arguments(PARSE_ARGV 4 arg "SERIAL" "TIMEOUT" "SOURCES;DEPS;LABELS;ENVIRONMENT")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${name}: unexpected ${arg_UNPARSED_ARGUMENTS}")
  endif()
  pinring_program(${name} SOURCES ${arg_SOURCES} DEPS ${arg_DEPS} ${libraries})
  if(NOT PINRING_BUILD_TESTS)
    return()
  endif()

  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT ${PINRING_TEST_TIMEOUT})
  endif()
  pinring_add_test(${name} ENVIRONMENT ${arg_ENVIRONMENT} COMMAND ${name} ${arguments})
  set_tests_properties(${name} PROPERTIES
      TIMEOUT ${arg_TIMEOUT}
      LABELS "${labels};${arg_LABELS}"
      RUN_SERIAL ${arg_SERIAL})
endfunction()

# pinring_test(<name> [SOURCES <file>...] [DEPS <target>...] [LABELS <label>...] [TIMEOUT <seconds>]
#              [ENVIRONMENT <VAR=value>...] [SERIAL])
#
# A GoogleTest program and its CTest entry. The label `gpu` marks tests that also run on a GPU; SERIAL keeps other tests
# from running beside it.
function(pinring_test name)
  pinring_tested_program(${name} "GTest::gtest_main;GTest::gtest" "" "" ${ARGN})
endfunction()

# pinring_benchmark(<name> [SOURCES ...] [DEPS ...] [LABELS ...] [TIMEOUT ...] [ENVIRONMENT ...] [SERIAL])
#
# A Google Benchmark program. CTest runs it briefly (label `bench`), which shows that it works and measures nothing. It
# ends with 0 also where it could not run.
function(pinring_benchmark name)
  pinring_tested_program(${name} "benchmark::benchmark_main;benchmark::benchmark" --benchmark_min_time=0.01 bench
      ${ARGN})
  if(TEST ${name})
    set_tests_properties(${name} PROPERTIES FAIL_REGULAR_EXPRESSION "ERROR OCCURRED")
  endif()
endfunction()
