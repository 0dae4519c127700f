// Writes and waits of a stream, by which it speaks to the movers (flags.h).

#ifndef PINRING_SRC_ENGINE_MEMORY_OPERATIONS_H_
#define PINRING_SRC_ENGINE_MEMORY_OPERATIONS_H_

#include <cuda.h>

#include <cstring>

#include "src/ring/flags.h"

namespace pinring {

inline CUstreamBatchMemOpParams WriteOperation(CUdeviceptr address,
                                               Sequence value) {
  CUstreamBatchMemOpParams operation;
  std::memset(&operation, 0, sizeof(operation));
  operation.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  operation.writeValue.address = address;
  operation.writeValue.value = value;
  operation.writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
  return operation;
}

inline CUstreamBatchMemOpParams WaitOperation(CUdeviceptr address,
                                              Sequence value) {
  CUstreamBatchMemOpParams operation;
  std::memset(&operation, 0, sizeof(operation));
  operation.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  operation.waitValue.address = address;
  operation.waitValue.value = value;
  operation.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
  return operation;
}

}  // namespace pinring

#endif  // PINRING_SRC_ENGINE_MEMORY_OPERATIONS_H_
