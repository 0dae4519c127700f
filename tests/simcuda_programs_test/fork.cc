// A child of fork must not use CUDA, and is told so; the parent goes on.

#include <sys/wait.h>
#include <unistd.h>

#include "tests/simcuda_programs_test/program.h"

namespace {

constexpr size_t kBytes = 1 << 20;

int StatusOf(pid_t child) {
  int status = -1;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  return WEXITSTATUS(status);
}

}  // namespace

int main() {
  // A child of a process that has not used CUDA yet may do so.
  const pid_t early = fork();
  if (early == 0) {
    int count = 0;
    CHECK_OK(cudaGetDeviceCount(&count));
    return count == 1 ? 7 : 1;
  }
  CHECK(StatusOf(early) == 7);

  char* host = nullptr;
  char* device = nullptr;
  cudaStream_t stream = nullptr;
  CHECK_OK(cudaMallocHost(reinterpret_cast<void**>(&host), kBytes));
  CHECK_OK(cudaMalloc(reinterpret_cast<void**>(&device), kBytes));
  CHECK_OK(cudaStreamCreate(&stream));
  Fill(host, kBytes, 1);
  Gate gate;
  gate.Hold(stream);
  CHECK_OK(
      cudaMemcpyAsync(device, host, kBytes, cudaMemcpyHostToDevice, stream));
  const pid_t child = fork();
  if (child == 0) {
    void* memory = nullptr;
    CHECK_CODE(cudaErrorInitializationError, cudaMalloc(&memory, 16));
    CHECK_CODE(cudaErrorInitializationError, cudaStreamSynchronize(stream));
    CHECK_CODE(cudaErrorInitializationError, cudaFreeHost(host));
    std::exit(8);  // past the gate, which the parent's thread still waits at
  }
  CHECK(StatusOf(child) == 8);
  gate.Open();
  CHECK_OK(cudaStreamSynchronize(stream));
  std::vector<char> back(kBytes);
  CHECK_OK(cudaMemcpy(back.data(), device, kBytes, cudaMemcpyDeviceToHost));
  CHECK(Holds(back.data(), kBytes, 1));
  CHECK_OK(cudaStreamDestroy(stream));
  CHECK_OK(cudaFree(device));
  CHECK_OK(cudaFreeHost(host));
  return 0;
}
