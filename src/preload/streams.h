// Which stream a call means, in either kind of default stream.

#ifndef PINRING_SRC_PRELOAD_STREAMS_H_
#define PINRING_SRC_PRELOAD_STREAMS_H_

#include <cuda.h>

namespace pinring::preload {

// The stream of a call that names none, and of one that names `stream`.
template <typename Row>
CUstream DefaultStream() {
  return Row::kPerThread ? CU_STREAM_PER_THREAD : nullptr;
}
template <typename Row>
CUstream Stream(CUstream stream) {
  return stream == nullptr ? DefaultStream<Row>() : stream;
}

}  // namespace pinring::preload

#endif  // PINRING_SRC_PRELOAD_STREAMS_H_
