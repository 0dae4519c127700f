#include "src/usage/usage_prometheus.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/usage/json_writer.h"

namespace pinring {
namespace {

struct Label {
  const char* name;
  std::string_view value;
};

// A label's value in quotes. The escapes are JSON's for these three characters;
// what else JSON escapes must stand as it is.
std::string Quoted(std::string_view value) {
  std::string plain;
  for (const char c : value) {
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
    plain += control && c != '\n' ? '?' : c;
  }
  JsonWriter json;
  json.String(plain);
  return std::move(json).Take();
}

class Exposition {
 public:
  // Begins a family of samples.
  void Family(const char* name, const char* type, const char* help) {
    name_ = name;
    absl::StrAppend(&text_, "# HELP ", name, " ", help, "\n# TYPE ", name, " ",
                    type, "\n");
  }
  void Sample(uint64_t value, std::initializer_list<Label> labels = {}) {
    Head(labels);
    absl::StrAppend(&text_, value, "\n");
  }
  void SampleSeconds(uint64_t nanos, std::initializer_list<Label> labels) {
    Head(labels);
    absl::StrAppendFormat(&text_, "%d.%09d\n", nanos / 1'000'000'000,
                          nanos % 1'000'000'000);
  }
  std::string Take() && { return std::move(text_); }

 private:
  void Head(std::initializer_list<Label> labels) {
    text_ += name_;
    const char* between = "{";
    for (const Label& label : labels) {
      absl::StrAppend(&text_, between, label.name, "=", Quoted(label.value));
      between = ",";
    }
    if (labels.size() > 0) text_ += "}";
    text_ += " ";
  }

  const char* name_ = "";
  std::string text_;
};

template <typename Figure>
void ByCategory(const UsageSnapshot& snapshot, Exposition& out,
                Figure UsageAmount::*figure) {
  for (const CategoryUsage& category : snapshot.categories) {
    for (size_t kind = 0; kind < kNumUsageKinds; ++kind) {
      const UsageAmount& amount = category.by_kind[kind];
      if (amount.total_count == 0) continue;
      out.Sample(amount.*figure,
                 {{"category", category.name},
                  {"kind", UsageKindName(static_cast<UsageKind>(kind))}});
    }
  }
}

void Limits(const UsageSnapshot& snapshot, Exposition& out) {
  out.Family("pinring_category_limit_bytes", "gauge",
             "Limit over all memory of a category.");
  for (const CategoryUsage& category : snapshot.categories) {
    if (category.soft_limit_bytes != 0) {
      out.Sample(category.soft_limit_bytes,
                 {{"category", category.name}, {"limit", "soft"}});
    }
    if (category.hard_limit_bytes != 0) {
      out.Sample(category.hard_limit_bytes,
                 {{"category", category.name}, {"limit", "hard"}});
    }
  }
}

template <typename Write>
void ByCopy(const UsageSnapshot& snapshot, Write write) {
  for (const CategoryUsage& category : snapshot.categories) {
    for (size_t d = 0; d < kNumCopyDirections; ++d) {
      for (size_t p = 0; p < kNumCopyPaths; ++p) {
        const CopyUsage& copies = category.copies[d][p];
        if (copies.count == 0) continue;
        write(copies, Label{"category", category.name},
              Label{"direction",
                    CopyDirectionName(static_cast<CopyDirection>(d))},
              Label{"path", CopyPathName(static_cast<CopyPath>(p))});
      }
    }
  }
}

}  // namespace

std::string FormatUsagePrometheus(const UsageSnapshot& snapshot) {
  Exposition out;
  out.Family("pinring_pinned_bytes", "gauge", "Host memory really pinned.");
  out.Sample(snapshot.pinned_bytes);
  out.Family("pinring_pinned_peak_bytes", "gauge",
             "Most host memory really pinned at one instant.");
  out.Sample(snapshot.pinned_peak_bytes);
  out.Family("pinring_pinned_limit_bytes", "gauge",
             "Limit on really pinned memory; 0: none.");
  out.Sample(snapshot.pinned_limit_bytes);

  out.Family("pinring_allocated_bytes", "gauge", "Host memory in use.");
  ByCategory(snapshot, out, &UsageAmount::current_bytes);
  out.Family("pinring_allocated_peak_bytes", "gauge",
             "Most host memory in use at one instant.");
  ByCategory(snapshot, out, &UsageAmount::peak_bytes);
  out.Family("pinring_blocks", "gauge", "Blocks of host memory in use.");
  ByCategory(snapshot, out, &UsageAmount::current_count);
  out.Family("pinring_allocated_bytes_total", "counter",
             "Host memory ever allocated.");
  ByCategory(snapshot, out, &UsageAmount::total_bytes);
  out.Family("pinring_allocations_total", "counter",
             "Blocks of host memory ever allocated.");
  ByCategory(snapshot, out, &UsageAmount::total_count);
  Limits(snapshot, out);

  out.Family("pinring_copied_bytes_total", "counter", "Bytes copied.");
  ByCopy(snapshot, [&](const CopyUsage& copies, Label a, Label b, Label c) {
    out.Sample(copies.bytes, {a, b, c});
  });
  out.Family("pinring_copies_total", "counter", "Copies asked for.");
  ByCopy(snapshot, [&](const CopyUsage& copies, Label a, Label b, Label c) {
    out.Sample(copies.count, {a, b, c});
  });
  out.Family("pinring_slot_wait_seconds_total", "counter",
             "Time that copies waited for slots of the ring.");
  ByCopy(snapshot, [&](const CopyUsage& copies, Label a, Label b, Label c) {
    out.SampleSeconds(copies.wait_ns, {a, b, c});
  });

  out.Family("pinring_events_total", "counter",
             "Fallbacks, refusals and what else costs speed or memory.");
  for (size_t e = 0; e < kNumUsageEvents; ++e) {
    out.Sample(snapshot.events[e],
               {{"event", UsageEventName(static_cast<UsageEvent>(e))}});
  }
  return std::move(out).Take();
}

}  // namespace pinring
