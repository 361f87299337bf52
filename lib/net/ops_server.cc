#include "net/ops_server.h"

#include "io/acceptor.h"
#include "io/http_server.h"
#include "io/socket.h"

#include <map>
#include <string_view>
#include <utility>

namespace sandboxkit::net {
namespace {

constexpr const char* kPlain = "text/plain; charset=utf-8";
constexpr const char* kExposition = "text/plain; version=0.0.4; charset=utf-8";

void respond(io::HttpExchange& exchange, int status, const char* type, std::string_view text) {
  wire::Headers headers;
  headers.add("Content-Type", type);
  headers.add("Cache-Control", "no-store");
  exchange.respond(status, std::move(headers), text);
}

}  // namespace

struct OpsServer::Impl : std::enable_shared_from_this<OpsServer::Impl> {
  Impl(io::EventLoop& the_loop, Questions the_questions)
      : loop(the_loop), questions(std::move(the_questions)) {}

  using Exchange = std::shared_ptr<io::HttpExchange>;
  using Answer = std::function<void(io::HttpExchange&, const std::string&)>;

  void on_connection(io::Fd connection) {
    if (connections >= kMaxConnections) {
      return;
    }
    ++connections;
    const std::weak_ptr<Impl> weak = weak_from_this();
    io::serve_http(
        loop, std::move(connection), {},
        [weak](const Exchange& exchange) {
          if (const auto self = weak.lock()) {
            self->take(exchange);
          } else {
            respond(*exchange, 503, kPlain, "stopping\n");
          }
        },
        [weak] {
          if (const auto self = weak.lock()) {
            --self->connections;
          }
        });
  }

  void take(const Exchange& exchange) {
    const auto& head = exchange->request();
    const std::string path = head.target.substr(0, head.target.find('?'));
    if (head.method != "GET" && head.method != "HEAD") {
      return respond(*exchange, 405, kPlain, "GET only\n");
    }
    if (path == "/healthz") {
      return respond(*exchange, 200, kPlain, "ok\n");
    }
    if (path == "/readyz") {
      return ask(exchange, questions.ready, [](io::HttpExchange& asker, const std::string& text) {
        respond(asker, text.empty() ? 200 : 503, kPlain, text.empty() ? "ok\n" : text + "\n");
      });
    }
    if (path == "/metrics") {
      return ask(exchange, questions.metrics, [](io::HttpExchange& asker, const std::string& text) {
        respond(asker, 200, kExposition, text);
      });
    }
    respond(*exchange, 404, kPlain, "try /healthz, /readyz or /metrics\n");
  }

  /// The exchange stays on the loop's thread; what answers holds its number.
  void ask(const Exchange& exchange, const std::function<void(Done)>& question,
           const Answer& answer) {
    const auto id = ++last;
    waiting[id] = exchange;
    const auto weak = weak_from_this();
    loop.run_after(kPatience, [weak, id] {
      if (const auto self = weak.lock()) {
        if (const auto late = self->leave(id)) {
          respond(*late, 503, kPlain, "no answer in time\n");
        }
      }
    });
    question([&the_loop = loop, weak, id, answer](std::string text) {
      the_loop.post([weak, id, answer, text = std::move(text)] {
        const auto self = weak.lock();
        if (const auto asker = self ? self->leave(id) : nullptr) {
          answer(*asker, text);
        }
      });
    });
  }

  Exchange leave(std::uint64_t id) {
    const auto node = waiting.extract(id);
    return node.empty() ? nullptr : node.mapped();
  }

  io::EventLoop& loop;
  const Questions questions;
  std::shared_ptr<io::Acceptor> acceptor;  // Shared with the loop's callback.
  std::uint16_t port = 0;
  std::size_t connections = 0;
  std::uint64_t last = 0;
  std::map<std::uint64_t, Exchange> waiting;
};

OpsServer::OpsServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
OpsServer::~OpsServer() { impl_->acceptor->close(); }
bool OpsServer::is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}
std::uint16_t OpsServer::port() const { return impl_->port; }

Result<std::unique_ptr<OpsServer>> OpsServer::listen(io::EventLoop& loop,
                                                     const std::string& address, std::uint16_t port,
                                                     Questions questions) {
  auto listener = io::listen_tcp(address, port);
  if (!listener) {
    return listener.error();
  }
  const auto bound = io::local_port(listener->get());
  if (!bound) {
    return bound.error();
  }
  auto impl = std::make_shared<Impl>(loop, std::move(questions));
  impl->port = *bound;
  impl->acceptor = io::Acceptor::start(loop, std::move(*listener),
                                       [weak = std::weak_ptr<Impl>(impl)](io::Fd connection) {
                                         if (const auto self = weak.lock()) {
                                           self->on_connection(std::move(connection));
                                         }
                                       });
  return std::unique_ptr<OpsServer>(new OpsServer(std::move(impl)));
}

}  // namespace sandboxkit::net
