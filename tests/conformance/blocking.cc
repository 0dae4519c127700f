// Rules 2 and 5: which calls wait for a held stream, for each kind of memory.

#include <cstdlib>
#include <cstring>
#include <memory>

#include "tests/conformance/scenario.h"

namespace conformance {
namespace {

constexpr size_t kBytes = (4 << 20) + 4096;

enum class Kind { kPinned, kMapped, kRegistered, kPageable };

// Host memory of a kind.
class Host {
 public:
  explicit Host(Kind kind) : kind_(kind) {
    if (kind == Kind::kPinned || kind == Kind::kMapped) {
      block_ = std::make_unique<Pinned>(kBytes, kind == Kind::kMapped
                                                    ? cudaHostAllocMapped
                                                    : cudaHostAllocDefault);
      return;
    }
    own_.resize(kBytes);
    if (kind == Kind::kRegistered) {
      CHECK_OK(cudaHostRegister(own_.data(), kBytes, cudaHostRegisterDefault));
    }
  }
  ~Host() {
    if (kind_ == Kind::kRegistered) CHECK_OK(cudaHostUnregister(own_.data()));
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  unsigned char* get() {
    return block_ != nullptr ? block_->get() : own_.data();
  }

 private:
  const Kind kind_;
  std::unique_ptr<Pinned> block_;
  std::vector<unsigned char> own_;
};

// The seed chooses the memory and the size; every call is tried with them.
void OnTheHeldStream(Run& run) {
  const Kind kind = run.Pick<Kind>(
      {Kind::kPinned, Kind::kPinned, Kind::kMapped, Kind::kRegistered});
  const size_t bytes = run.Pick<size_t>({4, 70'000, 2 << 20, 4 << 20});
  run.Note("memory", static_cast<int64_t>(kind));
  run.Note("bytes", static_cast<int64_t>(bytes));
  Host host(kind);
  Device device(kBytes);
  Stream stream;
  Stream other;
  Event event;
  const auto waits = [&](const char* name,
                         const std::function<cudaError_t()>& call) {
    cudaError_t code = cudaSuccess;
    Gate gate;
    gate.Hold(stream);
    const bool waited = WaitsFor(gate, [&] { code = call(); });
    run.Code(name, code);
    run.Note(std::string(name) + " waits", waited ? 1 : 0);
    CHECK_OK(cudaDeviceSynchronize());
  };
  waits("up", [&] {
    return cudaMemcpyAsync(device.get(), host.get(), bytes,
                           cudaMemcpyHostToDevice, stream);
  });
  waits("down", [&] {
    return cudaMemcpyAsync(host.get(), device.get(), bytes,
                           cudaMemcpyDeviceToHost, stream);
  });
  waits("up, the addresses decide", [&] {
    return cudaMemcpyAsync(device.get(), host.get(), bytes, cudaMemcpyDefault,
                           stream);
  });
  waits("rows up", [&] {
    return cudaMemcpy2DAsync(device.get(), 70, host.get(), 90, 64, bytes / 100,
                             cudaMemcpyHostToDevice, stream);
  });
  waits("rows down", [&] {
    return cudaMemcpy2DAsync(host.get(), 70, device.get(), 90, 64, bytes / 100,
                             cudaMemcpyDeviceToHost, stream);
  });
  waits("another stream's copy", [&] {
    return cudaMemcpyAsync(device.get(), host.get(), bytes,
                           cudaMemcpyHostToDevice, other);
  });
  waits("another stream's copy, done", [&] {
    CHECK_OK(cudaMemcpyAsync(host.get(), device.get(), bytes,
                             cudaMemcpyDeviceToHost, other));
    return cudaStreamSynchronize(other);
  });
  waits("synchronous copy beside it", [&] {
    return cudaMemcpy(device.get(), host.get(), bytes, cudaMemcpyHostToDevice);
  });
  waits("event", [&] { return cudaEventRecord(event, stream); });
  waits("attributes", [&] {
    cudaPointerAttributes attributes;
    return cudaPointerGetAttributes(&attributes, host.get());
  });
}

// Copies of pageable memory are the driver's own.
void PageableOnTheHeldStream(Run& run) {
  const size_t bytes = run.Pick<size_t>({4, 70'000, 1 << 20, 4 << 20});
  run.Note("bytes", static_cast<int64_t>(bytes));
  std::vector<unsigned char> source(bytes), target(bytes);
  Device device(bytes);
  Stream stream;
  run.Fill(source.data(), bytes);
  const std::vector<unsigned char> sent = source;
  {
    Gate gate;
    gate.Hold(stream);
    const bool waited = WaitsFor(gate, [&] {
      run.Code("up", cudaMemcpyAsync(device.get(), source.data(), bytes,
                                     cudaMemcpyHostToDevice, stream));
    });
    run.Note("up waits", waited ? 1 : 0);
    // The source was read during the call.
    run.Fill(source.data(), bytes);
    CHECK_OK(cudaStreamSynchronize(stream));
  }
  run.Right("bytes", Contents(device.get(), bytes) == sent);
  {
    Gate gate;
    gate.Hold(stream);
    const bool waited = WaitsFor(gate, [&] {
      run.Code("down", cudaMemcpyAsync(target.data(), device.get(), bytes,
                                       cudaMemcpyDeviceToHost, stream));
    });
    run.Note("down waits", waited ? 1 : 0);
    run.Right("readable on return", target == sent);
    CHECK_OK(cudaStreamSynchronize(stream));
  }
}

// Without gates: pageable memory to and from the device and pinned memory,
// readable and writable on return wherever it natively is.
void PageableCopies(Run& run) {
  const size_t bytes = run.Size(2 << 20);
  std::vector<unsigned char> source(bytes + 1), target(bytes + 1, 0xa5);
  Device device(bytes + 1);
  Guarded between(run, bytes);
  Stream stream;
  run.Fill(source.data(), bytes);
  const std::vector<unsigned char> sent = source;
  run.Code("up", cudaMemcpyAsync(device.get(), source.data(), bytes,
                                 cudaMemcpyHostToDevice, stream));
  run.Fill(source.data(), bytes);
  run.Code("to pinned", cudaMemcpyAsync(between.get(), device.get(), bytes,
                                        cudaMemcpyDeviceToHost, stream));
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Code("host to host", cudaMemcpy(target.data(), between.get(), bytes,
                                      cudaMemcpyHostToHost));
  run.Right("bytes", std::memcmp(target.data(), sent.data(), bytes) == 0);
  run.Right("untouched behind", target[bytes] == 0xa5);
  run.Code("host to pinned", cudaMemcpy(between.get(), source.data(), bytes,
                                        cudaMemcpyHostToHost));
  run.Code("down", cudaMemcpyAsync(target.data(), device.get(), bytes,
                                   cudaMemcpyDeviceToHost, stream));
  run.Right("on return", std::memcmp(target.data(), sent.data(), bytes) == 0);
  run.Right("between", std::memcmp(between.get(), source.data(), bytes) == 0);
  run.Right("guards", between.Intact());
}

}  // namespace

std::vector<Scenario> BlockingScenarios() {
  return {
      {"2", "on_the_held_stream", OnTheHeldStream, 10, Needs::kSeveralQueues},
      {"5", "pageable_on_the_held_stream", PageableOnTheHeldStream, 1,
       Needs::kQueueing, 1, true},
      {"5", "pageable_copies", PageableCopies}};
}

}  // namespace conformance
