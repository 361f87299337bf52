#include "work/routes.h"

#include "base/text.h"
#include "wire/approvals.h"
#include "wire/messages.h"

#include <limits>
#include <optional>
#include <utility>

namespace sandboxkit::work {
namespace {

constexpr std::string_view kSandboxes = "/v1/sandboxes/";
constexpr std::size_t kMaxDeliveryBytes = 2 << 20;
constexpr std::size_t kMaxReplyBytes = 4 << 10;
constexpr std::uint64_t kMaxGeneration = std::numeric_limits<std::int64_t>::max();

Error route_not_found() {
  return Error{ErrorCode::kNotFound, "the worker has no such route", "route_not_found"};
}

/// Takes the text up to the next slash off the front.
std::string_view take_segment(std::string_view& rest) {
  const auto slash = rest.find('/');
  const std::string_view segment = rest.substr(0, slash);
  rest = slash == std::string_view::npos ? std::string_view() : rest.substr(slash + 1);
  return segment;
}

}  // namespace

void Routes::serve(const Exchange& exchange) {
  const net::TunnelRequest& request = exchange->request();
  const std::string_view path = request.path;
  if (path == "/v1/inventory" && request.method == "GET") {
    return inventory(exchange);
  }
  if (path == "/v1/deliveries" && request.method == "POST") {
    return deliver(exchange);
  }
  if (path == "/v1/approvals" && driver_.approvals() != nullptr) {
    if (request.method == "GET") {
      return approvals(exchange);
    }
    if (request.method == "POST") {
      return answer_approval(exchange);
    }
  }
  if (path.starts_with(kSandboxes)) {
    return sandbox(exchange, path.substr(kSandboxes.size()));
  }
  respond_error(*exchange, route_not_found());
}

void Routes::inventory(const Exchange& exchange) {
  respond_json(*exchange, 200, json::dump(wire::inventory_to_json(orders_.inventory())));
  orders_.inventory_read();
}

void Routes::approvals(const Exchange& exchange) {
  respond_json(*exchange, 200, json::dump(wire::approvals_to_json(driver_.approvals()->waiting())));
}

void Routes::answer_approval(const Exchange& exchange) {
  exchange->collect_body(kMaxReplyBytes, [this, exchange](const std::string& body) {
    const auto reply = parse_prompt_reply(body);
    const Status given = reply ? driver_.approvals()->answer(*reply) : Status(reply.error());
    given ? respond_json(*exchange, 200, "{}") : respond_error(*exchange, given.error());
  });
}

void Routes::deliver(const Exchange& exchange) {
  exchange->collect_body(kMaxDeliveryBytes, [this, exchange](const std::string& body) {
    const auto value = json::parse(body, json::Limits{.max_bytes = kMaxDeliveryBytes});
    auto delivery =
        value ? wire::delivery_from_json(*value) : Result<wire::Delivery>(value.error());
    if (!delivery) {
      return respond_error(*exchange, delivery.error());
    }
    delivery->trace = wire::trace_of(exchange->request().headers);
    orders_.deliver(*delivery, [exchange](const JobResult& result) {
      if (!result) {
        return respond_error(*exchange, result.error());
      }
      respond_json(*exchange, 200, json::dump(wire::delivery_answer_to_json(*result)));
    });
  });
}

void Routes::sandbox(const Exchange& exchange, std::string_view rest) {
  const auto id = SandboxId::parse(take_segment(rest));
  const auto generation = parse_decimal(take_segment(rest), kMaxGeneration);
  if (!id || !generation) {
    return respond_error(*exchange, route_not_found());
  }
  const auto row = orders_.find_running(*id, static_cast<std::int64_t>(*generation));
  if (!row) {
    return respond_error(*exchange, row.error());
  }
  const std::string& method = exchange->request().method;
  if (rest.starts_with("guest/")) {
    return guests_.forward(exchange, *id, "/" + std::string(rest.substr(6)));
  }
  if (rest == "stats" && method == "GET") {
    return stats(exchange, *id);
  }
  if (rest == "denied" && method == "GET") {
    return denied(exchange, *id);
  }
  const bool tcp = rest.starts_with("tcp/") && method == "POST";
  const auto port = tcp ? parse_decimal(rest.substr(4), 65535) : std::nullopt;
  if (port && *port > 0) {
    return guests_.open_tcp(exchange, *id, static_cast<std::uint16_t>(*port));
  }
  respond_error(*exchange, route_not_found());
}

void Routes::stats(const Exchange& exchange, const SandboxId& sandbox) {
  ask(exchange, [this, sandbox]() -> Result<std::string> {
    const auto stats = driver_.stats(sandbox);
    return stats ? Result<std::string>(json::dump(wire::to_json(*stats))) : stats.error();
  });
}

void Routes::denied(const Exchange& exchange, const SandboxId& sandbox) {
  ask(exchange, [this, sandbox]() -> Result<std::string> {
    const auto denied = driver_.denied(sandbox);
    return denied ? Result<std::string>(json::dump(wire::denied_to_json(*denied))) : denied.error();
  });
}

void Routes::ask(const Exchange& exchange, std::function<Result<std::string>()> question) {
  const bool taken = others_.submit([this, exchange, question = std::move(question)] {
    // Shared, because it travels back in a std::function.
    const auto answer = std::make_shared<Result<std::string>>(question());
    loop_.post([exchange, answer] {
      *answer ? respond_json(*exchange, 200, **answer) : respond_error(*exchange, answer->error());
    });
  });
  if (!taken) {
    respond_error(*exchange, Error{ErrorCode::kUnavailable,
                                   "the worker has too much to do; try again", "overloaded"});
  }
}

}  // namespace sandboxkit::work
