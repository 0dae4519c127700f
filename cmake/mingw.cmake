# Toolchain file: builds for 64-bit Windows with mingw-w64, and runs tests under Wine where that is installed.
#
#   cmake --preset mingw && cmake --build --preset mingw && ctest --preset mingw
#
# Debian and Ubuntu: g++-mingw-w64-x86-64-posix wine64. The compiler must have the POSIX thread model: in the other one
# the standard library has no threads before g++ 13.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)

set(pinring_mingw x86_64-w64-mingw32)
set(CMAKE_C_COMPILER ${pinring_mingw}-gcc-posix)
set(CMAKE_CXX_COMPILER ${pinring_mingw}-g++-posix)
set(CMAKE_RC_COMPILER ${pinring_mingw}-windres)

# Libraries and packages of the machine that builds are not for Windows.
set(CMAKE_FIND_ROOT_PATH /usr/${pinring_mingw})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# A program or a DLL is one file: libgcc, libstdc++ and winpthread are within it.
foreach(kind IN ITEMS EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT "-static")
endforeach()

# Debian keeps Wine's 64-bit loader off the PATH, and its `wine` complains when the 32-bit one is missing.
find_program(PINRING_WINE NAMES wine64 wine64-stable wine wine-stable
    PATHS /usr/lib/wine /usr/lib/x86_64-linux-gnu/wine /usr/lib64/wine /opt/wine-stable/bin
    DOC "Wine's loader for 64-bit programs, to run tests with")
mark_as_advanced(PINRING_WINE)
if(PINRING_WINE)
  set(CMAKE_CROSSCOMPILING_EMULATOR
      "${CMAKE_CURRENT_LIST_DIR}/mingw-wine.sh" "${CMAKE_BINARY_DIR}/wine" "${PINRING_WINE}")
endif()
