// The doctor's judgement over made-up machines, its bound, and its printed
// forms.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "src/cli/doctor_machine.h"
#include "src/cli/doctor_probe.h"
#include "src/cli/doctor_report.h"
#include "src/cli/doctor_verdict.h"

namespace pinring::cli {
namespace {

constexpr uint64_t kOneMiB = uint64_t{1} << 20;
constexpr uint64_t kOneGiB = uint64_t{1} << 30;

VerdictInput Card(uint64_t total_gib) {
  VerdictInput input;
  input.total_bytes = total_gib * kOneGiB;
  return input;
}

TEST(DoctorVerdictTest, AnEmptyCardIsFine) {
  VerdictInput input = Card(24);
  input.cuda_used_bytes = 1 * kOneGiB;
  input.framebuffer_used_bytes = 1 * kOneGiB;
  const Verdict verdict = Judge(input);
  EXPECT_EQ(verdict.kind, VerdictKind::kNothingWrong);
  EXPECT_TRUE(verdict.advice.empty());
  EXPECT_TRUE(absl::StrContains(verdict.text, "1.0 GiB of 24.0 GiB"));
}

TEST(DoctorVerdictTest, PinnedMemoryThatTheTaskManagerCountsIsSaidToBeThat) {
  VerdictInput input = Card(6);
  input.charges_pinned = true;
  input.cuda_used_bytes = 1200 * kOneMiB;
  input.framebuffer_used_bytes = 1200 * kOneMiB;
  input.system_used_bytes = 5300 * kOneMiB;
  input.pinned_bytes = 4096 * kOneMiB;
  const Verdict verdict = Judge(input);
  EXPECT_EQ(verdict.kind, VerdictKind::kPinnedCounted);
  EXPECT_TRUE(absl::StrContains(verdict.text, "4.0 GiB are known to be pinned"))
      << verdict.text;
  EXPECT_FALSE(verdict.advice.empty());
}

TEST(DoctorVerdictTest, SmallDifferencesBetweenMetersAreNone) {
  VerdictInput input = Card(24);
  input.charges_pinned = true;
  input.framebuffer_used_bytes = 2 * kOneGiB;
  // A fiftieth of the card is 491 MiB.
  input.system_used_bytes = 2 * kOneGiB + 491 * kOneMiB;
  EXPECT_EQ(Judge(input).kind, VerdictKind::kNothingWrong);
  *input.system_used_bytes += kOneMiB;
  EXPECT_EQ(Judge(input).kind, VerdictKind::kPinnedCounted);
}

TEST(DoctorVerdictTest, WithoutTheSystemsMeterKnownPinnedBytesFillTheBudget) {
  VerdictInput input = Card(8);
  input.charges_pinned = true;
  input.framebuffer_used_bytes = 2 * kOneGiB;
  input.pinned_bytes = 4 * kOneGiB;
  EXPECT_EQ(Judge(input).kind, VerdictKind::kNothingWrong);
  input.pinned_bytes = 6 * kOneGiB;
  EXPECT_EQ(Judge(input).kind, VerdictKind::kPinnedCounted);
  // Where nothing is charged, they do not matter.
  input.charges_pinned = false;
  EXPECT_EQ(Judge(input).kind, VerdictKind::kNothingWrong);
}

TEST(DoctorVerdictTest, AFullCardIsRealPressure) {
  VerdictInput input = Card(24);
  input.framebuffer_used_bytes = 22 * kOneGiB;
  input.processes = {{10, "one", 8 * kOneGiB, false},
                     {11, "two", 9 * kOneGiB, false}};
  const Verdict verdict = Judge(input);
  EXPECT_EQ(verdict.kind, VerdictKind::kRealPressure);
  EXPECT_FALSE(absl::StrContains(verdict.text, "Besides"));
}

TEST(DoctorVerdictTest, AFullCardThatOneOtherProcessFillsIsThatProcess) {
  VerdictInput input = Card(24);
  input.framebuffer_used_bytes = 23 * kOneGiB;
  input.processes = {{9, "mine", 20 * kOneGiB, true},
                     {10, "server", 12 * kOneGiB, false},
                     {11, "", std::nullopt, false}};
  const Verdict verdict = Judge(input);
  EXPECT_EQ(verdict.kind, VerdictKind::kOtherProcess);
  EXPECT_TRUE(absl::StrContains(verdict.text, "process 10 (server)"));
  input.processes[1].own = true;
  EXPECT_EQ(Judge(input).kind, VerdictKind::kRealPressure);
}

TEST(DoctorVerdictTest, AFullCardAndPinnedMemoryBesidesAreBothSaid) {
  VerdictInput input = Card(8);
  input.charges_pinned = true;
  input.framebuffer_used_bytes = 15 * kOneGiB / 2;
  input.system_used_bytes = 10 * kOneGiB;
  const Verdict verdict = Judge(input);
  EXPECT_EQ(verdict.kind, VerdictKind::kRealPressure);
  EXPECT_TRUE(absl::StrContains(verdict.text, "Besides, 2.5 GiB"));
}

TEST(DoctorVerdictTest, WithoutNvmlCudaIsBelieved) {
  VerdictInput input = Card(24);
  input.cuda_used_bytes = 23 * kOneGiB;
  EXPECT_EQ(Judge(input).kind, VerdictKind::kRealPressure);
}

TEST(DoctorVerdictTest, NoMeterIsUnclearAndNotNothing) {
  EXPECT_EQ(Judge(Card(24)).kind, VerdictKind::kUnclear);
  EXPECT_EQ(Judge({}).kind, VerdictKind::kUnclear);
}

TEST(DoctorVerdictTest, MetersThatContradictOnLinuxAreNotBlamedOnPinning) {
  VerdictInput input = Card(80);
  input.cuda_used_bytes = 40 * kOneGiB;
  input.framebuffer_used_bytes = 10 * kOneGiB;
  const Verdict verdict = Judge(input);
  EXPECT_EQ(verdict.kind, VerdictKind::kUnclear);
  EXPECT_TRUE(absl::StrContains(verdict.advice[0], "MIG"));
}

std::vector<Meter> Meters(uint64_t used, uint64_t total) {
  return {{"cuda_mem_get_info", "cuMemGetInfo", "device",
           MeterReading{used, total}}};
}

TEST(DoctorProbeTest, NoMoreThanAQuarterOfWhatIsFreeAnywhere) {
  EXPECT_EQ(BoundProbe(kOneGiB, 64 * kOneGiB, Meters(0, 24 * kOneGiB)).bytes,
            kOneGiB);
  EXPECT_EQ(BoundProbe(kOneGiB, 2 * kOneGiB, Meters(0, 24 * kOneGiB)).bytes,
            kOneGiB / 2);
  EXPECT_EQ(
      BoundProbe(kOneGiB, 64 * kOneGiB, Meters(23 * kOneGiB, 24 * kOneGiB))
          .bytes,
      kOneGiB / 4);
  EXPECT_EQ(
      BoundProbe(kOneGiB, 64 * kOneGiB, Meters(25 * kOneGiB, 24 * kOneGiB))
          .bytes,
      0u);
}

TEST(DoctorProbeTest, TheTaskManagersMeterHasTheCardsSize) {
  std::vector<Meter> meters = Meters(0, 8 * kOneGiB);
  meters.push_back({"windows_dedicated", "dedicated", "device",
                    MeterReading{6 * kOneGiB, std::nullopt}});
  EXPECT_EQ(BoundProbe(kOneGiB, 64 * kOneGiB, meters).bytes, kOneGiB / 2);
}

TEST(DoctorProbeTest, LittleWhereTheHostsMemoryIsNotKnown) {
  EXPECT_EQ(BoundProbe(kOneGiB, std::nullopt, Meters(0, 24 * kOneGiB)).bytes,
            64 * kOneMiB);
}

DoctorReport Made() {
  DoctorReport report;
  report.system = {{"wsl", "WSL", false},
                   {"numa", "NUMA node", absl::NotFoundError("no such file")},
                   {"limit", "limit", Bytes{8 * kOneMiB}},
                   {"cpus", "processors", uint64_t{16}}};
  report.host_processes =
      std::vector<HostProcess>{{7, "python3", 3 * kOneGiB, 2 * kOneGiB, false}};
  report.settings = {{"A", std::nullopt, "is one"}, {"B", "x\n\"", "is two"}};
  report.verdict.text = "All is well.";
  return report;
}

TEST(DoctorPrintTest, WhatIsMissingIsSaidToBeMissingAndWhy) {
  const std::string text = FormatDoctorText(Made());
  EXPECT_TRUE(absl::StrContains(text, "not known: no such file")) << text;
  EXPECT_TRUE(absl::StrContains(text, "8.0 MiB"));
  EXPECT_TRUE(absl::StrContains(text, "python3"));
  EXPECT_FALSE(absl::StrContains(text, "Simulated"));
  const std::string json = FormatDoctorJson(Made());
  EXPECT_TRUE(
      absl::StrContains(json, "\"numa\":{\"missing\":\"no such file\"}"))
      << json;
  EXPECT_TRUE(absl::StrContains(json, "\"limit\":{\"bytes\":8388608}"));
  EXPECT_TRUE(absl::StrContains(json, "\"value\":null"));
  EXPECT_TRUE(absl::StrContains(json, "\"value\":\"x\\n\\\"\""));
}

TEST(DoctorMachineTest, TheSimulatedOneSaysSoAndHasBothMeters) {
  const auto machine = DoctorMachine::Open(/*simulate=*/true);
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_FALSE((*machine)->simulated().empty());
  ASSERT_EQ((*machine)->device_count(), 1);
  ASSERT_TRUE((*machine)->Enter(0).ok());
  const std::vector<Meter> meters = (*machine)->ReadMeters(0);
  ASSERT_EQ(meters.size(), 3u);
  EXPECT_TRUE(meters[0].reading.ok());
  EXPECT_TRUE(meters[1].reading.ok());
}

}  // namespace
}  // namespace pinring::cli
