#include "tests/support/fault_bench.h"

#include <algorithm>
#include <utility>

#include "src/os/check.h"
#include "tests/support/random_bytes.h"

namespace pinring {
namespace {

void Must(bool holds, const char* what) { PINRING_CHECK(holds, what); }

simcuda::MachineOptions SmallMachine() {
  simcuda::MachineOptions options;
  options.copy_step_bytes = 2048;
  options.small_copy_bytes = 1024;
  return options;
}

Options SmallRing() {
  Options options;
  options.small_limit_bytes = 0;
  options.small_pool_bytes = 0;
  options.ring_bytes = 64 * kKiB;
  options.slot_bytes = FaultBench::kSlotBytes;
  options.slots_per_stream = 4;
  options.pinned_limit_bytes = 16 * kMiB;
  options.movers = 1;
  return options;
}

}  // namespace

FaultBench::FaultBench() : bed_(SmallMachine()), gate_(bed_) {
  pinned_before_ = machine().PinnedBytes();
  RestartInstance();
  for (int i = 0; i < kStreams; ++i) {
    streams_[i] = i == 2 ? bed_.BlockingStream() : bed_.NonBlockingStream();
  }
  side_stream_ = bed_.NonBlockingStream();
}

FaultBench::~FaultBench() {
  Open();
  instance_.reset();
}

void FaultBench::RestartInstance() {
  auto instance = Instance::Create(&driver(), SmallRing(), &blocks_);
  Must(instance.ok(), "an instance for a test");
  instance_ = *std::move(instance);
}

void FaultBench::DropInstance() { instance_.reset(); }

FaultBench::Copy* FaultBench::AddCopy(bool out, size_t bytes, int stream,
                                      bool wait) {
  Copy& copy = copies_.emplace_back();
  copy.out = out;
  copy.wait = wait;
  copy.stream = stream;
  copy.bytes = bytes;
  copy.seed = 77 * copies_.size();
  void* block = nullptr;
  Must(instance_->HostAlloc(&block, bytes, 0).ok(), "a block for a test");
  copy.block = static_cast<char*>(block);
  if (!out) FillRandom(copy.block, bytes, copy.seed);
  return &copy;
}

FaultBench::Copy* FaultBench::Prepare(bool out, size_t bytes, int stream,
                                      bool wait) {
  Copy* const copy = AddCopy(out, bytes, stream, wait);
  copy->device = bed_.DeviceBuffer(bytes);
  if (out) {
    std::vector<char> source(bytes);
    FillRandom(source.data(), bytes, copy->seed);
    Must(driver().MemcpyHtoDAsync(copy->device, source.data(), bytes,
                                  side_stream_) == CUDA_SUCCESS &&
             driver().StreamSynchronize(side_stream_) == CUDA_SUCCESS,
         "cuMemcpyHtoDAsync");
  }
  return copy;
}

FaultBench::Copy* FaultBench::PrepareArray(size_t rows, int stream, bool wait) {
  Copy* const copy = AddCopy(false, rows * kArrayWidth, stream, wait);
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
  descriptor.Width = kArrayWidth;
  descriptor.Height = rows;
  descriptor.Format = CU_AD_FORMAT_UNSIGNED_INT8;
  descriptor.NumChannels = 1;
  Must(driver().Array3DCreate(&copy->array, &descriptor) == CUDA_SUCCESS,
       "cuArray3DCreate");
  return copy;
}

FaultBench::Copy* FaultBench::PrepareFill(size_t bytes, int stream, bool wait) {
  Copy* const copy = AddCopy(true, bytes, stream, wait);
  copy->fill = true;
  return copy;
}

void FaultBench::Issue(Copy* copy) {
  copy->tried = true;
  const CUstream stream = copy->wait ? nullptr : streams_[copy->stream];
  Instance::Rows rows;
  rows.width = copy->bytes;
  if (copy->fill) {
    copy->status = instance_->Memset({.dst = copy->block,
                                      .value = kFill,
                                      .rows = rows,
                                      .stream = stream,
                                      .wait = copy->wait});
    return;
  }
  if (copy->peer || copy->early) {
    void* const device = reinterpret_cast<void*>(copy->device);
    rows.width = copy->bytes / 2;
    rows.height = 2;
    rows.dst = rows.src = {rows.width, 0};
    Instance::Copy described = {
        .dst = copy->out ? copy->block : device,
        .src = copy->out ? device : static_cast<void*>(copy->block),
        .bytes = copy->bytes,
        .rows = copy->bytes % 2 == 0 ? &rows : nullptr,
        .kind = cudaMemcpyDefault,
        .stream = stream,
        .wait = copy->wait,
        .access =
            copy->early ? HostAccess::kDuringCall : HostAccess::kInStreamOrder};
    copy->status =
        copy->early ? instance_->CopyPageable(described)
                    : instance_->MemcpyPeer(described, {.dst = bed_.context(),
                                                        .src = bed_.context()});
    return;
  }
  if (copy->array != nullptr) {
    rows.width = kArrayWidth;
    rows.height = copy->bytes / kArrayWidth;
    rows.src = {kArrayWidth, 0};
    copy->status =
        instance_->MemcpyRows({.src = copy->block,
                               .rows = &rows,
                               .array = ArrayPlace{.array = copy->array},
                               .stream = stream,
                               .wait = copy->wait});
    return;
  }
  void* const device = reinterpret_cast<void*>(copy->device);
  void* const dst = copy->out ? copy->block : device;
  void* const src = copy->out ? device : copy->block;
  copy->status =
      copy->wait ? instance_->Memcpy(dst, src, copy->bytes, cudaMemcpyDefault)
                 : instance_->MemcpyAsync(dst, src, copy->bytes,
                                          cudaMemcpyDefault, stream);
}

void FaultBench::Warm() {
  Copy* const copy = Prepare(false, 100, 0);
  Issue(copy);
  Must(copy->status.ok() &&
           driver().StreamSynchronize(streams_[0]) == CUDA_SUCCESS,
       "the first copy");
  Must(HappensWithin(kHappens,
                     [&] { return instance_->engine().outstanding() == 0; }),
       "the end of the first copy");
}

size_t FaultBench::WrongBytes() {
  size_t wrong = 0;
  for (const Copy& copy : copies_) {
    if (!copy.tried || !copy.status.ok() || copy.block == nullptr) continue;
    if (copy.fill) {
      wrong += static_cast<size_t>(std::count_if(
          copy.block, copy.block + copy.bytes,
          [](char c) { return static_cast<unsigned char>(c) != kFill; }));
    } else if (copy.out) {
      wrong += pinring::WrongBytes(copy.block, copy.bytes, copy.seed);
    } else {
      wrong += WrongBytesThere(copy);
    }
  }
  return wrong;
}

size_t FaultBench::WrongBytesThere(const Copy& copy) {
  std::vector<char> seen(copy.bytes);
  if (copy.array != nullptr) {
    CUDA_MEMCPY2D back = {};
    back.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    back.srcArray = copy.array;
    back.dstMemoryType = CU_MEMORYTYPE_HOST;
    back.dstHost = seen.data();
    back.dstPitch = back.WidthInBytes = kArrayWidth;
    back.Height = copy.bytes / kArrayWidth;
    Must(driver().Memcpy2DAsync(&back, side_stream_) == CUDA_SUCCESS,
         "cuMemcpy2DAsync");
  } else {
    Must(driver().MemcpyDtoHAsync(seen.data(), copy.device, copy.bytes,
                                  side_stream_) == CUDA_SUCCESS,
         "cuMemcpyDtoHAsync");
  }
  return pinring::WrongBytes(seen.data(), copy.bytes, copy.seed);
}

absl::Status FaultBench::Free(Copy* copy) {
  absl::Status status = instance_->FreeHost(copy->block);
  copy->block = nullptr;
  return status;
}

void FaultBench::FreeBlocks() {
  for (Copy& copy : copies_) {
    if (copy.block != nullptr) Free(&copy).IgnoreError();
  }
}

std::vector<FaultScenario> FaultScenarios() {
  using Bench = FaultBench;
  constexpr size_t kOne = 3000;
  constexpr size_t kMany = 9 * Bench::kSlotBytes + 5;
  std::vector<FaultScenario> scenarios;
  const auto issue_all = [](Bench& bench) {
    for (const Bench::Copy& copy : bench.copies()) {
      if (!copy.tried) bench.Issue(const_cast<Bench::Copy*>(&copy));
    }
  };
  for (const bool out : {false, true}) {
    const std::string way = out ? " to the host" : " to the device";
    for (const size_t bytes : {kOne, kMany}) {
      const std::string size = bytes == kOne ? "one chunk" : "many chunks";
      scenarios.push_back({"deferred, " + size + way,
                           [=](Bench& bench) {
                             bench.Hold(0);
                             bench.Prepare(out, bytes, 0);
                             bench.Prepare(out, bytes, 0);
                           },
                           issue_all});
      scenarios.push_back({"synchronous, " + size + way,
                           [=](Bench& bench) {
                             bench.Prepare(out, bytes, 0, true);
                             bench.Prepare(out, bytes, 0, true);
                           },
                           issue_all});
      scenarios.push_back({"idle stream, " + size + way,
                           [=](Bench& bench) { bench.Prepare(out, bytes, 1); },
                           issue_all});
    }
  }
  scenarios.push_back({"several streams",
                       [=](Bench& bench) {
                         bench.Hold(0);
                         bench.Hold(2);
                         for (int stream = 0; stream < 3; ++stream) {
                           bench.Prepare(false, kMany, stream);
                           bench.Prepare(true, kOne, stream);
                         }
                         bench.Prepare(true, kMany, 1);
                       },
                       issue_all});
  scenarios.push_back({"arrays and memsets",
                       [=](Bench& bench) {
                         bench.Hold(0);
                         bench.PrepareArray(20, 0);
                         bench.PrepareFill(kMany, 0);
                         bench.Prepare(false, kOne, 0);
                         bench.PrepareFill(kMany, 1);
                         bench.PrepareFill(kOne, 0, true);
                         bench.PrepareArray(3, 2, true);
                       },
                       issue_all});
  scenarios.push_back({"peers and boxes",
                       [=](Bench& bench) {
                         bench.Hold(0);
                         bench.Prepare(false, kMany, 0)->peer = true;
                         bench.Prepare(true, kMany + 1, 0)->peer = true;
                         bench.Prepare(false, kOne, 1)->early = true;
                         bench.Prepare(true, kMany + 1, 2, true)->peer = true;
                       },
                       issue_all});
  // Blocks freed with copies in flight.
  scenarios.push_back({"free",
                       [=](Bench& bench) {
                         bench.Hold(0);
                         bench.Prepare(false, kMany, 0);
                         bench.Prepare(true, kMany, 0);
                       },
                       [=](Bench& bench) {
                         issue_all(bench);
                         for (const Bench::Copy& copy : bench.copies()) {
                           (void)bench.Free(const_cast<Bench::Copy*>(&copy));
                         }
                       }});
  scenarios.push_back({"allocation, promotion and attributes",
                       [=](Bench& bench) { bench.Prepare(false, kMany, 1); },
                       [=](Bench& bench) {
                         void* mapped = nullptr;
                         if (bench.instance()
                                 .HostAlloc(&mapped, 5000, cudaHostAllocMapped)
                                 .ok()) {
                           bench.instance().FreeHost(mapped).IgnoreError();
                         }
                         cudaPointerAttributes attributes;
                         char* const block = bench.copies().back().block;
                         bench.instance()
                             .PointerGetAttributes(&attributes, block)
                             .IgnoreError();
                         void* pointer = nullptr;
                         bench.instance()
                             .HostGetDevicePointer(&pointer, block, 0)
                             .IgnoreError();
                         issue_all(bench);
                       }});
  return scenarios;
}

}  // namespace pinring
