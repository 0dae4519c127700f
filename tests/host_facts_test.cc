#include "src/os/host_facts.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/os/threads.h"

namespace pinring::os {
namespace {

TEST(HostFactsTest, ThisProcessHoldsSomething) {
  const auto memory = ThisProcess();
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->pid, ProcessId());
  EXPECT_GT(memory->resident_bytes, 0u);
  EXPECT_FALSE(SystemName().empty());
}

TEST(HostFactsTest, TheProcessorHasANameOrTheReasonIsSaid) {
  const auto name = ProcessorName();
  if (name.ok()) {
    EXPECT_FALSE(name->empty());
  } else {
    EXPECT_FALSE(name.status().message().empty());
  }
}

#if defined(__linux__)

TEST(HostFactsTest, ThisProcessIsOneOfTheUsers) {
  const auto processes = ProcessesOfUser();
  ASSERT_TRUE(processes.ok()) << processes.status();
  size_t found = 0;
  for (const ProcessMemory& process : *processes) {
    found += process.pid == ProcessId();
  }
  EXPECT_EQ(found, 1u);
}

TEST(HostFactsTest, TheProcessorsNameIsThatOfTheFirst) {
  EXPECT_EQ(ParseProcessorName("processor\t: 0\nmodel\t\t: 143\n"
                               "model name\t: A: B (R) 2.0GHz \n"
                               "processor\t: 1\nmodel name\t: C\n"),
            "A: B (R) 2.0GHz");
  EXPECT_EQ(ParseProcessorName("processor\t: 0\nBogoMIPS\t: 50\n"), "");
  EXPECT_EQ(ParseProcessorName(""), "");
}

TEST(HostFactsTest, FiguresOfAProcessComeFromItsStatus) {
  const auto memory = ParseProcessStatus(
      "Name:\tpython3 -c\nPid:\t41\nPPid:\t40\nVmLck:\t       4 kB\n"
      "VmRSS:\t   12 kB\nRssAnon:\t 1 kB\nRssShmem:\t   8 kB\n");
  ASSERT_TRUE(memory.has_value());
  EXPECT_EQ(memory->pid, 41);
  EXPECT_EQ(memory->name, "python3 -c");
  EXPECT_EQ(memory->resident_bytes, 12u << 10);
  EXPECT_EQ(memory->shared_bytes, 8u << 10);
  EXPECT_EQ(memory->locked_bytes, 4u << 10);
  EXPECT_FALSE(ParseProcessStatus("Name:\tkthreadd\nPid:\t2\n").has_value());
}

TEST(HostFactsTest, WordsAndGenerations) {
  EXPECT_EQ(ChosenWord("always [madvise] never\n"), "madvise");
  EXPECT_EQ(ChosenWord("always madvise"), "");
  EXPECT_EQ(ChosenWord("]x["), "");
  EXPECT_EQ(PciGeneration("32.0 GT/s PCIe"), 5);
  EXPECT_EQ(PciGeneration("2.5 GT/s"), 1);
  EXPECT_EQ(PciGeneration("Unknown"), 0);
  EXPECT_EQ(PciGeneration(""), 0);
}

TEST(HostFactsTest, TheSmallestLimitOfTheGroupsAndThoseAboveCounts) {
  namespace fs = std::filesystem;
  const fs::path root = fs::path(testing::TempDir()) / "host_facts_groups";
  fs::remove_all(root);
  fs::create_directories(root / "a" / "b");
  fs::create_directories(root / "memory" / "c");
  const auto write = [](const fs::path& path, const std::string& text) {
    std::ofstream(path) << text << "\n";
  };
  write(root / "a" / "memory.max", "1048576");
  write(root / "a" / "b" / "memory.max", "max");
  write(root / "memory" / "c" / "memory.limit_in_bytes", "2097152");
  write(root / "memory" / "memory.limit_in_bytes", "9223372036854771712");
  EXPECT_EQ(CgroupMemoryLimit("0::/a/b\n", root.string()), 1048576u);
  EXPECT_EQ(CgroupMemoryLimit("4:cpu,memory:/c\n", root.string()), 2097152u);
  EXPECT_EQ(CgroupMemoryLimit("4:memory:/\n", root.string()), std::nullopt);
  EXPECT_EQ(CgroupMemoryLimit("4:cpu:/c\n0::/\n", root.string()), std::nullopt);
  fs::remove_all(root);
}

TEST(HostFactsTest, AMissingCardIsAnErrorThatNamesTheFile) {
  const auto link = PciLinkOf("ffff:ff:1f.0");
  ASSERT_FALSE(link.ok());
  EXPECT_NE(link.status().message().find("ffff:ff:1f.0"), std::string::npos);
  EXPECT_FALSE(NumaNodeOf("ffff:ff:1f.0").ok());
}

#else

TEST(HostFactsTest, WhatIsOfLinuxSaysWhy) {
  EXPECT_FALSE(LockedMemoryLimit().status().message().empty());
  EXPECT_FALSE(ProcessesOfUser().ok());
  GTEST_SKIP() << "the rest is of Linux only";
}

#endif

}  // namespace
}  // namespace pinring::os
