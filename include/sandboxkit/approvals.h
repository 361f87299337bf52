#pragma once

#include "sandboxkit/clock.h"
#include "sandboxkit/gate_prompt.h"
#include "sandboxkit/result.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace sandboxkit {

/// A question of a permission gate that waits for a person.
struct Approval {
  /// Its session is the sandbox's id where a LocalDriver made it.
  Prompt prompt;
  WallTime asked_at{};
  /// From then on it is denied.
  WallTime expires_at{};
};

/// Keeps questions until somebody far away looks at them and answers: the handler behind a worker's
/// approvals. What nobody answers in time is denied by whoever asked.
///
/// Thread-safety: any thread.
class SANDBOXKIT_API ApprovalBoard final : public PromptHandler {
 public:
  /// Questions that wait at one time; what comes on top is refused, and so denied.
  static constexpr std::size_t kMaxWaiting = 32;

  explicit ApprovalBoard(const Clock& clock);
  ~ApprovalBoard() override;
  ApprovalBoard(const ApprovalBoard&) = delete;
  ApprovalBoard& operator=(const ApprovalBoard&) = delete;

  /// Errors: kDeadlineExceeded, kCancelled, kResourceExhausted `too_many_prompts`.
  Result<PromptReply> ask(const Prompt& prompt, std::chrono::steady_clock::time_point deadline,
                          std::stop_token stop) override;

  /// What waits, the oldest first.
  std::vector<Approval> waiting() const;

  /// Gives a person's answer to whoever asked, once.
  /// Errors: kNotFound `approval_not_found` for a question that is over or never was; kConflict
  /// `approval_changed` when the reply names another digest; kInvalidArgument, field `answer`, for
  /// a choice that was not offered. The question goes on to wait then.
  Status answer(const PromptReply& reply);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sandboxkit
