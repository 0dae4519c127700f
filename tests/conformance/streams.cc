// Rule 6: kinds of streams, and rule 8: their handles.

#include <cstring>
#include <memory>
#include <thread>

#include "tests/conformance/scenario.h"

namespace conformance {
namespace {

// What a query of each kind of stream says while one of another kind is held,
// with copies queued on all of them.
void HeldBesideOthers(Run& run) {
  const size_t bytes = run.Between(1, 200'000);
  Stream held(run.OneIn(2) ? cudaStreamNonBlocking : cudaStreamDefault);
  Stream blocking(cudaStreamDefault);
  Stream free_one;
  const std::vector<cudaStream_t> streams = {
      held, blocking, free_one, nullptr, cudaStreamLegacy, cudaStreamPerThread};
  Pinned block(bytes * streams.size());
  Device device(bytes * streams.size());
  run.Fill(block.get(), block.bytes());
  const size_t which = run.Pick<size_t>({0, 3, 5});
  run.Note("held", static_cast<int64_t>(which));
  Gate gate;
  gate.Hold(streams[which]);
  for (size_t i = 0; i < streams.size(); ++i) {
    run.Code("copy",
             cudaMemcpyAsync(device.get() + i * bytes, block.get() + i * bytes,
                             bytes, cudaMemcpyHostToDevice, streams[i]));
  }
  // Only what is not ordered behind the gate can be waited for.
  if (which != 3) {
    run.Code("free", cudaStreamSynchronize(free_one));
    run.Right("its bytes", [&] {
      std::vector<unsigned char> back(bytes);
      CHECK_OK(cudaMemcpyAsync(back.data(), device.get() + 2 * bytes, bytes,
                               cudaMemcpyDeviceToHost, free_one));
      CHECK_OK(cudaStreamSynchronize(free_one));
      return std::memcmp(back.data(), block.get() + 2 * bytes, bytes) == 0;
    }());
  }
  run.Code("held", cudaStreamQuery(streams[which]));
  run.Right("still held", !gate.open());
  gate.Open();
  run.Code("sync", cudaDeviceSynchronize());
  for (cudaStream_t stream : streams) {
    run.Code("after", cudaStreamQuery(stream));
  }
  run.Digest("bytes", Contents(device.get(), block.bytes()).data(),
             block.bytes());
  run.Digest("block", block.get(), block.bytes());
}

// Blocking streams of copies down, one event on the legacy stream behind them.
void LegacyStreamWaitsForBlockingOnes(Run& run) {
  const size_t bytes = run.Between(1, 500'000);
  constexpr size_t kStreams = 3;  // One queue each, beside the held one.
  Device device(bytes);
  std::vector<unsigned char> source(bytes);
  run.Fill(source.data(), bytes);
  Send(device.get(), source.data(), bytes);
  Pinned block(bytes * kStreams), aside(bytes);
  std::memset(block.get(), 0xee, block.bytes());
  std::memset(aside.get(), 0xee, bytes);
  std::vector<std::unique_ptr<Stream>> streams;
  Stream non_blocking;
  Gate gate;
  gate.Hold(non_blocking);
  run.Code("aside", cudaMemcpyAsync(aside.get(), device.get(), bytes,
                                    cudaMemcpyDeviceToHost, non_blocking));
  for (size_t i = 0; i < kStreams; ++i) {
    streams.push_back(std::make_unique<Stream>(cudaStreamDefault));
    run.Code("down",
             cudaMemcpyAsync(block.get() + i * bytes, device.get(), bytes,
                             cudaMemcpyDeviceToHost, *streams.back()));
  }
  Event event;
  CHECK_OK(cudaEventRecord(event, nullptr));
  run.Code("event", cudaEventSynchronize(event));
  bool whole = true;
  for (size_t i = 0; i < kStreams; ++i) {
    whole = whole &&
            std::memcmp(block.get() + i * bytes, source.data(), bytes) == 0;
  }
  run.Right("bytes", whole);
  run.Code("aside", cudaStreamQuery(non_blocking));
  run.Right("aside untouched",
            aside.get()[0] == 0xee && aside.get()[bytes - 1] == 0xee);
  gate.Open();
  run.Code("sync", cudaStreamSynchronize(non_blocking));
  run.Right("aside bytes", std::memcmp(aside.get(), source.data(), bytes) == 0);
}

// A copy on the legacy stream lies between those of blocking streams.
void LegacyStreamInBetween(Run& run) {
  const size_t bytes = run.Between(1, 300'000);
  Guarded first(run, bytes), second(run, bytes), back(run, bytes);
  Device device(bytes);
  Stream before(cudaStreamDefault), after(cudaStreamDefault);
  run.Fill(first.get(), bytes);
  run.Fill(second.get(), bytes);
  run.Code("first", cudaMemcpyAsync(device.get(), first.get(), bytes,
                                    cudaMemcpyHostToDevice, before));
  const size_t half = bytes / 2;
  run.Code("second", cudaMemcpyAsync(device.get(), second.get(), half,
                                     cudaMemcpyHostToDevice, nullptr));
  run.Code("back", cudaMemcpyAsync(back.get(), device.get(), bytes,
                                   cudaMemcpyDeviceToHost, after));
  run.Code("sync", cudaStreamSynchronize(after));
  run.Right("bytes", std::memcmp(back.get(), second.get(), half) == 0 &&
                         std::memcmp(back.get() + half, first.get() + half,
                                     bytes - half) == 0);
  run.Right("guards", first.Intact() && second.Intact() && back.Intact());
}

// Case 9: threads, each with its per-thread stream held, copies of different
// bytes on it.
void PerThreadStreams(Run& run) {
  constexpr size_t kThreads = 8;
  const size_t bytes = run.OneIn(10) ? 3 << 20 : run.Between(1, 300'000);
  std::vector<std::unique_ptr<Pinned>> sources, targets;
  std::vector<std::unique_ptr<Device>> devices;
  for (size_t i = 0; i < kThreads; ++i) {
    sources.push_back(std::make_unique<Pinned>(bytes));
    targets.push_back(std::make_unique<Pinned>(bytes));
    devices.push_back(std::make_unique<Device>(bytes));
    run.Fill(sources[i]->get(), bytes);
    std::memset(targets[i]->get(), 0xee, bytes);
  }
  std::vector<cudaError_t> codes(kThreads);
  std::vector<Gate> gates(kThreads);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      gates[i].Hold(cudaStreamPerThread);
      CHECK_OK(cudaMemcpyAsync(devices[i]->get(), sources[i]->get(), bytes,
                               cudaMemcpyHostToDevice, cudaStreamPerThread));
      CHECK_OK(cudaMemcpyAsync(targets[i]->get(), devices[i]->get(), bytes,
                               cudaMemcpyDeviceToHost, cudaStreamPerThread));
      gates[i].Open();
      codes[i] = cudaStreamSynchronize(cudaStreamPerThread);
    });
  }
  for (std::thread& thread : threads) thread.join();
  bool right = true;
  for (size_t i = 0; i < kThreads; ++i) {
    run.Code("sync", codes[i]);
    right =
        right && std::memcmp(sources[i]->get(), targets[i]->get(), bytes) == 0;
  }
  run.Right("bytes", right);
}

// The oldest of several streams is held; the others, with more queued on each,
// are released with it. (Case 6b, of a size for every day.)
void OldestHeld(Run& run) {
  const size_t bytes = run.Between(1, 2 << 20);
  const size_t count = run.Pick<size_t>({5, 6, 9});
  Device device(bytes * count);
  Pinned block(bytes * count), target(bytes * count);
  std::vector<std::unique_ptr<Stream>> streams;
  run.Fill(block.get(), block.bytes());
  std::memset(target.get(), 0xee, target.bytes());
  for (size_t i = 0; i < count; ++i) {
    streams.push_back(std::make_unique<Stream>());
  }
  Gate gate;
  gate.Hold(*streams[0]);
  for (size_t i = 0; i < count; ++i) {
    run.Code("up",
             cudaMemcpyAsync(device.get() + i * bytes, block.get() + i * bytes,
                             bytes, cudaMemcpyHostToDevice, *streams[i]));
    run.Code("down",
             cudaMemcpyAsync(target.get() + i * bytes, device.get() + i * bytes,
                             bytes, cudaMemcpyDeviceToHost, *streams[i]));
  }
  run.Right("returned before", !gate.open());
  gate.Open();
  run.Code("sync", cudaDeviceSynchronize());
  run.Right("bytes",
            std::memcmp(block.get(), target.get(), block.bytes()) == 0);
}

void Priorities(Run& run) {
  int least = 0;
  int greatest = 0;
  run.Code("range", cudaDeviceGetStreamPriorityRange(&least, &greatest));
  const size_t bytes = run.Between(1, 300'000);
  Pinned block(bytes), back(bytes);
  Device device(bytes);
  run.Fill(block.get(), bytes);
  for (const int priority : {least, greatest}) {
    cudaStream_t stream = nullptr;
    run.Code("create", cudaStreamCreateWithPriority(
                           &stream, cudaStreamNonBlocking, priority));
    run.Code("up", cudaMemcpyAsync(device.get(), block.get(), bytes,
                                   cudaMemcpyHostToDevice, stream));
    std::memset(back.get(), 0, bytes);
    run.Code("down", cudaMemcpyAsync(back.get(), device.get(), bytes,
                                     cudaMemcpyDeviceToHost, stream));
    run.Code("sync", cudaStreamSynchronize(stream));
    run.Right("bytes", std::memcmp(block.get(), back.get(), bytes) == 0);
    int told = 0;
    run.Code("priority", cudaStreamGetPriority(stream, &told));
    run.Note("same", told == priority ? 1 : 0);
    run.Code("destroy", cudaStreamDestroy(stream));
  }
}

// Rule 8: streams destroyed with work queued, and new ones that may get their
// handles.
void HandlesComeBack(Run& run) {
  const size_t bytes = run.Between(1, 100'000);
  constexpr size_t kStreams = 20;
  Pinned block(bytes * kStreams);
  Device device(bytes * kStreams);
  run.Fill(block.get(), block.bytes());
  for (size_t i = 0; i < kStreams; ++i) {
    cudaStream_t stream = nullptr;
    CHECK_OK(cudaStreamCreateWithFlags(
        &stream, run.OneIn(2) ? cudaStreamNonBlocking : cudaStreamDefault));
    run.Code("copy",
             cudaMemcpyAsync(device.get() + i * bytes, block.get() + i * bytes,
                             bytes, cudaMemcpyHostToDevice, stream));
    if (run.OneIn(3)) CHECK_OK(cudaStreamSynchronize(stream));
    run.Code("destroy", cudaStreamDestroy(stream));
  }
  run.Code("sync", cudaDeviceSynchronize());
  run.Right("bytes",
            DigestOf(Contents(device.get(), block.bytes()).data(),
                     block.bytes()) == DigestOf(block.get(), block.bytes()));
}

// A stream destroyed while it is held; another one with its handle does not
// wait for it.
void DestroyedWhileHeld(Run& run) {
  const size_t bytes = run.Between(70'000, 300'000);
  Pinned first(bytes), second(bytes), back(bytes);
  Device device(bytes), other(bytes);
  run.Fill(second.get(), bytes);
  cudaStream_t stream = nullptr;
  CHECK_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  Gate gate;
  gate.Hold(stream);
  run.Code("held", cudaMemcpyAsync(device.get(), first.get(), bytes,
                                   cudaMemcpyHostToDevice, stream));
  run.Code("destroy", cudaStreamDestroy(stream));
  Stream next;
  run.Code("up", cudaMemcpyAsync(other.get(), second.get(), bytes,
                                 cudaMemcpyHostToDevice, next));
  run.Code("down", cudaMemcpyAsync(back.get(), other.get(), bytes,
                                   cudaMemcpyDeviceToHost, next));
  run.Code("sync", cudaStreamSynchronize(next));
  run.Right("still held", !gate.open());
  run.Right("bytes", std::memcmp(second.get(), back.get(), bytes) == 0);
  run.Fill(first.get(), bytes);
  gate.Open();
  run.Code("device", cudaDeviceSynchronize());
  run.Right("held bytes", DigestOf(Contents(device.get(), bytes).data(),
                                   bytes) == DigestOf(first.get(), bytes));
}

}  // namespace

std::vector<Scenario> StreamScenarios() {
  return {
      {"6", "held_beside_others", HeldBesideOthers, 50, Needs::kSeveralQueues},
      {"6", "legacy_waits_for_blocking", LegacyStreamWaitsForBlockingOnes, 50,
       Needs::kSeveralQueues},
      {"6", "legacy_in_between", LegacyStreamInBetween},
      {"6", "per_thread_streams", PerThreadStreams, 30, Needs::kQueueing},
      {"6", "oldest_held", OldestHeld, 20, Needs::kQueueing},
      {"6", "priorities", Priorities, 10},
      {"8", "handles_come_back", HandlesComeBack, 50},
      {"8", "destroyed_while_held", DestroyedWhileHeld, 30,
       Needs::kSeveralQueues}};
}

}  // namespace conformance
