# Where the libraries that pinring needs come from: the system's package, or a pinned release built from source.
include_guard(GLOBAL)

set(PINRING_DOWNLOAD_DIR "${PROJECT_BINARY_DIR}/_deps" CACHE PATH "Where sources of dependencies are fetched to")

# pinring_dependency(<package> VERSION <version> TARGET <target> DIRECTORY <name> URL <url> SHA256 <hash>
#                    DEBIAN <source package> DEBIAN_TARBALL <file> [FROM <origin>...])
#
# Takes `package` from the first origin that has it: `system`, an installed package, or `source`, for which it sets
# <DIRECTORY>_SOURCE_DIR in the caller: PINRING_<DIRECTORY>_SOURCE_DIR if that is given, else the distribution's original
# tarball of the pinned version, else the same from GitHub. <DIRECTORY>_FROM says which it was, or `project` where
# the project that pinring is a part of has the package already. FROM is `system source` unless given.
function(pinring_dependency package)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "VERSION;TARGET;DIRECTORY;URL;SHA256;DEBIAN;DEBIAN_TARBALL" "FROM")
  if(NOT arg_FROM)
    set(arg_FROM system source)
  endif()
  set(name ${arg_DIRECTORY})
  string(TOUPPER ${name} upper)
  set(PINRING_${upper}_SOURCE_DIR "" CACHE PATH "Source folder of ${package} to build instead of the system's")

  if(TARGET ${arg_TARGET})
    message(STATUS "${package}: the enclosing project's")
    set(${name}_FROM project PARENT_SCOPE)
    return()
  endif()
  if(PINRING_${upper}_SOURCE_DIR)
    set(arg_FROM source)
    set(source "${PINRING_${upper}_SOURCE_DIR}")
  else()
    set(source "${PINRING_DOWNLOAD_DIR}/${name}-${arg_VERSION}")
  endif()
  foreach(origin IN LISTS arg_FROM)
    if(origin STREQUAL "system")
      find_package(${package} CONFIG QUIET GLOBAL)
      if(TARGET ${arg_TARGET})
        message(STATUS "${package}: the system's (${${package}_DIR})")
        set(${name}_FROM system PARENT_SCOPE)
        return()
      endif()
    else()
      if(NOT EXISTS "${source}/CMakeLists.txt" AND NOT PINRING_${upper}_SOURCE_DIR)
        pinring_fetch("${source}" ${arg_URL} ${arg_SHA256} ${arg_DEBIAN} ${arg_DEBIAN_TARBALL})
      endif()
      if(EXISTS "${source}/CMakeLists.txt")
        message(STATUS "${package}: from source (${source})")
        set(${name}_FROM source PARENT_SCOPE)
        set(${name}_SOURCE_DIR "${source}" PARENT_SCOPE)
        return()
      endif()
    endif()
  endforeach()
  list(JOIN arg_FROM " or " origins)
  message(FATAL_ERROR
      "${package} could not be had (tried: ${origins}). Install it (Debian and Ubuntu: libabsl-dev libgtest-dev "
      "libbenchmark-dev), or pass -DPINRING_${upper}_SOURCE_DIR=<dir> with the source of ${arg_VERSION}, which is at "
      "${arg_URL}.")
endfunction()

# Unpacks a tarball with one folder at its top as `source`.
function(pinring_unpack tarball source)
  set(scratch "${source}.unpack")
  file(REMOVE_RECURSE "${scratch}")
  file(ARCHIVE_EXTRACT INPUT "${tarball}" DESTINATION "${scratch}")
  file(GLOB top "${scratch}/*")
  file(REMOVE_RECURSE "${source}")
  file(RENAME "${top}" "${source}")
  file(REMOVE_RECURSE "${scratch}")
endfunction()

# Makes the folder `source` from the distribution's tarball or from `url`; leaves it missing when neither is to be had.
function(pinring_fetch source url sha256 debian_source debian_tarball)
  pinring_apt_source("${source}.apt" ${debian_source} ${debian_tarball} tarball)
  if(tarball)
    pinring_unpack("${tarball}" "${source}")
    file(REMOVE_RECURSE "${source}.apt")
    return()
  endif()
  file(REMOVE_RECURSE "${source}.apt")
  set(tarball "${source}.tar.gz")
  file(DOWNLOAD ${url} "${tarball}" TLS_VERIFY ON INACTIVITY_TIMEOUT 30 STATUS status)
  list(GET status 0 code)
  if(code EQUAL 0)
    file(SHA256 "${tarball}" actual)
    if(NOT actual STREQUAL sha256)
      message(FATAL_ERROR "${url} has SHA256 ${actual}, not ${sha256}")
    endif()
    pinring_unpack("${tarball}" "${source}")
  endif()
  file(REMOVE "${tarball}")
endfunction()

# Asks apt for the original tarball of a source package. It needs no privilege and leaves the machine's own
# configuration and package lists alone: it works in `folder`, with source entries made from the machine's binary ones.
# Sets `out` to the tarball (apt has verified it) or to an empty value.
function(pinring_apt_source folder package tarball out)
  set(${out} "" PARENT_SCOPE)
  find_program(PINRING_APT_GET apt-get)
  mark_as_advanced(PINRING_APT_GET)
  if(NOT PINRING_APT_GET)
    return()
  endif()
  file(REMOVE_RECURSE "${folder}")
  file(MAKE_DIRECTORY "${folder}/sources" "${folder}/lists/partial" "${folder}/cache/archives/partial" "${folder}/out")
  file(GLOB entries /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources)
  foreach(entry IN LISTS entries)
    file(READ "${entry}" text)
    string(REGEX REPLACE "(^|\n)Types:[^\n]*" "\\1Types: deb-src" text "${text}")
    string(REGEX REPLACE "(^|\n)deb-src[ \t][^\n]*" "\\1" text "${text}")
    string(REGEX REPLACE "(^|\n)deb([ \t])" "\\1deb-src\\2" text "${text}")
    get_filename_component(file "${entry}" NAME)
    file(WRITE "${folder}/sources/${file}" "${text}")
  endforeach()
  set(apt "${PINRING_APT_GET}" -q
      -o Dir::Etc::SourceList=/dev/null
      -o "Dir::Etc::SourceParts=${folder}/sources"
      -o "Dir::State::Lists=${folder}/lists"
      -o "Dir::Cache=${folder}/cache"
      -o APT::Sandbox::User=root
      -o Acquire::http::Timeout=20)
  message(STATUS "Asking apt for the source of ${package}")
  foreach(command IN ITEMS "update" "source --download-only ${package}")
    separate_arguments(command UNIX_COMMAND "${command}")
    execute_process(COMMAND ${apt} ${command} WORKING_DIRECTORY "${folder}/out"
        TIMEOUT 300 OUTPUT_QUIET ERROR_QUIET)
  endforeach()
  if(EXISTS "${folder}/out/${tarball}")
    set(${out} "${folder}/out/${tarball}" PARENT_SCOPE)
  endif()
endfunction()

# Adds a dependency's source folder to the build, with the flags that pinring's own code has: position independent and
# hidden, as both may end in a shared library inside a program that has its own copy of the dependency.
function(pinring_add_source name)
  set(CMAKE_CXX_STANDARD 20)
  set(CMAKE_CXX_STANDARD_REQUIRED ON)
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)
  set(CMAKE_CXX_VISIBILITY_PRESET hidden)
  set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
  set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)
  set(CMAKE_EXPORT_COMPILE_COMMANDS OFF)
  set(CMAKE_MESSAGE_LOG_LEVEL WARNING)
  set(BUILD_SHARED_LIBS OFF)
  set(BUILD_TESTING OFF)
  foreach(setting IN LISTS ARGN)
    string(REGEX MATCH "^([^=]*)=(.*)$" _ "${setting}")
    set(${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
  endforeach()
  add_subdirectory("${${name}_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/_deps/${name}-build" EXCLUDE_FROM_ALL SYSTEM)
endfunction()
