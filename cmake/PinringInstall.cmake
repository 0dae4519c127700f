# What `cmake --install` puts where: the libraries, headers, CMake package and pkg-config files as the component
# `library`, the pinring command as `command`, the preload library as `preload`. Nothing installed knows the prefix, so that
# it can be moved.
include_guard(GLOBAL)
include(CMakePackageConfigHelpers)

set(pinring_cmake_dir "${CMAKE_INSTALL_LIBDIR}/cmake/pinring")

install(DIRECTORY include/pinring DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT library)

set(libraries pinring)
if(TARGET pinring_shared)
  list(APPEND libraries pinring_shared)
endif()
install(TARGETS ${libraries} EXPORT pinringTargets
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT library
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT library NAMELINK_COMPONENT library
    RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT library)
install(EXPORT pinringTargets NAMESPACE pinring:: DESTINATION "${pinring_cmake_dir}" COMPONENT library)
if(TARGET pinring_preload)
  # No part of the package: nothing links it.
  install(TARGETS pinring_preload LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT preload)
endif()
if(TARGET pinring_cli_program)
  install(TARGETS pinring_cli_program RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT command)
endif()

get_target_property(linked pinring LINK_LIBRARIES)
set(pinring_absl_linked FALSE)
if(linked MATCHES "absl::")
  set(pinring_absl_linked TRUE)
endif()
configure_package_config_file(cmake/pinringConfig.cmake.in "${PROJECT_BINARY_DIR}/pinringConfig.cmake"
    INSTALL_DESTINATION "${pinring_cmake_dir}" NO_SET_AND_CHECK_MACRO)
# Until 1.0 a minor version may change anything.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/pinringConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES
    "${PROJECT_BINARY_DIR}/pinringConfig.cmake"
    "${PROJECT_BINARY_DIR}/pinringConfigVersion.cmake"
    cmake/PinringCuda.cmake
    DESTINATION "${pinring_cmake_dir}" COMPONENT library)

# pinring.pc links the shared library, or the archive where there is no other; pinring-static.pc links the archive.
function(pinring_install_pc name libs requires libs_private requires_private)
  file(RELATIVE_PATH up "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
  string(REGEX REPLACE "/$" "" up "${up}")
  file(RELATIVE_PATH includedir "${CMAKE_INSTALL_PREFIX}" "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
  file(RELATIVE_PATH libdir "${CMAKE_INSTALL_PREFIX}" "${CMAKE_INSTALL_FULL_LIBDIR}")
  configure_file(cmake/pinring.pc.in "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT library)
endfunction()

list(TRANSFORM pinring_cxx_runtime PREPEND -l OUTPUT_VARIABLE libs)
set(packages "")
foreach(library IN LISTS linked)
  if(library MATCHES "^absl::(.*)$")
    list(APPEND packages absl_${CMAKE_MATCH_1})
  elseif(library STREQUAL "Threads::Threads")
    list(APPEND libs -pthread)
  elseif(library IN_LIST CMAKE_DL_LIBS)
    list(APPEND libs -l${library})
  elseif(library MATCHES "^-l")
    list(APPEND libs ${library})
  endif()
endforeach()
list(JOIN libs " " libs)
list(JOIN packages " " packages)
if(TARGET pinring_shared)
  pinring_install_pc(pinring "-lpinring" "" "${libs}" "${packages}")
else()
  pinring_install_pc(pinring "-lpinring ${libs}" "${packages}" "" "")
endif()
set(archive "${CMAKE_STATIC_LIBRARY_PREFIX}pinring${CMAKE_STATIC_LIBRARY_SUFFIX}")
pinring_install_pc(pinring-static "\${libdir}/${archive} ${libs}" "${packages}" "" "")
