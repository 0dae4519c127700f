// The options of an instance: one table that generates the fields, the parsing
// and the printed forms.
//
//   Options options;
//   absl::Status status = ReadEnvironment(os::GetEnv, &options);
//   status = ApplySettings("ring_bytes=128MiB, movers=4", &options);
//
// Options are plain values; functions here have no state.

#ifndef PINRING_SRC_CAPI_OPTIONS_H_
#define PINRING_SRC_CAPI_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace pinring {

inline constexpr uint64_t kKiB = uint64_t{1} << 10;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr uint64_t kGiB = uint64_t{1} << 30;
// The most that a size may be where nothing else bounds it: 1 PiB.
inline constexpr uint64_t kMostBytes = kGiB << 20;

// X(type, name, default, least, most, zero, help). The range binds bytes and
// counts; `zero` says what a 0 outside of the range means, null where 0 is not
// allowed, or is in the range.
#define PINRING_OPTIONS(X)                                                     \
  X(Bytes, ring_bytes, 64 * kMiB, 64 * kKiB, 64 * kGiB, nullptr,               \
    "size of the ring, the pinned buffer that staged copies pass through")     \
  X(Bytes, small_pool_bytes, 16 * kMiB, 64 * kKiB, 64 * kGiB, "no pool",       \
    "size of the really pinned pool that small blocks come from")              \
  X(Bytes, small_limit_bytes, 64 * kKiB, 1, 1 * kGiB, "every block is staged", \
    "largest block that is really pinned, out of the pool")                    \
  X(Bytes, pinned_limit_bytes, 0, 1 * kMiB, kMostBytes, "no limit",            \
    "limit over everything that is really pinned: ring, pool, mapped and "     \
    "promoted blocks")                                                         \
  X(Count, movers, 0, 1, 256, "automatic",                                     \
    "threads that move bytes between staged blocks and the ring")              \
  X(Bytes, slot_bytes, 0, 4 * kKiB, 1 * kGiB, "automatic",                     \
    "size of a slot of the ring; for tests")                                   \
  X(Count, slots_per_stream, 0, 1, 4096, "automatic",                          \
    "slots that a stream may own at once; for tests")                          \
  X(Bool, enabled, true, 0, 1, nullptr,                                        \
    "off: every call goes to the driver, and memory is really pinned")         \
  X(Bool, promote, true, 0, 1, nullptr,                                        \
    "when no slot is left, pin the block in place; off: copy it the driver's " \
    "pageable way")                                                            \
  X(Bool, promote_on_use, true, 0, 1, nullptr,                                 \
    "preloaded: pin a block in place when a kernel, a graph or another call "  \
    "needs it pinned; off: such a call fails")                                 \
  X(Limits, category_limits, "", 0, 0, nullptr,                                \
    "limits of categories: allocations beyond SOFT are counted and said "      \
    "once, "                                                                   \
    "beyond HARD they are out of memory")                                      \
  X(Bytes, stage_min_bytes, 0, 1, kMostBytes, "the small limit alone",         \
    "preloaded: smallest request that pinring takes; the driver pins smaller " \
    "ones")                                                                    \
  X(Bytes, pageable_min_bytes, uint64_t{4} << 20, 1, kMostBytes, "never",      \
    "preloaded: smallest copy of memory that is not pinned that goes through " \
    "the ring")                                                                \
  X(Names, leave_alone, "", 0, 0, nullptr,                                     \
    "preloaded: categories and libraries whose requests the driver pins")      \
  X(Bool, show_usage, false, 0, 1, nullptr,                                    \
    "print the usage tables to standard error at exit")                        \
  X(Count, usage_signal, 0, 1, 64, "none",                                     \
    "preloaded: number of the signal at which the usage tables are printed")   \
  X(Bool, publish, true, 0, 1, nullptr, "show this process to `pinring top`")  \
  X(Bool, verbose, false, 0, 1, nullptr,                                       \
    "say on standard error what the library decided")                          \
  X(Kernel, kernel, "auto", 0, 0, nullptr,                                     \
    "how movers copy: auto, the name of a copy kernel, or two names IN:OUT "   \
    "for filling and draining the ring")

// The C++ type of each option type.
struct OptionValueTypes {
  using Bytes = uint64_t;
  using Count = uint64_t;
  using Bool = bool;
  using Kernel = std::string;
  using Names = std::string;
  using Limits = std::string;
};

struct Options {
#define PINRING_OPTION_FIELD(type, name, initial, least, most, zero, help) \
  OptionValueTypes::type name = initial;
  PINRING_OPTIONS(PINRING_OPTION_FIELD)
#undef PINRING_OPTION_FIELD

  friend bool operator==(const Options&, const Options&) = default;
};

enum class OptionType { kBytes, kCount, kBool, kKernel, kNames, kLimits };

struct OptionInfo {
  const char* name;         // "ring_bytes"
  const char* environment;  // "PINRING_RING_BYTES"
  OptionType type;
  std::variant<uint64_t Options::*, bool Options::*, std::string Options::*>
      field;
  uint64_t least;
  uint64_t most;
  const char* zero;
  const char* help;
};

// All options, in the order in which they are printed.
absl::Span<const OptionInfo> OptionTable();

// The number that `text` says: decimal digits, and for bytes a unit of B, KiB,
// MiB, GiB or TiB (K, M, G and T are the same), in any case, after an optional
// blank. Errors: kInvalidArgument; kOutOfRange beyond 64 bits.
absl::StatusOr<uint64_t> ParseCount(absl::string_view text);
absl::StatusOr<uint64_t> ParseBytes(absl::string_view text);

// What category_limits says of one category; 0: no limit.
struct CategoryLimits {
  std::string name;
  uint64_t soft_bytes = 0;
  uint64_t hard_bytes = 0;

  friend bool operator==(const CategoryLimits&,
                         const CategoryLimits&) = default;
};

// "weights=1GiB/2GiB;loader=512MiB": SOFT/HARD, or HARD alone, for each
// category; SOFT or HARD may be left away beside the "/". Errors:
// kInvalidArgument.
absl::StatusOr<std::vector<CategoryLimits>> ParseCategoryLimits(
    absl::string_view text);

// Sets one option by its name, in any case, or by its environment variable's.
// Errors: kInvalidArgument, naming the option as it was given, the value and
// what is accepted; the options are then as they were.
absl::Status SetOption(absl::string_view name, absl::string_view value,
                       Options* options);

// Sets options from "name=value" pairs separated by commas or blanks: all of
// them or, on error, none. Errors: as SetOption.
absl::Status ApplySettings(absl::string_view settings, Options* options);

// Sets what `get_env` finds of the table's environment variables; an empty
// variable counts as unset. Reports all bad ones, not only the first, and sets
// nothing then.
absl::Status ReadEnvironment(
    absl::FunctionRef<std::optional<std::string>(const char* name)> get_env,
    Options* options);

// The value of an option as SetOption reads it: "64MiB", "on", "0".
std::string FormatOptionValue(const OptionInfo& info, const Options& options);

// What values an option takes: "64KiB to 64GiB, or 0 (no pool)".
std::string AcceptedValues(const OptionInfo& info);

// The table with the values of `options`, for people; and its defaults as the
// README has them.
std::string FormatOptions(const Options& options);
std::string FormatOptionsMarkdown();

}  // namespace pinring

#endif  // PINRING_SRC_CAPI_OPTIONS_H_
