// A test of the C functions on a device, with a default instance of its own.

#ifndef PINRING_TESTS_SUPPORT_DEFAULT_INSTANCE_TEST_H_
#define PINRING_TESTS_SUPPORT_DEFAULT_INSTANCE_TEST_H_

#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "src/capi/default_instance.h"
#include "tests/support/testbed.h"

namespace pinring {

class DefaultInstanceTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = Testbed::WhySkip(); !why.empty()) {
      GTEST_SKIP() << why;
    }
    bed_ = std::make_unique<Testbed>();
    ResetDefaultInstanceForTesting(&bed_->driver());
  }
  void TearDown() override {
    if (bed_ == nullptr) return;
    ResetDefaultInstanceForTesting(nullptr);
    bed_.reset();
  }

  std::unique_ptr<Testbed> bed_;
};

}  // namespace pinring

#endif  // PINRING_TESTS_SUPPORT_DEFAULT_INSTANCE_TEST_H_
