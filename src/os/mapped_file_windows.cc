#include <windows.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "src/os/mapped_file.h"
#include "src/os/text_windows.h"

namespace pinring::os {
namespace {

absl::Status Failed(const char* call, const std::string& path) {
  const DWORD error = GetLastError();
  const std::string message =
      absl::StrCat(call, " of ", path, ": ", WindowsErrorText(error));
  return error == ERROR_FILE_NOT_FOUND || error == ERROR_PATH_NOT_FOUND
             ? absl::NotFoundError(message)
             : absl::UnavailableError(message);
}

bool IsFolder(const std::wstring& path) {
  const DWORD attributes = GetFileAttributesW(path.c_str());
  return attributes != INVALID_FILE_ATTRIBUTES &&
         (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
}

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  const std::wstring wide = Widen(path);
  if (IsFolder(wide)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is a folder"));
  }
  const HANDLE file =
      CreateFileW(wide.c_str(), GENERIC_READ, FILE_SHARE_READ, nullptr,
                  OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr);
  if (file == INVALID_HANDLE_VALUE) return Failed("CreateFile", path);
  absl::StatusOr<MappedFile> result =
      absl::InvalidArgumentError(absl::StrCat(path, " is no file with bytes"));
  LARGE_INTEGER size = {};
  if (GetFileSizeEx(file, &size) == 0) {
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
