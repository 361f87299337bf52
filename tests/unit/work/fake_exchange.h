#pragma once

#include "net/tunnel.h"

#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace sandboxkit::work::testing {

/// One stream of a tunnel, in memory: the test is the controller.
class FakeExchange final : public net::TunnelExchange {
 public:
  FakeExchange(std::string method, std::string path, bool has_body = false) {
    request_.method = std::move(method);
    request_.path = std::move(path);
    request_.has_body = has_body;
  }

  // What the worker said.
  std::optional<int> status;
  wire::Headers headers;
  std::string body;
  bool ended = false;
  bool was_reset = false;
  bool body_paused = false;
  /// What the tunnel could not send yet; a test sets it to play a slow controller.
  std::size_t queued = 0;
  bool over() const { return ended || was_reset; }

  // What the controller does.
  net::TunnelRequest& edit() { return request_; }
  bool reads_body() const { return on_data_ != nullptr; }
  void send(std::string_view bytes) { on_data_(bytes); }
  void send_end() { on_end_(); }
  void drain() {
    queued = 0;
    if (on_drain_) {
      on_drain_();
    }
  }
  void leave() {
    if (const auto gone = std::exchange(on_gone_, nullptr)) {
      gone();
    }
    let_go();
  }

  const net::TunnelRequest& request() const override { return request_; }
  void read_body(std::function<void(std::string_view)> on_data,
                 std::function<void()> on_end) override {
    on_data_ = std::move(on_data);
    on_end_ = std::move(on_end);
  }
  void collect_body(std::size_t, std::function<void(std::string)> on_body) override {
    // Shared between the two handlers of one body.
    const auto all = std::make_shared<std::string>();
    read_body([all](std::string_view bytes) { all->append(bytes); },
              [all, on_body = std::move(on_body)] { on_body(*all); });
  }
  void pause_body() override { body_paused = true; }
  void resume_body() override { body_paused = false; }
  void begin(int the_status, const wire::Headers& the_headers) override {
    if (!status) {
      status = the_status;
      headers = the_headers;
    }
  }
  void write(std::string_view bytes) override { body += bytes; }
  void end() override {
    ended = true;
    let_go();
  }
  void respond(int the_status, const wire::Headers& the_headers, std::string_view bytes) override {
    begin(the_status, the_headers);
    write(bytes);
    end();
  }
  std::size_t queued_bytes() const override { return queued; }
  void on_drain(std::function<void()> handler) override { on_drain_ = std::move(handler); }
  void reset() override {
    was_reset = true;
    let_go();
  }
  void on_gone(std::function<void()> handler) override { on_gone_ = std::move(handler); }

 private:
  /// As the real one does: handlers own their stream, so they go when it is over.
  void let_go() {
    if (!keep_handlers) {
      const auto data = std::exchange(on_data_, nullptr);
      const auto end = std::exchange(on_end_, nullptr);
      const auto drained = std::exchange(on_drain_, nullptr);
      const auto gone = std::exchange(on_gone_, nullptr);
    }
  }

 public:
  /// The request's body goes on after the answer's end (a TCP pipe that half-closed).
  bool keep_handlers = false;

 private:
  net::TunnelRequest request_;
  std::function<void(std::string_view)> on_data_;
  std::function<void()> on_end_;
  std::function<void()> on_drain_;
  std::function<void()> on_gone_;
};

}  // namespace sandboxkit::work::testing
