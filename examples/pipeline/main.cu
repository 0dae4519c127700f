// Batches through kernels on several streams, double-buffered: while one batch
// is computed, the next is filled and on its way. The host buffers are staged
// blocks; that is all that a program with pinned memory changes.
//
// Needs a GPU; ends with 77 where kernels cannot run.

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <pinring/pinring.hpp>
#include <string>
#include <vector>

namespace {

constexpr int kStreams = 4;
constexpr int kBuffers = 2;  // of each stream
constexpr int kBatches = 64;
constexpr std::size_t kValues = std::size_t{4} << 20;
constexpr int kNoKernels = 77;

[[noreturn]] void Fail(const std::string& message) {
  std::fprintf(stderr, "pipeline: %s\n", message.c_str());
  std::exit(1);
}
void Check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    Fail(std::string(what) + ": " + cudaGetErrorString(error));
  }
}
void Check(const pinring::Result& result, const char* what) {
  if (!result) Fail(std::string(what) + ": " + result.message());
}

__host__ __device__ std::uint32_t Mix(std::uint32_t value) {
  value ^= value >> 16;
  value *= 0x7feb352dU;
  value ^= value >> 15;
  return value;
}

__global__ void MixAll(const std::uint32_t* in, std::uint32_t* out,
                       std::size_t count) {
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
       i < count; i += std::size_t{gridDim.x} * blockDim.x) {
    out[i] = Mix(in[i]);
  }
}

std::uint32_t ValueOf(int batch, std::size_t i) {
  return static_cast<std::uint32_t>(i) * 2654435761U +
         static_cast<std::uint32_t>(batch);
}

// One batch in flight.
struct Lane {
  pinring::Buffer<std::uint32_t> in;
  pinring::Buffer<std::uint32_t> out;
  std::uint32_t* device_in = nullptr;
  std::uint32_t* device_out = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t done = nullptr;
  int batch = -1;
};

void Start(Lane& lane, int batch) {
  lane.batch = batch;
  for (std::size_t i = 0; i < kValues; ++i) lane.in[i] = ValueOf(batch, i);
  Check(cudaError_t(pinringMemcpyAsync(lane.device_in, lane.in.data(),
                                       lane.in.bytes(), cudaMemcpyHostToDevice,
                                       lane.stream)),
        "copy to the device");
  MixAll<<<512, 256, 0, lane.stream>>>(lane.device_in, lane.device_out,
                                       kValues);
  Check(cudaGetLastError(), "launch");
  Check(cudaError_t(pinringMemcpyAsync(lane.out.data(), lane.device_out,
                                       lane.out.bytes(), cudaMemcpyDeviceToHost,
                                       lane.stream)),
        "copy to the host");
  Check(cudaEventRecord(lane.done, lane.stream), "cudaEventRecord");
}

std::size_t Finish(Lane& lane) {
  if (lane.batch < 0) return 0;
  Check(cudaEventSynchronize(lane.done), "cudaEventSynchronize");
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < kValues; ++i) {
    wrong += lane.out[i] != Mix(ValueOf(lane.batch, i)) ? 1 : 0;
  }
  lane.batch = -1;
  return wrong;
}

bool KernelsRun() {
  MixAll<<<1, 1>>>(nullptr, nullptr, 0);
  const cudaError_t launched = cudaGetLastError();
  return launched == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess;
}

}  // namespace

int main() {
  if (!KernelsRun()) {
    std::puts("SKIPPED: kernels do not run here; this example needs a GPU");
    return kNoKernels;
  }
  const pinring::CategoryScope category("pipeline");
  Check(category.status(), "category");
  std::vector<Lane> lanes(kStreams * kBuffers);
  std::vector<cudaStream_t> streams(kStreams);
  for (cudaStream_t& stream : streams) {
    Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
          "cudaStreamCreate");
  }
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    Lane& lane = lanes[i];
    lane.stream = streams[i % kStreams];
    Check(lane.in.Allocate(kValues), "host memory");
    Check(lane.out.Allocate(kValues), "host memory");
    Check(cudaMalloc(&lane.device_in, lane.in.bytes()), "cudaMalloc");
    Check(cudaMalloc(&lane.device_out, lane.out.bytes()), "cudaMalloc");
    Check(cudaEventCreateWithFlags(&lane.done, cudaEventDisableTiming),
          "cudaEventCreate");
  }

  std::size_t wrong = 0;
  for (int batch = 0; batch < kBatches; ++batch) {
    Lane& lane = lanes[static_cast<std::size_t>(batch) % lanes.size()];
    wrong += Finish(lane);
    Start(lane, batch);
  }
  for (Lane& lane : lanes) wrong += Finish(lane);

  pinringUsage usage = PINRING_USAGE_INIT;
  Check(pinring::Result(pinringGetUsage(&usage)), "pinringGetUsage");
  for (Lane& lane : lanes) {
    Check(cudaFree(lane.device_in), "cudaFree");
    Check(cudaFree(lane.device_out), "cudaFree");
    Check(cudaEventDestroy(lane.done), "cudaEventDestroy");
  }
  for (cudaStream_t stream : streams) {
    Check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  }
  std::printf(
      "%d batches of %zu MiB on %d streams: %zu wrong values; "
      "%.1f MiB staged, %.1f MiB pinned at most\n",
      kBatches, kValues * sizeof(std::uint32_t) >> 20, kStreams, wrong,
      static_cast<double>(usage.kinds[pinringUsageStaged].peakBytes) /
          (1 << 20),
      static_cast<double>(usage.pinnedPeakBytes) / (1 << 20));
  return wrong == 0 ? 0 : 1;
}
