// A usage snapshot in Prometheus' text exposition format, version 0.0.4.
#ifndef PINRING_SRC_USAGE_USAGE_PROMETHEUS_H_
#define PINRING_SRC_USAGE_USAGE_PROMETHEUS_H_

#include <string>

#include "src/usage/usage_snapshot.h"

namespace pinring {

// Names begin with pinring_, end with their unit and, where they only grow,
// with _total; each has its HELP and TYPE. Labels: category, kind, direction,
// path, event. Categories that never held or copied anything are left out.
// What is not UTF-8 in a name becomes U+FFFD.
std::string FormatUsagePrometheus(const UsageSnapshot& snapshot);

}  // namespace pinring

#endif  // PINRING_SRC_USAGE_USAGE_PROMETHEUS_H_
