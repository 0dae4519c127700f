// A program that knows nothing of pinring: batches of samples go to the device
// through pinned buffers, are transformed there, and come back, on several
// streams and threads. It is written as such programs are: templates over the
// runtime's typed allocation, default arguments, RAII, error macros, 2D copies,
// flags polled by the host.
//
// With nvcc the transformation is a kernel; with a host compiler it is a copy
// on the device, so that the same program runs on the simulated libraries.

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#define CUDA_CHECK(call)                                    \
  do {                                                      \
    const cudaError_t error_ = (call);                      \
    if (error_ != cudaSuccess) {                            \
      throw std::runtime_error(std::string(#call) + ": " +  \
                               cudaGetErrorString(error_)); \
    }                                                       \
  } while (0)

namespace app {

template <typename T>
struct PinnedDeleter {
  void operator()(T* block) const {
    if (cudaFreeHost(block) != cudaSuccess) std::abort();
  }
};
template <typename T>
using PinnedArray = std::unique_ptr<T[], PinnedDeleter<T>>;

template <typename T>
PinnedArray<T> MakePinned(size_t count) {
  T* block = nullptr;
  CUDA_CHECK(cudaMallocHost(&block, count * sizeof(T)));
  return PinnedArray<T>(block);
}

template <typename T>
PinnedArray<T> MakeMapped(size_t count) {
  T* block = nullptr;
  CUDA_CHECK(cudaHostAlloc(&block, count * sizeof(T), cudaHostAllocMapped));
  return PinnedArray<T>(block);
}

template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : count_(count) {
    CUDA_CHECK(cudaMalloc(&data_, count * sizeof(T)));
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() {
    if (cudaFree(data_) != cudaSuccess) std::abort();
  }
  T* get() const { return data_; }
  size_t bytes() const { return count_ * sizeof(T); }

 private:
  const size_t count_;
  T* data_ = nullptr;
};

class Stream {
 public:
  Stream() { CUDA_CHECK(cudaStreamCreate(&stream_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    if (cudaStreamDestroy(stream_) != cudaSuccess) std::abort();
  }
  operator cudaStream_t() const { return stream_; }  // NOLINT

 private:
  cudaStream_t stream_ = nullptr;
};

#if defined(__CUDACC__)
constexpr unsigned kStep = 17;

template <typename T>
__global__ void AddStep(const T* in, T* out, size_t count) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
       i += size_t{gridDim.x} * blockDim.x) {
    out[i] = in[i] + kStep;
  }
}
#endif

template <typename T>
void Transform(const DeviceArray<T>& in, const DeviceArray<T>& out,
               size_t count, cudaStream_t stream = 0) {
#if defined(__CUDACC__)
  AddStep<<<256, 256, 0, stream>>>(in.get(), out.get(), count);
  CUDA_CHECK(cudaGetLastError());
#else
  (void)count;
  CUDA_CHECK(cudaMemcpyAsync(out.get(), in.get(), in.bytes(),
                             cudaMemcpyDeviceToDevice, stream));
#endif
}

template <typename T>
T Expected(T value) {
#if defined(__CUDACC__)
  return value + static_cast<T>(kStep);
#else
  return value;
#endif
}

// Batches on a stream of their own, the next being filled meanwhile.
template <typename T>
size_t RunOnStream(size_t count, int batches, unsigned seed) {
  Stream stream;
  PinnedArray<T> in[2] = {MakePinned<T>(count), MakePinned<T>(count)};
  PinnedArray<T> out[2] = {MakePinned<T>(count), MakePinned<T>(count)};
  DeviceArray<T> device_in(count);
  DeviceArray<T> device_out(count);
  cudaEvent_t done[2] = {};
  for (cudaEvent_t& event : done) CUDA_CHECK(cudaEventCreate(&event));
  size_t wrong = 0;
  const auto check = [&](int batch) {
    CUDA_CHECK(cudaEventSynchronize(done[batch % 2]));
    for (size_t i = 0; i < count; ++i) {
      wrong +=
          out[batch % 2][i] != Expected<T>(static_cast<T>(i + seed + batch));
    }
  };
  for (int batch = 0; batch < batches; ++batch) {
    if (batch >= 2) check(batch - 2);
    T* const filled = in[batch % 2].get();
    std::iota(filled, filled + count, static_cast<T>(seed + batch));
    CUDA_CHECK(cudaMemcpyAsync(device_in.get(), filled, device_in.bytes(),
                               cudaMemcpyHostToDevice, stream));
    Transform(device_in, device_out, count, stream);
    CUDA_CHECK(cudaMemcpyAsync(out[batch % 2].get(), device_out.get(),
                               device_out.bytes(), cudaMemcpyDeviceToHost,
                               stream));
    CUDA_CHECK(cudaEventRecord(done[batch % 2], stream));
  }
  check(batches - 2);
  check(batches - 1);
  for (cudaEvent_t event : done) CUDA_CHECK(cudaEventDestroy(event));
  return wrong;
}

// Everything on the default stream, whichever that is, and synchronously.
template <typename T>
size_t RunOnDefaultStream(size_t count, unsigned seed) {
  PinnedArray<T> in = MakePinned<T>(count);
  PinnedArray<T> out = MakePinned<T>(count);
  DeviceArray<T> device_in(count);
  DeviceArray<T> device_out(count);
  std::iota(in.get(), in.get() + count, static_cast<T>(seed));
  CUDA_CHECK(cudaMemcpy(device_in.get(), in.get(), device_in.bytes(),
                        cudaMemcpyDefault));
  Transform(device_in, device_out, count);
  CUDA_CHECK(cudaMemcpyAsync(out.get(), device_out.get(), device_out.bytes(),
                             cudaMemcpyDeviceToHost));
  CUDA_CHECK(cudaStreamSynchronize(0));
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    wrong += out[i] != Expected<T>(static_cast<T>(i + seed));
  }
  return wrong;
}

size_t RunWithFlag() {
  PinnedArray<int> flag = MakeMapped<int>(1);
  int* device_flag = nullptr;
  CUDA_CHECK(cudaHostGetDevicePointer(&device_flag, flag.get(), 0));
  cudaPointerAttributes attributes = {};
  CUDA_CHECK(cudaPointerGetAttributes(&attributes, flag.get()));
  return attributes.type == cudaMemoryTypeHost && device_flag != nullptr ? 0
                                                                         : 1;
}

}  // namespace app

int main() {
  try {
    int devices = 0;
    CUDA_CHECK(cudaGetDeviceCount(&devices));
    std::vector<size_t> wrong(4);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < wrong.size(); ++i) {
      threads.emplace_back([&, i] {
        wrong[i] = app::RunOnStream<float>(700'000 + i, 5, i) +
                   app::RunOnStream<unsigned short>(30'000 + i, 7, i) +
                   app::RunOnDefaultStream<unsigned>(1'000'000 + i, 100 * i);
      });
    }
    for (std::thread& thread : threads) thread.join();
    size_t all = app::RunWithFlag();
    for (size_t count : wrong) all += count;
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaGetLastError());
    std::printf("%zu values wrong\n", all);
    return all == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
