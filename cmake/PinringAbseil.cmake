# Abseil: the system's, or the pinned release built from source.
#
# It is built from source where pinring is to contain it: in the shared library, which needs position independent code,
# and in the static one that is installed with it, so that programs need no Abseil. Such an Abseil has an inline
# namespace of its own and hidden symbols: it never meets another Abseil in a program. A build with ThreadSanitizer takes
# it from source as well: TSan only knows that absl::Mutex synchronizes when Abseil itself is compiled with it.
include_guard(GLOBAL)
include(PinringDependency)

set(PINRING_ABSL auto CACHE STRING "Where Abseil comes from: system, source, or auto (the system's where that is fit)")
set_property(CACHE PINRING_ABSL PROPERTY STRINGS auto system source)
if(NOT PINRING_ABSL MATCHES "^(auto|system|source)$")
  message(FATAL_ERROR "PINRING_ABSL is '${PINRING_ABSL}'; it must be auto, system or source")
endif()

if(NOT PINRING_ABSL STREQUAL "auto")
  set(pinring_absl_from ${PINRING_ABSL})
elseif(PINRING_SANITIZE STREQUAL "thread")
  set(pinring_absl_from source)
elseif(PINRING_SHARED)
  set(pinring_absl_from source system)
else()
  set(pinring_absl_from system source)
endif()

pinring_dependency(absl
    VERSION 20220623.1
    TARGET absl::status
    FROM ${pinring_absl_from}
    DIRECTORY absl
    URL https://github.com/abseil/abseil-cpp/archive/refs/tags/20220623.1.tar.gz
    SHA256 91ac87d30cc6d79f9ab974c51874a704de9c2647c40f6932597329a282217ba8
    DEBIAN abseil
    DEBIAN_TARBALL abseil_20220623.1.orig.tar.gz)
if(absl_FROM STREQUAL "source")
  # Abseil's own way to rename it: an options.h, found before the one that stands in the source. One C function has a
  # name that does not follow.
  set(pinring_absl_namespace pinring_20220623)
  file(READ "${absl_SOURCE_DIR}/absl/base/options.h" options)
  string(REGEX REPLACE "(#define ABSL_OPTION_INLINE_NAMESPACE_NAME) [a-z0-9_]+" "\\1 ${pinring_absl_namespace}"
      options "${options}")
  string(APPEND options
      "#define AbslInternalGetFileMappingHint AbslInternalGetFileMappingHint_${pinring_absl_namespace}\n")
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/_deps/absl-options/absl/base/options.h" CONTENT "${options}" @ONLY)
  include_directories(BEFORE "${PROJECT_BINARY_DIR}/_deps/absl-options")
  pinring_add_source(absl ABSL_PROPAGATE_CXX_STD=ON ABSL_ENABLE_INSTALL=OFF)
elseif(PINRING_SHARED)
  message(WARNING
      "The shared library is not built: it contains Abseil, which must be built from source for that. "
      "-DPINRING_SHARED=OFF says that it is not wanted.")
  set(PINRING_SHARED OFF)
endif()
