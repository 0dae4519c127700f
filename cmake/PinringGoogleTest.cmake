# GoogleTest: the system's, or the pinned release built from source.
include_guard(GLOBAL)
include(PinringDependency)

pinring_dependency(GTest
    VERSION 1.12.1
    TARGET GTest::gtest_main
    DIRECTORY googletest
    URL https://github.com/google/googletest/archive/refs/tags/release-1.12.1.tar.gz
    SHA256 81964fe578e9bd7c94dfdb09c8e4d6e6759e19967e397dbea48d1c10e45d0df2
    DEBIAN googletest
    DEBIAN_TARBALL googletest_1.12.1.orig.tar.gz)
if(googletest_FROM STREQUAL "source")
  pinring_add_source(googletest INSTALL_GTEST=OFF)
endif()
