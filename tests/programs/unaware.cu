// The same program with a kernel.
#include "unaware.cc"
