// Rule 23: several devices.

#include <cstring>
#include <memory>
#include <thread>

#include "tests/conformance/scenario.h"

namespace conformance {
namespace {

// Makes a device current, and the first one again.
class Current {
 public:
  explicit Current(int device) { CHECK_OK(cudaSetDevice(device)); }
  ~Current() { CHECK_OK(cudaSetDevice(0)); }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
};

// Streams and memory of both devices, whichever is current.
void CurrentIsAnother(Run& run) {
  const size_t bytes = run.Size(1 << 20) + 1;
  Guarded block(run, bytes), back(run, bytes);
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  {
    const Current second(1);
    device = std::make_unique<Device>(bytes);
    stream = std::make_unique<Stream>();
  }
  run.Fill(block.get(), bytes);
  const int current = run.OneIn(2) ? 1 : 0;
  const Current chosen(current);
  run.Code("up", cudaMemcpyAsync(device->get(), block.get(), bytes,
                                 cudaMemcpyHostToDevice, *stream));
  run.Code("down", cudaMemcpyAsync(back.get(), device->get(), bytes,
                                   cudaMemcpyDeviceToHost, *stream));
  run.Code("sync", cudaStreamSynchronize(*stream));
  run.Right("bytes", std::memcmp(block.get(), back.get(), bytes) == 0);
  run.Fill(block.get(), bytes);
  run.Code("up, waiting", cudaMemcpy(device->get(), block.get(), bytes,
                                     cudaMemcpyHostToDevice));
  run.Code("down, waiting",
           cudaMemcpy(back.get(), device->get(), bytes, cudaMemcpyDefault));
  run.Right("bytes again", std::memcmp(block.get(), back.get(), bytes) == 0);
  run.Right("guards", block.Intact() && back.Intact());
  int told = -1;
  run.Code("current", cudaGetDevice(&told));
  run.Note("device", told);
  const Current second(1);
  stream.reset();
  device.reset();
}

// What blocks say of the device that was current when they were made.
void WhoseBlock(Run& run) {
  const size_t bytes = run.Pick<size_t>({100, 70'000, 3 << 20});
  for (const int device : {0, 1, 0}) {
    const Current chosen(device);
    Pinned block(
        bytes, run.Pick<unsigned>({cudaHostAllocDefault, cudaHostAllocPortable,
                                   cudaHostAllocMapped}));
    cudaPointerAttributes attributes = {};
    run.Code("query", cudaPointerGetAttributes(&attributes, block.get()));
    run.Note("device", attributes.device);
    const Current other(1 - device);
    run.Code("query", cudaPointerGetAttributes(&attributes, block.get()));
    run.Note("device", attributes.device);
    void* pointer = nullptr;
    run.Code("device pointer",
             cudaHostGetDevicePointer(&pointer, block.get(), 0));
    run.Note("same", pointer == block.get() ? 1 : 0);
  }
}

// From a block to one device, on to the other, and back.
void Across(Run& run) {
  const size_t bytes = run.Size(1 << 20) + 1;
  Guarded block(run, bytes), back(run, bytes);
  Device first(bytes);
  Stream stream;
  std::unique_ptr<Device> second;
  {
    const Current chosen(1);
    second = std::make_unique<Device>(bytes);
  }
  run.Fill(block.get(), bytes);
  run.Code("up", cudaMemcpyAsync(first.get(), block.get(), bytes,
                                 cudaMemcpyHostToDevice, stream));
  if (run.OneIn(2)) {
    run.Code("peer", cudaMemcpyPeerAsync(second->get(), 1, first.get(), 0,
                                         bytes, stream));
  } else {
    run.Code("peer", cudaMemcpyAsync(second->get(), first.get(), bytes,
                                     cudaMemcpyDefault, stream));
  }
  // A stream of the first device, memory of the second.
  run.Code("down", cudaMemcpyAsync(back.get(), second->get(), bytes,
                                   cudaMemcpyDeviceToHost, stream));
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Right("bytes", std::memcmp(block.get(), back.get(), bytes) == 0);
  run.Right("guards", block.Intact() && back.Intact());
  const Current chosen(1);
  second.reset();
}

// A block's bytes to the device that is not current and on, by the functions
// that name both devices.
void AcrossByPeers(Run& run) {
  const size_t bytes = run.Size(1 << 20) + 1;
  Guarded block(run, bytes), back(run, bytes);
  Device first(bytes);
  Stream stream;
  std::unique_ptr<Device> second;
  {
    const Current chosen(1);
    second = std::make_unique<Device>(bytes);
  }
  run.Fill(block.get(), bytes);
  run.Fill(back.get(), bytes);
  if (run.OneIn(2)) {
    run.Code("up", cudaMemcpyPeerAsync(second->get(), 1, block.get(), 0, bytes,
                                       stream));
  } else {
    cudaMemcpy3DPeerParms box = {};
    box.srcPtr = {block.get(), bytes, bytes, 1};
    box.dstPtr = {second->get(), bytes, bytes, 1};
    box.dstDevice = 1;
    box.extent = {bytes, 1, 1};
    run.Code("box up", cudaMemcpy3DPeerAsync(&box, stream));
  }
  run.Code("across", cudaMemcpyPeerAsync(first.get(), 0, second->get(), 1,
                                         bytes, stream));
  run.Code("sync", cudaStreamSynchronize(stream));
  const Current other(1);
  run.Code("down, waiting",
           cudaMemcpyPeer(back.get(), 1, first.get(), 0, bytes));
  CHECK_OK(cudaDeviceSynchronize());
  run.Right("bytes", std::memcmp(block.get(), back.get(), bytes) == 0);
  run.Right("guards", block.Intact() && back.Intact());
  second.reset();
}

// Threads on both devices, one block each, an event of the other device.
void SideBySide(Run& run) {
  constexpr size_t kThreads = 4;
  const size_t bytes = run.Between(1, 400'000);
  std::vector<std::unique_ptr<Pinned>> sources, targets;
  for (size_t i = 0; i < kThreads; ++i) {
    sources.push_back(std::make_unique<Pinned>(bytes));
    targets.push_back(std::make_unique<Pinned>(bytes));
    run.Fill(sources[i]->get(), bytes);
  }
  std::vector<int> wrong(kThreads);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const Current chosen(static_cast<int>(i % 2));
      Stream stream;
      Device device(bytes);
      Event event;
      for (int round = 0; round < 5; ++round) {
        std::memset(targets[i]->get(), round, bytes);
        CHECK_OK(cudaMemcpyAsync(device.get(), sources[i]->get(), bytes,
                                 cudaMemcpyHostToDevice, stream));
        CHECK_OK(cudaMemcpyAsync(targets[i]->get(), device.get(), bytes,
                                 cudaMemcpyDeviceToHost, stream));
        CHECK_OK(cudaEventRecord(event, stream));
        CHECK_OK(cudaSetDevice(static_cast<int>((i + 1) % 2)));
        CHECK_OK(cudaEventSynchronize(event));
        CHECK_OK(cudaSetDevice(static_cast<int>(i % 2)));
        if (std::memcmp(targets[i]->get(), sources[i]->get(), bytes) != 0) {
          ++wrong[i];
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : wrong) run.Right("bytes", count == 0);
}

// Which devices have a context, asked of the driver by the runtime's way to it.
void NoContextElsewhere(Run& run) {
  void* function = nullptr;
#if CUDART_VERSION >= 12050
  CHECK_OK(cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState",
                                            &function, 7000, cudaEnableDefault,
                                            nullptr));
#else
  CHECK_OK(cudaGetDriverEntryPoint("cuDevicePrimaryCtxGetState", &function,
                                   cudaEnableDefault, nullptr));
#endif
  const auto state = reinterpret_cast<int (*)(int, unsigned*, int*)>(function);
  const auto contexts = [&](const char* when) {
    for (int device = 0; device < 2; ++device) {
      unsigned flags = 0;
      int active = -1;
      run.Note("code", state(device, &flags, &active));
      run.Note(when, active);
    }
  };
  contexts("before");
  const int used = static_cast<int>(run.Between(0, 1));
  run.Code("set", cudaSetDevice(used));
  {
    Guarded block(run, 3 << 20);
    contexts("allocated");
    Device device(3 << 20);
    Stream stream;
    run.Fill(block.get(), 3 << 20);
    run.Code("up", cudaMemcpyAsync(device.get(), block.get(), 3 << 20,
                                   cudaMemcpyHostToDevice, stream));
    run.Code("sync", cudaStreamSynchronize(stream));
    contexts("copied");
    cudaPointerAttributes attributes;
    run.Code("query", cudaPointerGetAttributes(&attributes, block.get()));
    run.Note("device", attributes.device);
  }
  contexts("freed");
  run.Code("set", cudaSetDevice(0));
}

}  // namespace

std::vector<Scenario> DeviceScenarios() {
  return {
      {"23", "current_is_another", CurrentIsAnother, 50, Needs::kNothing, 2},
      {"23", "whose_block", WhoseBlock, 20, Needs::kNothing, 2},
      {"23", "across", Across, 50, Needs::kNothing, 2},
      {"23", "across_by_peers", AcrossByPeers, 50, Needs::kNothing, 2},
      {"23", "side_by_side_on_devices", SideBySide, 20, Needs::kNothing, 2},
      {"23", "no_context_elsewhere", NoContextElsewhere, 1, Needs::kNothing, 2,
       true}};
}

}  // namespace conformance
