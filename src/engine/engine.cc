#include "src/engine/engine.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "src/driver/nvtx.h"
#include "src/driver/status.h"
#include "src/engine/brief_lock.h"
#include "src/engine/chunk_copy.h"
#include "src/engine/memory_operations.h"
#include "src/os/threads.h"

namespace pinring {
namespace {

// Host-to-device copies up to this size are filled during the call where the
// stream is idle: a stream that waits for a flag sees it up to 10 us later
// (H200).
constexpr size_t kDrivenBytes = size_t{2} << 20;
// The movers' help comes too late where no more than this is to be moved.
constexpr size_t kAloneBytes = size_t{128} << 10;
// And up to these sizes the driver copies ordinary memory itself as fast as the
// ring could (H200: 16 KiB in 7 us, 64 KiB out in 21 us).
constexpr size_t kInlineBytes = size_t{16} << 10;
constexpr size_t kSmallDrainBytes = size_t{64} << 10;
// While it waits, a thread looks at the flags this often, and asks the context
// for a sticky error that often.
constexpr uint64_t kLookNanos = 50'000;
constexpr uint64_t kProbeNanos = 2'000'000;
// The mover that polls spins that long before it sleeps between its looks:
// longer than a large chunk is under DMA.
constexpr uint64_t kSpinNanos = 500'000;
constexpr uint64_t kPollSleepMicros = 50;
// Copies of this size keep many movers busy, and of that size also those that
// only fill.
constexpr uint64_t kManyMoversBytes = uint64_t{1} << 20;
constexpr uint64_t kFillersBytes = uint64_t{4} << 20;
// So long after the last piece of such a copy the movers stay awake for the
// next one.
constexpr uint64_t kLingerNanos = 200'000;
// How often it looks whether a graph was launched that nobody told it of: often
// enough for a replay that has just begun, and less than a hundredth of a core.
constexpr absl::Duration kGraphLookInterval = absl::Milliseconds(1);

bool IsDefaultStream(CUstream stream) {
  return IsLegacyStream(stream) || stream == CU_STREAM_PER_THREAD;
}

absl::Status RingWasLost() {
  return CudaStatus(CUDA_ERROR_CONTEXT_IS_DESTROYED,
                    "the context that pins the ring was reset during a copy");
}

}  // namespace

// Makes a context current, and internal calls legal while another stream of the
// thread captures, until the end of the scope.
class Engine::ContextScope {
 public:
  ContextScope(const Driver& driver, CUcontext context) : driver_(driver) {
    CUcontext current = nullptr;
    status_ = CudaStatus(driver_.CtxGetCurrent(&current), "cuCtxGetCurrent");
    if (!status_.ok()) return;
    if (current != context) {
      status_ = CudaStatus(driver_.CtxPushCurrent(context), "cuCtxPushCurrent");
      if (!status_.ok()) return;
      pushed_ = true;
    }
    status_ = CudaStatus(driver_.ThreadExchangeStreamCaptureMode(&mode_),
                         "cuThreadExchangeStreamCaptureMode");
    exchanged_ = status_.ok();
  }
  // Both calls undo what succeeded above; should the driver refuse, there is
  // nobody to tell and nothing to do.
  ~ContextScope() {
    if (exchanged_) (void)driver_.ThreadExchangeStreamCaptureMode(&mode_);
    CUcontext popped = nullptr;
    if (pushed_) (void)driver_.CtxPopCurrent(&popped);
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

  const absl::Status& status() const { return status_; }

 private:
  const Driver& driver_;
  absl::Status status_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  bool pushed_ = false;
  bool exchanged_ = false;
};

Engine::Engine(const EngineOptions& options,
               const EngineSurroundings& surroundings)
    : options_(options), around_(surroundings), driver_(*surroundings.driver) {
  if (options_.movers >= 0) {
    const int movers = options_.movers > 0
                           ? options_.movers
                           : copy::DefaultMovers(os::UsableCpus());
    const int all_round = copy::MoversThatDrain(os::UsableCpus());
    movers_ = std::make_unique<copy::WorkerPool>(
        movers, [this, all_round](int worker) {
          nvtx::NameThread(os::ThreadName());
          if (worker < all_round) {
            MoverBody();
          } else {
            FillerBody();
          }
        });
  }
}

Engine::~Engine() {
  graph_leases_->EngineIsGone();
  if (abandoned_.load(std::memory_order_acquire)) return;
  if (movers_ != nullptr) {
    movers_->Stop([this] {
      const BriefLock lock(mutex_);
      published_.SignalAll();
      poll_turn_.Wake(Core::Work::kAll);
      poll_turn_.Wake(Core::Work::kFill);
    });
  }
  const bool idle = outstanding() == 0 && graph_copies() == 0;
  absl::MutexLock lock(&setup_mutex_);
  if (ring_ == nullptr || !idle) return;
  CUcontext current = nullptr;
  if (driver_.CtxGetCurrent(&current) != CUDA_SUCCESS || current == nullptr)
    return;
  const size_t pinned_bytes = ring_->pinned_bytes();
  if (ring_->Release(driver_).ok()) around_.release_ring(pinned_bytes);
}

// --- Setting up
// -----------------------------------------------------------------------------------------------------

absl::Status Engine::EnsureRing(CUcontext current, unsigned long long id) {
  if (ring_memory_.load(std::memory_order_acquire) != nullptr)
    return absl::OkStatus();
  {
    absl::MutexLock lock(&setup_mutex_);
    while (making_) {
      around_.parking->Await(
          setup_mutex_, "another thread makes the ring",
          [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !making_; },
          kProbeNanos);
    }
    // Refused once is refused for good: on WDDM another try makes later ones
    // fail too.
    if (ring_ != nullptr || !ring_status_.ok()) return ring_status_;
    making_ = true;
  }
  absl::StatusOr<std::unique_ptr<RingMemory>> ring = MakeRing();
  if (ring.ok()) TakeOver(**ring);
  absl::MutexLock lock(&setup_mutex_);
  making_ = false;
  // A context that went away meanwhile has refused nothing.
  if (CudaCode(ring.status()) == CUDA_ERROR_CONTEXT_IS_DESTROYED)
    return ring.status();
  ring_status_ = ring.status();
  if (ring.ok()) {
    ring_ = *std::move(ring);
    home_ = driver_.CtxGetId == nullptr ? nullptr : current;
    home_id_ = id;
    ring_memory_.store(ring_.get(), std::memory_order_release);
  }
  return ring_status_;
}

// The movers go on with a new ring.
void Engine::TakeOver(const RingMemory& ring) {
  CoreOptions options;
  options.ring_bytes = options_.ring_bytes;
  options.reserve_bytes =
      options_.division.slot_bytes == 0 ? options_.ring_bytes / 4 : 0;
  options.division = options_.division;
  if (options_.division.slot_bytes != 0)
    options.unit_bytes = options_.division.slot_bytes;
  options.piece_bytes = options_.piece_bytes;
  options.smallest_chunk_bytes = options_.smallest_chunk_bytes;
  options.hand_over_bytes = options_.hand_over_bytes;
  options.lines = options_.lines;
  options.first_sequence = options_.first_sequence;
  options.graph_lines = std::min(options_.graph_lines, options_.lines / 2);
  options.graph_bytes = options_.ring_bytes / 4;
  options.share_graph_lines_for_test = options_.share_graph_lines_for_test;
  options.share_slots_for_test = options_.share_slots_for_test;
  auto core = std::make_unique<Core>(options, ring.bytes(), ring.lines());
  const BriefLock lock(mutex_);
  if (core_ != nullptr) {
    core_->LoseAll();
    core->Inherit(*core_);
  }
  core_ = std::move(core);
}

absl::StatusOr<bool> Engine::StillPinned(const RingMemory& ring) const {
  unsigned type = 0;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
  void* values[] = {&type};
  if (absl::Status status =
          CudaStatus(driver_.PointerGetAttributes(
                         1, attributes, values,
                         reinterpret_cast<CUdeviceptr>(ring.bytes())),
                     "cuPointerGetAttributes of the ring");
      !status.ok()) {
    return status;
  }
  return type == CU_MEMORYTYPE_HOST;
}

// The context that had pinned it was reset. Transfers in flight are lost, also
// those of other contexts: the device cannot reach the ring any more, as it
// could not reach pinned memory of that context.
void Engine::LoseRing(const RingMemory* ring) {
  std::unique_ptr<RingMemory> lost;
  {
    absl::MutexLock lock(&setup_mutex_);
    if (ring_.get() != ring) return;  // another thread was faster
    ring_memory_.store(nullptr, std::memory_order_release);
    lost = std::move(ring_);
    home_ = nullptr;
  }
  {
    const BriefLock lock(mutex_);
    if (core_->ring() == lost->bytes()) core_->LoseAll();
  }
  // Memory that cannot be given back now is when the engine ends.
  lost->Abandon().IgnoreError();
  around_.release_ring(lost->pinned_bytes());
  absl::MutexLock lock(&setup_mutex_);
  lost_rings_.push_back(std::move(lost));
}

absl::StatusOr<std::unique_ptr<RingMemory>> Engine::MakeRing() {
  if (driver_.StreamBatchMemOp == nullptr ||
      driver_.StreamWriteValue32 == nullptr) {
    return absl::UnimplementedError(
        "the driver has no stream memory operations (CUDA 11.7 or newer has "
        "them): install a newer driver");
  }
  const size_t bytes =
      RingMemory::PinnedBytes(options_.ring_bytes, options_.lines);
  if (!around_.charge_ring(bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a ring of ", bytes,
        " bytes is over the limit of pinned memory: "
        "raise PINRING_PINNED_LIMIT_BYTES or lower PINRING_RING_BYTES"));
  }
  const int threads = std::max(1, std::min(8, os::UsableCpus()));
  absl::StatusOr<std::unique_ptr<RingMemory>> ring =
      RingMemory::Create(driver_, options_.ring_bytes, options_.lines,
                         options_.first_sequence, threads);
  if (!ring.ok()) {
    around_.release_ring(bytes);
    return ring.status();
  }
  if (movers_ != nullptr) {
    nvtx::Attach();
    if (absl::Status status = movers_->EnsureStarted(); !status.ok()) {
      // Unpinning waits for the device, which cannot need this ring yet.
      if ((*ring)->Release(driver_).ok()) around_.release_ring(bytes);
      return status;
    }
  }
  return ring;
}

absl::StatusOr<CUcontext> Engine::ContextOfStream(CUstream stream) const {
  CUcontext context = nullptr;
  const CUresult code = IsDefaultStream(stream)
                            ? driver_.CtxGetCurrent(&context)
                            : driver_.StreamGetCtx(stream, &context);
  if (absl::Status status = CudaStatus(
          code, IsDefaultStream(stream) ? "cuCtxGetCurrent" : "cuStreamGetCtx");
      !status.ok()) {
    return status;
  }
  if (context == nullptr)
    return CudaStatus(CUDA_ERROR_INVALID_CONTEXT,
                      "a copy without a current context");
  return context;
}

absl::StatusOr<unsigned long long> Engine::ContextId(CUcontext handle) const {
  unsigned long long id = 0;
  if (driver_.CtxGetId == nullptr) return id;
  absl::Status status = CudaStatus(driver_.CtxGetId(handle, &id), "cuCtxGetId");
  if (!status.ok()) return status;
  return id;
}

absl::StatusOr<const Engine::Context*> Engine::FindContextAndRing() {
  CUcontext handle = nullptr;
  if (absl::Status status =
          CudaStatus(driver_.CtxGetCurrent(&handle), "cuCtxGetCurrent");
      !status.ok())
    return status;
  // Before the ring is made: a context that is reset meanwhile must not pass
  // for the one that pins it.
  const absl::StatusOr<unsigned long long> id = ContextId(handle);
  if (!id.ok()) return id.status();
  // A ring that was just made is pinned, unless its context is reset again and
  // again.
  for (int tries = 0; tries < 3; ++tries) {
    if (absl::Status status = EnsureRing(handle, *id); !status.ok()) {
      if (CudaCode(status) == CUDA_ERROR_CONTEXT_IS_DESTROYED) return status;
      return nullptr;
    }
    const RingMemory* const ring = ring_memory_.load(std::memory_order_acquire);
    if (ring == nullptr) continue;  // lost just now
    absl::StatusOr<const Context*> context = FindContext(handle, *id, ring);
    if (!context.ok() || *context != nullptr) return context;
    LoseRing(ring);
  }
  return RingWasLost();
}

// Null where the ring is not pinned any more. Asks the driver only in contexts
// other than the ring's own, which takes it along when it goes.
absl::StatusOr<const Engine::Context*> Engine::FindContext(
    CUcontext handle, unsigned long long id, const RingMemory* ring) {
  const Context* known = nullptr;
  CUevent probe = nullptr;
  bool home = false;
  {
    absl::MutexLock lock(&setup_mutex_);
    if (ring_.get() != ring) return nullptr;
    home = home_ != nullptr && handle == home_ && id == home_id_;
    const auto it = contexts_.find(handle);
    if (it != contexts_.end() && it->second->id == id) {
      // With another ring, everything else about it is as it was.
      if (it->second->ring == ring) known = it->second;
      probe = it->second->probe;
    }
  }
  if (!home) {
    const absl::StatusOr<bool> pinned = StillPinned(*ring);
    if (!pinned.ok()) return pinned.status();
    if (!*pinned) return nullptr;
  }
  if (known != nullptr) return known;
  absl::StatusOr<CUdeviceptr> flags = ring->DeviceLines(driver_);
  if (!flags.ok()) return flags.status();
  const bool made = probe == nullptr;
  if (made) {
    if (absl::Status status =
            CudaStatus(driver_.EventCreate(&probe, CU_EVENT_DISABLE_TIMING),
                       "cuEventCreate");
        !status.ok()) {
      return status;
    }
  }
  auto context = std::make_unique<Context>();
  context->handle = handle;
  context->id = id;
  context->ring = ring;
  context->flags = *flags;
  context->probe = probe;
  {
    absl::MutexLock lock(&setup_mutex_);
    const auto it = contexts_.find(handle);
    if (it == contexts_.end() || it->second->id != id ||
        it->second->ring != ring) {
      known = contexts_[handle] = context.get();
      all_contexts_.push_back(std::move(context));
      return known;
    }
    known = it->second;
  }
  // Another thread was faster; an event that was never recorded can go at any
  // time, and nobody would miss it if it stayed.
  if (made) (void)driver_.EventDestroy(probe);
  return known;
}

// --- Copying
// --------------------------------------------------------------------------------------------------------

absl::StatusOr<CopyResult> Engine::Copy(const CopyRequest& request) {
  if (abandoned_.load(std::memory_order_acquire)) {
    return CudaStatus(CUDA_ERROR_NOT_INITIALIZED, "a copy in a child of fork");
  }
  absl::StatusOr<CUcontext> context = ContextOfStream(request.stream);
  if (!context.ok()) return context.status();
  const ContextScope scope(driver_, *context);
  if (!scope.status().ok()) return scope.status();
  const nvtx::Range range(request.direction == Direction::kHostToDevice
                              ? nvtx::Task::kCopyToDevice
                              : nvtx::Task::kCopyToHost,
                          request.shape.bytes());
  return CopyInContext(request);
}

absl::StatusOr<CopyResult> Engine::CopyInContext(const CopyRequest& request) {
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult capture_code =
      driver_.StreamIsCapturing(request.stream, &capture);
  // The legacy stream beside a capturing one: the driver's own copy says what
  // is natively said.
  if (capture_code == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
    return CopyResult{CopyOutcome::kCapturing};
  if (absl::Status status = CudaStatus(capture_code, "cuStreamIsCapturing");
      !status.ok())
    return status;
  if (capture != CU_STREAM_CAPTURE_STATUS_NONE)
    return CopyResult{CopyOutcome::kCapturing};

  std::optional<CopyOutcome> refused;
  if (absl::Status status = CheckDeviceEnd(request, &refused); !status.ok())
    return status;
  if (refused.has_value()) return CopyResult{*refused};
  if (request.wait && request.direction == Direction::kDeviceToHost &&
      Plain(request, kSmallDrainBytes)) {
    // Into ordinary memory it returns when the bytes have arrived.
    absl::Status status = CudaStatus(
        driver_.MemcpyDtoHAsync(request.host, request.device,
                                static_cast<size_t>(request.shape.bytes()),
                                request.stream),
        "cuMemcpyDtoHAsync");
    if (status.ok() && request.MayBePinned())
      status = WaitUntilHere(request.stream);
    if (!status.ok()) return status;
    return CopyResult{CopyOutcome::kSync};
  }
  const absl::StatusOr<const Context*> context = FindContextAndRing();
  if (!context.ok()) return context.status();
  if (*context == nullptr) return CopyResult{CopyOutcome::kNoRing};
  absl::StatusOr<StreamKey> key = KeyOf(request.stream, **context);
  if (!key.ok()) return key.status();

  bool here = false;  // the stream has nothing to do before this copy
  if (WaitsFirst(request)) {
    if (absl::Status status = WaitUntilHere(request.stream); !status.ok())
      return status;
    here = true;
  }
  absl::StatusOr<Begun> begun =
      BeginCopy(request, **context, *std::move(key), here);
  if (!begun.ok()) return begun.status();
  return AwaitCopy(request, **context, *begun);
}

// A copy that the driver can be given as it is: the block is ordinary memory to
// it, which it copies itself during the call.
bool Engine::Plain(const CopyRequest& request, size_t most_bytes) const {
  return options_.division.slot_bytes == 0 && request.shape.flat() &&
         !request.array.has_value() && !request.fill.has_value() &&
         request.shape.bytes() <= most_bytes && !request.MayBePinned();
}

// Cheaper than three operations of the stream and a mover.
bool Engine::WaitsFirst(const CopyRequest& request) const {
  return request.wait && request.direction == Direction::kHostToDevice &&
         Plain(request, kDrivenBytes);
}

absl::Status Engine::WaitUntilHere(CUstream stream) const {
  CUevent here = nullptr;
  absl::Status status = CudaStatus(
      driver_.EventCreate(&here, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  if (!status.ok()) return status;
  status = CudaStatus(driver_.EventRecord(here, stream), "cuEventRecord");
  if (status.ok())
    status = CudaStatus(driver_.EventSynchronize(here), "cuEventSynchronize");
  (void)driver_.EventDestroy(here);
  return status;
}

absl::StatusOr<bool> Engine::IsHere(CUstream stream, bool* idle) const {
  *idle = false;
  // The legacy stream is not asked: a query of it is illegal while a blocking
  // stream captures.
  if (IsLegacyStream(stream)) return false;
  const CUresult code = driver_.StreamQuery(stream);
  if (code == CUDA_ERROR_NOT_READY) return false;
  if (absl::Status status = CudaStatus(code, "cuStreamQuery"); !status.ok())
    return status;
  *idle = true;
  // A blocking stream that is idle stands behind the legacy stream's work.
  if (stream == CU_STREAM_PER_THREAD) return false;
  unsigned flags = 0;
  if (absl::Status status = CudaStatus(driver_.StreamGetFlags(stream, &flags),
                                       "cuStreamGetFlags");
      !status.ok()) {
    return status;
  }
  return (flags & CU_STREAM_NON_BLOCKING) != 0;
}

absl::StatusOr<StreamKey> Engine::KeyOf(CUstream stream,
                                        const Context& context) const {
  unsigned long long id = reinterpret_cast<uintptr_t>(stream);
  if (driver_.StreamGetId != nullptr) {
    if (absl::Status status =
            CudaStatus(driver_.StreamGetId(stream, &id), "cuStreamGetId");
        !status.ok())
      return status;
  }
  return StreamKey{&context, id};
}

// Natively a copy that leaves its allocation moves nothing, so the whole range
// is looked at before the first chunk.
absl::Status Engine::CheckDeviceEnd(const CopyRequest& request,
                                    std::optional<CopyOutcome>* refused) const {
  if (request.fill.has_value()) return absl::OkStatus();
  return request.array.has_value() ? CheckArrayRange(request, refused)
                                   : CheckDeviceRange(request, refused);
}

// Mappings next to each other are one range.
absl::Status Engine::CheckDeviceRange(
    const CopyRequest& request, std::optional<CopyOutcome>* refused) const {
  CUdeviceptr address = request.device;
  const uint64_t bytes = request.shape.Extent(request.shape.device);
  const CUdeviceptr end = request.device + bytes;
  if (end < request.device)
    return CudaStatus(CUDA_ERROR_INVALID_VALUE,
                      "a copy past the end of the address space");
  while (address < end) {
    unsigned type = 0;
    CUdeviceptr range_start = 0;
    size_t range_bytes = 0;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                                        CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void* values[] = {&type, &range_start, &range_bytes};
    const CUresult code =
        driver_.PointerGetAttributes(3, attributes, values, address);
    if (absl::Status status = CudaStatus(code, "cuPointerGetAttributes");
        !status.ok())
      return status;
    const bool known = type == CU_MEMORYTYPE_DEVICE && range_bytes > 0 &&
                       range_start + range_bytes > address;
    if (!known) {
      if (address == request.device) {
        *refused = CopyOutcome::kNotDevice;
        return absl::OkStatus();
      }
      return CudaStatus(
          CUDA_ERROR_INVALID_VALUE,
          absl::StrCat("a copy over ", bytes,
                       " bytes that leaves its device memory after ",
                       address - request.device));
    }
    address = range_start + range_bytes;
  }
  return absl::OkStatus();
}

absl::Status Engine::CheckArrayRange(
    const CopyRequest& request, std::optional<CopyOutcome>* refused) const {
  const ArrayPlace& place = *request.array;
  CUDA_ARRAY3D_DESCRIPTOR array;
  if (absl::Status status =
          CudaStatus(driver_.Array3DGetDescriptor(&array, place.array),
                     "cuArray3DGetDescriptor");
      !status.ok()) {
    return status;
  }
  const uint64_t element = ArrayElementBytes(array);
  if (element == 0) {
    *refused = CopyOutcome::kArrayFormat;
    return absl::OkStatus();
  }
  const auto outside = [](uint64_t from, uint64_t length, uint64_t all) {
    return from > all || length > all - from;
  };
  const Shape& shape = request.shape;
  if (outside(place.x, shape.width, array.Width * element) ||
      outside(place.y, shape.height, std::max<uint64_t>(1, array.Height)) ||
      outside(place.z, shape.depth, std::max<uint64_t>(1, array.Depth))) {
    return CudaStatus(
        CUDA_ERROR_INVALID_VALUE,
        absl::StrCat("a copy of ", shape.width, " bytes x ", shape.height,
                     " rows x ", shape.depth, " slices at byte ", place.x,
                     ", row ", place.y, ", slice ", place.z, " of an array of ",
                     array.Width, " x ", array.Height, " x ", array.Depth,
                     " elements of ", element, " bytes"));
  }
  // Parts of elements: the driver's business.
  if (place.x % element != 0 || shape.width % element != 0)
    *refused = CopyOutcome::kArrayFormat;
  return absl::OkStatus();
}

// One thread at a time publishes and enqueues to a stream; none waits for it
// meanwhile.
absl::StatusOr<Engine::Begun> Engine::BeginCopy(const CopyRequest& request,
                                                const Context& context,
                                                const StreamKey& key,
                                                bool here) {
  {
    const BriefLock lock(mutex_);
    while (enqueueing_.contains(key)) {
      around_.parking->Await(
          mutex_, "another thread enqueues on the stream",
          [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
            return !enqueueing_.contains(key);
          },
          kProbeNanos);
    }
    enqueueing_.insert(key);
  }
  const absl::Cleanup unlock_stream = [&] {
    const BriefLock lock(mutex_);
    enqueueing_.erase(key);
  };
  bool idle = here;
  if (!here) {
    const absl::StatusOr<bool> answer = IsHere(request.stream, &idle);
    if (!answer.ok()) return answer.status();
    here = *answer;
  }
  if (here && request.direction == Direction::kHostToDevice &&
      Plain(request, kInlineBytes)) {
    absl::Status status = CudaStatus(
        driver_.MemcpyHtoDAsync(request.device, request.host,
                                static_cast<size_t>(request.shape.bytes()),
                                request.stream),
        "cuMemcpyHtoDAsync");
    if (!status.ok()) return status;
    return Begun{.outcome = CopyOutcome::kIdle};
  }

  TransferRequest wanted;
  wanted.direction = request.direction;
  wanted.host = static_cast<std::byte*>(request.host);
  wanted.shape = request.shape;
  const uint64_t bytes = request.shape.bytes();
  wanted.idle = idle;
  wanted.may_be_idle = IsLegacyStream(request.stream);
  // Writing during the call means waiting for the stream, reading does not.
  const bool waits =
      request.wait || (request.access == HostAccess::kDuringCall &&
                       request.direction == Direction::kDeviceToHost);
  wanted.waits = waits || request.access == HostAccess::kDuringCall;
  wanted.reads_early = request.access != HostAccess::kInStreamOrder || here;
  wanted.fill = request.fill;
  wanted.now_nanos = around_.parking->NowNanos();
  wanted.driven = request.direction == Direction::kHostToDevice && here &&
                  bytes <= kDrivenBytes;
  const absl::StatusOr<Core::Published> published =
      Publish(key, context, wanted, waits);
  if (!published.ok()) return published.status();
  if (published->transfer == nullptr) {
    return Begun{.outcome = published->refusal == Core::Refusal::kNoSlot
                                ? CopyOutcome::kNoSlot
                                : CopyOutcome::kTooDeep};
  }
  const std::shared_ptr<Transfer>& transfer = published->transfer;

  const Enqueued enqueued =
      request.fill.has_value() ? EnqueueFill(request, context, *transfer)
      : transfer->driven       ? EnqueueDriven(request, context, transfer)
                               : EnqueueDeferred(request, context, *transfer);
  if (!enqueued.status.ok()) {
    EndEarly(request, context, *transfer, enqueued.chunks);
    return enqueued.status;
  }

  // A driven copy needs nobody's help any more, and nobody waits for it but by
  // a call.
  if (driver_.batches && (request.wait || !transfer->driven)) {
    Flush(request.stream);
  }
  return Begun{.outcome = waits              ? CopyOutcome::kSync
                          : transfer->driven ? CopyOutcome::kIdle
                                             : CopyOutcome::kDeferred,
               .transfer = transfer};
}

absl::StatusOr<Core::Published> Engine::Publish(const StreamKey& key,
                                                const Context& context,
                                                const TransferRequest& wanted,
                                                bool waits) {
  const uint64_t bytes = wanted.shape.bytes();
  const bool fillers =
      wanted.direction == Direction::kHostToDevice && bytes >= kFillersBytes;
  Core::Published published;
  bool wake = false;  // the movers
  {
    const BriefLock lock(mutex_);
    const auto ring_lost = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return core_->ring() != context.ring->bytes();
    };
    if (ring_lost()) return RingWasLost();
    published = core_->Publish(key, wanted);
    while (published.refusal == Core::Refusal::kQueueFull &&
           AwaitPlaces(key, published.places)) {
      if (ring_lost()) return RingWasLost();
      published = core_->Publish(key, wanted);
    }
    if (published.transfer == nullptr ||
        (published.transfer->driven && bytes <= kAloneBytes)) {
      return published;
    }
    // Large and not known to be held up: all movers are needed at once. From
    // their sleep it is faster from here than one after the other.
    const bool all = bytes >= kManyMoversBytes &&
                     (wanted.idle || wanted.may_be_idle || waits);
    wake = all && poll_turn_.quiet();
    poll_turn_.SetQuiet(false);
    if (all && !wake) {
      (fillers ? expect_fill_ : expect_many_)
          .store(true, std::memory_order_relaxed);
    }
    SignalPublished();
  }
  if (wake) {
    poll_turn_.Wake(Core::Work::kAll);
    if (fillers) poll_turn_.Wake(Core::Work::kFill);
  }
  return published;
}

absl::StatusOr<CopyResult> Engine::AwaitCopy(const CopyRequest& request,
                                             const Context& context,
                                             const Begun& begun) {
  CopyResult result{begun.outcome};
  if (begun.transfer == nullptr) {
    if (begun.outcome != CopyOutcome::kIdle) return result;
    // The driver has read the source, if it is not pinned, and that may be all.
    if (request.wait ||
        (request.access == HostAccess::kDuringCall && request.MayBePinned())) {
      absl::Status status = WaitUntilHere(request.stream);
      if (!status.ok()) return status;
    }
    if (request.wait) result.outcome = CopyOutcome::kSync;
    return result;
  }
  if (begun.outcome == CopyOutcome::kSync) {
    const absl::Status status =
        WaitFor(begun.transfer, context,
                [](const Transfer& sought) { return sought.retired; });
    if (!status.ok()) return status;
    const BriefLock lock(mutex_);
    result.slot_wait_nanos = begun.transfer->slot_wait_nanos;
  } else if (request.access == HostAccess::kDuringCall) {
    const absl::Status status =
        WaitFor(begun.transfer, context,
                [](const Transfer& sought) { return sought.SourceRead(); });
    if (!status.ok()) return status;
  }
  return result;
}

// Natively a call blocks when the queue is full. Here it must not if the caller
// itself is to open the gate that holds the stream, and nobody can know that:
// a stream that stands still for so long is taken to be held.
bool Engine::AwaitPlaces(const StreamKey& key, size_t places) {
  constexpr uint64_t kStandstillNanos = 500'000'000;
  uint64_t since = around_.parking->NowNanos();
  if (since == 0) return false;  // no clock, no waiting
  Sequence done = core_->ChunksDone(key);
  for (;;) {
    const uint64_t now = around_.parking->NowNanos();
    if (core_->PlacesTaken(key, now) + places <= Core::kQueuePlaces)
      return true;
    if (core_->StandsStill(key)) return false;
    if (const Sequence next = core_->ChunksDone(key); next != done) {
      done = next;
      since = now;
    }
    if (now - since > kStandstillNanos) {
      core_->NoteStandstill(key);
      return false;
    }
    around_.parking->Await(
        mutex_, "room in the stream's queue", [] { return false; },
        kProbeNanos);
  }
}

// The way of the data, host to device: the stream says that it got here
// (ready); a mover fills the slot of chunk c and permits it; the stream, which
// waited for that, copies slot to device and says so (done), which frees the
// slot. Device to host: a mover permits chunk c when its slot is free, unless
// it was from the start; the stream copies device to slot and says so (done); a
// mover drains the slot and says so (drained), for which the stream waits at
// the end.
Engine::Enqueued Engine::EnqueueDeferred(const CopyRequest& request,
                                         const Context& context,
                                         const Transfer& transfer) const {
  const CUdeviceptr line = context.flags + transfer.line * sizeof(FlagLine);
  CUstreamBatchMemOpParams operations[2];
  unsigned count = 0;
  // Nobody needs to know that the stream got to what waits for no permission.
  if (transfer.unasked < transfer.chunks) {
    operations[count++] = WriteOperation(line + kReadyOffset, transfer.number);
  }
  for (uint32_t chunk = 0; chunk < transfer.chunks; ++chunk) {
    if (chunk >= transfer.unasked) {
      operations[count++] =
          WaitOperation(line + kPermittedOffset, transfer.ChunkSequence(chunk));
    }
    if (count > 0) {
      const CUresult code =
          driver_.StreamBatchMemOp(request.stream, count, operations, 0);
      if (code != CUDA_SUCCESS) {
        return Enqueued{CudaStatus(code, "cuStreamBatchMemOp"), chunk};
      }
    }
    if (absl::Status status = CopySlot(request, context, transfer, chunk);
        !status.ok()) {
      return Enqueued{std::move(status), chunk};
    }
    operations[0] =
        WriteOperation(line + kDoneOffset, transfer.ChunkSequence(chunk));
    count = 1;
  }
  if (request.direction == Direction::kDeviceToHost) {
    operations[count++] =
        WaitOperation(line + kDrainedOffset, transfer.LastSequence());
  }
  const CUresult code =
      driver_.StreamBatchMemOp(request.stream, count, operations, 0);
  if (code != CUDA_SUCCESS) {
    return Enqueued{CudaStatus(code, "cuStreamBatchMemOp"), transfer.chunks};
  }
  return Enqueued{absl::OkStatus(), transfer.chunks};
}

absl::Status Engine::CopySlot(const CopyRequest& request,
                              const Context& context, const Transfer& transfer,
                              uint32_t chunk) const {
  std::byte* const slot =
      context.ring->bytes() + transfer.ChunkSlot(chunk).offset;
  return CopyChunk(driver_, request, transfer.ChunkOffset(chunk),
                   transfer.ChunkBytes(chunk), slot);
}

// The stream says that it got here, and that there is nothing to copy; then it
// waits until the movers have written the value.
Engine::Enqueued Engine::EnqueueFill(const CopyRequest& request,
                                     const Context& context,
                                     const Transfer& transfer) const {
  const CUdeviceptr line = context.flags + transfer.line * sizeof(FlagLine);
  CUstreamBatchMemOpParams operations[3] = {
      WriteOperation(line + kReadyOffset, transfer.number),
      WriteOperation(line + kDoneOffset, transfer.LastSequence()),
      WaitOperation(line + kDrainedOffset, transfer.LastSequence())};
  const CUresult code =
      driver_.StreamBatchMemOp(request.stream, 3, operations, 0);
  if (code != CUDA_SUCCESS)
    return Enqueued{CudaStatus(code, "cuStreamBatchMemOp"), 0};
  return Enqueued{absl::OkStatus(), transfer.chunks};
}

// Waits for movers alone, and for those only that fill this copy's slots; moves
// what they leave.
Engine::Enqueued Engine::EnqueueDriven(
    const CopyRequest& request, const Context& context,
    const std::shared_ptr<Transfer>& transfer) {
  for (uint32_t chunk = 0; chunk < transfer->chunks; ++chunk) {
    absl::Status status = WaitFor(
        transfer, context,
        [chunk](const Transfer& sought) { return sought.permitted > chunk; });
    if (status.ok()) status = CopySlot(request, context, *transfer, chunk);
    if (!status.ok()) return Enqueued{std::move(status), chunk};
  }
  const CUresult code = driver_.StreamWriteValue32(
      request.stream,
      context.flags + transfer->line * sizeof(FlagLine) + kDoneOffset,
      transfer->LastSequence(), CU_STREAM_WRITE_VALUE_DEFAULT);
  if (code != CUDA_SUCCESS) {
    return Enqueued{CudaStatus(code, "cuStreamWriteValue32"), transfer->chunks};
  }
  // Somebody has to see the end of it.
  const BriefLock lock(mutex_);
  SignalPublished();
  return Enqueued{absl::OkStatus(), transfer->chunks};
}

// The stream took operations just now, so it is not captured, and the legacy
// stream stands beside none that is: the query is legal. What it answers is for
// the program's own calls to learn.
void Engine::Flush(CUstream stream) const { (void)driver_.StreamQuery(stream); }

// A call failed after `chunks` copies were accepted. The movers are told first;
// then one more write tells when those copies are over. Without it nobody can
// know.
void Engine::EndEarly(const CopyRequest& request, const Context& context,
                      Transfer& transfer, uint32_t chunks) {
  {
    const BriefLock lock(mutex_);
    core_->CutShort(transfer, chunks);
  }
  const CUdeviceptr line = context.flags + transfer.line * sizeof(FlagLine);
  const CUresult code = driver_.StreamWriteValue32(
      request.stream, line + kDoneOffset, transfer.LastSequence(),
      CU_STREAM_WRITE_VALUE_DEFAULT);
  const BriefLock lock(mutex_);
  if (code != CUDA_SUCCESS) core_->Lose(transfer);
  while (transfer.moves_in_progress > 0) {
    around_.parking->Await(
        mutex_, "movers leave a transfer that ended early",
        [&] { return transfer.moves_in_progress == 0; }, kProbeNanos);
  }
  SignalPublished();  // somebody has to see the end of it
}

// --- Waiting
// --------------------------------------------------------------------------------------------------------

absl::Status Engine::WaitFor(const std::shared_ptr<Transfer>& transfer,
                             const Context& context,
                             absl::FunctionRef<bool(const Transfer&)> over) {
  uint64_t probed_nanos = around_.parking->NowNanos();
  FlagWatch watch;
  Move move;
  for (;;) {
    {
      const BriefLock lock(mutex_);
      if (move.transfer != nullptr) core_->Finish(move);
      move = Move();
      if (transfer->retired || over(*transfer)) {
        core_->Observe(around_.parking->NowNanos());
        return absl::OkStatus();
      }
      if (transfer->lost) break;
      if (!core_->Take(around_.parking->NowNanos(), transfer.get(), &move)) {
        around_.parking->Await(
            mutex_, "a synchronous copy",
            [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
              watch.Clear();
              watch.Note(context.ring->lines()[transfer->line], true);
              return transfer->retired || transfer->lost || over(*transfer) ||
                     core_->CanProgress(*transfer);
            },
            kLookNanos, &watch);
      }
    }
    if (move.transfer != nullptr) {
      CarryOut(move);
      continue;
    }
    const uint64_t now = around_.parking->NowNanos();
    if (now - probed_nanos >= kProbeNanos || now == 0) {
      probed_nanos = now;
      if (absl::Status status = Probe(context); !status.ok()) return status;
    }
  }
  absl::Status status = Probe(context);
  return status.ok()
             ? CudaStatus(CUDA_ERROR_UNKNOWN,
                          "a synchronous copy whose end the driver refused")
             : status;
}

absl::Status Engine::Probe(const Context& context) {
  absl::Status status;
  // An error that does not come again is not the context's state.
  for (int tries = 0; tries < 2; ++tries) {
    const ContextScope scope(driver_, context.handle);
    status = scope.status();
    if (status.ok()) {
      const CUresult code = driver_.EventQuery(context.probe);
      if (code == CUDA_SUCCESS || code == CUDA_ERROR_NOT_READY)
        return absl::OkStatus();
      status = CudaStatus(code, "the context of a copy in flight");
    }
  }
  const BriefLock lock(mutex_);
  core_->LoseContext(&context);
  return status;
}

void Engine::WaitForHost(const void* begin, size_t bytes) {
  if (abandoned_.load(std::memory_order_acquire)) return;
  const auto* const first = static_cast<const std::byte*>(begin);
  for (;;) {
    {
      const BriefLock lock(mutex_);
      if (core_ == nullptr || !core_->TouchesHost(first, first + bytes)) return;
      if (around_.parking->Await(
              mutex_, "copies of a block that is being freed",
              [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
                return !core_->TouchesHost(first, first + bytes);
              },
              kProbeNanos)) {
        return;
      }
    }
    std::vector<const Context*> contexts;
    {
      absl::MutexLock lock(&setup_mutex_);
      for (const auto& [handle, context] : contexts_)
        contexts.push_back(context);
    }
    // The free itself succeeds, also when the context that the copies were of
    // is lost.
    for (const Context* context : contexts) Probe(*context).IgnoreError();
  }
}

// --- Moving
// ---------------------------------------------------------------------------------------------------------

namespace {

// Calls copy(at, n) for [0, bytes) in pieces that are still in the core's own
// cache afterwards, and hands those of the slot over.
template <typename Copy>
void CopyAndHandOver(const std::byte* slot, size_t bytes, Copy copy) {
  constexpr size_t kPieceBytes = size_t{16} << 10;
  for (size_t at = 0; at < bytes; at += kPieceBytes) {
    const size_t n = std::min(kPieceBytes, bytes - at);
    copy(at, n);
    copy::HandOver(slot + at, n);
  }
}

}  // namespace

void Engine::Fill(const Move& move) const {
  const copy::KernelSet& kernels = options_.kernels;
  const Transfer& transfer = *move.transfer;
  const Shape& shape = transfer.shape;
  std::byte* const host = transfer.host;
  if (shape.flat()) {
    if (!transfer.hands_over) {
      kernels.CopyIn(move.slot, host + move.offset, move.bytes);
      return;
    }
    CopyAndHandOver(move.slot, move.bytes, [&](size_t at, size_t n) {
      kernels.CopyIn(move.slot + at, host + move.offset + at, n);
    });
    return;
  }
  if (shape.width < copy::kKernelMinBytes) {
    GatherRows(shape, move.offset, move.bytes, host, move.slot);
  } else {
    ForRows(shape, move.offset, move.bytes,
            [&](uint64_t at, size_t packed, size_t n) {
              kernels.CopyIn(move.slot + packed, host + at, n);
            });
  }
  if (transfer.hands_over) copy::HandOver(move.slot, move.bytes);
}

void Engine::Drain(const Move& move) const {
  const copy::KernelSet& kernels = options_.kernels;
  const Transfer& transfer = *move.transfer;
  const Shape& shape = transfer.shape;
  std::byte* const host = transfer.host;
  if (shape.flat()) {
    if (!transfer.hands_over) {
      kernels.CopyOut(host + move.offset, move.slot, move.bytes);
      return;
    }
    CopyAndHandOver(move.slot, move.bytes, [&](size_t at, size_t n) {
      kernels.CopyOut(host + move.offset + at, move.slot + at, n);
    });
    return;
  }
  if (shape.width < copy::kKernelMinBytes) {
    ScatterRows(shape, move.offset, move.bytes, move.slot, host);
  } else {
    ForRows(shape, move.offset, move.bytes,
            [&](uint64_t at, size_t packed, size_t n) {
              kernels.CopyOut(host + at, move.slot + packed, n);
            });
  }
  if (transfer.hands_over) copy::HandOver(move.slot, move.bytes);
}

void Engine::CarryOut(const Move& move) const {
  const Transfer& transfer = *move.transfer;
  const nvtx::Range range(transfer.fill.has_value() ? nvtx::Task::kFillHost
                          : transfer.direction == Direction::kHostToDevice
                              ? nvtx::Task::kFillSlot
                              : nvtx::Task::kDrainSlot,
                          move.bytes);
  if (transfer.fill.has_value()) {
    ForRows(transfer.shape, move.offset, move.bytes,
            [&](uint64_t at, size_t, size_t n) {
              std::memset(transfer.host + at, *transfer.fill, n);
            });
  } else if (transfer.direction == Direction::kHostToDevice) {
    Fill(move);
  } else {
    Drain(move);
  }
}

void Engine::FinishMove(const Move& move) {
  const BriefLock lock(mutex_);
  core_->Finish(move);
}

void Engine::SignalPublished() {
  publications_.fetch_add(1, std::memory_order_relaxed);
  published_.Signal();
}

// Finishes *move, if there is one, and takes the next in the same turn.
bool Engine::TakeMove(Core::Work work, Move* move) {
  const uint64_t now = os::MonotonicNanos();
  Move next;
  bool taken = false;
  {
    const BriefLock lock(mutex_);
    if (core_ == nullptr) return false;
    if (move->transfer != nullptr) core_->Finish(*move);
    taken = core_->Take(now, nullptr, work, &next);
  }
  *move = std::move(next);
  return taken;
}

void Engine::MoverBody() {
  const auto stopping = [this] { return movers_->stopping(); };
  while (!stopping()) {
    Move move;
    if (TakeMove(Core::Work::kAll, &move)) {
      MakeMoves(Core::Work::kAll, &move);
      continue;
    }
    if (!poll_turn_.Await(Core::Work::kAll, stopping)) continue;
    const bool taken = PollForMove(&move);
    poll_turn_.Give();
    if (taken) MakeFirstMove(&move);
  }
}

// Waking a mover takes as long as moving a small piece.
void Engine::MakeFirstMove(Move* move) {
  const uint64_t bytes = move->transfer->bytes;
  if (bytes >= kManyMoversBytes) {
    WakeForMore(bytes);
  } else {
    CarryOut(*move);
    if (!TakeMove(Core::Work::kAll, move)) return;
    WakeForMore(bytes);
  }
  MakeMoves(Core::Work::kAll, move);
}

// As many as what is left keeps busy, with luck.
void Engine::WakeForMore(uint64_t bytes) {
  constexpr uint64_t kBytesPerMover = uint64_t{256} << 10;
  bool more = false;
  bool fill = false;
  {
    const BriefLock lock(mutex_);
    more = core_->CanTake(Core::Work::kAll);
    fill = more && bytes >= kFillersBytes && core_->CanTake(Core::Work::kFill);
  }
  if (more) poll_turn_.Wake(Core::Work::kAll, bytes / kBytesPerMover);
  if (fill) poll_turn_.Wake(Core::Work::kFill);
}

// A mover beyond those that drain: more of them would only take time from the
// others and from the driver's thread.
void Engine::FillerBody() {
  const auto stopping = [this] { return movers_->stopping(); };
  while (!stopping()) {
    Move move;
    if (TakeMove(Core::Work::kFill, &move)) {
      MakeMoves(Core::Work::kFill, &move);
    } else {
      (void)poll_turn_.Await(Core::Work::kFill, stopping);
    }
  }
}

// This one and what is to be moved after it.
void Engine::MakeMoves(Core::Work work, Move* move) {
  do {
    if (move->bytes >= kManyMoversBytes / 16) {
      last_move_nanos_.store(os::MonotonicNanos(), std::memory_order_relaxed);
    }
    CarryOut(*move);
  } while (TakeMove(work, move));
}

// The one mover that watches the flags: spinning at first, then ever so often.
// Where nothing is outstanding it sleeps until something is; an executable
// graph that has copies through the ring can be launched unseen, so it then
// looks from time to time. False when the pool stops.
bool Engine::PollForMove(Move* move) {
  uint64_t since = os::MonotonicNanos();
  bool quiet = false;  // no graph was launched for a while
  FlagWatch watch;
  while (!movers_->stopping()) {
    bool idle = false;
    bool awake = false;  // for a graph that may be launched again at once
    uint32_t published = 0;
    {
      const BriefLock lock(mutex_);
      published = publications_.load(std::memory_order_relaxed);
      if (core_ != nullptr) {
        core_->Watch(&watch);
        // Also where nothing is known to be outstanding: a graph may run.
        if (core_->Take(os::MonotonicNanos(), nullptr, move)) return true;
      }
      idle = core_ == nullptr || core_->idle();
      awake =
          idle && core_ != nullptr && core_->graphs().copies() > 0 && !quiet;
    }
    const uint64_t now = os::MonotonicNanos();
    if (idle && !(awake && now - since < kSpinNanos) &&
        now - last_move_nanos_.load(std::memory_order_relaxed) > kLingerNanos) {
      quiet = WaitForPublished();
      since = os::MonotonicNanos();
    } else if (idle || now - since < kSpinNanos) {
      SpinUntil([&] {
        return publications_.load(std::memory_order_relaxed) != published ||
               watch.Changed();
      });
    } else {
      os::SleepMicros(kPollSleepMicros);
    }
    const bool fill = expect_fill_.exchange(false, std::memory_order_relaxed);
    if (expect_many_.exchange(false, std::memory_order_relaxed) || fill)
      poll_turn_.Wake(Core::Work::kAll);
    if (fill) poll_turn_.Wake(Core::Work::kFill);
  }
  return false;
}

// Where there are executable graphs, for a moment at most; true if nothing was
// published until then.
bool Engine::WaitForPublished() {
  bool timed_out = false;
  bool graphs = false;
  const BriefLock lock(mutex_);
  while (!graphs && !movers_->stopping() &&
         (core_ == nullptr || core_->idle())) {
    graphs = core_ != nullptr && core_->graphs().copies() > 0;
    poll_turn_.SetQuiet(true);
    if (graphs) {
      timed_out = published_.WaitWithTimeout(&mutex_, kGraphLookInterval);
    } else {
      published_.Wait(&mutex_);
    }
    poll_turn_.SetQuiet(false);
  }
  return timed_out;
}

// --- Looking
// --------------------------------------------------------------------------------------------------------

absl::Status Engine::ring_status() const {
  absl::MutexLock lock(&setup_mutex_);
  return ring_status_;
}

size_t Engine::pinned_bytes() const {
  const RingMemory* const ring = ring_memory_.load(std::memory_order_acquire);
  return ring == nullptr ? 0 : ring->pinned_bytes();
}

size_t Engine::quarantined_bytes() const {
  const BriefLock lock(mutex_);
  return core_ == nullptr ? 0 : core_->quarantined_bytes();
}

size_t Engine::outstanding() const {
  const BriefLock lock(mutex_);
  return core_ == nullptr ? 0 : core_->outstanding();
}

void Engine::AbandonAfterFork() {
  abandoned_.store(true, std::memory_order_release);
  if (movers_ != nullptr) movers_->AbandonAfterFork();
}

bool Engine::CanStep() const {
  const BriefLock lock(mutex_);
  return core_ != nullptr && core_->CanProgress();
}

bool Engine::StepTake(Move* move) {
  const BriefLock lock(mutex_);
  return core_ != nullptr &&
         core_->Take(around_.parking->NowNanos(), nullptr, move);
}

void Engine::CheckInvariants() const {
  const BriefLock lock(mutex_);
  if (core_ != nullptr) core_->CheckInvariants();
}

}  // namespace pinring
