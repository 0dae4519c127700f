#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/cli/doctor_report.h"
#include "src/usage/json_writer.h"
#include "src/usage/usage_print.h"

namespace pinring::cli {
namespace {

std::string Why(const absl::Status& status) {
  return absl::StrCat("not known: ", status.message());
}

struct FactText {
  std::string operator()(const absl::Status& status) const {
    return Why(status);
  }
  std::string operator()(bool value) const { return value ? "yes" : "no"; }
  std::string operator()(uint64_t value) const { return ExactCount(value); }
  std::string operator()(Bytes value) const { return HumanBytes(value.bytes); }
  std::string operator()(const std::string& value) const { return value; }
};

void AppendFacts(const std::vector<Fact>& facts, std::string& out) {
  size_t width = 0;
  for (const Fact& fact : facts) width = std::max(width, fact.title.size());
  for (const Fact& fact : facts) {
    absl::StrAppendFormat(&out, "  %-*s  %s\n", static_cast<int>(width),
                          fact.title, std::visit(FactText(), fact.value));
  }
}

void AppendVerdict(const Verdict& verdict, std::string& out) {
  absl::StrAppend(&out, verdict.text, "\n");
  for (const std::string& advice : verdict.advice) {
    absl::StrAppend(&out, "  - ", advice, "\n");
  }
}

void AppendMeters(const DeviceReport& device, std::string& out) {
  size_t width = 0;
  for (const Meter& meter : device.meters) {
    width = std::max(width, meter.title.size());
  }
  out += "  memory, as each source sees it, this command's context included:\n";
  for (const Meter& meter : device.meters) {
    std::string reading;
    if (!meter.reading.ok()) {
      reading = Why(meter.reading.status());
    } else {
      reading = absl::StrFormat("%12s", HumanBytes(meter.reading->used_bytes));
      if (meter.reading->total_bytes.has_value()) {
        absl::StrAppend(&reading, " of ",
                        HumanBytes(*meter.reading->total_bytes));
      }
      if (meter.scope == "process") reading += ", this command alone";
    }
    absl::StrAppendFormat(&out, "    %-*s  %s\n", static_cast<int>(width),
                          meter.title, reading);
  }
  if (!device.processes.ok()) {
    absl::StrAppend(&out, "  processes on it: ", Why(device.processes.status()),
                    "\n");
    return;
  }
  if (device.processes->empty()) {
    out += "  processes on it: none that the driver shows\n";
    return;
  }
  out += "  processes on it:\n";
  for (const DeviceProcess& process : *device.processes) {
    absl::StrAppendFormat(
        &out, "    %8d  %-16s %s%s\n", process.pid,
        process.name.empty() ? "(another user's)" : process.name,
        process.used_bytes.has_value() ? HumanBytes(*process.used_bytes)
                                       : "the driver does not say how much",
        process.own ? ", this command" : "");
  }
}

void AppendHostProcesses(const DoctorReport& report, std::string& out) {
  out +=
      "\nHost memory of your processes that have the driver loaded (pinned "
      "CUDA memory is\npart of what is shared, on Linux)\n";
  if (!report.host_processes.ok()) {
    absl::StrAppend(&out, "  ", Why(report.host_processes.status()), "\n");
    return;
  }
  for (const HostProcess& process : *report.host_processes) {
    absl::StrAppendFormat(&out, "  %8d  %-16s shared %10s  resident %10s%s\n",
                          process.pid, process.name,
                          HumanBytes(process.shared_bytes),
                          HumanBytes(process.resident_bytes),
                          process.own ? "  this command" : "");
  }
}

void AppendSettings(const DoctorReport& report, std::string& out) {
  out += "\nEnvironment\n";
  size_t width = 0;
  for (const Setting& setting : report.settings) {
    width = std::max(width, setting.name.size());
  }
  for (const Setting& setting : report.settings) {
    const std::string value =
        setting.value.has_value()
            ? absl::StrCat("=", absl::Utf8SafeCHexEscape(*setting.value))
            : " not set";
    absl::StrAppendFormat(&out, "  %-*s %s: %s\n", static_cast<int>(width),
                          setting.name, value, setting.meaning);
  }
}

void AppendProbe(const Probe& probe, std::string& out) {
  absl::StrAppendFormat(&out,
                        "\nProbe: pins up to %s (%s wanted; the bound is %s)\n",
                        HumanBytes(probe.bound_bytes),
                        HumanBytes(probe.wanted_bytes), probe.bound_reason);
  absl::StrAppendFormat(&out, "  %-8s %10s", "", "");
  for (size_t i = 0; i < probe.columns.size(); ++i) {
    absl::StrAppendFormat(&out, "  %12s", absl::StrCat("[", i + 1, "]"));
  }
  out += "\n";
  for (const ProbeStep& step : probe.steps) {
    absl::StrAppendFormat(&out, "  %-8s %10s", step.phase,
                          step.bytes == 0 ? "" : HumanBytes(step.bytes));
    for (const auto& meter : step.meters) {
      absl::StrAppendFormat(&out, "  %12s",
                            meter.ok() ? HumanBytes(*meter) : "-");
    }
    out += "\n";
  }
  for (size_t i = 0; i < probe.columns.size(); ++i) {
    absl::StrAppendFormat(&out, "  [%d] %s\n", i + 1, probe.columns[i].title);
  }
  if (!probe.status.ok()) {
    absl::StrAppend(&out, "  It ended early: ", probe.status.message(), "\n");
  }
}

struct FactJson {
  JsonWriter& json;
  void operator()(const absl::Status& status) const {
    json.BeginObject();
    json.Field("missing", Text(status.message()));
    json.EndObject();
  }
  void operator()(bool value) const { json.Bool(value); }
  void operator()(uint64_t value) const { json.Number(value); }
  void operator()(Bytes value) const {
    json.BeginObject();
    json.Field("bytes", value.bytes);
    json.EndObject();
  }
  void operator()(const std::string& value) const { json.String(value); }

  static std::string_view Text(absl::string_view text) {
    return {text.data(), text.size()};
  }
};

void WriteMissing(const absl::Status& status, JsonWriter& json) {
  FactJson{json}(status);
}

void WriteVerdict(const Verdict& verdict, JsonWriter& json) {
  json.BeginObject();
  json.Field("kind", VerdictName(verdict.kind));
  json.Field("text", verdict.text);
  json.Key("advice");
  json.BeginArray();
  for (const std::string& advice : verdict.advice) json.String(advice);
  json.EndArray();
  json.EndObject();
}

void WriteMeters(const DeviceReport& device, JsonWriter& json) {
  json.Key("meters");
  json.BeginArray();
  for (const Meter& meter : device.meters) {
    json.BeginObject();
    json.Field("source", meter.key);
    json.Field("scope", meter.scope);
    if (meter.reading.ok()) {
      json.Field("used_bytes", meter.reading->used_bytes);
      if (meter.reading->total_bytes.has_value()) {
        json.Field("total_bytes", *meter.reading->total_bytes);
      }
    } else {
      json.Field("missing", FactJson::Text(meter.reading.status().message()));
    }
    json.EndObject();
  }
  json.EndArray();
}

void WriteProcesses(const DeviceReport& device, JsonWriter& json) {
  json.Key("processes");
  if (!device.processes.ok()) {
    WriteMissing(device.processes.status(), json);
    return;
  }
  json.BeginArray();
  for (const DeviceProcess& process : *device.processes) {
    json.BeginObject();
    json.Key("pid");
    json.Number(process.pid);
    json.Field("name", process.name);
    json.Key("used_bytes");
    if (process.used_bytes.has_value()) {
      json.Number(*process.used_bytes);
    } else {
      json.Null();
    }
    json.Key("own");
    json.Bool(process.own);
    json.EndObject();
  }
  json.EndArray();
}

void WriteDevice(const DeviceReport& device, JsonWriter& json) {
  json.BeginObject();
  json.Field("ordinal", static_cast<uint64_t>(device.ordinal));
  json.Field("name", device.name);
  json.Key("facts");
  WriteFacts(device.facts, json);
  WriteMeters(device, json);
  WriteProcesses(device, json);
  json.Key("verdict");
  WriteVerdict(device.verdict, json);
  json.EndObject();
}

void WriteHostProcesses(const DoctorReport& report, JsonWriter& json) {
  json.Key("host_processes");
  if (!report.host_processes.ok()) {
    WriteMissing(report.host_processes.status(), json);
    return;
  }
  json.BeginArray();
  for (const HostProcess& process : *report.host_processes) {
    json.BeginObject();
    json.Key("pid");
    json.Number(process.pid);
    json.Field("name", process.name);
    json.Field("resident_bytes", process.resident_bytes);
    json.Field("shared_bytes", process.shared_bytes);
    json.Key("own");
    json.Bool(process.own);
    json.EndObject();
  }
  json.EndArray();
}

void WriteSettings(const DoctorReport& report, JsonWriter& json) {
  json.Key("environment");
  json.BeginArray();
  for (const Setting& setting : report.settings) {
    json.BeginObject();
    json.Field("name", setting.name);
    json.Key("value");
    if (setting.value.has_value()) {
      json.String(*setting.value);
    } else {
      json.Null();
    }
    json.Field("meaning", setting.meaning);
    json.EndObject();
  }
  json.EndArray();
}

void WriteProbe(const Probe& probe, JsonWriter& json) {
  json.BeginObject();
  json.Field("wanted_bytes", probe.wanted_bytes);
  json.Field("bound_bytes", probe.bound_bytes);
  json.Field("bound_reason", probe.bound_reason);
  json.Key("error");
  if (probe.status.ok()) {
    json.Null();
  } else {
    json.String(FactJson::Text(probe.status.message()));
  }
  json.Key("steps");
  json.BeginArray();
  for (const ProbeStep& step : probe.steps) {
    json.BeginObject();
    json.Field("phase", step.phase);
    json.Field("bytes", step.bytes);
    json.Key("used_bytes");
    json.BeginObject();
    for (size_t i = 0; i < step.meters.size(); ++i) {
      json.Key(probe.columns[i].key);
      if (step.meters[i].ok()) {
        json.Number(*step.meters[i]);
      } else {
        json.Null();
      }
    }
    json.EndObject();
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
}

}  // namespace

void WriteFacts(const std::vector<Fact>& facts, JsonWriter& json) {
  json.BeginObject();
  for (const Fact& fact : facts) {
    json.Key(fact.key);
    std::visit(FactJson{json}, fact.value);
  }
  json.EndObject();
}

std::string FormatDoctorText(const DoctorReport& report) {
  std::string out;
  if (!report.simulated.empty()) {
    absl::StrAppend(&out, "Simulated: ", report.simulated,
                    ". What follows is no real card.\n\n");
  }
  out += "System\n";
  AppendFacts(report.system, out);
  for (const DeviceReport& device : report.devices) {
    absl::StrAppend(&out, "\nDevice ", device.ordinal, ": ", device.name, "\n");
    AppendFacts(device.facts, out);
    AppendMeters(device, out);
    if (report.devices.size() > 1) {
      out += "  ";
      AppendVerdict(device.verdict, out);
    }
  }
  AppendHostProcesses(report, out);
  AppendSettings(report, out);
  if (report.probe.has_value()) AppendProbe(*report.probe, out);
  out += "\nVerdict\n  ";
  AppendVerdict(report.verdict, out);
  return out;
}

std::string FormatDoctorJson(const DoctorReport& report) {
  JsonWriter json;
  json.BeginObject();
  json.Field("schema", "pinring.doctor");
  json.Field("version", kDoctorJsonVersion);
  json.Key("simulated");
  if (report.simulated.empty()) {
    json.Null();
  } else {
    json.String(report.simulated);
  }
  json.Key("system");
  WriteFacts(report.system, json);
  json.Key("driver_error");
  if (report.driver.ok()) {
    json.Null();
  } else {
    json.String(FactJson::Text(report.driver.message()));
  }
  json.Key("devices");
  json.BeginArray();
  for (const DeviceReport& device : report.devices) WriteDevice(device, json);
  json.EndArray();
  WriteHostProcesses(report, json);
  WriteSettings(report, json);
  json.Key("verdict");
  WriteVerdict(report.verdict, json);
  if (report.probe.has_value()) {
    json.Key("probe");
    WriteProbe(*report.probe, json);
  }
  json.EndObject();
  return std::move(json).Take();
}

}  // namespace pinring::cli
