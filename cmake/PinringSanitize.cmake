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
