#include "tests/support/case_test.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "absl/strings/str_join.h"
#include "src/os/check.h"

namespace pinring {
namespace {

constexpr char kGuard = static_cast<char>(0xa5);

std::string RunningTest() {
  const testing::TestInfo* info =
      testing::UnitTest::GetInstance()->current_test_info();
  return info == nullptr
             ? "a test"
             : absl::StrCat(info->test_suite_name(), ".", info->name());
}

void Must(bool holds, const char* what) { PINRING_CHECK(holds, what); }

}  // namespace

uint64_t CaseTest::seed_ = 0;

void Observed::MustBeZero(const char* name, size_t count) {
  EXPECT_EQ(count, 0u) << name;
}

// --- Buffers ---------------------------------------------------------------

CaseTest::Host::Host(PinnedApi& api, size_t bytes, size_t offset)
    : api_(api), bytes_(bytes), offset_(offset) {
  void* base = nullptr;
  const cudaError_t code = api_.Alloc(&base, bytes + 2 * kGuardBytes + offset);
  Must(code == cudaSuccess && base != nullptr, "pinned memory for a test");
  base_ = static_cast<char*>(base);
  std::memset(base_, kGuard, kGuardBytes + offset_);
  std::memset(data() + bytes_, kGuard, kGuardBytes);
}

size_t CaseTest::Host::WrongGuards() const {
  return BytesThatAreNot(base_, kGuardBytes + offset_, kGuard) +
         BytesThatAreNot(data() + bytes_, kGuardBytes, kGuard);
}

void CaseTest::Host::Free() {
  if (base_ == nullptr) return;
  EXPECT_EQ(api_.Free(base_), cudaSuccess) << api_.name();
  base_ = nullptr;
}

CaseTest::Device::Device(CaseTest& test, size_t bytes, size_t offset)
    : test_(test), bytes_(bytes), offset_(offset) {
  const size_t all = bytes + 2 * kGuardBytes + offset;
  Must(test_.driver().MemAlloc(&base_, all) == CUDA_SUCCESS,
       "device memory for a test");
  Must(test_.driver().MemsetD8Async(base_, static_cast<unsigned char>(kGuard),
                                    all, test_.side_stream_) == CUDA_SUCCESS,
       "cuMemsetD8Async");
  Must(test_.driver().StreamSynchronize(test_.side_stream_) == CUDA_SUCCESS,
       "cuStreamSynchronize");
}

CaseTest::Device::~Device() { (void)test_.driver().MemFree(base_); }

void CaseTest::Device::Upload(uint64_t seed) {
  std::vector<char> all(bytes_);
  FillRandom(all.data(), bytes_, seed);
  Must(test_.driver().MemcpyHtoDAsync(at(), all.data(), bytes_,
                                      test_.side_stream_) == CUDA_SUCCESS,
       "cuMemcpyHtoDAsync");
  Must(test_.driver().StreamSynchronize(test_.side_stream_) == CUDA_SUCCESS,
       "cuStreamSynchronize");
}

std::vector<char> CaseTest::Device::Download(CUdeviceptr from, size_t bytes) {
  std::vector<char> seen(bytes);
  if (bytes == 0) return seen;
  Must(test_.driver().MemcpyDtoHAsync(seen.data(), from, bytes,
                                      test_.side_stream_) == CUDA_SUCCESS,
       "cuMemcpyDtoHAsync");
  Must(test_.driver().StreamSynchronize(test_.side_stream_) == CUDA_SUCCESS,
       "cuStreamSynchronize");
  return seen;
}

size_t CaseTest::Device::Wrong(uint64_t seed) {
  const std::vector<char> seen = Download(at(), bytes_);
  return WrongBytes(seen.data(), bytes_, seed);
}

size_t CaseTest::Device::NotValue(char value) {
  const std::vector<char> seen = Download(at(), bytes_);
  return BytesThatAreNot(seen.data(), bytes_, value);
}

size_t CaseTest::Device::WrongGuards() {
  const std::vector<char> before = Download(base_, kGuardBytes + offset_);
  const std::vector<char> after = Download(at() + bytes_, kGuardBytes);
  return BytesThatAreNot(before.data(), before.size(), kGuard) +
         BytesThatAreNot(after.data(), after.size(), kGuard);
}

// --- The fixture -----------------------------------------------------------

void CaseTest::SetUp() {
  if (const std::string why = Testbed::WhySkip(); !why.empty()) {
    GTEST_SKIP() << why;
  }
  watchdog_ = std::make_unique<Watchdog>(RunningTest(), kCaseLimit, [this] {
    if (bed_ == nullptr) return std::string("there is no device");
    std::string text = absl::StrCat(
        "transfers outstanding: ", instance().engine().outstanding(), "\n");
    if (bed_->machine() != nullptr) {
      absl::StrAppend(&text, bed_->machine()->Describe());
    }
    return text;
  });
  Start();
}

void CaseTest::TearDown() {
  Stop();
  watchdog_.reset();
}

void CaseTest::Start(const std::string& settings,
                     const simcuda::MachineOptions& options) {
  Stop();
  watchdog_->Progress();
  bed_ = std::make_unique<Testbed>(options);
  side_stream_ = bed_->NonBlockingStream();
  ResetDefaultInstanceForTesting(&bed_->driver());
  (void)pinringGetLastError();
  ASSERT_EQ(pinringConfigure(settings.c_str()), cudaSuccess)
      << pinringGetLastErrorMessage();
}

void CaseTest::Stop() {
  if (bed_ == nullptr) return;
  if (!HasFatalFailure()) ExpectCleanEnd();
  ResetDefaultInstanceForTesting(nullptr);
  bed_.reset();
}

Instance& CaseTest::instance() {
  const NoInstance* error = nullptr;
  Instance* const instance = DefaultInstance(&error);
  Must(instance != nullptr, "the default instance");
  return *instance;
}

void CaseTest::Compare(absl::FunctionRef<void(PinnedApi&, Observed&)> program) {
  DriverPinned native(driver());
  RingPinned ring;
  Observed natively;
  Observed through_ring;
  watchdog_->Progress();
  {
    SCOPED_TRACE(native.name());
    program(native, natively);
  }
  watchdog_->Progress();
  {
    SCOPED_TRACE(ring.name());
    program(ring, through_ring);
  }
  watchdog_->Progress();
  EXPECT_EQ(natively.lines(), through_ring.lines())
      << "first: what a program sees with the driver's pinned memory, second: "
         "with pinring";
}

void CaseTest::Staged(absl::FunctionRef<void(PinnedApi&, Observed&)> program) {
  RingPinned ring;
  Observed observed;
  watchdog_->Progress();
  program(ring, observed);
  watchdog_->Progress();
}

pinringUsage CaseTest::Usage() {
  pinringUsage usage = PINRING_USAGE_INIT;
  EXPECT_EQ(pinringGetUsage(&usage), cudaSuccess);
  return usage;
}

void CaseTest::ExpectAllThroughTheRing() {
  const pinringUsage usage = Usage();
  EXPECT_EQ(usage.events[pinringEventPromotedNoSlot], 0u);
  EXPECT_EQ(usage.events[pinringEventPageableFallback], 0u);
  EXPECT_EQ(usage.events[pinringEventRingRefused], 0u);
  EXPECT_EQ(usage.kinds[pinringUsagePromoted].totalCount, 0u);
}

void CaseTest::ExpectCleanEnd() {
  Engine& engine = instance().engine();
  EXPECT_TRUE(
      HappensWithin(kHappens, [&] { return engine.outstanding() == 0; }))
      << engine.outstanding() << " transfers are left over";
  engine.CheckInvariants();
  if (bed_->machine() == nullptr) return;
  const std::vector<std::string> hazards = bed_->machine()->Hazards();
  EXPECT_TRUE(hazards.empty()) << absl::StrJoin(hazards, "\n");
}

}  // namespace pinring
