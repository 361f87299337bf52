#include "tests/model/sim_worker.h"

#include "json/value.h"
#include "work/ledger.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::model {
namespace {

using work::kCreating;
using work::kEnded;
using work::kReasonRemoved;
using work::kRemoving;
using work::kRunning;

constexpr std::size_t kMaxWaiting = 32;
/// How likely a process ends between two of its steps, of a thousand.
constexpr std::int64_t kEndsBetweenSteps = 4;
/// How likely an engine goes on with what a process that ended asked it for.
constexpr std::int64_t kEngineGoesOn = 500;

Error generation_conflict() {
  return Error{ErrorCode::kConflict, "another generation is known", "generation_conflict"};
}

Error not_running(const std::string& reason) {
  return Error{ErrorCode::kConflict, "the sandbox does not run: " + reason, "sandbox_not_running"};
}

}  // namespace

SimWorker::SimWorker(Scene& scene, WorkerSetup setup, std::function<void()> soon,
                     std::function<void()> restarted)
    : scene_(scene),
      setup_(std::move(setup)),
      soon_(std::move(soon)),
      restarted_(std::move(restarted)) {}

void SimWorker::step(milliseconds delay, std::function<void()> work) {
  scene_.agenda.after(delay, [this, incarnation = incarnation_, work = std::move(work)] {
    if (!up_ || incarnation != incarnation_) {
      return;
    }
    if (scene_.mishap(kEndsBetweenSteps)) {
      restart();
      return;
    }
    work();
  });
}

void SimWorker::every(milliseconds interval, std::function<void()> work) {
  scene_.agenda.after(interval,
                      [this, interval, incarnation = incarnation_, work = std::move(work)] {
                        if (up_ && incarnation == incarnation_) {
                          work();
                          every(interval, work);
                        }
                      });
}

// --- Lanes: the jobs of one sandbox, one after the other

void SimWorker::add(const std::string& sandbox, Job job) {
  const auto found = lanes_.find(sandbox);
  if (found == lanes_.end()) {
    lanes_[sandbox].waiting.push_back(std::move(job));
    return start_next(sandbox);
  }
  Lane& lane = found->second;
  std::deque<Job> cancelled;
  if (job.kind == Kind::kRemove) {
    lane.stop |= lane.running == Kind::kCreate;
    std::deque<Job> kept;
    for (Job& each : lane.waiting) {
      (each.kind == Kind::kCreate ? cancelled : kept).push_back(std::move(each));
    }
    lane.waiting = std::move(kept);
  }
  const bool full = lane.waiting.size() >= kMaxWaiting;
  if (!full) {
    lane.waiting.push_back(job);
  }
  for (const Job& each : cancelled) {
    each.done(Error{ErrorCode::kCancelled, "a remove came before the create was begun"});
  }
  if (full && job.done) {
    job.done(Error{ErrorCode::kUnavailable, "the worker has too much to do", "overloaded"});
  }
}

void SimWorker::start_next(const std::string& sandbox) {
  const auto found = lanes_.find(sandbox);
  if (found == lanes_.end() || found->second.waiting.empty()) {
    lanes_.erase(sandbox);
    return;
  }
  Lane& lane = found->second;
  Job job = std::move(lane.waiting.front());
  lane.waiting.pop_front();
  lane.running = job.kind;
  lane.stop = false;
  lane.done = std::move(job.done);
  step(scene_.dice.time(0, 20), std::move(job.run));
}

void SimWorker::finish(const std::string& sandbox, const Answer& answer) {
  const Done done = std::move(lanes_[sandbox].done);
  start_next(sandbox);
  if (done) {
    done(answer);
  }
}

// --- Journal

const store::JournalRow* SimWorker::row_of(const std::string& sandbox) const {
  const auto found = journal_.find(sandbox);
  return found == journal_.end() ? nullptr : &found->second;
}

void SimWorker::put(store::JournalRow row) {
  row.updated = scene_.clock.now();
  const std::string sandbox = row.sandbox;
  journal_.insert_or_assign(sandbox, std::move(row));
}

std::int64_t SimWorker::live() const {
  return std::ranges::count_if(journal_,
                               [](const auto& each) { return each.second.state != kEnded; });
}

// --- Orders

void SimWorker::deliver(const wire::Delivery& delivery, Done done) {
  const std::string& id = delivery.sandbox.str();
  scene_.say({id, setup_.id}, setup_.id + " gets " + wire::name_of(delivery.kind) + " " + id +
                                  " seq " + std::to_string(delivery.seq));
  name_orphan(id);
  const store::JournalRow* row = row_of(id);
  const bool ours = setup_.tenant.empty() || delivery.tenant.str() == setup_.tenant;
  if (!ours || (row != nullptr && row->tenant != delivery.tenant.str())) {
    throw Violation("no order reaches a worker of another workspace", {id, setup_.id},
                    "an order for a sandbox of " + delivery.tenant.str());
  }
  Job job;
  job.done = std::move(done);
  switch (delivery.kind) {
    case wire::DeliveryKind::kCreate:
      job.kind = Kind::kCreate;
      job.run = [this, delivery] { create(delivery); };
      break;
    case wire::DeliveryKind::kRemove:
      job.kind = Kind::kRemove;
      job.run = [this, delivery] { remove(delivery); };
      break;
    case wire::DeliveryKind::kRenew:
      job.run = [this, delivery] { finish(delivery.sandbox.str(), renew(delivery)); };
      break;
    case wire::DeliveryKind::kNarrow:
    case wire::DeliveryKind::kLend:
      job.run = [this, delivery] {
        finish(delivery.sandbox.str(),
               Error{ErrorCode::kConflict, "no operation of the model asks for this"});
      };
      break;
  }
  add(id, std::move(job));
}

void SimWorker::create(const wire::Delivery& delivery) {
  const std::string& id = delivery.sandbox.str();
  const store::JournalRow* row = row_of(id);
  if (lanes_[id].stop) {
    return finish(id, Error{ErrorCode::kCancelled, "the create was stopped before it was begun"});
  }
  if (row != nullptr && row->generation > delivery.generation) {
    return finish(id, generation_conflict());
  }
  if (row != nullptr && row->generation == delivery.generation && row->state != kCreating) {
    return finish(id, row->state == kRunning ? Answer(SandboxState::kRunning)
                                             : Answer(not_running(row->reason)));
  }
  if (row != nullptr && row->generation < delivery.generation && row->state != kEnded) {
    return end(*row, "replaced by a newer generation", [this, delivery](const Answer& gone) {
      gone ? begin_create(delivery) : finish(delivery.sandbox.str(), gone);
    });
  }
  begin_create(delivery);
}

void SimWorker::begin_create(const wire::Delivery& delivery) {
  const std::string& id = delivery.sandbox.str();
  if (scene_.clock.now() >= delivery.expires_at) {
    scene_.fates[id].refusals.insert("sandbox_expired");
    return finish(id, Error{ErrorCode::kConflict, "its time was over", "sandbox_expired"});
  }
  if (live() >= setup_.max_sandboxes) {
    scene_.fates[id].refusals.insert("no_capacity");
    return finish(id, Error{ErrorCode::kUnavailable, "the worker is full", "no_capacity"});
  }
  const store::JournalRow* row = row_of(id);
  const auto before = row == nullptr ? std::nullopt : std::optional(*row);
  store::JournalRow journalled{id, delivery.tenant.str(), delivery.generation, kCreating};
  journalled.policy_hash = delivery.policy_hash;
  journalled.expires = delivery.expires_at;
  put(std::move(journalled));
  const bool goes_on = scene_.mishap(kEngineGoesOn);
  const auto delay = faults_.slow ? scene_.dice.time(1'000, 40'000) : scene_.dice.time(50, 900);
  if (goes_on) {
    // The engine was asked already when the process ended.
    scene_.agenda.after(delay, [this, delivery, incarnation = incarnation_] {
      if (incarnation != incarnation_ && !engine_.contains(delivery.sandbox.str()) &&
          !faults_.full && !faults_.broken && setup_.images.contains(delivery.spec->image)) {
        place_object(delivery);
      }
    });
  }
  step(delay, [this, delivery, before] { build(delivery, before); });
}

void SimWorker::place_object(const wire::Delivery& delivery) {
  const std::string& id = delivery.sandbox.str();
  EngineObject object{delivery.tenant.str(), delivery.generation, delivery.expires_at,
                      delivery.policy_hash};
  engine_.insert_or_assign(id, std::move(object));
  scene_.fates[id].ran.insert(delivery.generation);
  scene_.say({id, setup_.id}, "the engine of " + setup_.id + " runs " + id);
}

void SimWorker::build(const wire::Delivery& delivery,
                      const std::optional<store::JournalRow>& before) {
  const std::string& id = delivery.sandbox.str();
  if (lanes_[id].stop) {
    return undo_create(delivery, before, Error{ErrorCode::kCancelled, "cancelled"});
  }
  if (!setup_.images.contains(delivery.spec->image)) {
    return undo_create(delivery, before,
                       Error{ErrorCode::kNotFound, "no such image", "image_not_found"});
  }
  if (faults_.full || faults_.broken) {
    return undo_create(delivery, before,
                       faults_.full
                           ? Error{ErrorCode::kUnavailable, "the engine is full", "no_capacity"}
                           : Error{ErrorCode::kInternal, "the engine talks nonsense", "internal"});
  }
  if (engine_.contains(id) && remove_object(id, "in the way of its own create")) {
    return undo_create(delivery, before,
                       Error{ErrorCode::kUnavailable, "the engine keeps what is in the way"});
  }
  place_object(delivery);
  step(scene_.dice.time(0, 300), [this, delivery, before] {
    const std::string& sandbox = delivery.sandbox.str();
    const auto object = engine_.find(sandbox);
    if (lanes_[sandbox].stop) {
      return undo_create(delivery, before, Error{ErrorCode::kCancelled, "cancelled"});
    }
    if (object == engine_.end() || !object->second.running) {
      return undo_create(delivery, before,
                         Error{ErrorCode::kUnavailable, "the sandbox ended at once"});
    }
    store::JournalRow row = *row_of(sandbox);
    row.state = kRunning;
    put(std::move(row));
    finish(sandbox, SandboxState::kRunning);
  });
}

void SimWorker::undo_create(const wire::Delivery& delivery,
                            const std::optional<store::JournalRow>& before, const Error& error) {
  const std::string& id = delivery.sandbox.str();
  static_cast<void>(remove_object(id, "undone"));
  if (before && before->generation < delivery.generation) {
    put(*before);
  } else {
    journal_.erase(id);
  }
  scene_.fates[id].refusals.insert(reason_of(error));
  finish(id, error);
}

std::optional<Error> SimWorker::remove_object(const std::string& sandbox,
                                              const std::string& reason) {
  if (faults_.keeps || faults_.keeps_badly) {
    return faults_.keeps ? Error{ErrorCode::kUnavailable, "the engine does not answer"}
                         : Error{ErrorCode::kInternal, "the engine talks nonsense"};
  }
  if (engine_.erase(sandbox) > 0) {
    scene_.say({sandbox, setup_.id},
               "the engine of " + setup_.id + " removed " + sandbox + ": " + reason);
  }
  return std::nullopt;
}

void SimWorker::remove(const wire::Delivery& delivery) {
  const std::string& id = delivery.sandbox.str();
  const store::JournalRow* found = row_of(id);
  if (found != nullptr && found->generation > delivery.generation) {
    return finish(id, generation_conflict());
  }
  store::JournalRow row = found != nullptr ? *found
                                           : store::JournalRow{id, delivery.tenant.str(),
                                                               delivery.generation, kRemoving};
  if (found != nullptr && row.state == kEnded && row.generation == delivery.generation) {
    row.reason = kReasonRemoved;
    put(std::move(row));
    return finish(id, SandboxState::kStopped);
  }
  row.generation = delivery.generation;
  end(std::move(row), kReasonRemoved, [this, id](const Answer& answer) { finish(id, answer); });
}

SimWorker::Answer SimWorker::renew(const wire::Delivery& delivery) {
  const store::JournalRow* row = row_of(delivery.sandbox.str());
  if (row == nullptr) {
    return Error{ErrorCode::kNotFound, "unknown", "sandbox_not_found"};
  }
  if (row->generation != delivery.generation) {
    return generation_conflict();
  }
  if (row->state != kRunning) {
    return not_running(row->reason);
  }
  store::JournalRow renewed = *row;
  renewed.expires = delivery.expires_at;
  journal_.insert_or_assign(renewed.sandbox, renewed);
  renewed_at_[renewed.sandbox] = scene_.clock.now();
  return SandboxState::kRunning;
}

void SimWorker::end(store::JournalRow row, const std::string& reason, Done then) {
  row.state = kRemoving;
  row.reason = reason;
  put(row);
  scene_.fates[row.sandbox].ends.insert(reason);
  soon_();
  step(scene_.dice.time(5, 400), [this, row, reason, then = std::move(then)] {
    if (const auto error = remove_object(row.sandbox, reason)) {
      return then(*error);
    }
    step(milliseconds(1), [this, row, then] {
      store::JournalRow ended = row;
      ended.state = kEnded;
      put(std::move(ended));
      soon_();
      then(SandboxState::kStopped);
    });
  });
}

}  // namespace sandboxkit::model
