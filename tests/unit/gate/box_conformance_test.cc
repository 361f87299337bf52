// What a box lets through is what the gate allows, for thousands of questions that are made from a
// seed; whatever differs has a name.

#include "gate/seatbelt.h"
#include "tests/support/sbpl.h"
#include "tests/unit/gate/compare.h"

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;            // NOLINT(google-build-using-namespace)
using namespace sandboxkit::box_test;  // NOLINT(google-build-using-namespace)

namespace {

std::function<bool(const GateItem&)> evaluated(const BoxPlan& plan, const FakeEyes& eyes) {
  const auto view = std::make_shared<gate::BoxView>(plan, eyes);
  return [view, &plan](const GateItem& item) {
    return view->outcome(item, plan.tree) == gate::BoxOutcome::kAllowed;
  };
}

/// What seatbelt would be asked for one item, all of which it must allow.
class Mac {
 public:
  Mac(const Profile& profile, const FakeEyes& eyes) : profile_(profile), eyes_(eyes) {}

  bool allows(const GateItem& item) const {
    using enum GateOperation;
    switch (item.operation) {
      case kRead:
      case kList:
        return at(item.target, "file-read-data");
      case kStat:
        return at(item.target, "file-read-metadata");
      case kExec:
        return at(item.argv.front(), "process-exec") && at(item.argv.front(), "file-read-data");
      case kWrite:
      case kCreate:
        return makes(item.target, LastLink::kFollow);
      case kSymlink:
        return makes(item.target, LastLink::kKeep);
      case kMeta:
        return at(item.target, "file-write-mode");
      case kDelete:
        return takes(item.target);
      case kRename:
        return takes(item.target) && makes(item.to, LastLink::kKeep);
      case kLink:
        return at(item.target, "file-link") && makes(item.to, LastLink::kKeep);
      case kUnix:
        return at(item.target, "network-outbound");
      case kEnv:
      case kConnect:
      case kListen:
      case kSignal:
      case kPtrace:
      case kMount:
      case kDevice:
      case kUnknown:
        return false;
    }
    return false;
  }

 private:
  /// A path's object, where every link that leads there may be read.
  std::optional<SeenPath> find(const std::string& path, LastLink last) const {
    auto seen = eyes_.look({.cwd = "/", .path = path, .last = last});
    const auto is_read = [&](const std::string& link) {
      return profile_.allows("file-read-metadata", link);
    };
    return seen && std::ranges::all_of(seen->links, is_read) ? std::optional(std::move(*seen))
                                                             : std::nullopt;
  }
  bool at(const std::string& path, const char* operation) const {
    const auto seen = find(path, LastLink::kFollow);
    return seen && profile_.allows(operation, seen->canonical);
  }
  bool takes(const std::string& path) const {
    const auto seen = find(path, LastLink::kKeep);
    return seen && profile_.allows("file-write-unlink", seen->canonical);
  }
  /// Directories that are missing are made first.
  bool makes(const std::string& path, LastLink last) const {
    const auto seen = find(path, last);
    if (!seen) {
      return false;
    }
    if (seen->file) {
      return profile_.allows("file-write-data", seen->canonical);
    }
    for (std::string made = seen->canonical; !eyes_.look({.cwd = "/", .path = made})->file;
         made.resize(made.rfind('/'))) {
      if (!profile_.allows("file-write-create", made)) {
        return false;
      }
    }
    return true;
  }

  const Profile& profile_;
  const FakeEyes& eyes_;
};

std::function<bool(const GateItem&)> profiled(const BoxPlan& plan, const FakeEyes& eyes) {
  const auto text = gate::seatbelt_profile({plan});
  REQUIRE_MESSAGE(text.has_value(), text.error().message);
  auto profile = Profile::read(*text);
  REQUIRE_MESSAGE(profile.has_value(), profile.error().message);
  const auto kept = std::make_shared<Profile>(std::move(*profile));
  return [kept, &eyes](const GateItem& item) { return Mac(*kept, eyes).allows(item); };
}

}  // namespace

TEST_CASE("a plan allows what the gate allows, and every difference has a name") {
  Count count = compare_all({}, {.box = evaluated});
  // The questions are no use when they all have one answer.
  CHECK(count["the gate allows"] > 500);
  CHECK(count["the gate does not"] > 500);
}

TEST_CASE("no protected name comes to be in a staged box") {
  Count count = compare_all({.staged = true}, {.box = evaluated});
  CHECK(count[name_of(Gap::kNewName)] == 0);
}

TEST_CASE("a seatbelt profile allows what the gate allows, also for names that come to be") {
  const auto met = [](const GateItem& item, Gap gap) {
    // What a directory brings along, and letters that an expression cannot fold.
    const bool is_text = std::ranges::all_of(item.target, [](char c) { return c > 0; });
    CAPTURE(item.target);
    CHECK((gap != Gap::kNewName || item.operation == GateOperation::kRename || !is_text));
  };
  Count count = compare_all({}, {.box = profiled, .met = met, .makes_hard_links = false});
  CHECK(count["the gate allows"] > 500);
}
