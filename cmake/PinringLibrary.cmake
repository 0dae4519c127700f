# The libraries that users link: pinring::pinring, which is static, and pinring::pinring_shared.
include_guard(GLOBAL)

# The C++ library by name, for a program whose linker is the C compiler.
set(pinring_cxx_runtime "")
foreach(library IN LISTS CMAKE_CXX_IMPLICIT_LINK_LIBRARIES)
  if(library MATCHES "^(stdc\\+\\+|c\\+\\+|c\\+\\+abi|m)$")
    list(APPEND pinring_cxx_runtime ${library})
  endif()
endforeach()
list(REMOVE_DUPLICATES pinring_cxx_runtime)

# Sets `statics` to the static libraries of this build that the given ones need, themselves included, and `others` to
# whatever else they link: libraries of the system and flags.
function(pinring_link_closure statics others)
  set(found "")
  set(outside "")
  set(seen "")
  set(queue ${ARGN})
  while(queue)
    list(POP_FRONT queue item)
    string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" item "${item}")
    if(TARGET "${item}")
      get_target_property(aliased ${item} ALIASED_TARGET)
      if(aliased)
        set(item ${aliased})
      endif()
    endif()
    if(item IN_LIST seen)
      continue()
    endif()
    list(APPEND seen "${item}")
    set(imported TRUE)
    if(TARGET "${item}")
      get_target_property(imported ${item} IMPORTED)
    endif()
    if(imported)
      list(APPEND outside "${item}")
      continue()
    endif()
    get_target_property(type ${item} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      list(APPEND found ${item})
    endif()
    get_target_property(linked ${item} INTERFACE_LINK_LIBRARIES)
    if(linked)
      list(APPEND queue ${linked})
    endif()
  endwhile()
  set(${statics} "${found}" PARENT_SCOPE)
  set(${others} "${outside}" PARENT_SCOPE)
endfunction()

# Makes the libraries from the objects of the layers declared so far. An Abseil that was built from source becomes a part
# of them; any other is linked.
function(pinring_make_libraries)
  get_property(layers GLOBAL PROPERTY pinring_layers)
  pinring_link_closure(statics others ${layers})
  list(REMOVE_ITEM others pinring_cuda_headers)
  set(objects "")
  foreach(library IN LISTS statics)
    list(APPEND objects $<TARGET_OBJECTS:${library}>)
  endforeach()

  add_library(pinring STATIC ${objects})
  foreach(library IN LISTS pinring_cxx_runtime)
    target_link_libraries(pinring INTERFACE $<INSTALL_INTERFACE:$<LINK_ONLY:${library}>>)
  endforeach()
  set(libraries pinring)
  if(PINRING_SHARED)
    add_library(pinring_shared SHARED ${objects})
    pinring_shared_settings(pinring_shared)
    list(APPEND libraries pinring_shared)
  endif()
  foreach(library IN LISTS libraries)
    add_library(pinring::${library} ALIAS ${library})
    target_include_directories(${library} INTERFACE
        "$<BUILD_INTERFACE:${pinring_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
    target_link_libraries(${library}
        PRIVATE ${others}
        INTERFACE "$<BUILD_INTERFACE:pinring_cuda_headers>" "$<INSTALL_INTERFACE:pinring::cuda_headers>")
  endforeach()
endfunction()

# The shared library's name, and what it shows of itself.
function(pinring_shared_settings target)
  # Until 1.0 each minor version may change the binary interface, as pinringConfigVersion.cmake says too; so
  # libpinring.so.0.1 and libpinring.so.0.2 are different libraries to the loader. From 1.0 on the major version says it.
  if(PROJECT_VERSION_MAJOR EQUAL 0)
    set(abi 0.${PROJECT_VERSION_MINOR})
  else()
    set(abi ${PROJECT_VERSION_MAJOR})
  endif()
  set(script "${PROJECT_SOURCE_DIR}/cmake/pinring.map")
  set_target_properties(${target} PROPERTIES
      OUTPUT_NAME pinring
      VERSION ${PROJECT_VERSION}
      SOVERSION ${abi}
      LINK_DEPENDS "${script}")
  target_link_options(${target} PRIVATE
      # Only the C functions: not the weak symbols of the standard library's templates either.
      "LINKER:--version-script=${script}"
      # Calls of one of these functions by another stay in the library when a program has functions of the same names,
      # such as a static pinring.
      LINKER:-Bsymbolic-functions
      # Movers run in its code, fork and exit call into it, and threads have its variables: it stays until the process
      # ends, whoever closes it.
      LINKER:-z,nodelete
      LINKER:-z,text)
  if(NOT PINRING_SANITIZE)
    # A sanitizer's runtime is the program's.
    target_link_options(${target} PRIVATE LINKER:-z,defs)
  endif()
endfunction()
