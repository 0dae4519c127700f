// Prints the usage of a ledger in which everything happened, as JSON.

#include <cstdio>
#include <string>

#include "src/usage/usage_ledger.h"
#include "src/usage/usage_print.h"

int main() {
  pinring::UsageLedger ledger;
  const auto id = ledger.categories().Intern("loader\n\"");
  if (!id.ok()) return 1;
  ledger.SetLimits(*id, {1, 1 << 30});
  for (size_t kind = 0; kind < pinring::kNumUsageKinds; ++kind) {
    ledger.Allocated(*id, static_cast<pinring::UsageKind>(kind), 4096);
  }
  for (size_t d = 0; d < pinring::kNumCopyDirections; ++d) {
    for (size_t p = 0; p < pinring::kNumCopyPaths; ++p) {
      ledger.Copied(*id, static_cast<pinring::CopyDirection>(d),
                    static_cast<pinring::CopyPath>(p), 100, 1);
    }
  }
  ledger.Mark();
  std::puts(pinring::FormatUsageJson(ledger.Snapshot()).c_str());
  return 0;
}
