// A C++17 program. It lets the standard library throw and catch, which a
// library with a C++ runtime of its own would spoil.

#include <pinring/pinring.hpp>
#include <stdexcept>
#include <string>

#include "round_trip.h"

int main() {
  try {
    (void)std::stoi("no number");
    return Failed("std::stoi", cudaSuccess);
  } catch (const std::invalid_argument&) {
  }
  pinring::Buffer<int> numbers;
  if (const pinring::Result result = numbers.Allocate(1000)) {
    numbers.data()[999] = 1;
  } else if (result.message().empty()) {
    return Failed("pinring::Buffer", result.code());
  }
  return RoundTrip();
}
