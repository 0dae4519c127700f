// Loads a file to the device twice: from the mapped file through the ring, and
// by way of as much pinned memory; shows how long each took and how much of it
// was pinned, and compares every byte.
//
//   load_weights weights.safetensors
//   load_weights --size=4096        a file of 4096 MiB, made for the occasion
//
// The device needs no room for the whole file: it is loaded in windows, each
// over the one before.

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <pinring/pinring.hpp>
#include <random>
#include <string>
#include <system_error>
#include <vector>

#include "src/os/mapped_file.h"
#include "src/os/system_info.h"

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kPieceBytes = 32 * kMiB;

[[noreturn]] void Fail(const std::string& message) {
  std::fprintf(stderr, "\nload_weights: %s\n", message.c_str());
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

double Seconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

void ShowProgress(const char* what, std::size_t done, std::size_t all) {
  static const bool terminal =
      pinring::os::IsTerminal(pinring::os::StandardStream::kError);
  if (!terminal) return;
  constexpr int kWidth = 40;
  const int full = static_cast<int>(done * kWidth / all);
  std::fprintf(stderr, "\r%-18s [%.*s%*s] %3d %%", what, full,
               "########################################", kWidth - full, "",
               static_cast<int>(done * 100 / all));
  if (done == all) std::fputc('\n', stderr);
}

// A file of random bytes that is gone when the program ends.
class ScratchFile {
 public:
  explicit ScratchFile(std::size_t bytes)
      : path_((std::filesystem::temp_directory_path() /
               ("load_weights." + std::to_string(std::random_device()())))
                  .string()) {
    std::ofstream file(path_, std::ios::binary);
    std::mt19937_64 random(std::random_device{}());
    std::vector<std::uint64_t> piece(kMiB / sizeof(std::uint64_t));
    for (std::size_t done = 0; done < bytes && file; done += kMiB) {
      for (std::uint64_t& value : piece) value = random();
      file.write(reinterpret_cast<const char*>(piece.data()),
                 static_cast<std::streamsize>(std::min(kMiB, bytes - done)));
    }
    if (!file.flush()) Fail("cannot write " + path_);
  }
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

// Copies [data, data + bytes) to the device in windows of its memory, some
// pieces ahead of what is known to be done, so that progress can be shown.
template <typename CopyPiece>
void Load(const char* what, std::size_t bytes, std::size_t window_bytes,
          cudaStream_t stream, CopyPiece copy_piece) {
  constexpr std::size_t kAhead = 4;
  std::vector<cudaEvent_t> events(kAhead);
  for (cudaEvent_t& event : events) {
    Check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
          "cudaEventCreate");
  }
  const std::size_t pieces = (bytes + kPieceBytes - 1) / kPieceBytes;
  for (std::size_t i = 0; i < pieces + kAhead; ++i) {
    cudaEvent_t event = events[i % kAhead];
    if (i >= kAhead) {
      Check(cudaEventSynchronize(event), "cudaEventSynchronize");
      ShowProgress(what, std::min(bytes, (i - kAhead + 1) * kPieceBytes),
                   bytes);
    }
    if (i < pieces) {
      const std::size_t offset = i * kPieceBytes;
      copy_piece(offset % window_bytes, offset,
                 std::min(kPieceBytes, bytes - offset));
      Check(cudaEventRecord(event, stream), "cudaEventRecord");
    }
  }
  for (cudaEvent_t event : events) {
    Check(cudaEventDestroy(event), "cudaEventDestroy");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string argument = argc == 2 ? argv[1] : "";
  if (argument.empty() || argument == "--help") {
    std::fprintf(stderr, "usage: load_weights FILE | --size=MIB\n");
    return 2;
  }
  const bool make = argument.rfind("--size=", 0) == 0;
  const std::size_t mib =
      make ? std::strtoull(argument.c_str() + 7, nullptr, 10) : 0;
  if (make && mib == 0) Fail(argument + ": a number of MiB from 1 is wanted");
  std::unique_ptr<ScratchFile> scratch;
  if (make) scratch = std::make_unique<ScratchFile>(mib * kMiB + 12'345);

  const auto file =
      pinring::os::MappedFile::Open(make ? scratch->path() : argument);
  if (!file.ok()) Fail(std::string(file.status().message()));
  const std::size_t bytes = file->bytes();

  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  Check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  const std::size_t pieces =
      std::max<std::size_t>(1, free_bytes * 3 / 4 / kPieceBytes);
  const std::size_t window_bytes =
      std::min(pieces * kPieceBytes,
               (bytes + kPieceBytes - 1) / kPieceBytes * kPieceBytes);
  std::byte* device = nullptr;
  cudaStream_t stream = nullptr;
  Check(cudaMalloc(&device, window_bytes), "cudaMalloc");
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
        "cudaStreamCreate");

  // From the disk into the system's cache, so that both ways read it there.
  volatile std::byte sink{};
  for (std::size_t i = 0; i < bytes; i += 4096) sink = file->data()[i];
  (void)sink;

  const double ring_seconds = Seconds([&] {
    Load("through the ring", bytes, window_bytes, stream,
         [&](std::size_t to, std::size_t from, std::size_t n) {
           Check(pinring::CopyToDeviceAsync(device + to, file->data() + from, n,
                                            stream, pinring::Access::kAny),
                 "CopyToDeviceAsync");
         });
  });

  // The same bytes once more, compared as they come back.
  std::vector<std::byte> back(kPieceBytes);
  std::size_t wrong = 0;
  for (std::size_t offset = 0; offset < bytes; offset += kPieceBytes) {
    const std::size_t n = std::min(kPieceBytes, bytes - offset);
    std::byte* const at = device + offset % window_bytes;
    if (window_bytes < bytes) {
      Check(pinring::CopyToDevice(at, file->data() + offset, n, stream),
            "CopyToDevice");
    }
    Check(pinring::CopyToHost(back.data(), at, n, stream), "CopyToHost");
    if (std::memcmp(back.data(), file->data() + offset, n) != 0) ++wrong;
    ShowProgress("compared", offset + n, bytes);
  }
  pinringUsage usage = PINRING_USAGE_INIT;
  Check(pinring::Result(pinringGetUsage(&usage)), "pinringGetUsage");

  const double pinned_seconds = Seconds([&] {
    std::byte* pinned = nullptr;
    Check(cudaMallocHost(&pinned, bytes), "cudaMallocHost of the whole file");
    Load("pinning it all", bytes, window_bytes, stream,
         [&](std::size_t to, std::size_t from, std::size_t n) {
           std::memcpy(pinned + from, file->data() + from, n);
           Check(cudaMemcpyAsync(device + to, pinned + from, n,
                                 cudaMemcpyHostToDevice, stream),
                 "cudaMemcpyAsync");
         });
    Check(cudaFreeHost(pinned), "cudaFreeHost");
  });

  cudaDeviceProp properties = {};
  Check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  const bool simulated = std::strstr(properties.name, "imulated") != nullptr;
  const auto show = [&](const char* what, double seconds, double pinned) {
    std::printf("%-18s ", what);
    if (!simulated) std::printf("%8.3f s, ", seconds);
    std::printf("%.1f MiB pinned at most\n",
                pinned / static_cast<double>(kMiB));
  };
  std::printf("%.1f MiB to %s\n",
              static_cast<double>(bytes) / static_cast<double>(kMiB),
              properties.name);
  show("through the ring", ring_seconds,
       static_cast<double>(usage.pinnedPeakBytes));
  show("pinning it all", pinned_seconds, static_cast<double>(bytes));
  if (simulated) std::puts("(a simulated device: its times mean nothing)");
  Check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  Check(cudaFree(device), "cudaFree");
  if (wrong > 0) Fail("WRONG BYTES in " + std::to_string(wrong) + " pieces");
  std::puts("every byte is right");
  return 0;
}
