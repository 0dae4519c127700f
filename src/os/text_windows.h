#ifndef PINRING_SRC_OS_TEXT_WINDOWS_H_
#define PINRING_SRC_OS_TEXT_WINDOWS_H_

// Text at the border to Windows, whose functions take UTF-16 where pinring has
// UTF-8, and whose errors are numbers.

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/string_view.h"

namespace pinring::os {

// What is not valid becomes U+FFFD.
[[nodiscard]] std::wstring Widen(absl::string_view utf8);
[[nodiscard]] std::string Narrow(std::wstring_view utf16);

// "Windows error 126: The specified module could not be found", for a code of
// GetLastError.
[[nodiscard]] std::string WindowsErrorText(uint32_t code);

}  // namespace pinring::os

#endif  // PINRING_SRC_OS_TEXT_WINDOWS_H_
