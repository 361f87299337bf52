#include "sandboxkit/approvals.h"

#include "base/text.h"

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <utility>

namespace sandboxkit {
namespace {

struct Question {
  Approval approval;
  std::optional<PromptReply> reply{};
};

}  // namespace

struct ApprovalBoard::Impl {
  const Clock& clock;
  mutable std::mutex mutex{};
  std::condition_variable_any answered{};
  std::list<Question> questions{};
};

ApprovalBoard::ApprovalBoard(const Clock& clock) : impl_(new Impl{clock}) {}
ApprovalBoard::~ApprovalBoard() = default;

Result<PromptReply> ApprovalBoard::ask(const Prompt& prompt,
                                       std::chrono::steady_clock::time_point deadline,
                                       std::stop_token stop) {
  using std::chrono::steady_clock;
  std::unique_lock lock(impl_->mutex);
  if (impl_->questions.size() >= kMaxWaiting) {
    return Error{ErrorCode::kResourceExhausted,
                 std::to_string(kMaxWaiting) + " questions wait for an answer already",
                 "too_many_prompts"};
  }
  const WallTime now = impl_->clock.now();
  const auto left = std::max(deadline - steady_clock::now(), steady_clock::duration::zero());
  const auto question = impl_->questions.insert(
      impl_->questions.end(),
      Question{{prompt, now, now + std::chrono::duration_cast<WallTime::duration>(left)}});
  const bool told =
      impl_->answered.wait_until(lock, stop, deadline, [&] { return question->reply.has_value(); });
  const std::optional<PromptReply> reply = std::move(question->reply);
  impl_->questions.erase(question);
  if (told) {
    return *reply;
  }
  return stop.stop_requested() ? Error{ErrorCode::kCancelled, "the question was withdrawn"}
                               : Error{ErrorCode::kDeadlineExceeded, "nobody answered in time"};
}

std::vector<Approval> ApprovalBoard::waiting() const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<Approval> found;
  for (const Question& each : impl_->questions) {
    if (!each.reply) {
      found.push_back(each.approval);
    }
  }
  return found;
}

Status ApprovalBoard::answer(const PromptReply& reply) {
  const std::lock_guard lock(impl_->mutex);
  const auto found = std::ranges::find_if(impl_->questions, [&](const Question& each) {
    return each.approval.prompt.id == reply.id && !each.reply;
  });
  if (found == impl_->questions.end()) {
    return Error{ErrorCode::kNotFound, "no question " + quoted(reply.id) + " waits for an answer",
                 "approval_not_found"};
  }
  const Prompt& prompt = found->approval.prompt;
  if (prompt.digest != reply.digest) {
    return Error{ErrorCode::kConflict, "the answer is for another request than the one that waits",
                 "approval_changed", "digest"};
  }
  const bool offered = std::ranges::any_of(
      prompt.offers, [&](const PromptOffer& each) { return each.choice == reply.choice; });
  if (!offered) {
    std::string choices;
    for (const PromptOffer& each : prompt.offers) {
      choices += (choices.empty() ? "`" : ", `") + std::string(name_of(each.choice)) + "`";
    }
    return Error{ErrorCode::kInvalidArgument,
                 "`" + std::string(name_of(reply.choice)) + "` is not offered: answer " + choices,
                 "not_offered", "answer"};
  }
  found->reply = reply;
  impl_->answered.notify_all();
  return {};
}

}  // namespace sandboxkit
