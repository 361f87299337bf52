#include "io/acceptor.h"

#include <cerrno>
#include <utility>

#include <sys/epoll.h>
#include <sys/socket.h>

namespace sandboxkit::io {
namespace {

/// Bounds one turn, so that a flood of dials does not starve the connections that stand.
constexpr int kAcceptsAtOnce = 64;

bool is_shortage(int error_number) {
  return error_number == EMFILE || error_number == ENFILE || error_number == ENOBUFS ||
         error_number == ENOMEM;
}

}  // namespace

struct Acceptor::Impl {
  EventLoop& loop;
  Fd listener;
  std::function<void(Fd)> on_connection;
  bool watched = false;
  bool paused = false;
  EventLoop::TimerId rest = 0;

  void watch(bool on) {
    if (watched == on || !listener) {
      return;
    }
    watched = on;
    if (on) {
      loop.modify(listener.get(), EPOLLIN);
    } else {
      loop.modify(listener.get(), 0);
    }
  }
};

Acceptor::Acceptor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Acceptor::~Acceptor() { close(); }

std::shared_ptr<Acceptor> Acceptor::start(EventLoop& loop, Fd listener,
                                          std::function<void(Fd)> on_connection) {
  auto impl =
      std::unique_ptr<Impl>(new Impl{loop, std::move(listener), std::move(on_connection), true});
  std::shared_ptr<Acceptor> acceptor(new Acceptor(std::move(impl)));
  const auto accept_some = [weak = std::weak_ptr<Acceptor>(acceptor)](std::uint32_t) {
    for (int i = 0; i < kAcceptsAtOnce; ++i) {
      const auto self = weak.lock();
      if (!self || !self->impl_->watched) {
        return;
      }
      Impl& it = *self->impl_;
      Fd connection(::accept4(it.listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (connection) {
        it.on_connection(std::move(connection));
        continue;
      }
      if (is_shortage(errno)) {
        it.watch(false);
        it.rest = it.loop.run_after(kRest, [weak] {
          const auto later = weak.lock();
          if (later && !later->impl_->paused) {
            later->impl_->watch(true);
          }
        });
      }
      // A connection that was reset while it waited (ECONNABORTED) is the next turn's business.
      return;
    }
  };
  loop.add(acceptor->fd(), EPOLLIN, accept_some);
  return acceptor;
}

void Acceptor::pause() {
  impl_->paused = true;
  impl_->watch(false);
}

void Acceptor::resume() {
  impl_->paused = false;
  impl_->watch(true);
}

void Acceptor::close() {
  if (!impl_->listener) {
    return;
  }
  impl_->loop.cancel(impl_->rest);
  impl_->loop.remove(impl_->listener.get());
  impl_->watched = false;
  impl_->listener.reset();
}

int Acceptor::fd() const { return impl_->listener.get(); }

}  // namespace sandboxkit::io
