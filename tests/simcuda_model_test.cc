// The simulated device under a scheduler: schedules, conditions, handles,
// devices. What it shares with a GPU is in simcuda_test.cc and its neighbours.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "src/simcuda/machine.h"
#include "src/simcuda/scheduler.h"
#include "tests/support/scheduled_machine.h"

namespace pinring::simcuda {
namespace {

TEST(SimcudaScheduleTest, BytesAreRightUnderEverySchedule) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Scheduled s(seed);
    for (int i = 0; i < 2; ++i) {
      s.Add("copier", [&s, i] {
        char* host = s.host + 2000 * i;
        const CUdeviceptr device = s.device + static_cast<size_t>(2000 * i);
        CUstream stream = s.NewStream();
        for (char round = 1; round < 4; ++round) {
          std::memset(host, round, 1000);
          EXPECT_CU(s.cu.MemcpyHtoDAsync(device, host, 1000, stream));
          EXPECT_CU(s.cu.MemcpyDtoHAsync(host + 1000, device, 1000, stream));
          EXPECT_CU(s.cu.StreamSynchronize(stream));
          EXPECT_EQ(std::memcmp(host, host + 1000, 1000), 0);
        }
        EXPECT_CU(s.cu.StreamDestroy(stream));
      });
    }
    ASSERT_EQ(s.Run().kind, Scheduler::Outcome::kCompleted) << "seed " << seed;
    EXPECT_TRUE(s.machine.Hazards().empty());
    EXPECT_EQ(s.machine.OutstandingOperations(), 0u);
  }
}

TEST(SimcudaScheduleTest, ASeedReplaysAProgram) {
  auto trace = [](uint64_t seed) {
    Scheduled s(seed);
    s.Add("a", [&s] { EXPECT_CU(s.cu.MemcpyHtoD(s.device, s.host, 4096)); });
    s.Add("b",
          [&s] { EXPECT_CU(s.cu.MemcpyDtoH(s.host + 4096, s.device, 2048)); });
    return s.Run().trace;
  };
  EXPECT_EQ(trace(3), trace(3));
  EXPECT_NE(trace(3), trace(4));
}

TEST(SimcudaScheduleTest, AGateThatNobodyOpensIsADeadlockWithReasons) {
  Scheduled s(1);
  s.Add("program", [&s] {
    CUstream stream = s.NewStream();
    s.Hold(stream);
    EXPECT_CU(s.cu.MemcpyHtoDAsync(s.device, s.host, 1000, stream));
    s.cu.StreamSynchronize(stream);
  });
  const Scheduler::Outcome outcome = s.Run();
  EXPECT_EQ(outcome.kind, Scheduler::Outcome::kDeadlock);
  EXPECT_EQ(outcome.detail,
            "program: cuStreamSynchronize waits for its stream\n");
  EXPECT_NE(s.machine.Describe().find("first kernel #1 'pinring_hold'"),
            std::string::npos)
      << s.machine.Describe();
}

// The rejected design: a thread that must make a call to let a stream go on.
TEST(SimcudaScheduleTest, AFreeThatWaitsForWhatACopyMustEnqueueHangs) {
  int hangs = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Scheduled s(seed);
    s.Add("enqueuer", [&s] {
      CUstream stream = s.NewStream();
      s.Hold(stream);
      s.cu.MemcpyHtoDAsync(s.device, s.host, 1000, s.NewStream());
      s.Open();
      s.cu.StreamSynchronize(stream);
    });
    s.Add("freer", [&s] {
      CUdeviceptr other = 0;
      s.cu.MemAlloc(&other, 100);
      s.cu.MemFree(other);
    });
    hangs += s.Run().kind == Scheduler::Outcome::kDeadlock;
  }
  EXPECT_GT(hangs, 0);
  EXPECT_LT(hangs, 50);
}

TEST(SimcudaScheduleTest, OneQueueHangsWhereManyDoNot) {
  for (bool one_queue : {false, true}) {
    MachineOptions options = SmallMachine();
    options.one_queue = one_queue;
    Scheduled s(5, options);
    s.Add("program", [&s] {
      CUstream held = s.NewStream();
      CUstream other = s.NewStream();
      s.Hold(held);
      EXPECT_CU(s.cu.MemcpyHtoDAsync(s.device, s.host, 10, other));
      s.cu.StreamSynchronize(other);
      s.Open();
      s.cu.StreamSynchronize(held);
    });
    EXPECT_EQ(s.Run().kind, one_queue ? Scheduler::Outcome::kDeadlock
                                      : Scheduler::Outcome::kCompleted);
  }
}

// Stricter than the driver (machine.h): what a program may count on.
TEST(SimcudaScheduleTest, BesideMixedWorkStreamsTakeComputeQueuesInTurn) {
  const int running_beside[] = {8, 8, 8, 8, 8, 3, 2, 1, 0};
  for (int held = 1; held <= 8; ++held) {
    Scheduled s(1);
    const auto word = reinterpret_cast<CUdeviceptr>(s.host);
    for (int i = 0; i < held; ++i) {
      CUstream stream = s.NewStream();
      s.Hold(stream);
      EXPECT_CU(s.cu.StreamWriteValue32(stream, word, 1, 0));
    }
    CUstream streams[8];
    for (CUstream& stream : streams) stream = s.NewStream();
    for (CUstream stream : streams) {
      EXPECT_CU(s.cu.StreamWriteValue32(stream, word, 1, 0));
    }
    s.Add("idle", [] {});
    s.Run();
    int running = 0;
    for (CUstream stream : streams) {
      running += s.cu.StreamQuery(stream) == CUDA_SUCCESS;
    }
    EXPECT_EQ(running, running_beside[held]) << held;
    s.Open();
  }
}

TEST(SimcudaScheduleTest, ACallThatWaitsForRoomLetsOthersGoOn) {
  MachineOptions options = SmallMachine();
  options.queue_depth = 3;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Scheduled s(seed, options);
    s.Add("filler", [&s] {
      CUstream stream = s.NewStream();
      s.Hold(stream);
      for (int i = 0; i < 5; ++i) {
        EXPECT_CU(s.cu.MemcpyHtoDAsync(s.device, s.host, 1000, stream));
      }
      EXPECT_CU(s.cu.StreamSynchronize(stream));
    });
    s.Add("other", [&s] {
      s.scheduler.BlockUntil("the filler waits",
                             [&] { return s.scheduler.IsBlocked("filler"); });
      CUstream stream = s.NewStream();
      EXPECT_CU(s.cu.MemcpyDtoHAsync(s.host + 4000, s.device, 1000, stream));
      EXPECT_CU(s.cu.StreamSynchronize(stream));
      s.Open();
    });
    EXPECT_EQ(s.Run().kind, Scheduler::Outcome::kCompleted) << seed;
  }
}

TEST(SimcudaScheduleTest, LaunchBlockingCallsReturnWhenDone) {
  MachineOptions options = SmallMachine();
  options.launch_blocking = true;
  Scheduled s(5, options);
  s.Add("program", [&s] {
    CUstream stream = s.NewStream();
    std::memset(s.host, 7, 1000);
    EXPECT_CU(s.cu.MemcpyHtoDAsync(s.device, s.host, 1000, stream));
    EXPECT_CU(s.cu.StreamQuery(stream));
    // Memory operations do not wait.
    EXPECT_CU(s.cu.StreamWaitValue32(stream,
                                     reinterpret_cast<CUdeviceptr>(s.flag), 1,
                                     CU_STREAM_WAIT_VALUE_GEQ));
    EXPECT_EQ(s.cu.StreamQuery(stream), CUDA_ERROR_NOT_READY);
    s.Open();
  });
  EXPECT_EQ(s.Run().kind, Scheduler::Outcome::kCompleted);
}

TEST(SimcudaScheduleTest, WaitConditionsAreThoseOfTheDriver) {
  struct Case {
    unsigned flags;
    uint32_t value;
    uint32_t now;
    bool satisfied;
  };
  const Case cases[] = {
      {CU_STREAM_WAIT_VALUE_GEQ, 5, 4, false},
      {CU_STREAM_WAIT_VALUE_GEQ, 5, 5, true},
      {CU_STREAM_WAIT_VALUE_GEQ, 0xFFFFFFFE, 2, true},  // counters wrap
      {CU_STREAM_WAIT_VALUE_GEQ, 2, 0xFFFFFFFE, false},
      {CU_STREAM_WAIT_VALUE_EQ, 5, 6, false},
      {CU_STREAM_WAIT_VALUE_EQ, 5, 5, true},
      {CU_STREAM_WAIT_VALUE_AND, 6, 1, false},
      {CU_STREAM_WAIT_VALUE_AND, 6, 3, true},
      {CU_STREAM_WAIT_VALUE_NOR, 0xF0F0F0F0, 0x0F0F0F0F, false},
      {CU_STREAM_WAIT_VALUE_NOR, 0xF0F0F0F0, 0x0F0F0F0E, true},
  };
  for (const Case& one : cases) {
    Scheduled s(1);
    *s.flag = one.now;
    CUstream stream = s.NewStream();
    ASSERT_CU(s.cu.StreamWaitValue32(
        stream, reinterpret_cast<CUdeviceptr>(s.flag), one.value, one.flags));
    s.Add("idle", [] {});
    s.Run();
    EXPECT_EQ(s.cu.StreamQuery(stream) == CUDA_SUCCESS, one.satisfied)
        << one.flags << " " << one.value << " " << one.now;
  }
}

// ---- Handles.

TEST(SimcudaHandlesTest, ADestroyedStreamsHandleComesBackWithAnotherId) {
  Scheduled s(1);
  unsigned long long first_id = 0;
  unsigned long long second_id = 0;
  CUstream first = s.NewStream();
  ASSERT_CU(s.cu.StreamGetId(first, &first_id));
  ASSERT_CU(s.cu.StreamDestroy(first));
  EXPECT_EQ(s.cu.StreamQuery(first), CUDA_ERROR_INVALID_HANDLE);
  CUstream second = s.NewStream();
  ASSERT_CU(s.cu.StreamGetId(second, &second_id));
  EXPECT_EQ(first, second);
  EXPECT_NE(first_id, second_id);
}

TEST(SimcudaHandlesTest, ContextsBelongToCallers) {
  Scheduled s(1);
  s.scheduler.AddCaller("fresh", [&s] {
    CUdeviceptr pointer = 0;
    EXPECT_EQ(s.cu.MemAlloc(&pointer, 16), CUDA_ERROR_INVALID_CONTEXT);
    ASSERT_CU(s.cu.CtxPushCurrent(s.context));
    EXPECT_CU(s.cu.MemAlloc(&pointer, 16));
    EXPECT_CU(s.cu.MemFree(pointer));
    CUcontext popped = nullptr;
    ASSERT_CU(s.cu.CtxPopCurrent(&popped));
    EXPECT_EQ(popped, s.context);
    EXPECT_EQ(s.cu.MemAlloc(&pointer, 16), CUDA_ERROR_INVALID_CONTEXT);
  });
  EXPECT_EQ(s.Run().kind, Scheduler::Outcome::kCompleted);
}

TEST(SimcudaHandlesTest, AMachineForgetsTheThreadsOfTheOneBefore) {
  { Scheduled s(1); }
  Machine machine(SmallMachine(), nullptr);
  ASSERT_CU(machine.driver().Init(0));
  CUcontext context = nullptr;
  EXPECT_CU(machine.driver().CtxGetCurrent(&context));
  EXPECT_EQ(context, nullptr);
}

TEST(SimcudaHandlesTest, DevicesAreApart) {
  MachineOptions options = SmallMachine();
  options.devices = 2;
  Scheduled s(1, options);
  CUstream first = s.NewStream();
  s.Hold(first);
  CUcontext other = nullptr;
  int active = 1;
  unsigned flags = 0;
  ASSERT_CU(s.cu.DevicePrimaryCtxGetState(1, &flags, &active));
  EXPECT_EQ(active, 0);
  ASSERT_CU(s.cu.DevicePrimaryCtxRetain(&other, 1));
  ASSERT_CU(s.cu.CtxSetCurrent(other));
  CUdeviceptr memory = 0;
  ASSERT_CU(s.cu.MemAlloc(&memory, 1000));
  std::memset(s.host, 4, 1000);
  // Neither the other device's work nor its lock matters here.
  ASSERT_CU(s.cu.MemcpyHtoD(memory, s.host, 1000));
  ASSERT_CU(s.cu.MemFree(memory));
  // The current device need not be the stream's.
  ASSERT_CU(s.cu.MemcpyHtoDAsync(s.device, s.host, 1000, first));
  CUcontext of_stream = nullptr;
  ASSERT_CU(s.cu.StreamGetCtx(first, &of_stream));
  EXPECT_EQ(of_stream, s.context);
  s.Open();
  ASSERT_CU(s.cu.StreamSynchronize(first));
}

}  // namespace
}  // namespace pinring::simcuda
