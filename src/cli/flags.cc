#include "src/cli/flags.h"

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace pinring::cli {
namespace {

std::string Written(const FlagSpec& spec) {
  return spec.value == nullptr ? absl::StrCat("--", spec.name)
                               : absl::StrCat("--", spec.name, "=", spec.value);
}

absl::Status Unknown(absl::Span<const FlagSpec> specs,
                     absl::string_view argument) {
  const std::string known =
      absl::StrJoin(specs, ", ", [](std::string* out, const FlagSpec& spec) {
        out->append(Written(spec));
      });
  return absl::InvalidArgumentError(
      absl::StrCat("unknown argument ", argument,
                   known.empty() ? "; none is expected"
                                 : absl::StrCat("; accepted are ", known)));
}

}  // namespace

absl::StatusOr<Flags> Flags::Parse(absl::Span<const FlagSpec> specs,
                                   absl::Span<const std::string> arguments) {
  Flags flags;
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view name = arguments[i];
    if (!absl::ConsumePrefix(&name, "--")) return Unknown(specs, arguments[i]);
    std::optional<std::string> value;
    if (const size_t equals = name.find('=');
        equals != absl::string_view::npos) {
      value = std::string(name.substr(equals + 1));
      name = name.substr(0, equals);
    }
    const auto spec = std::find_if(
        specs.begin(), specs.end(),
        [name](const FlagSpec& each) { return name == each.name; });
    if (spec == specs.end()) return Unknown(specs, arguments[i]);
    if (spec->value == nullptr && value.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(arguments[i], ": --", name, " takes no value"));
    }
    if (spec->value != nullptr && !value.has_value()) {
      if (i + 1 == arguments.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("--", name, " needs a value: ", Written(*spec)));
      }
      value = arguments[++i];
    }
    if (!flags.values_.emplace(name, value.value_or("")).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", name, " is given twice"));
    }
  }
  return flags;
}

bool Flags::Has(absl::string_view name) const {
  return values_.find(name) != values_.end();
}

std::optional<std::string> Flags::Get(absl::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

std::string FlagHelp(absl::Span<const FlagSpec> specs) {
  size_t width = 0;
  for (const FlagSpec& spec : specs) {
    width = std::max(width, Written(spec).size());
  }
  std::string out;
  for (const FlagSpec& spec : specs) {
    absl::StrAppendFormat(&out, "  %-*s  %s\n", static_cast<int>(width),
                          Written(spec), spec.help);
  }
  return out;
}

}  // namespace pinring::cli
