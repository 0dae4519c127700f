# Google Benchmark: the system's, or the pinned release built from source.
include_guard(GLOBAL)
include(PinringDependency)

pinring_dependency(benchmark
    VERSION 1.7.1
    TARGET benchmark::benchmark_main
    DIRECTORY benchmark
    URL https://github.com/google/benchmark/archive/refs/tags/v1.7.1.tar.gz
    SHA256 6430e4092653380d9dc4ccb45a1e2dc9259d581f4866dc0759713126056bc1d7
    DEBIAN benchmark
    DEBIAN_TARBALL benchmark_1.7.1.orig.tar.gz)
if(benchmark_FROM STREQUAL "source")
  pinring_add_source(benchmark BENCHMARK_ENABLE_TESTING=OFF BENCHMARK_ENABLE_INSTALL=OFF BENCHMARK_ENABLE_WERROR=OFF)
endif()
