// Calls that need host memory really pinned, or that few programs make: kernels
// that get its address, operations on its words, batches, words of memsets,
// arrays at a byte offset. Linked with the driver; prints what it sees, so that
// two runs can be compared.
//
//   promotions             all of it
//   promotions --refused   what the preload library is told to refuse

#include <cuda.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "tests/simcuda_programs_test/program.h"

namespace {

constexpr size_t kWords = 100'003;
constexpr size_t kBytes = kWords * sizeof(uint32_t);

struct Pinned {
  explicit Pinned(size_t bytes) {
    CHECK_CU(CUDA_SUCCESS, cuMemHostAlloc(&block, bytes, 0));
  }
  ~Pinned() { CHECK_CU(CUDA_SUCCESS, cuMemFreeHost(block)); }

  char* bytes() const { return static_cast<char*>(block); }
  uint32_t* words() const { return static_cast<uint32_t*>(block); }
  CUdeviceptr address() const { return reinterpret_cast<CUdeviceptr>(block); }

  void* block = nullptr;
};

struct Device {
  explicit Device(size_t bytes) {
    CHECK_CU(CUDA_SUCCESS, cuMemAlloc(&address, bytes));
  }
  ~Device() { CHECK_CU(CUDA_SUCCESS, cuMemFree(address)); }

  CUdeviceptr address = 0;
};

uint64_t Sum(const uint32_t* words, size_t count) {
  uint64_t sum = 0;
  for (size_t i = 0; i < count; ++i) sum = sum * 31 + words[i];
  return sum;
}

void Say(const char* what, uint64_t value) {
  std::printf("%s: %llu\n", what, static_cast<unsigned long long>(value));
}

struct Kernel {
  Kernel() {
    CHECK_CU(CUDA_SUCCESS, cuModuleLoadData(&module, "any"));
    CHECK_CU(CUDA_SUCCESS, cuModuleGetFunction(&function, module, "add_words"));
  }
  ~Kernel() { CHECK_CU(CUDA_SUCCESS, cuModuleUnload(module)); }

  CUresult Launch(const void* in, void* out, uint64_t count, CUstream stream) {
    void* parameters[] = {&in, &out, &count};
    return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters,
                          nullptr);
  }

  CUmodule module = nullptr;
  CUfunction function = nullptr;
};

// A kernel adds one block to another, which a copy in the same stream wrote
// just before and another reads after.
void Launches(CUstream stream) {
  const Pinned in(kBytes);
  const Pinned out(kBytes);
  const Device device(kBytes);
  for (size_t i = 0; i < kWords; ++i) {
    in.words()[i] = static_cast<uint32_t>(i * 7);
    out.words()[i] = 1;
  }
  Kernel kernel;
  CHECK_CU(CUDA_SUCCESS,
           cuMemcpyHtoDAsync(device.address, in.block, kBytes, stream));
  CHECK_CU(CUDA_SUCCESS,
           cuMemcpyDtoHAsync(out.block, device.address, kBytes, stream));
  for (int turn = 0; turn < 3; ++turn) {
    // Interior addresses count too.
    CHECK_CU(CUDA_SUCCESS, kernel.Launch(in.words() + 3, out.words() + 3,
                                         kWords - 3, stream));
  }
  CHECK_CU(CUDA_SUCCESS,
           cuMemcpyHtoDAsync(device.address, out.block, kBytes, stream));
  std::vector<uint32_t> back(kWords);
  CHECK_CU(CUDA_SUCCESS, cuStreamSynchronize(stream));
  CHECK_CU(CUDA_SUCCESS, cuMemcpyDtoH(back.data(), device.address, kBytes));
  Say("kernel", Sum(back.data(), kWords));
  for (size_t i = 0; i < kWords; ++i) CHECK(back[i] == i * 7 * (i < 3 ? 1 : 4));
}

void WordOperations(CUstream stream) {
  const Pinned block(kBytes);
  std::memset(block.block, 0, kBytes);
  CHECK_CU(CUDA_SUCCESS, cuStreamWriteValue32(stream, block.address() + 40, 17,
                                              CU_STREAM_WRITE_VALUE_DEFAULT));
  CHECK_CU(CUDA_SUCCESS, cuStreamWaitValue32(stream, block.address() + 40, 17,
                                             CU_STREAM_WAIT_VALUE_GEQ));
  CUstreamBatchMemOpParams operations[2] = {};
  for (int i = 0; i < 2; ++i) {
    operations[i].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    operations[i].writeValue.address = block.address() + 44 + 4 * i;
    operations[i].writeValue.value = 20 + i;
  }
  CHECK_CU(CUDA_SUCCESS, cuStreamBatchMemOp(stream, 2, operations, 0));
  CHECK_CU(CUDA_SUCCESS, cuStreamSynchronize(stream));
  Say("words", Sum(block.words(), kWords));
}

void Memsets(CUstream stream) {
  const Pinned block(kBytes);
  std::memset(block.block, 1, kBytes);
  const CUdeviceptr at = block.address();
  CHECK_CU(CUDA_SUCCESS, cuMemsetD8Async(at + 1, 0x5a, 999, stream));
  CHECK_CU(CUDA_SUCCESS, cuMemsetD16Async(at + 2000, 0x7777, 33, stream));
  CHECK_CU(CUDA_SUCCESS, cuMemsetD2D8Async(at + 5000, 100, 3, 17, 9, stream));
  CHECK_CU(CUDA_SUCCESS, cuMemsetD32Async(at + 8000, 0x01020304, 20, stream));
  CHECK_CU(CUDA_SUCCESS, cuMemsetD2D16(at + 12000, 64, 0x0506, 11, 5));
  CHECK_CU(CUDA_SUCCESS, cuMemsetD2D32(at + 16000, 64, 0xffffffff, 11, 5));
  CHECK_CU(CUDA_SUCCESS, cuStreamSynchronize(stream));
  Say("memsets", Sum(block.words(), kWords));
  CHECK_CU(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(at + 10, 0, kBytes));
}

// Of a batch some have staged ends, some do not.
void Batches(CUstream stream) {
#if CUDA_VERSION >= 13000
  const Pinned in(kBytes);
  const Pinned out(kBytes);
  const Device device(2 * kBytes);
  for (size_t i = 0; i < kWords; ++i) {
    in.words()[i] = static_cast<uint32_t>(i * 13);
  }
  std::memset(out.block, 0, kBytes);
  CUmemcpyAttributes attributes[2] = {};
  attributes[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  attributes[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
  CUdeviceptr to[] = {device.address, device.address + kBytes / 2,
                      device.address + kBytes};
  CUdeviceptr from[] = {in.address(), in.address() + kBytes / 2,
                        in.address() + 8};
  size_t sizes[] = {kBytes / 2, kBytes - kBytes / 2, 4096};
  size_t indices[] = {0, 2};
  CHECK_CU(CUDA_SUCCESS, cuMemcpyBatchAsync(to, from, sizes, 3, attributes,
                                            indices, 2, stream));
  CHECK_CU(CUDA_SUCCESS, cuStreamSynchronize(stream));
  CUdeviceptr across[] = {device.address + kBytes + 4096, out.address()};
  CUdeviceptr back[] = {device.address, device.address};
  size_t half[] = {4096, kBytes};
  CHECK_CU(CUDA_SUCCESS, cuMemcpyBatchAsync(across, back, half, 2, attributes,
                                            indices, 1, stream));
  CHECK_CU(CUDA_SUCCESS, cuStreamSynchronize(stream));
  Say("batch", Sum(out.words(), kWords));
  CHECK(std::memcmp(in.block, out.block, kBytes) == 0);
  std::vector<char> rest(8192);
  CHECK_CU(CUDA_SUCCESS,
           cuMemcpyDtoH(rest.data(), device.address + kBytes, rest.size()));
  CHECK(std::memcmp(rest.data(), in.bytes() + 8, 4096) == 0);
  CHECK(std::memcmp(rest.data() + 4096, in.bytes(), 4096) == 0);
#else
  (void)stream;
#endif
}

// Copies that say they are between devices, which the driver takes of pinned
// memory too.
void Peers(CUcontext context, CUstream stream) {
  const Pinned in(kBytes);
  const Pinned out(kBytes);
  const Device device(kBytes);
  Fill(in.bytes(), kBytes, 5);
  std::memset(out.block, 0, kBytes);
  CHECK_CU(CUDA_SUCCESS,
           cuMemcpyPeerAsync(device.address, context, in.address(), context,
                             kBytes, stream));
  CHECK_CU(CUDA_SUCCESS, cuStreamSynchronize(stream));
  CHECK_CU(CUDA_SUCCESS, cuMemcpyPeer(out.address(), context, device.address,
                                      context, kBytes));
  CHECK_CU(CUDA_SUCCESS, cuCtxSynchronize());
  CHECK(Holds(out.bytes(), kBytes, 5));
  CUDA_MEMCPY3D_PEER box = {};
  box.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  box.srcDevice = device.address;
  box.srcContext = context;
  box.srcPitch = 100;
  box.srcHeight = 30;
  box.srcXInBytes = 3;
  box.srcY = 2;
  box.srcZ = 1;
  box.dstMemoryType = CU_MEMORYTYPE_HOST;
  box.dstHost = out.block;
  box.dstContext = context;
  box.dstPitch = 90;
  box.dstHeight = 20;
  box.WidthInBytes = 80;
  box.Height = 19;
  box.Depth = 10;
  CHECK_CU(CUDA_SUCCESS, cuMemcpy3DPeerAsync(&box, stream));
  CHECK_CU(CUDA_SUCCESS, cuStreamSynchronize(stream));
  for (size_t z = 0; z < 10; ++z) {
    for (size_t y = 0; y < 19; ++y) {
      CHECK(std::memcmp(out.bytes() + (z * 20 + y) * 90,
                        in.bytes() + ((z + 1) * 30 + y + 2) * 100 + 3,
                        80) == 0);
    }
  }
  Say("peers", Sum(out.words(), kWords));
  CHECK_CU(CUDA_ERROR_INVALID_CONTEXT,
           cuMemcpyPeerAsync(device.address, nullptr, in.address(), context,
                             kBytes, stream));
}

void Boxes(CUstream stream) {
#if CUDA_VERSION >= 13000
  const Pinned in(kBytes);
  const Pinned out(kBytes);
  const Device device(kBytes);
  Fill(in.bytes(), kBytes, 6);
  std::memset(out.block, 0, kBytes);
  CUDA_ARRAY_DESCRIPTOR descriptor = {};
  descriptor.Width = 64;
  descriptor.Height = 32;
  descriptor.Format = CU_AD_FORMAT_FLOAT;
  descriptor.NumChannels = 1;
  CUarray array = nullptr;
  CHECK_CU(CUDA_SUCCESS, cuArrayCreate(&array, &descriptor));
  CUDA_MEMCPY3D_BATCH_OP boxes[3] = {};
  for (CUDA_MEMCPY3D_BATCH_OP& box : boxes) {
    box.src.type = box.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    box.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  }
  boxes[0].extent = {77, 9, 4};
  boxes[0].src.op.ptr.ptr = in.address() + 1;
  boxes[0].src.op.ptr.rowLength = 80;
  boxes[0].dst.op.ptr.ptr = device.address;
  boxes[1].extent = {50, 20, 1};
  boxes[1].src.op.ptr.ptr = in.address() + 4000;
  boxes[1].src.op.ptr.rowLength = 51;
  boxes[1].dst.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
  boxes[1].dst.op.array.array = array;
  boxes[1].dst.op.array.offset = {7, 3, 0};
  // No block has a part in this one.
  boxes[2].extent = {100, 1, 1};
  boxes[2].src.op.ptr.ptr = device.address + 200'000;
  boxes[2].dst.op.ptr.ptr = device.address + 300'000;
  CHECK_CU(CUDA_SUCCESS, cuMemcpy3DBatchAsync(3, boxes, 0, stream));
  boxes[0].src = boxes[0].dst;
  boxes[0].dst.op.ptr.ptr = out.address();
  boxes[1].src = boxes[1].dst;
  boxes[1].dst = {};
  boxes[1].dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
  boxes[1].dst.op.ptr.ptr = out.address() + 10'000;
  CHECK_CU(CUDA_SUCCESS, cuMemcpy3DBatchAsync(2, boxes, 0, stream));
  CHECK_CU(CUDA_SUCCESS, cuStreamSynchronize(stream));
  for (size_t z = 0; z < 4; ++z) {
    for (size_t y = 0; y < 9; ++y) {
      CHECK(std::memcmp(out.bytes() + (z * 9 + y) * 77,
                        in.bytes() + 1 + (z * 9 + y) * 80, 77) == 0);
    }
  }
  for (size_t y = 0; y < 20; ++y) {
    CHECK(std::memcmp(out.bytes() + 10'000 + y * 200,
                      in.bytes() + 4000 + y * 204, 200) == 0);
  }
  Say("boxes", Sum(out.words(), kWords));
  boxes[0].extent.width = 0;
  CHECK_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DBatchAsync(1, boxes, 0, stream));
  CHECK_CU(CUDA_SUCCESS, cuArrayDestroy(array));
#else
  (void)stream;
#endif
}

void Arrays(CUstream stream) {
  const Pinned in(kBytes);
  const Pinned out(kBytes);
  CUDA_ARRAY_DESCRIPTOR descriptor = {};
  descriptor.Width = 8000;
  descriptor.Format = CU_AD_FORMAT_UNSIGNED_INT8;
  descriptor.NumChannels = 1;
  CUarray array = nullptr;
  CHECK_CU(CUDA_SUCCESS, cuArrayCreate(&array, &descriptor));
  Fill(in.bytes(), kBytes, 3);
  std::memset(out.block, 0, kBytes);
  CHECK_CU(CUDA_SUCCESS, cuMemcpyHtoA(array, 16, in.block, 4000));
  CHECK_CU(CUDA_SUCCESS, cuMemcpyAtoH(out.bytes() + 5, array, 16, 4000));
  CHECK(Holds(out.bytes() + 5, 4000, 3));
  CHECK_CU(CUDA_SUCCESS, cuMemcpyHtoAAsync(array, 40, in.bytes(), 999, stream));
  CHECK_CU(CUDA_SUCCESS,
           cuMemcpyAtoHAsync(out.bytes() + 7000, array, 40, 999, stream));
  CHECK_CU(CUDA_SUCCESS, cuStreamSynchronize(stream));
  CHECK(Holds(out.bytes() + 7000, 999, 3));
  CHECK_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoA(array, 16, in.block, 8000));
  CHECK_CU(CUDA_SUCCESS, cuArrayDestroy(array));

  // Rows of a block to rows of an array and back.
  descriptor.Height = 50;
  CHECK_CU(CUDA_SUCCESS, cuArrayCreate(&array, &descriptor));
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = in.block;
  copy.srcPitch = 2000;
  copy.srcXInBytes = 7;
  copy.srcY = 2;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = array;
  copy.dstXInBytes = 11;
  copy.dstY = 3;
  copy.WidthInBytes = 1900;
  copy.Height = 40;
  CHECK_CU(CUDA_SUCCESS, cuMemcpy2D(&copy));
  CUDA_MEMCPY2D back = {};
  back.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  back.srcArray = array;
  back.srcXInBytes = 11;
  back.srcY = 3;
  back.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  back.dstDevice = out.address();
  back.dstPitch = 1901;
  back.WidthInBytes = 1900;
  back.Height = 40;
  CHECK_CU(CUDA_SUCCESS, cuMemcpy2DUnaligned(&back));
  for (size_t row = 0; row < 40; ++row) {
    CHECK(std::memcmp(out.bytes() + row * 1901,
                      in.bytes() + (row + 2) * 2000 + 7, 1900) == 0);
  }
  Say("arrays", Sum(out.words(), kWords));
  CHECK_CU(CUDA_SUCCESS, cuArrayDestroy(array));
}

void Refused(CUstream stream) {
  const Pinned block(kBytes);
  const Device device(kBytes);
  Kernel kernel;
  CHECK_CU(CUDA_ERROR_NOT_SUPPORTED,
           kernel.Launch(block.block, reinterpret_cast<void*>(device.address),
                         kWords, stream));
  CHECK_CU(CUDA_ERROR_NOT_SUPPORTED,
           cuStreamWriteValue32(stream, block.address(), 1, 0));
  CHECK_CU(CUDA_SUCCESS,
           cuMemcpyHtoDAsync(device.address, block.block, kBytes, stream));
  CHECK_CU(CUDA_SUCCESS, cuStreamSynchronize(stream));
}

}  // namespace

int main(int argc, char** argv) {
  CHECK_CU(CUDA_SUCCESS, cuInit(0));
  CUcontext context = nullptr;
  CHECK_CU(CUDA_SUCCESS, cuDevicePrimaryCtxRetain(&context, 0));
  CHECK_CU(CUDA_SUCCESS, cuCtxSetCurrent(context));
  CUstream stream = nullptr;
  CHECK_CU(CUDA_SUCCESS, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  if (argc > 1 && std::strcmp(argv[1], "--refused") == 0) {
    Refused(stream);
  } else {
    Launches(stream);
    WordOperations(stream);
    Memsets(stream);
    Batches(stream);
    Arrays(stream);
    Peers(context, stream);
    Boxes(stream);
  }
  CHECK_CU(CUDA_SUCCESS, cuStreamDestroy(stream));
  return 0;
}
