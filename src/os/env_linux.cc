#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "src/os/env.h"

namespace pinring::os {
namespace {

// Keeps SIGPIPE from the calling thread while it lives.
class ScopedNoSigpipe {
 public:
  ScopedNoSigpipe() {
    sigset_t pending;
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    // One that is pending already is somebody else's, and blocked already.
    if (sigpending(&pending) != 0 || sigismember(&pending, SIGPIPE) == 1) {
      return;
    }
    active_ = pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_) == 0;
  }

  // Takes back the signal that the write raised, if it did.
  ~ScopedNoSigpipe() {
    if (!active_) return;
    const timespec no_time = {};
    while (sigtimedwait(&sigpipe_, nullptr, &no_time) < 0 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t sigpipe_;
  sigset_t before_;
  bool active_ = false;
};

}  // namespace

std::optional<std::string> GetEnv(const char* name) {
  const char* const value = getenv(name);
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

void WriteErrorLine(absl::string_view line) noexcept {
  if (const LineSink* sink = CurrentLineSink()) {
    return sink->write(sink->user, line);
  }
  const int saved_errno = errno;
  {
    ScopedNoSigpipe no_sigpipe;
    char line_end = '\n';
    iovec parts[] = {{const_cast<char*>(line.data()), line.size()},
                     {&line_end, 1}};
    while (writev(STDERR_FILENO, parts, 2) < 0 && errno == EINTR) {
    }
  }
  errno = saved_errno;
}

}  // namespace pinring::os
