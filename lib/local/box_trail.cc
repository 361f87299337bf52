#include "local/box_trail.h"

#include "agent/grant_log.h"
#include "base/random.h"

#include <utility>

namespace sandboxkit::local {
namespace {

audit::Record record_of(const BoxOf& box, audit::Kind kind) {
  audit::Record record;
  record.kind = kind;
  record.session = box.session;
  record.agent = box.agent;
  record.box = {box.box.id, box.box.backend, box.box.strength};
  return record;
}

audit::Record violation(const BoxOf& box, const BoxChange& change, std::string reason) {
  audit::Record record = record_of(box, audit::Kind::kViolation);
  record.decision = audit::Verdict::kDeny;
  record.reason = std::move(reason);
  record.items.push_back(
      {.operation = "create", .requested = change.path, .canonical = change.path});
  return record;
}

}  // namespace

Result<std::unique_ptr<BoxTrail>> BoxTrail::open(const std::string& gate_dir) {
  auto writer = audit::Writer::open(agent::audit_options(gate_dir),
                                    {system_clock(), audit::system_ticks(), system_random()});
  if (!writer) {
    return writer.error();
  }
  return std::unique_ptr<BoxTrail>(new BoxTrail(std::move(*writer)));
}

Status BoxTrail::started(const BoxOf& box) {
  return writer_->write(record_of(box, audit::Kind::kBoxStart));
}

void BoxTrail::ended(const BoxOf& box, const std::string& reason) {
  audit::Record record = record_of(box, audit::Kind::kBoxExit);
  record.reason = reason;
  static_cast<void>(writer_->write(record));
}

void BoxTrail::found(const BoxOf& box, const BoxSweep& swept) {
  for (const BoxChange& each : swept.quarantined) {
    static_cast<void>(writer_->write(violation(box, each, "quarantined")));
  }
  for (const BoxRefusal& each : swept.left) {
    static_cast<void>(writer_->write(violation(box, each.change, "left: " + each.why)));
  }
}

void BoxTrail::not_swept(const BoxOf& box, const Error& why) {
  audit::Record record = record_of(box, audit::Kind::kViolation);
  record.reason = "not_swept: " + why.message;
  static_cast<void>(writer_->write(record));
}

}  // namespace sandboxkit::local
