// The C functions, on a simulated device or (PINRING_TEST_DRIVER=native) on a
// GPU: codes, attributes, accounts, and the shapes of the copies. The copies'
// order is proven elsewhere; here it has a few whole programs.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "include/pinring/pinring.h"
#include "src/capi/default_instance.h"
#include "src/capi/error_codes.h"
#include "src/capi/options.h"
#include "src/os/pages.h"
#include "tests/support/test_kernels.h"
#include "tests/support/testbed.h"

#if defined(__linux__)
#include <sys/wait.h>
#include <unistd.h>
#endif

namespace pinring {
namespace {

constexpr size_t kBlockBytes = 3 * kMiB + 13;

void* AsPointer(CUdeviceptr device) { return reinterpret_cast<void*>(device); }

unsigned char ByteAt(uint32_t seed, size_t i) {
  return static_cast<unsigned char>(seed * 37 + i * 11 + (i >> 9));
}

void Fill(void* data, size_t bytes, uint32_t seed) {
  auto* out = static_cast<unsigned char*>(data);
  for (size_t i = 0; i < bytes; ++i) out[i] = ByteAt(seed, i);
}

size_t WrongBytes(const void* data, size_t bytes, uint32_t seed) {
  const auto* in = static_cast<const unsigned char*>(data);
  size_t wrong = 0;
  for (size_t i = 0; i < bytes; ++i) wrong += in[i] != ByteAt(seed, i);
  return wrong;
}

class CapiTest : public testing::Test {
 protected:
  void SetUp() override { Start({}); }

  void Start(const simcuda::MachineOptions& options) {
    if (const std::string why = Testbed::WhySkip(); !why.empty()) {
      GTEST_SKIP() << why;
    }
    Stop();
    bed_ = std::make_unique<Testbed>(options);
    ResetDefaultInstanceForTesting(&bed_->driver());
    (void)pinringGetLastError();
  }
  void Stop() {
    if (bed_ == nullptr) return;
    ResetDefaultInstanceForTesting(nullptr);
    bed_.reset();
  }
  void TearDown() override { Stop(); }

  const Driver& driver() const { return bed_->driver(); }

  static char* Block(size_t bytes) {
    void* block = nullptr;
    EXPECT_EQ(pinringMallocHost(&block, bytes), cudaSuccess)
        << pinringGetLastErrorMessage();
    return static_cast<char*>(block);
  }

  static pinringUsage Usage() {
    pinringUsage usage = PINRING_USAGE_INIT;
    EXPECT_EQ(pinringGetUsage(&usage), cudaSuccess);
    return usage;
  }

  // Copies the block to the device and into another block, and compares.
  void ExpectRoundTrip(char* block, size_t bytes, uint32_t seed) {
    Fill(block, bytes, seed);
    const CUdeviceptr device = bed_->DeviceBuffer(bytes);
    char* back = Block(bytes);
    ASSERT_EQ(
        pinringMemcpy(AsPointer(device), block, bytes, cudaMemcpyHostToDevice),
        cudaSuccess);
    ASSERT_EQ(
        pinringMemcpy(back, AsPointer(device), bytes, cudaMemcpyDeviceToHost),
        cudaSuccess);
    EXPECT_EQ(WrongBytes(back, bytes, seed), 0u);
    EXPECT_EQ(pinringFreeHost(back), cudaSuccess);
  }

  std::unique_ptr<Testbed> bed_;
};

// --- What native-facts say about codes -------------------------------------

TEST_F(CapiTest, AllocationOfZeroBytesSucceedsAndGivesNoMemory) {
  int junk = 0;
  void* pointer = &junk;
  EXPECT_EQ(pinringMallocHost(&pointer, 0), cudaSuccess);
  EXPECT_EQ(pointer, nullptr);
  pointer = &junk;
  EXPECT_EQ(pinringHostAlloc(&pointer, 0, cudaHostAllocMapped), cudaSuccess);
  EXPECT_EQ(pointer, nullptr);
  EXPECT_EQ(Usage().all.totalCount, 0u);
}

TEST_F(CapiTest, AllocationToNullIsAnInvalidValue) {
  EXPECT_EQ(pinringMallocHost(nullptr, 16), cudaErrorInvalidValue);
  EXPECT_EQ(pinringHostAlloc(nullptr, 16, 0), cudaErrorInvalidValue);
}

TEST_F(CapiTest, HopelessSizesAreOutOfMemoryAndSetTheLastError) {
  void* pointer = nullptr;
  for (const size_t bytes : {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 4096,
                             SIZE_MAX / 2, size_t{1} << 60}) {
    EXPECT_EQ(pinringMallocHost(&pointer, bytes), cudaErrorMemoryAllocation)
        << bytes;
    EXPECT_EQ(pinringGetLastError(), cudaErrorMemoryAllocation);
  }
  EXPECT_EQ(pointer, nullptr);
  EXPECT_EQ(Usage().all.totalCount, 0u);
}

TEST_F(CapiTest, UnknownAllocationFlagsAreAnInvalidValue) {
  void* pointer = nullptr;
  EXPECT_EQ(pinringHostAlloc(&pointer, 16, 8), cudaErrorInvalidValue);
  EXPECT_EQ(pinringHostAlloc(&pointer, 16, 0x80000000), cudaErrorInvalidValue);
  EXPECT_EQ(pointer, nullptr);
}

TEST_F(CapiTest, FreeOfNullSucceeds) {
  EXPECT_EQ(pinringFreeHost(nullptr), cudaSuccess);
}

TEST_F(CapiTest, FreeOfWhatIsNoBlockIsAnInvalidValue) {
  for (const size_t bytes : {size_t{100}, kBlockBytes}) {
    char* block = Block(bytes);
    EXPECT_EQ(pinringFreeHost(block + 1), cudaErrorInvalidValue);
    EXPECT_EQ(pinringFreeHost(block + bytes - 1), cudaErrorInvalidValue);
    EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
    EXPECT_EQ(pinringFreeHost(block), cudaErrorInvalidValue);
  }
  const auto memory = std::make_unique<char[]>(64);
  EXPECT_EQ(pinringFreeHost(memory.get()), cudaErrorInvalidValue);
}

TEST_F(CapiTest, CopiesOfZeroBytesSucceedBetweenNullPointers) {
  EXPECT_EQ(pinringMemcpy(nullptr, nullptr, 0, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(
      pinringMemcpyAsync(nullptr, nullptr, 0, cudaMemcpyHostToDevice, nullptr),
      cudaSuccess);
}

TEST_F(CapiTest, AKindThatDoesNotExistIsAnInvalidDirection) {
  char* block = Block(kBlockBytes);
  const CUdeviceptr device = bed_->DeviceBuffer(16);
  EXPECT_EQ(pinringMemcpy(AsPointer(device), block, 16,
                          static_cast<cudaMemcpyKind>(7)),
            cudaErrorInvalidMemcpyDirection);
  EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
}

TEST_F(CapiTest, TheAddressesDecideWhateverTheKindSays) {
  char* block = Block(kBlockBytes);
  char* back = Block(kBlockBytes);
  const CUdeviceptr device = bed_->DeviceBuffer(kBlockBytes);
  uint32_t seed = 1;
  for (const cudaMemcpyKind kind :
       {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost,
        cudaMemcpyDeviceToDevice, cudaMemcpyHostToHost, cudaMemcpyDefault}) {
    Fill(block, kBlockBytes, ++seed);
    EXPECT_EQ(pinringMemcpy(AsPointer(device), block, kBlockBytes, kind),
              cudaSuccess);
    EXPECT_EQ(pinringMemcpy(back, AsPointer(device), kBlockBytes, kind),
              cudaSuccess);
    EXPECT_EQ(WrongBytes(back, kBlockBytes, seed), 0u) << kind;
  }
  EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
  EXPECT_EQ(pinringFreeHost(back), cudaSuccess);
}

TEST_F(CapiTest, ACopyOneByteTooLongIsAnInvalidValueAndMovesNothing) {
  char* block = Block(kBlockBytes);
  const CUdeviceptr device = bed_->DeviceBuffer(kMiB);
  ASSERT_EQ(driver().MemsetD8(device, 0x5a, kMiB), CUDA_SUCCESS);
  Fill(block, kBlockBytes, 3);
  EXPECT_EQ(
      pinringMemcpy(AsPointer(device + 1), block, kMiB, cudaMemcpyHostToDevice),
      cudaErrorInvalidValue);
  // Beyond the block, though device and page have room.
  EXPECT_EQ(pinringMemcpy(AsPointer(device), block + kBlockBytes - 16, 17,
                          cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(
      pinringMemcpy(AsPointer(device), block, SIZE_MAX, cudaMemcpyHostToDevice),
      cudaErrorInvalidValue);
  std::vector<unsigned char> seen(kMiB);
  ASSERT_EQ(driver().MemcpyDtoH(seen.data(), device, kMiB), CUDA_SUCCESS);
  for (const unsigned char byte : seen) ASSERT_EQ(byte, 0x5a);
  EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
}

TEST_F(CapiTest, RegisteringInsideABlockIsAnInvalidValue) {
  for (const size_t bytes : {size_t{8192}, kBlockBytes}) {
    char* block = Block(bytes);
    EXPECT_EQ(pinringHostRegister(block, 4096, 0), cudaErrorInvalidValue);
    EXPECT_EQ(pinringHostRegister(block + 4096, 100, 0), cudaErrorInvalidValue);
    EXPECT_EQ(pinringHostUnregister(block), cudaErrorInvalidValue);
    EXPECT_EQ(pinringHostUnregister(block + 1), cudaErrorInvalidValue);
    EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
  }
}

TEST_F(CapiTest, OtherMemoryCanBeRegistered) {
  auto pages = os::ReservePages(64 << 10, os::PageBytes());
  ASSERT_TRUE(pages.ok());
  EXPECT_EQ(pinringHostRegister(*pages, 64 << 10, 0), cudaSuccess);
  cudaPointerAttributes attributes = {};
  EXPECT_EQ(pinringPointerGetAttributes(&attributes, *pages), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(pinringHostUnregister(*pages), cudaSuccess);
  EXPECT_NE(pinringHostUnregister(*pages), cudaSuccess);
  EXPECT_TRUE(os::ReleasePages(*pages, 64 << 10).ok());
}

// --- Attributes ------------------------------------------------------------

void ExpectHost(const void* pointer) {
  cudaPointerAttributes attributes = {};
  ASSERT_EQ(pinringPointerGetAttributes(&attributes, pointer), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(attributes.device, 0);
  EXPECT_EQ(attributes.hostPointer, pointer);
  EXPECT_EQ(attributes.devicePointer, pointer);
}

void ExpectUnregistered(const void* pointer) {
  cudaPointerAttributes attributes = {};
  ASSERT_EQ(pinringPointerGetAttributes(&attributes, pointer), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(attributes.device, cudaInvalidDeviceId);
  EXPECT_EQ(attributes.hostPointer, pointer);
  EXPECT_NE(attributes.devicePointer, pointer);
}

TEST_F(CapiTest, EveryByteOfABlockIsHostMemoryAndNoOther) {
  for (const size_t bytes :
       {size_t{1}, size_t{100}, size_t{64 << 10}, kBlockBytes}) {
    char* block = Block(bytes);
    ExpectHost(block);
    ExpectHost(block + bytes / 2);
    ExpectHost(block + bytes - 1);
    ExpectUnregistered(block + bytes);
    EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
    ExpectUnregistered(block);
  }
  const auto memory = std::make_unique<char[]>(64);
  ExpectUnregistered(memory.get());
  EXPECT_EQ(pinringPointerGetAttributes(nullptr, memory.get()),
            cudaErrorInvalidValue);
}

TEST_F(CapiTest, DeviceMemoryKeepsItsAttributes) {
  const CUdeviceptr device = bed_->DeviceBuffer(4096);
  cudaPointerAttributes attributes = {};
  ASSERT_EQ(pinringPointerGetAttributes(&attributes, AsPointer(device)),
            cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 0);
  EXPECT_EQ(attributes.devicePointer, AsPointer(device));
}

TEST_F(CapiTest, FlagsAreThoseOfTheAllocationAndMapped) {
  for (const size_t bytes : {size_t{100}, kBlockBytes}) {
    char* block = Block(bytes);
    unsigned flags = 0;
    EXPECT_EQ(pinringHostGetFlags(&flags, block), cudaSuccess);
    EXPECT_EQ(flags, unsigned{cudaHostAllocMapped});
    EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
    EXPECT_EQ(pinringHostGetFlags(&flags, block), cudaErrorInvalidValue);

    void* portable = nullptr;
    ASSERT_EQ(pinringHostAlloc(&portable, bytes, cudaHostAllocPortable),
              cudaSuccess);
    EXPECT_EQ(pinringHostGetFlags(&flags, portable), cudaSuccess);
    EXPECT_EQ(flags, unsigned{cudaHostAllocMapped | cudaHostAllocPortable});
    EXPECT_EQ(pinringFreeHost(portable), cudaSuccess);
  }
}

// --- Blocks ----------------------------------------------------------------

TEST_F(CapiTest, FreshBlocksAreZeroAndAligned) {
  struct {
    size_t bytes;
    size_t alignment;
  } const kCases[] = {{1, 256},
                      {64 << 10, 256},
                      {(64 << 10) + 1, 4096},
                      {2 * kMiB - 1, 4096},
                      {2 * kMiB, 2 * kMiB},
                      {kBlockBytes, 2 * kMiB}};
  for (int round = 0; round < 2; ++round) {
    for (const auto& [bytes, alignment] : kCases) {
      char* block = Block(bytes);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0u) << bytes;
      EXPECT_EQ(block[0], 0);
      EXPECT_EQ(block[bytes / 2], 0);
      EXPECT_EQ(block[bytes - 1], 0);
      std::memset(block, 0xee, bytes);
      EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
    }
  }
}

TEST_F(CapiTest, StagedBlocksNeedNoContext) {
  CUcontext context = nullptr;
  ASSERT_EQ(driver().CtxGetCurrent(&context), CUDA_SUCCESS);
  ASSERT_EQ(driver().CtxSetCurrent(nullptr), CUDA_SUCCESS);
  char* block = Block(kBlockBytes);
  ExpectHost(block);
  EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
  CUcontext current = nullptr;
  ASSERT_EQ(driver().CtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, nullptr);
  ASSERT_EQ(driver().CtxSetCurrent(context), CUDA_SUCCESS);
}

TEST_F(CapiTest, AThreadWithoutAContextCopiesInThePrimaryOne) {
  const CUdeviceptr device = bed_->DeviceBuffer(kBlockBytes);
  char* block = Block(kBlockBytes);
  char* back = Block(kBlockBytes);
  Fill(block, kBlockBytes, 7);
  std::thread([&] {
    EXPECT_EQ(pinringMemcpy(AsPointer(device), block, kBlockBytes,
                            cudaMemcpyHostToDevice),
              cudaSuccess);
    CUcontext current = nullptr;
    EXPECT_EQ(driver().CtxGetCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, bed_->context());
  }).join();
  std::thread([&] {
    // Without a staged block too: the runtime would make a context.
    std::vector<char> plain(16);
    EXPECT_EQ(pinringMemcpy(plain.data(), AsPointer(device), 16,
                            cudaMemcpyDeviceToHost),
              cudaSuccess);
    EXPECT_EQ(pinringMemcpy(back, AsPointer(device), kBlockBytes,
                            cudaMemcpyDeviceToHost),
              cudaSuccess);
  }).join();
  EXPECT_EQ(WrongBytes(back, kBlockBytes, 7), 0u);
  EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
  EXPECT_EQ(pinringFreeHost(back), cudaSuccess);
}

TEST_F(CapiTest, RoundTripsOfManySizes) {
  for (const size_t bytes :
       {size_t{1}, size_t{4097}, size_t{65536}, size_t{65537}, size_t{kMiB - 1},
        kBlockBytes, size_t{70 * kMiB + 1}}) {
    char* block = Block(bytes);
    ExpectRoundTrip(block, bytes, static_cast<uint32_t>(bytes));
    EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
  }
}

TEST_F(CapiTest, CopiesStartAtOddAddressesAndTouchNothingElse) {
  char* block = Block(kBlockBytes);
  char* back = Block(kBlockBytes);
  const CUdeviceptr device = bed_->DeviceBuffer(kBlockBytes);
  Fill(block, kBlockBytes, 5);
  std::memset(back, 0x77, kBlockBytes);
  const size_t bytes = kBlockBytes - 1000;
  const CUstream stream = bed_->NonBlockingStream();
  ASSERT_EQ(pinringMemcpyAsync(AsPointer(device + 3), block + 501, bytes,
                               cudaMemcpyHostToDevice, stream),
            cudaSuccess);
  ASSERT_EQ(pinringMemcpyAsync(back + 499, AsPointer(device + 3), bytes,
                               cudaMemcpyDeviceToHost, stream),
            cudaSuccess);
  ASSERT_EQ(driver().StreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(std::memcmp(back + 499, block + 501, bytes), 0);
  for (size_t i = 0; i < 499; ++i) ASSERT_EQ(back[i], 0x77);
  for (size_t i = 499 + bytes; i < kBlockBytes; ++i) ASSERT_EQ(back[i], 0x77);
  EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
  EXPECT_EQ(pinringFreeHost(back), cudaSuccess);
}

TEST_F(CapiTest, CopiesBetweenBlocksAndOtherHostMemoryWork) {
  char* a = Block(kBlockBytes);
  char* b = Block(kBlockBytes);
  std::vector<char> plain(kBlockBytes);
  Fill(a, kBlockBytes, 9);
  EXPECT_EQ(pinringMemcpy(b, a, kBlockBytes, cudaMemcpyHostToHost),
            cudaSuccess);
  EXPECT_EQ(WrongBytes(b, kBlockBytes, 9), 0u);
  EXPECT_EQ(pinringMemcpy(plain.data(), b, kBlockBytes, cudaMemcpyDefault),
            cudaSuccess);
  EXPECT_EQ(WrongBytes(plain.data(), kBlockBytes, 9), 0u);
  std::memset(a, 0, kBlockBytes);
  const CUstream stream = bed_->NonBlockingStream();
  EXPECT_EQ(pinringMemcpyAsync(a, plain.data(), kBlockBytes,
                               cudaMemcpyHostToHost, stream),
            cudaSuccess);
  ASSERT_EQ(driver().StreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(WrongBytes(a, kBlockBytes, 9), 0u);
  EXPECT_EQ(pinringFreeHost(a), cudaSuccess);
  EXPECT_EQ(pinringFreeHost(b), cudaSuccess);
}

// --- Order: whole programs -------------------------------------------------

TEST_F(CapiTest, BytesWrittenAfterTheCallButBeforeTheStreamGetsThereAreCopied) {
  char* block = Block(kBlockBytes);
  char* back = Block(kBlockBytes);
  const CUdeviceptr device = bed_->DeviceBuffer(kBlockBytes);
  const CUstream stream = bed_->NonBlockingStream();
  Fill(block, kBlockBytes, 1);
  Gate gate(*bed_);
  gate.Hold(stream);
  ASSERT_EQ(pinringMemcpyAsync(AsPointer(device), block, kBlockBytes,
                               cudaMemcpyHostToDevice, stream),
            cudaSuccess);
  ASSERT_EQ(pinringMemcpyAsync(back, AsPointer(device), kBlockBytes,
                               cudaMemcpyDeviceToHost, stream),
            cudaSuccess);
  Fill(block, kBlockBytes, 2);
  gate.Open();
  ASSERT_EQ(driver().StreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(WrongBytes(back, kBlockBytes, 2), 0u);
  EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
  EXPECT_EQ(pinringFreeHost(back), cudaSuccess);
}

TEST_F(CapiTest, FreeInAnotherThreadWaitsForCopiesInFlight) {
  char* block = Block(kBlockBytes);
  const CUdeviceptr device = bed_->DeviceBuffer(kBlockBytes);
  const CUstream stream = bed_->NonBlockingStream();
  Fill(block, kBlockBytes, 1);
  Gate gate(*bed_);
  gate.Hold(stream);
  // From inside the block, not its start.
  ASSERT_EQ(pinringMemcpyAsync(AsPointer(device + 7), block + 7,
                               kBlockBytes - 7, cudaMemcpyHostToDevice, stream),
            cudaSuccess);
  CallOnThread free_and_reuse(*bed_, [&] {
    EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
    char* other = Block(kBlockBytes);
    std::memset(other, 0xff, kBlockBytes);
    EXPECT_EQ(pinringFreeHost(other), cudaSuccess);
    return CUDA_SUCCESS;
  });
  EXPECT_TRUE(free_and_reuse.Blocks());
  gate.Open();
  ASSERT_TRUE(free_and_reuse.Returns());
  ASSERT_EQ(driver().StreamSynchronize(stream), CUDA_SUCCESS);
  std::vector<char> seen(kBlockBytes);
  ASSERT_EQ(driver().MemcpyDtoH(seen.data(), device, kBlockBytes),
            CUDA_SUCCESS);
  size_t wrong = 0;
  for (size_t i = 7; i < kBlockBytes; ++i) {
    wrong += static_cast<unsigned char>(seen[i]) != ByteAt(1, i);
  }
  EXPECT_EQ(wrong, 0u);
}

TEST_F(CapiTest, FreeOfASmallBlockWaitsForTheDevice) {
  char* block = Block(4096);
  const CUdeviceptr device = bed_->DeviceBuffer(4096);
  const CUstream stream = bed_->NonBlockingStream();
  Fill(block, 4096, 1);
  Gate gate(*bed_);
  gate.Hold(stream);
  ASSERT_EQ(pinringMemcpyAsync(AsPointer(device), block, 4096,
                               cudaMemcpyHostToDevice, stream),
            cudaSuccess);
  CallOnThread free_and_reuse(*bed_, [&] {
    EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
    std::memset(Block(4096), 0xff, 4096);
    return CUDA_SUCCESS;
  });
  EXPECT_TRUE(free_and_reuse.Blocks());
  gate.Open();
  ASSERT_TRUE(free_and_reuse.Returns());
  ASSERT_EQ(driver().StreamSynchronize(stream), CUDA_SUCCESS);
  std::vector<char> seen(4096);
  ASSERT_EQ(driver().MemcpyDtoH(seen.data(), device, 4096), CUDA_SUCCESS);
  EXPECT_EQ(WrongBytes(seen.data(), 4096, 1), 0u);
}

// Natively this is refused, and the capture void.
TEST_F(CapiTest, BlocksCanBeMadeAndFreedBesideACapture) {
  char* const before = Block(4096);
  const CUstream stream = bed_->NonBlockingStream();
  ASSERT_EQ(driver().StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_SUCCESS);
  EXPECT_EQ(pinringFreeHost(before), cudaSuccess);
  for (const size_t bytes : {size_t{4096}, kBlockBytes}) {
    EXPECT_EQ(pinringFreeHost(Block(bytes)), cudaSuccess);
  }
  CallOnThread other(*bed_, [&] {
    EXPECT_EQ(pinringFreeHost(Block(4096)), cudaSuccess);
    return CUDA_SUCCESS;
  });
  EXPECT_TRUE(other.Returns());
  CUgraph graph = nullptr;
  ASSERT_EQ(driver().StreamEndCapture(stream, &graph), CUDA_SUCCESS);
  EXPECT_EQ(driver().GraphDestroy(graph), CUDA_SUCCESS);
}

// --- Really pinned memory, promotion, the budget ---------------------------

TEST_F(CapiTest, KernelsUseSmallMappedAndPromotedBlocks) {
  void* mapped = nullptr;
  ASSERT_EQ(pinringHostAlloc(&mapped, kBlockBytes, cudaHostAllocMapped),
            cudaSuccess);
  char* small = Block(4096);
  char* staged = Block(kBlockBytes);
  const CUstream stream = bed_->NonBlockingStream();
  uint32_t seed = 40;
  for (char* block : {static_cast<char*>(mapped), small, staged}) {
    void* device_pointer = nullptr;
    std::memset(block, 0, 4096);
    ASSERT_EQ(pinringHostGetDevicePointer(&device_pointer, block + 256, 0),
              cudaSuccess)
        << pinringGetLastErrorMessage();
    bed_->LaunchFill(stream, reinterpret_cast<CUdeviceptr>(device_pointer),
                     1000, ++seed);
    ASSERT_EQ(driver().StreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(block[255], 0);
    for (size_t i = 0; i < 1000; ++i) {
      ASSERT_EQ(static_cast<uint8_t>(block[256 + i]), FillByte(seed, i));
    }
    EXPECT_EQ(block[1256], 0);
    ExpectHost(block + 1);
    EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
  }
}

TEST_F(CapiTest, APromotedBlockIsCountedAsSuchUntilItIsFreed) {
  char* block = Block(kBlockBytes);
  const uint64_t charged = 3 * kMiB + 4096;
  EXPECT_EQ(Usage().kinds[pinringUsageStaged].currentBytes, charged);
  EXPECT_EQ(Usage().pinnedBytes, 0u);
  void* device_pointer = nullptr;
  EXPECT_EQ(pinringHostGetDevicePointer(&device_pointer, block, 1),
            cudaErrorInvalidValue);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(pinringHostGetDevicePointer(&device_pointer, block, 0),
              cudaSuccess);
    EXPECT_EQ(Usage().kinds[pinringUsageStaged].currentBytes, 0u);
    EXPECT_EQ(Usage().kinds[pinringUsagePromoted].currentBytes, charged);
    EXPECT_EQ(Usage().pinnedBytes, charged);
  }
  ExpectRoundTrip(block, kBlockBytes, 3);
  EXPECT_EQ(Usage().copies[pinringCopyHostToDevice][pinringCopyPromoted].count,
            1u);
  EXPECT_EQ(pinringHostUnregister(block), cudaErrorInvalidValue);
  EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
  EXPECT_EQ(Usage().kinds[pinringUsagePromoted].currentBytes, 0u);
}

TEST_F(CapiTest, NothingExceedsTheLimitAndTheMessageNamesIt) {
  ASSERT_EQ(pinringConfigure("ring_bytes=1MiB small_pool_bytes=1MiB "
                             "pinned_limit_bytes=6MiB"),
            cudaSuccess);
  void* mapped = nullptr;
  ASSERT_EQ(pinringHostAlloc(&mapped, 4 * kMiB, cudaHostAllocMapped),
            cudaSuccess);
  void* more = nullptr;
  EXPECT_EQ(pinringHostAlloc(&more, 4 * kMiB, cudaHostAllocMapped),
            cudaErrorMemoryAllocation);
  EXPECT_TRUE(absl::StrContains(pinringGetLastErrorMessage(),
                                "PINRING_PINNED_LIMIT_BYTES"))
      << pinringGetLastErrorMessage();
  char* staged = Block(kBlockBytes);
  void* device_pointer = nullptr;
  EXPECT_EQ(pinringHostGetDevicePointer(&device_pointer, staged, 0),
            cudaErrorMemoryAllocation);
  EXPECT_EQ(device_pointer, nullptr);
  // Refused, it is still a staged block.
  ExpectRoundTrip(staged, kBlockBytes, 21);
  const pinringUsage usage = Usage();
  EXPECT_LE(usage.pinnedPeakBytes, 6 * kMiB);
  EXPECT_EQ(usage.pinnedLimitBytes, 6 * kMiB);
  EXPECT_EQ(usage.events[pinringEventBudgetRefused], 2u);
  EXPECT_EQ(pinringFreeHost(mapped), cudaSuccess);
  EXPECT_EQ(pinringHostGetDevicePointer(&device_pointer, staged, 0),
            cudaSuccess);
  EXPECT_EQ(pinringFreeHost(staged), cudaSuccess);
}

TEST_F(CapiTest, AFullPoolStagesSmallBlocksAndSaysSoOnce) {
  ASSERT_EQ(pinringConfigure("small_pool_bytes=64KiB"), cudaSuccess);
  std::vector<char*> blocks;
  testing::internal::CaptureStderr();
  for (int i = 0; i < 5; ++i) blocks.push_back(Block(32 << 10));
  const std::string said = testing::internal::GetCapturedStderr();
  const size_t first = said.find("PINRING_SMALL_POOL_BYTES");
  EXPECT_NE(first, std::string::npos) << said;
  EXPECT_EQ(said.find("PINRING_SMALL_POOL_BYTES", first + 1), std::string::npos)
      << said;
  const pinringUsage usage = Usage();
  EXPECT_EQ(usage.events[pinringEventSmallPoolFull], 3u);
  EXPECT_EQ(usage.kinds[pinringUsageSmallPinned].currentCount, 2u);
  EXPECT_EQ(usage.kinds[pinringUsageStaged].currentCount, 3u);
  EXPECT_EQ(usage.pinnedBytes, uint64_t{64 << 10});
  for (char* block : blocks) {
    ExpectRoundTrip(block, 32 << 10, 3);
    EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
  }
}

TEST_F(CapiTest, AfterAResetOfTheDeviceSmallBlocksComeFromANewPool) {
  if (TestsRunNatively()) {
    GTEST_SKIP()
        << "SIMULATED ONLY: on a GPU the testbed's own context is gone "
           "after the reset, and the driver crashes on its handles";
  }
  char* before = Block(100);
  before[0] = 1;
  ASSERT_EQ(driver().DevicePrimaryCtxReset(bed_->device()), CUDA_SUCCESS);
  std::thread([] {
    // A thread that has no context gets the new one.
    char* after = Block(100);
    ASSERT_NE(after, nullptr);
    std::memset(after, 2, 100);
    ExpectHost(after);
    EXPECT_EQ(pinringFreeHost(after), cudaSuccess);
  }).join();
  EXPECT_EQ(Usage().pinnedBytes, 16 * kMiB);
}

TEST_F(CapiTest, AfterAResetOfTheDeviceCopiesGetANewRing) {
  if (TestsRunNatively()) {
    GTEST_SKIP()
        << "SIMULATED ONLY: on a GPU the testbed's own context is gone "
           "after the reset, and the driver crashes on its handles";
  }
  char* block = Block(kBlockBytes);
  ExpectRoundTrip(block, kBlockBytes, 1);
  const uint64_t pinned = Usage().pinnedBytes;
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(driver().DevicePrimaryCtxReset(bed_->device()), CUDA_SUCCESS);
    std::thread([&] {
      ASSERT_EQ(pinringSetDevice(0), cudaSuccess);
      CUdeviceptr device = 0;
      ASSERT_EQ(driver().MemAlloc(&device, kBlockBytes), CUDA_SUCCESS);
      Fill(block, kBlockBytes, 2);
      ASSERT_EQ(pinringMemcpy(AsPointer(device), block, kBlockBytes,
                              cudaMemcpyHostToDevice),
                cudaSuccess)
          << pinringGetLastErrorMessage();
      Fill(block, kBlockBytes, 3);
      ASSERT_EQ(pinringMemcpy(block, AsPointer(device), kBlockBytes,
                              cudaMemcpyDeviceToHost),
                cudaSuccess)
          << pinringGetLastErrorMessage();
      EXPECT_EQ(WrongBytes(block, kBlockBytes, 2), 0u);
    }).join();
    EXPECT_EQ(Usage().pinnedBytes, pinned);
    EXPECT_EQ(bed_->machine()->PinnedBytes(), pinned);
  }
  EXPECT_EQ(Usage().events[pinringEventPageableFallback], 0u);
  EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
}

TEST_F(CapiTest, SwitchedOffEverythingIsReallyPinned) {
  ASSERT_EQ(pinringConfigure("enabled=off"), cudaSuccess);
  char* block = Block(kBlockBytes);
  ExpectHost(block);
  ExpectRoundTrip(block, kBlockBytes, 6);
  const pinringUsage usage = Usage();
  EXPECT_EQ(usage.kinds[pinringUsageMappedPinned].currentBytes, kBlockBytes);
  EXPECT_EQ(usage.copies[pinringCopyHostToDevice][pinringCopyPassed].count, 1u);
  EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
  EXPECT_EQ(Usage().all.currentBytes, 0u);
}

// The driver table of a test, but that devices up to `last_device` say that
// they use the host's page tables, and that waits for a context are counted.
struct UnifiedMemory {
  static const Driver* real;
  static CUdevice last_device;
  static int waits;

  static Driver Over(const Driver& driver, CUdevice last) {
    real = &driver;
    last_device = last;
    waits = 0;
    Driver unified = driver;
    unified.DeviceGetAttribute = [](int* value, CUdevice_attribute attribute,
                                    CUdevice device) {
      if (attribute !=
          CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES) {
        return real->DeviceGetAttribute(value, attribute, device);
      }
      *value = device <= last_device ? 1 : 0;
      return CUDA_SUCCESS;
    };
    unified.MemFree = [](CUdeviceptr pointer) {  // which waits
      ++waits;
      return real->MemFree(pointer);
    };
    return unified;
  }
};
const Driver* UnifiedMemory::real = nullptr;
CUdevice UnifiedMemory::last_device = 0;
int UnifiedMemory::waits = 0;

TEST_F(CapiTest, OnUnifiedMemoryStagedCopiesAreTheDriversOwn) {
  const Driver unified = UnifiedMemory::Over(driver(), 1000);
  ResetDefaultInstanceForTesting(&unified);
  char* block = Block(kBlockBytes);
  ExpectRoundTrip(block, kBlockBytes, 6);
  const CUdeviceptr device = bed_->DeviceBuffer(kBlockBytes);
  const CUstream stream = bed_->NonBlockingStream();
  EXPECT_EQ(pinringMemcpyAsync(AsPointer(device), block, kBlockBytes,
                               cudaMemcpyHostToDevice, stream),
            cudaSuccess);
  const pinringUsage usage = Usage();
  EXPECT_EQ(usage.copies[pinringCopyHostToDevice][pinringCopyPassed].bytes,
            2 * kBlockBytes);
  EXPECT_EQ(usage.copies[pinringCopyDeviceToHost][pinringCopyPassed].bytes,
            kBlockBytes);
  EXPECT_EQ(usage.pinnedPeakBytes, 0u);
  // The driver's copies may be in flight still, and only it knows.
  const int waits = UnifiedMemory::waits;
  EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
  EXPECT_GT(UnifiedMemory::waits, waits);
  ResetDefaultInstanceForTesting(nullptr);
}

TEST_F(CapiTest, OneDeviceWithoutUnifiedMemoryIsEnoughForTheRing) {
  if (TestsRunNatively()) GTEST_SKIP() << "two devices are simulated only";
  simcuda::MachineOptions options;
  options.devices = 2;
  Start(options);
  const Driver unified = UnifiedMemory::Over(driver(), 0);
  ResetDefaultInstanceForTesting(&unified);
  char* block = Block(kBlockBytes);
  ExpectRoundTrip(block, kBlockBytes, 6);
  const pinringUsage usage = Usage();
  EXPECT_EQ(usage.copies[pinringCopyHostToDevice][pinringCopyStagedSync].bytes,
            kBlockBytes);
  EXPECT_EQ(usage.copies[pinringCopyHostToDevice][pinringCopyPassed].count, 0u);
  EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
  ResetDefaultInstanceForTesting(nullptr);
}

TEST_F(CapiTest, APeerCopyComesAfterTheWorkOfTheDevicesItNames) {
  if (TestsRunNatively()) GTEST_SKIP() << "two devices are simulated only";
  simcuda::MachineOptions options;
  options.devices = 2;
  Start(options);
  char* block = Block(kBlockBytes);
  uint32_t* const flag = bed_->PinnedFlag();
  CUcontext second = nullptr;
  CUcontext popped = nullptr;
  CUstream stream = nullptr;
  CUdeviceptr memory = 0;
  ASSERT_EQ(driver().DevicePrimaryCtxRetain(&second, 1), CUDA_SUCCESS);
  ASSERT_EQ(driver().CtxPushCurrent(second), CUDA_SUCCESS);
  ASSERT_EQ(driver().StreamCreateWithPriority(&stream, CU_STREAM_DEFAULT, 0),
            CUDA_SUCCESS);
  ASSERT_EQ(driver().MemAlloc(&memory, kBlockBytes), CUDA_SUCCESS);
  ASSERT_EQ(
      driver().StreamWaitValue32(stream, reinterpret_cast<CUdeviceptr>(flag), 1,
                                 CU_STREAM_WAIT_VALUE_GEQ),
      CUDA_SUCCESS);
  ASSERT_EQ(driver().MemsetD8Async(memory, 0x77, kBlockBytes, stream),
            CUDA_SUCCESS);
  ASSERT_EQ(driver().CtxPopCurrent(&popped), CUDA_SUCCESS);
  cudaError_t code = cudaErrorUnknown;
  {
    CallOnThread call(*bed_, [&] {
      bed_->UseContext();
      code = pinringMemcpyPeer(block, 0, AsPointer(memory), 1, kBlockBytes);
      return CUDA_SUCCESS;
    });
    EXPECT_TRUE(call.Blocks());
    std::atomic_ref<uint32_t>(*flag).store(1, std::memory_order_release);
    EXPECT_EQ(call.result(), CUDA_SUCCESS);
  }
  EXPECT_EQ(code, cudaSuccess) << pinringGetLastErrorMessage();
  for (size_t i = 0; i < kBlockBytes; ++i) ASSERT_EQ(block[i], 0x77);
  // Not ordered, but right, is the asynchronous form, in a stream of either
  // device.
  std::memset(block, 0x12, kBlockBytes);
  EXPECT_EQ(pinringMemcpyPeerAsync(AsPointer(memory), 1, block, 0, kBlockBytes,
                                   bed_->NonBlockingStream()),
            cudaSuccess);
  EXPECT_EQ(driver().CtxSynchronize(), CUDA_SUCCESS);
  std::memset(block, 0, kBlockBytes);
  EXPECT_EQ(pinringMemcpyPeerAsync(block, 0, AsPointer(memory), 1, kBlockBytes,
                                   stream),
            cudaSuccess);
  EXPECT_EQ(driver().StreamSynchronize(stream), CUDA_SUCCESS);
  for (size_t i = 0; i < kBlockBytes; ++i) ASSERT_EQ(block[i], 0x12);
  EXPECT_EQ(pinringMemcpyPeer(block, 0, AsPointer(memory), 9, kBlockBytes),
            cudaErrorInvalidDevice);
  EXPECT_EQ(Usage().kinds[pinringUsagePromoted].totalCount, 0u);
  EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
  EXPECT_EQ(driver().CtxPushCurrent(second), CUDA_SUCCESS);
  EXPECT_EQ(driver().MemFree(memory), CUDA_SUCCESS);
  EXPECT_EQ(driver().StreamDestroy(stream), CUDA_SUCCESS);
  EXPECT_EQ(driver().CtxPopCurrent(&popped), CUDA_SUCCESS);
  EXPECT_EQ(driver().DevicePrimaryCtxRelease(1), CUDA_SUCCESS);
}

TEST_F(CapiTest, PassedCopiesAreCountedAsTheProgramDeclaredThem) {
  const CUdeviceptr device = bed_->DeviceBuffer(256);
  char plain[256] = {};
  EXPECT_EQ(
      pinringMemcpy(AsPointer(device), plain, 256, cudaMemcpyHostToDevice),
      cudaSuccess);
  EXPECT_EQ(pinringMemcpy(plain, AsPointer(device), 200, cudaMemcpyDefault),
            cudaSuccess);
  const pinringUsage usage = Usage();
  EXPECT_EQ(usage.copies[pinringCopyHostToDevice][pinringCopyPassed].bytes,
            256u);
  EXPECT_EQ(usage.copies[pinringCopyByAddress][pinringCopyPassed].bytes, 200u);
}

TEST_F(CapiTest, WithoutARingCopiesAreStillRightAndItIsSaidOnce) {
  if (TestsRunNatively()) GTEST_SKIP() << "faults are injected in simcuda only";
  for (const CUresult code :
       {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
        CUDA_ERROR_ALREADY_MAPPED, CUDA_ERROR_UNKNOWN}) {
    Start({});
    ASSERT_EQ(pinringConfigure("small_pool_bytes=0"), cudaSuccess);
    for (const char* function : {"cuMemHostRegister", "cuMemHostAlloc"}) {
      for (uint64_t call = 0; call < 50; ++call) {
        bed_->machine()->InjectFault(
            {.function = function, .call = call, .code = code});
      }
    }
    char* block = Block(kBlockBytes);
    testing::internal::CaptureStderr();
    ExpectRoundTrip(block, kBlockBytes, 4);
    ExpectRoundTrip(block, kBlockBytes, 5);
    const std::string said = testing::internal::GetCapturedStderr();
    const size_t first = said.find("PINRING_RING_BYTES or");
    EXPECT_NE(first, std::string::npos) << said;
    EXPECT_TRUE(absl::StrContains(said, "cannot be made")) << said;
    const pinringUsage usage = Usage();
    EXPECT_EQ(usage.events[pinringEventRingRefused], 1u);
    EXPECT_EQ(usage.events[pinringEventPageableFallback], 4u);
    EXPECT_EQ(usage.pinnedBytes, 0u);
    EXPECT_EQ(pinringPeekAtLastError(), cudaSuccess);
    EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
  }
}

TEST_F(CapiTest, WithoutStreamMemoryOperationsBlocksArePinned) {
  if (TestsRunNatively()) GTEST_SKIP() << "needs a device that lacks them";
  Start({.stream_memory_operations = false});
  char* block = Block(kBlockBytes);
  testing::internal::CaptureStderr();
  ExpectRoundTrip(block, kBlockBytes, 4);
  testing::internal::GetCapturedStderr();
  const pinringUsage usage = Usage();
  EXPECT_GE(usage.events[pinringEventStreamMemoryOpsAbsent], 1u);
  EXPECT_EQ(usage.kinds[pinringUsagePromoted].currentCount, 1u);
  EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
}

TEST_F(CapiTest, OnACardThatPinnedMemoryFillsTheProgramRuns) {
  if (TestsRunNatively()) GTEST_SKIP() << "needs simcuda's WDDM mode";
  // A card of 128 MiB of which 104 are in use, scaled down from 24 GB.
  Start({.device_bytes = 128 * kMiB, .wddm = true});
  ASSERT_EQ(pinringConfigure("ring_bytes=4MiB small_pool_bytes=1MiB"),
            cudaSuccess);
  const CUdeviceptr device = bed_->DeviceBuffer(104 * kMiB);
  std::vector<char*> blocks;
  for (int i = 0; i < 8; ++i) {
    blocks.push_back(Block(8 * kMiB));
    ExpectHost(blocks.back());
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    const CUdeviceptr part = device + i * 8 * kMiB;
    Fill(blocks[i], 8 * kMiB, static_cast<uint32_t>(i));
    ASSERT_EQ(pinringMemcpy(AsPointer(part), blocks[i], 8 * kMiB,
                            cudaMemcpyHostToDevice),
              cudaSuccess)
        << pinringGetLastErrorMessage();
    std::memset(blocks[i], 0, 8 * kMiB);
    ASSERT_EQ(pinringMemcpy(blocks[i], AsPointer(part), 8 * kMiB,
                            cudaMemcpyDeviceToHost),
              cudaSuccess);
    EXPECT_EQ(WrongBytes(blocks[i], 8 * kMiB, static_cast<uint32_t>(i)), 0u);
  }
  EXPECT_LE(Usage().pinnedPeakBytes, 8 * kMiB);
  // What natively happens there.
  void* pinned = nullptr;
  EXPECT_NE(driver().MemHostAlloc(&pinned, 64 * kMiB, 0), CUDA_SUCCESS);
  for (char* block : blocks) EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
}

// --- Accounts --------------------------------------------------------------

TEST_F(CapiTest, TenGibibytesAccountForThatAndAtMostAPage) {
  const uint64_t bytes = 10 * kGiB - 5;
  ASSERT_EQ(pinringPushCategory("weights"), cudaSuccess);
  char* block = Block(bytes);
  ASSERT_EQ(pinringPopCategory(), cudaSuccess);

  pinringCategoryUsage categories[8];
  pinringUsage usage = PINRING_USAGE_INIT;
  usage.categories = categories;
  usage.categoryCapacity = 8;
  ASSERT_EQ(pinringGetUsage(&usage), cudaSuccess);
  const pinringCategoryUsage* weights = nullptr;
  for (size_t i = 0; i < usage.categoryCount; ++i) {
    if (std::string(categories[i].name) == "weights") weights = &categories[i];
  }
  ASSERT_NE(weights, nullptr);
  EXPECT_GE(weights->all.currentBytes, bytes);
  EXPECT_LE(weights->all.currentBytes, bytes + os::PageBytes());
  EXPECT_EQ(weights->all.currentBytes,
            weights->kinds[pinringUsageStaged].currentBytes);
  EXPECT_EQ(usage.pinnedBytes, 0u);

  EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
  ASSERT_EQ(pinringGetUsage(&usage), cudaSuccess);
  EXPECT_EQ(weights->all.currentBytes, 0u);
  EXPECT_GE(weights->all.peakBytes, bytes);
  EXPECT_EQ(weights->all.totalCount, 1u);
}

TEST_F(CapiTest, CategoriesNestAndThePopOfNoneIsAnError) {
  EXPECT_EQ(pinringPopCategory(), cudaErrorInvalidValue);
  EXPECT_EQ(pinringPushCategory(nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(pinringPushCategory(""), cudaErrorInvalidValue);
  EXPECT_EQ(pinringPushCategory(std::string(256, 'x').c_str()),
            cudaErrorInvalidValue);
  EXPECT_EQ(pinringPushCategory("outer"), cudaSuccess);
  EXPECT_EQ(pinringPushCategory(std::string(255, 'x').c_str()), cudaSuccess);
  EXPECT_EQ(pinringPopCategory(), cudaSuccess);
  EXPECT_EQ(pinringPopCategory(), cudaSuccess);
  EXPECT_EQ(pinringPopCategory(), cudaErrorInvalidValue);
}

TEST_F(CapiTest, ACategoryBeyondItsHardLimitIsOutOfMemoryAndNothingIsLost) {
  EXPECT_EQ(pinringSetCategoryLimit(nullptr, 0, 0), cudaErrorInvalidValue);
  EXPECT_EQ(pinringSetCategoryLimit("", 0, 0), cudaErrorInvalidValue);
  ASSERT_EQ(pinringSetCategoryLimit("loader", 0, 1 << 20), cudaSuccess);
  ASSERT_EQ(pinringPushCategory("loader"), cudaSuccess);
  char* const first = Block(1 << 19);
  void* refused = nullptr;
  for (const unsigned flags : {cudaHostAllocDefault, cudaHostAllocMapped}) {
    EXPECT_EQ(pinringHostAlloc(&refused, (1 << 19) + 1, flags),
              cudaErrorMemoryAllocation);
    EXPECT_EQ(refused, nullptr);
    EXPECT_NE(std::string(pinringGetLastErrorMessage()).find("loader"),
              std::string::npos);
    EXPECT_EQ(pinringGetLastError(), cudaErrorMemoryAllocation);
  }
  char* const second = Block(1 << 19);
  // Nor does a small one fit now.
  EXPECT_EQ(pinringMallocHost(&refused, 256), cudaErrorMemoryAllocation);
  EXPECT_EQ(pinringGetLastError(), cudaErrorMemoryAllocation);
  ASSERT_EQ(pinringPopCategory(), cudaSuccess);
  // Another category has room, also for small blocks.
  char* const other = Block(1 << 20);
  EXPECT_EQ(pinringFreeHost(first), cudaSuccess);
  EXPECT_EQ(pinringFreeHost(second), cudaSuccess);
  EXPECT_EQ(pinringFreeHost(other), cudaSuccess);
  pinringUsage usage = PINRING_USAGE_INIT;
  ASSERT_EQ(pinringGetUsage(&usage), cudaSuccess);
  EXPECT_EQ(usage.kinds[pinringUsageStaged].currentBytes, 0u);
  EXPECT_EQ(usage.kinds[pinringUsageSmallPinned].currentBytes, 0u);
  EXPECT_EQ(usage.kinds[pinringUsageMappedPinned].currentBytes, 0u);
  EXPECT_GE(usage.events[pinringEventCategoryRefused], 3u);
}

TEST_F(CapiTest, WhatIsSaidGoesToTheProgramsLogger) {
  std::vector<std::string> lines;
  ASSERT_EQ(pinringSetLogger(
                [](void* user, const char* text, size_t bytes) {
                  static_cast<std::vector<std::string>*>(user)->emplace_back(
                      text, bytes);
                },
                &lines),
            cudaSuccess);
  ASSERT_EQ(pinringSetCategoryLimit("soft", 4096, 0), cudaSuccess);
  ASSERT_EQ(pinringPushCategory("soft"), cudaSuccess);
  char* const block = Block(1 << 20);
  char* const more = Block(1 << 20);
  ASSERT_EQ(pinringPopCategory(), cudaSuccess);
  ASSERT_EQ(pinringSetLogger(nullptr, nullptr), cudaSuccess);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("pinring: category soft has gone beyond"),
            std::string::npos)
      << lines[0];
  pinringUsage usage = PINRING_USAGE_INIT;
  ASSERT_EQ(pinringGetUsage(&usage), cudaSuccess);
  EXPECT_EQ(usage.events[pinringEventCategoryOverLimit], 2u);
  EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
  EXPECT_EQ(pinringFreeHost(more), cudaSuccess);
}

TEST_F(CapiTest, PeaksSinceAMarkAreOfTheTimeSince) {
  char* const before = Block(1 << 22);
  ASSERT_EQ(pinringFreeHost(before), cudaSuccess);
  ASSERT_EQ(pinringMarkUsage(), cudaSuccess);
  char* const after = Block(1 << 20);
  pinringUsage usage = PINRING_USAGE_INIT;
  ASSERT_EQ(pinringGetUsage(&usage), cudaSuccess);
  EXPECT_EQ(usage.kindPeaksSinceMarkBytes[pinringUsageStaged], 1u << 20);
  EXPECT_EQ(usage.kinds[pinringUsageStaged].peakBytes, 1u << 22);
  EXPECT_EQ(pinringFreeHost(after), cudaSuccess);
}

TEST_F(CapiTest, ACallerOfTheFirstVersionGetsWhatThatHad) {
  struct {
    pinringUsage usage;
  } caller = {PINRING_USAGE_INIT};
  caller.usage.version = 1;
  caller.usage.structBytes = offsetof(pinringUsage, pinnedPeakSinceMarkBytes);
  caller.usage.pinnedPeakSinceMarkBytes = 42;  // not the caller's to be filled
  pinringCategoryUsage category;
  std::memset(&category, 0x5a, sizeof(category));
  caller.usage.categories = &category;
  caller.usage.categoryCapacity = 1;
  caller.usage.categoryStructBytes =
      offsetof(pinringCategoryUsage, peakSinceMarkBytes);
  ASSERT_EQ(pinringGetUsage(&caller.usage), cudaSuccess);
  EXPECT_EQ(caller.usage.version, 1u);
  EXPECT_EQ(caller.usage.pinnedPeakSinceMarkBytes, 42u);
  EXPECT_EQ(category.peakSinceMarkBytes, 0x5a5a5a5a5a5a5a5au);
  EXPECT_STREQ(category.name, "default");
}

TEST_F(CapiTest, UsageStructsOfOtherVersionsAreTakenOrRefused) {
  EXPECT_EQ(pinringGetUsage(nullptr), cudaErrorInvalidValue);
  pinringUsage usage = {};
  EXPECT_EQ(pinringGetUsage(&usage), cudaErrorInvalidValue);
  usage = PINRING_USAGE_INIT;
  usage.structBytes -= 1;
  EXPECT_EQ(pinringGetUsage(&usage), cudaErrorInvalidValue);

  // A caller that was compiled with a later header.
  struct Later {
    pinringUsage usage;
    uint64_t added[4];
  } later = {PINRING_USAGE_INIT, {1, 2, 3, 4}};
  later.usage.structBytes = sizeof(later);
  later.usage.version = 7;
  EXPECT_EQ(pinringGetUsage(&later.usage), cudaSuccess);
  EXPECT_EQ(later.usage.version, unsigned{PINRING_USAGE_VERSION});
  for (const uint64_t added : later.added) EXPECT_EQ(added, 0u);
}

TEST_F(CapiTest, UsageIsWrittenAsTextAndCutToFit) {
  size_t needed = 0;
  ASSERT_EQ(pinringFormatUsage(pinringUsageJson, nullptr, 0, &needed),
            cudaSuccess);
  std::string text(needed, '?');
  ASSERT_EQ(pinringFormatUsage(pinringUsageJson, text.data(), needed, nullptr),
            cudaSuccess);
  EXPECT_EQ(text.back(), '\0');
  EXPECT_EQ(text.front(), '{');
  char small[8];
  ASSERT_EQ(pinringFormatUsage(pinringUsageText, small, sizeof(small), &needed),
            cudaSuccess);
  EXPECT_EQ(std::strlen(small), 7u);
  ASSERT_EQ(
      pinringFormatUsage(pinringUsagePrometheus, small, sizeof(small), nullptr),
      cudaSuccess);
  EXPECT_STREQ(small, "# HELP ");
  EXPECT_EQ(pinringFormatUsage(pinringUsageText, nullptr, 8, &needed),
            cudaErrorInvalidValue);
  EXPECT_EQ(pinringFormatUsage(9, small, 8, &needed), cudaErrorInvalidValue);
}

// --- The library itself ----------------------------------------------------

TEST_F(CapiTest, OptionsAreSetBeforeTheFirstUseOnly) {
  EXPECT_EQ(pinringConfigure(nullptr), cudaErrorInvalidValue);
  EXPECT_EQ(pinringConfigure("ring_bytes=lots"), cudaErrorInvalidValue);
  EXPECT_TRUE(
      absl::StrContains(pinringGetLastErrorMessage(), "ring_bytes=lots"))
      << pinringGetLastErrorMessage();
  EXPECT_EQ(pinringConfigure("pinned_limit_bytes=80MiB"), cudaSuccess);
  EXPECT_EQ(pinringConfigure("ring_bytes=2MiB"), cudaSuccess);
  EXPECT_EQ(Usage().pinnedLimitBytes, 80 * kMiB);
  EXPECT_EQ(pinringConfigure("ring_bytes=2MiB"), cudaErrorIllegalState);
}

TEST_F(CapiTest, OptionsThatContradictEachOtherFailEveryCall) {
  ASSERT_EQ(pinringConfigure("ring_bytes=1MiB slot_bytes=2MiB"), cudaSuccess);
  testing::internal::CaptureStderr();
  void* block = nullptr;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(pinringMallocHost(&block, 16), cudaErrorInitializationError);
    EXPECT_TRUE(
        absl::StrContains(pinringGetLastErrorMessage(), "PINRING_SLOT_BYTES"));
  }
  EXPECT_EQ(pinringFreeHost(nullptr), cudaErrorInitializationError);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said.find("PINRING_SLOT_BYTES"), said.rfind("PINRING_SLOT_BYTES"));
  EXPECT_TRUE(absl::StrContains(said, "PINRING_SLOT_BYTES"));
}

TEST_F(CapiTest, TheLastErrorStaysUntilItIsTaken) {
  EXPECT_EQ(pinringGetLastError(), cudaSuccess);
  EXPECT_EQ(pinringMallocHost(nullptr, 16), cudaErrorInvalidValue);
  EXPECT_EQ(pinringFreeHost(nullptr), cudaSuccess);
  EXPECT_EQ(pinringPeekAtLastError(), cudaErrorInvalidValue);
  std::thread([] {
    EXPECT_EQ(pinringPeekAtLastError(), cudaSuccess);
    EXPECT_STREQ(pinringGetLastErrorMessage(), "");
  }).join();
  EXPECT_EQ(pinringGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(pinringGetLastError(), cudaSuccess);
}

TEST_F(CapiTest, TheVersionIsTheProjects) {
  int version = 0;
  EXPECT_EQ(pinringGetVersion(&version), cudaSuccess);
  EXPECT_EQ(version, PINRING_VERSION);
  EXPECT_EQ(absl::StrCat(PINRING_VERSION_MAJOR, ".", PINRING_VERSION_MINOR, ".",
                         PINRING_VERSION_PATCH),
            PINRING_PROJECT_VERSION);
  EXPECT_EQ(pinringGetVersion(nullptr), cudaErrorInvalidValue);
}

TEST_F(CapiTest, ThreadsAllocateCopyAndFreeAtTheSameTime) {
  std::vector<CUdeviceptr> buffers;
  for (int t = 0; t < 4; ++t) buffers.push_back(bed_->DeviceBuffer(kMiB));
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([this, t, device = buffers[t]] {
      bed_->UseContext();
      for (uint32_t round = 0; round < 10; ++round) {
        const size_t bytes = (round % 2 == 0) ? kMiB - t : 1000 + t;
        char* block = Block(bytes);
        char* back = Block(bytes);
        const uint32_t seed = t * 100 + round;
        Fill(block, bytes, seed);
        EXPECT_EQ(
            pinringMemcpyAsync(AsPointer(device), block, bytes,
                               cudaMemcpyHostToDevice, cudaStreamPerThread),
            cudaSuccess);
        EXPECT_EQ(
            pinringMemcpyAsync(back, AsPointer(device), bytes,
                               cudaMemcpyDeviceToHost, cudaStreamPerThread),
            cudaSuccess);
        EXPECT_EQ(driver().StreamSynchronize(CU_STREAM_PER_THREAD),
                  CUDA_SUCCESS);
        EXPECT_EQ(WrongBytes(back, bytes, seed), 0u);
        EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
        EXPECT_EQ(pinringFreeHost(back), cudaSuccess);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const pinringUsage usage = Usage();
  EXPECT_EQ(usage.kinds[pinringUsageStaged].currentBytes, 0u);
  EXPECT_EQ(usage.kinds[pinringUsageSmallPinned].currentBytes, 0u);
}

#if !defined(__linux__)
TEST_F(CapiTest, AChildOfForkReadsWritesAsksAboutAndFreesBlocks) {
  GTEST_SKIP() << "this system has no fork";
}
#else
TEST_F(CapiTest, AChildOfForkReadsWritesAsksAboutAndFreesBlocks) {
  char* block = Block(kBlockBytes);
  char* small = Block(100);
  char* other = Block(kBlockBytes);
  const CUdeviceptr device = bed_->DeviceBuffer(kBlockBytes);
  Fill(block, kBlockBytes, 1);
  ASSERT_EQ(pinringMemcpy(AsPointer(device), block, kBlockBytes,
                          cudaMemcpyHostToDevice),
            cudaSuccess);
  const CUstream stream = bed_->NonBlockingStream();
  Gate gate(*bed_);
  gate.Hold(stream);
  char* in_flight = Block(kBlockBytes);
  ASSERT_EQ(pinringMemcpyAsync(in_flight, AsPointer(device), kBlockBytes,
                               cudaMemcpyDeviceToHost, stream),
            cudaSuccess);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(10);  // A child that hangs is ended.
    int failed = 0;
    cudaPointerAttributes attributes = {};
    failed |= WrongBytes(block, kBlockBytes, 1) != 0 ? 1 : 0;
    block[5] = 1;
    failed |= pinringPointerGetAttributes(&attributes, block) != cudaSuccess ||
                      attributes.type != cudaMemoryTypeHost
                  ? 2
                  : 0;
    failed |= pinringFreeHost(block) != cudaSuccess ? 4 : 0;
    failed |= pinringFreeHost(in_flight) != cudaSuccess ? 8 : 0;
    failed |= pinringFreeHost(small) != cudaSuccess ? 16 : 0;
    failed |= pinringPointerGetAttributes(&attributes, block) != cudaSuccess ||
                      attributes.type != cudaMemoryTypeUnregistered
                  ? 32
                  : 0;
    void* pointer = nullptr;
    failed |=
        pinringMallocHost(&pointer, kBlockBytes) != cudaErrorInitializationError
            ? 64
            : 0;
    failed |= pinringMemcpy(other, AsPointer(device), 16,
                            cudaMemcpyDeviceToHost) == cudaSuccess
                  ? 128
                  : 0;
    _exit(failed);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0);
  gate.Open();
  ASSERT_EQ(driver().StreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(WrongBytes(in_flight, kBlockBytes, 1), 0u);
  EXPECT_EQ(pinringFreeHost(in_flight), cudaSuccess);
  EXPECT_EQ(pinringFreeHost(other), cudaSuccess);
  EXPECT_EQ(pinringFreeHost(block), cudaSuccess);
  EXPECT_EQ(pinringFreeHost(small), cudaSuccess);
}
#endif

// --- Codes -----------------------------------------------------------------

TEST(ErrorCodesTest, DriverAndRuntimeShareTheirNumbers) {
  const struct {
    CUresult driver;
    cudaError_t runtime;
  } kPairs[] = {
      {CUDA_SUCCESS, cudaSuccess},
      {CUDA_ERROR_INVALID_VALUE, cudaErrorInvalidValue},
      {CUDA_ERROR_OUT_OF_MEMORY, cudaErrorMemoryAllocation},
      {CUDA_ERROR_NOT_INITIALIZED, cudaErrorInitializationError},
      {CUDA_ERROR_DEINITIALIZED, cudaErrorCudartUnloading},
      {CUDA_ERROR_NO_DEVICE, cudaErrorNoDevice},
      {CUDA_ERROR_INVALID_DEVICE, cudaErrorInvalidDevice},
      {CUDA_ERROR_INVALID_CONTEXT, cudaErrorDeviceUninitialized},
      {CUDA_ERROR_MAP_FAILED, cudaErrorMapBufferObjectFailed},
      {CUDA_ERROR_ALREADY_MAPPED, cudaErrorAlreadyMapped},
      {CUDA_ERROR_ECC_UNCORRECTABLE, cudaErrorECCUncorrectable},
      {CUDA_ERROR_OPERATING_SYSTEM, cudaErrorOperatingSystem},
      {CUDA_ERROR_INVALID_HANDLE, cudaErrorInvalidResourceHandle},
      {CUDA_ERROR_ILLEGAL_STATE, cudaErrorIllegalState},
      {CUDA_ERROR_NOT_FOUND, cudaErrorSymbolNotFound},
      {CUDA_ERROR_NOT_READY, cudaErrorNotReady},
      {CUDA_ERROR_ILLEGAL_ADDRESS, cudaErrorIllegalAddress},
      {CUDA_ERROR_LAUNCH_TIMEOUT, cudaErrorLaunchTimeout},
      {CUDA_ERROR_CONTEXT_IS_DESTROYED, cudaErrorContextIsDestroyed},
      {CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
       cudaErrorHostMemoryAlreadyRegistered},
      {CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cudaErrorHostMemoryNotRegistered},
      {CUDA_ERROR_LAUNCH_FAILED, cudaErrorLaunchFailure},
      {CUDA_ERROR_NOT_PERMITTED, cudaErrorNotPermitted},
      {CUDA_ERROR_NOT_SUPPORTED, cudaErrorNotSupported},
      {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
       cudaErrorStreamCaptureUnsupported},
      {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cudaErrorStreamCaptureImplicit},
      {CUDA_ERROR_UNKNOWN, cudaErrorUnknown},
      {CUDA_ERROR_CONTEXT_ALREADY_CURRENT, cudaErrorUnknown},
  };
  for (const auto& [code, expected] : kPairs) {
    EXPECT_EQ(RuntimeCode(code), expected) << code;
  }
}

}  // namespace
}  // namespace pinring
