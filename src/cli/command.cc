#include "src/cli/command.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "include/pinring/pinring.h"
#include "src/capi/options.h"
#include "src/cli/bench.h"
#include "src/cli/demo.h"
#include "src/cli/doctor.h"
#include "src/cli/doctor_probe.h"
#include "src/cli/flags.h"
#include "src/cli/run.h"
#include "src/cli/top.h"
#include "src/os/env.h"

namespace pinring::cli {
namespace {

constexpr int kFailed = 1;
constexpr int kMisused = 2;
constexpr uint64_t kMostStreams = 256;

int Misused(absl::string_view command, absl::string_view message) {
  absl::FPrintF(stderr, "pinring %s: %s\nTry `pinring help %s`.\n", command,
                message, command);
  return kMisused;
}

// An earlier flush may have failed, too.
int Written() {
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0 ? 0 : kFailed;
}

constexpr FlagSpec kBenchFlags[] = {
    {"sizes", "LIST", "sizes of copies, as in 64KiB,1MiB (default: 9 sizes)"},
    {"rounds", "N", "copies a median is of (default: by size)"},
    {"without-pinned", nullptr, "pin nothing to compare with"},
    {"json", nullptr, "one JSON object (src/usage/schemas/bench.schema.json)"},
};

int Bench(const Flags& flags) {
  constexpr uint64_t kMostRounds = 100'000;
  BenchOptions options;
  options.json = flags.Has("json");
  options.with_pinned = !flags.Has("without-pinned");
  if (const auto sizes = flags.Get("sizes"); sizes.has_value()) {
    for (const absl::string_view size : absl::StrSplit(*sizes, ',')) {
      const auto bytes = ParseBytes(size);
      if (!bytes.ok() || *bytes == 0) {
        return Misused("bench", absl::StrCat("--sizes=", *sizes, ": \"", size,
                                             "\" is not a size; write sizes as "
                                             "in 64KiB,1MiB"));
      }
      options.sizes.push_back(*bytes);
    }
  }
  if (const auto rounds = flags.Get("rounds"); rounds.has_value()) {
    const auto count = ParseCount(*rounds);
    if (!count.ok() || *count < 1 || *count > kMostRounds) {
      return Misused("bench",
                     absl::StrCat("--rounds=", *rounds,
                                  ": write a number from 1 to ", kMostRounds));
    }
    options.rounds = static_cast<int>(*count);
  }
  return RunBench(options);
}

constexpr FlagSpec kDemoFlags[] = {
    {"size", "BYTES", "how much to copy, as in 8GiB (default: what fits)"},
    {"streams", "N", "how many streams to use (default: 4)"},
    {"json", nullptr, "one JSON object on standard output"},
};

int Demo(const Flags& flags) {
  DemoOptions options;
  options.json = flags.Has("json");
  if (const auto size = flags.Get("size"); size.has_value()) {
    const auto bytes = ParseBytes(*size);
    if (!bytes.ok() || *bytes == 0) {
      return Misused("demo", absl::StrCat("--size=", *size,
                                          ": not a size; write it as in 256MiB "
                                          "or 8GiB"));
    }
    options.bytes = *bytes;
  }
  if (const auto streams = flags.Get("streams"); streams.has_value()) {
    const auto count = ParseCount(*streams);
    if (!count.ok() || *count < 1 || *count > kMostStreams) {
      return Misused("demo",
                     absl::StrCat("--streams=", *streams,
                                  ": write a number from 1 to ", kMostStreams));
    }
    options.streams = static_cast<int>(*count);
  }
  return RunDemo(options);
}

constexpr FlagSpec kDoctorFlags[] = {
    {"json", nullptr, "one JSON object (src/usage/schemas/doctor.schema.json)"},
    {"probe", nullptr, "pin some memory, bounded, and see what meters show"},
    {"probe-bytes", "BYTES", "how much --probe pins at most (default: 512MiB)"},
    {"simulate", nullptr,
     "look at a simulated device (PINRING_SIMCUDA_WDDM=1: in WDDM mode)"},
};

int Doctor(const Flags& flags) {
  DoctorOptions options;
  options.json = flags.Has("json");
  options.simulate = flags.Has("simulate");
  if (flags.Has("probe")) options.probe_bytes = kDefaultProbeBytes;
  if (const auto size = flags.Get("probe-bytes"); size.has_value()) {
    const auto bytes = ParseBytes(*size);
    if (!bytes.ok() || *bytes == 0) {
      return Misused("doctor",
                     absl::StrCat("--probe-bytes=", *size,
                                  ": not a size; write it as in 256MiB"));
    }
    options.probe_bytes = *bytes;
  }
  return RunDoctor(options);
}

constexpr FlagSpec kOptionsFlags[] = {
    {"markdown", nullptr, "the table with the defaults, as Markdown"},
};

int ShowOptions(const Flags& flags) {
  if (flags.Has("markdown")) {
    absl::PrintF("%s", FormatOptionsMarkdown());
    return Written();
  }
  Options options;
  const absl::Status status = ReadEnvironment(os::GetEnv, &options);
  absl::PrintF("%s", FormatOptions(options));
  if (!status.ok()) {
    absl::FPrintF(stderr, "pinring options: %s\n",
                  std::string(status.message()));
    return kFailed;
  }
  return Written();
}

int ShowVersion(const Flags&) {
  absl::PrintF("pinring %d.%d.%d\n", PINRING_VERSION_MAJOR,
               PINRING_VERSION_MINOR, PINRING_VERSION_PATCH);
  return Written();
}

constexpr FlagSpec kRunFlags[] = {
    {"library", "FILE", "the preload library (default: beside this command)"},
};

// What follows "--" is the program's.
int Run(absl::Span<const std::string> arguments) {
  const auto end = std::find(arguments.begin(), arguments.end(), "--");
  const auto mine =
      arguments.subspan(0, static_cast<size_t>(end - arguments.begin()));
  const auto flags = Flags::Parse(kRunFlags, mine);
  if (!flags.ok()) return Misused("run", std::string(flags.status().message()));
  if (end == arguments.end() || end + 1 == arguments.end()) {
    return Misused("run",
                   "no program; write it behind `--`: pinring run -- python3 "
                   "train.py");
  }
  return RunProgram(flags->Get("library").value_or(""),
                    arguments.subspan(mine.size() + 1));
}

constexpr FlagSpec kTopFlags[] = {
    {"once", nullptr, "look once and end; with --interval, twice, for rates"},
    {"json", nullptr,
     "JSON objects, a line each (src/usage/schemas/top.schema.json)"},
    {"interval", "MS", "milliseconds between two looks (default: 1000)"},
};

int Top(const Flags& flags) {
  constexpr uint64_t kMostMs = 3'600'000;
  TopOptions options;
  options.once = flags.Has("once");
  options.json = flags.Has("json");
  if (const auto interval = flags.Get("interval"); interval.has_value()) {
    const auto ms = ParseCount(*interval);
    if (!ms.ok() || *ms < 50 || *ms > kMostMs) {
      return Misused(
          "top", absl::StrCat("--interval=", *interval,
                              ": write milliseconds, from 50 to ", kMostMs));
    }
    options.interval_ms = *ms;
  }
  return RunTop(options);
}

struct Command {
  const char* name;
  const char* summary;
  absl::Span<const FlagSpec> flags;
  int (*run)(const Flags& flags);
  // In place of `run`, for a command that takes more than flags.
  int (*run_with)(absl::Span<const std::string> arguments) = nullptr;
};

const Command kCommands[] = {
    {"bench", "how fast copies are: pinned, pageable and staged, by size",
     kBenchFlags, &Bench},
    {"demo", "copy to the device and back through the ring, and check it",
     kDemoFlags, &Demo},
    {"doctor", "what pinning costs here, and whether GPU memory is full",
     kDoctorFlags, &Doctor},
    {"options", "the options, their values and their environment variables",
     kOptionsFlags, &ShowOptions},
    {"run", "run a program with the preload library: pinring run -- PROGRAM",
     kRunFlags, nullptr, &Run},
    {"top", "who pins what, live, in all your processes", kTopFlags, &Top},
    {"version", "the version", {}, &ShowVersion},
};

const Command* FindCommand(absl::string_view name) {
  for (const Command& command : kCommands) {
    if (name == command.name) return &command;
  }
  return nullptr;
}

std::string HelpText() {
  std::string out =
      "pinring: pinned memory for CUDA programs, without pinning it\n\n"
      "usage: pinring COMMAND [FLAGS]\n\n";
  for (const Command& command : kCommands) {
    absl::StrAppendFormat(&out, "  %-8s  %s\n", command.name, command.summary);
  }
  absl::StrAppendFormat(&out, "  %-8s  %s\n", "help",
                        "this text; `pinring help COMMAND` for its flags");
  return out;
}

int UnknownCommand(absl::string_view name) {
  absl::FPrintF(stderr, "pinring: unknown command %s\n\n%s", name, HelpText());
  return kMisused;
}

int ShowHelp(absl::Span<const std::string> topics) {
  if (topics.empty()) {
    absl::PrintF("%s", HelpText());
    return Written();
  }
  const Command* command = FindCommand(topics[0]);
  if (command == nullptr) return UnknownCommand(topics[0]);
  absl::PrintF("pinring %s: %s\n%s", command->name, command->summary,
               FlagHelp(command->flags));
  return Written();
}

}  // namespace

int RunCommand(absl::Span<const std::string> arguments) {
  if (arguments.empty()) {
    absl::FPrintF(stderr, "%s", HelpText());
    return kMisused;
  }
  absl::string_view name = arguments[0];
  const auto rest = arguments.subspan(1);
  if (name == "help" || name == "--help" || name == "-h") return ShowHelp(rest);
  if (name == "--version") name = "version";
  const Command* command = FindCommand(name);
  if (command == nullptr) return UnknownCommand(name);
  for (const std::string& argument : rest) {
    if (argument == "--") break;
    if (argument == "--help" || argument == "-h") {
      return ShowHelp({std::string(command->name)});
    }
  }
  if (command->run_with != nullptr) return command->run_with(rest);
  const auto flags = Flags::Parse(command->flags, rest);
  if (!flags.ok()) {
    return Misused(command->name, std::string(flags.status().message()));
  }
  return command->run(*flags);
}

}  // namespace pinring::cli
