// What can go wrong on the simulated device: injected faults, lost contexts,
// hazards, and the limits of WDDM.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "src/simcuda/machine.h"
#include "src/simcuda/scheduler.h"
#include "tests/support/scheduled_machine.h"

namespace pinring::simcuda {
namespace {

// ---- Faults, sticky errors, reset.

TEST(SimcudaFaultsTest, AFaultHitsTheCallThatItNames) {
  Scheduled s(1);
  s.machine.InjectFault({"cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY});
  CUdeviceptr pointer = 0;
  EXPECT_CU(s.cu.MemAlloc(&pointer, 16));
  EXPECT_EQ(s.cu.MemAlloc(&pointer, 16), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_CU(s.cu.MemAlloc(&pointer, 16));
  EXPECT_EQ(s.machine.Calls("cuMemAlloc"), 4u);
}

TEST(SimcudaFaultsTest, AnyCallCanFail) {
  Scheduled s(1);
  const uint64_t before = s.machine.TotalCalls();
  s.machine.InjectFault({"*", 2, CUDA_ERROR_UNKNOWN});
  CUstream stream = s.NewStream();
  EXPECT_CU(s.cu.StreamQuery(stream));
  EXPECT_EQ(s.cu.StreamSynchronize(stream), CUDA_ERROR_UNKNOWN);
  EXPECT_CU(s.cu.StreamSynchronize(stream));
  EXPECT_EQ(s.machine.TotalCalls(), before + 4);
}

TEST(SimcudaFaultsTest, AStickyErrorWakesWhoeverWaitsAndStays) {
  Scheduled s(1);
  CUresult waited = CUDA_SUCCESS;
  CUstream stream = s.NewStream();
  s.Add("waiter", [&] {
    s.Hold(stream);
    waited = s.cu.StreamSynchronize(stream);
  });
  s.Add("breaker", [&] {
    s.scheduler.BlockUntil("the other waits",
                           [&] { return s.scheduler.IsBlocked("waiter"); });
    s.machine.InjectFault(
        {"cuStreamGetFlags", 0, CUDA_ERROR_ILLEGAL_ADDRESS, true});
    unsigned flags = 0;
    EXPECT_EQ(s.cu.StreamGetFlags(stream, &flags), CUDA_ERROR_ILLEGAL_ADDRESS);
  });
  EXPECT_EQ(s.Run().kind, Scheduler::Outcome::kCompleted);
  EXPECT_EQ(waited, CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr pointer = 0;
  EXPECT_EQ(s.cu.MemAlloc(&pointer, 16), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(s.cu.StreamQuery(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  // A reset gives a fresh context; what was there is gone.
  ASSERT_CU(s.cu.DevicePrimaryCtxReset(0));
  EXPECT_EQ(s.cu.MemAlloc(&pointer, 16), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(s.machine.PinnedBytes(), 0u);
  CUcontext context = nullptr;
  ASSERT_CU(s.cu.DevicePrimaryCtxRetain(&context, 0));
  EXPECT_CU(s.cu.MemAlloc(&pointer, 16));
  EXPECT_EQ(s.cu.StreamQuery(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST(SimcudaFaultsTest, AResetWakesWhoeverWaits) {
  Scheduled s(1);
  CUresult waited = CUDA_SUCCESS;
  s.Add("waiter", [&] {
    CUstream stream = s.NewStream();
    s.Hold(stream);
    CUdeviceptr other = 0;
    EXPECT_CU(s.cu.MemAlloc(&other, 16));
    waited = s.cu.MemFree(other);
  });
  s.Add("resetter", [&] {
    s.scheduler.BlockUntil("the other waits",
                           [&] { return s.scheduler.IsBlocked("waiter"); });
    EXPECT_CU(s.cu.DevicePrimaryCtxReset(0));
  });
  // The waiter may also stand before its own launch when it is first blocked.
  EXPECT_EQ(s.Run().kind, Scheduler::Outcome::kCompleted);
  EXPECT_EQ(waited, CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

TEST(SimcudaFaultsTest, MemoryOperationsAndRegistrationCanBeMissing) {
  MachineOptions options = SmallMachine();
  options.stream_memory_operations = false;
  options.host_register_supported = false;
  Scheduled s(1, options);
  EXPECT_EQ(s.cu.StreamBatchMemOp, nullptr);
  EXPECT_EQ(s.cu.StreamWaitValue32, nullptr);
  EXPECT_EQ(s.cu.StreamWriteValue32, nullptr);
  static char memory[100];
  EXPECT_EQ(s.cu.MemHostRegister(memory, 100, 0), CUDA_ERROR_NOT_SUPPORTED);
}

TEST(SimcudaFaultsTest, NothingWorksBeforeInit) {
  Machine machine(SmallMachine(), nullptr);
  int count = 0;
  EXPECT_EQ(machine.driver().DeviceGetCount(&count),
            CUDA_ERROR_NOT_INITIALIZED);
  ASSERT_CU(machine.driver().Init(0));
  EXPECT_CU(machine.driver().DeviceGetCount(&count));
  EXPECT_EQ(count, 1);
}

// ---- Hazards.

TEST(SimcudaHazardsTest, RewritingASourceInFlightIsReported) {
  int reported = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Scheduled s(seed);
    s.Add("program", [&s] {
      CUstream stream = s.NewStream();
      EXPECT_CU(s.cu.MemcpyHtoDAsync(s.device, s.host, 1000, stream));
      for (int i = 0; i < 4; ++i) Scheduler::Yield();
      std::memset(s.host, 9, 1000);
      EXPECT_CU(s.cu.StreamSynchronize(stream));
    });
    EXPECT_EQ(s.Run().kind, Scheduler::Outcome::kCompleted);
    reported += !s.machine.Hazards().empty();
  }
  EXPECT_GT(reported, 0);
}

TEST(SimcudaHazardsTest, RewritingADestinationInFlightIsReported) {
  int reported = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Scheduled s(seed);
    EXPECT_CU(s.cu.MemsetD8(s.device, 1, 1000));
    s.Add("program", [&s] {
      CUstream stream = s.NewStream();
      EXPECT_CU(s.cu.MemcpyDtoHAsync(s.host, s.device, 1000, stream));
      for (int i = 0; i < 4; ++i) Scheduler::Yield();
      s.host[0] = 77;
      EXPECT_CU(s.cu.StreamSynchronize(stream));
    });
    EXPECT_EQ(s.Run().kind, Scheduler::Outcome::kCompleted);
    reported += !s.machine.Hazards().empty();
  }
  EXPECT_GT(reported, 0);
}

TEST(SimcudaHazardsTest, ACallFromAHostFunctionIsReportedAndRefused) {
  Scheduled s(1);
  struct Data {
    const Driver* cu;
    CUresult result;
  } data{&s.cu, CUDA_SUCCESS};
  CUstream stream = s.NewStream();
  ASSERT_CU(s.cu.LaunchHostFunc(
      stream,
      [](void* user) {
        auto* d = static_cast<Data*>(user);
        d->result = d->cu->CtxSynchronize();
      },
      &data));
  ASSERT_CU(s.cu.StreamSynchronize(stream));
  EXPECT_EQ(data.result, CUDA_ERROR_NOT_PERMITTED);
  ASSERT_EQ(s.machine.Hazards().size(), 1u);
}

TEST(SimcudaHazardsTest, FreeingMemoryThatQueuedWorkUsesIsReported) {
  // A free waits for what was enqueued before it; this is enqueued meanwhile.
  Scheduled s(1);
  CUstream held = s.NewStream();
  CUstream late = s.NewStream();
  uint32_t* word = nullptr;
  ASSERT_CU(s.cu.MemHostAlloc(reinterpret_cast<void**>(&word), 64, 0));
  s.Add("freer", [&] {
    s.Hold(held);
    EXPECT_CU(s.cu.MemFreeHost(word));
  });
  s.Add("user", [&] {
    s.scheduler.BlockUntil("the other frees",
                           [&] { return s.scheduler.IsBlocked("freer"); });
    EXPECT_CU(s.cu.StreamWaitValue32(late, reinterpret_cast<CUdeviceptr>(word),
                                     0xA5A5A5A6, CU_STREAM_WAIT_VALUE_EQ));
    s.Open();
  });
  s.Run();
  ASSERT_EQ(s.machine.Hazards().size(), 1u);
  EXPECT_NE(s.machine.Hazards()[0].find("cuMemFreeHost"), std::string::npos);
}

// ---- WDDM.

TEST(SimcudaWddmTest, PinnedBytesAreChargedToTheDevice) {
  MachineOptions options = SmallMachine();
  options.wddm = true;
  Scheduled s(1, options);
  CUdeviceptr device = 0;
  ASSERT_CU(s.cu.MemAlloc(&device, 900 << 10));
  void* pinned = nullptr;
  EXPECT_CU(s.cu.MemHostAlloc(&pinned, 64 << 10, 0));
  CUdeviceptr more = 0;
  EXPECT_EQ(s.cu.MemAlloc(&more, 64 << 10), CUDA_ERROR_OUT_OF_MEMORY);
  // One refusal spoils every later pin, even a small one.
  EXPECT_EQ(s.cu.MemHostAlloc(&pinned, 512 << 10, 0),
            CUDA_ERROR_ALREADY_MAPPED);
  EXPECT_EQ(s.cu.MemHostAlloc(&pinned, 64, 0), CUDA_ERROR_ALREADY_MAPPED);
}

TEST(SimcudaWddmTest, WorkIsBatchedUntilSomebodyAsks) {
  MachineOptions options = SmallMachine();
  options.wddm = true;
  Scheduled s(1, options);
  CUstream stream = s.NewStream();
  ASSERT_CU(s.cu.MemcpyHtoDAsync(s.device, s.host, 1000, stream));
  s.Add("idle", [] {
    for (int i = 0; i < 50; ++i) Scheduler::Yield();
  });
  s.Run();
  EXPECT_EQ(s.machine.OutstandingOperations(), 1u);
  EXPECT_EQ(s.cu.StreamQuery(stream), CUDA_ERROR_NOT_READY);  // flushes
  s.Add("idle", [] {});
  s.Run();
  EXPECT_EQ(s.machine.OutstandingOperations(), 0u);
}

}  // namespace
}  // namespace pinring::simcuda
