#include <windows.h>

#include "absl/status/status.h"
#include "src/os/terminal.h"

namespace pinring::os {

struct KeyReader::State {
  HANDLE input;
  DWORD before;
};

int TerminalRows() {
  CONSOLE_SCREEN_BUFFER_INFO info{};
  if (::GetConsoleScreenBufferInfo(::GetStdHandle(STD_OUTPUT_HANDLE), &info) ==
      0) {
    return 24;
  }
  const int rows = info.srWindow.Bottom - info.srWindow.Top + 1;
  return rows > 0 ? rows : 24;
}

absl::StatusOr<KeyReader> KeyReader::Open() {
  const HANDLE input = ::GetStdHandle(STD_INPUT_HANDLE);
  DWORD before = 0;
  if (::GetConsoleMode(input, &before) == 0) {
    return absl::FailedPreconditionError("standard input is no console");
  }
  // Ctrl-C arrives as a key, so that the console is always put back.
  const DWORD raw =
      before & ~static_cast<DWORD>(ENABLE_LINE_INPUT | ENABLE_ECHO_INPUT |
                                   ENABLE_PROCESSED_INPUT);
  if (::SetConsoleMode(input, raw) == 0) {
    return absl::FailedPreconditionError("the console takes no settings");
  }
  return KeyReader(new State{input, before});
}

KeyReader::~KeyReader() {
  if (state_ == nullptr) return;
  (void)::SetConsoleMode(state_->input, state_->before);
  delete state_;
}

std::optional<char> KeyReader::Read(uint64_t timeout_ms) {
  const ULONGLONG until = ::GetTickCount64() + timeout_ms;
  for (;;) {
    const ULONGLONG now = ::GetTickCount64();
    const DWORD left = now < until ? static_cast<DWORD>(until - now) : 0;
    if (::WaitForSingleObject(state_->input, left) != WAIT_OBJECT_0) {
      return std::nullopt;
    }
    INPUT_RECORD record{};
    DWORD count = 0;
    if (::ReadConsoleInputW(state_->input, &record, 1, &count) == 0) return 'q';
    if (count == 0 || record.EventType != KEY_EVENT ||
        record.Event.KeyEvent.bKeyDown == FALSE) {
      continue;  // A mouse, a size, a key that is let go.
    }
    const wchar_t key = record.Event.KeyEvent.uChar.UnicodeChar;
    constexpr wchar_t kCtrlC = 3;
    if (key == kCtrlC) return 'q';
    if (key != 0 && key < 0x80) return static_cast<char>(key);
  }
}

}  // namespace pinring::os
