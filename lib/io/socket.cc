#include "io/socket.h"

#include "base/check.h"
#include "io/quiet_write.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

namespace sandboxkit::io {
namespace {

/// Small writes are gathered up to this size, so that a stream of lines is not a list of strings.
constexpr std::size_t kChunkBytes = 16 * 1024;
constexpr std::size_t kPiecesAtOnce = 16;
constexpr EventLoop::Duration kFlushTimeout{10'000};
/// After the last byte we read on until the peer's EOF: closing with unread input resets a TCP
/// connection, and the peer would lose the answer that it has not read yet.
constexpr EventLoop::Duration kLingerTimeout{2'000};

/// Has small writes sent at once where it is TCP; tells whether it is a socket at all.
bool set_up_socket(int fd) {
  const int on = 1;
  return ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 || errno != ENOTSOCK;
}

Error orderly_end() {
  return Error{ErrorCode::kUnavailable, "the connection is closed", "connection_closed"};
}

}  // namespace

struct Socket::Impl {
  Impl(EventLoop& the_loop, Fd connection)
      : loop(the_loop), fd(std::move(connection)), socket(set_up_socket(fd.get())) {}

  EventLoop& loop;
  Fd fd;
  const bool socket;
  bool started = false;
  bool paused = false;
  bool read_done = false;   // EOF was read, or there is nothing to read from.
  bool write_done = false;  // Our EOF was sent, or nothing can be written.
  bool eof_wanted = false;  // shutdown_write was called.
  bool hung_up = false;     // The peer is gone; epoll would report it for ever.
  bool hangup_told = false;
  bool above_high_water = false;
  bool flushing = false;        // close_after_flush was called.
  std::optional<Error> broken;  // Why nothing can be written any more.

  // Shared, because a handler may replace the handlers, or close, while it runs.
  std::shared_ptr<Handlers> handlers = std::make_shared<Handlers>();
  std::deque<std::string> queue;
  std::size_t front_offset = 0;
  std::size_t queued = 0;
  std::size_t high_water = kHighWater;

  bool watched = false;
  std::uint32_t interest = 0;
  std::weak_ptr<Socket> self;
  std::shared_ptr<Socket> keep_alive;  // While it flushes without an owner.
  EventLoop::TimerId flush_timer = 0;
  EventLoop::TimerId end_watch = 0;

  void update_interest();
  void unwatch();
  void on_events(std::uint32_t events);
  void read_some();
  ssize_t read_bytes(char* buffer, std::size_t size) const;
  ssize_t write_pieces() const;
  void consume(std::size_t written);
  /// Writes what the kernel takes; an errno when the connection is broken, else 0.
  int flush();
  void flush_and_tell();
  void append(std::string_view bytes);
  void after_append();
  void finish_writing();
  void drop_queue();
  void fail_later(int error_number);
  void write_failed(const Error& error);
  void end_if_both_done();
  void tell_hangup();
  void die(const Error& error);
  /// Closes the descriptor, or gives it to `taken`, and lets go of everything.
  void release(Fd* taken = nullptr);
};

Socket::Socket(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Socket::~Socket() { impl_->release(); }

std::shared_ptr<Socket> Socket::adopt(EventLoop& loop, Fd fd) {
  SANDBOXKIT_CHECK(static_cast<bool>(fd), "the caller gives a descriptor that is open");
  const int number = fd.get();
  auto impl = std::make_unique<Impl>(loop, std::move(fd));
  const int flags = ::fcntl(number, F_GETFL);
  [[maybe_unused]] const bool set =
      (flags & O_NONBLOCK) != 0 || ::fcntl(number, F_SETFL, flags | O_NONBLOCK) == 0;
  impl->read_done = (flags & O_ACCMODE) == O_WRONLY;
  impl->write_done = (flags & O_ACCMODE) == O_RDONLY;
  std::shared_ptr<Socket> socket(new Socket(std::move(impl)));
  socket->impl_->self = socket;
  // Handlers often own their socket: without the loop nobody would take them apart.
  socket->impl_->end_watch = loop.run_at_end([weak = std::weak_ptr<Socket>(socket)] {
    if (const auto alive = weak.lock()) {
      alive->impl_->release();
    }
  });
  return socket;
}

void Socket::Impl::unwatch() {
  if (watched) {
    watched = false;
    interest = 0;
    loop.remove(fd.get());
  }
}

void Socket::Impl::update_interest() {
  if (!fd) {
    return;
  }
  const bool reads = started && !paused && !read_done;
  const bool writes = queued > 0;
  std::uint32_t wanted = 0;
  wanted |= reads ? EPOLLIN : 0U;
  wanted |= writes ? EPOLLOUT : 0U;
  wanted |= started && paused && !read_done && !hangup_told && socket ? EPOLLRDHUP : 0U;
  if (hung_up && wanted == 0 && !read_done) {
    unwatch();  // EPOLLHUP cannot be masked: a paused socket of a dead peer would spin the loop.
    return;
  }
  if (watched && wanted != interest) {
    loop.modify(fd.get(), wanted);
  } else if (!watched && (started || wanted != 0)) {
    loop.add(fd.get(), wanted, [weak = self](std::uint32_t events) {
      if (const auto socket_alive = weak.lock()) {
        socket_alive->impl_->on_events(events);
      }
    });
    watched = true;
  }
  interest = wanted;
}

void Socket::Impl::on_events(std::uint32_t events) {
  const auto hold = self.lock();
  constexpr std::uint32_t kGone = EPOLLHUP | EPOLLERR;
  const bool gone = (events & kGone) != 0;
  const bool can_read = started && !paused && !read_done;
  if (can_read && (events & (EPOLLIN | EPOLLRDHUP | kGone)) != 0) {
    read_some();
  } else if (gone && read_done) {
    return die(broken.value_or(orderly_end()));
  } else if ((events & (EPOLLRDHUP | kGone)) != 0) {
    hung_up = hung_up || gone;
    tell_hangup();
  }
  if (fd && queued > 0 && (gone || (events & EPOLLOUT) != 0)) {
    flush_and_tell();
  }
  update_interest();
}

ssize_t Socket::Impl::read_bytes(char* buffer, std::size_t size) const {
  return socket ? ::recv(fd.get(), buffer, size, 0) : ::read(fd.get(), buffer, size);
}

void Socket::Impl::read_some() {
  std::array<char, kReadBytes> buffer;
  const ssize_t got = read_bytes(buffer.data(), buffer.size());
  if (got > 0) {
    const auto current = handlers;
    if (!flushing && current->on_data) {
      current->on_data({buffer.data(), static_cast<std::size_t>(got)});
    }
    return;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  const bool terminal_closed = got < 0 && errno == EIO && !socket;  // A pty says EOF this way.
  if (got < 0 && !terminal_closed) {
    return die(error_from_errno("read", errno));
  }
  read_done = true;
  const auto current = handlers;
  if (current->on_end) {
    current->on_end();
  }
  end_if_both_done();
}

ssize_t Socket::Impl::write_pieces() const {
  std::array<iovec, kPiecesAtOnce> pieces;
  std::size_t count = 0;
  std::size_t offset = front_offset;
  for (const std::string& part : queue) {
    if (count == pieces.size()) {
      break;
    }
    pieces[count++] = iovec{const_cast<char*>(part.data()) + offset, part.size() - offset};
    offset = 0;
  }
  if (!socket) {
    return write_quietly(fd.get(), pieces.data(), static_cast<int>(count));
  }
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = count;
  return ::sendmsg(fd.get(), &message, MSG_NOSIGNAL);
}

void Socket::Impl::consume(std::size_t written) {
  queued -= written;
  while (written > 0) {
    const std::size_t here = std::min(written, queue.front().size() - front_offset);
    written -= here;
    front_offset += here;
    if (front_offset == queue.front().size()) {
      queue.pop_front();
      front_offset = 0;
    }
  }
}

int Socket::Impl::flush() {
  while (queued > 0) {
    const ssize_t written = write_pieces();
    if (written >= 0) {
      consume(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      return 0;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

void Socket::Impl::flush_and_tell() {
  if (const int error_number = flush(); error_number != 0) {
    return write_failed(error_from_errno("write", error_number));
  }
  if (queued == 0 && eof_wanted) {
    finish_writing();
    end_if_both_done();
  }
  if (fd && above_high_water && queued < std::min(kLowWater, high_water)) {
    above_high_water = false;
    const auto current = handlers;
    if (current->on_drain) {
      current->on_drain();
    }
  }
}

void Socket::Impl::append(std::string_view bytes) {
  if (!queue.empty() && queue.back().size() + bytes.size() <= kChunkBytes) {
    queue.back().append(bytes);
  } else {
    queue.emplace_back(bytes);
  }
  queued += bytes.size();
}

void Socket::Impl::after_append() {
  // More queued bytes than before: the kernel's buffer is full, so the loop writes them.
  if (!watched || (interest & EPOLLOUT) == 0) {
    if (const int error_number = flush(); error_number != 0) {
      fail_later(error_number);
    }
  }
  above_high_water = above_high_water || queued >= high_water;
  update_interest();
}

void Socket::Impl::finish_writing() {
  if (write_done) {
    return;
  }
  write_done = true;
  if (socket) {
    ::shutdown(fd.get(), SHUT_WR);
  }
  if (flushing && !read_done) {
    // From here on the peer has to end it; a slow one is not waited for.
    loop.cancel(flush_timer);
    flush_timer = loop.run_after(kLingerTimeout, [weak = self] {
      if (const auto alive = weak.lock()) {
        alive->impl_->release();
      }
    });
  }
}

void Socket::Impl::drop_queue() {
  queue.clear();
  queued = 0;
  front_offset = 0;
}

void Socket::Impl::fail_later(int error_number) {
  drop_queue();
  write_done = true;
  loop.post([weak = self, error_number] {
    if (const auto alive = weak.lock()) {
      alive->impl_->write_failed(error_from_errno("write", error_number));
    }
  });
}

void Socket::Impl::write_failed(const Error& error) {
  drop_queue();
  write_done = true;
  broken = error;
  // What the peer said before it went (a refusal of our body, say) is still read to its end.
  const bool nobody_reads = !started || read_done || flushing || (paused && !handlers->on_hangup);
  if (nobody_reads) {
    return die(error);
  }
  if (paused) {
    tell_hangup();
  }
  update_interest();
}

void Socket::Impl::end_if_both_done() {
  if (fd && read_done && write_done) {
    die(broken.value_or(orderly_end()));
  }
}

void Socket::Impl::tell_hangup() {
  if (hangup_told) {
    return;
  }
  hangup_told = true;
  const auto current = handlers;
  if (current->on_hangup) {
    current->on_hangup();
  }
}

void Socket::Impl::die(const Error& error) {
  if (!fd) {
    return;
  }
  const auto current = handlers;
  const auto hold = self.lock();
  release();
  if (current->on_close) {
    current->on_close(error);
  }
}

void Socket::Impl::release(Fd* taken) {
  if (!fd) {
    return;
  }
  unwatch();
  loop.cancel(flush_timer);
  loop.cancel(end_watch);
  Fd last = std::move(fd);
  if (taken != nullptr) {
    *taken = std::move(last);
  }
  drop_queue();
  last.reset();
  // Handlers often own the socket: let go of them last, and let them die outside of our members.
  const auto old_handlers = std::exchange(handlers, std::make_shared<Handlers>());
  const auto old_self = std::exchange(keep_alive, nullptr);
}

void Socket::start(Handlers handlers) {
  set_handlers(std::move(handlers));
  if (!impl_->fd) {
    return;
  }
  impl_->started = true;
  impl_->paused = false;
  impl_->update_interest();
}

void Socket::set_handlers(Handlers handlers) {
  if (impl_->fd && !impl_->flushing) {
    const auto old =
        std::exchange(impl_->handlers, std::make_shared<Handlers>(std::move(handlers)));
  }
}

void Socket::write(std::string_view bytes) {
  if (!impl_->fd || impl_->write_done || impl_->eof_wanted || bytes.empty()) {
    return;
  }
  impl_->append(bytes);
  impl_->after_append();
}

void Socket::write(std::string&& bytes) {
  if (bytes.size() < kChunkBytes) {
    return write(std::string_view(bytes));
  }
  if (!impl_->fd || impl_->write_done || impl_->eof_wanted) {
    return;
  }
  impl_->queued += bytes.size();
  impl_->queue.push_back(std::move(bytes));
  impl_->after_append();
}

void Socket::shutdown_write() {
  if (!impl_->fd || impl_->eof_wanted) {
    return;
  }
  impl_->eof_wanted = true;
  if (impl_->queued > 0) {
    return;
  }
  impl_->finish_writing();
  impl_->loop.post([weak = impl_->self] {
    if (const auto alive = weak.lock()) {
      alive->impl_->end_if_both_done();
    }
  });
}

std::string Socket::take_queued() {
  std::string out;
  for (const std::string& piece : impl_->queue) {
    out += piece;
  }
  out.erase(0, impl_->front_offset);
  impl_->drop_queue();
  return out;
}

Fd Socket::release() {
  Fd fd;
  impl_->release(&fd);
  return fd;
}

void Socket::close() { impl_->release(); }

void Socket::close_after_flush() {
  if (!impl_->fd || impl_->flushing) {
    return;
  }
  impl_->flushing = true;
  impl_->keep_alive = shared_from_this();
  const auto old = std::exchange(impl_->handlers, std::make_shared<Handlers>());
  const bool peer_reads_on = impl_->socket && !impl_->read_done && !impl_->broken;
  if (impl_->queued == 0 && !peer_reads_on) {
    return impl_->release();
  }
  impl_->flush_timer = impl_->loop.run_after(kFlushTimeout, [weak = impl_->self] {
    if (const auto alive = weak.lock()) {
      alive->impl_->release();
    }
  });
  impl_->started = true;
  impl_->paused = false;
  impl_->eof_wanted = true;
  if (impl_->queued == 0) {
    impl_->finish_writing();
  }
  impl_->update_interest();
}

void Socket::pause_reading() {
  impl_->paused = true;
  impl_->update_interest();
}

void Socket::resume_reading() {
  impl_->paused = false;
  impl_->update_interest();
}

bool Socket::reading_paused() const { return impl_->paused; }
void Socket::set_high_water(std::size_t bytes) { impl_->high_water = bytes; }
bool Socket::is_full() const { return impl_->queued >= impl_->high_water; }
std::size_t Socket::queued_bytes() const { return impl_->queued; }
bool Socket::is_open() const { return static_cast<bool>(impl_->fd); }
int Socket::fd() const { return impl_->fd.get(); }
EventLoop& Socket::loop() const { return impl_->loop; }

}  // namespace sandboxkit::io
