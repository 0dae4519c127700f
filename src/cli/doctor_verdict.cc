#include "src/cli/doctor_verdict.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/usage/usage_print.h"

namespace pinring::cli {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

constexpr char kLimitPinned[] =
    "pin less: run the program with pinring (`pinring run -- PROGRAM`), or let "
    "it pin less by its own settings; PINRING_PINNED_LIMIT_BYTES bounds what "
    "stays pinned";

std::string Of(uint64_t used, uint64_t total) {
  return absl::StrCat(HumanBytes(used), " of ", HumanBytes(total));
}

std::string Named(const DeviceProcess& process) {
  return process.name.empty()
             ? absl::StrCat("process ", process.pid)
             : absl::StrCat("process ", process.pid, " (", process.name, ")");
}

const DeviceProcess* LargestOther(const VerdictInput& input) {
  const DeviceProcess* largest = nullptr;
  for (const DeviceProcess& process : input.processes) {
    if (process.own || !process.used_bytes.has_value()) continue;
    if (largest == nullptr || *process.used_bytes > *largest->used_bytes) {
      largest = &process;
    }
  }
  return largest;
}

// How much more another meter shows than the card holds; 0 within what meters
// differ by anyway.
uint64_t CountedBesides(const VerdictInput& input, uint64_t card) {
  uint64_t most = input.system_used_bytes.value_or(0);
  if (input.charges_pinned && input.framebuffer_used_bytes.has_value()) {
    most = std::max(most, input.cuda_used_bytes.value_or(0));
  }
  const uint64_t margin = std::max(256 * kMiB, input.total_bytes / 50);
  return most > card + margin ? most - card : 0;
}

Verdict Full(const VerdictInput& input, uint64_t card, uint64_t counted) {
  Verdict verdict;
  const DeviceProcess* const other = LargestOther(input);
  if (other != nullptr && *other->used_bytes >= card / 2) {
    verdict.kind = VerdictKind::kOtherProcess;
    verdict.text = absl::StrCat(
        "The card is full, ", Of(card, input.total_bytes), ", and ",
        Named(*other), " holds ", HumanBytes(*other->used_bytes), " of it.");
    verdict.advice.push_back(absl::StrCat("end ", Named(*other),
                                          ", or choose another device with "
                                          "CUDA_VISIBLE_DEVICES"));
  } else {
    verdict.kind = VerdictKind::kRealPressure;
    verdict.text = absl::StrCat(
        "The card is full, ", Of(card, input.total_bytes),
        ": that is device memory, which pinned host memory is no part of.");
    verdict.advice.push_back(
        "allocate less device memory: smaller batches, smaller weights, or "
        "more devices");
  }
  if (counted > 0) {
    absl::StrAppend(&verdict.text, " Besides, ", HumanBytes(counted),
                    " of pinned host memory is counted as device memory.");
    verdict.advice.push_back(kLimitPinned);
  }
  return verdict;
}

Verdict PinnedCounted(const VerdictInput& input, uint64_t card,
                      uint64_t counted) {
  Verdict verdict;
  verdict.kind = VerdictKind::kPinnedCounted;
  verdict.text = absl::StrCat(
      "The card is not full: it holds ", Of(card, input.total_bytes),
      ". Another ", HumanBytes(counted),
      " that the system counts as device memory is pinned host memory.");
  if (input.pinned_bytes.has_value()) {
    absl::StrAppend(&verdict.text, " ", HumanBytes(*input.pinned_bytes),
                    " are known to be pinned.");
  }
  verdict.advice = {
      "believe NVML (`nvidia-smi`) and cuMemGetInfo, and the task manager for "
      "trends only",
      kLimitPinned,
      "free pinned memory before large device allocations: under WDDM both "
      "have to fit into the card, and after one refused pin every later one "
      "of the process fails"};
  return verdict;
}

}  // namespace

const char* VerdictName(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::kNothingWrong:
      return "nothing_wrong";
    case VerdictKind::kPinnedCounted:
      return "pinned_counted";
    case VerdictKind::kOtherProcess:
      return "other_process";
    case VerdictKind::kRealPressure:
      return "real_pressure";
    case VerdictKind::kUnclear:
      return "unclear";
    case VerdictKind::kNoDevice:
      return "no_device";
  }
  return "unclear";
}

Verdict Judge(const VerdictInput& input) {
  Verdict verdict;
  const std::optional<uint64_t> card = input.framebuffer_used_bytes.has_value()
                                           ? input.framebuffer_used_bytes
                                           : input.cuda_used_bytes;
  if (!card.has_value() || input.total_bytes == 0) {
    verdict.kind = VerdictKind::kUnclear;
    verdict.text =
        "Nothing says how much of the card's memory is in use: neither NVML "
        "nor cuMemGetInfo answers.";
    verdict.advice.push_back("see the facts that are missing, above");
    return verdict;
  }
  const uint64_t counted = CountedBesides(input, *card);
  if (*card >= input.total_bytes - input.total_bytes / 10) {
    return Full(input, *card, counted);
  }
  if (counted > 0) return PinnedCounted(input, *card, counted);
  // No meter of the system's, but what is pinned would fill the budget.
  const uint64_t pinned = input.pinned_bytes.value_or(0);
  if (input.charges_pinned && !input.system_used_bytes.has_value() &&
      *card + pinned >= input.total_bytes - input.total_bytes / 10) {
    return PinnedCounted(input, *card, pinned);
  }
  if (!input.charges_pinned && input.framebuffer_used_bytes.has_value() &&
      input.cuda_used_bytes.has_value() &&
      *input.cuda_used_bytes >
          *card + std::max(256 * kMiB, input.total_bytes / 20)) {
    verdict.kind = VerdictKind::kUnclear;
    verdict.text = absl::StrCat(
        "cuMemGetInfo counts ", HumanBytes(*input.cuda_used_bytes),
        " as used, NVML ", HumanBytes(*card),
        ". Pinned memory is not the reason: it is not charged to the card "
        "here.");
    verdict.advice.push_back(
        "look at what divides the card: MIG instances, virtual GPUs, memory "
        "limits of MPS");
    return verdict;
  }
  verdict.kind = VerdictKind::kNothingWrong;
  verdict.text = absl::StrCat("Nothing is wrong: the card holds ",
                              Of(*card, input.total_bytes), ".");
  if (input.charges_pinned) {
    absl::StrAppend(&verdict.text,
                    " What is pinned here is charged to the card, too.");
  }
  return verdict;
}

}  // namespace pinring::cli
