#include "src/usage/usage_page.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/os/host_facts.h"
#include "src/os/threads.h"

namespace pinring {
namespace {

constexpr char kPrefix[] = "usage.";
// Of an allocation's time, what publishing may take.
constexpr uint64_t kShareOfTime = 100;

template <size_t kBytes>
void CopyName(const std::string& name, char (&out)[kBytes]) {
  std::memset(out, 0, kBytes);
  std::memcpy(out, name.data(), std::min(name.size(), kBytes - 1));
}

uint64_t CopiedBytes(const CategoryUsage& category) {
  uint64_t bytes = 0;
  for (const auto& paths : category.copies) {
    for (const CopyUsage& copies : paths) bytes += copies.bytes;
  }
  return bytes;
}

void AddCategory(const CategoryUsage& category, PublishedCategory* out) {
  out->current_bytes += category.all.current_bytes;
  out->peak_bytes += category.all.peak_bytes;
  out->blocks += category.all.current_count;
  for (size_t kind = 0; kind < kNumUsageKinds; ++kind) {
    out->kinds[kind] += category.by_kind[kind].current_bytes;
  }
  for (size_t d = 0; d < kNumCopyDirections; ++d) {
    for (size_t p = 0; p < kNumCopyPaths; ++p) {
      out->copies[d][p].bytes += category.copies[d][p].bytes;
      out->copies[d][p].count += category.copies[d][p].count;
      out->copies[d][p].wait_ns += category.copies[d][p].wait_ns;
    }
  }
}

bool IsUsed(const CategoryUsage& category) {
  if (category.all.total_count > 0) return true;
  for (const auto& paths : category.copies) {
    for (const CopyUsage& copies : paths) {
      if (copies.count > 0) return true;
    }
  }
  return false;
}

absl::Status ForEachPage(absl::FunctionRef<void(UsagePage& page)> visit) {
  return os::ForEachSharedFile(
      kPrefix, sizeof(UsagePage),
      [&visit](const std::string&, void* data, size_t bytes) {
        auto& page = *static_cast<UsagePage*>(data);
        if (page.magic != UsagePage::kMagic ||
            page.version != UsagePage::kVersion || page.bytes != bytes ||
            bytes != sizeof(UsagePage)) {
          return;
        }
        visit(page);
      });
}

}  // namespace

void FillPublished(const UsageSnapshot& snapshot, PublishedUsage* usage) {
  // Not by way of the stack, which is the program's and may be small.
  std::memset(static_cast<void*>(usage), 0, sizeof(*usage));
  usage->time_ns = os::MonotonicNanos();
  usage->pinned_bytes = snapshot.pinned_bytes;
  usage->pinned_peak_bytes = snapshot.pinned_peak_bytes;
  usage->pinned_limit_bytes = snapshot.pinned_limit_bytes;
  usage->all_bytes = snapshot.all.current_bytes;
  usage->all_peak_bytes = snapshot.all.peak_bytes;
  for (size_t kind = 0; kind < kNumUsageKinds; ++kind) {
    usage->kinds[kind] = snapshot.kinds[kind].current_bytes;
    usage->kind_peaks[kind] = snapshot.kinds[kind].peak_bytes;
  }
  for (size_t event = 0; event < kNumUsageEvents; ++event) {
    usage->events[event] = snapshot.events[event];
  }
  std::vector<const CategoryUsage*> used;
  for (const CategoryUsage& category : snapshot.categories) {
    if (IsUsed(category)) used.push_back(&category);
  }
  usage->category_count = used.size();
  std::sort(used.begin(), used.end(), [](const auto* a, const auto* b) {
    return std::pair(a->all.current_bytes, CopiedBytes(*a)) >
           std::pair(b->all.current_bytes, CopiedBytes(*b));
  });
  constexpr size_t kLast = PublishedUsage::kMostCategories - 1;
  const bool others = used.size() > PublishedUsage::kMostCategories;
  for (size_t i = 0; i < used.size(); ++i) {
    const size_t at = others ? std::min(i, kLast) : i;
    PublishedCategory& category = usage->categories[at];
    AddCategory(*used[i], &category);
    if (!others || at < kLast) {
      CopyName(used[i]->name, category.name);
    } else {
      CopyName("(others)", category.name);
    }
  }
}

// Words are stored with release and loaded with acquire: a reader that sees one
// of a later writing also sees the number that this one made odd before.
void UsagePage::Write(const PublishedUsage& usage) {
  const char* const source = reinterpret_cast<const char*>(&usage);
  const uint64_t before = sequence.load(std::memory_order_relaxed);
  sequence.store(before + 1, std::memory_order_relaxed);
  for (size_t i = 0; i < kWords; ++i) {
    uint64_t word = 0;
    std::memcpy(&word, source + i * sizeof(word), sizeof(word));
    words[i].store(word, std::memory_order_release);
  }
  sequence.store(before + 2, std::memory_order_release);
}

std::optional<PublishedUsage> UsagePage::Read() const {
  constexpr int kAttempts = 200;
  uint64_t values[kWords];
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const uint64_t before = sequence.load(std::memory_order_acquire);
    if (before % 2 == 0 && before != 0) {
      for (size_t i = 0; i < kWords; ++i) {
        values[i] = words[i].load(std::memory_order_acquire);
      }
      if (sequence.load(std::memory_order_relaxed) == before) {
        PublishedUsage usage;
        std::memcpy(&usage, values, sizeof(usage));
        return usage;
      }
    }
    os::SleepMicros(50);
  }
  return std::nullopt;
}

UsagePublisher::UsagePublisher(const UsageLedger* ledger, uint64_t instance,
                               uint64_t pinned_limit_bytes)
    : ledger_(*ledger),
      instance_(instance),
      pinned_limit_bytes_(pinned_limit_bytes) {}

void UsagePublisher::AfterAllocation() {
  UsagePage* page = page_.load(std::memory_order_acquire);
  if (page == nullptr) {
    if (closed_.load(std::memory_order_relaxed)) return;
    Open();
    page = page_.load(std::memory_order_acquire);
    if (page == nullptr) return;
  }
  const bool asked = page->requested.load(std::memory_order_relaxed) !=
                     answered_.load(std::memory_order_relaxed);
  if (asked ||
      os::MonotonicNanos() >= next_ns_.load(std::memory_order_relaxed)) {
    return Publish(*page);
  }
  page->behind.store(1, std::memory_order_relaxed);
}

void UsagePublisher::Open() {
  if (busy_.exchange(true, std::memory_order_acquire)) return;
  // Another thread may have opened it, or stopped, since this one looked; a
  // second page would take the first away from those that write to it.
  if (page_.load(std::memory_order_acquire) == nullptr &&
      !closed_.load(std::memory_order_relaxed)) {
    MakePage();
  }
  busy_.store(false, std::memory_order_release);
}

void UsagePublisher::MakePage() {
  const int64_t pid = os::ProcessId();
  const auto self = os::ThisProcess();
  auto file = os::SharedFile::Create(
      absl::StrCat(kPrefix, pid, ".", instance_), sizeof(UsagePage),
      [&](void* data) {
        auto* page = new (data) UsagePage;
        page->magic = UsagePage::kMagic;
        page->version = UsagePage::kVersion;
        page->bytes = sizeof(UsagePage);
        page->pid = pid;
        page->instance = instance_;
        CopyName(self.ok() ? self->name : "", page->program);
        page->requested.store(0, std::memory_order_relaxed);
        page->sequence.store(0, std::memory_order_relaxed);
        page->behind.store(0, std::memory_order_relaxed);
      });
  if (file.ok()) {
    file_.emplace(*std::move(file));
    page_.store(static_cast<UsagePage*>(file_->data()),
                std::memory_order_release);
  } else {
    closed_.store(true, std::memory_order_relaxed);
  }
}

void UsagePublisher::Publish(UsagePage& page) {
  if (busy_.exchange(true, std::memory_order_acquire)) {
    // The thread that publishes may have looked already.
    page.behind.store(1, std::memory_order_relaxed);
    return;
  }
  const uint64_t begin = os::MonotonicNanos();
  answered_.store(page.requested.load(std::memory_order_relaxed),
                  std::memory_order_relaxed);
  // What comes after this is said to be missing.
  page.behind.store(0, std::memory_order_relaxed);
  UsageSnapshot snapshot = ledger_.Snapshot();
  snapshot.pinned_limit_bytes = pinned_limit_bytes_;
  auto usage = std::make_unique<PublishedUsage>();
  FillPublished(snapshot, usage.get());
  page.Write(*usage);
  const uint64_t end = os::MonotonicNanos();
  next_ns_.store(end + kShareOfTime * (end - begin), std::memory_order_relaxed);
  busy_.store(false, std::memory_order_release);
}

void UsagePublisher::Abandon() {
  closed_.store(true, std::memory_order_relaxed);
  page_.store(nullptr, std::memory_order_relaxed);
  if (file_.has_value()) file_->Abandon();
}

void UsagePublisher::Stop() {
  closed_.store(true, std::memory_order_relaxed);
  if (busy_.exchange(true, std::memory_order_acquire)) return;
  if (page_.exchange(nullptr, std::memory_order_acq_rel) != nullptr) {
    file_->Remove();
  }
  busy_.store(false, std::memory_order_release);
}

absl::Status RequestPublished() {
  return ForEachPage([](UsagePage& page) {
    page.requested.fetch_add(1, std::memory_order_relaxed);
  });
}

absl::StatusOr<std::vector<PublishedProcess>> ReadPublished() {
  std::vector<PublishedProcess> processes;
  auto status = ForEachPage([&processes](UsagePage& page) {
    auto usage = page.Read();
    if (!usage.has_value()) return;
    PublishedProcess process;
    process.pid = page.pid;
    process.instance = page.instance;
    process.program.assign(
        std::begin(page.program),
        std::find(std::begin(page.program), std::end(page.program), '\0'));
    process.behind = page.behind.load(std::memory_order_relaxed) != 0;
    process.usage = *usage;
    // Another process wrote these.
    process.usage.category_count = std::min<uint64_t>(
        process.usage.category_count, PublishedUsage::kMostCategories);
    for (PublishedCategory& category : process.usage.categories) {
      category.name[PublishedCategory::kNameBytes - 1] = '\0';
    }
    processes.push_back(std::move(process));
  });
  if (!status.ok()) return status;
  return processes;
}

}  // namespace pinring
