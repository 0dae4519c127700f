// Rules 20 and 21, and what the last error is.

#include <cstring>
#include <memory>

#include "tests/conformance/scenario.h"

namespace conformance {
namespace {

// Calls that fail and calls that do not, of both kinds, and what the last error
// says in between.
void LastErrors(Run& run) {
  Pinned block(70'000);
  Device device(70'000);
  Stream stream;
  for (int i = 0; i < 30; ++i) {
    void* pointer = nullptr;
    switch (run.Between(0, 10)) {
      case 0:
        run.Code("peek", cudaPeekAtLastError());
        break;
      case 1:
        run.Code("get", cudaGetLastError());
        break;
      case 2:
        run.Code("pinned out of memory", cudaMallocHost(&pointer, SIZE_MAX));
        break;
      case 3:
        run.Code("device out of memory", cudaMalloc(&pointer, size_t{1} << 60));
        break;
      case 4:
        run.Code("free of nothing of ours", cudaFreeHost(&run));
        break;
      case 5:
        run.Code("no such direction",
                 cudaMemcpy(device.get(), block.get(), 10,
                            static_cast<cudaMemcpyKind>(9)));
        break;
      case 6:
        run.Code("too long",
                 cudaMemcpyAsync(device.get(), block.get(), size_t{1} << 40,
                                 cudaMemcpyHostToDevice, stream));
        break;
      case 7:
        run.Code("no such device", cudaSetDevice(77));
        break;
      case 8:
        run.Code("copy", cudaMemcpyAsync(device.get(), block.get(), 70'000,
                                         cudaMemcpyHostToDevice, stream));
        break;
      case 9:
        run.Code("pitch", cudaMemcpy2D(device.get(), 5, block.get(), 5, 10, 2,
                                       cudaMemcpyHostToDevice));
        break;
      default:
        run.Code("sync", cudaStreamSynchronize(stream));
        break;
    }
  }
  run.Code("get", cudaGetLastError());
  CHECK_OK(cudaStreamSynchronize(stream));
}

// Copies with arguments that need not make sense.
void RandomArguments(Run& run) {
  constexpr size_t kBytes = 300'000;
  Pinned staged(kBytes), other(kBytes), small(2000);
  Pinned mapped(kBytes, cudaHostAllocMapped);
  std::vector<unsigned char> plain(kBytes);
  Device device(kBytes), second(kBytes);
  Stream stream;
  struct End {
    unsigned char* start;
    size_t bytes;
    bool host;
  };
  const std::vector<End> ends = {
      {staged.get(), kBytes, true}, {other.get(), kBytes, true},
      {small.get(), 2000, true},    {mapped.get(), kBytes, true},
      {plain.data(), kBytes, true}, {device.get(), kBytes, false},
      {second.get(), kBytes, false}};
  for (const End& end : ends) {
    if (end.host) {
      run.Fill(end.start, end.bytes);
    } else {
      CHECK_OK(cudaMemset(end.start, 1, end.bytes));
    }
  }
  CHECK_OK(cudaDeviceSynchronize());
  for (int i = 0; i < 12; ++i) {
    // Different ends: natively ranges may not overlap.
    const size_t to_index = run.Between(0, ends.size() - 1);
    const size_t from_index =
        (to_index + run.Between(1, ends.size() - 1)) % ends.size();
    const End& to = ends[to_index];
    const End& from = ends[from_index];
    const size_t to_at = run.Between(0, to.bytes - 1);
    const size_t from_at = run.Between(0, from.bytes - 1);
    size_t bytes = run.Size(kBytes);
    // Memory that does not exist may only be meant where CUDA can tell.
    const bool too_long = run.OneIn(8) && !(to.host && from.host);
    if (to.host || !too_long) bytes = std::min(bytes, to.bytes - to_at);
    if (from.host || !too_long) bytes = std::min(bytes, from.bytes - from_at);
    const auto kind = static_cast<cudaMemcpyKind>(
        bytes > 0 && run.OneIn(10) ? 5 + run.Between(0, 2) : run.Between(0, 4));
    const std::string pair = std::to_string(from_index) + " to " +
                             std::to_string(to_index) + ", kind " +
                             std::to_string(static_cast<int>(kind)) +
                             (run.OneIn(2) ? " async" : " waiting");
    if (pair.back() == 'c') {
      run.Code(pair, cudaMemcpyAsync(to.start + to_at, from.start + from_at,
                                     bytes, kind, stream));
      CHECK_OK(cudaStreamSynchronize(stream));
    } else {
      run.Code(pair,
               cudaMemcpy(to.start + to_at, from.start + from_at, bytes, kind));
      CHECK_OK(cudaDeviceSynchronize());
    }
    run.Code("last", cudaGetLastError());
  }
  for (const End& end : ends) {
    if (end.host) {
      run.Digest("host", end.start, end.bytes);
    } else {
      run.Digest("device", Contents(end.start, end.bytes).data(), end.bytes);
    }
  }
}

// Rule 20. Where the ring cannot be made, compare.cmake says so to pinring.
void CopiesWhateverThereIs(Run& run) {
  const size_t bytes = run.Size(2 << 20) + 1;
  Guarded source(run, bytes), target(run, bytes);
  Device device(bytes);
  Stream stream;
  run.Fill(source.get(), bytes);
  run.Code("up", cudaMemcpyAsync(device.get(), source.get(), bytes,
                                 cudaMemcpyHostToDevice, stream));
  run.Code("last", cudaGetLastError());
  run.Code("down", cudaMemcpyAsync(target.get(), device.get(), bytes,
                                   cudaMemcpyDeviceToHost, stream));
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Right("bytes", std::memcmp(target.get(), source.get(), bytes) == 0);
  run.Fill(source.get(), bytes);
  run.Code("up, waiting", cudaMemcpy(device.get(), source.get(), bytes,
                                     cudaMemcpyHostToDevice));
  run.Code("down, waiting", cudaMemcpy(target.get(), device.get(), bytes,
                                       cudaMemcpyDeviceToHost));
  run.Right("bytes again", std::memcmp(target.get(), source.get(), bytes) == 0);
  run.Right("guards", source.Intact() && target.Intact());
  run.Code("last", cudaGetLastError());
}

// Rule 21. The device is lost on the way: compare.cmake says where, to both
// programs. Natively every call answers from then on; nothing hangs.
void Lost(Run& run) {
  constexpr size_t kBytes = (3 << 20) + 5;
  unsigned char* block = nullptr;
  unsigned char* back = nullptr;
  unsigned char* device = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  CHECK_OK(cudaMallocHost(&block, kBytes));
  CHECK_OK(cudaMallocHost(&back, kBytes));
  CHECK_OK(cudaMalloc(&device, kBytes));
  CHECK_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK_OK(cudaEventCreate(&event));
  run.Fill(block, kBytes);
  run.Code("copy", cudaMemcpyAsync(device, block, kBytes,
                                   cudaMemcpyHostToDevice, stream));
  run.Code("record", cudaEventRecord(event, stream));
  // The fault: this is the first such call of either program.
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Code("peek", cudaPeekAtLastError());
  run.Code("last", cudaGetLastError());
  run.Code("copy after", cudaMemcpyAsync(back, device, kBytes,
                                         cudaMemcpyDeviceToHost, stream));
  run.Code("last", cudaGetLastError());
  run.Code("waiting copy after",
           cudaMemcpy(back, device, kBytes, cudaMemcpyDeviceToHost));
  run.Code("rows after", cudaMemcpy2DAsync(back, 20, device, 20, 10, 1000,
                                           cudaMemcpyDeviceToHost, stream));
  run.Code("memset after", cudaMemsetAsync(block, 0, kBytes, stream));
  run.Code("event", cudaEventSynchronize(event));
  run.Code("query", cudaStreamQuery(stream));
  run.Code("last", cudaGetLastError());
  unsigned char* more = nullptr;
  run.Code("allocate", cudaMallocHost(&more, kBytes));
  run.Code("allocate small", cudaMallocHost(&more, 100));
  run.Code("allocate mapped", cudaHostAlloc(&more, 100, cudaHostAllocMapped));
  run.Code("device", cudaDeviceSynchronize());
  // What native CUDA refuses to free by now is of no consequence.
  (void)cudaFreeHost(block);
  (void)cudaFreeHost(back);
  run.Code("free device", cudaFree(device));
  run.Code("last", cudaGetLastError());
}

// Everything is freed, the device is reset, and all begins again.
void Reset(Run& run) {
  for (int i = 0; i < 3; ++i) {
    {
      const size_t bytes = run.Size(2 << 20) + 1;
      Guarded source(run, bytes), target(run, bytes);
      Device device(bytes);
      Stream stream;
      run.Fill(source.get(), bytes);
      run.Code("up", cudaMemcpyAsync(device.get(), source.get(), bytes,
                                     cudaMemcpyHostToDevice, stream));
      run.Code("down", cudaMemcpyAsync(target.get(), device.get(), bytes,
                                       cudaMemcpyDeviceToHost, stream));
      run.Code("sync", cudaStreamSynchronize(stream));
      run.Right("bytes", std::memcmp(target.get(), source.get(), bytes) == 0);
    }
    run.Code("reset", cudaDeviceReset());
  }
}

}  // namespace

std::vector<Scenario> ErrorScenarios() {
  return {{"20", "last_errors", LastErrors, 100},
          {"20", "copies_whatever_there_is", CopiesWhateverThereIs, 50},
          {"11", "random_arguments", RandomArguments, 200},
          {"21", "lost", Lost, 1, Needs::kNothing, 1, true},
          {"21", "reset", Reset, 5}};
}

}  // namespace conformance
