# Runs a command as it is and under the preload library: status and output must be the same, but for what the library says
# of blocks that it pins.
#
#   cmake -DPRELOAD=<libraries> -P same.cmake -- <command> <argument>...
include("${CMAKE_CURRENT_LIST_DIR}/command.cmake")
execute_process(COMMAND ${command} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE errors)
execute_process(
    COMMAND "${CMAKE_COMMAND}" -E env "LD_PRELOAD=${PRELOAD}" ${command}
    RESULT_VARIABLE preload_status OUTPUT_VARIABLE preload_output ERROR_VARIABLE preload_errors)
string(REGEX REPLACE "pinring: a block of [^\n]*\n" "" preload_errors "${preload_errors}")
foreach(what IN ITEMS status output errors)
  if(NOT "${${what}}" STREQUAL "${preload_${what}}")
    message(FATAL_ERROR "${what} differs.\nAs it is: ${${what}}\nUnder ${PRELOAD}: ${preload_${what}}")
  endif()
endforeach()
if(NOT status EQUAL 0)
  message(FATAL_ERROR "ends with ${status}: ${output}${errors}")
endif()
