// A C++17 program. It allocates through pinring and lets the standard library
// throw and catch, which a library with a C++ runtime of its own would spoil.

#include <stdexcept>
#include <string>

#include "round_trip.h"

int main() {
  try {
    (void)std::stoi("no number");
    return Failed("std::stoi", cudaSuccess);
  } catch (const std::invalid_argument&) {
  }
  return RoundTrip();
}
