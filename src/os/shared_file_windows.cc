#include <windows.h>

#include "absl/strings/str_cat.h"
#include "src/os/env.h"
#include "src/os/shared_file.h"
#include "src/os/text_windows.h"

namespace pinring::os {
namespace {

absl::Status Refused(absl::string_view call, const std::string& path) {
  return absl::UnavailableError(absl::StrCat(
      call, " of ", path, ": ", WindowsErrorText(::GetLastError())));
}

// The user's own folder, which no other user may read.
absl::StatusOr<std::string> Folder() {
  const auto local = GetEnv("LOCALAPPDATA");
  if (!local.has_value() || local->empty()) {
    return absl::UnavailableError("LOCALAPPDATA is not set");
  }
  std::string folder = absl::StrCat(*local, "\\pinring");
  if (::CreateDirectoryW(Widen(folder).c_str(), nullptr) == 0 &&
      ::GetLastError() != ERROR_ALREADY_EXISTS) {
    return Refused("CreateDirectory", folder);
  }
  return folder;
}

constexpr DWORD kShare = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

void* AsPointer(intptr_t handle) { return reinterpret_cast<void*>(handle); }

}  // namespace

// The system takes the file away with the owner's last handle, however the
// owner ends.
absl::StatusOr<SharedFile> SharedFile::Create(
    const std::string& name, size_t bytes,
    absl::FunctionRef<void(void* data)> prepare) {
  const auto folder = Folder();
  if (!folder.ok()) return folder.status();
  const std::string path = absl::StrCat(*folder, "\\", name);
  const std::string hidden = absl::StrCat(*folder, "\\.", name);
  const HANDLE file = ::CreateFileW(
      Widen(hidden).c_str(), GENERIC_READ | GENERIC_WRITE | DELETE, kShare,
      nullptr, CREATE_NEW, FILE_ATTRIBUTE_TEMPORARY | FILE_FLAG_DELETE_ON_CLOSE,
      nullptr);
  if (file == INVALID_HANDLE_VALUE) {
    return ::GetLastError() == ERROR_FILE_EXISTS
               ? absl::AlreadyExistsError(hidden)
               : Refused("CreateFile", hidden);
  }
  const HANDLE mapping = ::CreateFileMappingW(
      file, nullptr, PAGE_READWRITE, static_cast<DWORD>(uint64_t{bytes} >> 32),
      static_cast<DWORD>(bytes), nullptr);
  void* const data =
      mapping == nullptr
          ? nullptr
          : ::MapViewOfFile(mapping, FILE_MAP_ALL_ACCESS, 0, 0, bytes);
  absl::Status status;
  if (data == nullptr) {
    status = Refused("mapping", hidden);
  } else {
    prepare(data);
    if (::MoveFileExW(Widen(hidden).c_str(), Widen(path).c_str(),
                      MOVEFILE_REPLACE_EXISTING) == 0) {
      status = Refused("MoveFileEx", hidden);
    }
  }
  if (!status.ok()) {
    if (data != nullptr) (void)::UnmapViewOfFile(data);
    if (mapping != nullptr) (void)::CloseHandle(mapping);
    (void)::CloseHandle(file);
    return status;
  }
  SharedFile made;
  made.data_ = data;
  made.bytes_ = bytes;
  made.handle_ = reinterpret_cast<intptr_t>(file);
  made.mapping_ = reinterpret_cast<intptr_t>(mapping);
  made.path_ = path;
  return made;
}

SharedFile::~SharedFile() {
  if (data_ != nullptr) (void)::UnmapViewOfFile(data_);
  if (mapping_ != -1) (void)::CloseHandle(AsPointer(mapping_));
  if (handle_ != -1) (void)::CloseHandle(AsPointer(handle_));
}

// Gone for readers with the handle that made it; the mapping keeps the memory.
void SharedFile::Remove() {
  if (handle_ != -1) (void)::CloseHandle(AsPointer(handle_));
  handle_ = -1;
  path_.clear();
}

void SharedFile::Abandon() {}  // There is no fork.

absl::Status ForEachSharedFile(
    const std::string& prefix, size_t least_bytes,
    absl::FunctionRef<void(const std::string& name, void* data, size_t bytes)>
        visit) {
  const auto folder = Folder();
  if (!folder.ok()) return folder.status();
  WIN32_FIND_DATAW found{};
  const HANDLE search = ::FindFirstFileW(
      Widen(absl::StrCat(*folder, "\\", prefix, "*")).c_str(), &found);
  if (search == INVALID_HANDLE_VALUE) {
    return ::GetLastError() == ERROR_FILE_NOT_FOUND
               ? absl::OkStatus()
               : Refused("FindFirstFile", *folder);
  }
  do {
    const std::string name = Narrow(found.cFileName);
    const std::string path = absl::StrCat(*folder, "\\", name);
    SharedFile file;
    const HANDLE opened =
        ::CreateFileW(Widen(path).c_str(), GENERIC_READ | GENERIC_WRITE, kShare,
                      nullptr, OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr);
    if (opened == INVALID_HANDLE_VALUE) continue;
    file.handle_ = reinterpret_cast<intptr_t>(opened);
    LARGE_INTEGER size{};
    if (::GetFileSizeEx(opened, &size) == 0 ||
        static_cast<uint64_t>(size.QuadPart) < least_bytes) {
      continue;
    }
    const HANDLE mapping =
        ::CreateFileMappingW(opened, nullptr, PAGE_READWRITE, 0, 0, nullptr);
    if (mapping == nullptr) continue;
    file.mapping_ = reinterpret_cast<intptr_t>(mapping);
    file.data_ = ::MapViewOfFile(mapping, FILE_MAP_ALL_ACCESS, 0, 0, 0);
    if (file.data_ == nullptr) continue;
    visit(name, file.data_, static_cast<size_t>(size.QuadPart));
  } while (::FindNextFileW(search, &found) != 0);
  (void)::FindClose(search);
  return absl::OkStatus();
}

}  // namespace pinring::os
