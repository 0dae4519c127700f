// The Prometheus form against the rules of the text exposition format.

#include "src/usage/usage_prometheus.h"

#include <cstdlib>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "src/usage/usage_ledger.h"

namespace pinring {
namespace {

// What is wrong with the text, a line each.
std::vector<std::string> Violations(const std::string& text) {
  static const std::regex kHelp(
      R"(# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) ([^\n]+))");
  static const std::regex kType(
      R"(# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram|summary|untyped))");
  // A value in quotes has no bare quote, and no escape but these three.
  static const std::regex kSample(
      R"re(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{([a-zA-Z_][a-zA-Z0-9_]*="([^"\\\n]|\\["\\n])*")(,[a-zA-Z_][a-zA-Z0-9_]*="([^"\\\n]|\\["\\n])*")*\})? (\S+))re");
  std::vector<std::string> wrong;
  if (text.empty() || text.back() != '\n') {
    wrong.emplace_back("the last line has no end");
  }
  std::map<std::string, std::string> types;
  std::set<std::string> helps;
  std::set<std::string> series;
  std::set<std::string> closed;
  std::string family;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, kHelp)) {
      if (!helps.insert(match[1]).second) wrong.push_back("twice: " + line);
    } else if (std::regex_match(line, match, kType)) {
      if (helps.count(match[1]) == 0) wrong.push_back("no HELP: " + line);
      if (!types.emplace(match[1], match[2]).second) {
        wrong.push_back("twice: " + line);
      }
      const std::string name = match[1];
      const bool total =
          name.size() > 6 && name.compare(name.size() - 6, 6, "_total") == 0;
      if (total != (match[2] == "counter")) {
        wrong.push_back("_total is for counters: " + line);
      }
      closed.insert(family);
      family = name;
    } else if (std::regex_match(line, match, kSample)) {
      if (match[1] != family || closed.count(match[1]) != 0) {
        wrong.push_back("outside of its family: " + line);
      }
      const std::string value = match[match.size() - 1];
      char* end = nullptr;
      const double number = std::strtod(value.c_str(), &end);
      if (end == value.c_str() || *end != '\0' || number < 0) {
        wrong.push_back("no value: " + line);
      }
      if (!series.insert(line.substr(0, line.rfind(' '))).second) {
        wrong.push_back("the series is there twice: " + line);
      }
    } else {
      wrong.push_back("neither comment nor sample: " + line);
    }
  }
  for (const std::string& name : helps) {
    if (types.count(name) == 0) wrong.push_back("no TYPE: " + name);
  }
  return wrong;
}

std::string Joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

TEST(UsagePrometheusTest, TheCheckFindsWhatIsWrong) {
  const std::string head = "# HELP a b c\n# TYPE a gauge\n";
  EXPECT_TRUE(Violations(head + "a 1\n").empty());
  EXPECT_TRUE(Violations(head + "a{x=\"\\n\\\\\\\"\"} 1.5\n").empty());
  for (const char* bad :
       {"a 1", "b 1\n", "a{x=\"\\t\"} 1\n", "a{x=\"\"\"} 1\n", "a x\n",
        "a{1x=\"\"} 1\n", "a 1\na 2\n", "a{x=\"1\"\n", "# TYPE a gauge\n"}) {
    EXPECT_FALSE(Violations(head + bad).empty()) << bad;
  }
  EXPECT_FALSE(Violations("# HELP a_total b\n# TYPE a_total gauge\n").empty());
  EXPECT_FALSE(Violations("# HELP a b\n# TYPE a counter\n").empty());
}

TEST(UsagePrometheusTest, AnEmptyLedgerIsWellFormed) {
  UsageLedger ledger;
  const auto wrong = Violations(FormatUsagePrometheus(ledger.Snapshot()));
  EXPECT_TRUE(wrong.empty()) << Joined(wrong);
}

TEST(UsagePrometheusTest, AnyNameIsWellFormed) {
  UsageLedger ledger;
  for (const char* name : {"plain", "quote\"", "back\\slash", "line\nend",
                           "tab\t\x1b[2J", "\xff\xfe", "u\xc3\xa9"}) {
    const auto id = ledger.categories().Intern(name);
    ASSERT_TRUE(id.ok());
    ledger.SetLimits(*id, {5, 10000});
    ledger.Allocated(*id, UsageKind::kStaged, 7);
    ledger.Copied(*id, CopyDirection::kHostToDevice, CopyPath::kStagedSync, 3,
                  1'500'000'001);
  }
  const std::string text = FormatUsagePrometheus(ledger.Snapshot());
  const auto wrong = Violations(text);
  EXPECT_TRUE(wrong.empty()) << Joined(wrong) << text;
  for (const char* line :
       {"pinring_allocated_bytes{category=\"plain\",kind=\"staged\"} 7\n",
        "pinring_allocated_bytes{category=\"quote\\\"\",kind=\"staged\"} 7\n",
        "pinring_allocated_bytes{category=\"line\\nend\",kind=\"staged\"} 7\n",
        "pinring_category_limit_bytes{category=\"plain\",limit=\"soft\"} 5\n",
        "pinring_copied_bytes_total{category=\"plain\",direction=\"host_to_"
        "device\",path=\"staged_sync\"} 3\n",
        "pinring_slot_wait_seconds_total{category=\"plain\",direction=\"host_"
        "to_device\",path=\"staged_sync\"} 1.500000001\n",
        "pinring_events_total{event=\"category_over_limit\"} 7\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  }
}

}  // namespace
}  // namespace pinring
