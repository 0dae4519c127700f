#include "src/capi/options.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "src/copy/kernels.h"

namespace pinring {
namespace {

struct Unit {
  const char* name;
  uint64_t bytes;
};

// Those with an "i" are printed; the largest first.
constexpr Unit kUnits[] = {
    {"TiB", kGiB << 10}, {"GiB", kGiB},     {"MiB", kMiB},
    {"KiB", kKiB},       {"T", kGiB << 10}, {"G", kGiB},
    {"M", kMiB},         {"K", kKiB},       {"B", 1},
};

constexpr const char* kTrueWords[] = {"1", "on", "true", "yes"};
constexpr const char* kFalseWords[] = {"0", "off", "false", "no"};

// The environment variable of the option `name`.
std::string EnvironmentName(absl::string_view name) {
  return absl::StrCat("PINRING_", absl::AsciiStrToUpper(name));
}

// The digits at the beginning of *text, which are removed from it.
absl::StatusOr<uint64_t> ConsumeDigits(absl::string_view* text) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  if (text->empty() || !absl::ascii_isdigit(text->front())) {
    return absl::InvalidArgumentError("not a number");
  }
  uint64_t value = 0;
  while (!text->empty() && absl::ascii_isdigit(text->front())) {
    const uint64_t digit = static_cast<uint64_t>(text->front() - '0');
    if (value > (kMax - digit) / 10) {
      return absl::OutOfRangeError("beyond 64 bits");
    }
    value = value * 10 + digit;
    text->remove_prefix(1);
  }
  return value;
}

std::string FormatBytes(uint64_t bytes) {
  for (const Unit& unit : kUnits) {
    if (bytes >= unit.bytes && bytes % unit.bytes == 0 && unit.bytes > 1) {
      return absl::StrCat(bytes / unit.bytes, unit.name);
    }
  }
  return absl::StrCat(bytes);
}

std::string FormatNumber(const OptionInfo& info, uint64_t value) {
  return info.type == OptionType::kBytes ? FormatBytes(value)
                                         : absl::StrCat(value);
}

absl::StatusOr<bool> ParseBool(absl::string_view text) {
  const auto is = [text](const char* word) {
    return absl::EqualsIgnoreCase(text, word);
  };
  if (std::any_of(std::begin(kTrueWords), std::end(kTrueWords), is)) {
    return true;
  }
  if (std::any_of(std::begin(kFalseWords), std::end(kFalseWords), is)) {
    return false;
  }
  return absl::InvalidArgumentError("neither on nor off");
}

// "auto", a kernel that this processor has, or two of these, "IN:OUT".
absl::Status CheckKernel(absl::string_view text) {
  const std::vector<absl::string_view> names = absl::StrSplit(text, ':');
  if (names.size() > 2) return absl::InvalidArgumentError("too many names");
  for (const absl::string_view name : names) {
    if (name == "auto") continue;
    if (auto kernel = copy::FindKernel(name); !kernel.ok()) {
      return kernel.status();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> ParseInRange(const OptionInfo& info,
                                      absl::string_view text) {
  auto value =
      info.type == OptionType::kBytes ? ParseBytes(text) : ParseCount(text);
  if (!value.ok()) return value;
  if (*value == 0 && info.zero != nullptr) return value;
  if (*value < info.least) return absl::OutOfRangeError("too small");
  if (*value > info.most) return absl::OutOfRangeError("too large");
  return value;
}

absl::Status ParseInto(const OptionInfo& info, absl::string_view text,
                       Options* options) {
  switch (info.type) {
    case OptionType::kBytes:
    case OptionType::kCount: {
      auto value = ParseInRange(info, text);
      if (!value.ok()) return value.status();
      options->*std::get<uint64_t Options::*>(info.field) = *value;
      return absl::OkStatus();
    }
    case OptionType::kBool: {
      auto value = ParseBool(text);
      if (!value.ok()) return value.status();
      options->*std::get<bool Options::*>(info.field) = *value;
      return absl::OkStatus();
    }
    case OptionType::kKernel: {
      std::string name = absl::AsciiStrToLower(text);
      if (auto status = CheckKernel(name); !status.ok()) return status;
      options->*std::get<std::string Options::*>(info.field) = std::move(name);
      return absl::OkStatus();
    }
    case OptionType::kLimits:
      if (auto limits = ParseCategoryLimits(text); !limits.ok()) {
        return limits.status();
      }
      [[fallthrough]];
    case OptionType::kNames:
      options->*std::get<std::string Options::*>(info.field) =
          std::string(text);
      return absl::OkStatus();
  }
  return absl::InternalError("an option of no type");
}

// Sets an option that was called `given` where it was found.
absl::Status SetNamed(const OptionInfo& info, absl::string_view given,
                      absl::string_view value, Options* options) {
  const absl::string_view text = absl::StripAsciiWhitespace(value);
  const absl::Status status = ParseInto(info, text, options);
  if (status.ok()) return status;
  return absl::InvalidArgumentError(absl::StrCat(given, "=", value, ": ",
                                                 status.message(), "; accepts ",
                                                 AcceptedValues(info)));
}

const OptionInfo* FindOption(absl::string_view name) {
  for (const OptionInfo& info : OptionTable()) {
    if (absl::EqualsIgnoreCase(name, info.name) || name == info.environment) {
      return &info;
    }
  }
  return nullptr;
}

std::vector<OptionInfo> MakeTable() {
  // The environment names live as long as the table, for ever.
  static const auto& environment_names = *new std::vector<std::string>{
#define PINRING_OPTION_ENVIRONMENT(type, name, initial, least, most, zero, \
                                   help)                                   \
  EnvironmentName(#name),
      PINRING_OPTIONS(PINRING_OPTION_ENVIRONMENT)
#undef PINRING_OPTION_ENVIRONMENT
  };
  std::vector<OptionInfo> table;
#define PINRING_OPTION_INFO(type, name, initial, least, most, zero, help)  \
  table.push_back({#name, environment_names[table.size()].c_str(),         \
                   OptionType::k##type, &Options::name, least, most, zero, \
                   help});
  PINRING_OPTIONS(PINRING_OPTION_INFO)
#undef PINRING_OPTION_INFO
  return table;
}

}  // namespace

absl::Span<const OptionInfo> OptionTable() {
  static const auto& table = *new std::vector<OptionInfo>(MakeTable());
  return table;
}

absl::StatusOr<uint64_t> ParseCount(absl::string_view text) {
  auto value = ConsumeDigits(&text);
  if (value.ok() && !text.empty()) {
    return absl::InvalidArgumentError("not a whole number");
  }
  return value;
}

absl::StatusOr<uint64_t> ParseBytes(absl::string_view text) {
  auto value = ConsumeDigits(&text);
  if (!value.ok()) return value;
  text = absl::StripLeadingAsciiWhitespace(text);
  if (text.empty()) return value;
  for (const Unit& unit : kUnits) {
    if (!absl::EqualsIgnoreCase(text, unit.name)) continue;
    if (*value > std::numeric_limits<uint64_t>::max() / unit.bytes) {
      return absl::OutOfRangeError("beyond 64 bits");
    }
    return *value * unit.bytes;
  }
  return absl::InvalidArgumentError("not a size");
}

absl::StatusOr<std::vector<CategoryLimits>> ParseCategoryLimits(
    absl::string_view text) {
  std::vector<CategoryLimits> limits;
  for (const absl::string_view entry :
       absl::StrSplit(text, ';', absl::SkipWhitespace())) {
    const size_t equals = entry.rfind('=');
    if (equals == absl::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("no size for category ", entry));
    }
    CategoryLimits one;
    one.name = std::string(absl::StripAsciiWhitespace(entry.substr(0, equals)));
    if (one.name.empty()) {
      return absl::InvalidArgumentError("a size without a category");
    }
    const std::vector<absl::string_view> sizes =
        absl::StrSplit(entry.substr(equals + 1), '/');
    if (sizes.size() > 2) return absl::InvalidArgumentError("too many sizes");
    for (size_t i = 0; i < sizes.size(); ++i) {
      const absl::string_view size = absl::StripAsciiWhitespace(sizes[i]);
      if (size.empty() && sizes.size() == 2) continue;
      const auto bytes = ParseBytes(size);
      if (!bytes.ok()) return bytes.status();
      (i + 1 == sizes.size() ? one.hard_bytes : one.soft_bytes) = *bytes;
    }
    limits.push_back(std::move(one));
  }
  return limits;
}

absl::Status SetOption(absl::string_view name, absl::string_view value,
                       Options* options) {
  const OptionInfo* info = FindOption(name);
  if (info == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, "=", value, ": no such option; the options are ",
        absl::StrJoin(OptionTable(), ", ",
                      [](std::string* out, const OptionInfo& known) {
                        out->append(known.name);
                      })));
  }
  return SetNamed(*info, name, value, options);
}

absl::Status ApplySettings(absl::string_view settings, Options* options) {
  Options changed = *options;
  for (const absl::string_view setting :
       absl::StrSplit(settings, absl::ByAnyChar(", \t\n"), absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(setting, absl::MaxSplits('=', 1));
    if (!absl::StrContains(setting, '=')) {
      return absl::InvalidArgumentError(absl::StrCat(
          setting,
          ": not a setting; settings are written name=value, as in "
          "ring_bytes=128MiB"));
    }
    if (auto status = SetOption(parts.first, parts.second, &changed);
        !status.ok()) {
      return status;
    }
  }
  *options = std::move(changed);
  return absl::OkStatus();
}

absl::Status ReadEnvironment(
    absl::FunctionRef<std::optional<std::string>(const char* name)> get_env,
    Options* options) {
  Options changed = *options;
  std::vector<std::string> complaints;
  for (const OptionInfo& info : OptionTable()) {
    const std::optional<std::string> value = get_env(info.environment);
    if (!value.has_value() || value->empty()) continue;
    const absl::Status status =
        SetNamed(info, info.environment, *value, &changed);
    if (!status.ok()) complaints.emplace_back(status.message());
  }
  if (!complaints.empty()) {
    return absl::InvalidArgumentError(absl::StrJoin(complaints, "\n"));
  }
  *options = std::move(changed);
  return absl::OkStatus();
}

std::string FormatOptionValue(const OptionInfo& info, const Options& options) {
  switch (info.type) {
    case OptionType::kBytes:
    case OptionType::kCount:
      return FormatNumber(info,
                          options.*std::get<uint64_t Options::*>(info.field));
    case OptionType::kBool:
      return options.*std::get<bool Options::*>(info.field) ? "on" : "off";
    case OptionType::kKernel:
    case OptionType::kNames:
    case OptionType::kLimits:
      return options.*std::get<std::string Options::*>(info.field);
  }
  return "";
}

std::string AcceptedValues(const OptionInfo& info) {
  switch (info.type) {
    case OptionType::kBytes:
    case OptionType::kCount: {
      std::string text = absl::StrCat(FormatNumber(info, info.least), " to ",
                                      FormatNumber(info, info.most));
      if (info.zero != nullptr) {
        absl::StrAppend(&text, ", or 0 (", info.zero, ")");
      }
      return text;
    }
    case OptionType::kBool:
      return "on or off";
    case OptionType::kKernel:
      return "auto, a name, or IN:OUT";
    case OptionType::kNames:
      return "names, separated by colons";
    case OptionType::kLimits:
      return "NAME=HARD or NAME=SOFT/HARD, separated by semicolons";
  }
  return "";
}

std::string FormatOptions(const Options& options) {
  size_t name_width = 0;
  size_t value_width = 0;
  for (const OptionInfo& info : OptionTable()) {
    name_width =
        std::max(name_width, absl::string_view(info.environment).size());
    value_width =
        std::max(value_width, FormatOptionValue(info, options).size());
  }
  const Options defaults;
  std::string out;
  for (const OptionInfo& info : OptionTable()) {
    const std::string initial = FormatOptionValue(info, defaults);
    absl::StrAppendFormat(&out, "%-*s  %-*s  %s\n",
                          static_cast<int>(name_width), info.environment,
                          static_cast<int>(value_width),
                          FormatOptionValue(info, options), info.help);
    absl::StrAppendFormat(&out, "%*s  default %s; accepts %s\n",
                          static_cast<int>(name_width + 2 + value_width), "",
                          initial, AcceptedValues(info));
  }
  return out;
}

std::string FormatOptionsMarkdown() {
  const Options defaults;
  std::string out =
      "| option | environment variable | default | accepts | what it does |\n"
      "| --- | --- | --- | --- | --- |\n";
  for (const OptionInfo& info : OptionTable()) {
    absl::StrAppend(&out, "| `", info.name, "` | `", info.environment, "` | ",
                    FormatOptionValue(info, defaults), " | ",
                    AcceptedValues(info), " | ", info.help, " |\n");
  }
  return out;
}

}  // namespace pinring
