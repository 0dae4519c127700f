#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/os/mapped_file.h"

namespace pinring::os {
namespace {

absl::Status Failed(const char* call, const std::string& path) {
  const DWORD error = GetLastError();
  const std::string message =
      absl::StrCat(call, " of ", path, ": Windows error ", error);
  return error == ERROR_FILE_NOT_FOUND || error == ERROR_PATH_NOT_FOUND
             ? absl::NotFoundError(message)
             : absl::UnavailableError(message);
}

absl::StatusOr<std::wstring> Wide(const std::string& text) {
  const int size = static_cast<int>(text.size());
  const int wide = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS,
                                       text.data(), size, nullptr, 0);
  if (wide <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a path that is empty or not UTF-8: ", text));
  }
  std::wstring result(static_cast<size_t>(wide), L'\0');
  if (MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text.data(), size,
                          result.data(), wide) != wide) {
    return absl::InvalidArgumentError(absl::StrCat("a bad path: ", text));
  }
  return result;
}

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  const auto wide = Wide(path);
  if (!wide.ok()) return wide.status();
  const HANDLE file =
      CreateFileW(wide->c_str(), GENERIC_READ, FILE_SHARE_READ, nullptr,
                  OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr);
  if (file == INVALID_HANDLE_VALUE) return Failed("CreateFile", path);
  absl::StatusOr<MappedFile> result =
      absl::InvalidArgumentError(absl::StrCat(path, " is no file with bytes"));
  LARGE_INTEGER size = {};
  if (!GetFileSizeEx(file, &size)) {
    result = Failed("GetFileSizeEx", path);
  } else if (size.QuadPart > 0) {
    const HANDLE mapping =
        CreateFileMappingW(file, nullptr, PAGE_READONLY, 0, 0, nullptr);
    if (mapping == nullptr) {
      result = Failed("CreateFileMapping", path);
    } else {
      void* const data = MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0);
      if (data == nullptr) {
        result = Failed("MapViewOfFile", path);
      } else {
        result = MappedFile(data, static_cast<size_t>(size.QuadPart));
      }
      // The view keeps the mapping, the mapping the file.
      (void)CloseHandle(mapping);
    }
  }
  (void)CloseHandle(file);
  return result;
}

MappedFile::~MappedFile() {
  // Fails only for an address that is none.
  if (data_ != nullptr) (void)UnmapViewOfFile(data_);
}

}  // namespace pinring::os
