#include "src/os/mapped_file.h"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace pinring::os {
namespace {

std::string Path(const char* name) { return testing::TempDir() + name; }

TEST(MappedFileTest, HoldsTheBytesOfTheFile) {
  const std::string path = Path("mapped_file_test.bin");
  std::string text(100'003, 'a');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7);
  std::ofstream(path, std::ios::binary) << text;
  auto file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->bytes(), text.size());
  EXPECT_EQ(std::memcmp(file->data(), text.data(), text.size()), 0);
  MappedFile moved = *std::move(file);
  EXPECT_EQ(std::memcmp(moved.data(), text.data(), text.size()), 0);
}

TEST(MappedFileTest, ErrorsNameThePath) {
  const auto missing = MappedFile::Open(Path("no_such_file"));
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(missing.status().message().find("no_such_file"), std::string::npos);
  const std::string empty = Path("mapped_file_empty.bin");
  std::ofstream(empty, std::ios::binary).flush();
  EXPECT_EQ(MappedFile::Open(empty).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(MappedFile::Open(testing::TempDir()).ok());
}

}  // namespace
}  // namespace pinring::os
