#ifndef PINRING_SRC_OS_TERMINAL_H_
#define PINRING_SRC_OS_TERMINAL_H_

// The terminal of a command that fills the screen and obeys single keys.

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"

namespace pinring::os {

// How many rows standard output's terminal has; 24 where it does not say.
[[nodiscard]] int TerminalRows();

// Takes keys from standard input as they are pressed, unseen, until it is
// destroyed. Signals of the keyboard (Ctrl-C) end the wait as the key 'q'
// would; the terminal is then as it was. One at a time; not thread-safe.
class KeyReader {
 public:
  // Errors: kFailedPrecondition where standard input is no terminal.
  [[nodiscard]] static absl::StatusOr<KeyReader> Open();
  KeyReader(KeyReader&& other) noexcept : state_(other.state_) {
    other.state_ = nullptr;
  }
  KeyReader& operator=(KeyReader&&) = delete;
  ~KeyReader();

  // The next key, or none after `timeout_ms`. At the end of the input: 'q'.
  std::optional<char> Read(uint64_t timeout_ms);

 private:
  struct State;
  explicit KeyReader(State* state) : state_(state) {}
  State* state_;
};

}  // namespace pinring::os

#endif  // PINRING_SRC_OS_TERMINAL_H_
