#include "egress/tunnel.h"

#include "io/socket.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace sandboxkit::egress {
namespace {

/// Turns of one direction before the other tunnels have their say.
constexpr int kRounds = 8;
/// Reads of at least this size, so many in a row, are bulk; moves below `kSmallMove` are none.
constexpr std::size_t kFullRead = TunnelStock::kCopyBytes / 2;
constexpr int kFullReads = 2;
constexpr std::size_t kSmallMove = 4 * 1024;
constexpr int kSmallMoves = 16;
/// Bytes of a bulk tunnel that the kernel may hold and has not sent: more would only wait there.
constexpr int kUnsentBytes = 256 * 1024;
constexpr std::chrono::seconds kRestAfter{1};
constexpr std::uint32_t kGone = EPOLLHUP | EPOLLERR;

bool would_block(int error_number) { return error_number == EAGAIN || error_number == EINTR; }

}  // namespace

std::shared_ptr<Tunnel> Tunnel::start(io::EventLoop& loop, TunnelStock& stock, Ends ends,
                                      std::function<void()> on_done) {
  std::shared_ptr<Tunnel> tunnel(new Tunnel(loop, stock, std::move(ends), std::move(on_done)));
  // The client's socket has it since it was accepted.
  const int on = 1;
  ::setsockopt(tunnel->ends_[kDown].fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  for (const std::size_t flow : {kUp, kDown}) {
    // An end that is broken already is found by its first event.
    tunnel->drain(flow);
  }
  for (const std::size_t end : {kUp, kDown}) {
    tunnel->watch(end, false);
  }
  return tunnel;
}

Tunnel::Tunnel(io::EventLoop& loop, TunnelStock& stock, Ends ends, std::function<void()> on_done)
    : loop_(loop),
      stock_(stock),
      on_first_up_(std::move(ends.on_first_up)),
      on_done_(std::move(on_done)) {
  ends_[kUp].fd = std::move(ends.client);
  ends_[kDown].fd = std::move(ends.upstream);
  flows_[kUp].bytes = ends.bytes_up + ends.early_up.size();
  flows_[kDown].bytes = ends.bytes_down + ends.early_down.size();
  if (!ends.early_up.empty()) {
    show_first_up(ends.early_up);
  }
  flows_[kUp].pending = std::move(ends.owed_up) + ends.early_up;
  flows_[kDown].pending = std::move(ends.owed_down) + ends.early_down;
}

Tunnel::~Tunnel() { release_all(); }

void Tunnel::close() {
  on_done_ = nullptr;
  release_all();
}

void Tunnel::release_all() {
  for (Flow& flow : flows_) {
    return_pipe(flow);
  }
  for (End& end : ends_) {
    if (std::exchange(end.watched, false)) {
      loop_.remove(end.fd.get());
    }
    end.fd.reset();
  }
}

void Tunnel::on_events(std::size_t end, std::uint32_t events) {
  const auto self = shared_from_this();
  const std::size_t other = 1 - end;
  if ((events & (EPOLLOUT | kGone)) != 0 && flows_[other].holds() && !run(other)) {
    return this->end();
  }
  if ((events & (EPOLLIN | kGone)) != 0 && !flows_[end].eof && !flows_[end].holds() && !run(end)) {
    return this->end();
  }
  const bool nobody_reads = (events & kGone) != 0 && flows_[end].eof && !flows_[other].finished;
  if (nobody_reads || (flows_[kUp].finished && flows_[kDown].finished)) {
    return this->end();
  }
  watch(end, (events & kGone) != 0);
  watch(other, false);
}

void Tunnel::watch(std::size_t end, bool is_gone) {
  End& it = ends_[end];
  const Flow& from = flows_[end];
  const bool reads = !from.eof && !from.finished && !from.holds() && stock_.bytes_left > 0;
  const bool writes = flows_[1 - end].holds();
  const std::uint32_t wanted = (reads ? EPOLLIN : 0U) | (writes ? EPOLLOUT : 0U);
  if (wanted == 0 && is_gone) {
    // EPOLLHUP cannot be masked: an end that waits for a slow reader would spin the loop.
    if (std::exchange(it.watched, false)) {
      loop_.remove(it.fd.get());
    }
    return;
  }
  if (!it.watched && wanted == 0) {
    return;
  }
  if (!it.watched) {
    it.watched = true;
    // The tunnel takes its watches away before it dies.
    loop_.add(it.fd.get(), wanted, [this, end](std::uint32_t events) { on_events(end, events); });
  } else if (wanted != it.interest) {
    loop_.modify(it.fd.get(), wanted);
  }
  it.interest = wanted;
}

bool Tunnel::run(std::size_t flow) {
  Flow& it = flows_[flow];
  for (int round = 0; round < kRounds && !it.finished; ++round) {
    if (drain(flow) != Moved::kSome) {
      break;  // Full, or broken: then the flow is finished.
    }
    if (it.eof) {
      ::shutdown(ends_[1 - flow].fd.get(), SHUT_WR);
      it.finished = true;
      break;
    }
    if (it.full_reads >= kFullReads) {
      take_pipe(flow);
    }
    const Moved moved = it.pipe ? splice_in(flow) : copy(flow);
    if (moved == Moved::kBroken) {
      return false;
    }
    if (moved == Moved::kNone) {
      break;
    }
  }
  return stock_.bytes_left > 0;
}

Tunnel::Moved Tunnel::copy(std::size_t flow) {
  Flow& it = flows_[flow];
  const std::size_t wanted =
      static_cast<std::size_t>(std::min<std::uint64_t>(TunnelStock::kCopyBytes, stock_.bytes_left));
  const ssize_t got = ::recv(ends_[flow].fd.get(), stock_.buffer.get(), wanted, 0);
  if (got < 0) {
    return would_block(errno) ? Moved::kNone : Moved::kBroken;
  }
  it.eof = got == 0;
  if (it.eof) {
    return Moved::kSome;
  }
  const std::string_view bytes(stock_.buffer.get(), static_cast<std::size_t>(got));
  if (flow == kUp) {
    show_first_up(bytes);
  }
  count(flow, bytes.size());
  std::size_t written = 0;
  if (write_out(flow, bytes, written) == Moved::kNone) {
    it.pending.assign(bytes.substr(written));
    it.written = 0;
  }
  it.full_reads = bytes.size() >= kFullRead ? it.full_reads + 1 : 0;
  // What filled less than the buffer was all that there was.
  return bytes.size() < wanted ? Moved::kNone : Moved::kSome;
}

Tunnel::Moved Tunnel::splice_in(std::size_t flow) {
  Flow& it = flows_[flow];
  const std::size_t wanted =
      static_cast<std::size_t>(std::min<std::uint64_t>(PipePool::kPipeBytes, stock_.bytes_left));
  const ssize_t got = ::splice(ends_[flow].fd.get(), nullptr, it.pipe->write.get(), nullptr, wanted,
                               SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
  if (got < 0 && errno == EINVAL) {
    return_pipe(it);  // No socket that can be spliced from.
    return Moved::kSome;
  }
  if (got < 0) {
    return would_block(errno) ? Moved::kNone : Moved::kBroken;
  }
  it.eof = got == 0;
  it.in_pipe += static_cast<std::size_t>(got);
  count(flow, static_cast<std::size_t>(got));
  it.small_moves = static_cast<std::size_t>(got) < kSmallMove ? it.small_moves + 1 : 0;
  return Moved::kSome;
}

Tunnel::Moved Tunnel::drain(std::size_t flow) {
  Flow& it = flows_[flow];
  if (it.written < it.pending.size()) {
    const auto moved = write_out(flow, std::string_view(it.pending).substr(it.written), it.written);
    if (moved != Moved::kSome) {
      return moved;
    }
    // Let go of: an idle tunnel has no buffer.
    std::string().swap(it.pending);
    it.written = 0;
  }
  while (it.in_pipe > 0) {
    const ssize_t put = ::splice(it.pipe->read.get(), nullptr, ends_[1 - flow].fd.get(), nullptr,
                                 it.in_pipe, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (put > 0) {
      it.in_pipe -= static_cast<std::size_t>(put);
    } else if (put < 0 && errno == EAGAIN) {
      return Moved::kNone;
    } else if (put == 0 || errno != EINTR) {
      stop_writing(flow);
      return Moved::kBroken;
    }
  }
  if (it.pipe && it.small_moves >= kSmallMoves) {
    return_pipe(it);
  }
  return Moved::kSome;
}

Tunnel::Moved Tunnel::write_out(std::size_t flow, std::string_view bytes, std::size_t& written) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t put =
        ::send(ends_[1 - flow].fd.get(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (put >= 0) {
      at += static_cast<std::size_t>(put);
    } else if (errno == EAGAIN) {
      written += at;
      return Moved::kNone;
    } else if (errno != EINTR) {
      stop_writing(flow);
      return Moved::kBroken;
    }
  }
  written += at;
  return Moved::kSome;
}

void Tunnel::count(std::size_t flow, std::size_t bytes) {
  flows_[flow].bytes += bytes;
  stock_.bytes_left -= bytes;
  last_activity_ = std::chrono::steady_clock::now();
}

void Tunnel::stop_writing(std::size_t flow) {
  // Who cannot be written to may still have something to say, which the other direction delivers.
  Flow& it = flows_[flow];
  std::string().swap(it.pending);
  it.written = 0;
  return_pipe(it);
  it.finished = true;
}

void Tunnel::take_pipe(std::size_t flow) {
  Flow& it = flows_[flow];
  it.full_reads = 0;
  it.small_moves = 0;
  it.pipe = stock_.pipes.take();
  if (it.pipe) {
    const int unsent = kUnsentBytes;
    ::setsockopt(ends_[1 - flow].fd.get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
  }
}

void Tunnel::return_pipe(Flow& flow) {
  if (!flow.pipe) {
    return;
  }
  if (std::exchange(flow.in_pipe, 0) == 0) {
    stock_.pipes.give_back(*std::move(flow.pipe));
  } else {
    stock_.pipes.drop(*std::move(flow.pipe));
  }
  flow.pipe.reset();
}

void Tunnel::rest(std::chrono::steady_clock::time_point now) {
  if (now - last_activity_ < kRestAfter) {
    return;
  }
  for (Flow& flow : flows_) {
    if (flow.in_pipe == 0) {
      return_pipe(flow);
    }
  }
}

void Tunnel::show_first_up(std::string_view bytes) {
  if (const auto once = std::exchange(on_first_up_, nullptr)) {
    once(bytes);
  }
}

void Tunnel::end() {
  for (const std::size_t end : {kUp, kDown}) {
    let_go(end);
  }
  if (const auto once = std::exchange(on_done_, nullptr)) {
    once();
  }
}

void Tunnel::let_go(std::size_t end) {
  End& it = ends_[end];
  Flow& towards = flows_[1 - end];
  if (std::exchange(it.watched, false)) {
    loop_.remove(it.fd.get());
  }
  const bool whole = towards.finished && !towards.holds() && flows_[end].eof;
  if (whole || !it.fd) {
    return_pipe(towards);
    return it.fd.reset();
  }
  // It gets what was read for it, and may read it before it sees the end.
  std::string rest = towards.pending.substr(towards.written);
  while (towards.in_pipe > 0) {
    const ssize_t got =
        ::read(towards.pipe->read.get(), stock_.buffer.get(), TunnelStock::kCopyBytes);
    if (got <= 0) {
      break;
    }
    rest.append(stock_.buffer.get(), static_cast<std::size_t>(got));
    towards.in_pipe -= std::min(towards.in_pipe, static_cast<std::size_t>(got));
  }
  return_pipe(towards);
  const auto socket = io::Socket::adopt(loop_, std::move(it.fd));
  socket->write(std::move(rest));
  socket->close_after_flush();
}

}  // namespace sandboxkit::egress
