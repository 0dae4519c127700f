// The program of the conformance suite: runs scenarios, prints what they
// observe. compare.cmake runs it twice, once natively and once with pinring.
//
//   conformance --list [SELECTION]     one line for each scenario
//   conformance [SELECTION] [--seed N] [--seeds N]
//
// SELECTION: --all, or --scenario NAME, or --rule N and --without NAME. Without
// these, what needs more than there is is left out: --without-several-queues
// and --without-queueing (see scenario.h), --devices N (1 if not given). A
// scenario runs with its share of the seeds, at least one.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/conformance/scenario.h"

namespace conformance {
namespace {

struct Selection {
  bool list = false;
  bool all = false;
  std::string rule;
  std::string name;
  Needs most = Needs::kSeveralQueues;
  int devices = 1;
  std::vector<std::string> without;
  uint64_t seed = 1;
  int seeds = 1;
};

bool Parse(int argc, char** argv, Selection* selection) {
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--list") {
      selection->list = true;
      continue;
    }
    if (option == "--all") {
      selection->all = true;
      continue;
    }
    if (option == "--without-queueing") {
      selection->most = Needs::kNothing;
      continue;
    }
    if (option == "--without-several-queues") {
      selection->most = Needs::kQueueing;
      continue;
    }
    if (++i == argc) return false;
    if (option == "--rule") {
      selection->rule = argv[i];
    } else if (option == "--scenario") {
      selection->name = argv[i];
    } else if (option == "--without") {
      selection->without.emplace_back(argv[i]);
    } else if (option == "--devices") {
      selection->devices = std::atoi(argv[i]);
    } else if (option == "--seed") {
      selection->seed = std::strtoull(argv[i], nullptr, 10);
    } else if (option == "--seeds") {
      selection->seeds = std::atoi(argv[i]);
    } else {
      return false;
    }
  }
  return true;
}

std::vector<Scenario> AllScenarios() {
  std::vector<Scenario> all;
  for (const auto& part :
       {OrderScenarios(), StreamScenarios(), BlockingScenarios(),
        LifetimeScenarios(), AddressScenarios(), ShapeScenarios(),
        AttributeScenarios(), GraphScenarios(), ErrorScenarios(),
        DeviceScenarios(), RandomScenarios()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Scenario& first, const Scenario& second) {
                     return std::atoi(first.rule) < std::atoi(second.rule);
                   });
  return all;
}

bool Selected(const Selection& selection, const Scenario& scenario) {
  if (selection.all) return true;
  if (!selection.name.empty()) return selection.name == scenario.name;
  return (selection.rule.empty() || selection.rule == scenario.rule) &&
         scenario.needs <= selection.most &&
         std::find(selection.without.begin(), selection.without.end(),
                   scenario.name) == selection.without.end() &&
         scenario.devices <= selection.devices && !scenario.apart;
}

void RunScenario(const Selection& selection, const Scenario& scenario) {
  const int seeds = std::max(1, selection.seeds * scenario.weight / 100);
  std::printf("# %s %s: %d seeds\n", scenario.rule, scenario.name, seeds);
  int devices = 0;
  CHECK_OK(cudaGetDeviceCount(&devices));
  if (scenario.devices > devices) {
    std::printf("skipped = it needs %d devices, here is %d\n", scenario.devices,
                devices);
    return;
  }
  for (int i = 0; i < seeds; ++i) {
    const uint64_t seed = selection.seed + static_cast<uint64_t>(i);
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    std::fflush(stdout);  // A child of fork has nothing to print.
    Run run(seed);
    Watch(&run);
    scenario.function(run);
    Watch(nullptr);
    run.Code("last error", cudaGetLastError());
    std::printf("%s", run.TakeLines().c_str());
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  conformance::Selection selection;
  if (!conformance::Parse(argc, argv, &selection)) {
    std::fprintf(stderr, "see the head of main.cc\n");
    return 2;
  }
  bool any = false;
  for (const conformance::Scenario& scenario : conformance::AllScenarios()) {
    if (!conformance::Selected(selection, scenario)) continue;
    any = true;
    if (selection.list) {
      std::printf("%s %s\n", scenario.rule, scenario.name);
    } else {
      conformance::RunScenario(selection, scenario);
    }
  }
  if (!any && !selection.list) {
    std::fprintf(stderr, "there is no such scenario\n");
    return 2;
  }
  return 0;
}
