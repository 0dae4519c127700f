# Compares the names that a simulated library exports with those of NVIDIA's:
#
#   cmake -DNM=<nm> -DSIMULATED=<library> -DNVIDIA=<library> -P exports_test.cmake
#
# Each name is one of NVIDIA's, with the same version, and where that has a form for the per-thread default stream the
# simulated library has it too.
cmake_minimum_required(VERSION 3.25)

function(exports library out)
  execute_process(COMMAND "${NM}" -D --defined-only "${library}" OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" lines "${text}")
  list(TRANSFORM lines REPLACE "^[0-9a-f]* *[A-Za-z] " "")
  list(FILTER lines INCLUDE REGEX "[^ ]")
  set(${out} "${lines}" PARENT_SCOPE)
endfunction()

exports("${SIMULATED}" simulated)
exports("${NVIDIA}" nvidia)
list(LENGTH simulated count)
if(count LESS 60)
  message(FATAL_ERROR "${SIMULATED} exports only ${count} names")
endif()
set(wrong "")
foreach(name IN LISTS simulated)
  if(NOT name IN_LIST nvidia)
    list(APPEND wrong "${name} is not NVIDIA's")
  endif()
  foreach(suffix IN ITEMS ptsz ptds)
    if(name MATCHES "@@")
      string(REPLACE "@@" "_${suffix}@@" form "${name}")
    else()
      set(form "${name}_${suffix}")
    endif()
    if(form IN_LIST nvidia AND NOT form IN_LIST simulated)
      list(APPEND wrong "${form} is missing")
    endif()
  endforeach()
endforeach()
if(wrong)
  list(JOIN wrong "\n  " wrong)
  message(FATAL_ERROR "${SIMULATED}:\n  ${wrong}")
endif()
message("${count} names, all of them NVIDIA's")
