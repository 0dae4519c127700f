# Runs a command, whose exit status and output (on both streams) must be as expected.
#
#   cmake -DSTATUS=<number> -DOUTPUT=<regular expression> -P expect.cmake -- <command> <argument>...
include("${CMAKE_CURRENT_LIST_DIR}/command.cmake")
execute_process(COMMAND ${command} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
message("${output}")
if(NOT status EQUAL STATUS OR NOT output MATCHES "${OUTPUT}")
  message(FATAL_ERROR "ends with ${status}, not ${STATUS}, or says what does not match '${OUTPUT}'")
endif()
