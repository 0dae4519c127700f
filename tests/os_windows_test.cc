// What src/os does on Windows alone.

#include <windows.h>

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "src/os/env.h"
#include "src/os/library.h"
#include "src/os/pages.h"
#include "src/os/system_info.h"
#include "src/os/text_windows.h"
#include "src/os/threads.h"

namespace pinring::os {
namespace {

// Two letters and one sign beyond the first plane.
constexpr char kUtf8[] = "gr\xc3\xb6\xc3\x9f \xf0\x9f\x98\x80";
constexpr wchar_t kUtf16[] = L"gr\xf6\xdf \xd83d\xde00";

TEST(TextTest, Utf8AndUtf16AreTheSameText) {
  EXPECT_EQ(Widen(kUtf8), kUtf16);
  EXPECT_EQ(Narrow(kUtf16), kUtf8);
  EXPECT_EQ(Widen(""), L"");
  EXPECT_EQ(Narrow(L""), "");
  EXPECT_EQ(Widen("\xff"), L"\xfffd");
}

TEST(TextTest, ErrorsHaveTheirNumberAndNoLineEnd) {
  const std::string text = WindowsErrorText(ERROR_MOD_NOT_FOUND);
  EXPECT_EQ(text.rfind("Windows error 126: ", 0), 0u) << text;
  EXPECT_EQ(text.find_first_of("\r\n"), std::string::npos);
  EXPECT_EQ(WindowsErrorText(0xdeadbeef), "Windows error 3735928559");
}

TEST(EnvTest, UnsetEmptyLongAndForeignValues) {
  constexpr wchar_t kName[] = L"PINRING_TEST_VARIABLE";
  ASSERT_TRUE(SetEnvironmentVariableW(kName, L""));
  EXPECT_EQ(GetEnv("PINRING_TEST_VARIABLE"), "");
  ASSERT_TRUE(SetEnvironmentVariableW(kName, kUtf16));
  EXPECT_EQ(GetEnv("PINRING_TEST_VARIABLE"), kUtf8);
  // Around the size that is tried first.
  for (const size_t length : {254, 255, 256, 257, 5000}) {
    ASSERT_TRUE(
        SetEnvironmentVariableW(kName, std::wstring(length, L'x').c_str()));
    EXPECT_EQ(GetEnv("PINRING_TEST_VARIABLE"), std::string(length, 'x'));
  }
  ASSERT_TRUE(SetEnvironmentVariableW(kName, nullptr));
  EXPECT_EQ(GetEnv("PINRING_TEST_VARIABLE"), std::nullopt);
}

TEST(WriteErrorLineTest, TheLastErrorStays) {
  testing::internal::CaptureStderr();
  WriteErrorLine("line");
  SetLastError(4711);
  WriteErrorLine("another");
  const DWORD error = GetLastError();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "line\nanother\n");
  EXPECT_EQ(error, 4711u);
}

TEST(ThreadTest, NamesAreUtf8AndAreNotCut) {
  std::string name;
  const std::string long_name(100, 'n');
  Thread::Start(kUtf8, [&] { name = ThreadName(); })->Join();
  EXPECT_EQ(name, kUtf8);
  Thread::Start(long_name, [&] { name = ThreadName(); })->Join();
  EXPECT_EQ(name, long_name);
}

TEST(ThreadTest, JoiningClosesTheHandle) {
  DWORD before = 0;
  ASSERT_TRUE(GetProcessHandleCount(GetCurrentProcess(), &before));
  if (before == 0) GTEST_SKIP() << "Wine counts no handles";
  for (int i = 0; i < 100; ++i) Thread::Start("short", [] {})->Join();
  DWORD after = 0;
  ASSERT_TRUE(GetProcessHandleCount(GetCurrentProcess(), &after));
  EXPECT_LT(after, before + 50);
}

TEST(CpusTest, TheAffinityMaskLimits) {
  DWORD_PTR before = 0;
  DWORD_PTR system = 0;
  ASSERT_TRUE(GetProcessAffinityMask(GetCurrentProcess(), &before, &system));
  ASSERT_NE(before, 0u);
  EXPECT_GE(UsableCpus(), 1);
  EXPECT_LE(UsableCpus(), std::popcount(before));
  ASSERT_TRUE(
      SetProcessAffinityMask(GetCurrentProcess(), before & (~before + 1)));
  EXPECT_EQ(UsableCpus(), 1);
  ASSERT_TRUE(SetProcessAffinityMask(GetCurrentProcess(), before));
  EXPECT_GE(UsableCpus(), 1);
}

TEST(ClockTest, ShortSleepsAreShorterThanATickOfTheSystem) {
  const uint64_t begin = MonotonicNanos();
  for (int i = 0; i < 100; ++i) SleepMicros(50);
  const uint64_t taken = MonotonicNanos() - begin;
  EXPECT_GE(taken, 100u * 50'000u);
  EXPECT_LT(taken, 100u * 10'000'000u);  // With Sleep: 1.56 s.
}

TEST(SharedLibraryTest, BareNamesAreNotLookedForInTheCurrentFolder) {
  const std::string name = "pinring_os_windows_test.dll";
  wchar_t before[MAX_PATH];
  wchar_t folder[MAX_PATH];
  ASSERT_NE(GetCurrentDirectoryW(MAX_PATH, before), 0u);
  ASSERT_NE(GetTempPathW(MAX_PATH, folder), 0u);
  wchar_t system[MAX_PATH];
  ASSERT_NE(GetSystemDirectoryW(system, MAX_PATH), 0u);
  const std::wstring copy = std::wstring(folder) + Widen(name);
  ASSERT_TRUE(CopyFileW((std::wstring(system) + L"\\version.dll").c_str(),
                        copy.c_str(), FALSE));
  ASSERT_TRUE(SetCurrentDirectoryW(folder));
  EXPECT_FALSE(SharedLibrary::Open({name.c_str()}).ok());
  EXPECT_TRUE(SharedLibrary::Open({Narrow(copy).c_str()}).ok());
  ASSERT_TRUE(SetCurrentDirectoryW(before));
}

TEST(PagesTest, AlignmentLeavesNoAddressesBehind) {
  for (const size_t alignment :
       {size_t{1} << 16, size_t{2} << 20, size_t{1} << 30, size_t{128} << 30}) {
    constexpr size_t kBytes = 300'000;
    const absl::StatusOr<void*> base = ReservePages(kBytes, alignment);
    ASSERT_TRUE(base.ok()) << base.status();
    MEMORY_BASIC_INFORMATION region = {};
    ASSERT_NE(VirtualQuery(*base, &region, sizeof region), 0u);
    EXPECT_EQ(region.AllocationBase, *base);
    EXPECT_EQ(region.RegionSize, *RoundUp(kBytes, PageBytes()));
    ASSERT_TRUE(ReleasePages(*base, kBytes).ok());
    ASSERT_NE(VirtualQuery(*base, &region, sizeof region), 0u);
    EXPECT_EQ(region.State, DWORD{MEM_FREE});
  }
}

TEST(PagesTest, ThreadsThatReserveAtOnceAllSucceed) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 300; ++i) {
        constexpr size_t kBytes = size_t{3} << 20;
        constexpr size_t kAlignment = size_t{2} << 20;
        const absl::StatusOr<void*> base = ReservePages(kBytes, kAlignment);
        ASSERT_TRUE(base.ok()) << base.status();
        ASSERT_EQ(reinterpret_cast<uintptr_t>(*base) % kAlignment, 0u);
        static_cast<char*>(*base)[kBytes - 1] = 1;
        ASSERT_TRUE(ReleasePages(*base, kBytes).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(SystemInfoTest, APipeOrAFileIsNoTerminal) {
  testing::internal::CaptureStderr();
  const bool terminal = IsTerminal(StandardStream::kError);
  const int columns = TerminalColumns(StandardStream::kError);
  testing::internal::GetCapturedStderr();
  EXPECT_FALSE(terminal);
  EXPECT_EQ(columns, 80);
}

}  // namespace
}  // namespace pinring::os
