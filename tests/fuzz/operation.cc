#include "tests/fuzz/operation.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/driver/status.h"

namespace pinring::fuzz {
namespace {

std::string StreamName(int stream) {
  if (stream == kLegacyStream) return "legacy";
  if (stream == kThreadStream) return "per-thread";
  return absl::StrCat("s", stream);
}

std::string Text(const Object& object) {
  return absl::StrCat(Name(object.kind), " ", object.index);
}

std::string Text(const CopyEnd& end, const Copy& copy) {
  std::string text = absl::StrCat(Text(end.object), "+", end.offset);
  if (copy.form == CopyForm::kRows || copy.form == CopyForm::kOfArray ||
      IsBox(copy.form)) {
    absl::StrAppend(&text, " pitch ", end.pitch, " rows ", end.rows);
  }
  return text;
}

std::string Text(const Copy& copy, int stream) {
  static constexpr const char* kForms[] = {"flat",        "2D",   "3D",
                                           "pageable",    "peer", "peer 3D",
                                           "pageable 3D", "array"};
  std::string text =
      absl::StrCat(kForms[static_cast<int>(copy.form)], " ", copy.width);
  if (copy.height != 1 || copy.depth != 1) {
    absl::StrAppend(&text, " x ", copy.height, " x ", copy.depth);
  }
  absl::StrAppend(&text, " from ", Text(copy.src, copy), " to ",
                  Text(copy.dst, copy), ", kind ", copy.direction,
                  copy.wait ? ", waits" : "",
                  copy.refused ? ", to be refused" : "");
  if (IsPageable(copy.form) && !copy.wait) {
    absl::StrAppend(&text, ", access ", copy.access);
  }
  if (!copy.wait || copy.form == CopyForm::kPageable) {
    absl::StrAppend(&text, ", ", StreamName(stream));
  }
  return text;
}

}  // namespace

bool IsBox(CopyForm form) {
  return form == CopyForm::kBox || form == CopyForm::kPeerBox ||
         form == CopyForm::kPageableBox;
}
bool IsPageable(CopyForm form) {
  return form == CopyForm::kPageable || form == CopyForm::kPageableBox;
}
bool IsPeer(CopyForm form) {
  return form == CopyForm::kPeer || form == CopyForm::kPeerBox;
}

const char* Name(MemoryKind kind) {
  static constexpr const char* kNames[] = {"block", "plain", "registrable",
                                           "device", "array"};
  return kNames[static_cast<int>(kind)];
}

size_t BytesOf(const Object& object) {
  const auto index = static_cast<size_t>(object.index);
  switch (object.kind) {
    case MemoryKind::kBlock:
      return 0;
    case MemoryKind::kPlain:
      return kPlainBytes[index];
    case MemoryKind::kRegistrable:
      return kRegistrableBytes[index];
    case MemoryKind::kDevice:
      return kDeviceBytes[index];
    case MemoryKind::kArray:
      return kArrayRowBytes[index] * kArrayRows[index];
  }
  return 0;
}

const char* Name(OpKind kind) {
  static constexpr const char* kNames[] = {"alloc",
                                           "free",
                                           "free invalid",
                                           "copy",
                                           "memset",
                                           "register",
                                           "unregister",
                                           "promote",
                                           "device pointer",
                                           "attributes",
                                           "host flags",
                                           "push instance",
                                           "pop instance",
                                           "device fill",
                                           "host function fill",
                                           "host function look",
                                           "hold",
                                           "record",
                                           "wait event",
                                           "event sync",
                                           "event poll",
                                           "event busy",
                                           "stream sync",
                                           "stream poll",
                                           "stream busy",
                                           "device sync",
                                           "stream create",
                                           "stream destroy",
                                           "begin capture",
                                           "end capture",
                                           "launch graph",
                                           "drop graph",
                                           "fill",
                                           "look",
                                           "allow"};
  return kNames[static_cast<int>(kind)];
}

std::string Describe(const Operation& op) {
  std::string text = Name(op.kind);
  switch (op.kind) {
    case OpKind::kAlloc:
      absl::StrAppend(&text, " block ", op.index, ": ", op.bytes,
                      " bytes, flags ", op.flags);
      break;
    case OpKind::kCopy:
      absl::StrAppend(&text, " ", Text(op.copy, op.stream));
      break;
    case OpKind::kMemset:
    case OpKind::kAttributes:
    case OpKind::kFill:
    case OpKind::kLook:
    case OpKind::kHostFunctionFill:
    case OpKind::kHostFunctionLook:
      absl::StrAppend(&text, " ", Text(op.object), "+", op.offset, ", ",
                      op.bytes, " bytes");
      if (op.kind == OpKind::kMemset && op.variant == 1) {
        absl::StrAppend(&text, ", waits");
      }
      if (op.kind == OpKind::kMemset || op.kind == OpKind::kHostFunctionFill ||
          op.kind == OpKind::kHostFunctionLook) {
        absl::StrAppend(&text, ", ", StreamName(op.stream));
      }
      break;
    case OpKind::kAllow:
      absl::StrAppendFormat(&text, " gates 0x%x", op.mask);
      break;
    default:
      absl::StrAppend(&text, " ", op.index, ", variant ", op.variant,
                      ", offset ", op.offset, ", ", StreamName(op.stream));
  }
  for (size_t i = 0; i < op.faults.size(); ++i) {
    const simcuda::Fault& fault = op.faults[i];
    if (i == 2) {
      absl::StrAppend(&text, "  [", op.faults.size() - i, " more]");
      break;
    }
    absl::StrAppend(&text, "  [", fault.function, " call ", fault.call,
                    " answers ", CudaCodeName(fault.code),
                    fault.sticky ? " for good" : "", "]");
  }
  return text;
}

std::string Program::Describe() const {
  const simcuda::MachineOptions& machine = configuration.machine;
  std::string text = absl::StrCat(
      "options: ", configuration.settings, "; ", configuration.movers,
      " movers; schedule ", configuration.schedule_seed, "; one queue ",
      machine.one_queue, ", compute queues ", machine.compute_queues,
      ", copy queues ", machine.h2d_queues, ", step ", machine.copy_step_bytes,
      ", launch blocking ", machine.launch_blocking, ", memory operations ",
      machine.stream_memory_operations, ", pinnable ",
      machine.host_pinnable_bytes, ", registering ",
      machine.host_register_supported, ", WDDM ", machine.wddm, "\n");
  for (size_t i = 0; i < operations.size(); ++i) {
    absl::StrAppend(&text, i, ": ", fuzz::Describe(operations[i]), "\n");
  }
  return text;
}

}  // namespace pinring::fuzz
