// Rules 11, 13 and 14: addresses, lengths, memsets, allocation.

#include <algorithm>
#include <climits>
#include <cstring>
#include <memory>

#include "tests/conformance/scenario.h"

namespace conformance {
namespace {

constexpr size_t kHuge = 2 << 20;

// Any address and length, both ways, by either kind of call.
void AnyRange(Run& run) {
  const size_t whole = run.Size(5 << 20) + 10;
  Pinned block(whole), back(whole);
  Device device(whole);
  Stream stream;
  run.Fill(block.get(), whole);
  run.Fill(back.get(), whole);
  CHECK_OK(cudaMemset(device.get(), 0x3c, whole));
  CHECK_OK(cudaDeviceSynchronize());
  std::vector<unsigned char> on_device(whole, 0x3c);
  std::vector<unsigned char> expected(back.get(), back.get() + whole);
  for (int i = 0; i < 5; ++i) {
    const size_t bytes = std::min(run.Size(whole), whole);
    const size_t from = run.Between(0, whole - bytes);
    const size_t to = run.Between(0, whole - bytes);
    const bool down = run.OneIn(2);
    unsigned char* const target = (down ? back.get() : device.get()) + to;
    const unsigned char* const source =
        (down ? device.get() : block.get()) + from;
    const cudaMemcpyKind kind =
        run.OneIn(3) ? cudaMemcpyDefault
                     : (down ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice);
    if (run.OneIn(3)) {
      CHECK_OK(cudaStreamSynchronize(stream));
      run.Code("sync", cudaMemcpy(target, source, bytes, kind));
    } else {
      run.Code("async", cudaMemcpyAsync(target, source, bytes, kind, stream));
    }
    if (down) {
      std::copy_n(on_device.begin() + static_cast<std::ptrdiff_t>(from), bytes,
                  expected.begin() + static_cast<std::ptrdiff_t>(to));
    } else {
      std::copy_n(block.get() + from, bytes,
                  on_device.begin() + static_cast<std::ptrdiff_t>(to));
    }
  }
  run.Code("done", cudaStreamSynchronize(stream));
  run.Right("device", Contents(device.get(), whole) == on_device);
  run.Right("host", std::memcmp(back.get(), expected.data(), whole) == 0);
}

// Copies that are only just within, or only just too long.
void LengthsAtTheEdges(Run& run) {
  const size_t bytes = run.Pick<size_t>({5000, 65'536, 70'000, 1 << 20});
  Pinned block(bytes);
  Device device(bytes);
  Stream stream;
  run.Fill(block.get(), bytes);
  CHECK_OK(cudaMemset(device.get(), 0, bytes));
  CHECK_OK(cudaDeviceSynchronize());
  const auto copy = [&](const char* name, size_t at, size_t length) {
    run.Code(std::string(name) + " up",
             cudaMemcpyAsync(device.get() + at, block.get() + at, length,
                             cudaMemcpyHostToDevice, stream));
    run.Code("last", cudaGetLastError());
    run.Code(std::string(name) + " up, waiting",
             cudaMemcpy(device.get() + at, block.get() + at, length,
                        cudaMemcpyHostToDevice));
    run.Code("last", cudaGetLastError());
    run.Code(std::string(name) + " down",
             cudaMemcpyAsync(block.get() + at, device.get() + at, length,
                             cudaMemcpyDeviceToHost, stream));
    run.Code("last", cudaGetLastError());
    run.Code("sync", cudaStreamSynchronize(stream));
  };
  copy("all of it", 0, bytes);
  copy("the last byte", bytes - 1, 1);
  copy("nothing, at the end", bytes, 0);
  copy("overflow", 1, SIZE_MAX);
  copy("nearly everything there is", 0, SIZE_MAX / 2);
  run.Digest("device", Contents(device.get(), bytes).data(), bytes);
  run.Digest("block", block.get(), bytes);
}

// Too long for the device: natively nothing moves.
void TooLongForTheDevice(Run& run) {
  const size_t bytes = run.Pick<size_t>({70'000, 1 << 20, 3 << 20});
  Pinned block(bytes + kHuge);
  Device device(bytes);
  Stream stream;
  run.Fill(block.get(), block.bytes());
  CHECK_OK(cudaMemset(device.get(), 0x21, bytes));
  CHECK_OK(cudaDeviceSynchronize());
  const uint64_t digest = DigestOf(block.get(), block.bytes());
  const size_t over = run.Pick<size_t>({1, 4096, kHuge});
  run.Code("up", cudaMemcpyAsync(device.get(), block.get(), bytes + over,
                                 cudaMemcpyHostToDevice, stream));
  run.Code("last", cudaGetLastError());
  run.Code("up, waiting", cudaMemcpy(device.get() + 1, block.get(),
                                     bytes + over - 1, cudaMemcpyHostToDevice));
  run.Code("down", cudaMemcpyAsync(block.get(), device.get(), bytes + over,
                                   cudaMemcpyDeviceToHost, stream));
  run.Code("down, waiting", cudaMemcpy(block.get(), device.get(), bytes + over,
                                       cudaMemcpyDeviceToHost));
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Code("last", cudaGetLastError());
  run.Code("last again", cudaGetLastError());
  run.Digest("device", Contents(device.get(), bytes).data(), bytes);
  run.Note("block as before",
           DigestOf(block.get(), block.bytes()) == digest ? 1 : 0);
}

// Rule 13: a memset of a block, in stream order.
void MemsetInOrder(Run& run) {
  const size_t bytes = run.Size(1 << 20) + 1;
  Guarded block(run, bytes), back(run, bytes);
  Device device(bytes);
  Stream stream;
  run.Fill(block.get(), bytes);
  Gate gate;
  gate.Hold(stream);
  run.Code("up", cudaMemcpyAsync(device.get(), block.get(), bytes,
                                 cudaMemcpyHostToDevice, stream));
  const size_t from = run.Between(0, bytes - 1);
  const size_t count = run.Between(0, bytes - from);
  run.Code("memset", cudaMemsetAsync(block.get() + from, 0x1b5, count, stream));
  run.Code("back", cudaMemcpyAsync(back.get(), device.get(), bytes,
                                   cudaMemcpyDeviceToHost, stream));
  run.Code("up again", cudaMemcpyAsync(device.get(), block.get(), bytes,
                                       cudaMemcpyHostToDevice, stream));
  run.Right("returned before", !gate.open());
  const std::vector<unsigned char> before(block.get(), block.get() + bytes);
  gate.Open();
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Right("before", std::memcmp(back.get(), before.data(), bytes) == 0);
  std::vector<unsigned char> after = before;
  std::fill_n(after.begin() + static_cast<std::ptrdiff_t>(from), count, 0xb5);
  run.Right("after", Contents(device.get(), bytes) == after);
  run.Right("guards", block.Intact() && back.Intact());
  run.Code("memset, waiting", cudaMemset(block.get(), 3, bytes));
  CHECK_OK(cudaDeviceSynchronize());
  run.Right("set", std::count(block.get(), block.get() + bytes, 3) ==
                       static_cast<std::ptrdiff_t>(bytes));
}

// Copies and memsets that reach beyond a block, small or not, by a byte: they
// are refused as a whole, in every shape.
void BeyondTheBlock(Run& run) {
  const size_t bytes =
      run.OneIn(4) ? run.Between(70'000, 200'000) : run.Between(64, 65'536);
  Pinned before(bytes), block(bytes), after(bytes);
  Device device(2 * bytes + 64);
  Stream stream;
  run.Fill(before.get(), bytes);
  run.Fill(block.get(), bytes);
  run.Fill(after.get(), bytes);
  CHECK_OK(cudaMemset(device.get(), 0x3c, 2 * bytes + 64));
  CHECK_OK(cudaDeviceSynchronize());
  const auto refused = [&](const char* name, cudaError_t code) {
    run.Code(name, code);
    run.Code("last", cudaGetLastError());
  };
  const size_t at = run.OneIn(2) ? 0 : run.Between(1, bytes - 20);
  unsigned char* const first = block.get() + at;
  const size_t left = bytes - at;
  const size_t over = left + run.Pick<size_t>({1, 1, 7, 300});
  const size_t some = std::min<size_t>(over, 2 * bytes + 64);
  refused("up", cudaMemcpyAsync(device.get(), first, some, cudaMemcpyDefault,
                                stream));
  refused("down", cudaMemcpyAsync(first, device.get(), some,
                                  cudaMemcpyDeviceToHost, stream));
  refused("up, waiting",
          cudaMemcpy(device.get(), first, some, cudaMemcpyHostToDevice));
  refused("down, waiting",
          cudaMemcpy(first, device.get(), some, cudaMemcpyDeviceToHost));
  refused("between blocks",
          cudaMemcpyAsync(after.get(), first, some, cudaMemcpyDefault, stream));
  refused("memset", cudaMemsetAsync(first, 0x11, some, stream));
  refused("memset, waiting", cudaMemset(first, 0x11, some));
  refused("peer", cudaMemcpyPeerAsync(device.get(), 0, first, 0, some, stream));
  // Rows of which the last one's last byte is beyond.
  const size_t pitch = run.Between(5, 18);
  const size_t rows = left / pitch + 1;
  const size_t width = left - (rows - 1) * pitch + 1;
  refused("rows up", cudaMemcpy2DAsync(device.get(), pitch, first, pitch, width,
                                       rows, cudaMemcpyHostToDevice, stream));
  refused("rows down", cudaMemcpy2D(first, pitch, device.get(), pitch, width,
                                    rows, cudaMemcpyDeviceToHost));
  refused("memset of rows",
          cudaMemset2DAsync(first, pitch, 0x12, width, rows, stream));
  cudaMemcpy3DParms box = {};
  box.srcPtr = {first, pitch, pitch, 1};
  box.dstPtr = {device.get(), pitch, pitch, 1};
  box.extent = {width, 1, rows};
  box.kind = cudaMemcpyHostToDevice;
  refused("box", cudaMemcpy3DAsync(&box, stream));
  // One byte less is what there is.
  if (width > 1) {
    run.Code("rows that fit",
             cudaMemcpy2DAsync(device.get(), pitch, first, pitch, width - 1,
                               rows, cudaMemcpyHostToDevice, stream));
    run.Code("memset of rows that fit",
             cudaMemset2DAsync(first, pitch, 0x13, width - 1, rows, stream));
  }
  run.Code("up to the end", cudaMemcpyAsync(device.get(), first, left,
                                            cudaMemcpyDefault, stream));
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Digest("before", before.get(), bytes);
  run.Digest("block", block.get(), bytes);
  run.Digest("after", after.get(), bytes);
  run.Digest("device", Contents(device.get(), 2 * bytes + 64).data(),
             2 * bytes + 64);
}

#if CUDART_VERSION >= 12080
// The same in batches, whose other copies are not made either.
void BatchBeyondTheBlock(Run& run) {
  const size_t bytes = run.Between(64, 65'536);
  Pinned block(bytes), after(bytes);
  Device device(bytes + 64);
  Stream stream;
  run.Fill(block.get(), bytes);
  run.Fill(after.get(), bytes);
  CHECK_OK(cudaMemset(device.get(), 0x3d, bytes + 64));
  CHECK_OK(cudaDeviceSynchronize());
  void* dst = device.get();
  void* src = block.get();
  size_t size = bytes + 1;
  cudaMemcpyAttributes attributes = {};
  attributes.srcAccessOrder = run.Pick<cudaMemcpySrcAccessOrder>(
      {cudaMemcpySrcAccessOrderStream, cudaMemcpySrcAccessOrderDuringApiCall,
       cudaMemcpySrcAccessOrderAny});
  size_t first = 0;
  const auto batch = [&] {
#if CUDART_VERSION >= 13000
    const void* from = src;
    return cudaMemcpyBatchAsync(&dst, &from, &size, 1, &attributes, &first, 1,
                                stream);
#else
    size_t failed = 0;
    return cudaMemcpyBatchAsync(&dst, &src, &size, 1, &attributes, &first, 1,
                                &failed, stream);
#endif
  };
  run.Code("up", batch());
  run.Code("last", cudaGetLastError());
  size = bytes;
  run.Code("up to the end", batch());
  cudaMemcpy3DBatchOp box = {};
  box.extent = {bytes / 2 + 1, 1, 2};
  box.src.type = box.dst.type = cudaMemcpyOperandTypePointer;
  box.src.op.ptr.ptr = block.get();
  box.dst.op.ptr.ptr = device.get();
  box.srcAccessOrder = attributes.srcAccessOrder;
#if CUDART_VERSION >= 13000
  run.Code("box", cudaMemcpy3DBatchAsync(1, &box, 0, stream));
#else
  size_t failed = 0;
  run.Code("box", cudaMemcpy3DBatchAsync(1, &box, &failed, 0, stream));
#endif
  run.Code("last", cudaGetLastError());
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Digest("after", after.get(), bytes);
  run.Digest("device", Contents(device.get(), bytes + 64).data(), bytes + 64);
}
#endif

// Rule 13: both ends are blocks.
void BothEndsStaged(Run& run) {
  const size_t bytes = run.Size(2 << 20);
  Guarded source(run, bytes), target(run, bytes), third(run, bytes);
  Stream stream;
  run.Fill(source.get(), bytes);
  const auto kind =
      run.Pick<cudaMemcpyKind>({cudaMemcpyDefault, cudaMemcpyHostToHost});
  run.Code("async",
           cudaMemcpyAsync(target.get(), source.get(), bytes, kind, stream));
  run.Code("second",
           cudaMemcpyAsync(third.get(), target.get(), bytes, kind, stream));
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Right("bytes", std::memcmp(third.get(), source.get(), bytes) == 0);
  run.Fill(source.get(), bytes);
  run.Code("waiting", cudaMemcpy(target.get(), source.get(), bytes, kind));
  run.Right("bytes again", std::memcmp(target.get(), source.get(), bytes) == 0);
  run.Right("guards", source.Intact() && target.Intact() && third.Intact());
}

// The same behind a gate: read and written when the stream gets there.
void BothEndsStagedInOrder(Run& run) {
  const size_t bytes = run.Between(1, 1 << 20);
  Guarded source(run, bytes), target(run, bytes);
  Stream stream;
  Device device(bytes);
  run.Fill(source.get(), bytes);
  Gate gate;
  gate.Hold(stream);
  const bool waited = WaitsFor(gate, [&] {
    run.Code("copy", cudaMemcpyAsync(target.get(), source.get(), bytes,
                                     cudaMemcpyDefault, stream));
  });
  run.Note("waits", waited ? 1 : 0);
  run.Code("up", cudaMemcpyAsync(device.get(), target.get(), bytes,
                                 cudaMemcpyHostToDevice, stream));
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Right("bytes", std::memcmp(target.get(), source.get(), bytes) == 0);
  run.Right("device", DigestOf(Contents(device.get(), bytes).data(), bytes) ==
                          DigestOf(source.get(), bytes));
}

// Case 12.
void OddAllocations(Run& run) {
  void* const junk = &run;
  void* pointer = junk;
  run.Code("nothing", cudaMallocHost(&pointer, 0));
  run.Note("left as it was", pointer == junk ? 1 : 0);
  pointer = junk;
  run.Code("nothing, with flags",
           cudaHostAlloc(&pointer, 0, cudaHostAllocPortable));
  run.Note("left as it was", pointer == junk ? 1 : 0);
  pointer = junk;
  run.Code("everything", cudaMallocHost(&pointer, SIZE_MAX));
  run.Note("left as it was", pointer == junk ? 1 : 0);
  run.Note("null", pointer == nullptr ? 1 : 0);
  run.Code("peek", cudaPeekAtLastError());
  run.Code("last", cudaGetLastError());
  run.Code("last again", cudaGetLastError());
  for (const size_t bytes :
       {SIZE_MAX - 1, SIZE_MAX - 4096, SIZE_MAX / 2, size_t{1} << 62}) {
    run.Code("too much", cudaMallocHost(&pointer, bytes));
    run.Code("last", cudaGetLastError());
  }
  run.Code("no pointer",
           cudaMallocHost(static_cast<void**>(nullptr), size_t{16}));
  run.Code("no pointer, nothing",
           cudaMallocHost(static_cast<void**>(nullptr), size_t{0}));
  run.Code("last", cudaGetLastError());
  run.Code("free null", cudaFreeHost(nullptr));
  int local = 0;
  run.Code("free the stack", cudaFreeHost(&local));
  run.Code("last", cudaGetLastError());
  for (unsigned flags = 0; flags < 16; ++flags) {
    pointer = nullptr;
    const size_t bytes = run.Pick<size_t>({1, 4096, 70'000, 3 << 20});
    if (run.Code("flags", cudaHostAlloc(&pointer, bytes, flags)) !=
        cudaSuccess) {
      run.Code("last", cudaGetLastError());
      continue;
    }
    unsigned told = 0;
    run.Code("get flags", cudaHostGetFlags(&told, pointer));
    run.Note("told", told);
    std::memset(pointer, 1, bytes);
    run.Code("free", cudaFreeHost(pointer));
  }
  run.Code("wrong free", cudaFree(&local));
  run.Code("last", cudaGetLastError());
}

void EveryBlock(Run& run) {
  const size_t bytes = run.Size(8 << 20) + 1;
  unsigned char* block = nullptr;
  run.Code("allocate", cudaMallocHost(&block, bytes));
  // Natively small ones are aligned to less than a page too.
  const size_t alignment = bytes <= (64 << 10) ? 256 : 4096;
  run.Right("aligned", reinterpret_cast<uintptr_t>(block) % alignment == 0);
  std::memset(block, 0x5a, bytes);
  run.Code("interior free", cudaFreeHost(block + bytes / 2 + 1));
  run.Code("last", cudaGetLastError());
  run.Note("still there", block[bytes - 1]);
  run.Code("free", cudaFreeHost(block));
  run.Code("freed twice", cudaFreeHost(block));
  run.Code("last", cudaGetLastError());
}

// Copies of nothing.
void NothingToCopy(Run& run) {
  Pinned block(run.Pick<size_t>({100, 70'000}));
  Device device(100);
  Stream stream;
  const std::vector<void*> pointers = {nullptr, block.get(), device.get()};
  for (int kind = 0; kind <= cudaMemcpyDefault; ++kind) {
    const auto given = static_cast<cudaMemcpyKind>(kind);
    void* const to = run.Pick(pointers);
    void* const from = run.Pick(pointers);
    run.Code("async", cudaMemcpyAsync(to, from, 0, given, stream));
    run.Code("waiting", cudaMemcpy(to, from, 0, given));
    run.Code("last", cudaGetLastError());
    run.Code("rows", cudaMemcpy2DAsync(to, 10, from, 10, 0, 5, given, stream));
    run.Code("no rows", cudaMemcpy2D(to, 10, from, 10, 10, 0, given));
    run.Code("last", cudaGetLastError());
  }
  run.Code("memset", cudaMemsetAsync(block.get(), 1, 0, stream));
  run.Code("sync", cudaStreamSynchronize(stream));
}

}  // namespace

std::vector<Scenario> AddressScenarios() {
  return {
    {"11", "any_range", AnyRange, 200},
        {"11", "lengths_at_the_edges", LengthsAtTheEdges, 20},
        {"11", "too_long_for_the_device", TooLongForTheDevice, 30},
        {"11", "beyond_the_block", BeyondTheBlock, 100},
#if CUDART_VERSION >= 12080
        {"11", "batch_beyond_the_block", BatchBeyondTheBlock, 30},
#endif
        {"13", "memset_in_order", MemsetInOrder, 50, Needs::kQueueing},
        {"13", "both_ends_staged", BothEndsStaged},
        {"13",
         "both_ends_staged_in_order",
         BothEndsStagedInOrder,
         1,
         Needs::kQueueing,
         1,
         true},
        {"14", "odd_allocations", OddAllocations, 10},
        {"14", "every_block", EveryBlock}, {
      "14", "nothing_to_copy", NothingToCopy, 50
    }
  };
}

}  // namespace conformance
