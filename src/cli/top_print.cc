#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/cli/top.h"
#include "src/usage/json_writer.h"
#include "src/usage/usage_print.h"

namespace pinring::cli {
namespace {

constexpr size_t kToDevice = static_cast<size_t>(CopyDirection::kHostToDevice);
constexpr size_t kToHost = static_cast<size_t>(CopyDirection::kDeviceToHost);

struct Traffic {
  CopyUsage copies[kNumCopyDirections][kNumCopyPaths] = {};

  uint64_t Bytes(size_t direction) const {
    uint64_t bytes = 0;
    for (const CopyUsage& each : copies[direction]) bytes += each.bytes;
    return bytes;
  }
  uint64_t WaitNanos() const {
    uint64_t nanos = 0;
    for (const auto& paths : copies) {
      for (const CopyUsage& each : paths) nanos += each.wait_ns;
    }
    return nanos;
  }
  uint64_t AllBytes() const {
    uint64_t bytes = 0;
    for (size_t d = 0; d < kNumCopyDirections; ++d) bytes += Bytes(d);
    return bytes;
  }
  void Add(const PublishedCategory& category) {
    for (size_t d = 0; d < kNumCopyDirections; ++d) {
      for (size_t p = 0; p < kNumCopyPaths; ++p) {
        copies[d][p].bytes += category.copies[d][p].bytes;
        copies[d][p].count += category.copies[d][p].count;
        copies[d][p].wait_ns += category.copies[d][p].wait_ns;
      }
    }
  }
};

Traffic TrafficOf(const PublishedProcess& process) {
  Traffic traffic;
  for (size_t i = 0; i < process.usage.category_count; ++i) {
    traffic.Add(process.usage.categories[i]);
  }
  return traffic;
}

Traffic TrafficOf(const PublishedCategory& category) {
  Traffic traffic;
  traffic.Add(category);
  return traffic;
}

const PublishedProcess* FindProcess(const TopSample* sample,
                                    const PublishedProcess& like) {
  if (sample == nullptr) return nullptr;
  for (const PublishedProcess& process : sample->processes) {
    if (process.pid == like.pid && process.instance == like.instance) {
      return &process;
    }
  }
  return nullptr;
}

const PublishedCategory* FindCategory(const PublishedProcess* process,
                                      const PublishedCategory& like) {
  if (process == nullptr) return nullptr;
  for (size_t i = 0; i < process->usage.category_count; ++i) {
    const PublishedCategory& category = process->usage.categories[i];
    if (std::string_view(category.name) == like.name) return &category;
  }
  return nullptr;
}

// In bytes a second; none where there is nothing to compare with.
std::optional<uint64_t> Rate(uint64_t now, std::optional<uint64_t> before,
                             uint64_t nanos) {
  if (!before.has_value() || nanos == 0) return std::nullopt;
  // A category that moved to "(others)", or a process of the same number.
  if (now < *before) return std::nullopt;
  return static_cast<uint64_t>(static_cast<double>(now - *before) * 1e9 /
                               static_cast<double>(nanos));
}

std::string RateText(std::optional<uint64_t> rate) {
  if (!rate.has_value()) return "-";
  return absl::StrCat(HumanBytes(*rate), "/s");
}

uint64_t Pinned(const PublishedUsage& usage) { return usage.pinned_bytes; }

uint64_t StagedOf(const uint64_t (&kinds)[kNumUsageKinds]) {
  return kinds[static_cast<size_t>(UsageKind::kStaged)];
}

uint64_t PinnedOf(const uint64_t (&kinds)[kNumUsageKinds]) {
  uint64_t bytes = 0;
  for (size_t kind = 0; kind < kNumUsageKinds; ++kind) {
    if (static_cast<UsageKind>(kind) != UsageKind::kStaged) {
      bytes += kinds[kind];
    }
  }
  return bytes;
}

// Names come from other processes.
std::string Printable(std::string_view name) {
  return absl::Utf8SafeCHexEscape(absl::string_view(name.data(), name.size()));
}

std::string Line(const std::string& who, uint64_t current, uint64_t peak,
                 uint64_t staged, uint64_t pinned, const std::string& to_device,
                 const std::string& to_host, const std::string& waited) {
  return absl::StrFormat("%-34s %10s %10s %10s %10s %12s %12s %9s",
                         who.substr(0, 34), HumanBytes(current),
                         HumanBytes(peak), HumanBytes(staged),
                         HumanBytes(pinned), to_device, to_host, waited);
}

std::string WaitText(const Traffic& traffic) {
  return absl::StrFormat("%.1f ms",
                         static_cast<double>(traffic.WaitNanos()) / 1e6);
}

class Table {
 public:
  Table(const TopSample& now, const TopSample* before)
      : before_(before),
        nanos_(before == nullptr ? 0 : now.time_ns - before->time_ns) {}

  void Add(const PublishedProcess& process, bool paths,
           std::vector<std::string>& lines) const {
    const PublishedProcess* const earlier = FindProcess(before_, process);
    const Traffic traffic = TrafficOf(process);
    std::optional<Traffic> was;
    if (earlier != nullptr) was = TrafficOf(*earlier);
    std::string who =
        absl::StrCat(process.pid, " ", Printable(process.program));
    if (process.instance != 0) {
      absl::StrAppend(&who, " (instance ", process.instance, ")");
    }
    if (process.behind) who += " ~";
    lines.push_back(Line(who, process.usage.all_bytes,
                         process.usage.all_peak_bytes,
                         StagedOf(process.usage.kinds), Pinned(process.usage),
                         RateOf(traffic, was, kToDevice),
                         RateOf(traffic, was, kToHost), WaitText(traffic)));
    for (size_t i = 0; i < process.usage.category_count; ++i) {
      const PublishedCategory& category = process.usage.categories[i];
      const PublishedCategory* const old = FindCategory(earlier, category);
      const Traffic own = TrafficOf(category);
      std::optional<Traffic> own_was;
      if (old != nullptr) own_was = TrafficOf(*old);
      lines.push_back(Line(absl::StrCat("  ", Printable(category.name)),
                           category.current_bytes, category.peak_bytes,
                           StagedOf(category.kinds), PinnedOf(category.kinds),
                           RateOf(own, own_was, kToDevice),
                           RateOf(own, own_was, kToHost), WaitText(own)));
    }
    if (paths) AddPaths(traffic, was, lines);
  }

 private:
  std::string RateOf(const Traffic& now, const std::optional<Traffic>& was,
                     size_t direction) const {
    std::optional<uint64_t> before;
    if (was.has_value()) before = was->Bytes(direction);
    return RateText(Rate(now.Bytes(direction), before, nanos_));
  }

  void AddPaths(const Traffic& now, const std::optional<Traffic>& was,
                std::vector<std::string>& lines) const {
    for (size_t d = 0; d < kNumCopyDirections; ++d) {
      for (size_t p = 0; p < kNumCopyPaths; ++p) {
        const CopyUsage& copies = now.copies[d][p];
        if (copies.count == 0) continue;
        std::optional<uint64_t> before;
        if (was.has_value()) before = was->copies[d][p].bytes;
        lines.push_back(absl::StrFormat(
            "    %s, %s: %s in %s copies, %s",
            std::string(CopyDirectionName(static_cast<CopyDirection>(d))),
            std::string(CopyPathName(static_cast<CopyPath>(p))),
            HumanBytes(copies.bytes), ExactCount(copies.count),
            RateText(Rate(copies.bytes, before, nanos_))));
      }
    }
  }

  const TopSample* const before_;
  const uint64_t nanos_;
};

std::vector<const PublishedProcess*> Ordered(const TopSample& now,
                                             const TopSample* before,
                                             TopOrder order) {
  std::vector<std::pair<uint64_t, const PublishedProcess*>> keyed;
  for (const PublishedProcess& process : now.processes) {
    uint64_t key = 0;
    switch (order) {
      case TopOrder::kMemory:
        key = process.usage.all_bytes;
        break;
      case TopOrder::kPeak:
        key = process.usage.all_peak_bytes;
        break;
      case TopOrder::kCopies: {
        key = TrafficOf(process).AllBytes();
        const PublishedProcess* const earlier = FindProcess(before, process);
        if (earlier != nullptr) {
          key -= std::min(key, TrafficOf(*earlier).AllBytes());
        }
        break;
      }
      case TopOrder::kPid:
        break;
    }
    keyed.emplace_back(key, &process);
  }
  std::sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first > b.first;
    return std::pair(a.second->pid, a.second->instance) <
           std::pair(b.second->pid, b.second->instance);
  });
  std::vector<const PublishedProcess*> processes;
  processes.reserve(keyed.size());
  for (const auto& [key, process] : keyed) processes.push_back(process);
  return processes;
}

void WriteKinds(const uint64_t (&kinds)[kNumUsageKinds], JsonWriter& json) {
  json.BeginObject();
  for (size_t kind = 0; kind < kNumUsageKinds; ++kind) {
    json.Field(UsageKindName(static_cast<UsageKind>(kind)), kinds[kind]);
  }
  json.EndObject();
}

void WriteCopies(const Traffic& now, const std::optional<Traffic>& was,
                 uint64_t nanos, JsonWriter& json) {
  json.BeginArray();
  for (size_t d = 0; d < kNumCopyDirections; ++d) {
    for (size_t p = 0; p < kNumCopyPaths; ++p) {
      const CopyUsage& copies = now.copies[d][p];
      if (copies.count == 0) continue;
      std::optional<uint64_t> before;
      if (was.has_value()) before = was->copies[d][p].bytes;
      const auto rate = Rate(copies.bytes, before, nanos);
      json.BeginObject();
      json.Field("direction", CopyDirectionName(static_cast<CopyDirection>(d)));
      json.Field("path", CopyPathName(static_cast<CopyPath>(p)));
      json.Field("bytes", copies.bytes);
      json.Field("count", copies.count);
      json.Field("wait_ns", copies.wait_ns);
      json.Key("bytes_per_second");
      if (rate.has_value()) {
        json.Number(*rate);
      } else {
        json.Null();
      }
      json.EndObject();
    }
  }
  json.EndArray();
}

void WriteProcess(const PublishedProcess& process,
                  const PublishedProcess* earlier, uint64_t now_ns,
                  uint64_t nanos, JsonWriter& json) {
  const PublishedUsage& usage = process.usage;
  std::optional<Traffic> was;
  if (earlier != nullptr) was = TrafficOf(*earlier);
  json.BeginObject();
  json.Key("pid");
  json.Number(process.pid);
  json.Field("instance", process.instance);
  json.Field("program", process.program);
  json.Field("age_ns", now_ns - std::min(now_ns, usage.time_ns));
  json.Key("behind");
  json.Bool(process.behind);
  json.Key("pinned");
  json.BeginObject();
  json.Field("current_bytes", usage.pinned_bytes);
  json.Field("peak_bytes", usage.pinned_peak_bytes);
  json.Field("limit_bytes", usage.pinned_limit_bytes);
  json.EndObject();
  json.Field("current_bytes", usage.all_bytes);
  json.Field("peak_bytes", usage.all_peak_bytes);
  json.Key("kinds");
  WriteKinds(usage.kinds, json);
  json.Key("categories");
  json.BeginArray();
  for (size_t i = 0; i < usage.category_count; ++i) {
    const PublishedCategory& category = usage.categories[i];
    const PublishedCategory* const old = FindCategory(earlier, category);
    std::optional<Traffic> own_was;
    if (old != nullptr) own_was = TrafficOf(*old);
    json.BeginObject();
    json.Field("name", std::string_view(category.name));
    json.Field("current_bytes", category.current_bytes);
    json.Field("peak_bytes", category.peak_bytes);
    json.Field("blocks", category.blocks);
    json.Key("kinds");
    WriteKinds(category.kinds, json);
    json.Key("copies");
    WriteCopies(TrafficOf(category), own_was, nanos, json);
    json.EndObject();
  }
  json.EndArray();
  json.Key("copies");
  WriteCopies(TrafficOf(process), was, nanos, json);
  json.Key("events");
  json.BeginObject();
  for (size_t e = 0; e < kNumUsageEvents; ++e) {
    json.Field(UsageEventName(static_cast<UsageEvent>(e)), usage.events[e]);
  }
  json.EndObject();
  json.EndObject();
}

}  // namespace

std::string FormatTop(const TopSample& now, const TopSample* before,
                      TopOrder order, bool paths, int rows, int columns) {
  std::vector<std::string> lines;
  if (rows > 0) {
    lines.push_back(
        "sort: m memory  k peak  c copies  n pid   p copy paths   q quit");
  }
  lines.push_back(absl::StrFormat(
      "%-34s %10s %10s %10s %10s %12s %12s %9s", "PROCESS, CATEGORY", "CURRENT",
      "PEAK", "STAGED", "PINNED", "TO DEVICE", "TO HOST", "WAITED"));
  const Table table(now, before);
  bool behind = false;
  for (const PublishedProcess* process : Ordered(now, before, order)) {
    table.Add(*process, paths, lines);
    behind = behind || process->behind;
  }
  if (now.processes.empty()) {
    lines.emplace_back("no process of yours has allocated through pinring");
  }
  if (behind) lines.emplace_back("~ has done something since it last said");
  if (rows > 0 && lines.size() > static_cast<size_t>(rows)) {
    lines.resize(static_cast<size_t>(rows));
  }
  std::string out;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string& line = lines[i];
    if (columns > 0 && line.size() > static_cast<size_t>(columns)) {
      line.resize(static_cast<size_t>(columns));
    }
    // A line end in the last row would scroll the screen.
    const bool last = rows > 0 && i + 1 == lines.size();
    absl::StrAppend(&out, line, last ? "" : "\n");
  }
  return out;
}

std::string FormatTopJson(const TopSample& now, const TopSample* before) {
  const uint64_t nanos = before == nullptr ? 0 : now.time_ns - before->time_ns;
  JsonWriter json;
  json.BeginObject();
  json.Field("schema", "pinring.top");
  json.Field("version", kTopJsonVersion);
  json.Field("interval_ns", nanos);
  json.Key("processes");
  json.BeginArray();
  for (const PublishedProcess* process :
       Ordered(now, before, TopOrder::kMemory)) {
    WriteProcess(*process, FindProcess(before, *process), now.time_ns, nanos,
                 json);
  }
  json.EndArray();
  json.EndObject();
  return std::move(json).Take();
}

}  // namespace pinring::cli
