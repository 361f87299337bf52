// Opening a file: the object is held first, then judged, then opened from where it is held.

#include "sandboxkit/agent_session.h"

#include "agent/core.h"
#include "eyes/hold.h"
#include "eyes/path_walk.h"
#include "gate/path_text.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace sandboxkit {
namespace {

/// Shows the gate what was held, wherever the held path is asked for; the rest is real.
class HeldEyes final : public FileEyes {
 public:
  HeldEyes(const FileEyes& others, const LookAt& at, const SeenPath& seen)
      : others_(others), at_(at), seen_(seen) {}

  Result<SeenPath> look(const LookAt& at) const override {
    const bool is_held = at.path == at_.path && at.last == at_.last &&
                         (at.path.starts_with('/') || at.cwd == at_.cwd);
    return is_held ? Result<SeenPath>(seen_) : others_.look(at);
  }
  Status walk(const WalkFrom& from, const WalkVisitor& visit) const override {
    return others_.walk(from, visit);
  }

 private:
  const FileEyes& others_;
  const LookAt& at_;
  const SeenPath& seen_;
};

bool writes(const OpenRequest& request) {
  return request.use != OpenFor::kRead || request.truncate || request.append;
}

GateRequest request_of(const OpenRequest& request, bool exists) {
  using enum GateOperation;
  GateRequest asked{.cwd = request.cwd, .items = {}, .why = request.why};
  const auto add = [&](GateOperation operation) {
    asked.items.push_back({.operation = operation, .target = request.path});
  };
  if (request.use != OpenFor::kWrite) {
    add(kRead);
  }
  if (writes(request)) {
    add(kWrite);
  }
  if (!exists && request.create) {
    add(kCreate);
  }
  return asked;
}

int flags_of(const OpenRequest& request) {
  const int use = request.use == OpenFor::kRead    ? O_RDONLY
                  : request.use == OpenFor::kWrite ? O_WRONLY
                                                   : O_RDWR;
  return use | (request.append ? O_APPEND : 0);
}

Error moved() {
  return Error{ErrorCode::kConflict, "the file moved while it was judged; ask again", "moved"};
}

/// A file that was made where it should not be does not stay: its folder moved under our hands.
Result<io::Fd> create_file(const eyes::HeldPath& held, const OpenRequest& request) {
  auto file = eyes::create_held(held, {.flags = flags_of(request), .mode = request.permissions});
  if (file && eyes::name_of_held(*file) != held.seen.canonical) {
    const std::string name(gate::leaf_of(held.seen.canonical));
    struct stat ours {};
    struct stat there {};
    const bool is_ours =
        ::fstat(file->get(), &ours) == 0 &&
        ::fstatat(held.place.get(), name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
        ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
    if (is_ours) {
      ::unlinkat(held.place.get(), name.c_str(), 0);
    }
    return moved();
  }
  return file;
}

Result<io::Fd> open_file(const eyes::HeldPath& held, const OpenRequest& request) {
  // The object is the one that was judged in any case; that it still has its name keeps what was
  // judged by name true as well.
  if (eyes::name_of_held(held.place) != held.seen.canonical) {
    return moved();
  }
  auto file = eyes::open_held(held, {.flags = flags_of(request)});
  if (file && request.truncate && ::ftruncate(file->get(), 0) != 0) {
    return io::error_from_errno("truncate", errno);
  }
  return file;
}

Error not_a_file() {
  return Error{ErrorCode::kInvalidArgument, "only plain files are opened, and none of /proc",
               "not_a_file", "path"};
}

Status check(const OpenRequest& request, const eyes::HeldPath& held) {
  const auto& file = held.seen.file;
  struct statfs system {};
  // `/proc/self` would be this process and not the agent's: its variables, its memory.
  if (::fstatfs(held.place.get(), &system) != 0 || system.f_type == PROC_SUPER_MAGIC) {
    return not_a_file();
  }
  if (request.use == OpenFor::kRead && (request.truncate || request.append)) {
    return Error{ErrorCode::kInvalidArgument,
                 "what is only read cannot be truncated or appended to",
                 {},
                 "use"};
  }
  if (!file && !request.create) {
    return Error{ErrorCode::kNotFound, "there is no such file"};
  }
  if (file && request.create && request.exclusive) {
    return Error{ErrorCode::kConflict, "the file exists already", "exists"};
  }
  // A directory's descriptor would be a way to everything below it, and a device's to the machine.
  if ((file && file->type != FileType::kFile) || request.path.ends_with('/')) {
    return not_a_file();
  }
  return {};
}

Error denied(const GateOutcome& outcome) {
  return Error{ErrorCode::kPermissionDenied, "the permission gate denied it",
               outcome.decision.decisive.reason};
}

Result<OpenedFile> opened(const eyes::HeldPath& held, const OpenRequest& request) {
  if (auto status = check(request, held); !status) {
    return status.error();
  }
  auto file = held.seen.file ? open_file(held, request) : create_file(held, request);
  return file ? Result<OpenedFile>(OpenedFile(file->release())) : file.error();
}

}  // namespace

OpenOutcome AgentSession::open(const OpenRequest& request, std::stop_token stop) {
  // What no look can take is judged by its spelling alone, and denied.
  const LookAt at{.cwd = request.cwd, .path = request.path};
  const bool can_look = !request.path.empty() && request.path.size() <= gate::kMaxPathBytes &&
                        request.path.find('\0') == std::string::npos &&
                        (request.path.starts_with('/') || gate::is_base(request.cwd));
  auto held = can_look
                  ? eyes::hold_path(at)
                  : Error{ErrorCode::kInvalidArgument, "the path cannot be looked at", {}, "path"};
  const FileEyes& real = impl_->core->parts.eyes;
  if (!held) {
    const GateRequest asked = request_of(request, true);
    GateOutcome outcome = impl_->judge({.request = asked, .eyes = real}, std::move(stop));
    Error error = outcome.decision.answer == GateAnswer::kAllow ? held.error() : denied(outcome);
    return {std::move(outcome), std::move(error)};
  }
  const HeldEyes eyes(real, at, held->seen);
  const GateRequest asked = request_of(request, held->seen.file.has_value());
  const auto object = held->seen.file ? std::optional(held->seen.file->identity) : std::nullopt;
  GateOutcome outcome =
      impl_->judge({.request = asked, .eyes = eyes, .object = object}, std::move(stop));
  if (outcome.decision.answer != GateAnswer::kAllow) {
    Error error = denied(outcome);
    return {std::move(outcome), std::move(error)};
  }
  return {std::move(outcome), opened(*held, request)};
}

}  // namespace sandboxkit
