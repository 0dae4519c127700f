#include "src/simcuda/op.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace pinring::simcuda {
namespace {

thread_local int callbacks = 0;

uint64_t Checksum(uint64_t sum, const char* bytes, size_t length) {
  constexpr uint64_t kPrime = 0x9e3779b97f4a7c15u;
  size_t i = 0;
  for (; i + 8 <= length; i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes + i, 8);
    sum = (sum ^ word) * kPrime;
    sum ^= sum >> 29;
  }
  for (; i < length; ++i)
    sum = (sum ^ static_cast<unsigned char>(bytes[i])) * kPrime;
  return sum;
}

// Calls `touch` with the place, among all bytes of the operation's shape, and
// the length of each piece of a row that the step from `at` on touches. Returns
// where the next step begins.
template <typename Touch>
size_t ForStep(const Op& op, size_t at, Touch touch) {
  const size_t end = at + std::min(op.step_bytes, op.bytes - at);
  for (size_t rows = 0; at < end && rows < op.step_rows; ++rows) {
    const size_t piece =
        std::min(end - at, op.shape.width - at % op.shape.width);
    touch(at, piece);
    at += piece;
  }
  return at;
}

// A copy takes at least two steps, so that it has a beginning and an end
// between which others run.
Performed PerformCopy(Op& op) {
  if (op.moved < op.bytes) {
    op.moved = ForStep(op, op.moved, [&op](size_t at, size_t piece) {
      const char* from = op.src + Offset(op.shape, op.src_strides, at);
      // The ends may overlap where a program copies within one block; natively
      // the result is undefined then.
      std::memmove(op.dst + Offset(op.shape, op.dst_strides, at), from, piece);
      if (op.check_hazards) op.checksum = Checksum(op.checksum, from, piece);
    });
    if (op.moved < op.bytes || op.check_hazards) return {};
    return {.done = true};
  }
  Performed result{.done = true};
  const bool source_is_host = !op.dst_is_host;
  const char* host = source_is_host ? op.src : op.dst;
  const Strides& strides = source_is_host ? op.src_strides : op.dst_strides;
  // By the same pieces again, as the checksum depends on where they begin.
  uint64_t sum = 0;
  for (size_t start = 0; start < op.bytes;) {
    start = ForStep(op, start, [&](size_t at, size_t piece) {
      sum = Checksum(sum, host + Offset(op.shape, strides, at), piece);
    });
  }
  if (sum != op.checksum) {
    result.hazard = absl::StrFormat(
        "host memory at %p (%d bytes) was rewritten while a copy %s it was in "
        "progress",
        static_cast<const void*>(host), op.bytes,
        source_is_host ? "from" : "to");
  }
  return result;
}

Performed PerformMemset(Op& op) {
  op.moved = ForStep(op, op.moved, [&op](size_t at, size_t piece) {
    char* to = op.dst + Offset(op.shape, op.dst_strides, at);
    const size_t column = at % op.shape.width;
    if (std::all_of(op.fill, op.fill + sizeof op.fill,
                    [&op](unsigned char byte) { return byte == *op.fill; })) {
      std::memset(to, *op.fill, piece);
      return;
    }
    for (size_t i = 0; i < piece; ++i)
      to[i] = static_cast<char>(op.fill[(column + i) % sizeof op.fill]);
  });
  return {.done = op.moved == op.bytes};
}

Performed PerformKernel(Op& op) {
  std::vector<void*> pointers;
  pointers.reserve(op.parameters.size());
  for (auto& parameter : op.parameters) pointers.push_back(parameter.data());
  CallbackMark mark;
  const bool done = op.kernel->function(pointers.data());
  return {.done = done, .fruitless = !done};
}

Performed PerformMemoryOperation(Op& op) {
  const MemoryOperation& operation =
      op.memory_operations[op.next_memory_operation++];
  if (!operation.wait) operation.Write();
  return {.done = op.next_memory_operation == op.memory_operations.size()};
}

}  // namespace

bool MemoryOperation::Satisfied() const {
  // Acquire: pairs with the release store of whoever raised the flag, so that
  // copies behind this wait read what that thread wrote before.
  const uint32_t now =
      std::atomic_ref<uint32_t>(*address).load(std::memory_order_acquire);
  switch (flags & 3u) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return static_cast<int32_t>(now - value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return now == value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (now & value) != 0;
    default:  // CU_STREAM_WAIT_VALUE_NOR
      return ~(now | value) != 0;
  }
}

void MemoryOperation::Write() const {
  // Release: pairs with the acquire load of whoever polls the flag, so that it
  // sees what earlier copies wrote.
  std::atomic_ref<uint32_t>(*address).store(value, std::memory_order_release);
}

OpRef Op::Clone() const {
  auto copy = std::make_shared<Op>(*this);
  copy->number = 0;
  copy->stream = nullptr;
  copy->queue = nullptr;
  copy->entries = 1;
  copy->after.clear();
  copy->submitted = true;
  copy->busy = copy->done = copy->dropped = false;
  copy->moved = 0;
  copy->checksum = 0;
  copy->polled_epoch = ~uint64_t{0};
  copy->next_memory_operation = 0;
  return copy;
}

bool Op::Touches(const char* base, size_t length) const {
  auto overlaps = [&](const void* at, size_t n) {
    const auto a = reinterpret_cast<uintptr_t>(at),
               b = reinterpret_cast<uintptr_t>(base);
    return n != 0 && a < b + length && b < a + n;
  };
  // What lies between the rows counts too.
  const auto touched = [&](const char* at, const Strides& strides) {
    return bytes != 0 && overlaps(at, *Span(shape, strides));
  };
  if (touched(dst, dst_strides) || touched(src, src_strides)) return true;
  return std::any_of(memory_operations.begin(), memory_operations.end(),
                     [&](const MemoryOperation& op) {
                       return overlaps(op.address, sizeof(uint32_t));
                     });
}

const char* Name(OpKind kind) {
  switch (kind) {
    case OpKind::kCopy:
      return "copy";
    case OpKind::kMemset:
      return "memset";
    case OpKind::kKernel:
      return "kernel";
    case OpKind::kMemoryOperations:
      return "memory operation";
    case OpKind::kHostFunction:
      return "host function";
    case OpKind::kEventRecord:
      return "event record";
    case OpKind::kEventWait:
      return "event wait";
  }
  return "?";
}

void PerformWhole(Op& copy) {
  while (!PerformCopy(copy).done) {
  }
}

Performed Perform(Op& op) {
  switch (op.kind) {
    case OpKind::kCopy:
      return PerformCopy(op);
    case OpKind::kMemset:
      return PerformMemset(op);
    case OpKind::kKernel:
      return PerformKernel(op);
    case OpKind::kMemoryOperations:
      return PerformMemoryOperation(op);
    case OpKind::kHostFunction:
    case OpKind::kEventRecord:
    case OpKind::kEventWait:
      break;
  }
  return {.done = true};
}

bool InCallback() { return callbacks != 0; }
CallbackMark::CallbackMark() { ++callbacks; }
CallbackMark::~CallbackMark() { --callbacks; }

}  // namespace pinring::simcuda
