// Rules 7, 9 and 10: blocks that are freed while copies are queued, forks, the
// end of the process.

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "tests/conformance/scenario.h"

namespace conformance {
namespace {

constexpr char kAfterFork[] =
    "After `fork` a child can read, write and free blocks";
constexpr char kChildsWrites[] =
    "what it writes is its own (natively the parent sees it)";

// Case 5: another thread frees the block of a held copy, and at once takes and
// fills a new one.
void FreedWhileQueued(Run& run) {
  const size_t bytes = run.Pick<size_t>({1000, 70'000, 1 << 20, 3 << 20});
  const bool down = run.OneIn(3);
  Device device(bytes);
  Stream stream;
  Pinned block(bytes + 100);
  std::vector<unsigned char> source(bytes);
  run.Fill(source.data(), bytes);
  Send(device.get(), source.data(), bytes);
  unsigned char* const within = block.get() + 50;
  if (!down) {
    run.Fill(source.data(), bytes);
    std::memcpy(within, source.data(), bytes);
  }
  Gate gate;
  gate.Hold(stream);
  run.Code(
      "copy",
      cudaMemcpyAsync(
          down ? within : device.get(), down ? device.get() : within, bytes,
          down ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, stream));
  unsigned char* const freed = block.Release();
  cudaError_t free_code = cudaErrorNotReady;
  bool open_after = false;
  bool clean = true;
  std::thread other([&] {
    free_code = cudaFreeHost(freed);
    open_after = gate.open();
    Pinned next(bytes + 100);
    std::memset(next.get(), 0xff, next.bytes());
    CHECK_OK(cudaDeviceSynchronize());
    for (size_t i = 0; i < next.bytes(); ++i) {
      clean = clean && next.get()[i] == 0xff;
    }
  });
  gate.Open();
  other.join();
  run.Code("free", free_code);
  run.Note("freed after the gate", open_after ? 1 : 0);
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Right("bytes", Contents(device.get(), bytes) == source);
  run.Right("the next block is its own", clean);
}

// The thread that frees is the one that enqueued; there is no gate.
void FreedAtOnce(Run& run) {
  const size_t bytes = run.Size(2 << 20);
  constexpr int kRounds = 4;
  Device device(kRounds * bytes + 1);
  Stream stream;
  std::vector<uint64_t> digests;
  for (int i = 0; i < kRounds; ++i) {
    unsigned char* block = nullptr;
    CHECK_OK(cudaMallocHost(&block, bytes + 1));
    run.Fill(block, bytes + 1);
    digests.push_back(DigestOf(block, bytes));
    run.Code("up", cudaMemcpyAsync(device.get() + i * bytes, block, bytes,
                                   cudaMemcpyHostToDevice, stream));
    run.Code("free", cudaFreeHost(block));
    run.Code("query", cudaStreamQuery(stream));
  }
  CHECK_OK(cudaStreamSynchronize(stream));
  bool right = true;
  for (size_t i = 0; i < digests.size(); ++i) {
    const auto contents = Contents(device.get() + i * bytes, bytes);
    right = right && DigestOf(contents.data(), bytes) == digests[i];
  }
  run.Right("bytes", right);
}

// A free waits for the copies of the block, and natively for the device.
void FreeWaits(Run& run) {
  const size_t bytes = run.Pick<size_t>({70'000, 3 << 20});
  Device device(bytes);
  Stream stream;
  Pinned block(bytes);
  Gate gate;
  gate.Hold(stream);
  CHECK_OK(cudaMemcpyAsync(device.get(), block.get() + 7, bytes - 7,
                           cudaMemcpyHostToDevice, stream));
  unsigned char* const freed = block.Release();
  cudaError_t code = cudaErrorNotReady;
  run.Note("waits",
           WaitsFor(gate, [&] { code = cudaFreeHost(freed); }) ? 1 : 0);
  run.Code("free", code);
  CHECK_OK(cudaDeviceSynchronize());
}

// Threads that take, use and free blocks side by side.
void ManyThreads(Run& run) {
  constexpr size_t kThreads = 4;
  constexpr int kRounds = 6;
  std::vector<std::vector<size_t>> sizes(kThreads);
  std::vector<std::vector<std::vector<unsigned char>>> data(kThreads);
  for (size_t i = 0; i < kThreads; ++i) {
    for (int round = 0; round < kRounds; ++round) {
      data[i].emplace_back(run.Size(300'000) + 1);
      run.Fill(data[i].back().data(), data[i].back().size());
    }
  }
  std::vector<int> wrong(kThreads);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      Stream stream(i % 2 == 0 ? cudaStreamNonBlocking : cudaStreamDefault);
      for (const std::vector<unsigned char>& sent : data[i]) {
        const size_t bytes = sent.size();
        Device device(bytes);
        Pinned there(bytes);
        auto back = std::make_unique<Pinned>(bytes);
        std::memcpy(there.get(), sent.data(), bytes);
        CHECK_OK(cudaMemcpyAsync(device.get(), there.get(), bytes,
                                 cudaMemcpyHostToDevice, stream));
        CHECK_OK(cudaMemcpyAsync(back->get(), device.get(), bytes,
                                 cudaMemcpyDeviceToHost, stream));
        CHECK_OK(cudaStreamSynchronize(stream));
        if (std::memcmp(back->get(), sent.data(), bytes) != 0) ++wrong[i];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : wrong) run.Right("bytes", count == 0);
}

int StatusOf(pid_t child) {
  int status = -1;
  if (waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// Rule 9. What the child finds comes back as its exit status.
void ForkWithCopiesQueued(Run& run) {
  const size_t bytes = run.Pick<size_t>({70'000, 1 << 20});
  Pinned up(bytes), down(bytes);
  Device device(bytes);
  Stream stream;
  run.Fill(up.get(), bytes);
  const uint64_t digest = DigestOf(up.get(), bytes);
  Gate gate;
  gate.Hold(stream);
  run.Code("up", cudaMemcpyAsync(device.get(), up.get(), bytes,
                                 cudaMemcpyHostToDevice, stream));
  run.Code("down", cudaMemcpyAsync(down.get(), device.get(), bytes,
                                   cudaMemcpyDeviceToHost, stream));
  const auto in_child = [&](const char* name,
                            const std::function<int()>& function) {
    const pid_t child = fork();
    if (child == 0) {
      const int code = function();
      _exit(code);
    }
    const int status = StatusOf(child);
    if (std::string(name) == "memory") {
      run.Right(name, status == 0);
    } else {
      run.Stated(name, status, kAfterFork);
    }
  };
  in_child("memory",
           [&] { return DigestOf(up.get(), bytes) == digest ? 0 : 1; });
  // What the child writes is its own where the block is staged; the parent's
  // copies, queued before, must not see it. Natively it is the parent's memory.
  Pinned written(bytes);
  std::memset(written.get(), 3, bytes);
  const pid_t writer = fork();
  if (writer == 0) {
    std::memset(written.get(), 1, bytes);
    _exit(0);
  }
  run.Right("the child can write", StatusOf(writer) == 0);
  run.Stated("what a child wrote", written.get()[bytes / 2], kChildsWrites);
  in_child("attributes in the child", [&] {
    cudaPointerAttributes attributes;
    return static_cast<int>(cudaPointerGetAttributes(&attributes, up.get()));
  });
  in_child("free in the child",
           [&] { return static_cast<int>(cudaFreeHost(up.get())); });
  in_child("copy in the child", [&] {
    return static_cast<int>(
        cudaMemcpy(device.get(), up.get(), bytes, cudaMemcpyHostToDevice));
  });
  gate.Open();
  run.Code("sync", cudaStreamSynchronize(stream));
  run.Right("bytes", DigestOf(down.get(), bytes) == digest);
  run.Right("source", DigestOf(up.get(), bytes) == digest);
}

// Rule 10: the process ends with these left over.
struct FreedAtExit {
  ~FreedAtExit() {
    if (block != nullptr && cudaFreeHost(block) != cudaSuccess) {
      // Natively CUDA may be unloading by now; that is no message's worth.
      block = nullptr;
    }
  }
  unsigned char* block = nullptr;
};

void EndsWithCopiesInFlight(Run& run) {
  static FreedAtExit at_exit;
  const size_t bytes = 8 << 20;
  unsigned char* device = nullptr;
  unsigned char* leaked = nullptr;
  cudaStream_t stream = nullptr;
  CHECK_OK(cudaMalloc(&device, bytes));
  CHECK_OK(cudaMallocHost(&at_exit.block, bytes));
  CHECK_OK(cudaMallocHost(&leaked, bytes));
  CHECK_OK(cudaStreamCreate(&stream));
  for (int i = 0; i < 4; ++i) {
    run.Code("up", cudaMemcpyAsync(device, leaked, bytes,
                                   cudaMemcpyHostToDevice, stream));
    run.Code("down", cudaMemcpyAsync(at_exit.block, device, bytes,
                                     cudaMemcpyDeviceToHost, stream));
  }
}

void EndsInAThread(Run& run) {
  Pinned block(1 << 20);
  run.Fill(block.get(), block.bytes());
  unsigned char* device = nullptr;
  CHECK_OK(cudaMalloc(&device, block.bytes()));
  CHECK_OK(cudaMemcpyAsync(device, block.get(), block.bytes(),
                           cudaMemcpyHostToDevice, cudaStreamPerThread));
  run.Digest("block", block.get(), block.bytes());
  std::printf("%s", run.TakeLines().c_str());
  std::fflush(stdout);
  std::thread([] { std::exit(5); }).join();
}

}  // namespace

std::vector<Scenario> LifetimeScenarios() {
  return {{"7", "freed_while_queued", FreedWhileQueued, 50, Needs::kQueueing},
          {"7", "freed_at_once", FreedAtOnce, 50},
          {"7", "free_waits", FreeWaits, 1, Needs::kQueueing, 1, true},
          {"7", "many_threads", ManyThreads, 20},
          {"9", "fork_with_copies_queued", ForkWithCopiesQueued, 5,
           Needs::kQueueing},
          {"10", "ends_with_copies_in_flight", EndsWithCopiesInFlight, 1},
          {"10", "ends_in_a_thread", EndsInAThread, 1}};
}

}  // namespace conformance
