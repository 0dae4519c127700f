// Copies and memsets of all kinds of memory, compared byte by byte.

#include <cstring>

#include "tests/simcuda_programs_test/program.h"

namespace {

constexpr size_t kBytes = (3 << 20) + 17;
constexpr size_t kSizes[] = {0, 1, 255, 4096, 16384, 65537, 1 << 20, kBytes};

enum class Host { kPinned, kMapped, kRegistered, kPageable };

class HostMemory {
 public:
  explicit HostMemory(Host kind) : kind_(kind) {
    if (kind == Host::kPinned) {
      CHECK_OK(cudaMallocHost(reinterpret_cast<void**>(&bytes_), kBytes));
    } else if (kind == Host::kMapped) {
      CHECK_OK(cudaHostAlloc(reinterpret_cast<void**>(&bytes_), kBytes,
                             cudaHostAllocMapped | cudaHostAllocPortable));
    } else {
      bytes_ = static_cast<char*>(std::malloc(kBytes));
      CHECK(bytes_ != nullptr);
      if (kind == Host::kRegistered)
        CHECK_OK(cudaHostRegister(bytes_, kBytes, cudaHostRegisterDefault));
    }
  }
  ~HostMemory() {
    if (kind_ == Host::kPinned || kind_ == Host::kMapped) {
      CHECK_OK(cudaFreeHost(bytes_));
    } else {
      if (kind_ == Host::kRegistered) CHECK_OK(cudaHostUnregister(bytes_));
      std::free(bytes_);
    }
  }
  char* bytes() { return bytes_; }

 private:
  const Host kind_;
  char* bytes_ = nullptr;
};

char* DeviceMemory() {
  char* device = nullptr;
  CHECK_OK(cudaMalloc(reinterpret_cast<void**>(&device), kBytes));
  return device;
}

// To the device, through it, and back, into the middle of memory whose other
// bytes must stay.
void RoundTrip(Host kind, cudaMemcpyKind in, cudaMemcpyKind out,
               cudaStream_t stream) {
  HostMemory source(kind);
  HostMemory target(kind);
  char* first = DeviceMemory();
  char* second = DeviceMemory();
  uint64_t seed = 1;
  for (const size_t bytes : kSizes) {
    const size_t room = kBytes - bytes;
    const size_t at = room / 3;
    Fill(source.bytes(), kBytes, ++seed);
    std::memset(target.bytes(), 0x5a, kBytes);
    if (stream == nullptr) {
      CHECK_OK(cudaMemcpy(first + at, source.bytes() + at, bytes, in));
      CHECK_OK(cudaMemcpy(second + room, first + at, bytes,
                          cudaMemcpyDeviceToDevice));
      CHECK_OK(cudaMemcpy(target.bytes() + at, second + room, bytes, out));
    } else {
      CHECK_OK(
          cudaMemcpyAsync(first + at, source.bytes() + at, bytes, in, stream));
      CHECK_OK(cudaMemcpyAsync(second + room, first + at, bytes,
                               cudaMemcpyDeviceToDevice, stream));
      CHECK_OK(cudaMemcpyAsync(target.bytes() + at, second + room, bytes, out,
                               stream));
      CHECK_OK(cudaStreamSynchronize(stream));
    }
    CHECK(Holds(target.bytes() + at, bytes, seed, at));
    for (size_t i = 0; i < kBytes; ++i) {
      if (i < at || i >= at + bytes) CHECK(target.bytes()[i] == 0x5a);
    }
  }
  CHECK_OK(cudaFree(first));
  CHECK_OK(cudaFree(second));
}

// An asynchronous copy reads pinned memory when its stream gets there.
void ReadsWhenTheStreamGetsThere(cudaStream_t stream) {
  HostMemory source(Host::kPinned);
  HostMemory target(Host::kPinned);
  char* device = DeviceMemory();
  cudaEvent_t done = nullptr;
  CHECK_OK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
  Gate gate;
  Fill(source.bytes(), kBytes, 100);
  gate.Hold(stream);
  CHECK_OK(cudaMemcpyAsync(device, source.bytes(), kBytes,
                           cudaMemcpyHostToDevice, stream));
  CHECK_OK(cudaMemcpyAsync(target.bytes(), device, kBytes,
                           cudaMemcpyDeviceToHost, stream));
  CHECK_OK(cudaEventRecord(done, stream));
  CHECK_FAILS(cudaErrorNotReady, cudaEventQuery(done));
  CHECK_FAILS(cudaErrorNotReady, cudaStreamQuery(stream));
  Fill(source.bytes(), kBytes, 101);
  gate.Open();
  CHECK_OK(cudaEventSynchronize(done));
  CHECK_OK(cudaEventQuery(done));
  CHECK(Holds(target.bytes(), kBytes, 101));
  CHECK_OK(cudaStreamSynchronize(stream));
  CHECK_OK(cudaEventDestroy(done));
  CHECK_OK(cudaFree(device));
}

void Memsets(cudaStream_t stream) {
  HostMemory host(Host::kPinned);
  char* device = DeviceMemory();
  CHECK_OK(cudaMemset(device, 0x11, kBytes));
  CHECK_OK(cudaDeviceSynchronize());
  CHECK_OK(cudaMemsetAsync(device + 7, 0x122, kBytes - 14, stream));
  CHECK_OK(cudaMemcpyAsync(host.bytes(), device, kBytes, cudaMemcpyDeviceToHost,
                           stream));
  CHECK_OK(cudaStreamSynchronize(stream));
  for (size_t i = 0; i < kBytes; ++i)
    CHECK(host.bytes()[i] == (i < 7 || i >= kBytes - 7 ? 0x11 : 0x22));
  CHECK_OK(cudaMemset(host.bytes(), 0x33, kBytes));
  for (size_t i = 0; i < kBytes; ++i) CHECK(host.bytes()[i] == 0x33);
  CHECK_OK(cudaFree(device));
}

}  // namespace

int main() {
  cudaStream_t stream = nullptr;
  CHECK_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  for (const Host kind :
       {Host::kPinned, Host::kMapped, Host::kRegistered, Host::kPageable}) {
    RoundTrip(kind, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, nullptr);
    RoundTrip(kind, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, stream);
    RoundTrip(kind, cudaMemcpyDefault, cudaMemcpyDefault, stream);
  }
  // The addresses decide, as long as all memory is known to CUDA.
  RoundTrip(Host::kPinned, cudaMemcpyDeviceToHost, cudaMemcpyHostToDevice,
            stream);
  ReadsWhenTheStreamGetsThere(stream);
  Memsets(stream);
  CHECK_OK(cudaStreamDestroy(stream));
  CHECK_CODE(cudaSuccess, cudaGetLastError());
  return 0;
}
