#include "control/gateway.h"

#include "base/text.h"
#include "control/denied_feed.h"
#include "control/find.h"
#include "control/proxy.h"
#include "control/refusals.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::control {
namespace {

using policy::Action;

Action action_of(const StreamMatch& match) {
  switch (match.kind) {
    case StreamMatch::Kind::kTunnel:
      return Action::kOpenTunnel;
    case StreamMatch::Kind::kDenied:
      return Action::kReadSandbox;
    case StreamMatch::Kind::kExec:
    case StreamMatch::Kind::kFiles:
    case StreamMatch::Kind::kRpc:
    case StreamMatch::Kind::kTcp:
      break;
  }
  return Action::kUseSandbox;
}

/// A worker's two routes are a method and a path each: its tunnel's path by another method is as
/// closed as every other one.
Action action_for(const Caller& caller, const StreamMatch& match, const std::string& method) {
  const bool narrow = caller.role == policy::Role::kWorker && method != match.allow;
  return narrow ? Action::kUseSandbox : action_of(match);
}

/// The query parameters that the table names for this path and method.
std::string_view allowed_query(const StreamMatch& match, const std::string& method) {
  const std::string_view pattern =
      match.kind == StreamMatch::Kind::kFiles    ? "/v1/sandboxes/{id}/files"
      : match.kind == StreamMatch::Kind::kDenied ? "/v1/sandboxes/{id}/egress/denied/stream"
                                                 : "";
  const auto table = routes();
  const auto found = std::ranges::find_if(
      table, [&](const Route& each) { return each.method == method && each.pattern == pattern; });
  return found == table.end() ? std::string_view() : found->query;
}

/// After how many lines a follower has enough; nullopt for what is no number.
template <typename Query>
std::optional<std::uint64_t> lines_of(const Query& query) {
  constexpr std::uint64_t kMostLines = 1'000'000;
  for (const auto& [name, value] : query) {
    const auto lines = name == "lines" ? parse_decimal(value, kMostLines) : std::nullopt;
    if (name == "lines") {
      return lines && *lines > 0 ? lines : std::nullopt;
    }
  }
  return kMostLines;
}

bool allows(const StreamMatch& match, const std::string& method) {
  return std::ranges::any_of(split(match.allow, ','),
                             [&](std::string_view each) { return trim(each) == method; });
}

bool upgrades_to(const wire::Headers& headers, std::string_view protocol) {
  const std::string* upgrade = headers.find("Upgrade");
  return upgrade != nullptr && equal_ignoring_case(*upgrade, protocol) &&
         headers.has_token("Connection", "upgrade");
}

/// An upgrade that the route needs and the request does not ask for.
std::optional<net::ApiResponse> missing_upgrade(const StreamMatch& match,
                                                const wire::Headers& headers) {
  const bool tcp = match.kind == StreamMatch::Kind::kTcp;
  if (!tcp && match.kind != StreamMatch::Kind::kTunnel) {
    return std::nullopt;
  }
  const std::string protocol = tcp ? "tcp" : net::kTunnelProtocol;
  if (upgrades_to(headers, protocol)) {
    return std::nullopt;
  }
  auto refusal = refuse("upgrade_required",
                        "this route needs `Connection: Upgrade` and `Upgrade: " + protocol + "`");
  refusal.headers.add("Upgrade", protocol);
  return refusal;
}

}  // namespace

bool Gateway::take(const std::shared_ptr<io::HttpExchange>& exchange, const std::string& remote) {
  const wire::RequestHead& head = exchange->request();
  auto target = wire::parse_target(head.target);
  if (!target) {
    return false;  // The API's threads refuse it.
  }
  auto match = match_stream(target->path);
  if (!match) {
    return false;
  }
  if (stopped_) {
    respond(*exchange, refuse("overloaded", "the controller is stopping"));
    return true;
  }
  const std::uint64_t id = ++last_id_;
  waiting_[id] = exchange;
  exchange->on_gone([this, id] { waiting_.erase(id); });
  Question question{std::move(*match),        head.method,  std::move(target->raw_query),
                    std::move(target->query), head.headers, remote};
  const bool taken = services_.context.pool.post([this, id, question = std::move(question)] {
    Finding finding = look_up(question);
    services_.context.loop.post(
        [this, id, question, finding = std::move(finding)] { go_on(id, question, finding); });
  });
  if (!taken) {
    waiting_.erase(id);
    respond(*exchange, refuse("overloaded", "the controller is busy; try again later"));
  }
  return true;
}

void Gateway::shut_down() {
  stopped_ = true;
  const auto waiting = std::exchange(waiting_, {});
  for (const auto& [id, exchange] : waiting) {
    respond(*exchange, refuse("overloaded", "the controller is stopping"));
  }
}

Gateway::Finding Gateway::look_up(const Question& question) {
  const auto admission = services_.authenticator.admit(question.headers, question.remote);
  if (const auto* refused = std::get_if<net::ApiResponse>(&admission)) {
    return {*refused};
  }
  const Caller* caller = std::get_if<Caller>(&admission);
  const Action action = action_for(*caller, question.match, question.method);
  if (const Status may = policy::check(caller->role, action); !may) {
    auto refusal = refuse(may.error());
    services_.audit.note(*caller, action, refusal);
    return {std::move(refusal)};
  }
  if (!allows(question.match, question.method)) {
    auto refusal = refuse("method_not_allowed", "this route takes " + question.match.allow);
    refusal.headers.add("Allow", question.match.allow);
    return {std::move(refusal)};
  }
  const auto* unknown =
      first_unknown(question.query, allowed_query(question.match, question.method));
  if (unknown != nullptr) {
    return {refuse("unknown_field", "this route takes no such parameter", {}, *unknown)};
  }
  if (auto refusal = missing_upgrade(question.match, question.headers)) {
    return {std::move(refusal)};
  }
  if (question.match.kind == StreamMatch::Kind::kDenied && !lines_of(question.query)) {
    return {refuse("invalid_argument", "lines must be 1 to 1000000", {}, "lines")};
  }
  return question.match.kind == StreamMatch::Kind::kTunnel ? look_up_worker(question, *caller)
                                                           : look_up_sandbox(question, *caller);
}

Gateway::Finding Gateway::look_up_worker(const Question&, const Caller& caller) {
  Finding finding;
  const Status read = services_.context.store.read([&](store::Tx& tx) -> Status {
    auto row = tx.worker(caller.worker);
    if (!row || !*row) {
      return row ? Status(worker_not_found()) : Status(row.error());
    }
    finding.worker = (*row)->id;
    return {};
  });
  if (!read) {
    finding.refusal = refuse(read.error());
  }
  return finding;
}

Gateway::Finding Gateway::look_up_sandbox(const Question& question, const Caller& caller) {
  const auto row = find_sandbox(services_.context.store, caller, question.match.sandbox);
  if (!row) {
    return {refuse(row.error())};
  }
  if (row->state != "running") {
    return {refuse_ended(*row)};
  }
  Finding finding;
  finding.worker = row->worker;
  finding.sandbox = row->id;
  finding.generation = row->generation;
  return finding;
}

void Gateway::go_on(std::uint64_t id, const Question& question, const Finding& finding) {
  const auto found = waiting_.find(id);
  if (found == waiting_.end()) {
    return;  // The client is gone.
  }
  const auto exchange = std::move(found->second);
  waiting_.erase(found);
  if (finding.refusal) {
    respond(*exchange, *finding.refusal);
  } else if (question.match.kind == StreamMatch::Kind::kTunnel) {
    open_tunnel(*exchange, finding.worker);
  } else {
    open_stream(exchange, question, finding);
  }
}

void Gateway::open_tunnel(io::HttpExchange& exchange, const std::string& worker) {
  wire::ResponseHead head;
  head.status = 101;
  head.headers.add("Connection", "Upgrade");
  head.headers.add("Upgrade", net::kTunnelProtocol);
  std::string early;
  auto socket = exchange.upgrade(head, early);
  services_.fleet.attach(worker, std::move(socket), early);
}

void Gateway::open_stream(const std::shared_ptr<io::HttpExchange>& exchange,
                          const Question& question, const Finding& finding) {
  const auto tunnel = services_.fleet.tunnel(finding.worker);
  if (!tunnel || !tunnel->is_open()) {
    respond(*exchange, refuse(worker_unreachable()));
    return;
  }
  std::size_t& open = streams_[finding.sandbox];
  if (open >= kMaxStreamsPerSandbox) {
    respond(*exchange, refuse("overloaded", "the sandbox has too many open streams"));
    return;
  }
  ++open;
  ++open_streams_;
  const auto on_over = [this, sandbox = finding.sandbox] {
    --open_streams_;
    if (const auto counted = streams_.find(sandbox);
        counted != streams_.end() && --counted->second == 0) {
      streams_.erase(counted);
    }
  };
  if (question.match.kind == StreamMatch::Kind::kDenied) {
    return follow_denied(services_, exchange,
                         {finding.worker, finding.sandbox, finding.generation,
                          lines_of(question.query).value_or(1), draining_},
                         on_over);
  }
  const bool raw = question.match.kind == StreamMatch::Kind::kTcp;
  const std::string base =
      "/v1/sandboxes/" + finding.sandbox + "/" + std::to_string(finding.generation);
  const std::string query = question.query_text.empty() ? "" : "?" + question.query_text;
  const std::string path = raw ? base + "/tcp/" + std::to_string(question.match.port)
                               : base + "/guest" + question.match.guest_path + query;
  start_proxy(services_.context.loop, exchange, {tunnel, path, finding.sandbox, raw}, on_over);
}

}  // namespace sandboxkit::control
