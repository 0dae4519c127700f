// Calls that pin the staged blocks that their arguments name, and go to the
// driver.

#ifndef PINRING_SRC_PRELOAD_PROMOTE_H_
#define PINRING_SRC_PRELOAD_PROMOTE_H_

#include <cuda.h>

#include <cstddef>
#include <type_traits>

#include "src/preload/staging.h"

namespace pinring::preload {

// An argument that is an address, or a pointer to a description that holds
// some.
template <typename Argument>
CUresult PromoteArgument(const char* function, Argument argument) {
  if constexpr (std::is_pointer_v<Argument>) {
    using Pointee = std::remove_pointer_t<Argument>;
    if constexpr (std::is_class_v<std::remove_cv_t<Pointee>> &&
                  std::is_const_v<Pointee>) {
      return PromoteWords(function, argument, sizeof(Pointee));
    } else if constexpr (std::is_void_v<Pointee>) {
      return PromoteFor(function, argument);
    }
  } else if constexpr (std::is_same_v<Argument, CUdeviceptr>) {
    return PromoteFor(function, Pointer(argument));
  }
  return CUDA_SUCCESS;
}

// All of them; stops at the first that cannot be pinned.
template <typename... Arguments>
CUresult PromoteEach(const char* function, Arguments... arguments) {
  if (!Blocks().MayHoldBlocks()) return CUDA_SUCCESS;
  CUresult code = CUDA_SUCCESS;
  (void)((code = PromoteArgument(function, arguments), code == CUDA_SUCCESS) &&
         ...);
  return code;
}

struct PromoteArguments {
  template <typename Row, typename Function, typename... Arguments>
  static CUresult Run(Function real, Arguments... arguments) {
    const CUresult code = PromoteEach(Row::kName, arguments...);
    return code != CUDA_SUCCESS ? code : real(arguments...);
  }
};

// Pins what the elements of an array hold.
template <typename Element>
CUresult PromoteArray(const char* function, const Element* elements,
                      size_t count) {
  if (!Blocks().MayHoldBlocks() || elements == nullptr) return CUDA_SUCCESS;
  return PromoteWords(function, elements, count * sizeof(Element));
}

}  // namespace pinring::preload

#endif  // PINRING_SRC_PRELOAD_PROMOTE_H_
