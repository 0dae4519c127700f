// Copies and memsets of other shapes than a line of bytes, through the
// runtime's functions, every byte compared, those between the rows too.

#include <cstring>

#include "tests/simcuda_programs_test/program.h"

namespace {

constexpr size_t kWidth = 301;
constexpr size_t kHeight = 37;
constexpr size_t kDepth = 5;
constexpr size_t kHostPitch = 333;
constexpr size_t kHostRows = kHeight + 3;
constexpr size_t kHostBytes = kHostPitch * kHostRows * kDepth;
constexpr char kGuard = 0x5a;

char* Pinned() {
  char* host = nullptr;
  CHECK_OK(cudaMallocHost(reinterpret_cast<void**>(&host), kHostBytes));
  return host;
}

// Rows of the first buffer are in the second one, and everything else of that
// is the guard.
void ExpectRows(const char* from, const char* in, size_t width, size_t height,
                size_t depth) {
  for (size_t at = 0; at < kHostBytes; ++at) {
    const size_t x = at % kHostPitch;
    const size_t y = at / kHostPitch % kHostRows;
    const size_t z = at / kHostPitch / kHostRows;
    const bool moved = x < width && y < height && z < depth;
    CHECK(in[at] == (moved ? from[at] : kGuard));
  }
}

void TwoDimensions(cudaStream_t stream) {
  char* source = Pinned();
  char* target = Pinned();
  char* device = nullptr;
  size_t pitch = 0;
  CHECK_OK(cudaMallocPitch(reinterpret_cast<void**>(&device), &pitch, kWidth,
                           kHeight));
  CHECK(pitch >= kWidth);
  Fill(source, kHostBytes, 1);
  for (const bool sync : {true, false}) {
    for (const bool kinds : {true, false}) {
      const cudaMemcpyKind in =
          kinds ? cudaMemcpyHostToDevice : cudaMemcpyDefault;
      const cudaMemcpyKind out =
          kinds ? cudaMemcpyDeviceToHost : cudaMemcpyDefault;
      std::memset(target, kGuard, kHostBytes);
      CHECK_OK(cudaMemset2D(device, pitch, 0, kWidth, kHeight));
      CHECK_OK(cudaDeviceSynchronize());
      if (sync) {
        CHECK_OK(cudaMemcpy2D(device, pitch, source, kHostPitch, kWidth,
                              kHeight, in));
        CHECK_OK(cudaMemcpy2D(target, kHostPitch, device, pitch, kWidth,
                              kHeight, out));
      } else {
        CHECK_OK(cudaMemcpy2DAsync(device, pitch, source, kHostPitch, kWidth,
                                   kHeight, in, stream));
        CHECK_OK(cudaMemcpy2DAsync(target, kHostPitch, device, pitch, kWidth,
                                   kHeight, out, stream));
        CHECK_OK(cudaStreamSynchronize(stream));
      }
      ExpectRows(source, target, kWidth, kHeight, 1);
    }
  }
  // Nothing moves.
  CHECK_OK(cudaMemcpy2D(target, kHostPitch, device, pitch, 0, kHeight,
                        cudaMemcpyDeviceToHost));
  CHECK_FAILS(cudaErrorInvalidPitchValue,
              cudaMemcpy2D(target, kWidth - 1, device, pitch, kWidth, kHeight,
                           cudaMemcpyDeviceToHost));
  CHECK_FAILS(cudaErrorInvalidMemcpyDirection,
              cudaMemcpy2D(target, kHostPitch, device, pitch, kWidth, kHeight,
                           static_cast<cudaMemcpyKind>(cudaMemcpyDefault + 1)));
  ExpectRows(source, target, kWidth, kHeight, 1);

  CHECK_OK(
      cudaMemset2DAsync(device, pitch, 0x177, kWidth - 1, kHeight, stream));
  CHECK_OK(cudaMemcpy2DAsync(target, kHostPitch, device, pitch, kWidth, kHeight,
                             cudaMemcpyDeviceToHost, stream));
  CHECK_OK(cudaStreamSynchronize(stream));
  for (size_t y = 0; y < kHeight; ++y) {
    for (size_t x = 0; x < kWidth; ++x) {
      const size_t at = y * kHostPitch + x;
      CHECK(target[at] == (x < kWidth - 1 ? 0x77 : source[at]));
    }
  }
  CHECK_OK(cudaFree(device));
  CHECK_OK(cudaFreeHost(source));
  CHECK_OK(cudaFreeHost(target));
}

void ThreeDimensions(cudaStream_t stream) {
  char* source = Pinned();
  char* target = Pinned();
  cudaPitchedPtr device;
  CHECK_OK(cudaMalloc3D(&device, {kWidth, kHeight, kDepth}));
  CHECK(device.xsize == kWidth && device.ysize == kHeight);
  Fill(source, kHostBytes, 2);
  cudaMemcpy3DParms in = {};
  in.srcPtr = {source, kHostPitch, kHostPitch, kHostRows};
  in.dstPtr = device;
  in.extent = {kWidth, kHeight, kDepth};
  in.kind = cudaMemcpyHostToDevice;
  cudaMemcpy3DParms out = {};
  out.srcPtr = device;
  out.dstPtr = {target, kHostPitch, kHostPitch, kHostRows};
  out.extent = in.extent;
  out.kind = cudaMemcpyDeviceToHost;
  for (const bool sync : {true, false}) {
    std::memset(target, kGuard, kHostBytes);
    CHECK_OK(cudaMemset3D(device, 0, in.extent));
    CHECK_OK(cudaDeviceSynchronize());
    CHECK_OK(sync ? cudaMemcpy3D(&in) : cudaMemcpy3DAsync(&in, stream));
    CHECK_OK(sync ? cudaMemcpy3D(&out) : cudaMemcpy3DAsync(&out, stream));
    CHECK_OK(cudaStreamSynchronize(stream));
    ExpectRows(source, target, kWidth, kHeight, kDepth);
  }
  // A part of it, from the middle into the middle.
  std::memset(target, kGuard, kHostBytes);
  out.srcPos = {7, 3, 1};
  out.dstPos = {11, 5, 2};
  out.extent = {100, 20, 3};
  CHECK_OK(cudaMemcpy3D(&out));
  for (size_t at = 0; at < kHostBytes; ++at) {
    const size_t x = at % kHostPitch - 11;
    const size_t y = at / kHostPitch % kHostRows - 5;
    const size_t z = at / kHostPitch / kHostRows - 2;
    const bool moved = x < 100 && y < 20 && z < 3;
    CHECK(target[at] ==
          (moved ? source[((z + 1) * kHostRows + y + 3) * kHostPitch + x + 7]
                 : kGuard));
  }
  // A memset that leaves rows between its slices alone.
  CHECK_OK(
      cudaMemset3DAsync(device, 0x31, {kWidth, kHeight - 1, kDepth}, stream));
  out.srcPos = out.dstPos = {};
  out.extent = in.extent;
  CHECK_OK(cudaMemcpy3DAsync(&out, stream));
  CHECK_OK(cudaStreamSynchronize(stream));
  for (size_t z = 0; z < kDepth; ++z) {
    for (size_t y = 0; y < kHeight; ++y) {
      for (size_t x = 0; x < kWidth; ++x) {
        const size_t at = (z * kHostRows + y) * kHostPitch + x;
        CHECK(target[at] == (y < kHeight - 1 ? 0x31 : source[at]));
      }
    }
  }
  // Two sources.
  cudaArray_t array = nullptr;
  const cudaChannelFormatDesc bytes =
      cudaCreateChannelDesc(8, 0, 0, 0, cudaChannelFormatKindUnsigned);
  CHECK_OK(cudaMallocArray(&array, &bytes, kWidth, kHeight));
  in.srcArray = array;
  CHECK_FAILS(cudaErrorInvalidValue, cudaMemcpy3D(&in));
  CHECK_OK(cudaFreeArray(array));
  CHECK_OK(cudaFree(device.ptr));
  CHECK_OK(cudaFreeHost(source));
  CHECK_OK(cudaFreeHost(target));
}

void Arrays(cudaStream_t stream) {
  constexpr size_t kElements = 64;  // of 4 bytes
  char* source = Pinned();
  char* target = Pinned();
  Fill(source, kHostBytes, 3);
  const cudaChannelFormatDesc channels =
      cudaCreateChannelDesc(16, 16, 0, 0, cudaChannelFormatKindSigned);
  cudaArray_t array = nullptr;
  CHECK_OK(cudaMallocArray(&array, &channels, kElements, kHeight));
  cudaChannelFormatDesc told;
  cudaExtent extent;
  unsigned flags = 1;
  CHECK_OK(cudaArrayGetInfo(&told, &extent, &flags, array));
  CHECK(std::memcmp(&told, &channels, sizeof told) == 0);
  CHECK(extent.width == kElements && extent.height == kHeight &&
        extent.depth == 0 && flags == 0);
  constexpr size_t kRow = 4 * kElements;
  for (const bool sync : {true, false}) {
    std::memset(target, kGuard, kHostBytes);
    if (sync) {
      CHECK_OK(cudaMemcpy2DToArray(array, 0, 0, source, kHostPitch, kRow,
                                   kHeight, cudaMemcpyHostToDevice));
      CHECK_OK(cudaMemcpy2DFromArray(target, kHostPitch, array, 0, 0, kRow,
                                     kHeight, cudaMemcpyDeviceToHost));
    } else {
      CHECK_OK(cudaMemcpy2DToArrayAsync(array, 0, 0, source, kHostPitch, kRow,
                                        kHeight, cudaMemcpyDefault, stream));
      CHECK_OK(cudaMemcpy2DFromArrayAsync(target, kHostPitch, array, 0, 0, kRow,
                                          kHeight, cudaMemcpyDefault, stream));
      CHECK_OK(cudaStreamSynchronize(stream));
    }
    ExpectRows(source, target, kRow, kHeight, 1);
  }
  CHECK_FAILS(cudaErrorInvalidMemcpyDirection,
              cudaMemcpy2DToArray(array, 0, 0, source, kHostPitch, kRow,
                                  kHeight, cudaMemcpyDeviceToHost));
  // One row too far.
  CHECK_FAILS(cudaErrorInvalidValue,
              cudaMemcpy2DToArray(array, 0, 1, source, kHostPitch, kRow,
                                  kHeight, cudaMemcpyHostToDevice));
  // In three dimensions, whose extent counts elements then.
  cudaArray_t cube = nullptr;
  CHECK_OK(cudaMalloc3DArray(&cube, &channels, {kElements, kHeight, kDepth}));
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = {source, kHostPitch, kHostPitch, kHostRows};
  copy.dstArray = cube;
  copy.extent = {kElements, kHeight, kDepth};
  copy.kind = cudaMemcpyHostToDevice;
  CHECK_OK(cudaMemcpy3D(&copy));
  std::memset(target, kGuard, kHostBytes);
  copy = {};
  copy.srcArray = cube;
  copy.srcPos = {2, 0, 0};  // elements
  copy.dstPtr = {target, kHostPitch, kHostPitch, kHostRows};
  copy.dstPos = {8, 0, 0};  // bytes
  copy.extent = {kElements - 2, kHeight, kDepth};
  copy.kind = cudaMemcpyDeviceToHost;
  CHECK_OK(cudaMemcpy3DAsync(&copy, stream));
  CHECK_OK(cudaStreamSynchronize(stream));
  std::memset(source, kGuard, 8);
  for (size_t row = 0; row < kHostRows * kDepth; ++row)
    std::memset(source + row * kHostPitch, kGuard, 8);
  ExpectRows(source, target, kRow, kHeight, kDepth);
  CHECK_OK(cudaFreeArray(array));
  CHECK_OK(cudaFreeArray(cube));
  CHECK_OK(cudaFreeArray(nullptr));
  CHECK_OK(cudaFreeHost(source));
  CHECK_OK(cudaFreeHost(target));
}

// In stream order, and in a graph.
void RunsWhenTheStreamGetsThere(cudaStream_t stream) {
  char* source = Pinned();
  char* target = Pinned();
  char* device = nullptr;
  CHECK_OK(cudaMalloc(reinterpret_cast<void**>(&device), kWidth * kHeight));
  const auto there_and_back = [&] {
    CHECK_OK(cudaMemcpy2DAsync(device, kWidth, source, kHostPitch, kWidth,
                               kHeight, cudaMemcpyHostToDevice, stream));
    CHECK_OK(cudaMemcpy2DAsync(target, kHostPitch, device, kWidth, kWidth,
                               kHeight, cudaMemcpyDeviceToHost, stream));
  };
  Gate gate;
  Fill(source, kHostBytes, 4);
  std::memset(target, kGuard, kHostBytes);
  gate.Hold(stream);
  there_and_back();
  CHECK_FAILS(cudaErrorNotReady, cudaStreamQuery(stream));
  ExpectRows(source, target, 0, 0, 0);
  Fill(source, kHostBytes, 5);
  gate.Open();
  CHECK_OK(cudaStreamSynchronize(stream));
  ExpectRows(source, target, kWidth, kHeight, 1);

  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  CHECK_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  there_and_back();
  CHECK_OK(cudaStreamEndCapture(stream, &graph));
  CHECK_OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
  for (uint64_t seed = 6; seed < 9; ++seed) {
    Fill(source, kHostBytes, seed);
    std::memset(target, kGuard, kHostBytes);
    CHECK_OK(cudaGraphLaunch(exec, stream));
    CHECK_OK(cudaStreamSynchronize(stream));
    ExpectRows(source, target, kWidth, kHeight, 1);
  }
  CHECK_OK(cudaGraphExecDestroy(exec));
  CHECK_OK(cudaGraphDestroy(graph));
  CHECK_OK(cudaFree(device));
  CHECK_OK(cudaFreeHost(source));
  CHECK_OK(cudaFreeHost(target));
}

#if CUDART_VERSION >= 13000
void Batches(cudaStream_t stream) {
  constexpr size_t kCount = 20;
  char* source = Pinned();
  char* target = Pinned();
  char* device = nullptr;
  CHECK_OK(cudaMalloc(reinterpret_cast<void**>(&device), kHostBytes));
  Fill(source, kHostBytes, 10);
  std::memset(target, kGuard, kHostBytes);
  void* in_to[kCount];
  const void* in_from[kCount];
  void* out_to[kCount];
  const void* out_from[kCount];
  size_t sizes[kCount];
  for (size_t i = 0; i < kCount; ++i) {
    const size_t at = i * kHostPitch;
    in_to[i] = device + at;
    in_from[i] = source + at;
    out_to[i] = target + at;
    out_from[i] = device + at;
    sizes[i] = kWidth;
  }
  cudaMemcpyAttributes attributes = {};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  size_t first = 0;
  CHECK_OK(cudaMemcpyBatchAsync(in_to, in_from, sizes, kCount, &attributes,
                                &first, 1, stream));
  CHECK_OK(cudaMemcpyBatchAsync(out_to, out_from, sizes, kCount, &attributes,
                                &first, 1, stream));
  CHECK_OK(cudaStreamSynchronize(stream));
  ExpectRows(source, target, kWidth, kCount, 1);
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderInvalid;
  CHECK_FAILS(cudaErrorInvalidValue,
              cudaMemcpyBatchAsync(out_to, out_from, sizes, kCount, &attributes,
                                   &first, 1, stream));
  CHECK_OK(cudaFree(device));
  CHECK_OK(cudaFreeHost(source));
  CHECK_OK(cudaFreeHost(target));
}
#else
void Batches(cudaStream_t) {}
#endif

}  // namespace

int main() {
  cudaStream_t stream = nullptr;
  CHECK_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  TwoDimensions(stream);
  ThreeDimensions(stream);
  Arrays(stream);
  RunsWhenTheStreamGetsThere(stream);
  Batches(stream);
  CHECK_OK(cudaStreamDestroy(stream));
  CHECK_CODE(cudaSuccess, cudaGetLastError());
  return 0;
}
