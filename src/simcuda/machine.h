// A machine with CUDA devices, simulated on the CPU, behind the driver table.
//
// It models what decides whether a program is right or hangs, not speed: every
// operation has a predecessor in its stream, one in its hardware queue, and a
// condition; copies step by small pieces and touch host memory then, not when
// enqueued; one lock per context is held by calls that wait; queues have a
// depth at which calls block. What it answers was measured on a real driver;
// tests/simcuda_test.cc runs the same checks on both.
//
// One machine exists per process at a time, as hardware does: its table of C
// function pointers finds it through a global. Create it before the first
// driver call, destroy it when nothing uses it any more.
//
// Two ways to run. Scheduled: created with a Scheduler; the device and the
// host-function thread are actors of it and calls that wait do so in
// Scheduler::BlockUntil; every entry point yields first. Threaded: no
// scheduler; the machine owns a device thread and a host-function thread, and
// calls wait for real.
//
// Under a scheduler, calls made before and after its runs (setting up, looking)
// let the device run by themselves, in order; one that waits for what only a
// caller or an actor could do answers CUDA_ERROR_LAUNCH_TIMEOUT. Host functions
// and kernels must not block there: a gate is a kernel that returns false.

#ifndef PINRING_SRC_SIMCUDA_MACHINE_H_
#define PINRING_SRC_SIMCUDA_MACHINE_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/driver/driver.h"
#include "src/simcuda/extra_functions.h"
#include "src/simcuda/scheduler.h"

namespace pinring::simcuda {

// What cuDriverGetVersion answers.
inline constexpr int kDriverVersion = 13000;

struct MachineOptions {
  int devices = 1;
  size_t device_bytes = size_t{1} << 30;
  // Hardware queues of each device. A stream takes one when it first needs one
  // of the kind, and keeps it.
  int compute_queues = 8;  // kernels, memory operations, memsets
  int h2d_queues = 4;
  int d2h_queues = 4;
  // Everything of a device in one queue, in the order of enqueueing: what
  // completes so completes on any machine.
  bool one_queue = false;
  // Operations in one hardware queue before a call blocks (measured).
  size_t queue_depth = 1021;
  // What one device step moves, at most, in bytes and in rows of a 2D or 3D
  // copy; a copy takes two steps at least.
  size_t copy_step_bytes = 64 << 10;
  size_t copy_step_rows = 16;
  // Copies to the device up to this take the compute queues. (Measured: copies
  // of up to 16 KiB take another way than the copy queues, 32 KiB do not. The
  // driver runs them beside kernels in all compute queues, though not beside
  // wait-values there; here neither.)
  size_t small_copy_bytes = 16 << 10;
  // Synchronous H2D copies of pageable memory up to this return when the source
  // is read, larger ones when all is done.
  size_t pageable_staging_bytes = 64 << 10;
  // Asynchronous H2D copies of pageable memory up to this read the source
  // during the call and return at once, whatever holds the stream; larger ones
  // block until done. (Measured: 1 MiB returns behind a gate, 4 MiB waits.)
  size_t async_pageable_staging_bytes = 1 << 20;
  // Host functions outstanding in one stream before a call blocks (measured).
  size_t host_function_depth = 56;
  // When a stream first needs a queue of a kind it takes the one with the least
  // in it, in turn among equals; without this, simply the next in turn.
  //
  // While anything but kernels is outstanding, a stream takes the next compute
  // queue in turn unless half of them hold less than that one. How the driver
  // chooses is unknown; this lets fewer things run. Measured with eight queues,
  // k streams held with kernels, memory operations and a copy queued on each,
  // and eight streams made after them: the driver ran seven of these for k = 6,
  // four for k = 7, none for k = 8; here it is two, one and none. Beside held
  // kernels alone both run all eight for k < 8.
  bool balance_queues = true;
  // The first launch of each function of a module waits for the device's work
  // so far, holding the lock. A module whose image is the string "eager" never
  // does.
  bool lazy_loading = true;
  // Host memory that can be pinned in all.
  size_t host_pinnable_bytes = size_t{256} << 30;
  // Compares checksums of what copies moved (see Hazards).
  bool check_hazards = true;
  bool launch_blocking = false;  // kernels, copies and memsets return when
                                 // done; memory operations do not wait
  bool stream_memory_operations = true;
  bool batch_copies = true;  // cuMemcpyBatchAsync, from CUDA 12.8 on
  // Without this, no module image has code for the device.
  bool device_code = true;
  bool host_register_supported = true;
  // WDDM: pinned bytes are charged to the device's budget together with device
  // memory, and one refused pin makes every later pin of the process fail
  // (already mapped). Enqueued work reaches the device when a call queries or
  // waits for anything of the context, or when wddm_batch_operations have
  // gathered.
  bool wddm = false;
  size_t wddm_batch_operations = 32;
};

// A fault to inject: the call-th call (from 0, counted since the fault was set)
// of `function` answers `code` and does nothing else.
struct Fault {
  std::string function;  // "cuMemcpyHtoDAsync", or "*" for every entry point
  uint64_t call = 0;
  CUresult code = CUDA_ERROR_UNKNOWN;
  bool sticky = false;  // the context answers this code to everything from then
                        // on, and its queued work never runs
};

// A kernel that is a host callback. Device pointers are addresses of the
// process, and it may dereference them; it reads flags that a CPU thread writes
// with acquire loads, and makes no driver call. Returning false means that it
// still runs (it is called again later): a gate. `parameters` are copies of the
// launch's, one pointer each as given to cuLaunchKernel.
using KernelFunction = std::function<bool(void** parameters)>;

// While one lives, its thread's calls take the null stream, and copies that
// name no stream, for the per-thread default stream: what the entry points do
// that have _ptsz and _ptds in their names.
class PerThreadDefaultStream {
 public:
  PerThreadDefaultStream();
  ~PerThreadDefaultStream();
  PerThreadDefaultStream(const PerThreadDefaultStream&) = delete;
  PerThreadDefaultStream& operator=(const PerThreadDefaultStream&) = delete;

 private:
  const bool before_;
};

class Machine {
 public:
  // scheduler may be null (threaded).
  Machine(const MachineOptions& options, Scheduler* scheduler);
  ~Machine();  // threaded: waits for nothing; drops what is still queued
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  // The table for this machine. All required and optional entries are set
  // (optional ones per MachineOptions).
  const Driver& driver() const;
  const ExtraDriver& extra_driver() const;

  // A kernel by name, with the sizes of its parameters; any module image loaded
  // by cuModuleLoadData offers all kernels registered so far.
  void RegisterKernel(std::string name, std::vector<size_t> parameter_bytes,
                      KernelFunction function);

  void InjectFault(const Fault& fault);
  void ClearFaults();
  // How often an entry point was called since creation, by its symbol
  // ("cuMemcpyHtoDAsync"), and all of them in order of name.
  uint64_t Calls(std::string_view function) const;
  std::vector<std::pair<std::string, uint64_t>> AllCalls() const;
  // Every call of every entry point since creation (fault sweeps count with
  // this).
  uint64_t TotalCalls() const;

  // DMA hazards seen: memory freed, unregistered or rewritten by the host while
  // a copy that reads or writes it is in progress (a checksum of the piece
  // moved is compared when the copy ends; frees are seen at once). One line
  // each.
  std::vector<std::string> Hazards() const;
  // Really pinned host bytes now and at most, over all ways of pinning.
  size_t PinnedBytes() const;
  size_t PeakPinnedBytes() const;
  // What device memory holds, without a call: for tests that look while a
  // context lock is held.
  size_t DeviceBytes(int device) const;
  // Operations that are enqueued and not finished, and (scheduled) why each
  // head of a queue does not run: for failure messages.
  size_t OutstandingOperations() const;
  std::string Describe() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pinring::simcuda

#endif  // PINRING_SRC_SIMCUDA_MACHINE_H_
