#include "tests/conformance/scenario.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

namespace conformance {
namespace {

constexpr unsigned char kGuardByte = 0xa5;

struct Watched {
  std::mutex mutex;
  Run* run = nullptr;
  std::chrono::steady_clock::time_point since;
  bool watching = false;
};

// Never destroyed: the watching thread outlives the program's statics.
Watched& TheWatched() {
  static auto* const watched = new Watched;
  return *watched;
}

void EndWith(Run* run, const std::string& line, int status) {
  if (run != nullptr) std::printf("%s", run->TakeLines().c_str());
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
  std::_Exit(status);
}

uint64_t Mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

}  // namespace

size_t Run::Between(size_t least, size_t most) {
  return least + static_cast<size_t>(random_() % (most - least + 1));
}

size_t Run::Size(size_t most) {
  static const std::vector<size_t> edges = {
      1,       64,        256,     4096,           16384,    65536,   131072,
      1 << 18, 512 << 10, 1 << 20, (1 << 20) + 13, 2u << 20, 4u << 20};
  size_t size = 0;
  switch (Between(0, 3)) {
    case 0:
      size = Between(0, 300);
      break;
    case 1:
      size = Between(0, most);
      break;
    default:
      size = Pick(edges) + Between(0, 6);
      size = size > 3 ? size - 3 : size;
      break;
  }
  return std::min(size, most);
}

void Run::Fill(void* at, size_t bytes) {
  auto* const to = static_cast<unsigned char*>(at);
  bytes_seed_ = Mix(bytes_seed_ + 0x9e3779b97f4a7c15u);
  uint64_t state = bytes_seed_;
  size_t done = 0;
  for (; done + 8 <= bytes; done += 8) {
    state += 0x9e3779b97f4a7c15u;
    const uint64_t word = Mix(state);
    std::memcpy(to + done, &word, 8);
  }
  const uint64_t word = Mix(state + 1);
  std::memcpy(to + done, &word, bytes - done);
}

void Run::Add(const std::string& name, char sign, const std::string& value) {
  const std::lock_guard<std::mutex> lock(mutex_);
  lines_ += name + ' ' + sign + ' ' + value + '\n';
}

void Run::Note(const std::string& name, int64_t value) {
  Add(name, '=', std::to_string(value));
}

cudaError_t Run::Code(const std::string& name, cudaError_t code) {
  Add(name, '=', cudaGetErrorName(code));
  return code;
}

void Run::Digest(const std::string& name, const void* at, size_t bytes) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(DigestOf(at, bytes)));
  Add(name, '=', text);
}

void Run::Right(const std::string& name, bool right) {
  Add(name, '!', right ? "1" : "0");
}

void Run::Stated(const std::string& name, int64_t value,
                 const std::string& statement) {
  Add(name, '~', std::to_string(value) + " (" + statement + ")");
}

void Run::Skip(const std::string& why) { Add("skipped", '=', why); }

std::string Run::TakeLines() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(lines_, {});
}

void Check(cudaError_t code, const char* call, const char* file, int line) {
  if (code == cudaSuccess) return;
  const std::lock_guard<std::mutex> lock(TheWatched().mutex);
  EndWith(TheWatched().run,
          std::string(file) + ":" + std::to_string(line) + ": " + call + " = " +
              cudaGetErrorName(code),
          3);
}

uint64_t DigestOf(const void* at, size_t bytes) {
  const auto* const from = static_cast<const unsigned char*>(at);
  uint64_t digest = Mix(bytes);
  size_t done = 0;
  for (; done + 8 <= bytes; done += 8) {
    uint64_t word = 0;
    std::memcpy(&word, from + done, 8);
    digest = (digest ^ word) * 0x9e3779b97f4a7c15u;
    digest ^= digest >> 29;
  }
  uint64_t word = 0;
  std::memcpy(&word, from + done, bytes - done);
  return Mix(digest ^ word);
}

Pinned::Pinned(size_t bytes, unsigned flags) : bytes_(bytes) {
  CHECK_OK(cudaHostAlloc(&data_, bytes, flags));
}

Pinned::~Pinned() {
  if (data_ != nullptr) CHECK_OK(cudaFreeHost(data_));
}

unsigned char* Pinned::Release() { return std::exchange(data_, nullptr); }

Guarded::Guarded(Run& run, size_t bytes)
    : bytes_(bytes),
      before_(run.Between(1, run.OneIn(3) ? 70'000 : 300)),
      block_(before_ + bytes + run.Between(1, 5000)) {
  std::memset(block_.get(), kGuardByte, block_.bytes());
}

bool Guarded::Intact() const {
  const auto guard = [](unsigned char byte) { return byte == kGuardByte; };
  const unsigned char* const start = block_.get();
  return std::all_of(start, start + before_, guard) &&
         std::all_of(start + before_ + bytes_, start + block_.bytes(), guard);
}

void Gate::Hold(cudaStream_t stream) {
  CHECK_OK(cudaLaunchHostFunc(stream, &Gate::Wait, this));
}

void Gate::Open() {
  const std::lock_guard<std::mutex> lock(mutex_);
  open_ = true;
  opened_.notify_all();
}

bool Gate::open() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return open_;
}

void CUDART_CB Gate::Wait(void* gate) {
  auto* const self = static_cast<Gate*>(gate);
  std::unique_lock<std::mutex> lock(self->mutex_);
  self->opened_.wait(lock, [self] { return self->open_; });
}

void Send(void* device, const void* host, size_t bytes) {
  // A copy of pageable memory may be on its way when the call returns.
  CHECK_OK(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
  CHECK_OK(cudaDeviceSynchronize());
}

std::vector<unsigned char> Contents(const void* device, size_t bytes) {
  std::vector<unsigned char> contents(bytes);
  CHECK_OK(cudaMemcpy(contents.data(), device, bytes, cudaMemcpyDeviceToHost));
  return contents;
}

void HostFunction(cudaStream_t stream, std::function<void()>* function) {
  CHECK_OK(cudaLaunchHostFunc(
      stream,
      [](void* data) { (*static_cast<std::function<void()>*>(data))(); },
      function));
}

bool WaitsFor(Gate& gate, const std::function<void()>& call) {
  std::mutex mutex;
  std::condition_variable changed;
  bool returned = false;
  bool before_opening = false;
  std::thread opener([&] {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait_for(lock, std::chrono::seconds(1), [&] { return returned; });
    before_opening = returned;
    gate.Open();
  });
  call();
  {
    const std::lock_guard<std::mutex> lock(mutex);
    returned = true;
    changed.notify_all();
  }
  opener.join();
  return !before_opening;
}

cudaError_t Poll(const std::function<cudaError_t()>& query) {
  while (true) {
    const cudaError_t code = query();
    if (code != cudaErrorNotReady) return code;
    (void)cudaGetLastError();
  }
}

void Watch(Run* run) {
  Watched& watched = TheWatched();
  const std::lock_guard<std::mutex> lock(watched.mutex);
  watched.run = run;
  watched.since = std::chrono::steady_clock::now();
  if (std::exchange(watched.watching, true)) return;
  std::thread([&watched] {
    while (true) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      const std::lock_guard<std::mutex> locked(watched.mutex);
      if (watched.run != nullptr &&
          std::chrono::steady_clock::now() - watched.since >
              std::chrono::minutes(1)) {
        EndWith(watched.run, "hung", 4);
      }
    }
  }).detach();
}

}  // namespace conformance
