#include "control/approval_calls.h"

#include "base/text.h"
#include "control/refusals.h"
#include "wire/approvals.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::control {
namespace {

constexpr std::chrono::milliseconds kAskTimeout{10'000};
constexpr const char* kCapability = "approvals";

bool asks_people(const store::WorkerRow& row) {
  const auto value = json::parse(row.capabilities);
  const json::Array* items = value ? value->as_array() : nullptr;
  return items != nullptr && std::ranges::any_of(*items, [](const json::Value& each) {
           return each == json::Value(kCapability);
         });
}

class Gathering : public std::enable_shared_from_this<Gathering> {
 public:
  Gathering(Services& services, Caller caller, std::chrono::seconds wait,
            std::function<void(Result<json::Array>)> done)
      : services_(services),
        caller_(std::move(caller)),
        deadline_(std::chrono::steady_clock::now() + wait),
        done_(std::move(done)) {}

  /// On a thread of the pool, as it reads the store.
  void begin_round() {
    std::vector<std::string> workers;
    const Status read = services_.context.store.read([&](store::Tx& tx) -> Status {
      workers.clear();
      const auto rows = tx.workers(caller_.tenant, true);
      if (!rows) {
        return rows.error();
      }
      for (const store::WorkerRow& row : *rows) {
        if (workers.size() < kMaxAskedWorkers && asks_people(row)) {
          workers.push_back(row.id);
        }
      }
      return {};
    });
    services_.context.loop.post([self = shared_from_this(), read, workers] {
      read ? self->ask(workers) : self->end(read.error());
    });
  }

 private:
  struct Told {
    std::string worker;
    std::vector<Approval> approvals;
  };

  void ask(const std::vector<std::string>& workers) {
    told_.clear();
    open_ = workers.size();
    for (const std::string& worker : workers) {
      services_.fleet.call({worker, "GET", "/v1/approvals", {}, kAskTimeout, caller_.trace},
                           [self = shared_from_this(), worker](const Result<WorkerAnswer>& answer) {
                             self->take(worker, answer);
                           });
    }
    if (workers.empty()) {
      settle();
    }
  }

  void take(const std::string& worker, const Result<WorkerAnswer>& answer) {
    // A worker that is away has nobody waiting: its sandboxes wait for it as well.
    const auto value = answer && answer->status == 200
                           ? json::parse(answer->body, {.max_bytes = Fleet::kMaxAnswerBytes})
                           : Result<json::Value>(worker_unreachable());
    auto approvals = value ? wire::approvals_from_json(*value)
                           : Result<std::vector<Approval>>(worker_unreachable());
    if (approvals && !approvals->empty()) {
      told_.push_back({worker, std::move(*approvals)});
    }
    if (--open_ == 0) {
      settle();
    }
  }

  void settle() {
    if (told_.empty()) {
      return again();
    }
    const bool taken =
        services_.context.pool.post([self = shared_from_this()] { self->look_up(); });
    if (!taken) {
      end(Error{ErrorCode::kUnavailable, "the controller has too much to do", "overloaded"});
    }
  }

  /// On a thread of the pool: whose sandboxes the questions are about.
  void look_up() {
    json::Array found;
    const Status read = services_.context.store.read([&](store::Tx& tx) -> Status {
      found.clear();
      for (const Told& told : told_) {
        for (const Approval& each : told.approvals) {
          const auto row = tx.sandbox(caller_.tenant, each.prompt.session);
          if (!row) {
            return row.error();
          }
          if (*row && (*row)->worker == told.worker) {
            found.push_back(approval_view(each, told.worker));
          }
        }
      }
      return {};
    });
    services_.context.loop.post([self = shared_from_this(), read, found] {
      if (!read) {
        return self->end(read.error());
      }
      found.empty() ? self->again() : self->end(found);
    });
  }

  void again() {
    if (std::chrono::steady_clock::now() + kApprovalPause >= deadline_) {
      return end(json::Array{});
    }
    services_.context.loop.run_after(kApprovalPause, [self = shared_from_this()] {
      const bool taken = self->services_.context.pool.post([self] { self->begin_round(); });
      if (!taken) {
        self->again();
      }
    });
  }

  void end(Result<json::Array> result) { done_(std::move(result)); }

  Services& services_;
  const Caller caller_;
  const std::chrono::steady_clock::time_point deadline_;
  const std::function<void(Result<json::Array>)> done_;
  std::vector<Told> told_;
  std::size_t open_ = 0;
};

}  // namespace

std::optional<ApprovalName> approval_name_from(const std::string& text) {
  const auto dot = text.find('.');
  if (dot == std::string::npos || dot == 0 || dot + 1 == text.size()) {
    return std::nullopt;
  }
  return ApprovalName{text.substr(0, dot), text.substr(dot + 1)};
}

json::Value approval_view(const Approval& approval, const std::string& worker) {
  const Prompt& prompt = approval.prompt;
  json::Object view{{"id", prompt.session + "." + prompt.id},
                    {"sandbox", prompt.session},
                    {"worker", worker},
                    {"asked_at", to_rfc3339(approval.asked_at)},
                    {"expires_at", to_rfc3339(approval.expires_at)}};
  // What the prompt says of itself; its own id and session are in the names above.
  const auto value = json::parse(to_json(prompt));
  for (const auto& [name, member] :
       value && value->as_object() ? *value->as_object() : json::Object{}) {
    if (name != "id" && name != "session") {
      view.emplace_back(name, member);
    }
  }
  return view;
}

void gather_approvals(Services& services, const Caller& caller, std::chrono::seconds wait,
                      std::function<void(Result<json::Array>)> done) {
  std::make_shared<Gathering>(services, caller, wait, std::move(done))->begin_round();
}

}  // namespace sandboxkit::control
