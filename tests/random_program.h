// Random CUDA programs: threads, streams, gates, copies both ways, events,
// host functions, allocation and free; free of data races by construction, so
// that what a program reads must not depend on the schedule.

#ifndef PINRING_TESTS_RANDOM_PROGRAM_H_
#define PINRING_TESTS_RANDOM_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pinring {

enum class StepKind {
  kGate,          // a kernel holds `stream` until gate `index` is open
  kOpen,          // the host opens gate `index`
  kHostToDevice,  // async, of the stream's block, to its device buffer `index`
  kDeviceToHost,  // async
  kSyncHostToDevice,  // on the legacy stream, of the stream's block
  kSyncDeviceToHost,
  kHostFill,          // the host writes the block
  kHostFunctionFill,  // a host function does, in stream order
  kDeviceFill,        // a memset of the device buffer `index`
  kPinnedCopy,        // native, really pinned, both ways in turn
  kRecord,            // event `index`
  kWaitEvent,         // the stream waits for event `index`
  kSyncEvent,         // the host does
  kSyncStream,
  kCheck,         // the host reads the block
  kAllocFree,     // device memory, allocated and freed
  kPinUnpin,      // pinned memory, allocated and freed
  kReplaceBlock,  // the block is freed, perhaps with copies in flight, and made
                  // again
  kReplaceStream,  // the stream is destroyed and made again
};

struct ProgramStep {
  StepKind kind;
  int stream = 0;
  int index = 0;
  size_t offset = 0;
  size_t bytes = 0;
  uint8_t value = 0;
};

struct RandomProgram {
  uint64_t seed = 0;
  size_t block_bytes = 0;
  int gates = 0;
  int events = 0;
  std::vector<bool> non_blocking;  // by stream
  std::vector<std::vector<ProgramStep>> threads;

  // What each step is, for a failure message.
  std::string Describe() const;
};

// The program of a seed. `max_bytes` bounds a block.
RandomProgram MakeRandomProgram(uint64_t seed, size_t max_bytes);

}  // namespace pinring

#endif  // PINRING_TESTS_RANDOM_PROGRAM_H_
