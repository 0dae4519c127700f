// The pinring command from outside: exit codes and what is printed where.

#if !defined(_WIN32)
#include <sys/wait.h>
#endif

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "src/capi/options.h"
#include "src/cli/bench.h"
#include "src/cli/flags.h"
#include "src/os/threads.h"

namespace pinring {
namespace {

struct Outcome {
  int exit_status = -1;
  std::string out;
  std::string err;
};

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);  // As text: lines end as in C.
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The start of the names of this process's files.
std::string FileBase() {
  return absl::StrCat(testing::TempDir(), "/pinring_cli_test.",
                      os::ProcessId());
}

// Runs a command line of the system's shell whose output goes to the files
// FileBase() + ".out" and ".err", and takes these away.
Outcome RunShell(const std::string& command) {
  const std::string base = FileBase();
  const int status = std::system(command.c_str());
  Outcome outcome;
#if defined(_WIN32)
  outcome.exit_status = status;
#else
  if (status >= 0 && WIFEXITED(status)) {
    outcome.exit_status = WEXITSTATUS(status);
  }
#endif
  outcome.out = ReadFile(base + ".out");
  outcome.err = ReadFile(base + ".err");
  for (const char* suffix : {".out", ".err"}) {
    std::remove((base + suffix).c_str());
  }
  return outcome;
}

#if defined(_WIN32)

// Runs the command with at most one variable added to its environment.
Outcome Pinring(const std::string& arguments,
                const std::string& environment = "") {
  if (!environment.empty()) _putenv(environment.c_str());
  const std::string base = FileBase();
  // The shell takes the outermost quotes away.
  const Outcome outcome =
      RunShell(absl::StrCat("\"\"", PINRING_COMMAND, "\" ", arguments, " > \"",
                            base, ".out\" 2> \"", base, ".err\" < NUL\""));
  if (!environment.empty()) {
    _putenv(environment.substr(0, environment.find('=') + 1).c_str());
  }
  return outcome;
}

#else

Outcome Shell(const std::string& line) {
  const std::string base = FileBase();
  return RunShell(absl::StrCat("( ", line, " ) > ", base, ".out 2> ", base,
                               ".err < /dev/null"));
}

Outcome Pinring(const std::string& arguments,
                const std::string& environment = "") {
  return Shell(absl::StrCat(environment, " ", PINRING_COMMAND, " ", arguments));
}

#endif

size_t Lines(absl::string_view text) {
  size_t lines = 0;
  for (const char c : text) lines += c == '\n';
  return lines;
}

TEST(CliTest, VersionIsOneLine) {
  const Outcome outcome = Pinring("version");
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_EQ(outcome.out,
            absl::StrCat("pinring ", PINRING_PROJECT_VERSION, "\n"));
  EXPECT_EQ(Pinring("--version").out, outcome.out);
}

TEST(CliTest, TheDoctorSaysThatADeviceIsSimulated) {
  const Outcome outcome = Pinring("doctor --simulate");
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_TRUE(absl::StartsWith(outcome.out, "Simulated: ")) << outcome.out;
  EXPECT_TRUE(absl::StrContains(outcome.out, "Nothing is wrong"));
}

// What the probe pins, the task manager's meter shows and the framebuffer's
// does not; what is staged, neither does, but for the ring.
TEST(CliTest, TheDoctorsProbeShowsThatWddmChargesPinnedMemory) {
  const Outcome outcome =
      Pinring("doctor --simulate --json --probe-bytes=128MiB",
              "PINRING_SIMCUDA_WDDM=1");
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_TRUE(absl::StrContains(
      outcome.out,
      "{\"phase\":\"pinned\",\"bytes\":134217728,\"used_bytes\":{"
      "\"cuda_mem_get_info\":0,\"nvml\":0,\"windows_dedicated\":134217728,"))
      << outcome.out;
  EXPECT_TRUE(absl::StrContains(
      outcome.out,
      "{\"phase\":\"released\",\"bytes\":0,\"used_bytes\":{"
      "\"cuda_mem_get_info\":0,\"nvml\":0,\"windows_dedicated\":0,"))
      << outcome.out;
  EXPECT_TRUE(absl::StrContains(outcome.out, "\"error\":null"));
}

TEST(CliTest, ARefusedPinEndsTheProbeAndIsSaid) {
  const Outcome outcome = Pinring("doctor --simulate --probe-bytes=16MiB",
                                  "PINRING_SIMCUDA_FAULTS=cuMemHostAlloc:2:2");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_TRUE(absl::StrContains(outcome.out, "It ended early")) << outcome.out;
}

TEST(CliTest, TheDoctorRefusesWhatIsNoSize) {
  const Outcome outcome = Pinring("doctor --probe-bytes=many");
  EXPECT_EQ(outcome.exit_status, 2);
  EXPECT_TRUE(absl::StrContains(outcome.err, "--probe-bytes=many"));
}

TEST(CliTest, HelpListsTheCommandsAndTheirFlags) {
  const Outcome outcome = Pinring("help");
  EXPECT_EQ(outcome.exit_status, 0);
  for (const char* command : {"bench", "demo", "doctor", "options", "run",
                              "top", "version", "help"}) {
    EXPECT_TRUE(absl::StrContains(outcome.out, command));
  }
  const Outcome demo = Pinring("help demo");
  EXPECT_EQ(demo.exit_status, 0);
  EXPECT_TRUE(absl::StrContains(demo.out, "--size=BYTES"));
  EXPECT_EQ(Pinring("demo --help").out, demo.out);
}

TEST(CliTest, WhatMakesNoSenseIsNamedOnStandardErrorAndExitsWith2) {
  const struct {
    const char* arguments;
    const char* named;
  } kCases[] = {
      {"", "usage:"},
      {"dance", "dance"},
      {"help dance", "dance"},
      {"demo --speed=9", "--speed=9"},
      {"demo loud", "loud"},
      {"demo --size=huge", "--size=huge"},
      {"demo --size=0", "--size=0"},
      {"demo --size", "--size"},
      {"demo --json=1", "--json"},
      {"demo --streams=0", "--streams=0"},
      {"demo --streams=1000", "--streams=1000"},
      {"demo --size=1MiB --size=2MiB", "twice"},
      {"options --json", "--json"},
      {"bench --sizes=", "--sizes="},
      {"bench --sizes=1MiB,fast", "fast"},
      {"bench --sizes=1MiB,0", "\"0\""},
      {"bench --rounds=0", "--rounds=0"},
      {"version 2", "unknown argument 2"},
  };
  for (const auto& [arguments, named] : kCases) {
    const Outcome outcome = Pinring(arguments);
    EXPECT_EQ(outcome.exit_status, 2) << arguments;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_TRUE(absl::StrContains(outcome.err, named))
        << arguments << ": " << outcome.err;
  }
}

TEST(CliTest, OptionsShowsTheValuesOfTheEnvironment) {
  const Outcome outcome = Pinring("options", "PINRING_RING_BYTES=96MiB");
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_TRUE(absl::StrContains(outcome.out, "96MiB"));
  for (const OptionInfo& info : OptionTable()) {
    EXPECT_TRUE(absl::StrContains(outcome.out, info.environment));
  }
  EXPECT_EQ(Pinring("options --markdown").out, FormatOptionsMarkdown());
}

TEST(CliTest, ABadVariableIsNamed) {
  for (const char* command : {"options", "demo --size=1MiB"}) {
    const Outcome outcome = Pinring(command, "PINRING_RING_BYTES=lots");
    EXPECT_EQ(outcome.exit_status, 1) << command;
    EXPECT_TRUE(absl::StrContains(outcome.err, "PINRING_RING_BYTES=lots"))
        << outcome.err;
  }
}

TEST(CliTest, BenchComparesAndTimesNothingOnASimulatedDevice) {
  const Outcome outcome = Pinring("bench --sizes=1,70001,8MiB");
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_TRUE(absl::StartsWith(outcome.out, "Simulated device")) << outcome.out;
  EXPECT_TRUE(absl::StrContains(outcome.out, "Right: 0 wrong bytes"));
  EXPECT_FALSE(absl::StrContains(outcome.out, "GB/s")) << outcome.out;
}

TEST(CliTest, BenchSaysWhatItHasNoRoomFor) {
  const Outcome outcome = Pinring("bench --sizes=4KiB,900TiB");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_TRUE(absl::StrContains(outcome.err, "copies of 900.0 TiB"))
      << outcome.err;
}

TEST(CliTest, BenchDrawsTheFastestOfASizeLongest) {
  cli::Timing timing;
  timing.bytes = 4096;
  timing.paths = {{"pinned", "pinned", 1024, 0},
                  {"staged_sync", "staged, synchronous", 2048, 4096}};
  EXPECT_EQ(
      cli::FormatBars({timing}, true),
      absl::StrCat(
          "Host to device (medians; the longest bar of a size is the "
          "fastest)\n"
          "   4.0 KiB  pinned                        1.0 us    4.0 GB/s  ",
          std::string(32, '#'),
          "\n            staged, synchronous           2.0 us    2.0 "
          "GB/s  ",
          std::string(16, '#'), "\n"));
  const std::string out = cli::FormatBars({timing}, false);
  EXPECT_FALSE(absl::StrContains(out, "pinned ")) << out;
  EXPECT_TRUE(absl::StrContains(out, "   4.0 KiB  staged")) << out;
}

TEST(CliTest, DemoCopiesComparesAndShowsTheUsage) {
  const Outcome outcome = Pinring("demo --size=24MiB --streams=3");
  EXPECT_EQ(outcome.exit_status, 0) << outcome.out << outcome.err;
  EXPECT_TRUE(
      absl::StrContains(outcome.out, "Right: 0 wrong bytes of 24.0 MiB"))
      << outcome.out;
  for (const char* word : {"source", "destination", "Really pinned at most",
                           "limit 96.0 MiB", "copying: 48.0 MiB"}) {
    EXPECT_TRUE(absl::StrContains(outcome.out, word)) << word;
  }
  const std::string first = outcome.out.substr(0, outcome.out.find('\n'));
  if (absl::StartsWith(first, "Simulated device")) {
    EXPECT_FALSE(absl::StrContains(outcome.out, "/s")) << outcome.out;
    EXPECT_FALSE(absl::StrContains(outcome.err, "/s"));
  } else {
    EXPECT_TRUE(absl::StartsWith(first, "Device: ")) << first;
    EXPECT_TRUE(absl::StrContains(outcome.out, "GB/s"));
  }
}

TEST(CliTest, DemoPrintsExactlyOneJsonObject) {
  const Outcome outcome = Pinring("demo --size=9MiB --json");
  EXPECT_EQ(outcome.exit_status, 0) << outcome.err;
  EXPECT_EQ(Lines(outcome.out), 1u) << outcome.out;
#if defined(_WIN32)
  EXPECT_TRUE(absl::StrContains(outcome.out, "\"ok\":true")) << outcome.out;
  GTEST_SKIP() << "the object is not parsed on Windows: no python3 there";
#else
  const std::string path = FileBase() + ".json";
  std::ofstream(path) << outcome.out;
  const Outcome checked =
      Shell(absl::StrCat("python3 -c \"import json\n"
                         "d = json.load(open('",
                         path,
                         "'))\n"
                         "assert isinstance(d['device'], str) and d['device']\n"
                         "assert d['simulated'] in (True, False)\n"
                         "assert d['bytes'] == 9 << 20\n"
                         "assert d['wrong_bytes'] == 0\n"
                         "assert 0 < d['pinned_peak_bytes'] <= "
                         "d['pinned_limit_bytes'] == 96 << 20\n"
                         "assert d['usage']['schema'] == 'pinring.usage'\n"
                         "assert d['ok'] is True and 'error' not in d\n"
                         "assert ('timing' in d) != d['simulated']\n"
                         "\""));
  std::remove(path.c_str());
  if (checked.exit_status == 127) GTEST_SKIP() << "no python3";
  EXPECT_EQ(checked.exit_status, 0) << checked.err << outcome.out;
#endif
}

TEST(CliTest, WhatCannotBeWrittenIsAFailure) {
#if defined(_WIN32)
  GTEST_SKIP() << "Windows has no /dev/full";
#else
  if (Shell("test -w /dev/full").exit_status != 0)
    GTEST_SKIP() << "no /dev/full";
  for (const char* command :
       {"version", "options", "help", "options --markdown", "demo --size=1MiB",
        "demo --size=1MiB --json"}) {
    EXPECT_EQ(Pinring(absl::StrCat(command, " > /dev/full")).exit_status, 1)
        << command;
  }
#endif
}

TEST(CliTest, DemoFailsWithJsonWhereTheSizeDoesNotFit) {
  const Outcome outcome = Pinring("demo --size=1000TiB --json");
  EXPECT_EQ(outcome.exit_status, 1);
  EXPECT_TRUE(absl::StrContains(outcome.out, "\"ok\":false")) << outcome.out;
  EXPECT_TRUE(absl::StrContains(outcome.err, "smaller --size")) << outcome.err;
}

TEST(FlagsTest, ValuesComeAfterAnEqualsSignOrNext) {
  constexpr cli::FlagSpec kSpecs[] = {{"size", "BYTES", ""},
                                      {"json", nullptr, ""}};
  const auto flags = cli::Flags::Parse(kSpecs, {"--size", "8GiB", "--json"});
  ASSERT_TRUE(flags.ok());
  EXPECT_EQ(flags->Get("size"), "8GiB");
  EXPECT_TRUE(flags->Has("json"));
  EXPECT_EQ(cli::Flags::Parse(kSpecs, {"--size="})->Get("size"), "");
  EXPECT_FALSE(cli::Flags::Parse(kSpecs, {"-json"}).ok());
}

}  // namespace
}  // namespace pinring
