#include "egress/tunnel.h"

#include <utility>

namespace sandboxkit::egress {

std::shared_ptr<Tunnel> Tunnel::start(Ends ends, std::function<void()> on_done) {
  std::shared_ptr<Tunnel> tunnel(new Tunnel(std::move(ends), std::move(on_done)));
  auto& [client, upstream, client_ended, early_up, early_down, up, down, on_first_up] =
      tunnel->ends_;
  if (!early_up.empty()) {
    tunnel->show_first_up(early_up);
  }
  tunnel->up_ = up + early_up.size();
  tunnel->down_ = down + early_down.size();
  // What came early stands in front of what the tunnel reads.
  upstream->write(std::exchange(early_up, {}));
  client->write(std::exchange(early_down, {}));
  tunnel->wire_up(client, upstream, tunnel->up_);
  tunnel->wire_up(upstream, client, tunnel->down_);
  if (client_ended) {
    upstream->shutdown_write();
  }
  return tunnel;
}

void Tunnel::wire_up(const std::shared_ptr<io::Socket>& from, const std::shared_ptr<io::Socket>& to,
                     std::uint64_t& counter) {
  // The handlers hold the tunnel, and a socket drops its handlers when it closes: no cycle stays.
  const auto self = shared_from_this();
  from->start({
      .on_data =
          [self, from = from.get(), to = to.get(), &counter](std::string_view bytes) {
            if (from == self->ends_.client.get()) {
              self->show_first_up(bytes);
            }
            counter += bytes.size();
            self->last_activity_ = std::chrono::steady_clock::now();
            to->write(bytes);
            if (to->queued_bytes() >= io::Socket::kHighWater) {
              from->pause_reading();
            }
          },
      .on_end = [to = to.get()] { to->shutdown_write(); },
      .on_drain = [to = to.get()] { to->resume_reading(); },
      .on_close = [self, to](const Error& error) { self->on_closed(to, error); },
  });
  from->resume_reading();
}

void Tunnel::show_first_up(std::string_view bytes) {
  if (const auto once = std::exchange(ends_.on_first_up, nullptr)) {
    once(bytes);
  }
}

void Tunnel::on_closed(const std::shared_ptr<io::Socket>& other, const Error& error) {
  // An orderly end of one socket leaves the other its own: what it still has to write is written.
  const bool orderly = error.reason == "connection_closed";
  if (orderly && other->is_open()) {
    return;
  }
  other->close_after_flush();
  finish();
}

void Tunnel::close() {
  on_done_ = nullptr;
  // Closing drops the handlers, which may hold the last references to this tunnel.
  const auto self = shared_from_this();
  ends_.client->close();
  ends_.upstream->close();
}

void Tunnel::finish() {
  if (const auto once = std::exchange(on_done_, nullptr)) {
    once();
  }
}

}  // namespace sandboxkit::egress
