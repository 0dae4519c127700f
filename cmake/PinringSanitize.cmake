# Applies PINRING_SANITIZE to everything that is compiled from here on, dependencies built from source included.
include_guard(GLOBAL)

if(PINRING_SANITIZE)
  if(NOT PINRING_SANITIZE MATCHES "^(address|undefined|address,undefined|thread)$")
    message(FATAL_ERROR "PINRING_SANITIZE is '${PINRING_SANITIZE}'; it must be address, undefined, both (as "
        "address,undefined), thread or empty")
  endif()
  add_compile_options(-fsanitize=${PINRING_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${PINRING_SANITIZE})
  if(PINRING_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=all)
  endif()
endif()

# Everything tells the fuzzer which way it went; only the fuzzer has libFuzzer's main function.
if(PINRING_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "PINRING_FUZZ wants clang and its libFuzzer (Debian: libclang-rt-dev)")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
  add_link_options(-fsanitize=fuzzer-no-link)
endif()
