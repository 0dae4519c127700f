/* A C program that knows nothing of C++. */

#include "round_trip.h"

int main(void) { return RoundTrip(); }
