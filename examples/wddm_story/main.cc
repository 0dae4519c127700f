// Why a card looks full on Windows, and is in effect, while nvidia-smi says
// that it is not; and the cure. A simulation: the device is simulated on the
// CPU in its WDDM mode, which does what users report of real cards. Nothing
// here was measured on one.
//
// Ends with 0 only if everything happened as it says.

#include <cuda.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "src/capi/instance.h"
#include "src/capi/options.h"
#include "src/host/address_map.h"
#include "src/simcuda/machine.h"
#include "src/usage/usage_print.h"

namespace {

using pinring::HumanBytes;

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kCardBytes = 1024 * kMiB;
constexpr size_t kWeightBytes = 600 * kMiB;      // on the card
constexpr size_t kLoaderBytes = 320 * kMiB;      // that a loader pins
constexpr size_t kActivationBytes = 128 * kMiB;  // wanted on the card later
constexpr size_t kBlockBytes = 64 * kMiB;

// A process and its card.
class Process {
 public:
  Process() : machine_(Options(), nullptr) {
    Expect(driver().Init(0) == CUDA_SUCCESS &&
               driver().DevicePrimaryCtxRetain(&context_, 0) == CUDA_SUCCESS &&
               driver().CtxSetCurrent(context_) == CUDA_SUCCESS,
           "the device starts");
  }
  ~Process() { (void)driver().DevicePrimaryCtxRelease(0); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  const pinring::Driver& driver() const { return machine_.driver(); }

  // The two meters: what the card holds, and what the system charges to it.
  void Show(const char* when) const {
    const size_t card = machine_.DeviceBytes(0);
    std::printf("  %-49s  nvidia-smi %10s   task manager %10s\n", when,
                HumanBytes(card).c_str(),
                HumanBytes(card + machine_.PinnedBytes()).c_str());
  }

  void Expect(bool so, const char* what) {
    if (so) return;
    std::printf("  NOT AS TOLD: %s\n", what);
    as_told_ = false;
  }
  bool as_told() const { return as_told_; }

 private:
  static pinring::simcuda::MachineOptions Options() {
    pinring::simcuda::MachineOptions options;
    options.wddm = true;
    options.device_bytes = kCardBytes;
    return options;
  }

  pinring::simcuda::Machine machine_;
  CUcontext context_ = nullptr;
  bool as_told_ = true;
};

bool Symptom() {
  Process process;
  const pinring::Driver& driver = process.driver();
  CUdeviceptr weights = 0;
  CUdeviceptr activations = 0;
  std::printf("\nThe symptom: a program with %s of weights on a card of %s\n",
              HumanBytes(kWeightBytes).c_str(), HumanBytes(kCardBytes).c_str());
  process.Expect(driver.MemAlloc(&weights, kWeightBytes) == CUDA_SUCCESS,
                 "the weights fit");
  process.Show("the weights are on the card");
  std::vector<void*> pinned;
  for (size_t bytes = 0; bytes < kLoaderBytes; bytes += kBlockBytes) {
    void* block = nullptr;
    process.Expect(driver.MemHostAlloc(&block, kBlockBytes, 0) == CUDA_SUCCESS,
                   "the loader pins");
    pinned.push_back(block);
  }
  process.Show("its loader has pinned 320 MiB of host memory");

  std::printf("\nThe cause: both have to fit into the card\n");
  const CUresult refused = driver.MemAlloc(&activations, kActivationBytes);
  process.Expect(refused == CUDA_ERROR_OUT_OF_MEMORY, "128 MiB are refused");
  std::printf(
      "  128 MiB more on the card: error %d, with %s free by "
      "nvidia-smi\n",
      static_cast<int>(refused), HumanBytes(kCardBytes - kWeightBytes).c_str());
  void* block = nullptr;
  const CUresult pin = driver.MemHostAlloc(&block, 2 * kBlockBytes, 0);
  process.Expect(pin != CUDA_SUCCESS, "a pin beyond the card is refused");
  for (void* each : pinned) {
    process.Expect(driver.MemFreeHost(each) == CUDA_SUCCESS, "the free");
  }
  const CUresult later = driver.MemHostAlloc(&block, kMiB, 0);
  process.Expect(later != CUDA_SUCCESS, "every later pin is refused");
  std::printf(
      "  128 MiB more pinned: error %d; then, with everything unpinned, "
      "1 MiB: error %d\n",
      static_cast<int>(pin), static_cast<int>(later));
  return process.as_told();
}

bool Cure() {
  Process process;
  const pinring::Driver& driver = process.driver();
  CUdeviceptr weights = 0;
  CUdeviceptr activations = 0;
  std::printf(
      "\nThe cure: the same program, its loader's memory from pinring\n");
  process.Expect(driver.MemAlloc(&weights, kWeightBytes) == CUDA_SUCCESS,
                 "the weights fit");
  pinring::AddressMap map;
  auto instance = pinring::Instance::Create(&driver, pinring::Options(), &map);
  if (!instance.ok()) return false;
  std::vector<void*> blocks;
  for (size_t bytes = 0; bytes < kLoaderBytes; bytes += kBlockBytes) {
    void* block = nullptr;
    process.Expect((*instance)->HostAlloc(&block, kBlockBytes, 0).ok(),
                   "the loader allocates");
    std::memset(block, static_cast<int>(1 + bytes / kBlockBytes), kBlockBytes);
    blocks.push_back(block);
  }
  process.Show("its loader has allocated 320 MiB");
  std::vector<unsigned char> back(kBlockBytes);
  for (void* block : blocks) {
    process.Expect(
        (*instance)
                ->Memcpy(reinterpret_cast<void*>(weights), block, kBlockBytes,
                         cudaMemcpyHostToDevice)
                .ok() &&
            (*instance)
                ->Memcpy(back.data(), reinterpret_cast<void*>(weights),
                         kBlockBytes, cudaMemcpyDeviceToHost)
                .ok() &&
            std::memcmp(back.data(), block, kBlockBytes) == 0,
        "every byte arrives");
  }
  process.Show("and copied all of it, through the ring of 64 MiB");
  process.Expect(
      driver.MemAlloc(&activations, kActivationBytes) == CUDA_SUCCESS,
      "128 MiB more fit");
  process.Show("128 MiB more on the card: they fit");
  for (void* block : blocks) {
    process.Expect((*instance)->FreeHost(block).ok(), "the free");
  }
  return process.as_told();
}

}  // namespace

int main() {
  std::printf("This is a simulation: no card and no Windows is in use.\n");
  const bool symptom = Symptom();
  const bool cure = Cure();
  return symptom && cure ? 0 : 1;
}
