#include "src/os/library.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

namespace pinring::os {
namespace {

// A library that every system has, with `floor` in it.
#if defined(_WIN32)
constexpr char kMathLibrary[] = "msvcrt.dll";
#else
constexpr char kMathLibrary[] = "libm.so.6";
#endif

TEST(SharedLibraryTest, TheFirstNameThatOpensIsTaken) {
  const absl::StatusOr<SharedLibrary> library = SharedLibrary::Open(
      {"libpinring-does-not-exist.so", kMathLibrary, "libalso-not.so"});
  ASSERT_TRUE(library.ok()) << library.status();
  const absl::StatusOr<void*> address = library->Find("floor");
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_EQ(reinterpret_cast<double (*)(double)>(*address)(2.5), 2.0);
  EXPECT_EQ(library->FindOrNull("floor"), *address);
}

TEST(SharedLibraryTest, MissingLibrariesAreAllNamed) {
  const absl::StatusOr<SharedLibrary> library =
      SharedLibrary::Open({"libpinring-a.so", "libpinring-b.so"});
  ASSERT_EQ(library.status().code(), absl::StatusCode::kNotFound);
  const std::string text(library.status().message());
  EXPECT_NE(text.find("libpinring-a.so"), std::string::npos) << text;
  EXPECT_NE(text.find("libpinring-b.so"), std::string::npos) << text;
}

TEST(SharedLibraryTest, NoNamesAreNoLibrary) {
  EXPECT_EQ(SharedLibrary::Open({}).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(SharedLibraryTest, MissingSymbolsAreNamed) {
  const absl::StatusOr<SharedLibrary> library =
      SharedLibrary::Open({kMathLibrary});
  ASSERT_TRUE(library.ok()) << library.status();
  const absl::StatusOr<void*> address = library->Find("pinring_no_such");
  ASSERT_EQ(address.status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(std::string(address.status().message()).find("pinring_no_such"),
            std::string::npos);
  EXPECT_EQ(library->FindOrNull("pinring_no_such"), nullptr);
}

}  // namespace
}  // namespace pinring::os
