# Abseil: the system's, or the pinned release built from source.
#
# A build with ThreadSanitizer takes it from source: TSan only knows that absl::Mutex synchronizes when Abseil itself is
# compiled with it.
include_guard(GLOBAL)
include(PinringDependency)

set(PINRING_ABSL auto CACHE STRING "Where Abseil comes from: system, source, or auto (the system's where that is fit)")
set_property(CACHE PINRING_ABSL PROPERTY STRINGS auto system source)
if(NOT PINRING_ABSL MATCHES "^(auto|system|source)$")
  message(FATAL_ERROR "PINRING_ABSL is '${PINRING_ABSL}'; it must be auto, system or source")
endif()

if(PINRING_ABSL STREQUAL "source" OR (PINRING_ABSL STREQUAL "auto" AND PINRING_SANITIZE STREQUAL "thread"))
  set(pinring_absl_from_source TRUE)
else()
  set(pinring_absl_from_source FALSE)
endif()

pinring_dependency(absl
    VERSION 20220623.1
    SYSTEM_TARGET absl::status
    FROM_SOURCE ${pinring_absl_from_source}
    DIRECTORY absl
    URL https://github.com/abseil/abseil-cpp/archive/refs/tags/20220623.1.tar.gz
    SHA256 91ac87d30cc6d79f9ab974c51874a704de9c2647c40f6932597329a282217ba8
    DEBIAN abseil
    DEBIAN_TARBALL abseil_20220623.1.orig.tar.gz)
if(NOT absl_SYSTEM)
  if(PINRING_ABSL STREQUAL "system")
    message(FATAL_ERROR "PINRING_ABSL is 'system', but no Abseil is installed (Debian and Ubuntu: libabsl-dev)")
  endif()
  pinring_add_source(absl ABSL_PROPAGATE_CXX_STD=ON ABSL_ENABLE_INSTALL=OFF)
endif()
