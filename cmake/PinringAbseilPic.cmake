# Abseil for pinring's shared libraries: position independent, and hidden, so that the library can stand in any program,
# whatever Abseil that has.
#
# Where pinring itself is built with Abseil from source, that one is fit. A distribution's is not: its static libraries
# are not position independent, its shared ones are not hidden. The pinned release is then compiled a second time, as one
# library, without its CMake files, as these would define the targets absl::* that the system's package has taken.
include_guard(GLOBAL)
include(PinringAbseil)

# pinring_link_hidden_abseil(<shared library>)
#
# Compiles and links the target with that Abseil. Code of pinring's layers goes in as sources, not as pinring_<layer>:
# those are compiled with the other Abseil's headers.
function(pinring_link_hidden_abseil target)
  pinring_make_absl_pic()
  if(NOT TARGET pinring_absl_pic)
    message(FATAL_ERROR "${target} needs Abseil's source, which could neither be had from this system's packages nor from "
        "GitHub. Pass -DPINRING_ABSL_SOURCE_DIR=<dir>.")
  endif()
  target_link_libraries(${target} PRIVATE pinring_absl_pic)
  target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL)
endfunction()

# Makes the target pinring_absl_pic, unless it is there, if Abseil's source is here or can be fetched.
function(pinring_make_absl_pic)
  if(TARGET pinring_absl_pic)
    return()
  endif()
  if(absl_FROM STREQUAL "source")
    add_library(pinring_absl_pic INTERFACE)
    target_link_libraries(pinring_absl_pic INTERFACE absl::core_headers absl::function_ref absl::span absl::status
        absl::statusor absl::str_format absl::strings absl::synchronization absl::time)
    return()
  endif()

  set(source "${PINRING_DOWNLOAD_DIR}/absl-20220623.1")
  if(NOT EXISTS "${source}/CMakeLists.txt")
    pinring_fetch("${source}" https://github.com/abseil/abseil-cpp/archive/refs/tags/20220623.1.tar.gz
        91ac87d30cc6d79f9ab974c51874a704de9c2647c40f6932597329a282217ba8 abseil abseil_20220623.1.orig.tar.gz)
  endif()
  if(NOT EXISTS "${source}/CMakeLists.txt")
    return()
  endif()
  message(STATUS "absl, position independent: from source (${source})")
  set(files "")
  foreach(folder IN ITEMS base container debugging hash numeric profiling status strings synchronization time types)
    file(GLOB_RECURSE found CONFIGURE_DEPENDS "${source}/absl/${folder}/*.cc")
    list(APPEND files ${found})
  endforeach()
  list(FILTER files EXCLUDE REGEX "(_test|test_|benchmark|testing|print_hash_of|stack_consumption|scoped_set_env)[^/]*\\.cc$")
  add_library(pinring_absl_pic STATIC EXCLUDE_FROM_ALL ${files})
  target_compile_features(pinring_absl_pic PUBLIC cxx_std_20)
  set_target_properties(pinring_absl_pic PROPERTIES
      CXX_EXTENSIONS OFF
      POSITION_INDEPENDENT_CODE ON
      CXX_VISIBILITY_PRESET hidden
      VISIBILITY_INLINES_HIDDEN ON
      EXPORT_COMPILE_COMMANDS OFF)
  target_include_directories(pinring_absl_pic SYSTEM BEFORE PUBLIC "${source}")
  target_compile_options(pinring_absl_pic PRIVATE -w)
  target_link_libraries(pinring_absl_pic PUBLIC Threads::Threads)
endfunction()
