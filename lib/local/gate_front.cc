#include "local/gate_front.h"

#include "base/text.h"
#include "guest/connect_stream.h"
#include "local/guest_relay.h"

#include <optional>
#include <utility>

namespace sandboxkit::local {
namespace {

bool is_look(GateOperation operation) {
  return operation == GateOperation::kRead || operation == GateOperation::kList ||
         operation == GateOperation::kStat;
}

/// Refuses in the form that the call's protocol has for it.
void refuse_call(io::EventLoop& loop, const std::shared_ptr<io::HttpExchange>& exchange,
                 const Error& error) {
  const wire::RequestHead& head = exchange->request();
  const bool stream =
      head.target == "/process.Process/Start" || head.target == "/filesystem.Filesystem/WatchDir";
  if (stream) {
    guest::ConnectStream::begin(loop, exchange, json::Object{})->end(error);
  } else if (head.target.starts_with("/filesystem.Filesystem/") ||
             head.target.starts_with("/process.Process/")) {
    guest::answer_rpc(*exchange, error);
  } else {
    io::respond_error(*exchange, error);
  }
}

}  // namespace

/// One call between its head and the gate's answer.
struct GateFront::Waiting {
  Exchange exchange;
  std::optional<std::string> body;
  GuestCall call;
  bool gone = false;
  std::stop_source stop{};
};

Error refusal_of(const GateDecision& decision) {
  const GateItemDecision& item = decision.decisive;
  const bool hidden = decision.answer == GateAnswer::kDeny && is_look(item.operation) &&
                      item.branch <= GateBranch::kMandatoryDenial && item.reason != "malformed";
  if (hidden) {
    return {ErrorCode::kNotFound, "path " + quoted(item.requested) + " does not exist"};
  }
  return {ErrorCode::kPermissionDenied,
          "the machine's owner does not allow to " + std::string(name_of(item.operation)) + " " +
              quoted(item.requested),
          "gate_denied"};
}

void GateFront::serve(io::Fd connection) {
  io::serve_http(loop_, std::move(connection), {},
                 [self = shared_from_this()](const Exchange& exchange) { self->take(exchange); });
}

void GateFront::take(const Exchange& exchange) {
  if (!needs_body(exchange->request())) {
    return read(exchange, std::nullopt);
  }
  exchange->collect_body(kMaxJudgedBytes, [self = shared_from_this(),
                                           weak = std::weak_ptr(exchange)](std::string body) {
    if (const auto held = weak.lock()) {
      self->read(held, std::move(body));
    }
  });
}

void GateFront::read(const Exchange& exchange, std::optional<std::string> body) {
  auto call = read_guest_call(exchange->request(), body.value_or(""), parts_.places);
  if (!call) {
    return refuse_call(loop_, exchange, call.error());
  }
  const auto waiting =
      std::make_shared<Waiting>(Waiting{exchange, std::move(body), std::move(*call)});
  if (waiting->call.request.items.empty()) {
    return pass(*waiting);
  }
  judge(waiting);
}

void GateFront::judge(const std::shared_ptr<Waiting>& waiting) {
  const Error busy{ErrorCode::kUnavailable,
                   "too many calls of this sandbox wait for the permission gate; try again",
                   "overloaded"};
  if (judging_ >= kMaxJudged) {
    return refuse_call(loop_, waiting->exchange, busy);
  }
  waiting->exchange->on_gone([waiting] {
    waiting->gone = true;
    waiting->stop.request_stop();
  });
  const bool taken = pool_.submit([self = shared_from_this(), waiting] {
    // Shared, because it travels back in a std::function.
    const auto decision = std::make_shared<GateDecision>(
        self->parts_.judge(waiting->call.request, waiting->stop.get_token()));
    self->loop_.post([self, waiting, decision] { self->judged(*waiting, *decision); });
  });
  if (!taken) {
    return refuse_call(loop_, waiting->exchange, busy);
  }
  ++judging_;
}

void GateFront::judged(Waiting& waiting, const GateDecision& decision) {
  --judging_;
  if (waiting.gone) {
    return;
  }
  if (decision.answer != GateAnswer::kAllow) {
    return refuse_call(loop_, waiting.exchange, refusal_of(decision));
  }
  pass(waiting);
}

void GateFront::pass(Waiting& waiting) {
  auto connection = parts_.connect();
  if (!connection) {
    return refuse_call(loop_, waiting.exchange, connection.error());
  }
  relay_call(loop_, std::move(*connection),
             {waiting.exchange, waiting.call.target, std::move(waiting.body)});
}

}  // namespace sandboxkit::local
