// The driver's entry points and the wrappers that stand for them.
//
// A driver is known by its loaded library: the first of its functions that
// passes through dlsym or a wrapper makes it known, which reads its symbols
// once. From then on an address says which wrapper stands for it, whatever
// name, version and flags it was asked for by.
//
// Thread-safe. Nothing here takes a lock, allocates or loads a library, but for
// Real and Extras, which look for a driver that is loaded while none is known;
// threads that make the same driver known at the same time write the same.

#ifndef PINRING_SRC_PRELOAD_ENTRY_POINTS_H_
#define PINRING_SRC_PRELOAD_ENTRY_POINTS_H_

#include <cuda.h>
#include <link.h>

#include <cstdint>

#include "src/preload/table.h"

namespace pinring::preload {

// Functions of the driver that wrappers call besides the rows of the table.
#define PINRING_PRELOAD_EXTRA(X)                                         \
  X(CtxGetCurrent, "cuCtxGetCurrent", (CUcontext * context))             \
  X(EventCreate, "cuEventCreate", (CUevent * event, unsigned flags))     \
  X(EventDestroy, "cuEventDestroy_v2", (CUevent event))                  \
  X(StreamIsCapturing, "cuStreamIsCapturing",                            \
    (CUstream stream, CUstreamCaptureStatus * status))                   \
  X(FuncGetParamInfo, "cuFuncGetParamInfo",                              \
    (CUfunction function, size_t index, size_t * offset, size_t * size)) \
  X(KernelGetParamInfo, "cuKernelGetParamInfo",                          \
    (CUkernel kernel, size_t index, size_t * offset, size_t * size))

#if CUDA_VERSION < 12000
using CUkernel = struct CUkern_st*;
#endif

struct Extra {
#define PINRING_PRELOAD_EXTRA_FIELD(field, symbol, parameters) \
  CUresult(CUDAAPI* field) parameters = nullptr;
  PINRING_PRELOAD_EXTRA(PINRING_PRELOAD_EXTRA_FIELD)
#undef PINRING_PRELOAD_EXTRA_FIELD
};

class EntryPoints {
 public:
  // The driver's function of a row; null where no driver is loaded, or this one
  // lacks it.
  static void* Real(int row);

  // Those that the driver has; null fields for the others.
  static Extra Extras();

  // The driver's cuGetProcAddress of the form with four parameters; null where
  // there is no driver.
  static void* RealGetProcAddress();

  // What to hand out for a function of the driver's that dlsym found under
  // `symbol`: its wrapper, or the function itself.
  static void* ForSymbol(const char* symbol, void* function);

  // The same for what cuGetProcAddress found for a version. The driver is asked
  // once more where the version is beyond the table's: a form that is newer
  // than the table is handed out as it is.
  static void* ForName(const char* name, int version, bool per_thread,
                       void* function);

  // May take the loader's lock.
  static bool DriverIsLoaded();

  // Whether the code at `address` is the driver's own.
  static bool IsDriverCode(const void* address);

  // False for a function that this library exports and the driver, where there
  // is one, lacks. May take the loader's lock.
  static bool Stands(const char* symbol);
};

// The wrapper of each row (wrappers.cc).
extern void* const kWrappers[];

}  // namespace pinring::preload

#endif  // PINRING_SRC_PRELOAD_ENTRY_POINTS_H_
