#include "src/capi/options.h"

#include <cstdint>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace pinring {
namespace {

// ReadEnvironment of variables that are only these.
absl::Status Read(const std::map<std::string, std::string>& variables,
                  Options* options) {
  return ReadEnvironment(
      [&](const char* name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        if (found == variables.end()) return std::nullopt;
        return found->second;
      },
      options);
}

TEST(ParseBytesTest, UnderstandsEverySuffixInEveryCase) {
  EXPECT_EQ(ParseBytes("0").value(), 0u);
  EXPECT_EQ(ParseBytes("17").value(), 17u);
  EXPECT_EQ(ParseBytes("17B").value(), 17u);
  EXPECT_EQ(ParseBytes("3KiB").value(), 3 * kKiB);
  EXPECT_EQ(ParseBytes("3k").value(), 3 * kKiB);
  EXPECT_EQ(ParseBytes("64MiB").value(), 64 * kMiB);
  EXPECT_EQ(ParseBytes("64mib").value(), 64 * kMiB);
  EXPECT_EQ(ParseBytes("64M").value(), 64 * kMiB);
  EXPECT_EQ(ParseBytes("8GiB").value(), 8 * kGiB);
  EXPECT_EQ(ParseBytes("8 GiB").value(), 8 * kGiB);
  EXPECT_EQ(ParseBytes("2TiB").value(), 2048 * kGiB);
}

TEST(ParseBytesTest, RefusesWhatIsNoSize) {
  for (const char* text : {"", " ", "MiB", "-1", "+1", "1.5GiB", "0x10", "1e3",
                           "64MB ", "64 MiB x", "64MiBs", "sixty"}) {
    EXPECT_FALSE(ParseBytes(text).ok()) << "'" << text << "'";
  }
}

TEST(ParseBytesTest, RefusesWhatDoesNotFitInto64Bits) {
  EXPECT_EQ(ParseBytes("18446744073709551615").value(),
            std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(ParseBytes("18446744073709551616").status().code(),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ(ParseBytes("16777215TiB").value(), uint64_t{16777215} << 40);
  EXPECT_EQ(ParseBytes("16777216TiB").status().code(),
            absl::StatusCode::kOutOfRange);
}

TEST(ParseCountTest, TakesWholeNumbersOnly) {
  EXPECT_EQ(ParseCount("12").value(), 12u);
  for (const char* text : {"", "12k", "-3", "1.0", "twelve", "12 "}) {
    EXPECT_FALSE(ParseCount(text).ok()) << "'" << text << "'";
  }
}

TEST(OptionsTest, DefaultsAreTheDocumentedOnes) {
  const Options options;
  EXPECT_EQ(options.ring_bytes, 64 * kMiB);
  EXPECT_EQ(options.small_pool_bytes, 16 * kMiB);
  EXPECT_EQ(options.small_limit_bytes, 64 * kKiB);
  EXPECT_EQ(options.pinned_limit_bytes, 0u);
  EXPECT_EQ(options.movers, 0u);
  EXPECT_TRUE(options.enabled);
  EXPECT_TRUE(options.promote);
  EXPECT_FALSE(options.show_usage);
  EXPECT_EQ(options.kernel, "auto");
}

TEST(OptionsTest, EveryValueThatIsPrintedIsReadBack) {
  for (const OptionInfo& info : OptionTable()) {
    Options options;
    const std::string value = FormatOptionValue(info, options);
    EXPECT_TRUE(SetOption(info.name, value, &options).ok())
        << info.name << "=" << value;
    EXPECT_EQ(options, Options()) << info.name;
  }
}

TEST(OptionsTest, NamesAreUniqueAndEnvironmentNamesFollowThem) {
  std::set<std::string> names;
  for (const OptionInfo& info : OptionTable()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_TRUE(absl::StartsWith(info.environment, "PINRING_"));
    EXPECT_TRUE(absl::EqualsIgnoreCase(info.environment,
                                       absl::StrCat("PINRING_", info.name)));
    EXPECT_NE(std::string(info.help), "");
  }
}

TEST(OptionsTest, EnvironmentSetsEveryType) {
  Options options;
  ASSERT_TRUE(Read({{"PINRING_RING_BYTES", "128MiB"},
                    {"PINRING_MOVERS", "3"},
                    {"PINRING_PROMOTE", "off"},
                    {"PINRING_VERBOSE", "YES"},
                    {"PINRING_KERNEL", "memcpy"}},
                   &options)
                  .ok());
  EXPECT_EQ(options.ring_bytes, 128 * kMiB);
  EXPECT_EQ(options.movers, 3u);
  EXPECT_FALSE(options.promote);
  EXPECT_TRUE(options.verbose);
  EXPECT_EQ(options.kernel, "memcpy");
}

TEST(OptionsTest, LimitsOfCategories) {
  const auto limits =
      ParseCategoryLimits("weights=1GiB/2GiB; a=b=512MiB;soft=1KiB/;h=/3;");
  ASSERT_TRUE(limits.ok()) << limits.status();
  EXPECT_EQ(*limits, (std::vector<CategoryLimits>{{"weights", kGiB, 2 * kGiB},
                                                  {"a=b", 0, 512 * kMiB},
                                                  {"soft", kKiB, 0},
                                                  {"h", 0, 3}}));
  EXPECT_TRUE(ParseCategoryLimits("")->empty());
  for (const char* bad : {"x", "x=", "=1", "x=1/2/3", "x=many", "x=1;y"}) {
    EXPECT_FALSE(ParseCategoryLimits(bad).ok()) << bad;
    Options options;
    EXPECT_FALSE(SetOption("category_limits", bad, &options).ok()) << bad;
    EXPECT_EQ(options, Options());
  }
  Options options;
  EXPECT_TRUE(
      ApplySettings("movers=2, category_limits=x=1MiB/2MiB;y=1", &options)
          .ok());
  EXPECT_EQ(options.category_limits, "x=1MiB/2MiB;y=1");
}

TEST(OptionsTest, AnEmptyVariableCountsAsUnset) {
  Options options;
  ASSERT_TRUE(Read({{"PINRING_RING_BYTES", ""}}, &options).ok());
  EXPECT_EQ(options, Options());
}

TEST(OptionsTest, ABadVariableIsNamedWithItsValueAndWhatIsAccepted) {
  Options options;
  const absl::Status status = Read({{"PINRING_RING_BYTES", "lots"}}, &options);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(status.message(), "PINRING_RING_BYTES=lots"))
      << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "64KiB to 64GiB")) << status;
}

TEST(OptionsTest, AllBadVariablesAreNamedAndNoneIsSet) {
  Options options;
  const absl::Status status = Read({{"PINRING_MOVERS", "many"},
                                    {"PINRING_ENABLED", "maybe"},
                                    {"PINRING_RING_BYTES", "1GiB"}},
                                   &options);
  EXPECT_TRUE(absl::StrContains(status.message(), "PINRING_MOVERS=many"));
  EXPECT_TRUE(absl::StrContains(status.message(), "PINRING_ENABLED=maybe"));
  EXPECT_EQ(options, Options());
}

TEST(OptionsTest, RangesBindAtBothEnds) {
  Options options;
  EXPECT_TRUE(SetOption("ring_bytes", "64KiB", &options).ok());
  EXPECT_FALSE(SetOption("ring_bytes", "65535", &options).ok());
  EXPECT_TRUE(SetOption("ring_bytes", "64GiB", &options).ok());
  EXPECT_FALSE(SetOption("ring_bytes", "68719476737", &options).ok());
  EXPECT_FALSE(SetOption("movers", "257", &options).ok());
}

TEST(OptionsTest, ZeroIsTakenOnlyWhereItMeansSomething) {
  Options options;
  EXPECT_FALSE(SetOption("ring_bytes", "0", &options).ok());
  EXPECT_TRUE(SetOption("pinned_limit_bytes", "0", &options).ok());
  EXPECT_TRUE(SetOption("slot_bytes", "0", &options).ok());
}

TEST(OptionsTest, KernelsAreCheckedByName) {
  Options options;
  EXPECT_TRUE(SetOption("kernel", "memcpy:auto", &options).ok());
  EXPECT_EQ(options.kernel, "memcpy:auto");
  EXPECT_FALSE(SetOption("kernel", "magic", &options).ok());
  EXPECT_FALSE(SetOption("kernel", "auto:auto:auto", &options).ok());
  EXPECT_EQ(options.kernel, "memcpy:auto");
}

TEST(SettingsTest, TakesNamesOfBothKinds) {
  Options options;
  ASSERT_TRUE(
      ApplySettings("Ring_Bytes=1MiB, PINRING_MOVERS=2\tpromote=0", &options)
          .ok());
  EXPECT_EQ(options.ring_bytes, 1 * kMiB);
  EXPECT_EQ(options.movers, 2u);
  EXPECT_FALSE(options.promote);
}

TEST(SettingsTest, SetsAllOrNothing) {
  Options options;
  const absl::Status status =
      ApplySettings("ring_bytes=1MiB,rinq_bytes=2MiB", &options);
  EXPECT_TRUE(absl::StrContains(status.message(), "rinq_bytes=2MiB")) << status;
  EXPECT_EQ(options, Options());
  EXPECT_FALSE(ApplySettings("ring_bytes", &options).ok());
  EXPECT_EQ(options, Options());
}

TEST(SettingsTest, NothingToSetIsNoError) {
  Options options;
  EXPECT_TRUE(ApplySettings("", &options).ok());
  EXPECT_TRUE(ApplySettings(" , ,", &options).ok());
  EXPECT_EQ(options, Options());
}

TEST(OptionsPrintTest, EveryOptionIsListedInBothForms) {
  const std::string text = FormatOptions(Options());
  const std::string markdown = FormatOptionsMarkdown();
  for (const OptionInfo& info : OptionTable()) {
    EXPECT_TRUE(absl::StrContains(text, info.environment));
    EXPECT_TRUE(
        absl::StrContains(markdown, absl::StrCat("| `", info.name, "` |")));
    EXPECT_TRUE(absl::StrContains(markdown, AcceptedValues(info)));
  }
}

TEST(OptionsPrintTest, TheReadmeShowsTheTable) {
  std::ifstream file(PINRING_SOURCE_DIR "/README.md");
  if (!file) GTEST_SKIP() << "no README.md";
  std::ostringstream readme;
  readme << file.rdbuf();
  EXPECT_TRUE(absl::StrContains(
      readme.str(), absl::StrCat("<!-- options -->\n", FormatOptionsMarkdown(),
                                 "<!-- /options -->")))
      << "Put the output of `pinring options --markdown` between "
         "<!-- options --> and <!-- /options --> in README.md.";
}

}  // namespace
}  // namespace pinring
