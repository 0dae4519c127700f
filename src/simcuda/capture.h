// Stream capture and graphs, at their least: what a capture records is a list
// of operations in the order of the calls, and a replay runs the list in that
// order in the launching stream. That is one of the orders that the recorded
// dependencies allow. Externally synchronized.

#ifndef PINRING_SRC_SIMCUDA_CAPTURE_H_
#define PINRING_SRC_SIMCUDA_CAPTURE_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "src/simcuda/op.h"

namespace pinring::simcuda {

struct Capture {
  StreamRef origin;
  uint64_t thread = 0;  // that began it
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  bool invalidated = false;
  std::vector<OpRef> recorded;
  std::set<StreamRef> streams;  // that capture now, the origin among them
  std::map<const Stream*, size_t>
      appended;  // how many operations each of them gave
  std::set<const Stream*>
      unjoined;  // that gave some which the origin does not wait for yet
};

struct Graph {
  std::vector<OpRef> recorded;
};

struct GraphExec {
  std::vector<OpRef> recorded;
  OpRef latest;  // the last operation of its previous launch
};

struct Event {
  int device = 0;
  uint64_t generation = 0;
  unsigned flags = 0;
  OpRef record;  // null until recorded
  // Recorded in a capture instead: which, by which stream, and how much that
  // had appended then.
  std::shared_ptr<Capture> capture;
  const Stream* captured_from = nullptr;
  size_t captured_after = 0;
};

}  // namespace pinring::simcuda

#endif  // PINRING_SRC_SIMCUDA_CAPTURE_H_
