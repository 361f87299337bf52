#include "io/quiet_write.h"

#include <cerrno>
#include <csignal>

namespace sandboxkit::io {

ssize_t write_quietly(int fd, const iovec* pieces, int count) {
  sigset_t pipe_signal;
  sigset_t before;
  sigset_t pending;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  sigpending(&pending);
  const bool was_pending = sigismember(&pending, SIGPIPE) == 1;
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  const ssize_t written = ::writev(fd, pieces, count);
  const int error_number = errno;
  if (written < 0 && error_number == EPIPE && !was_pending) {
    const timespec now{};
    sigtimedwait(&pipe_signal, nullptr, &now);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error_number;
  return written;
}

}  // namespace sandboxkit::io
