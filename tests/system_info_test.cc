#include "src/os/system_info.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "gtest/gtest.h"

namespace pinring::os {
namespace {

TEST(SystemInfoTest, SomeMemoryIsAvailable) {
  const std::optional<uint64_t> bytes = AvailableMemoryBytes();
  ASSERT_TRUE(bytes.has_value());
  EXPECT_GT(*bytes, uint64_t{1} << 20);
}

TEST(SystemInfoTest, ATerminalHasColumns) {
  EXPECT_GT(TerminalColumns(StandardStream::kOutput), 0);
  EXPECT_GT(TerminalColumns(StandardStream::kError), 0);
}

#if !defined(__linux__)
TEST(SystemInfoTest, MeminfoAndControlGroups) {
  EXPECT_EQ(ParseMemAvailable("MemAvailable: 70 kB\n"), std::nullopt);
  EXPECT_EQ(CgroupAvailableMemory("0::/a\n", "."), std::nullopt);
  GTEST_SKIP() << "these are of Linux only";
}
#else

TEST(SystemInfoTest, AvailableMemoryIsReadFromMeminfo) {
  EXPECT_EQ(ParseMemAvailable("MemTotal:       100 kB\n"
                              "MemFree:         10 kB\n"
                              "MemAvailable:    70 kB\n"),
            uint64_t{70} << 10);
  EXPECT_EQ(ParseMemAvailable("MemTotal: 100 kB\n"), std::nullopt);
  EXPECT_EQ(ParseMemAvailable("MemAvailable: lots\n"), std::nullopt);
  EXPECT_EQ(ParseMemAvailable(""), std::nullopt);
}

class CgroupMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "/pinring_cgroups";
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Group(const std::string& name, const std::string& most,
             const std::string& used, const std::string& stat) {
    const std::string directory = root_ + name;
    std::filesystem::create_directories(directory);
    std::ofstream(directory + "/memory.max") << most << "\n";
    std::ofstream(directory + "/memory.current") << used << "\n";
    std::ofstream(directory + "/memory.stat") << stat;
  }

  std::string root_;
};

TEST_F(CgroupMemoryTest, TheTightestGroupOnTheWayUpBinds) {
  Group("/a/b", "1000", "100", "");
  Group("/a", "500", "300", "");
  EXPECT_EQ(CgroupAvailableMemory("0::/a/b\n", root_), 200u);
}

TEST_F(CgroupMemoryTest, CleanFilePagesDoNotCountAsUsed) {
  Group("/a", "1000", "900", "anon 100\ninactive_file 600\n");
  EXPECT_EQ(CgroupAvailableMemory("0::/a\n", root_), 700u);
}

TEST_F(CgroupMemoryTest, AGroupBeyondItsLimitLeavesNothing) {
  Group("/a", "1000", "1200", "");
  EXPECT_EQ(CgroupAvailableMemory("0::/a\n", root_), 0u);
}

TEST_F(CgroupMemoryTest, NoLimitIsNone) {
  Group("/a", "max", "1200", "");
  EXPECT_EQ(CgroupAvailableMemory("0::/a\n", root_), std::nullopt);
  EXPECT_EQ(CgroupAvailableMemory("1:name=systemd:/a\n", root_), std::nullopt);
  EXPECT_EQ(CgroupAvailableMemory("", root_), std::nullopt);
}

#endif

}  // namespace
}  // namespace pinring::os
