// The arguments of kernel launches: staged blocks that they point to are pinned
// before the launch.
//
// What a kernel's parameters are only the driver knows (CUDA 12.4 on); with an
// older one only launches with a parameter buffer are looked at. Words that
// look like addresses in a block count, whatever they are. Thread-safe.

#ifndef PINRING_SRC_PRELOAD_LAUNCH_H_
#define PINRING_SRC_PRELOAD_LAUNCH_H_

#include <cuda.h>

namespace pinring::preload {

// Pins what the arguments of a launch of `kernel` (a CUfunction or a CUkernel)
// point to. An error says that the launch cannot be made.
CUresult PromoteKernelArguments(const char* function, CUfunction kernel,
                                void** parameters, void** extra);

// After code was unloaded: handles of kernels may come back for others.
void ForgetKernels();

}  // namespace pinring::preload

#endif  // PINRING_SRC_PRELOAD_LAUNCH_H_
