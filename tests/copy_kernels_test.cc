#if defined(_WIN32)
#include <windows.h>
#endif

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "src/copy/kernels.h"
#include "src/os/pages.h"

#if defined(__SANITIZE_ADDRESS__)
#define PINRING_TEST_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PINRING_TEST_ASAN 1
#endif
#endif

namespace pinring::copy {

void PrintTo(const Kernel& kernel, std::ostream* out) { *out << kernel.name; }

namespace {

constexpr size_t kGuardBytes = 128;
constexpr size_t kAlignments = 65;  // 0 to 64.
constexpr size_t kMiB = size_t{1} << 20;

const size_t kEdgeSizes[] = {
    0,    1,    2,    3,    7,    8,    9,    15,   16,   17,   31,   32,
    33,   63,   64,   65,   127,  128,  129,  255,  256,  257,  511,  512,
    513,  1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097, 8191, 8192,
    8193, 8255, 8256, 8257, 8447, 8448, 8449, 8703, 8704, 8705, 12289};

void Fill(char* data, size_t bytes, std::mt19937_64& random) {
  size_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    const uint64_t word = random();
    std::memcpy(data + i, &word, 8);
  }
  for (; i < bytes; ++i) data[i] = static_cast<char>(random());
}

std::vector<Kernel> SupportedKernels() {
  std::vector<Kernel> kernels;
  for (const Kernel& kernel : AllKernels()) {
    if (kernel.supported) kernels.push_back(kernel);
  }
  return kernels;
}

// Runs each test with every kernel that this processor has.
class CopyKernelsTest : public testing::TestWithParam<Kernel> {
 protected:
  // Copies between buffers of just the right size, misaligned as given, and
  // compares the bytes and the guards around them.
  void Check(size_t bytes, size_t dst_offset, size_t src_offset) {
    const size_t span = bytes + 2 * kGuardBytes + kAlignments;
    if (dst_.size() < span + 64) {
      dst_.resize(span + 64);
      src_.resize(span + 64);
      expected_.resize(span + 64);
    }
    char* const dst = AlignLine(dst_.data());
    char* const src = AlignLine(src_.data());
    Fill(dst, span, random_);
    Fill(src, span, random_);
    std::memcpy(expected_.data(), dst, span);
    std::memcpy(expected_.data() + kGuardBytes + dst_offset,
                src + kGuardBytes + src_offset, bytes);
    GetParam().copy(dst + kGuardBytes + dst_offset,
                    src + kGuardBytes + src_offset, bytes);
    ASSERT_EQ(std::memcmp(dst, expected_.data(), span), 0)
        << bytes << " bytes, destination + " << dst_offset << ", source + "
        << src_offset;
  }

  static char* AlignLine(char* data) {
    return data + (64 - reinterpret_cast<uintptr_t>(data) % 64) % 64;
  }

  std::mt19937_64 random_{20240607};
  std::vector<char> dst_, src_, expected_;
};

TEST_P(CopyKernelsTest, EveryAlignmentOfTheDestinationAtEverySize) {
  for (const size_t bytes : kEdgeSizes) {
    for (size_t offset = 0; offset < kAlignments; ++offset) {
      Check(bytes, offset, 0);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(CopyKernelsTest, EveryAlignmentOfTheSourceAtEverySize) {
  for (const size_t bytes : kEdgeSizes) {
    for (size_t offset = 0; offset < kAlignments; ++offset) {
      Check(bytes, 0, offset);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(CopyKernelsTest, EveryPairOfAlignments) {
  for (size_t dst_offset = 0; dst_offset < kAlignments; ++dst_offset) {
    for (size_t src_offset = 0; src_offset < kAlignments; ++src_offset) {
      Check(kKernelMinBytes + 77, dst_offset, src_offset);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(CopyKernelsTest, LargeCopiesAtOddPlaces) {
  for (const size_t bytes : {kMiB + 13, 3 * kMiB - 1}) {
    for (const size_t offset : {0, 1, 16, 31, 63, 64}) {
      Check(bytes, offset, 64 - offset);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(CopyKernelsTest, RandomSizesAndAlignments) {
  for (int i = 0; i < 500; ++i) {
    Check(random_() % 40'000, random_() % kAlignments, random_() % kAlignments);
    if (HasFatalFailure()) return;
  }
}

TEST_P(CopyKernelsTest, NothingOfNullPointersIsFine) {
  GetParam().copy(nullptr, nullptr, 0);
}

// Leaves nothing where a page was.
bool MakeHole(char* at, size_t bytes) {
#if defined(_WIN32)
  return VirtualFree(at, bytes, MEM_DECOMMIT) != 0;
#else
  return os::ReleasePages(at, bytes).ok();
#endif
}

// The guards above see stray writes; reads past the source only fault where
// nothing is mapped.
TEST_P(CopyKernelsTest, EndsOfMappedMemoryAreNotOverrun) {
  const size_t page = os::PageBytes();
  const size_t bytes = 16 * page;
  char* const ground =
      static_cast<char*>(*os::ReservePages(bytes + 2 * page, page));
  ASSERT_TRUE(MakeHole(ground, page));
  ASSERT_TRUE(MakeHole(ground + page + bytes, page));
  char* const mapped = ground + page;
  Fill(mapped, bytes, random_);
  std::vector<char> other(bytes);
  for (const size_t length : {size_t{1}, size_t{63}, kKernelMinBytes,
                              kKernelMinBytes + 13, bytes - 1, bytes}) {
    for (char* const place : {mapped, mapped + bytes - length}) {
      GetParam().copy(other.data(), place, length);
      ASSERT_EQ(std::memcmp(other.data(), place, length), 0) << length;
      Fill(other.data(), length, random_);
      GetParam().copy(place, other.data(), length);
      ASSERT_EQ(std::memcmp(other.data(), place, length), 0) << length;
    }
  }
#if defined(_WIN32)
  ASSERT_TRUE(os::ReleasePages(ground, bytes + 2 * page).ok());
#else
  // What was in the holes may be somebody else's by now.
  ASSERT_TRUE(os::ReleasePages(mapped, bytes).ok());
#endif
}

// The publication that movers rely on: bytes, then a release store.
TEST_P(CopyKernelsTest, AReleaseStorePublishesTheBytes) {
  constexpr size_t kBytes = 64 * 1024;
  constexpr uint32_t kRounds = 300;
  std::vector<uint32_t> source(kBytes / 4);
  std::vector<uint32_t> target(kBytes / 4);
  std::atomic<uint32_t> ready{0};
  std::atomic<uint32_t> taken{0};
  std::atomic<uint32_t> wrong{0};
  std::thread reader([&] {
    for (uint32_t round = 1; round <= kRounds; ++round) {
      while (ready.load(std::memory_order_acquire) < round) {
        std::this_thread::yield();
      }
      // From the end, whose stores left last.
      for (size_t i = target.size(); i-- > 0;) {
        if (target[i] != round) wrong.fetch_add(1);
      }
      taken.store(round, std::memory_order_release);
    }
  });
  for (uint32_t round = 1; round <= kRounds; ++round) {
    for (uint32_t& word : source) word = round;
    while (taken.load(std::memory_order_acquire) + 1 < round) {
      std::this_thread::yield();
    }
    GetParam().copy(target.data(), source.data(), kBytes);
    ready.store(round, std::memory_order_release);
  }
  reader.join();
  EXPECT_EQ(wrong.load(), 0u);
}

#if defined(PINRING_TEST_ASAN)
TEST_P(CopyKernelsTest, TheAddressSanitizerSeesAnOverrun) {
  const auto copy = GetParam().copy;
  constexpr size_t kBytes = 2 * kKernelMinBytes;
  auto small = std::make_unique<char[]>(kBytes - 1);
  auto large = std::make_unique<char[]>(kBytes);
  EXPECT_DEATH(copy(small.get(), large.get(), kBytes), "AddressSanitizer");
  EXPECT_DEATH(copy(large.get(), small.get(), kBytes), "AddressSanitizer");
}
#endif

INSTANTIATE_TEST_SUITE_P(Kernels, CopyKernelsTest,
                         testing::ValuesIn(SupportedKernels()),
                         [](const testing::TestParamInfo<Kernel>& kernel) {
                           std::string name = kernel.param.name;
                           for (char& c : name) {
                             if (c == '-') c = '_';
                           }
                           return name;
                         });

TEST(CopyKernelListTest, EveryKernelCouldBeTested) {
  std::string untested;
  for (const Kernel& kernel : AllKernels()) {
    if (!kernel.supported) absl::StrAppend(&untested, " ", kernel.name);
  }
  if (!untested.empty()) {
    GTEST_SKIP() << "this processor cannot run" << untested;
  }
}

TEST(CopyKernelListTest, NamesAreUniqueAndMemcpyIsAlwaysThere) {
  std::vector<std::string> names;
  for (const Kernel& kernel : AllKernels()) names.push_back(kernel.name);
  for (size_t i = 0; i < names.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(names[i], names[j]);
  }
  const absl::StatusOr<const Kernel*> library = FindKernel("memcpy");
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_EQ((*library)->stores, StoreKind::kLibrary);
}

TEST(CopyKernelListTest, AnUnknownNameIsAnErrorThatListsTheOthers) {
  const absl::Status status = FindKernel("sse9").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(status.message()).find("sse9"), std::string::npos);
  EXPECT_NE(std::string(status.message()).find("memcpy"), std::string::npos);
}

TEST(CopyKernelListTest, AKernelOfAnotherProcessorIsRefused) {
  for (const Kernel& kernel : AllKernels()) {
    const absl::StatusOr<const Kernel*> found = FindKernel(kernel.name);
    EXPECT_EQ(found.ok(), kernel.supported) << kernel.name;
    if (!found.ok()) {
      EXPECT_EQ(found.status().code(), absl::StatusCode::kUnimplemented);
    }
  }
}

TEST(KernelSetTest, TheBestIsSupportedAndSuitsItsDirection) {
  const KernelSet set;
  EXPECT_TRUE(set.in().supported);
  EXPECT_TRUE(set.out().supported);
#if defined(__x86_64__)
  EXPECT_EQ(set.in().stores, StoreKind::kPlain);
  EXPECT_EQ(set.out().stores, StoreKind::kNonTemporal);
#endif
}

TEST(KernelSetTest, NamesOverrideOneDirectionOrBoth) {
  absl::StatusOr<KernelSet> set = KernelSet::ByName("memcpy", "");
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_STREQ(set->in().name, "memcpy");
  EXPECT_STREQ(set->out().name, KernelSet().out().name);
  set = KernelSet::ByName("", "memcpy");
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_STREQ(set->in().name, KernelSet().in().name);
  EXPECT_STREQ(set->out().name, "memcpy");
  EXPECT_FALSE(KernelSet::ByName("memcpy", "no").ok());
  EXPECT_FALSE(KernelSet::ByName("no", "memcpy").ok());
}

TEST(HandOverTest, LeavesEveryByteAsItWas) {
  std::vector<unsigned char> bytes(3 * 4096);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<unsigned char>(i * 7);
  const std::vector<unsigned char> before = bytes;
  for (const size_t begin : {size_t{0}, size_t{1}, size_t{63}, size_t{4096}}) {
    for (const size_t length : {size_t{0}, size_t{1}, size_t{64}, size_t{5000}})
      HandOver(bytes.data() + begin, length);
  }
  EXPECT_EQ(bytes, before);
  HandOver(nullptr, 0);
}

TEST(KernelSetTest, BothDirectionsCopy) {
  std::mt19937_64 random(3);
  for (const size_t bytes : {size_t{0}, size_t{100}, kMiB + 1}) {
    std::vector<char> source(bytes), slot(bytes), back(bytes);
    Fill(source.data(), bytes, random);
    CopyIn(slot.data(), source.data(), bytes);
    CopyOut(back.data(), slot.data(), bytes);
    EXPECT_EQ(back, source);
  }
}

}  // namespace
}  // namespace pinring::copy
