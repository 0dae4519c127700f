// The printed forms of a usage snapshot.
#ifndef PINRING_SRC_USAGE_USAGE_PRINT_H_
#define PINRING_SRC_USAGE_USAGE_PRINT_H_

#include <cstdint>
#include <string>

#include "src/usage/json_writer.h"
#include "src/usage/usage_snapshot.h"

namespace pinring {

// The version of the JSON form. It rises when a key changes its meaning or
// goes, not when one is added.
inline constexpr uint64_t kUsageJsonVersion = 1;

// "64.0 MiB", "1.5 KiB", "17 B": for people; powers of 1024, one decimal.
std::string HumanBytes(uint64_t bytes);

// "67,108,864": exact.
std::string ExactCount(uint64_t n);

// Tables: really pinned bytes, by category and kind, by kind, copies by
// direction and path, and the fallbacks that happened. Bytes are shown in
// human units and exactly. What never happened is left out.
std::string FormatUsageText(const UsageSnapshot& snapshot);

// One JSON object; everything, zeros included:
//   {"schema": "pinring.usage", "version": 1,
//    "pinned": {"current_bytes", "peak_bytes", "limit_bytes",
//               "peak_since_mark_bytes"},
//    "all": AMOUNT, "kinds": {KIND: AMOUNT},
//    "categories": [{"name", "all": AMOUNT, "kinds": {KIND: AMOUNT},
//                    "soft_limit_bytes", "hard_limit_bytes", "copies": [...]}],
//    "copies": [{"direction", "path", "bytes", "count", "wait_ns"}],
//    "events": {EVENT: count}}
// AMOUNT: {"current_bytes", "peak_bytes", "peak_since_mark_bytes",
// "total_bytes", "current_count", "total_count"}. A category's "kinds" has only
// those that it ever used, and "copies" only those that happened.
// src/usage/schemas/usage.schema.json says it all. A limit of 0 bytes says that
// none is set.
std::string FormatUsageJson(const UsageSnapshot& snapshot);

// The same object, as the next value of a larger document.
void WriteUsageJson(const UsageSnapshot& snapshot, JsonWriter& json);

}  // namespace pinring

#endif  // PINRING_SRC_USAGE_USAGE_PRINT_H_
