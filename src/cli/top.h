// `pinring top`: who pins what, live, in all processes of the user.

#ifndef PINRING_SRC_CLI_TOP_H_
#define PINRING_SRC_CLI_TOP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/usage/usage_page.h"

namespace pinring::cli {

// The version of the JSON form, src/usage/schemas/top.schema.json.
inline constexpr uint64_t kTopJsonVersion = 1;

struct TopOptions {
  bool once = false;
  bool json = false;
  // Between two looks. `once` with it looks twice, and so knows rates.
  std::optional<uint64_t> interval_ms;
};

enum class TopOrder { kMemory, kPeak, kCopies, kPid };

// What processes published at one moment, and at the one before.
struct TopSample {
  uint64_t time_ns = 0;
  std::vector<PublishedProcess> processes;
};

// The screen, at most `rows` lines of `columns`; 0: all of it.
std::string FormatTop(const TopSample& now, const TopSample* before,
                      TopOrder order, bool paths, int rows, int columns);
std::string FormatTopJson(const TopSample& now, const TopSample* before);

// Returns the exit status: 0, 1 where something went wrong.
int RunTop(const TopOptions& options);

}  // namespace pinring::cli

#endif  // PINRING_SRC_CLI_TOP_H_
