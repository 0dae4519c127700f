#include "src/simcuda/device.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace pinring::simcuda {
namespace {

size_t Index(Route route) { return static_cast<size_t>(route); }

}  // namespace

Device::Device(const MachineOptions& options, int ordinal)
    : options_(options), ordinal_(ordinal) {
  const int counts[3] = {options.compute_queues, options.h2d_queues,
                         options.d2h_queues};
  const char* const names[3] = {"compute", "host-to-device", "device-to-host"};
  for (size_t kind = 0; kind < 3; ++kind) {
    const int count =
        options.one_queue ? (kind == 0 ? 1 : 0) : std::max(counts[kind], 1);
    for (int i = 0; i < count; ++i) {
      auto& queue =
          queues_[kind].emplace_back(std::make_unique<HardwareQueue>());
      queue->name = options.one_queue ? "the only queue"
                                      : absl::StrCat(names[kind], " queue ", i);
    }
  }
}

HardwareQueue* Device::QueueFor(Stream& stream, Route route) {
  if (options_.one_queue) return queues_[0][0].get();
  if (route == Route::kNone) return nullptr;
  if (route == Route::kLatest) {
    if (stream.latest_queue != nullptr) return stream.latest_queue;
    route = Route::kCompute;
  }
  HardwareQueue*& queue = stream.queues[Index(route)];
  if (queue == nullptr) {
    const size_t pick = PickQueue(route);
    queue = queues_[Index(route)][pick].get();
    next_queue_[Index(route)] = pick + 1;
  }
  return queue;
}

size_t Device::PickQueue(Route route) const {
  const auto& all = queues_[Index(route)];
  const size_t next = next_queue_[Index(route)] % all.size();
  if (!options_.balance_queues) return next;
  const bool strict = route == Route::kCompute && !OnlyKernelsOutstanding();
  size_t least = next;
  for (size_t i = 0; i < all.size(); ++i) {
    const size_t candidate = (next + i) % all.size();
    const size_t entries = all[candidate]->entries;
    const auto with_less = std::count_if(
        all.begin(), all.end(),
        [entries](const auto& other) { return other->entries < entries; });
    if (strict && 2 * static_cast<size_t>(with_less) < all.size())
      return candidate;
    if (entries < all[least]->entries) least = candidate;
  }
  return least;
}

bool Device::OnlyKernelsOutstanding() const {
  return std::all_of(
      active_.begin(), active_.end(), [](const StreamRef& stream) {
        return std::all_of(
            stream->ops.begin(), stream->ops.end(),
            [](const OpRef& op) { return op->kind == OpKind::kKernel; });
      });
}

bool Device::HasRoom(Stream& stream, const Op& op) {
  if (op.kind == OpKind::kHostFunction &&
      stream.host_functions >= options_.host_function_depth)
    return false;
  const HardwareQueue* queue = QueueFor(stream, op.route);
  if (queue == nullptr) return true;
  if (queue->entries + 1 > options_.queue_depth) return false;
  const bool switches = stream.latest_queue != nullptr &&
                        stream.latest_queue != queue && !stream.ops.empty();
  return !switches || stream.latest_queue->entries + 1 <= options_.queue_depth;
}

void Device::AddImplicitDependencies(const Stream& stream, Op& op) {
  if (stream.type == StreamType::kNonBlocking) return;
  for (const StreamRef& other : active_) {
    const bool ordered = stream.type == StreamType::kLegacy
                             ? other->implicit()
                             : other->type == StreamType::kLegacy;
    if (ordered) op.after.push_back(other->ops.back());
  }
}

void Device::Enqueue(const StreamRef& stream, const OpRef& op) {
  op->number = next_number_++;
  op->stream = stream;
  op->queue = QueueFor(*stream, op->route);
  AddImplicitDependencies(*stream, *op);
  if (op->queue != nullptr) {
    // The signal between two queues stands in the one it comes from, behind the
    // operation that it signals.
    if (!stream->ops.empty() && stream->latest_queue != nullptr &&
        stream->latest_queue != op->queue) {
      for (auto before = stream->ops.rbegin(); before != stream->ops.rend();
           ++before) {
        if ((*before)->queue == nullptr) continue;
        ++(*before)->entries;
        ++(*before)->queue->entries;
        break;
      }
    }
    stream->latest_queue = op->queue;
    op->queue->ops.push_back(op);
    op->queue->entries += op->entries;
  }
  if (stream->ops.empty()) active_.push_back(stream);
  stream->ops.push_back(op);
  if (op->kind == OpKind::kHostFunction) ++stream->host_functions;
  if (options_.wddm) {
    op->submitted = false;
    batch_.push_back(op);
    if (batch_.size() >= options_.wddm_batch_operations) Flush();
  }
}

void Device::Flush() {
  for (const OpRef& op : batch_) op->submitted = true;
  batch_.clear();
}

bool Device::DependenciesDone(Op& op) {
  while (!op.after.empty() && op.after.back()->done) op.after.pop_back();
  return std::all_of(op.after.begin(), op.after.end(),
                     [](const OpRef& before) { return before->done; });
}

bool Device::ConditionHolds(const Op& op, uint64_t epoch) const {
  if (op.kind == OpKind::kKernel) return op.polled_epoch != epoch;
  if (op.kind != OpKind::kMemoryOperations) return true;
  const MemoryOperation& next = op.memory_operations[op.next_memory_operation];
  return !next.wait || next.Satisfied();
}

size_t Device::CollectRunnable(uint64_t epoch) {
  runnable_.clear();
  for (const StreamRef& stream : active_) {
    const OpRef& op = stream->ops.front();
    if (!op->submitted || op->busy) continue;
    if (op->queue != nullptr && op->queue->ops.front() != op) continue;
    if (!DependenciesDone(*op) || !ConditionHolds(*op, epoch)) continue;
    runnable_.push_back(op);
  }
  return runnable_.size();
}

OpRef Device::Take(size_t which, uint64_t epoch) {
  OpRef op = std::move(runnable_[which]);
  if (op == nullptr) return nullptr;
  op->busy = true;
  op->polled_epoch = epoch;
  if (op->kind != OpKind::kHostFunction) ++performing_;
  return op;
}

void Device::Finish(const OpRef& op, const Performed& performed) {
  op->busy = false;
  if (op->kind != OpKind::kHostFunction) --performing_;
  if (performed.done && !op->dropped) Remove(op);
}

void Device::Remove(const OpRef& op) {
  op->done = true;
  // Nothing that others wait for through this one needs to live on.
  op->after.clear();
  op->staging = nullptr;
  op->owned_data = nullptr;
  if (op->queue != nullptr) {
    op->queue->ops.pop_front();
    op->queue->entries -= op->entries;
  }
  const StreamRef stream = std::exchange(op->stream, nullptr);
  stream->ops.pop_front();
  if (op->kind == OpKind::kHostFunction) --stream->host_functions;
  if (stream->ops.empty())
    active_.erase(std::find(active_.begin(), active_.end(), stream));
}

bool Device::Polls() const {
  return std::any_of(
      active_.begin(), active_.end(), [](const StreamRef& stream) {
        const OpKind kind = stream->ops.front()->kind;
        return kind == OpKind::kKernel || kind == OpKind::kMemoryOperations;
      });
}

bool Device::HasOutstanding(uint64_t number) const {
  return std::any_of(active_.begin(), active_.end(),
                     [number](const StreamRef& stream) {
                       return stream->ops.front()->number <= number;
                     });
}

size_t Device::outstanding() const {
  size_t count = 0;
  for (const StreamRef& stream : active_) count += stream->ops.size();
  return count;
}

void Device::Drop() {
  for (const StreamRef& stream : active_) {
    for (const OpRef& op : stream->ops) {
      op->done = op->dropped = true;
      op->after.clear();
      op->stream = nullptr;
      // A host function may still be running.
      if (op->kind != OpKind::kHostFunction) op->owned_data = nullptr;
    }
    stream->ops.clear();
    stream->host_functions = 0;
    stream->latest_queue = nullptr;
  }
  active_.clear();
  runnable_.assign(runnable_.size(), nullptr);
  batch_.clear();
  for (auto& kind : queues_) {
    for (auto& queue : kind) {
      queue->ops.clear();
      queue->entries = 0;
    }
  }
}

std::string Device::Describe() const {
  std::string text;
  for (const StreamRef& stream : active_) {
    const Op& op = *stream->ops.front();
    absl::StrAppend(&text, "device ", ordinal_, ", stream ", stream->id, ": ",
                    stream->ops.size(), " outstanding, first ", Name(op.kind),
                    " #", op.number);
    if (op.kind == OpKind::kKernel)
      absl::StrAppend(&text, " '", op.kernel->name, "'");
    if (!op.submitted) {
      absl::StrAppend(&text, " has not left the driver's batch");
    } else if (op.queue != nullptr && op.queue->ops.front().get() != &op) {
      const Op& head = *op.queue->ops.front();
      absl::StrAppend(&text, " stands in ", op.queue->name, " behind ",
                      Name(head.kind), " #", head.number, " of stream ",
                      head.stream->id);
    } else if (!std::all_of(op.after.begin(), op.after.end(),
                            [](const OpRef& before) { return before->done; })) {
      for (const OpRef& before : op.after) {
        if (!before->done)
          absl::StrAppend(&text, " waits for ", Name(before->kind), " #",
                          before->number);
      }
    } else if (op.busy) {
      absl::StrAppend(&text, " is running");
    } else if (op.kind == OpKind::kMemoryOperations &&
               op.memory_operations[op.next_memory_operation].wait) {
      const MemoryOperation& wait =
          op.memory_operations[op.next_memory_operation];
      absl::StrAppend(&text, " waits for the value ", wait.value, " at ",
                      absl::Hex(reinterpret_cast<uintptr_t>(wait.address)),
                      wait.Satisfied() ? " (there)" : "");
    } else {
      absl::StrAppend(&text, " can run");
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace pinring::simcuda
