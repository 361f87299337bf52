// Items that are no command: paths, variables, addresses.

#include "gate/judge.h"
#include "gate/path_text.h"
#include "gate/protection.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace sandboxkit::gate {
namespace {

using Refusal = std::optional<GateItemDecision>;

/// What a path's text tells before anybody looks. Source: hardlocks H3, H4.
Refusal spelling_refusal(const PathQuestion& question) {
  const std::string& cwd = question.cwd;
  const std::string& path = question.path;
  const auto malformed = [&](const char* why) {
    return refused(question.asked, path, "malformed", why);
  };
  if (path.empty()) {
    return malformed("the path is empty");
  }
  if (path.find('\0') != std::string::npos) {
    return malformed("the path holds a NUL");
  }
  if (path.size() > kMaxPathBytes) {
    return malformed("the path is longer than the system takes");
  }
  if (!path.starts_with('/') && !is_base(cwd)) {
    return malformed("the path is relative, and cwd is no absolute path");
  }
  if (goes_through_magic(cwd, path)) {
    GateItemDecision decision = refused(question.asked, path, "magic_link");
    decision.rule = "/proc/*/{root,cwd,exe,fd,map_files,task}";
    return decision;
  }
  return std::nullopt;
}

bool climbs(std::string_view path) {
  const auto parts = components_of(path);
  return std::ranges::find(parts, "..") != parts.end();
}

Result<SeenPath> see(const Judge& judge, const PathQuestion& question,
                     const std::string& requested) {
  if (is_own_by_spelling(requested) && !climbs(question.path)) {
    SeenPath seen;
    seen.canonical = requested;
    return seen;
  }
  return judge.sight.look(
      {.cwd = question.cwd.empty() ? "/" : question.cwd,
       .path = question.path,
       .last = keeps_last_link(question.asked) ? LastLink::kKeep : LastLink::kFollow});
}

/// What cannot be seen is denied by the branch that knows its name, or else because of that.
GateItemDecision unseen(const Judge& judge, Access access, const Error& error) {
  access.canonical = PathName(access.requested);
  GateItemDecision decision = judge_access(judge, access);
  if (decision.answer == GateAnswer::kDeny && decision.branch != GateBranch::kAsk) {
    return decision;
  }
  const bool is_magic = error.reason == "magic_link";
  GateItemDecision refusal =
      refused(access.asked, access.spelled, is_magic ? "magic_link" : "cannot_see", error.message);
  refusal.canonical = access.requested;
  return refusal;
}

Refusal other_process(const Access& access) {
  if (!is_in_other_process(access.canonical.text) && !is_in_other_process(access.requested)) {
    return std::nullopt;
  }
  GateItemDecision decision = refused(access.asked, access.spelled, "denied");
  decision.canonical = access.canonical.text;
  decision.rule = "/proc/PID";
  decision.via = access.seen.links;
  return decision;
}

/// Links, and the other names of a file that has several.
Status add_other_names(const Judge& judge, Access& access) {
  if (access.requested != access.canonical.text) {
    access.other_names.emplace_back(access.requested);
  }
  for (const std::string& link : access.seen.links) {
    access.other_names.emplace_back(link);
  }
  const auto& file = access.seen.file;
  if (!file || file->type != FileType::kFile || file->link_count < 2) {
    return {};
  }
  const auto names = judge.sight.protected_names(file->identity);
  if (!names) {
    return names.error();
  }
  for (const std::string& name : *names) {
    if (name != access.canonical.text) {
      access.other_names.emplace_back(name);
    }
  }
  return {};
}

bool is_directory(const Access& access) {
  return access.seen.file && access.seen.file->type == FileType::kDirectory;
}

GateItemDecision strictest(GateItemDecision one, GateItemDecision other) {
  return other.answer < one.answer ? std::move(other) : std::move(one);
}

GateItemDecision judge_one_path(const Judge& judge, const PathQuestion& question) {
  PathLook look = look_at_path(judge, question);
  if (look.refusal) {
    return std::move(*look.refusal);
  }
  if (question.operation == GateOperation::kDelete && is_directory(look.access)) {
    auto below = judge.sight.below(look.access.canonical.text, std::nullopt);
    if (!below) {
      return unseen(judge, look.access, below.error());
    }
    look.access.below = std::move(*below);
  }
  look.access.makes_link = question.operation == GateOperation::kSymlink;
  return judge_access(judge, look.access);
}

/// Two paths: the source goes away (or gets a second name), the target comes.
struct Move {
  const GateItem& item;
  const std::string& cwd;
};

PathQuestion from(const Move& move, GateOperation operation) {
  return {operation, move.item.operation, move.cwd, move.item.target};
}

/// The target's part, with all that the source brings along.
GateItemDecision judge_target(const Judge& judge, const Move& move, GateOperation operation,
                              const Access& source) {
  PathLook look = look_at_path(judge, {operation, move.item.operation, move.cwd, move.item.to});
  if (look.refusal) {
    return std::move(*look.refusal);
  }
  look.access.makes_link = source.seen.file && source.seen.file->type == FileType::kLink;
  if (is_directory(source)) {
    auto below = judge.sight.below(source.canonical.text, look.access.canonical.text);
    if (!below) {
      return unseen(judge, look.access, below.error());
    }
    look.access.below = std::move(*below);
  }
  return judge_access(judge, look.access);
}

GateItemDecision judge_move(const Judge& judge, const Move& move) {
  using enum GateOperation;
  const bool is_rename = move.item.operation == kRename;
  GateItemDecision decision = judge_one_path(judge, from(move, is_rename ? kDelete : kWrite));
  if (!is_rename) {
    decision = strictest(std::move(decision), judge_one_path(judge, from(move, kRead)));
  }
  PathLook source = look_at_path(judge, from(move, is_rename ? kDelete : kRead));
  if (source.refusal) {
    return strictest(std::move(decision), std::move(*source.refusal));
  }
  decision = strictest(std::move(decision), judge_target(judge, move, kCreate, source.access));
  if (is_rename) {
    decision = strictest(std::move(decision), judge_target(judge, move, kWrite, source.access));
  }
  return decision;
}

bool is_variable_name(std::string_view name) {
  return !name.empty() && name.size() <= 256 && name.find('=') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

GateItemDecision judge_other(const Judge& judge, const GateItem& item) {
  Access access{.operation = item.operation, .asked = item.operation, .requested = item.target};
  if (item.operation == GateOperation::kEnv && !is_variable_name(item.target)) {
    return refused(item.operation, item.target, "malformed", "the name is no variable's");
  }
  const bool is_address =
      item.operation == GateOperation::kConnect || item.operation == GateOperation::kListen;
  if (is_address) {
    const auto target = EgressTarget::from_authority(item.target);
    if (!target) {
      return refused(item.operation, item.target, "malformed", target.error().message);
    }
    access.requested = target->to_string();
  }
  return judge_access(judge, access);
}

}  // namespace

PathLook look_at_path(const Judge& judge, const PathQuestion& question) {
  Access access{
      .operation = question.operation, .asked = question.asked, .requested = question.path};
  if (auto refusal = spelling_refusal(question)) {
    return {std::move(access), std::move(refusal)};
  }
  access.spelled = question.path;
  access.requested = plain_path(question.cwd, question.path);
  auto seen = see(judge, question, access.requested);
  if (!seen) {
    GateItemDecision refusal = unseen(judge, access, seen.error());
    return {std::move(access), std::move(refusal)};
  }
  access.seen = std::move(*seen);
  access.canonical = PathName(access.seen.canonical);
  if (auto refusal = other_process(access)) {
    return {std::move(access), std::move(refusal)};
  }
  if (auto status = add_other_names(judge, access); !status) {
    GateItemDecision refusal = unseen(judge, access, status.error());
    return {std::move(access), std::move(refusal)};
  }
  return {std::move(access), std::nullopt};
}

GateItemDecision judge_item(const Judge& judge, const GateRequest& request, const GateItem& item) {
  using enum GateOperation;
  if (item.operation == kRename || item.operation == kLink) {
    return judge_move(judge, {item, request.cwd});
  }
  if (takes_path(item.operation)) {
    const GateOperation part = item.operation;
    return judge_one_path(judge, {part, part, request.cwd, item.target});
  }
  return judge_other(judge, item);
}

}  // namespace sandboxkit::gate
