# Looks whether the CTest entries and scenarios that elsewhere.cmake names exist, and whether every rule and case has
# something that tests it.
#
#   cmake -DCTEST=<ctest> -DBUILD=<folder> -DPROGRAM=<conformance_native> -DPRELOAD=<whether it is built>
#         -P elsewhere_test.cmake
cmake_minimum_required(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/elsewhere.cmake")
execute_process(COMMAND "${CTEST}" --test-dir "${BUILD}" -N OUTPUT_VARIABLE tests COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${PROGRAM}" --list --all OUTPUT_VARIABLE scenarios COMMAND_ERROR_IS_FATAL ANY)

set(rules "")
foreach(entry IN LISTS conformance_elsewhere)
  string(REGEX MATCH "^([0-9]+)\\|([^|]+)\\|" found "${entry}")
  list(APPEND rules "${CMAKE_MATCH_1}")
  if(NOT CMAKE_MATCH_2 MATCHES " " AND NOT tests MATCHES ": ${CMAKE_MATCH_2}\n")
    message(SEND_ERROR "there is no CTest entry ${CMAKE_MATCH_2}: ${entry}")
  endif()
endforeach()
foreach(rule RANGE 1 24)
  if(NOT rule IN_LIST rules AND NOT scenarios MATCHES "(^|\n)${rule} ")
    message(SEND_ERROR "nothing tests rule ${rule}")
  endif()
endforeach()

set(cases "")
foreach(entry IN LISTS conformance_cases)
  string(REGEX MATCH "^([0-9]+b?)\\|(.*)$" found "${entry}")
  list(APPEND cases "${CMAKE_MATCH_1}")
  string(REGEX MATCHALL "[a-z_0-9]+_[a-z_0-9]+" names "${CMAKE_MATCH_2}")
  foreach(name IN LISTS names)
    if(NOT scenarios MATCHES " ${name}\n" AND NOT tests MATCHES ": ${name}\n"
       AND NOT name MATCHES "^(one_slot|no_ring)$" AND (PRELOAD OR NOT name MATCHES "^preload_"))
      message(SEND_ERROR "there is no ${name}: ${entry}")
    endif()
  endforeach()
endforeach()
foreach(case IN ITEMS 1 2 3 4 5 6 6b 7 8 9 10 11 12 13 14 15 16 17)
  if(NOT case IN_LIST cases)
    message(SEND_ERROR "nothing tests case ${case}")
  endif()
endforeach()
