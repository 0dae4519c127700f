// What a look-up costs a copy: with 1 and 10,000 blocks; of an address in a
// block, outside of all of them, and close to one.
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "src/host/address_map.h"
#include "src/usage/usage_ledger.h"

namespace pinring {
namespace {

constexpr uintptr_t kBase = 0x7f12'3440'0000;
constexpr size_t kPage = 4096;

enum class Where { kInside, kOutside, kNear };

// Blocks of 5 pages and a few bytes, 64 pages apart.
std::unique_ptr<AddressMap> MakeMap(size_t blocks) {
  auto map = std::make_unique<AddressMap>();
  for (size_t i = 0; i < blocks; ++i) {
    absl::StatusOr<Block*> block = map->Insert({.base = kBase + i * 64 * kPage,
                                                .bytes = 5 * kPage + 100,
                                                .mapped_bytes = 6 * kPage});
    if (!block.ok()) return nullptr;
  }
  return map;
}

void FindAddress(benchmark::State& state, Where where) {
  const auto blocks = static_cast<size_t>(state.range(0));
  std::unique_ptr<AddressMap> map = MakeMap(blocks);
  if (map == nullptr) {
    state.SkipWithError("a block was refused");
    return;
  }
  std::mt19937_64 random(1);
  std::vector<uintptr_t> addresses(4096);
  for (uintptr_t& address : addresses) {
    const uintptr_t base = kBase + (random() % blocks) * 64 * kPage;
    switch (where) {
      case Where::kInside:
        address = base + random() % (5 * kPage);
        break;
      case Where::kOutside:  // Where malloc's heap is.
        address = 0x5555'5555'0000 + random() % (64 * kPage);
        break;
      case Where::kNear:
        address = base + (random() % 2 == 0 ? 5 * kPage + 100 : 9 * kPage);
        break;
    }
  }
  size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(map->Find(addresses[i]));
    i = (i + 1) % addresses.size();
  }
}

void BM_Find(benchmark::State& state, Where where) {
  FindAddress(state, where);
}
BENCHMARK_CAPTURE(BM_Find, inside, Where::kInside)
    ->ArgName("blocks")
    ->Arg(1)
    ->Arg(10000);
BENCHMARK_CAPTURE(BM_Find, outside, Where::kOutside)
    ->ArgName("blocks")
    ->Arg(1)
    ->Arg(10000);
BENCHMARK_CAPTURE(BM_Find, near, Where::kNear)
    ->ArgName("blocks")
    ->Arg(1)
    ->Arg(10000);

// A look-up that keeps the block, and gives it back.
void BM_Use(benchmark::State& state) {
  std::unique_ptr<AddressMap> map = MakeMap(1);
  for (auto _ : state) {
    BlockUse use = map->Use(kBase + 77);
    benchmark::DoNotOptimize(use.get());
  }
}
BENCHMARK(BM_Use);

void BM_InsertErase(benchmark::State& state) {
  AddressMap map;
  const auto bytes = static_cast<size_t>(state.range(0));
  for (auto _ : state) {
    absl::StatusOr<Block*> block =
        map.Insert({.base = kBase, .bytes = bytes, .mapped_bytes = bytes});
    if (!block.ok() || !(*block)->BeginFree() || !map.Erase(*block).ok()) {
      state.SkipWithError("a block was refused");
      break;
    }
  }
}
BENCHMARK(BM_InsertErase)
    ->ArgName("bytes")
    ->Arg(64 << 10)
    ->Arg(64 << 20)
    ->Arg(int64_t{8} << 30);

// The accounting that goes with an allocation, and with a copy.
void BM_LedgerAllocateRelease(benchmark::State& state) {
  static UsageLedger ledger;
  for (auto _ : state) {
    const CategoryId category = ledger.categories().Current();
    ledger.Allocated(category, UsageKind::kStaged, 4096);
    ledger.Released(category, UsageKind::kStaged, 4096);
  }
}
BENCHMARK(BM_LedgerAllocateRelease)->Threads(1)->Threads(2);

void BM_LedgerCopy(benchmark::State& state) {
  static UsageLedger ledger;
  for (auto _ : state) {
    ledger.Copied(kDefaultCategory, CopyDirection::kHostToDevice,
                  CopyPath::kPassed, 4096);
  }
}
BENCHMARK(BM_LedgerCopy)->Threads(1)->Threads(2);

// The same with as many categories, each copy in another one than the last.
void BM_LedgerCopyOfCategories(benchmark::State& state) {
  UsageLedger ledger;
  std::vector<CategoryId> ids;
  for (int64_t i = 0; i < state.range(0); ++i) {
    ids.push_back(ledger.categories()
                      .Intern("category " + std::to_string(i))
                      .value_or(kDefaultCategory));
  }
  size_t next = 0;
  for (auto _ : state) {
    ledger.Copied(ids[next], CopyDirection::kHostToDevice, CopyPath::kPassed,
                  4096);
    if (++next == ids.size()) next = 0;
  }
}
BENCHMARK(BM_LedgerCopyOfCategories)->ArgName("categories")->Arg(1)->Arg(4096);

// An allocation that both limits have to let pass.
void BM_LedgerAllocateWithinLimits(benchmark::State& state) {
  static UsageLedger ledger;
  ledger.SetLimits(kDefaultCategory, {1 << 20, 1 << 20});
  for (auto _ : state) {
    if (!ledger.TryAllocated(kDefaultCategory, UsageKind::kStaged, 4096)) {
      state.SkipWithError("refused");
      break;
    }
    ledger.Released(kDefaultCategory, UsageKind::kStaged, 4096);
  }
}
BENCHMARK(BM_LedgerAllocateWithinLimits);

void BM_CategoryPushPop(benchmark::State& state) {
  CategoryTable table;
  absl::StatusOr<CategoryId> id = table.Intern("category");
  for (auto _ : state) {
    if (!id.ok() || !table.Push(*id).ok() || !table.Pop().ok()) {
      state.SkipWithError("push or pop was refused");
      break;
    }
  }
}
BENCHMARK(BM_CategoryPushPop);

}  // namespace
}  // namespace pinring
