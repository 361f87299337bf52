#include "local/gate_front.h"

#include "base/text.h"
#include "guest/connect_stream.h"
#include "guest/download.h"
#include "local/guest_relay.h"
#include "local/host_upload.h"

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
  /// The gate's answer, and the file where the front serves it itself.
  GateDecision decision{};
  std::optional<Result<OpenedFile>> file{};
};

namespace {

/// On a thread that may wait.
void decide(const GateFrontParts& parts, GateFront::Waiting& waiting) {
  const GateRequest& request = waiting.call.request;
  const GateOperation operation = request.items.front().operation;
  const bool writes = operation == GateOperation::kWrite;
  if ((!writes && operation != GateOperation::kRead) || parts.in_box(request)) {
    waiting.decision = parts.judge(request, waiting.stop.get_token());
    return;
  }
  OpenOutcome opened = parts.open({.cwd = request.cwd,
                                   .path = request.items.front().target,
                                   .use = writes ? OpenFor::kWrite : OpenFor::kRead,
                                   .create = writes,
                                   .truncate = writes},
                                  waiting.stop.get_token());
  waiting.decision = std::move(opened.outcome.decision);
  waiting.file.emplace(std::move(opened.file));
}

}  // namespace

Error refusal_of(const GateRequest& request, const GateDecision& decision) {
  const GateItemDecision& item = decision.decisive;
  const bool looked = request.items.size() == 1 && is_look(request.items.front().operation);
  const bool hidden = decision.answer == GateAnswer::kDeny && looked &&
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
    decide(self->parts_, *waiting);
    self->loop_.post([self, waiting] { self->judged(*waiting); });
  });
  if (!taken) {
    return refuse_call(loop_, waiting->exchange, busy);
  }
  ++judging_;
}

void GateFront::judged(Waiting& waiting) {
  --judging_;
  if (waiting.gone) {
    return;
  }
  if (waiting.decision.answer != GateAnswer::kAllow) {
    return refuse_call(loop_, waiting.exchange, refusal_of(waiting.call.request, waiting.decision));
  }
  waiting.file ? serve_file(waiting) : pass(waiting);
}

void GateFront::serve_file(Waiting& waiting) {
  if (!*waiting.file) {
    return refuse_call(loop_, waiting.exchange, waiting.file->error());
  }
  io::Fd file((*waiting.file)->release());
  const GateItem& item = waiting.call.request.items.front();
  if (item.operation == GateOperation::kWrite) {
    return serve_host_upload(waiting.exchange, std::move(file), item.target);
  }
  // By the descriptor, whatever has that name by now.
  guest::serve_download(loop_, waiting.exchange, "/proc/self/fd/" + std::to_string(file.get()));
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
