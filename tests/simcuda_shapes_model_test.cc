// Copies of other shapes under a scheduler, and what only the simulated device
// has of them. What they share with a GPU is in simcuda_shapes_test.cc.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "src/simcuda/machine.h"
#include "src/simcuda/scheduler.h"
#include "tests/support/scheduled_machine.h"

namespace pinring::simcuda {
namespace {

MachineOptions RowByRow() {
  MachineOptions options = SmallMachine();
  options.copy_step_rows = 1;
  return options;
}

// Rows of the host, 100 bytes apart, to or from rows without a gap.
CUDA_MEMCPY2D Copy(bool in, char* host, CUdeviceptr device, size_t width,
                   size_t height) {
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = in ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
  copy.dstMemoryType = in ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
  copy.srcHost = copy.dstHost = host;
  copy.srcDevice = copy.dstDevice = device;
  copy.srcPitch = in ? 100 : width;
  copy.dstPitch = in ? width : 100;
  copy.WidthInBytes = width;
  copy.Height = height;
  return copy;
}

TEST(SimcudaShapesModelTest, BytesAreRightUnderEverySchedule) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Scheduled s(seed, RowByRow());
    for (int i = 0; i < 2; ++i) {
      s.Add("copier", [&s, i] {
        char* source = s.host + 4000 * i;
        char* target = source + 2000;
        const CUdeviceptr device = s.device + static_cast<size_t>(2000 * i);
        CUstream stream = s.NewStream();
        for (char round = 1; round < 4; ++round) {
          std::memset(source, round, 1000);
          std::memset(target, 0x5a, 1000);
          const CUDA_MEMCPY2D in = Copy(true, source, device, 60, 10);
          const CUDA_MEMCPY2D out = Copy(false, target, device, 60, 10);
          EXPECT_CU(s.cu.Memcpy2DAsync(&in, stream));
          EXPECT_CU(s.cu.Memcpy2DAsync(&out, stream));
          EXPECT_CU(s.cu.StreamSynchronize(stream));
          for (int at = 0; at < 1000; ++at) {
            ASSERT_EQ(target[at], at % 100 < 60 ? round : 0x5a) << at;
          }
        }
        EXPECT_CU(s.cu.StreamDestroy(stream));
      });
    }
    ASSERT_EQ(s.Run().kind, Scheduler::Outcome::kCompleted) << "seed " << seed;
    EXPECT_TRUE(s.machine.Hazards().empty());
    EXPECT_EQ(s.machine.OutstandingOperations(), 0u);
  }
}

// Schedules, of 100, in which a byte that is written beside a copy from the
// host is a hazard.
int HazardsOfWriting(size_t at) {
  int hazards = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    Scheduled s(seed, RowByRow());
    CUstream stream = s.NewStream();
    const CUDA_MEMCPY2D in = Copy(true, s.host, s.device, 60, 10);
    EXPECT_CU(s.cu.Memcpy2DAsync(&in, stream));
    s.Add("writer", [&s, at] {
      Scheduler::Yield();
      s.host[at] = 1;
    });
    s.Add("waiter",
          [&s, stream] { EXPECT_CU(s.cu.StreamSynchronize(stream)); });
    EXPECT_EQ(s.Run().kind, Scheduler::Outcome::kCompleted);
    hazards += !s.machine.Hazards().empty();
  }
  return hazards;
}

TEST(SimcudaShapesModelTest, RewritingARowIsAHazardAndBetweenRowsIsNot) {
  EXPECT_GT(HazardsOfWriting(0), 0);
  EXPECT_LT(HazardsOfWriting(959), 100);
  EXPECT_EQ(HazardsOfWriting(60), 0);
  EXPECT_EQ(HazardsOfWriting(99), 0);
  EXPECT_EQ(HazardsOfWriting(960), 0);
}

// What the host writes while a copy is on its way lands in the rows that the
// copy has not come to.
TEST(SimcudaShapesModelTest, RowsAreReadOneAfterTheOther) {
  MachineOptions options = RowByRow();
  options.copy_step_bytes = 4096;
  options.check_hazards = false;
  std::set<int> progress;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Scheduled s(seed, options);
    CUstream stream = s.NewStream();
    const CUDA_MEMCPY2D in = Copy(true, s.host, s.device, 60, 10);
    EXPECT_CU(s.cu.Memcpy2DAsync(&in, stream));
    s.Add("writer", [&s] {
      for (int i = 0; i < 5; ++i) Scheduler::Yield();
      for (int row = 0; row < 10; ++row) s.host[100 * row] = 1;
    });
    s.Add("waiter",
          [&s, stream] { EXPECT_CU(s.cu.StreamSynchronize(stream)); });
    ASSERT_EQ(s.Run().kind, Scheduler::Outcome::kCompleted);
    char bytes[600];
    EXPECT_CU(s.cu.MemcpyDtoH(bytes, s.device, sizeof bytes));
    int old_rows = 0;
    while (old_rows < 10 && bytes[60 * old_rows] == 0) ++old_rows;
    for (int row = old_rows; row < 10; ++row) ASSERT_EQ(bytes[60 * row], 1);
    progress.insert(old_rows);
  }
  EXPECT_GT(progress.size(), 5u);
}

TEST(SimcudaShapesModelTest, FreeingWhatACopyIsToUseIsAHazard) {
  Scheduled s(1, RowByRow());
  std::vector<char> memory(1000);
  CUstream stream = s.NewStream();
  EXPECT_CU(s.cu.MemHostRegister(memory.data(), 1000, 0));
  s.Hold(stream);
  const CUDA_MEMCPY2D in = Copy(true, memory.data(), s.device, 60, 10);
  EXPECT_CU(s.cu.Memcpy2DAsync(&in, stream));
  s.Add("freer", [&] {
    s.Open();
    EXPECT_CU(s.cu.MemHostUnregister(memory.data()));
  });
  EXPECT_EQ(s.Run().kind, Scheduler::Outcome::kCompleted);
  EXPECT_TRUE(s.machine.Hazards().empty());  // it waited
}

// Which of copies on another stream run beside a stream that is held, with one
// queue of each kind.
TEST(SimcudaShapesModelTest, CopiesTakeTheQueuesOfTheirKind) {
  MachineOptions options = SmallMachine();  // small up to 256 bytes
  options.compute_queues = options.h2d_queues = options.d2h_queues = 1;
  struct Case {
    bool in;
    size_t height;
    bool runs;
  };
  for (const Case& one : {Case{true, 4, false}, Case{true, 5, true},
                          Case{false, 4, true}, Case{false, 5, true}}) {
    Scheduled s(1, options);
    CUstream held = s.NewStream();
    CUstream other = s.NewStream();
    s.Hold(held);
    const CUDA_MEMCPY2D copy = Copy(one.in, s.host, s.device, 60, one.height);
    EXPECT_CU(s.cu.Memcpy2DAsync(&copy, other));
    s.Add("idle", [] {});
    s.Run();
    EXPECT_EQ(s.cu.StreamQuery(other) == CUDA_SUCCESS, one.runs)
        << one.in << " " << one.height;
    s.Open();
    EXPECT_CU(s.cu.StreamSynchronize(other));
  }
}

TEST(SimcudaShapesModelTest, PageableMemoryBlocksAsDocumented) {
  MachineOptions options = SmallMachine();
  options.async_pageable_staging_bytes = 500;
  std::vector<char> memory(2000, 3);
  struct Case {
    bool in;
    size_t height;
    bool blocks;
  };
  for (const Case& one :
       {Case{true, 8, false}, Case{true, 9, true}, Case{false, 1, true}}) {
    Scheduled s(1, options);
    CUstream held = s.NewStream();
    s.Hold(held);
    s.Add("copier", [&] {
      const CUDA_MEMCPY2D copy =
          Copy(one.in, memory.data(), s.device, 60, one.height);
      EXPECT_CU(s.cu.Memcpy2DAsync(&copy, held));
    });
    EXPECT_EQ(s.Run().kind, one.blocks ? Scheduler::Outcome::kDeadlock
                                       : Scheduler::Outcome::kCompleted)
        << one.in << " " << one.height;
    s.Open();
  }
}

TEST(SimcudaShapesModelTest, AFaultMovesNothing) {
  Scheduled s(1);
  const CUDA_MEMCPY2D in = Copy(true, s.host, s.device, 60, 10);
  std::memset(s.host, 1, 1000);
  EXPECT_CU(s.cu.MemsetD8(s.device, 2, 1000));
  s.machine.InjectFault({"cuMemcpy2DAsync", 0, CUDA_ERROR_OUT_OF_MEMORY});
  CUstream stream = s.NewStream();
  EXPECT_EQ(s.cu.Memcpy2DAsync(&in, stream), CUDA_ERROR_OUT_OF_MEMORY);
  char bytes[600];
  EXPECT_CU(s.cu.MemcpyDtoH(bytes, s.device, sizeof bytes));
  for (const char byte : bytes) ASSERT_EQ(byte, 2);
  EXPECT_CU(s.cu.Memcpy2DAsync(&in, stream));
  EXPECT_EQ(s.machine.Calls("cuMemcpy2DAsync"), 2u);
}

TEST(SimcudaShapesModelTest, LaunchBlockingAndWddmHoldForThemToo) {
  MachineOptions options = SmallMachine();
  options.launch_blocking = true;
  {
    Scheduled s(1, options);
    s.Add("program", [&s] {
      CUstream stream = s.NewStream();
      const CUDA_MEMCPY2D in = Copy(true, s.host, s.device, 60, 10);
      EXPECT_CU(s.cu.Memcpy2DAsync(&in, stream));
      EXPECT_CU(s.cu.StreamQuery(stream));
      EXPECT_CU(s.cu.MemsetD2D8Async(s.device, 100, 1, 60, 10, stream));
      EXPECT_CU(s.cu.StreamQuery(stream));
    });
    EXPECT_EQ(s.Run().kind, Scheduler::Outcome::kCompleted);
  }
  options.launch_blocking = false;
  options.wddm = true;
  Scheduled s(1, options);
  CUstream stream = s.NewStream();
  const CUDA_MEMCPY2D in = Copy(true, s.host, s.device, 60, 10);
  EXPECT_CU(s.cu.Memcpy2DAsync(&in, stream));
  s.Add("idle", [] {});
  s.Run();
  EXPECT_EQ(s.machine.OutstandingOperations(), 1u);
  EXPECT_CU(s.cu.StreamSynchronize(stream));
  EXPECT_EQ(s.machine.OutstandingOperations(), 0u);
}

TEST(SimcudaShapesModelTest, MemsetsOfWiderElementsRepeatThem) {
  MachineOptions options = SmallMachine();
  options.copy_step_bytes = 61;
  Scheduled s(1, options);
  const ExtraDriver& extra = s.machine.extra_driver();
  std::vector<char> expected(8192, 0);
  const auto expect = [&] {
    std::vector<char> now(8192);
    EXPECT_CU(s.cu.MemcpyDtoH(now.data(), s.device, now.size()));
    EXPECT_TRUE(now == expected);
  };
  EXPECT_CU(s.cu.MemsetD8(s.device, 0, 8192));
  EXPECT_CU(extra.MemsetD16(s.device + 2, 0x0201, 101));
  for (size_t i = 0; i < 202; ++i)
    expected[2 + i] = static_cast<char>(1 + i % 2);
  expect();
  EXPECT_CU(extra.MemsetD2D32(s.device + 1000, 200, 0x04030201, 33, 5));
  for (size_t row = 0; row < 5; ++row) {
    for (size_t i = 0; i < 132; ++i)
      expected[1000 + 200 * row + i] = static_cast<char>(1 + i % 4);
  }
  expect();
  EXPECT_EQ(extra.MemsetD16(s.device + 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(extra.MemsetD2D32(s.device, 198, 1, 4, 2),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(s.cu.MemsetD2D8(s.device, 5000, 1, 3193, 2),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CU(s.cu.MemsetD2D8(s.device, 5000, 1, 3192, 2));
  EXPECT_EQ(s.cu.MemsetD2D8(s.device, 50, 1, 51, 2), CUDA_ERROR_INVALID_VALUE);
  std::vector<char> pageable(100);
  EXPECT_EQ(s.cu.MemsetD2D8(reinterpret_cast<CUdeviceptr>(pageable.data()), 10,
                            1, 10, 10),
            CUDA_ERROR_INVALID_VALUE);
}

TEST(SimcudaShapesModelTest, AnArrayIsDeviceMemoryAndGoesWithItsContext) {
  Scheduled s(1);
  const size_t before = s.machine.DeviceBytes(0);
  CUDA_ARRAY_DESCRIPTOR descriptor = {100, 10, CU_AD_FORMAT_HALF, 4};
  CUarray array = nullptr;
  ASSERT_CU(s.cu.ArrayCreate(&array, &descriptor));
  EXPECT_EQ(s.machine.DeviceBytes(0), before + 8000);
  descriptor.Height = 100000;
  CUarray other = nullptr;
  EXPECT_EQ(s.cu.ArrayCreate(&other, &descriptor), CUDA_ERROR_OUT_OF_MEMORY);
  descriptor.NumChannels = 3;
  EXPECT_EQ(s.cu.ArrayCreate(&other, &descriptor), CUDA_ERROR_INVALID_VALUE);
  ASSERT_CU(s.cu.ArrayDestroy(array));
  EXPECT_EQ(s.machine.DeviceBytes(0), before);
  EXPECT_EQ(s.cu.ArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
  descriptor = {10, 10, CU_AD_FORMAT_HALF, 4};
  ASSERT_CU(s.cu.ArrayCreate(&array, &descriptor));
  ASSERT_CU(s.cu.DevicePrimaryCtxReset(0));
  EXPECT_NE(s.cu.ArrayDestroy(array), CUDA_SUCCESS);
}

TEST(SimcudaShapesModelTest, ADriverBefore128HasNoBatches) {
  MachineOptions options = SmallMachine();
  options.batch_copies = false;
  Scheduled s(1, options);
  EXPECT_EQ(s.cu.MemcpyBatchAsync12, nullptr);
  EXPECT_EQ(s.cu.MemcpyBatchAsync13, nullptr);
}

}  // namespace
}  // namespace pinring::simcuda
