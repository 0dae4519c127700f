#include "src/simcuda/model.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pinring::simcuda {
namespace {

std::atomic<uint64_t> next_thread{1};
thread_local ThreadState thread_state;
thread_local bool per_thread_default_stream = false;

}  // namespace

PerThreadDefaultStream::PerThreadDefaultStream()
    : before_(std::exchange(per_thread_default_stream, true)) {}
PerThreadDefaultStream::~PerThreadDefaultStream() {
  per_thread_default_stream = before_;
}

Model::Model(const MachineOptions& options, uint64_t machine_number,
             Environment* environment)
    : options_(options),
      machine_number_(machine_number),
      environment_(environment),
      memory_(options.devices) {
  for (int i = 0; i < options.devices; ++i)
    contexts_.push_back(std::make_unique<Context>(options, i));
}

Model::~Model() {
  // Captures and their streams refer to each other.
  while (!captures_.empty()) EndCaptureOf(std::shared_ptr(captures_.back()));
}

ThreadState& Model::Thread() {
  const uint64_t caller = Scheduler::CurrentCaller();
  if (thread_state.machine != machine_number_ ||
      thread_state.caller != caller) {
    thread_state = ThreadState();
    thread_state.machine = machine_number_;
    thread_state.caller = caller;
    thread_state.number = next_thread.fetch_add(1, std::memory_order_relaxed);
  }
  return thread_state;
}

CUresult Model::Check(const Context& context) const {
  if (!context.active) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return context.error;
}

CUresult Model::CheckHandle(CUcontext handle) const {
  for (const auto& context : contexts_) {
    if (reinterpret_cast<CUcontext>(context.get()) == handle)
      return Check(*context);
  }
  return CUDA_ERROR_INVALID_CONTEXT;
}

CUresult Model::Current(Context** context) {
  const ThreadState& thread = Thread();
  if (thread.current.empty() || thread.current.back() == nullptr)
    return CUDA_ERROR_INVALID_CONTEXT;
  *context = thread.current.back();
  return Check(**context);
}

StreamRef Model::NewStream(Context& context, StreamType type, unsigned flags,
                           int priority) {
  auto stream = std::make_shared<Stream>();
  stream->id = next_stream_id_++;
  stream->device = context.ordinal;
  stream->generation = context.generation;
  stream->type = type;
  stream->flags = flags;
  stream->priority = priority;
  return stream;
}

CUresult Model::Resolve(CUstream handle, Target* target) {
  if (handle == nullptr && per_thread_default_stream)
    handle = CU_STREAM_PER_THREAD;
  if (handle == nullptr || handle == CU_STREAM_LEGACY) {
    PINRING_SIMCUDA_TRY(Current(&target->context));
    target->stream = target->context->legacy;
    return CUDA_SUCCESS;
  }
  if (handle == CU_STREAM_PER_THREAD) {
    PINRING_SIMCUDA_TRY(Current(&target->context));
    StreamRef& stream = target->context->per_thread[Thread().number];
    if (stream == nullptr)
      stream = NewStream(*target->context, StreamType::kPerThread,
                         CU_STREAM_DEFAULT, 0);
    target->stream = stream;
    return CUDA_SUCCESS;
  }
  const StreamRef* stream = streams_.Find(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  target->stream = *stream;
  target->context = contexts_[static_cast<size_t>((*stream)->device)].get();
  if ((*stream)->generation != target->context->generation)
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return Check(*target->context);
}

CUresult Model::WaitFor(Context& context, const char* entry, const char* why,
                        absl::FunctionRef<bool()> ready) {
  context.device.Flush();
  ++version_;
  if (ready()) return CUDA_SUCCESS;
  const uint64_t generation = context.generation;
  const bool came = environment_->Wait(absl::StrCat(entry, " ", why), [&] {
    return context.generation != generation || Check(context) != CUDA_SUCCESS ||
           ready();
  });
  if (context.generation != generation) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  PINRING_SIMCUDA_TRY(Check(context));
  return came ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_TIMEOUT;
}

CUresult Model::WaitForOp(Context& context, const char* entry,
                          const OpRef& op) {
  return WaitFor(context, entry, "waits until its operation is done",
                 [&] { return op->done; });
}

CUresult Model::WaitForWork(Context& context, const char* entry,
                            bool all_devices) {
  std::vector<std::pair<Context*, uint64_t>> until;
  for (auto& other : contexts_) {
    if (!all_devices && other.get() != &context) continue;
    other->device.Flush();
    until.emplace_back(other.get(), other->device.latest_number());
  }
  return WaitFor(
      context, entry,
      "waits for all work enqueued so far, holding the context lock", [&] {
        return std::none_of(until.begin(), until.end(), [](const auto& one) {
          return one.first->device.HasOutstanding(one.second);
        });
      });
}

CUresult Model::Lock::Acquire(Model& model, Context& context,
                              const char* entry) {
  PINRING_SIMCUDA_TRY(model.Check(context));
  PINRING_SIMCUDA_TRY(
      model.WaitFor(context, entry, "waits for the context lock",
                    [&] { return context.lock_holder == nullptr; }));
  context.lock_holder = entry;
  context_ = &context;
  return CUDA_SUCCESS;
}

void Model::Lock::Release() {
  if (context_ != nullptr) context_->lock_holder = nullptr;
  context_ = nullptr;
}

CUresult Model::AwaitRoom(const char* entry, const Target& target, const Op& op,
                          Lock& lock) {
  Context& context = *target.context;
  const auto has_room = [&] {
    return target.stream->capture != nullptr ||
           context.device.HasRoom(*target.stream, op);
  };
  if (has_room()) return CUDA_SUCCESS;
  const bool locked = lock.held();
  lock.Release();
  PINRING_SIMCUDA_TRY(
      WaitFor(context, entry, "waits for room in its hardware queue", [&] {
        return has_room() && (!locked || context.lock_holder == nullptr);
      }));
  return locked ? lock.Acquire(*this, context, entry) : CUDA_SUCCESS;
}

CUresult Model::Submit(const char* entry, const Target& target, const OpRef& op,
                       Lock& lock) {
  // What others did while this call waited counts: a capture may have begun.
  PINRING_SIMCUDA_TRY(AwaitRoom(entry, target, *op, lock));
  if (target.stream->capture != nullptr) return Record(target, op);
  PINRING_SIMCUDA_TRY(CheckImplicit(target));
  target.context->device.Enqueue(target.stream, op);
  ++version_;
  return CUDA_SUCCESS;
}

CUresult Model::Launch(const char* entry, const Target& target, const OpRef& op,
                       bool can_block) {
  {
    Lock lock;
    PINRING_SIMCUDA_TRY(lock.Acquire(*this, *target.context, entry));
    PINRING_SIMCUDA_TRY(Submit(entry, target, op, lock));
  }
  if (!can_block || !options_.launch_blocking || op->number == 0)
    return CUDA_SUCCESS;
  return WaitForOp(*target.context, entry, op);
}

std::vector<OpRef> Model::LatestOps(const Target& target) const {
  std::vector<OpRef> ops;
  for (const StreamRef& stream : target.context->device.active()) {
    const bool included =
        stream == target.stream ||
        (target.stream->type == StreamType::kLegacy && stream->implicit());
    if (included) ops.push_back(stream->ops.back());
  }
  return ops;
}

void Model::ResetContext(Context& context) {
  // The generation moves first, so that nobody enqueues while the step in
  // progress comes to its end.
  ++context.generation;
  context.active = false;
  DropCaptures(context);
  context.device.Drop();
  environment_->Wait("resetting a context",
                     [&] { return !context.device.Busy(); });
  context.error = CUDA_SUCCESS;
  context.legacy = nullptr;
  context.per_thread.clear();
  memory_.EraseDevice(context.ordinal);
  ++version_;
}

void Model::RegisterKernel(RegisteredKernel kernel) {
  std::string name = kernel.name;
  kernels_[std::move(name)] =
      std::make_shared<const RegisteredKernel>(std::move(kernel));
}

void Model::BreakContext(CUresult code) {
  const ThreadState& thread = Thread();
  Context* context = thread.current.empty() || thread.current.back() == nullptr
                         ? contexts_[0].get()
                         : thread.current.back();
  context->error = code;
  context->device.Drop();
  ++version_;
}

void Model::AddHazard(std::string hazard) {
  hazards_.push_back(std::move(hazard));
}

std::string Model::Describe() const {
  std::string text;
  for (const auto& context : contexts_) {
    if (context->lock_holder != nullptr) {
      absl::StrAppend(&text, "device ", context->ordinal,
                      ": the context lock is held by ", context->lock_holder,
                      "\n");
    }
    absl::StrAppend(&text, context->device.Describe());
  }
  return text;
}

}  // namespace pinring::simcuda
