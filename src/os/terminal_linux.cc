#include <errno.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "absl/status/status.h"
#include "src/os/terminal.h"

namespace pinring::os {

struct KeyReader::State {
  termios before;
};

int TerminalRows() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) {
    return 24;
  }
  return size.ws_row;
}

absl::StatusOr<KeyReader> KeyReader::Open() {
  termios before{};
  if (::tcgetattr(STDIN_FILENO, &before) != 0) {
    return absl::FailedPreconditionError("standard input is no terminal");
  }
  termios raw = before;
  // Ctrl-C arrives as a byte, so that the terminal is always put back.
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  if (::tcsetattr(STDIN_FILENO, TCSANOW, &raw) != 0) {
    return absl::FailedPreconditionError("the terminal takes no settings");
  }
  return KeyReader(new State{before});
}

KeyReader::~KeyReader() {
  if (state_ == nullptr) return;
  (void)::tcsetattr(STDIN_FILENO, TCSANOW, &state_->before);
  delete state_;
}

std::optional<char> KeyReader::Read(uint64_t timeout_ms) {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  const int ready = ::poll(&input, 1, static_cast<int>(timeout_ms));
  if (ready <= 0) return std::nullopt;  // Also for a signal.
  char key = 0;
  const ssize_t length = ::read(STDIN_FILENO, &key, 1);
  if (length < 0 && errno == EINTR) return std::nullopt;
  constexpr char kCtrlC = 3;
  return length <= 0 || key == kCtrlC ? 'q' : key;
}

}  // namespace pinring::os
