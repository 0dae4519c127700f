#include "src/usage/usage_print.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace pinring {
namespace {

// Columns as wide as their widest cell; the first `left_columns` are aligned
// to the left, figures to the right.
class TextTable {
 public:
  TextTable(size_t left_columns, std::vector<std::string> header)
      : left_columns_(left_columns) {
    rows_.push_back(std::move(header));
  }

  void AddRow(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.size() == 1; }

  std::string ToString() const {
    std::vector<size_t> widths(rows_[0].size());
    for (const auto& row : rows_) {
      for (size_t i = 0; i < row.size(); ++i) {
        widths[i] = std::max(widths[i], row[i].size());
      }
    }
    std::string out;
    for (const auto& row : rows_) {
      std::string line;
      for (size_t i = 0; i < row.size(); ++i) {
        const std::string padding(widths[i] - row[i].size(), ' ');
        line += "  ";
        line += i < left_columns_ ? row[i] + padding : padding + row[i];
      }
      line.erase(line.find_last_not_of(' ') + 1);
      out += line + "\n";
    }
    return out;
  }

 private:
  const size_t left_columns_;
  std::vector<std::vector<std::string>> rows_;  // The header is the first.
};

std::string Bytes(uint64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  return absl::StrCat(HumanBytes(bytes), " (", ExactCount(bytes), ")");
}

void AddAmount(TextTable& table, std::vector<std::string> row,
               const UsageAmount& amount) {
  row.push_back(Bytes(amount.current_bytes));
  row.push_back(Bytes(amount.peak_bytes));
  row.push_back(Bytes(amount.total_bytes));
  row.push_back(ExactCount(amount.current_count));
  row.push_back(ExactCount(amount.total_count));
  table.AddRow(std::move(row));
}

std::string PrintableName(const std::string& name) {
  return absl::Utf8SafeCHexEscape(name);
}

std::string CategoryTableText(const UsageSnapshot& snapshot) {
  TextTable table(2, {"category", "kind", "current", "peak", "total", "blocks",
                      "allocations"});
  for (const CategoryUsage& category : snapshot.categories) {
    if (category.all.total_count == 0) continue;
    size_t kinds_used = 0;
    for (size_t kind = 0; kind < kNumUsageKinds; ++kind) {
      const UsageAmount& amount = category.by_kind[kind];
      if (amount.total_count == 0) continue;
      ++kinds_used;
      AddAmount(table,
                {PrintableName(category.name),
                 std::string(UsageKindName(static_cast<UsageKind>(kind)))},
                amount);
    }
    if (kinds_used > 1) {
      AddAmount(table, {PrintableName(category.name), "all"}, category.all);
    }
  }
  return table.empty() ? "  nothing allocated\n" : table.ToString();
}

std::string KindTableText(const UsageSnapshot& snapshot) {
  TextTable table(
      1, {"kind", "current", "peak", "total", "blocks", "allocations"});
  for (size_t kind = 0; kind < kNumUsageKinds; ++kind) {
    if (snapshot.kinds[kind].total_count == 0) continue;
    AddAmount(table, {std::string(UsageKindName(static_cast<UsageKind>(kind)))},
              snapshot.kinds[kind]);
  }
  if (table.empty()) return "  nothing allocated\n";
  AddAmount(table, {"all"}, snapshot.all);
  return table.ToString();
}

std::string CopyTableText(const UsageSnapshot& snapshot) {
  TextTable table(2,
                  {"direction", "path", "bytes", "copies", "waited for slots"});
  for (size_t d = 0; d < kNumCopyDirections; ++d) {
    for (size_t p = 0; p < kNumCopyPaths; ++p) {
      const CopyUsage& copies = snapshot.copies[d][p];
      if (copies.count == 0) continue;
      table.AddRow(
          {std::string(CopyDirectionName(static_cast<CopyDirection>(d))),
           std::string(CopyPathName(static_cast<CopyPath>(p))),
           Bytes(copies.bytes), ExactCount(copies.count),
           absl::StrFormat("%.3f ms",
                           static_cast<double>(copies.wait_ns) / 1e6)});
    }
  }
  return table.empty() ? "  none\n" : table.ToString();
}

// Where a category took part in copies, all its paths together.
std::string CategoryCopyTableText(const UsageSnapshot& snapshot) {
  TextTable table(2, {"category", "direction", "bytes", "copies"});
  for (const CategoryUsage& category : snapshot.categories) {
    for (size_t d = 0; d < kNumCopyDirections; ++d) {
      CopyUsage sum;
      for (const CopyUsage& copies : category.copies[d]) {
        sum.bytes += copies.bytes;
        sum.count += copies.count;
      }
      if (sum.count == 0) continue;
      table.AddRow(
          {PrintableName(category.name),
           std::string(CopyDirectionName(static_cast<CopyDirection>(d))),
           Bytes(sum.bytes), ExactCount(sum.count)});
    }
  }
  return table.empty() ? "  none\n" : table.ToString();
}

std::string EventTableText(const UsageSnapshot& snapshot) {
  std::string out;
  for (size_t e = 0; e < kNumUsageEvents; ++e) {
    if (snapshot.events[e] == 0) continue;
    const auto event = static_cast<UsageEvent>(e);
    const std::string_view what = UsageEventDescription(event);
    absl::StrAppend(&out, "  ", ExactCount(snapshot.events[e]), " ",
                    absl::string_view(what.data(), what.size()), "\n");
  }
  return out.empty() ? "  none\n" : out;
}

void WriteAmount(const UsageAmount& amount, JsonWriter& json) {
  json.BeginObject();
  json.Field("current_bytes", amount.current_bytes);
  json.Field("peak_bytes", amount.peak_bytes);
  json.Field("peak_since_mark_bytes", amount.marked_peak_bytes);
  json.Field("total_bytes", amount.total_bytes);
  json.Field("current_count", amount.current_count);
  json.Field("total_count", amount.total_count);
  json.EndObject();
}

void WriteCopies(const CopyUsages& usages, JsonWriter& json) {
  json.BeginArray();
  for (size_t d = 0; d < kNumCopyDirections; ++d) {
    for (size_t p = 0; p < kNumCopyPaths; ++p) {
      const CopyUsage& copies = usages[d][p];
      if (copies.count == 0) continue;
      json.BeginObject();
      json.Field("direction", CopyDirectionName(static_cast<CopyDirection>(d)));
      json.Field("path", CopyPathName(static_cast<CopyPath>(p)));
      json.Field("bytes", copies.bytes);
      json.Field("count", copies.count);
      json.Field("wait_ns", copies.wait_ns);
      json.EndObject();
    }
  }
  json.EndArray();
}

void WriteCategory(const CategoryUsage& category, JsonWriter& json) {
  json.BeginObject();
  json.Field("name", category.name);
  json.Key("all");
  WriteAmount(category.all, json);
  json.Key("kinds");
  json.BeginObject();
  for (size_t kind = 0; kind < kNumUsageKinds; ++kind) {
    if (category.by_kind[kind].total_count == 0) continue;
    json.Key(UsageKindName(static_cast<UsageKind>(kind)));
    WriteAmount(category.by_kind[kind], json);
  }
  json.EndObject();
  json.Field("soft_limit_bytes", category.soft_limit_bytes);
  json.Field("hard_limit_bytes", category.hard_limit_bytes);
  json.Key("copies");
  WriteCopies(category.copies, json);
  json.EndObject();
}

}  // namespace

std::string HumanBytes(uint64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB",
                                           "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  // 1023.95 would print as 1024.0 of the smaller unit.
  while (value >= 1023.95 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string ExactCount(uint64_t n) {
  std::string digits = absl::StrCat(n);
  for (size_t from_end = 3; from_end < digits.size(); from_end += 4) {
    digits.insert(digits.size() - from_end, 1, ',');
  }
  return digits;
}

std::string FormatUsageText(const UsageSnapshot& snapshot) {
  return absl::StrCat(
      "Really pinned: ", Bytes(snapshot.pinned_bytes), " now, ",
      Bytes(snapshot.pinned_peak_bytes), " at peak, limit ",
      snapshot.pinned_limit_bytes == 0 ? "not set"
                                       : Bytes(snapshot.pinned_limit_bytes),
      "\n\nBy category:\n", CategoryTableText(snapshot), "\nBy kind:\n",
      KindTableText(snapshot), "\nCopies:\n", CopyTableText(snapshot),
      "\nCopies by category:\n", CategoryCopyTableText(snapshot),
      "\nFallbacks:\n", EventTableText(snapshot));
}

void WriteUsageJson(const UsageSnapshot& snapshot, JsonWriter& json) {
  json.BeginObject();
  json.Field("schema", "pinring.usage");
  json.Field("version", kUsageJsonVersion);
  json.Key("pinned");
  json.BeginObject();
  json.Field("current_bytes", snapshot.pinned_bytes);
  json.Field("peak_bytes", snapshot.pinned_peak_bytes);
  json.Field("peak_since_mark_bytes", snapshot.pinned_marked_peak_bytes);
  json.Field("limit_bytes", snapshot.pinned_limit_bytes);
  json.EndObject();
  json.Key("all");
  WriteAmount(snapshot.all, json);
  json.Key("kinds");
  json.BeginObject();
  for (size_t kind = 0; kind < kNumUsageKinds; ++kind) {
    json.Key(UsageKindName(static_cast<UsageKind>(kind)));
    WriteAmount(snapshot.kinds[kind], json);
  }
  json.EndObject();
  json.Key("categories");
  json.BeginArray();
  for (const CategoryUsage& category : snapshot.categories) {
    WriteCategory(category, json);
  }
  json.EndArray();
  json.Key("copies");
  WriteCopies(snapshot.copies, json);
  json.Key("events");
  json.BeginObject();
  for (size_t e = 0; e < kNumUsageEvents; ++e) {
    json.Field(UsageEventName(static_cast<UsageEvent>(e)), snapshot.events[e]);
  }
  json.EndObject();
  json.EndObject();
}

std::string FormatUsageJson(const UsageSnapshot& snapshot) {
  JsonWriter json;
  WriteUsageJson(snapshot, json);
  return std::move(json).Take();
}

}  // namespace pinring
