// What a tool that is attached (Nsight Systems) shows in its timeline: ranges
// of pinring's own, in the domain "pinring", and the names of its threads.
//
// Costs a load and a branch where no tool is attached. Nothing where the CUDA
// headers have no NVTX. Thread-safe.

#ifndef PINRING_SRC_DRIVER_NVTX_H_
#define PINRING_SRC_DRIVER_NVTX_H_

#include <cstdint>
#include <string>

namespace pinring::nvtx {

// Finds out whether a tool is attached, which loads its library: what comes
// first of this and the rest does, and it must not be a mover.
void Attach();

enum class Task {
  kCopyToDevice,  // a call that copies through the ring, until it returns
  kCopyToHost,
  kFillSlot,  // a mover's piece
  kDrainSlot,
  kFillHost,  // of a memset
};

// Of the calling thread, until the end of the scope; shows the bytes.
class Range {
 public:
  Range(Task task, uint64_t bytes);
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
  ~Range();

 private:
  bool pushed_ = false;
};

// Gives the calling thread a name in the timeline, too.
void NameThread(const std::string& name);

}  // namespace pinring::nvtx

#endif  // PINRING_SRC_DRIVER_NVTX_H_
