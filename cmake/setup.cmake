# What cmake/demo.cmake and cmake/check.cmake share: everything from a bare clone to a build in build/release.
#
# Missing packages are installed with apt-get where this user may do that; libraries that cannot be installed are built
# from source by the configure step. Where something is missing all the same, a message lists the packages.
cmake_minimum_required(VERSION 3.25)

get_filename_component(root "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
set(build "${root}/build/release")

# execute_process hands its child pipes. Where this script's own output is a terminal, `terminal` gives that to the child
# instead, so that it can draw its progress.
set(terminal "")
foreach(stream IN ITEMS 1:OUTPUT_FILE 2:ERROR_FILE)
  string(REPLACE ":" ";" stream "${stream}")
  list(POP_FRONT stream descriptor)
  if(IS_SYMLINK "/proc/self/fd/${descriptor}")
    file(READ_SYMLINK "/proc/self/fd/${descriptor}" device)
    if(device MATCHES "^/dev/(pts/|tty|console)" AND EXISTS "${device}")
      list(APPEND terminal ${stream} "${device}")
    endif()
  endif()
endforeach()

# Sets `missing` to the Debian packages for what cannot be found here, `required` to those of them without which nothing
# can be built. Arguments name the libraries that are needed.
function(pinring_find_missing)
  set(missing "")
  find_program(ninja NAMES ninja ninja-build NO_CACHE)
  find_program(make NAMES make gmake NO_CACHE)
  find_program(compiler NAMES $ENV{CXX} c++ g++ clang++ NO_CACHE)
  if(NOT compiler)
    list(APPEND missing g++)
  endif()
  if(NOT ninja AND NOT make)
    list(APPEND missing ninja-build)
  endif()
  set(required ${missing})
  foreach(library IN LISTS ARGN)
    string(REPLACE ":" ";" library "${library}")
    list(GET library 0 package)
    list(GET library 1 header)
    find_path(found "${header}" NO_CACHE
        HINTS ENV CMAKE_PREFIX_PATH PATHS /usr /usr/local /opt/homebrew PATH_SUFFIXES include NO_DEFAULT_PATH)
    if(NOT found)
      list(APPEND missing ${package})
    endif()
    unset(found)
  endforeach()
  set(missing "${missing}" PARENT_SCOPE)
  set(required "${required}" PARENT_SCOPE)
endfunction()

# Installs packages with apt-get as root, or through sudo if that asks for no password. Says nothing on failure: the
# caller looks again for what is missing.
function(pinring_install packages)
  find_program(apt apt-get NO_CACHE)
  find_program(sudo sudo NO_CACHE)
  execute_process(COMMAND id -u OUTPUT_VARIABLE user OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT apt)
    return()
  elseif(user STREQUAL "0")
    set(as_root "")
  elseif(sudo)
    execute_process(COMMAND ${sudo} -n true RESULT_VARIABLE refused OUTPUT_QUIET ERROR_QUIET)
    if(NOT refused EQUAL 0)
      return()
    endif()
    set(as_root ${sudo} -n)
  else()
    return()
  endif()
  list(JOIN packages " " printed)
  message("-- Installing ${printed}")
  set(apt ${as_root} env DEBIAN_FRONTEND=noninteractive ${apt} -qq -o DPkg::Lock::Timeout=120)
  execute_process(COMMAND ${apt} update OUTPUT_QUIET)
  execute_process(COMMAND ${apt} install -y --no-install-recommends ${packages} OUTPUT_QUIET)
endfunction()

# Finds or installs what is needed, configures build/release with the given cache variables and builds `target`.
function(pinring_build target libraries variables)
  pinring_find_missing(${libraries})
  if(missing)
    pinring_install("${missing}")
    pinring_find_missing(${libraries})
  endif()
  list(JOIN missing " " packages)
  if(required)
    message(FATAL_ERROR "pinring cannot be built yet. Install these packages and run this again: ${packages}")
  endif()

  set(generator "")
  find_program(ninja NAMES ninja ninja-build NO_CACHE)
  if(ninja AND NOT EXISTS "${build}/CMakeCache.txt")
    set(generator -G Ninja)
  endif()
  execute_process(
      COMMAND "${CMAKE_COMMAND}" --preset release ${generator} ${variables} WORKING_DIRECTORY "${root}"
      RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    if(packages)
      set(hint " If it was a library that was missing, install these packages and run this again: ${packages}")
    endif()
    message(FATAL_ERROR "Configuring failed; the reason stands above.${hint}")
  endif()
  cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
  execute_process(
      COMMAND "${CMAKE_COMMAND}" --build "${build}" --target ${target} --parallel ${cores} ${terminal}
      RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "Building failed; the reason stands above.")
  endif()
endfunction()

# Runs a command as the last act of the script and ends with its exit status (before CMake 3.29: with 1 for any failure).
macro(pinring_run_and_exit)
  execute_process(COMMAND ${ARGN} ${terminal} RESULT_VARIABLE status)
  if(NOT status STREQUAL "0")
    if(CMAKE_VERSION VERSION_GREATER_EQUAL 3.29 AND status MATCHES "^[0-9]+$")
      cmake_language(EXIT ${status})
    endif()
    message(FATAL_ERROR "It ended with status ${status}.")
  endif()
endmacro()
