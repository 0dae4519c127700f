// Rules 1 to 4: when a copy reads and writes, and who knows that it is done.

#include <algorithm>
#include <cstring>
#include <memory>
#include <thread>

#include "tests/conformance/scenario.h"

namespace conformance {
namespace {

constexpr size_t kMiB = 1 << 20;

bool Same(const void* first, const void* second, size_t bytes) {
  return std::memcmp(first, second, bytes) == 0;
}

// Case 1: what comes down goes up again, with no synchronization between.
void DownThenUp(Run& run) {
  const size_t bytes = run.OneIn(8) ? 12 * kMiB : run.Size(3 * kMiB);
  Guarded block(run, bytes);
  std::vector<unsigned char> source(bytes);
  Device first(bytes + 1), second(bytes + 1);
  run.Fill(source.data(), bytes);
  Send(first.get(), source.data(), bytes);
  CHECK_OK(cudaMemset(second.get(), 0x11, bytes));
  CHECK_OK(cudaDeviceSynchronize());
  std::memset(block.get(), 0xee, bytes);
  if (run.OneIn(2)) {
    Stream stream;
    run.Code("down", cudaMemcpyAsync(block.get(), first.get(), bytes,
                                     cudaMemcpyDeviceToHost, stream));
    run.Code("up", cudaMemcpyAsync(second.get(), block.get(), bytes,
                                   cudaMemcpyHostToDevice, stream));
    run.Code("sync", cudaStreamSynchronize(stream));
  } else {
    run.Code("down", cudaMemcpyAsync(block.get(), first.get(), bytes,
                                     cudaMemcpyDeviceToHost, nullptr));
    run.Code("up", cudaMemcpy(second.get(), block.get(), bytes,
                              cudaMemcpyHostToDevice));
  }
  CHECK_OK(cudaDeviceSynchronize());
  run.Right("bytes", Contents(second.get(), bytes) == source);
  run.Right("block", Same(block.get(), source.data(), bytes));
  run.Right("guards", block.Intact());
}

void DownThenUpLarge(Run& run) {
  const size_t bytes = 64 * kMiB + 5;
  Pinned block(bytes);
  Device first(bytes), second(bytes);
  run.Fill(block.get(), bytes);
  const uint64_t digest = DigestOf(block.get(), bytes);
  Send(first.get(), block.get(), bytes);
  std::memset(block.get(), 0xee, bytes);
  Stream stream;
  run.Code("down", cudaMemcpyAsync(block.get(), first.get(), bytes,
                                   cudaMemcpyDeviceToHost, stream));
  run.Code("up", cudaMemcpyAsync(second.get(), block.get(), bytes,
                                 cudaMemcpyHostToDevice, stream));
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Right("block", DigestOf(block.get(), bytes) == digest);
  run.Right("bytes",
            DigestOf(Contents(second.get(), bytes).data(), bytes) == digest);
}

// Case 2: written by a host function after the copy was enqueued, and by the
// host until the stream gets there.
void ReadsWhenReached(Run& run) {
  const size_t bytes = run.OneIn(4) ? kMiB + 13 : run.Size(2 * kMiB);
  Guarded source(run, bytes), target(run, bytes);
  Device device(bytes + 1);
  Stream stream;
  std::vector<unsigned char> written(bytes);
  run.Fill(written.data(), bytes);
  std::function<void()> write = [&] {
    std::memcpy(source.get(), written.data(), bytes);
  };
  Gate gate;
  run.Fill(source.get(), bytes);
  gate.Hold(stream);
  const bool by_host_function = run.OneIn(2);
  if (by_host_function) HostFunction(stream, &write);
  run.Code("up", cudaMemcpyAsync(device.get(), source.get(), bytes,
                                 cudaMemcpyHostToDevice, stream));
  run.Code("down", cudaMemcpyAsync(target.get(), device.get(), bytes,
                                   cudaMemcpyDeviceToHost, stream));
  run.Right("returned before", !gate.open());
  run.Code("query", cudaStreamQuery(stream));
  if (!by_host_function) write();
  gate.Open();
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Code("query after", cudaStreamQuery(stream));
  run.Right("bytes", Same(target.get(), written.data(), bytes));
  run.Right("guards", source.Intact() && target.Intact());
}

// A host function that comes later reads what a copy has brought, and changes
// it for the next copy: a chain that only the stream orders.
void ChainOfHostFunctions(Run& run) {
  const size_t bytes = run.Between(1, 300'000);
  const size_t links = run.Between(2, 9);
  Guarded block(run, bytes);
  Device device(bytes);
  Stream stream;
  std::vector<std::function<void()>> functions(links);
  std::vector<uint64_t> seen(links);
  run.Fill(block.get(), bytes);
  Gate gate;
  gate.Hold(stream);
  for (size_t i = 0; i < links; ++i) {
    functions[i] = [&, i] {
      seen[i] = DigestOf(block.get(), bytes);
      for (size_t at = i; at < bytes; at += 97) {
        block.get()[at] = static_cast<unsigned char>(block.get()[at] * 5 + 3);
      }
    };
    run.Code("up", cudaMemcpyAsync(device.get(), block.get(), bytes,
                                   cudaMemcpyHostToDevice, stream));
    run.Code("memset", cudaMemsetAsync(device.get() + bytes / 3,
                                       static_cast<int>(i), 1, stream));
    run.Code("down", cudaMemcpyAsync(block.get(), device.get(), bytes,
                                     cudaMemcpyDeviceToHost, stream));
    HostFunction(stream, &functions[i]);
  }
  gate.Open();
  run.Code("sync", cudaStreamSynchronize(stream));
  for (size_t i = 0; i < links; ++i) {
    run.Note("seen", static_cast<int64_t>(seen[i]));
  }
  run.Digest("block", block.get(), bytes);
  run.Right("guards", block.Intact());
}

// Case 4: small copies of two blocks, back to back, are never swapped.
void NeverSwapped(Run& run) {
  constexpr size_t kBytes = 2048;
  Pinned first(300'000), second(300'000), back(2 * kBytes);
  Device device(2 * kBytes);
  Stream stream;
  for (int round = 0; round < 30; ++round) {
    const size_t at = run.Between(0, first.bytes() - kBytes);
    run.Fill(first.get() + at, kBytes);
    run.Fill(second.get() + at, kBytes);
    Gate gate;
    if (run.OneIn(2)) gate.Hold(stream);
    CHECK_OK(cudaMemcpyAsync(device.get(), first.get() + at, kBytes,
                             cudaMemcpyHostToDevice, stream));
    CHECK_OK(cudaMemcpyAsync(device.get() + kBytes, second.get() + at, kBytes,
                             cudaMemcpyHostToDevice, stream));
    gate.Open();
    if (run.OneIn(3)) {
      CHECK_OK(cudaMemcpyAsync(back.get(), device.get(), 2 * kBytes,
                               cudaMemcpyDeviceToHost, stream));
      CHECK_OK(cudaStreamSynchronize(stream));
      if (Same(back.get(), first.get() + at, kBytes) &&
          Same(back.get() + kBytes, second.get() + at, kBytes)) {
        continue;
      }
      run.Right("bytes", false);
    }
    CHECK_OK(cudaStreamSynchronize(stream));
  }
  run.Digest("last", Contents(device.get(), 2 * kBytes).data(), 2 * kBytes);
}

// Rule 2: 300 copies of one chunk behind a gate that the same thread opens.
void ManyBehindAGate(Run& run) {
  constexpr int kCopies = 300;
  const size_t bytes = run.Pick<size_t>({1, 2048, 8192, 65'537, 131'072});
  const bool down = run.OneIn(2);
  Pinned block(kCopies * bytes + 70'000);
  Device device(kCopies * bytes);
  Stream stream;
  run.Fill(block.get(), block.bytes());
  std::vector<unsigned char> expected(kCopies * bytes);
  run.Fill(expected.data(), expected.size());
  Send(device.get(), expected.data(), expected.size());
  if (!down) expected.assign(block.get(), block.get() + kCopies * bytes);
  Gate gate;
  gate.Hold(stream);
  for (size_t i = 0; i < kCopies; ++i) {
    unsigned char* const host = block.get() + i * bytes;
    unsigned char* const there = device.get() + i * bytes;
    CHECK_OK(down ? cudaMemcpyAsync(host, there, bytes, cudaMemcpyDeviceToHost,
                                    stream)
                  : cudaMemcpyAsync(there, host, bytes, cudaMemcpyHostToDevice,
                                    stream));
  }
  run.Right("returned before", !gate.open());
  gate.Open();
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Right("bytes", down
                         ? Same(block.get(), expected.data(), expected.size())
                         : Contents(device.get(), expected.size()) == expected);
}

// More than the ring behind a gate that the same thread opens.
void MoreThanTheRingBehindAGate(Run& run) {
  constexpr size_t kBytes = 40 * kMiB;
  constexpr int kCopies = 4;
  Pinned block(kBytes + 1);
  Device device(kBytes + 1);
  Stream stream;
  Gate gate;
  gate.Hold(stream);
  for (int i = 0; i < kCopies; ++i) {
    run.Code("up", cudaMemcpyAsync(device.get(), block.get() + i % 2, kBytes,
                                   cudaMemcpyHostToDevice, stream));
  }
  run.Right("returned before", !gate.open());
  run.Fill(block.get(), block.bytes());
  gate.Open();
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Right("bytes", DigestOf(Contents(device.get(), kBytes).data(), kBytes) ==
                         DigestOf(block.get() + 1, kBytes));
}

// Rule 3: each observer that says done finds all bytes.
void EveryObserver(Run& run) {
  const size_t bytes =
      run.OneIn(3) ? run.Between(1, 3 * kMiB) : run.Size(3 * kMiB);
  Guarded block(run, bytes);
  Device device(bytes + 1);
  std::vector<unsigned char> source(bytes);
  run.Fill(source.data(), bytes);
  Send(device.get(), source.data(), bytes);
  std::memset(block.get(), 0xee, bytes);
  Stream stream(run.OneIn(2) ? cudaStreamNonBlocking : cudaStreamDefault);
  Stream other;
  Event done, later;
  run.Code("down", cudaMemcpyAsync(block.get(), device.get(), bytes,
                                   cudaMemcpyDeviceToHost, stream));
  run.Code("record", cudaEventRecord(done, stream));
  bool seen = false;
  std::function<void()> look = [&] {
    seen = Same(block.get(), source.data(), bytes);
  };
  const size_t observer = run.Between(0, 7);
  run.Note("observer", static_cast<int64_t>(observer));
  cudaError_t code = cudaErrorNotReady;
  switch (observer) {
    case 0:
      code = cudaStreamSynchronize(stream);
      look();
      break;
    case 1:
      code = Poll([&] { return cudaStreamQuery(stream); });
      look();
      break;
    case 2:
      code = Poll([&] { return cudaEventQuery(done); });
      look();
      break;
    case 3:
      code = cudaEventSynchronize(done);
      look();
      break;
    case 4:
      code = cudaDeviceSynchronize();
      look();
      break;
    case 5:
      HostFunction(stream, &look);
      code = cudaStreamSynchronize(stream);
      break;
    case 6:
      CHECK_OK(cudaStreamWaitEvent(other, done, 0));
      HostFunction(other, &look);
      code = cudaStreamSynchronize(other);
      break;
    default:
      CHECK_OK(cudaStreamWaitEvent(other, done, 0));
      CHECK_OK(cudaEventRecord(later, other));
      std::thread([&] { code = cudaEventSynchronize(later); }).join();
      look();
      break;
  }
  run.Code("observed", code);
  run.Right("bytes", seen);
  CHECK_OK(cudaDeviceSynchronize());
  run.Code("stream", cudaStreamQuery(stream));
  run.Code("event", cudaEventQuery(done));
  run.Right("guards", block.Intact());
}

// The same for copies up: another stream that waits reads the device.
void UpAndAcross(Run& run) {
  const size_t bytes = run.Size(2 * kMiB);
  Guarded block(run, bytes), back(run, bytes);
  Device first(bytes + 1), second(bytes + 1);
  Stream stream, other, third;
  Event up, across;
  run.Fill(block.get(), bytes);
  run.Code("up", cudaMemcpyAsync(first.get(), block.get(), bytes,
                                 cudaMemcpyHostToDevice, stream));
  CHECK_OK(cudaEventRecord(up, stream));
  CHECK_OK(cudaStreamWaitEvent(other, up, 0));
  run.Code("across", cudaMemcpyAsync(second.get(), first.get(), bytes,
                                     cudaMemcpyDeviceToDevice, other));
  CHECK_OK(cudaEventRecord(across, other));
  CHECK_OK(cudaStreamWaitEvent(third, across, 0));
  run.Code("down", cudaMemcpyAsync(back.get(), second.get(), bytes,
                                   cudaMemcpyDeviceToHost, third));
  run.Code("sync", cudaStreamSynchronize(third));
  run.Code("first", cudaStreamQuery(stream));
  run.Code("second", cudaStreamQuery(other));
  run.Right("bytes", Same(back.get(), block.get(), bytes));
  run.Right("guards", back.Intact() && block.Intact());
}

// Case 3: no more is waited for than natively.
void WaitsForNothingElse(Run& run) {
  const size_t bytes = run.Between(1, kMiB);
  Guarded block(run, bytes), other_block(run, bytes);
  Device device(bytes);
  std::vector<unsigned char> source(bytes);
  run.Fill(source.data(), bytes);
  Send(device.get(), source.data(), bytes);
  std::memset(other_block.get(), 0x77, bytes);
  Stream first, second;
  Event done;
  Gate gate;
  run.Code("down", cudaMemcpyAsync(block.get(), device.get(), bytes,
                                   cudaMemcpyDeviceToHost, first));
  CHECK_OK(cudaEventRecord(done, first));
  gate.Hold(second);
  run.Code("other", cudaMemcpyAsync(other_block.get(), device.get(), bytes,
                                    cudaMemcpyDeviceToHost, second));
  run.Code("event", cudaEventSynchronize(done));
  run.Right("bytes", Same(block.get(), source.data(), bytes));
  run.Right("other untouched",
            std::count(other_block.get(), other_block.get() + bytes, 0x77) ==
                static_cast<std::ptrdiff_t>(bytes));
  run.Code("other", cudaStreamQuery(second));
  gate.Open();
  run.Code("sync", cudaStreamSynchronize(second));
  run.Right("other bytes", Same(other_block.get(), source.data(), bytes));
}

// Rule 4: when a synchronous copy returns, the data is where it should be, for
// whoever looks.
void Synchronous(Run& run) {
  const size_t bytes = run.Size(3 * kMiB);
  Guarded source(run, bytes), target(run, bytes);
  Device device(bytes + 1), copy(bytes + 1);
  run.Fill(source.get(), bytes);
  std::vector<unsigned char> sent(source.get(), source.get() + bytes);
  const auto kind = [&](cudaMemcpyKind named) {
    return run.OneIn(2) ? cudaMemcpyDefault : named;
  };
  run.Code("up", cudaMemcpy(device.get(), source.get(), bytes,
                            kind(cudaMemcpyHostToDevice)));
  // The source is the program's again, and a stream that is not ordered with
  // the copy finds the data.
  run.Fill(source.get(), bytes);
  Stream stream;
  run.Code("across", cudaMemcpyAsync(copy.get(), device.get(), bytes,
                                     cudaMemcpyDeviceToDevice, stream));
  CHECK_OK(cudaStreamSynchronize(stream));
  run.Code("down", cudaMemcpy(target.get(), copy.get(), bytes,
                              kind(cudaMemcpyDeviceToHost)));
  run.Right("bytes", Same(target.get(), sent.data(), bytes));
  run.Right("guards", source.Intact() && target.Intact());
}

}  // namespace

std::vector<Scenario> OrderScenarios() {
  return {
      {"1", "down_then_up", DownThenUp},
      {"1", "down_then_up_large", DownThenUpLarge, 1, Needs::kNothing, 1, true},
      {"1", "reads_when_reached", ReadsWhenReached, 100, Needs::kQueueing},
      {"1", "chain_of_host_functions", ChainOfHostFunctions, 50,
       Needs::kQueueing},
      {"1", "never_swapped", NeverSwapped, 50, Needs::kQueueing},
      {"2", "many_behind_a_gate", ManyBehindAGate, 10, Needs::kQueueing},
      {"2", "more_than_the_ring_behind_a_gate", MoreThanTheRingBehindAGate, 1,
       Needs::kQueueing, 1, true},
      {"3", "every_observer", EveryObserver},
      {"3", "up_and_across", UpAndAcross},
      {"3", "waits_for_nothing_else", WaitsForNothingElse, 50,
       Needs::kSeveralQueues},
      {"4", "synchronous", Synchronous}};
}

}  // namespace conformance
