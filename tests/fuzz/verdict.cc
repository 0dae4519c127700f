#include "tests/fuzz/verdict.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/runner.h"

namespace pinring::fuzz {
namespace {

// Which memory holds what nobody can tell, since a copy to it failed half-way
// or came from such memory.
class Taints {
 public:
  bool Has(const Object& object) const { return tainted_.count(Key(object)); }
  void Add(const Object& object) { tainted_.insert(Key(object)); }
  void Remove(const Object& object) { tainted_.erase(Key(object)); }

 private:
  static std::pair<int, int> Key(const Object& object) {
    return {static_cast<int>(object.kind), object.index};
  }
  std::set<std::pair<int, int>> tainted_;
};

class Comparison {
 public:
  Comparison(const Program& program, const Report& pinring,
             const Report& native, size_t end)
      : program_(program), pinring_(pinring), native_(native), end_(end) {}

  std::string Run() {
    for (size_t i = 0; i < end_; ++i) {
      const Operation& op = program_.operations[i];
      CompareCodes(i, op);
      Spread(i, op);
      CompareSeen(i, op);
    }
    if (end_ == program_.operations.size()) {
      for (int i = 0; i < kDeviceBuffers; ++i) {
        const auto index = static_cast<size_t>(i);
        if (!taints_.Has({MemoryKind::kDevice, i}) &&
            pinring_.devices[index] != native_.devices[index]) {
          absl::StrAppend(&wrong_, "device ", i, " holds other bytes\n");
        }
      }
      for (int i = 0; i < kArrays; ++i) {
        const auto index = static_cast<size_t>(i);
        if (!taints_.Has({MemoryKind::kArray, i}) &&
            pinring_.arrays[index] != native_.arrays[index]) {
          absl::StrAppend(&wrong_, "array ", i, " holds other bytes\n");
        }
      }
    }
    return wrong_;
  }

 private:
  static bool Invalid(const Operation& op) {
    return op.copy.refused || op.kind == OpKind::kFreeInvalid ||
           op.kind == OpKind::kRegister || op.kind == OpKind::kUnregister ||
           op.kind == OpKind::kAlloc;
  }
  // A fault's code comes back as it is, or nothing is seen of it.
  static bool Explained(const Operation& op, int code) {
    return std::any_of(op.faults.begin(), op.faults.end(),
                       [&](const simcuda::Fault& fault) {
                         return static_cast<int>(fault.code) == code;
                       });
  }

  void CompareCodes(size_t i, const Operation& op) {
    const int code = pinring_.results[i].code;
    // What a fault leaves of a capture is refused until its end.
    if (code == cudaErrorStreamCaptureInvalidated &&
        MayFail(program_, op, code)) {
      return;
    }
    if (code != 0 && code != cudaErrorStreamCaptureUnsupported &&
        !op.faults.empty()) {
      if (!Explained(op, code) && code != cudaErrorMemoryAllocation &&
          code != cudaErrorLaunchFailure && code != Result::kNotRun &&
          !(program_.configuration.limited && code == cudaErrorNotSupported) &&
          !Invalid(op)) {
        absl::StrAppend(&wrong_, "operation ", i, " (", Describe(op),
                        ") answers ", code, ", which is no fault's code\n");
      }
      return;
    }
    if (code != native_.results[i].code) {
      absl::StrAppend(&wrong_, "operation ", i, " (", Describe(op),
                      ") answers ", code, ", natively ",
                      native_.results[i].code, "\n");
    }
  }

  void Spread(size_t i, const Operation& op) {
    const int code = pinring_.results[i].code;
    switch (op.kind) {
      case OpKind::kAlloc:
        taints_.Remove({MemoryKind::kBlock, op.index});
        break;
      case OpKind::kCopy:
        if (capturing_) {
          writes_.push_back(op.copy);
          failed_ = failed_ || code != 0;
        } else {
          SpreadCopy(op.copy, code > 0 && !op.faults.empty());
        }
        break;
      case OpKind::kMemset:
        if (code > 0 && !op.faults.empty()) taints_.Add(op.object);
        break;
      case OpKind::kBeginCapture:
        capturing_ = true;
        failed_ = false;
        writes_.clear();
        break;
      case OpKind::kEndCapture:
        capturing_ = false;
        graphs_[static_cast<size_t>(op.index)] = {std::move(writes_), failed_};
        writes_.clear();
        break;
      case OpKind::kLaunchGraph: {
        const Graph& graph = graphs_[static_cast<size_t>(op.index)];
        for (const Copy& copy : graph.copies) SpreadCopy(copy, graph.failed);
        break;
      }
      default:
        break;
    }
  }
  void SpreadCopy(const Copy& copy, bool failed) {
    if (failed || taints_.Has(copy.src.object)) taints_.Add(copy.dst.object);
  }

  void CompareSeen(size_t i, const Operation& op) {
    const Result& a = pinring_.results[i];
    const Result& b = native_.results[i];
    if (a.code != 0 || b.code != 0 || !a.compared || !b.compared) return;
    const bool reads =
        op.kind == OpKind::kLook || op.kind == OpKind::kHostFunctionLook;
    if (reads && taints_.Has(op.object)) return;
    if (a.seen == b.seen) return;
    absl::StrAppend(&wrong_, "operation ", i, " (", Describe(op), ") sees ",
                    reads ? "other bytes" : "other values",
                    " than natively: ", absl::Hex(a.seen), ", natively ",
                    absl::Hex(b.seen), "\n");
  }

  struct Graph {
    std::vector<Copy> copies;
    bool failed = false;
  };

  const Program& program_;
  const Report& pinring_;
  const Report& native_;
  const size_t end_;
  std::string wrong_;
  Taints taints_;
  bool capturing_ = false;
  bool failed_ = false;
  std::vector<Copy> writes_;
  std::array<Graph, kGraphs> graphs_;
};

}  // namespace

Verdict Judge(const Program& program) {
  // A lost context ends what can be compared.
  size_t end = program.operations.size();
  for (size_t i = 0; i < program.operations.size(); ++i) {
    const auto& faults = program.operations[i].faults;
    if (std::any_of(faults.begin(), faults.end(),
                    [](const simcuda::Fault& fault) { return fault.sticky; })) {
      end = i;
      break;
    }
  }
  Verdict verdict;
  const Report pinring = RunWithPinring(program);
  verdict.wrong = pinring.wrong;
  verdict.hung = pinring.hung;
  verdict.ring_copies = pinring.ring_copies;
  if (verdict.hung) return verdict;
  const Report native = RunNatively(program, pinring, end);
  verdict.hung = native.hung;
  if (!native.wrong.empty()) {
    absl::StrAppend(&verdict.wrong, "natively: ", native.wrong);
  }
  if (verdict.hung) return verdict;
  absl::StrAppend(&verdict.wrong,
                  Comparison(program, pinring, native, end).Run());
  return verdict;
}

}  // namespace pinring::fuzz
