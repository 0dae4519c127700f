// pinring/pinring.hpp as a C++17 program uses it; on the simulated libraries
// or on a GPU.

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <list>
#include <numeric>
#include <pinring/pinring.hpp>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace {

static_assert(!std::is_copy_constructible_v<pinring::Buffer<int>>);
static_assert(std::is_nothrow_move_constructible_v<pinring::Buffer<int>>);
static_assert(std::is_nothrow_move_assignable_v<pinring::Buffer<int>>);
static_assert(!std::is_copy_constructible_v<pinring::Instance>);

pinringUsage Usage() {
  pinringUsage usage = PINRING_USAGE_INIT;
  EXPECT_EQ(pinringGetUsage(&usage), cudaSuccess);
  return usage;
}
uint64_t StagedBytes() {
  return Usage().kinds[pinringUsageStaged].currentBytes;
}

template <typename T>
class DeviceMemory {
 public:
  explicit DeviceMemory(size_t size) {
    EXPECT_EQ(cudaMalloc(&data_, size * sizeof(T)), cudaSuccess);
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() { EXPECT_EQ(cudaFree(data_), cudaSuccess); }
  T* get() const { return data_; }

 private:
  T* data_ = nullptr;
};

TEST(BufferTest, OwnsAStagedBlock) {
  {
    pinring::Buffer<double> buffer;
    EXPECT_TRUE(buffer.empty());
    ASSERT_TRUE(buffer.Allocate(1'000'000));
    EXPECT_EQ(buffer.size(), 1'000'000u);
    EXPECT_EQ(buffer.bytes(), 8'000'000u);
    EXPECT_EQ(pinringGetBlockKind(buffer.data()), pinringBlockStaged);
    EXPECT_TRUE(std::all_of(buffer.begin(), buffer.end(),
                            [](double value) { return value == 0; }));
    buffer[5] = 3;
    double* const data = buffer.data();
    pinring::Buffer<double> moved = std::move(buffer);
    EXPECT_EQ(moved.data(), data);
    EXPECT_EQ(buffer.data(), nullptr);  // NOLINT: that is the test.
    ASSERT_TRUE(moved.Allocate(10));
    EXPECT_EQ(moved.size(), 10u);
    EXPECT_EQ(StagedBytes(), 0u);
    ASSERT_TRUE(moved.Allocate(200'000));
    pinring::Buffer<double> other;
    ASSERT_TRUE(other.Allocate(300'000));
    other = std::move(moved);
    EXPECT_EQ(other.size(), 200'000u);
    ASSERT_TRUE(other.Free());
    EXPECT_TRUE(other.Free());
    ASSERT_TRUE(other.Allocate(0));
    EXPECT_TRUE(other.empty());
    ASSERT_TRUE(other.Allocate(100'000));
  }
  EXPECT_EQ(StagedBytes(), 0u);
}

TEST(BufferTest, HopelessSizesAreAResultWithWords) {
  pinring::Buffer<double> buffer;
  for (const size_t size :
       {std::numeric_limits<size_t>::max(),
        std::numeric_limits<size_t>::max() / 8 + 1, size_t{1} << 57}) {
    const pinring::Result result = buffer.Allocate(size);
    EXPECT_FALSE(result.ok());
    EXPECT_EQ(result.code(), cudaErrorMemoryAllocation);
    EXPECT_FALSE(result.message().empty());
    EXPECT_TRUE(buffer.empty());
  }
  (void)pinringGetLastError();
}

TEST(AllocatorTest, ContainersLiveInStagedBlocks) {
  {
    std::vector<int, pinring::Allocator<int>> values(1'000'000);
    std::iota(values.begin(), values.end(), 7);
    EXPECT_EQ(pinringGetBlockKind(values.data()), pinringBlockStaged);
    EXPECT_GE(StagedBytes(), values.size() * sizeof(int));
    auto copy = values;
    EXPECT_EQ(copy, values);
    values.push_back(1);
    EXPECT_EQ(values[999'999], 1'000'006);
    std::list<std::string, pinring::Allocator<std::string>> nodes;
    nodes.emplace_back("node based containers too");
    EXPECT_EQ(nodes.front().size(), 25u);
  }
  EXPECT_EQ(StagedBytes(), 0u);
  EXPECT_THROW((void)pinring::Allocator<int>().allocate(
                   std::numeric_limits<size_t>::max() / 8),
               std::bad_alloc);
  EXPECT_TRUE(pinring::Allocator<int>() == pinring::Allocator<char>());
  (void)pinringGetLastError();
}

TEST(CopyTest, VectorsGoThereAndBackBothWays) {
  std::mt19937 random(std::random_device{}());
  for (const size_t size : {size_t{1}, size_t{10'000}, size_t{3'000'001}}) {
    std::vector<unsigned> source(size), back(size);
    for (unsigned& value : source) value = static_cast<unsigned>(random());
    const size_t bytes = size * sizeof(unsigned);
    const DeviceMemory<unsigned> device(size);
    ASSERT_TRUE(pinring::CopyToDevice(device.get(), source.data(), bytes));
    ASSERT_TRUE(pinring::CopyToHost(back.data(), device.get(), bytes));
    EXPECT_EQ(source, back);

    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
    for (const pinring::Access access :
         {pinring::Access::kStream, pinring::Access::kDuringCall,
          pinring::Access::kAny}) {
      for (unsigned& value : source) ++value;
      const std::vector<unsigned> expected = source;
      ASSERT_TRUE(pinring::CopyToDeviceAsync(device.get(), source.data(), bytes,
                                             stream, access));
      if (access == pinring::Access::kDuringCall) {
        std::fill(source.begin(), source.end(), 0u);
      }
      ASSERT_TRUE(pinring::CopyToHostAsync(back.data(), device.get(), bytes,
                                           stream, access));
      ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
      EXPECT_EQ(back, expected);
      source = expected;
    }
    ASSERT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  }
  EXPECT_EQ(Usage().events[pinringEventPageableFallback], 0u);
}

TEST(CopyTest, ErrorsSayWhatWasWrong) {
  std::vector<char> source(100);
  const DeviceMemory<char> device(100);
  const pinring::Result result =
      pinring::CopyToDevice(device.get(), source.data(), size_t{1} << 40);
  EXPECT_EQ(result.code(), cudaErrorInvalidValue);
  EXPECT_NE(result.message().find("1099511627776"), std::string::npos)
      << result.message();
  (void)pinringGetLastError();
}

TEST(CategoryScopeTest, NamesWhatIsAllocatedInside) {
  pinring::Buffer<char> buffer;
  {
    const pinring::CategoryScope outer("outer");
    const pinring::CategoryScope inner(std::string("inner"));
    ASSERT_TRUE(inner.status());
    ASSERT_TRUE(buffer.Allocate(1 << 20));
    const pinring::CategoryScope bad("");
    EXPECT_FALSE(bad.status());
  }
  std::vector<pinringCategoryUsage> categories(16);
  pinringUsage usage = PINRING_USAGE_INIT;
  usage.categories = categories.data();
  usage.categoryCapacity = categories.size();
  ASSERT_EQ(pinringGetUsage(&usage), cudaSuccess);
  uint64_t inner_bytes = 0;
  for (size_t i = 0; i < usage.categoryCount; ++i) {
    if (std::string(categories[i].name) == "inner") {
      inner_bytes = categories[i].all.currentBytes;
    }
  }
  EXPECT_EQ(inner_bytes, uint64_t{1} << 20);
  EXPECT_EQ(pinringPopCategory(), cudaErrorInvalidValue);
  (void)pinringGetLastError();
}

TEST(InstanceTest, HasARingOfItsOwn) {
  pinring::Instance instance;
  EXPECT_FALSE(instance.Create("ring_bytes=3 apples"));
  ASSERT_TRUE(instance.Create("ring_bytes=8MiB, movers=1"));
  pinring::Buffer<char> buffer;
  {
    const pinring::InstanceScope scope(instance);
    ASSERT_TRUE(scope.status());
    ASSERT_TRUE(buffer.Allocate(1 << 20));
    EXPECT_EQ(StagedBytes(), uint64_t{1} << 20);
  }
  EXPECT_EQ(StagedBytes(), 0u);
  const DeviceMemory<char> device(buffer.size());
  std::fill(buffer.begin(), buffer.end(), 'x');
  ASSERT_TRUE(
      pinring::CopyToDevice(device.get(), buffer.data(), buffer.bytes()));
  EXPECT_FALSE(instance.Destroy());  // Its block is not freed.
  ASSERT_TRUE(buffer.Free());
  pinring::Instance moved = std::move(instance);
  EXPECT_TRUE(moved.Destroy());
  EXPECT_TRUE(moved.Destroy());
  (void)pinringGetLastError();
}

}  // namespace
