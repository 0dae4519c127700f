// The usage of a preloaded program: at its end and at a signal, if the
// environment asks for that.

#ifndef PINRING_SRC_PRELOAD_REPORT_H_
#define PINRING_SRC_PRELOAD_REPORT_H_

namespace pinring::preload {

// Answers the signal of PINRING_USAGE_SIGNAL, if one is set, from here on: a
// thread prints the tables. One that came before is answered now. Called when
// there is something to show; calls but the first do nothing.
void StartAnsweringSignal();

}  // namespace pinring::preload

#endif  // PINRING_SRC_PRELOAD_REPORT_H_
