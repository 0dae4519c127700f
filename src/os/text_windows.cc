#include "src/os/text_windows.h"

#include <windows.h>

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace pinring::os {

std::wstring Widen(absl::string_view utf8) {
  const int length = static_cast<int>(utf8.size());
  const int needed =
      MultiByteToWideChar(CP_UTF8, 0, utf8.data(), length, nullptr, 0);
  std::wstring wide(static_cast<size_t>(needed), L'\0');
  // 0 characters for 0 bytes: the call calls that an error, rightly.
  if (needed > 0) {
    MultiByteToWideChar(CP_UTF8, 0, utf8.data(), length, wide.data(), needed);
  }
  return wide;
}

std::string Narrow(std::wstring_view utf16) {
  const int length = static_cast<int>(utf16.size());
  const int needed = WideCharToMultiByte(CP_UTF8, 0, utf16.data(), length,
                                         nullptr, 0, nullptr, nullptr);
  std::string narrow(static_cast<size_t>(needed), '\0');
  if (needed > 0) {
    WideCharToMultiByte(CP_UTF8, 0, utf16.data(), length, narrow.data(), needed,
                        nullptr, nullptr);
  }
  return narrow;
}

std::string WindowsErrorText(uint32_t code) {
  wchar_t text[512];
  DWORD length = FormatMessageW(
      FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, nullptr, code,
      0, text, sizeof text / sizeof text[0], nullptr);
  constexpr std::wstring_view kEnd = L"\r\n. ";
  while (length > 0 && kEnd.find(text[length - 1]) != kEnd.npos) --length;
  return absl::StrCat("Windows error ", code, length > 0 ? ": " : "",
                      Narrow(std::wstring_view(text, length)));
}

}  // namespace pinring::os
