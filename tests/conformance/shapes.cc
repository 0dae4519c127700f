// Rule 12: rows, boxes, arrays, batches, kinds.

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/conformance/scenario.h"

namespace conformance {
namespace {

// Rows of any shape, there and back, the bytes between them untouched.
void AnyRows(Run& run) {
  const size_t width =
      run.OneIn(4) ? run.Between(1, 70'000) : run.Between(1, 2000);
  const size_t height = run.Between(0, 400'000 / width + 2);
  const size_t host_pitch = width + run.Pick<size_t>({0, 1, 3, 100, 4096});
  const size_t device_pitch = width + run.Pick<size_t>({0, 1, 12, 512});
  const size_t back_pitch = width + run.Pick<size_t>({0, 1, 7, 300});
  Guarded block(run, host_pitch * height + 1);
  Guarded back(run, back_pitch * height + 1);
  Device device(device_pitch * height + 1);
  Stream stream;
  run.Fill(block.get(), block.bytes());
  run.Fill(back.get(), back.bytes());
  CHECK_OK(cudaMemset(device.get(), 0x44, device_pitch * height + 1));
  CHECK_OK(cudaDeviceSynchronize());
  std::vector<unsigned char> expected(back.get(), back.get() + back.bytes());
  for (size_t y = 0; y < height; ++y) {
    std::memcpy(expected.data() + y * back_pitch, block.get() + y * host_pitch,
                width);
  }
  const bool defaults = run.OneIn(3);
  const auto up = defaults ? cudaMemcpyDefault : cudaMemcpyHostToDevice;
  const auto down = defaults ? cudaMemcpyDefault : cudaMemcpyDeviceToHost;
  if (run.OneIn(2)) {
    run.Code("up", cudaMemcpy2D(device.get(), device_pitch, block.get(),
                                host_pitch, width, height, up));
    run.Code("down", cudaMemcpy2D(back.get(), back_pitch, device.get(),
                                  device_pitch, width, height, down));
  } else {
    run.Code("up", cudaMemcpy2DAsync(device.get(), device_pitch, block.get(),
                                     host_pitch, width, height, up, stream));
    run.Code("down",
             cudaMemcpy2DAsync(back.get(), back_pitch, device.get(),
                               device_pitch, width, height, down, stream));
    run.Code("sync", cudaStreamSynchronize(stream));
  }
  run.Right("bytes",
            std::memcmp(back.get(), expected.data(), expected.size()) == 0);
  run.Right("guards", block.Intact() && back.Intact());
  const size_t all = device_pitch * height + 1;
  run.Digest("device", Contents(device.get(), all).data(), all);
}

// Case 11.
void ManyShortRows(Run& run) {
  constexpr size_t kRows = 100'000;
  Pinned block(7 * kRows), back(7 * kRows);
  Device device(kRows);
  Stream stream;
  run.Fill(block.get(), block.bytes());
  std::memset(back.get(), 0x66, back.bytes());
  run.Code("up", cudaMemcpy2DAsync(device.get(), 1, block.get(), 7, 1, kRows,
                                   cudaMemcpyHostToDevice, stream));
  run.Code("down", cudaMemcpy2DAsync(back.get(), 7, device.get(), 1, 1, kRows,
                                     cudaMemcpyDeviceToHost, stream));
  run.Code("sync", cudaStreamSynchronize(stream));
  bool right = true;
  for (size_t i = 0; i < back.bytes(); ++i) {
    right = right && back.get()[i] == (i % 7 == 0 ? block.get()[i] : 0x66);
  }
  run.Right("bytes", right);
}

void LongRows(Run& run) {
  const size_t width = run.Pick<size_t>({12'290, 9 << 20});
  const size_t pitch = width + 3;
  const size_t rows = width > (1 << 20) ? 2 : 50;
  Pinned block(pitch * rows), back(pitch * rows);
  Device device(width * rows);
  Stream stream;
  run.Fill(block.get(), block.bytes());
  std::memcpy(back.get(), block.get(), block.bytes());
  for (size_t y = 0; y < rows; ++y) {
    std::memset(back.get() + y * pitch, 0x66, width);
  }
  run.Code("up",
           cudaMemcpy2DAsync(device.get(), width, block.get(), pitch, width,
                             rows, cudaMemcpyHostToDevice, stream));
  run.Code("down",
           cudaMemcpy2DAsync(back.get(), pitch, device.get(), width, width,
                             rows, cudaMemcpyDeviceToHost, stream));
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Right("bytes", std::memcmp(back.get(), block.get(), block.bytes()) == 0);
}

// Boxes cut out of others, at any place.
void AnyBox(Run& run) {
  struct Whole {
    size_t pitch, rows, slices;
    size_t bytes() const { return pitch * rows * slices; }
  };
  const auto whole = [&] {
    return Whole{run.Between(1, 400), run.Between(1, 30), run.Between(1, 8)};
  };
  const Whole source = whole(), between = whole(), target = whole();
  const cudaExtent extent = {
      run.Between(0, std::min({source.pitch, between.pitch, target.pitch})),
      run.Between(0, std::min({source.rows, between.rows, target.rows})),
      run.Between(0, std::min({source.slices, between.slices, target.slices}))};
  const auto position = [&](const Whole& of) {
    return cudaPos{run.Between(0, of.pitch - extent.width),
                   run.Between(0, of.rows - extent.height),
                   run.Between(0, of.slices - extent.depth)};
  };
  Guarded block(run, source.bytes()), back(run, target.bytes());
  Device device(between.bytes());
  Stream stream;
  run.Fill(block.get(), block.bytes());
  run.Fill(back.get(), back.bytes());
  CHECK_OK(cudaMemset(device.get(), 0x19, between.bytes()));
  CHECK_OK(cudaDeviceSynchronize());
  cudaMemcpy3DParms up = {};
  up.srcPtr = {block.get(), source.pitch, source.pitch, source.rows};
  up.srcPos = position(source);
  up.dstPtr = {device.get(), between.pitch, between.pitch, between.rows};
  up.dstPos = position(between);
  up.extent = extent;
  up.kind = run.OneIn(3) ? cudaMemcpyDefault : cudaMemcpyHostToDevice;
  cudaMemcpy3DParms down = {};
  down.srcPtr = up.dstPtr;
  down.srcPos = up.dstPos;
  down.dstPtr = {back.get(), target.pitch, target.pitch, target.rows};
  down.dstPos = position(target);
  down.extent = extent;
  down.kind = run.OneIn(3) ? cudaMemcpyDefault : cudaMemcpyDeviceToHost;
  if (run.OneIn(2)) {
    run.Code("up", cudaMemcpy3D(&up));
    run.Code("down", cudaMemcpy3D(&down));
  } else {
    run.Code("up", cudaMemcpy3DAsync(&up, stream));
    run.Code("down", cudaMemcpy3DAsync(&down, stream));
    run.Code("sync", cudaStreamSynchronize(stream));
  }
  run.Digest("back", back.get(), back.bytes());
  run.Digest("device", Contents(device.get(), between.bytes()).data(),
             between.bytes());
  run.Right("guards", block.Intact() && back.Intact());
}

// Pitches and extents that do not fit, and ends that are missing.
void WrongShapes(Run& run) {
  Pinned block(200'000);
  Device device(200'000);
  Stream stream;
  run.Fill(block.get(), block.bytes());
  CHECK_OK(cudaMemset(device.get(), 0x20, 200'000));
  CHECK_OK(cudaDeviceSynchronize());
  for (int i = 0; i < 12; ++i) {
    const auto number = [&] {
      return run.Pick<size_t>({0, 1, 10, 100, 300, 1000, 100'000});
    };
    const bool down = run.OneIn(2);
    void* const to = down ? block.get() : device.get();
    void* const from = down ? device.get() : block.get();
    const auto kind = run.Pick<cudaMemcpyKind>(
        {cudaMemcpyDefault, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost});
    const size_t width = run.OneIn(10) ? SIZE_MAX : number();
    const size_t height = run.Pick<size_t>({0, 1, 2, 30});
    const size_t to_pitch = number(), from_pitch = number();
    run.Code("rows", cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width,
                                       height, kind, stream));
    run.Code("last", cudaGetLastError());
    CHECK_OK(cudaStreamSynchronize(stream));
  }
  run.Code("no such direction",
           cudaMemcpy2DAsync(device.get(), 10, block.get(), 10, 5, 5,
                             static_cast<cudaMemcpyKind>(7), stream));
  run.Code("no parameters", cudaMemcpy3D(nullptr));
  cudaMemcpy3DParms box = {};
  run.Code("empty", cudaMemcpy3D(&box));
  box.extent = {10, 1, 1};
  run.Code("no ends", cudaMemcpy3DAsync(&box, stream));
  box.srcPtr = {block.get(), 10, 10, 1};
  run.Code("no destination", cudaMemcpy3DAsync(&box, stream));
  run.Code("last", cudaGetLastError());
  box.dstPtr = {device.get(), 10, 10, 1};
  box.kind = static_cast<cudaMemcpyKind>(7);
  run.Code("no such direction", cudaMemcpy3DAsync(&box, stream));
  run.Code("last", cudaGetLastError());
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Digest("device", Contents(device.get(), 200'000).data(), 200'000);
  run.Digest("block", block.get(), block.bytes());
}

// Kinds that say something else than the addresses do.
void WrongKinds(Run& run) {
  const size_t bytes = run.Pick<size_t>({5, 70'000, 1 << 20});
  Pinned first(bytes), second(bytes);
  Device device(bytes), other(bytes);
  Stream stream;
  run.Fill(first.get(), bytes);
  run.Fill(second.get(), bytes);
  CHECK_OK(cudaMemset(device.get(), 1, bytes));
  CHECK_OK(cudaMemset(other.get(), 2, bytes));
  CHECK_OK(cudaDeviceSynchronize());
  const std::vector<unsigned char*> ends = {first.get(), second.get(),
                                            device.get(), other.get()};
  for (int i = 0; i < 6; ++i) {
    unsigned char* const to = run.Pick(ends);
    unsigned char* const from = run.Pick(ends);
    const auto kind = static_cast<cudaMemcpyKind>(run.Between(0, 5));
    if (to == from) continue;
    if (run.OneIn(3)) {
      CHECK_OK(cudaStreamSynchronize(stream));
      run.Code("waiting", cudaMemcpy(to, from, bytes, kind));
      // A copy within the device need not be over yet.
      CHECK_OK(cudaDeviceSynchronize());
    } else if (run.OneIn(4)) {
      run.Code("rows",
               cudaMemcpy2DAsync(to, 5, from, 5, 5, bytes / 5, kind, stream));
    } else {
      run.Code("async", cudaMemcpyAsync(to, from, bytes, kind, stream));
    }
    run.Code("last", cudaGetLastError());
  }
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Digest("first", first.get(), bytes);
  run.Digest("second", second.get(), bytes);
  run.Digest("device", Contents(device.get(), bytes).data(), bytes);
  run.Digest("other", Contents(other.get(), bytes).data(), bytes);
}

void Arrays(Run& run) {
  const size_t width = run.Between(1, 300);
  const size_t height = run.Between(1, 300);
  const size_t pitch = 4 * width + run.Pick<size_t>({0, 4, 100});
  const cudaChannelFormatDesc channels =
      cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindUnsigned);
  cudaArray_t array = nullptr;
  CHECK_OK(cudaMallocArray(&array, &channels, width, height));
  Guarded block(run, pitch * height), back(run, pitch * height);
  Stream stream;
  run.Fill(block.get(), block.bytes());
  std::memset(back.get(), 0x12, back.bytes());
  switch (run.Between(0, 2)) {
    case 0:
      run.Code("to",
               cudaMemcpy2DToArray(array, 0, 0, block.get(), pitch, 4 * width,
                                   height, cudaMemcpyHostToDevice));
      run.Code("from",
               cudaMemcpy2DFromArray(back.get(), pitch, array, 0, 0, 4 * width,
                                     height, cudaMemcpyDeviceToHost));
      break;
    case 1:
      run.Code("to", cudaMemcpy2DToArrayAsync(array, 0, 0, block.get(), pitch,
                                              4 * width, height,
                                              cudaMemcpyHostToDevice, stream));
      run.Code("from", cudaMemcpy2DFromArrayAsync(back.get(), pitch, array, 0,
                                                  0, 4 * width, height,
                                                  cudaMemcpyDefault, stream));
      break;
    default: {
      cudaMemcpy3DParms to = {};
      to.srcPtr = {block.get(), pitch, pitch, height};
      to.dstArray = array;
      to.extent = {width, height, 1};
      to.kind = cudaMemcpyHostToDevice;
      run.Code("to", cudaMemcpy3DAsync(&to, stream));
      cudaMemcpy3DParms from = {};
      from.srcArray = array;
      from.dstPtr = {back.get(), pitch, pitch, height};
      from.extent = to.extent;
      from.kind = cudaMemcpyDeviceToHost;
      run.Code("from", cudaMemcpy3DAsync(&from, stream));
    }
  }
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Digest("back", back.get(), back.bytes());
  bool right = true;
  for (size_t y = 0; y < height; ++y) {
    right = right && std::memcmp(back.get() + y * pitch,
                                 block.get() + y * pitch, 4 * width) == 0;
  }
  run.Right("bytes", right);
  run.Code("too wide",
           cudaMemcpy2DToArray(array, 4, 0, block.get(), pitch, 4 * width,
                               height, cudaMemcpyHostToDevice));
  run.Code("last", cudaGetLastError());
  run.Right("guards", block.Intact() && back.Intact());
  run.Code("free", cudaFreeArray(array));
}

// Memsets of rows and boxes within a block.
void ShapedMemsets(Run& run) {
  constexpr size_t kPitch = 400;
  const size_t rows = run.Between(1, 300);
  const size_t width = run.Between(1, kPitch);
  Guarded block(run, kPitch * rows);
  Stream stream;
  run.Fill(block.get(), block.bytes());
  run.Code("rows",
           cudaMemset2DAsync(block.get(), kPitch, 0x31, width, rows, stream));
  const cudaPitchedPtr whole = {block.get(), kPitch, kPitch, rows};
  run.Code("box", cudaMemset3DAsync(
                      whole, 0x17,
                      {width / 2, std::max<size_t>(1, rows / 2), 1}, stream));
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Digest("block", block.get(), block.bytes());
  run.Code("waiting", cudaMemset2D(block.get(), kPitch, 5, 3, rows));
  CHECK_OK(cudaDeviceSynchronize());
  run.Digest("block", block.get(), block.bytes());
  run.Right("guards", block.Intact());
}

#if CUDART_VERSION >= 12080
// Batches of copies between any ends.
void Batches(Run& run) {
  const size_t bytes = run.Between(1, 100'000);
  constexpr size_t kCopies = 6;
  Guarded block(run, kCopies * bytes), back(run, kCopies * bytes);
  Device device(kCopies * bytes);
  Stream stream;
  run.Fill(block.get(), block.bytes());
  std::memset(back.get(), 0x2d, back.bytes());
  std::vector<void*> to;
  std::vector<const void*> from;
  std::vector<void*> to_back;
  std::vector<size_t> sizes;
  for (size_t i = 0; i < kCopies; ++i) {
    to.push_back(device.get() + i * bytes);
    from.push_back(block.get() + (kCopies - 1 - i) * bytes);
    to_back.push_back(back.get() + i * bytes);
    sizes.push_back(run.Between(1, bytes));
  }
  const std::vector<const void*> from_device(to.begin(), to.end());
  cudaMemcpyAttributes attributes = {};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  size_t first = 0;
#if CUDART_VERSION >= 13000
  run.Code("up", cudaMemcpyBatchAsync(to.data(), from.data(), sizes.data(),
                                      kCopies, &attributes, &first, 1, stream));
  run.Code("down", cudaMemcpyBatchAsync(to_back.data(), from_device.data(),
                                        sizes.data(), kCopies, &attributes,
                                        &first, 1, stream));
#else
  size_t failed = 0;
  std::vector<void*> sources;
  for (const void* source : from) {
    sources.push_back(const_cast<void*>(source));
  }
  run.Code("up", cudaMemcpyBatchAsync(to.data(), sources.data(), sizes.data(),
                                      kCopies, &attributes, &first, 1, &failed,
                                      stream));
  run.Code("down", cudaMemcpyBatchAsync(to_back.data(), to.data(), sizes.data(),
                                        kCopies, &attributes, &first, 1,
                                        &failed, stream));
#endif
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Digest("back", back.get(), back.bytes());
  run.Right("guards", block.Intact() && back.Intact());
}
#endif

// A copy to the device itself, and one that says it is between devices.
void PeersOfOneDevice(Run& run) {
  const size_t bytes = run.Between(1, 300'000);
  Pinned block(bytes), back(bytes);
  Device device(bytes), other(bytes);
  Stream stream;
  run.Fill(block.get(), bytes);
  run.Code("up", cudaMemcpyAsync(device.get(), block.get(), bytes,
                                 cudaMemcpyHostToDevice, stream));
  run.Code("peer",
           cudaMemcpyPeerAsync(other.get(), 0, device.get(), 0, bytes, stream));
  run.Code("down", cudaMemcpyAsync(back.get(), other.get(), bytes,
                                   cudaMemcpyDeviceToHost, stream));
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Right("bytes", std::memcmp(back.get(), block.get(), bytes) == 0);
}

// Copies that say they are between devices, with pinned memory at an end.
void PeersOfBlocks(Run& run) {
  const size_t bytes =
      run.OneIn(3) ? run.Between(1, 2'000'000) : run.Size(70'000) + 1;
  Guarded block(run, bytes), back(run, bytes), last(run, bytes);
  Device device(bytes);
  Stream stream;
  run.Fill(block.get(), bytes);
  run.Fill(back.get(), bytes);
  if (run.OneIn(2)) {
    run.Code("up", cudaMemcpyPeerAsync(device.get(), 0, block.get(), 0, bytes,
                                       stream));
    run.Code("down", cudaMemcpyPeerAsync(back.get(), 0, device.get(), 0, bytes,
                                         stream));
    run.Code("sync", cudaStreamSynchronize(stream));
  } else {
    run.Code("up", cudaMemcpyPeer(device.get(), 0, block.get(), 0, bytes));
    CHECK_OK(cudaDeviceSynchronize());
    run.Code("down", cudaMemcpyPeer(back.get(), 0, device.get(), 0, bytes));
    CHECK_OK(cudaDeviceSynchronize());
  }
  run.Right("bytes", std::memcmp(back.get(), block.get(), bytes) == 0);
  run.Fill(back.get(), bytes);
  run.Code("block to block",
           cudaMemcpyPeerAsync(last.get(), 0, back.get(), 0, bytes, stream));
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Right("between blocks", std::memcmp(last.get(), back.get(), bytes) == 0);
  run.Code("none",
           cudaMemcpyPeerAsync(device.get(), 0, block.get(), 0, 0, stream));
  std::vector<unsigned char> unknown(16);
  run.Code("unknown memory",
           cudaMemcpyPeerAsync(unknown.data(), 0, block.get(), 0, 1, stream));
  run.Code("last", cudaGetLastError());
  run.Code("no such device", cudaMemcpyPeerAsync(device.get(), 63, block.get(),
                                                 0, bytes, stream));
  run.Code("last", cudaGetLastError());
  run.Code("too long", cudaMemcpyPeerAsync(device.get(), 0, block.get(), 0,
                                           bytes + (64 << 20), stream));
  run.Code("last", cudaGetLastError());
  run.Digest("device", Contents(device.get(), bytes).data(), bytes);
  run.Right("guards", block.Intact() && back.Intact() && last.Intact());
}

// The source is read when the stream gets there, not during the call.
void HeldPeers(Run& run) {
  const size_t bytes = run.Pick<size_t>({7, 70'000, 3 << 20});
  Pinned block(bytes), back(bytes);
  Device device(bytes);
  Stream stream;
  run.Fill(block.get(), bytes);
  bool waited = false;
  {
    Gate gate;
    gate.Hold(stream);
    waited = WaitsFor(gate, [&] {
      run.Code("up", cudaMemcpyPeerAsync(device.get(), 0, block.get(), 0, bytes,
                                         stream));
      run.Code("down", cudaMemcpyPeerAsync(back.get(), 0, device.get(), 0,
                                           bytes, stream));
      run.Fill(block.get(), bytes);
    });
    run.Code("sync", cudaStreamSynchronize(stream));
  }
  run.Note("waits", waited ? 1 : 0);
  run.Right("bytes", std::memcmp(back.get(), block.get(), bytes) == 0);
}

// Boxes between devices.
void PeerBoxes(Run& run) {
  const cudaExtent extent = {run.Between(0, 300), run.Between(1, 40),
                             run.Between(1, 6)};
  const size_t pitch = extent.width + run.Pick<size_t>({0, 1, 90});
  const size_t rows = extent.height + run.Pick<size_t>({0, 2});
  const size_t bytes = pitch * rows * extent.depth + 1;
  Guarded block(run, bytes), back(run, bytes);
  Device device(bytes);
  Stream stream;
  run.Fill(block.get(), bytes);
  run.Fill(back.get(), bytes);
  CHECK_OK(cudaMemset(device.get(), 0x51, bytes));
  CHECK_OK(cudaDeviceSynchronize());
  cudaMemcpy3DPeerParms up = {};
  up.srcPtr = {block.get(), pitch, pitch, rows};
  up.dstPtr = {device.get(), pitch, pitch, rows};
  up.extent = extent;
  cudaMemcpy3DPeerParms down = {};
  down.srcPtr = up.dstPtr;
  down.dstPtr = {back.get(), pitch, pitch, rows};
  down.extent = extent;
  if (run.OneIn(2)) {
    run.Code("up", cudaMemcpy3DPeerAsync(&up, stream));
    run.Code("down", cudaMemcpy3DPeerAsync(&down, stream));
  } else {
    run.Code("up", cudaMemcpy3DPeer(&up));
    CHECK_OK(cudaDeviceSynchronize());
    run.Code("down", cudaMemcpy3DPeer(&down));
    CHECK_OK(cudaDeviceSynchronize());
  }
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Digest("back", back.get(), bytes);
  run.Digest("device", Contents(device.get(), bytes).data(), bytes);
  run.Code("no parameters", cudaMemcpy3DPeerAsync(nullptr, stream));
  run.Code("last", cudaGetLastError());
  run.Right("guards", block.Intact() && back.Intact());
}

void PeersOfArrays(Run& run) {
  const size_t width = run.Between(1, 200);
  const size_t height = run.Between(1, 200);
  const size_t pitch = 4 * width + run.Pick<size_t>({0, 4, 100});
  const cudaChannelFormatDesc channels =
      cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindUnsigned);
  cudaArray_t array = nullptr;
  CHECK_OK(cudaMallocArray(&array, &channels, width, height));
  Guarded block(run, pitch * height), back(run, pitch * height);
  Stream stream;
  run.Fill(block.get(), block.bytes());
  std::memset(back.get(), 0x12, back.bytes());
  cudaMemcpy3DPeerParms to = {};
  to.srcPtr = {block.get(), pitch, pitch, height};
  to.dstArray = array;
  to.extent = {width, height, 1};
  cudaMemcpy3DPeerParms from = {};
  from.srcArray = array;
  from.dstPtr = {back.get(), pitch, pitch, height};
  from.extent = to.extent;
  run.Code("to", cudaMemcpy3DPeerAsync(&to, stream));
  run.Code("from", cudaMemcpy3DPeerAsync(&from, stream));
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Digest("back", back.get(), back.bytes());
  run.Right("guards", block.Intact() && back.Intact());
  run.Code("free", cudaFreeArray(array));
}

#if CUDART_VERSION >= 12080
cudaError_t CopyBoxes(std::vector<cudaMemcpy3DBatchOp>& boxes,
                      cudaStream_t stream) {
#if CUDART_VERSION >= 13000
  return cudaMemcpy3DBatchAsync(boxes.size(), boxes.data(), 0, stream);
#else
  size_t failed = 0;
  return cudaMemcpy3DBatchAsync(boxes.size(), boxes.data(), &failed, 0, stream);
#endif
}

cudaMemcpy3DOperand PointerOperand(void* pointer, size_t length,
                                   size_t height) {
  cudaMemcpy3DOperand operand = {};
  operand.type = cudaMemcpyOperandTypePointer;
  operand.op.ptr.ptr = pointer;
  operand.op.ptr.rowLength = length;
  operand.op.ptr.layerHeight = height;
  return operand;
}

// Batches of boxes between any ends, of any order of access.
void BatchesOfBoxes(Run& run) {
  constexpr size_t kBoxes = 4;
  constexpr size_t kBytes = 60'000;
  Guarded block(run, kBoxes * kBytes), back(run, kBoxes * kBytes);
  Device device(kBoxes * kBytes), other(kBytes);
  Stream stream;
  run.Fill(block.get(), block.bytes());
  run.Fill(back.get(), back.bytes());
  CHECK_OK(cudaMemset(device.get(), 0x7c, kBoxes * kBytes));
  CHECK_OK(cudaMemset(other.get(), 0x7d, kBytes));
  CHECK_OK(cudaDeviceSynchronize());
  std::vector<cudaMemcpy3DBatchOp> up, down;
  for (size_t i = 0; i < kBoxes; ++i) {
    cudaMemcpy3DBatchOp box = {};
    box.extent = {run.Between(1, 200), run.Between(1, 20), run.Between(1, 8)};
    const auto operand = [&](unsigned char* base) {
      return PointerOperand(
          base + i * kBytes,
          run.OneIn(2) ? 0 : box.extent.width + run.Between(0, 40),
          run.OneIn(2) ? 0 : box.extent.height + run.Between(0, 4));
    };
    box.src = operand(block.get());
    box.dst = operand(device.get());
    box.srcAccessOrder = run.Pick<cudaMemcpySrcAccessOrder>(
        {cudaMemcpySrcAccessOrderStream, cudaMemcpySrcAccessOrderDuringApiCall,
         cudaMemcpySrcAccessOrderAny});
    up.push_back(box);
    box.src = box.dst;
    box.dst = operand(back.get());
    box.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    down.push_back(box);
  }
  // One that no block has a part in.
  cudaMemcpy3DBatchOp within = {};
  within.extent = {100, 10, 3};
  within.src = PointerOperand(device.get(), 0, 0);
  within.dst = PointerOperand(other.get(), 0, 0);
  within.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  down.push_back(within);
  run.Code("up", CopyBoxes(up, stream));
  run.Code("down", CopyBoxes(down, stream));
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Digest("back", back.get(), back.bytes());
  run.Digest("device", Contents(device.get(), kBoxes * kBytes).data(),
             kBoxes * kBytes);
  run.Digest("other", Contents(other.get(), kBytes).data(), kBytes);
  run.Right("guards", block.Intact() && back.Intact());
}

void BatchesOfArrays(Run& run) {
  const size_t width = run.Between(2, 200);
  const size_t height = run.Between(2, 100);
  const size_t length = width + run.Between(0, 30);
  const cudaChannelFormatDesc channels =
      cudaCreateChannelDesc(16, 16, 0, 0, cudaChannelFormatKindUnsigned);
  cudaArray_t array = nullptr;
  CHECK_OK(cudaMallocArray(&array, &channels, width, height));
  Guarded block(run, 4 * length * height), back(run, 4 * length * height);
  Stream stream;
  run.Fill(block.get(), block.bytes());
  std::memset(back.get(), 0x12, back.bytes());
  const size_t x = run.Between(0, width - 1), y = run.Between(0, height - 1);
  cudaMemcpy3DOperand in_array = {};
  in_array.type = cudaMemcpyOperandTypeArray;
  in_array.op.array.array = array;
  in_array.op.array.offset = {x, y, 0};
  cudaMemcpy3DBatchOp box = {};
  box.extent = {width - x, height - y, 1};
  box.src = PointerOperand(block.get(), length, 0);
  box.dst = in_array;
  box.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  std::vector<cudaMemcpy3DBatchOp> boxes = {box};
  run.Code("to", CopyBoxes(boxes, stream));
  boxes[0].src = in_array;
  boxes[0].dst = PointerOperand(back.get(), length, 0);
  run.Code("from", CopyBoxes(boxes, stream));
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Digest("back", back.get(), back.bytes());
  boxes[0].src.op.array.offset.x = width;
  run.Code("beyond the array", CopyBoxes(boxes, stream));
  run.Code("last", cudaGetLastError());
  run.Right("guards", block.Intact() && back.Intact());
  run.Code("free", cudaFreeArray(array));
}

// What a held stream's batch reads, and when.
void HeldBoxes(Run& run) {
  const size_t width = run.Pick<size_t>({1, 300, 50'000});
  const size_t bytes = width * 8;
  Pinned block(bytes), back(bytes);
  Device device(bytes);
  Stream stream;
  run.Fill(block.get(), bytes);
  const std::vector<unsigned char> before(block.get(), block.get() + bytes);
  const bool during_call = run.OneIn(2);
  cudaMemcpy3DBatchOp box = {};
  box.extent = {width, 4, 2};
  box.src = PointerOperand(block.get(), 0, 0);
  box.dst = PointerOperand(device.get(), 0, 0);
  box.srcAccessOrder = during_call ? cudaMemcpySrcAccessOrderDuringApiCall
                                   : cudaMemcpySrcAccessOrderStream;
  std::vector<cudaMemcpy3DBatchOp> boxes = {box};
  {
    Gate gate;
    gate.Hold(stream);
    const bool waited = WaitsFor(gate, [&] {
      run.Code("up", CopyBoxes(boxes, stream));
      run.Fill(block.get(), bytes);
    });
    if (!during_call) run.Note("waits", waited ? 1 : 0);
    run.Code("sync", cudaStreamSynchronize(stream));
  }
  run.Code("down",
           cudaMemcpy(back.get(), device.get(), bytes, cudaMemcpyDeviceToHost));
  run.Right("bytes",
            std::memcmp(back.get(), during_call ? before.data() : block.get(),
                        bytes) == 0);
}

// Batches that the runtime refuses.
void WrongBoxes(Run& run) {
  Pinned block(200'000);
  Device device(200'000);
  Stream stream;
  run.Fill(block.get(), block.bytes());
  CHECK_OK(cudaMemset(device.get(), 0x20, 200'000));
  CHECK_OK(cudaDeviceSynchronize());
  cudaMemcpy3DBatchOp right = {};
  right.extent = {100, 10, 2};
  right.src = PointerOperand(block.get(), 0, 0);
  right.dst = PointerOperand(device.get(), 0, 0);
  right.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  std::vector<cudaMemcpy3DBatchOp> boxes = {right};
  const auto expect = [&](const char* name, cudaStream_t in) {
    run.Code(name, CopyBoxes(boxes, in));
    run.Code("last", cudaGetLastError());
    boxes[0] = right;
  };
  boxes[0].extent.width = 0;
  expect("no width", stream);
  boxes[0].extent.depth = 0;
  expect("no depth", stream);
  boxes[0].src.op.ptr.rowLength = 99;
  expect("rows longer than their pitch", stream);
  boxes[0].dst.op.ptr.layerHeight = 9;
  expect("more rows than a layer", stream);
  boxes[0].srcAccessOrder = static_cast<cudaMemcpySrcAccessOrder>(9);
  expect("no such order", stream);
  boxes[0].src.op.ptr.ptr = nullptr;
  expect("no source", stream);
  boxes[0].src.op.ptr.rowLength = 1 << 20;
  expect("beyond the block", stream);
  expect("the legacy stream", nullptr);
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Digest("device", Contents(device.get(), 200'000).data(), 200'000);
}
#endif

}  // namespace

std::vector<Scenario> ShapeScenarios() {
  return {
    {"12", "any_rows", AnyRows, 200},
        {"12", "many_short_rows", ManyShortRows, 2},
        {"12", "long_rows", LongRows, 5}, {"12", "any_box", AnyBox, 200},
        {"12", "wrong_shapes", WrongShapes, 100},
        {"12", "wrong_kinds", WrongKinds, 100}, {"12", "arrays", Arrays, 30},
        {"12", "peers_of_one_device", PeersOfOneDevice, 20},
        {"12", "peers_of_blocks", PeersOfBlocks, 100},
        {"12", "held_peers", HeldPeers, 10, Needs::kQueueing},
        {"12", "peer_boxes", PeerBoxes, 50},
        {"12", "peers_of_arrays", PeersOfArrays, 20},
#if CUDART_VERSION >= 12080
        {"12", "batches", Batches, 30},
        {"12", "batches_of_boxes", BatchesOfBoxes, 50},
        {"12", "batches_of_arrays", BatchesOfArrays, 30},
        {"12", "held_boxes", HeldBoxes, 10, Needs::kQueueing},
        {"12", "wrong_boxes", WrongBoxes, 1},
#endif
    {
      "13", "shaped_memsets", ShapedMemsets, 50
    }
  };
}

}  // namespace conformance
