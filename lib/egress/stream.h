#pragma once

#include "io/socket.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace sandboxkit::egress {

/// A connection as an exchange of HTTP sees it: in clear or behind TLS. The rules are those of
/// io::Socket: `write` always takes the bytes, and who is told that it is full waits for its drain.
class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;
  virtual void write(std::string_view bytes) = 0;
  /// The same for text that nobody needs any more: it is not copied when it need not be.
  virtual void give(std::string bytes) { write(bytes); }
  virtual bool is_full() const = 0;
  virtual void pause_reading() = 0;
  virtual void resume_reading() = 0;
};

/// In clear. Shares the socket with whoever opens and closes it.
class PlainStream final : public Stream {
 public:
  explicit PlainStream(std::shared_ptr<io::Socket> socket) : socket_(std::move(socket)) {}
  void write(std::string_view bytes) override { socket_->write(bytes); }
  void give(std::string bytes) override { socket_->write(std::move(bytes)); }
  bool is_full() const override { return socket_->is_full(); }
  void pause_reading() override { socket_->pause_reading(); }
  void resume_reading() override { socket_->resume_reading(); }

 private:
  std::shared_ptr<io::Socket> socket_;
};

}  // namespace sandboxkit::egress
