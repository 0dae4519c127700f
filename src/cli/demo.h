// `pinring demo`: the whole product at work, checked byte by byte.

#ifndef PINRING_SRC_CLI_DEMO_H_
#define PINRING_SRC_CLI_DEMO_H_

#include <cstdint>
#include <optional>

namespace pinring::cli {

struct DemoOptions {
  std::optional<uint64_t> bytes;  // chosen by what the machine has
  int streams = 4;
  bool json = false;
};

// Prints what it does on standard output; with `json`, one JSON object there
// and the rest on standard error. Returns the exit status: 0 only if every
// byte was right, the limit was kept and the accounts are balanced.
int RunDemo(const DemoOptions& options);

}  // namespace pinring::cli

#endif  // PINRING_SRC_CLI_DEMO_H_
