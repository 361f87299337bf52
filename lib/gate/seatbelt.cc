#include "gate/seatbelt.h"

#include "base/text.h"
#include "gate/box_view.h"
#include "gate/path_text.h"
#include "gate/pattern.h"
#include "gate/platform.h"
#include "gate/seatbelt_regex.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace sandboxkit::gate {
namespace {

constexpr const char* kReads = "file-read* process-exec*";
constexpr const char* kAll = "file-read* file-write* process-exec*";

// Processes, and what the C library asks for at its start.
constexpr const char* kHead =
    "(version 1)\n"
    "(deny default)\n"
    "(allow process-fork)\n"
    "(allow signal (target same-sandbox))\n"
    "(allow sysctl-read)\n"
    "(allow file-read-data (literal \"/\"))\n";

// Harmless devices. Source: BoxPlan's contract.
constexpr std::string_view kDevices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                                         "/dev/urandom"};

/// Links of the system that a profile's paths must not go through.
constexpr std::string_view kTwins[] = {"/etc", "/tmp", "/var"};
constexpr std::string_view kPrivate = "/private";

/// The path, and how the kernel calls it where its front is a link of the system.
std::vector<std::string> spellings(const std::string& path) {
  for (const std::string_view twin : kTwins) {
    if (covers(twin, path)) {
      return {path, std::string(kPrivate) + path};
    }
    if (covers(std::string(kPrivate) + std::string(twin), path)) {
      return {path, path.substr(kPrivate.size())};
    }
  }
  return {path};
}

/// An expression that takes both spellings of what it begins with.
std::string with_twin(const std::string& regex, const PathPattern& pattern) {
  const bool has_twin = std::ranges::any_of(
      kTwins, [&](std::string_view twin) { return covers(twin, pattern.path()); });
  return has_twin ? "^(" + std::string(kPrivate) + ")?" + regex.substr(1) : regex;
}

class Printer {
 public:
  explicit Printer(const SeatbeltInput& input) : input_(input), plan_(input.plan) {}

  std::string print() {
    text_ = kHead;
    print_ways();
    print_platform();
    for (const BoxPlace& place : plan_.places) {
      print_place(place);
    }
    print_names();
    print_places_again();
    print_network();
    return std::move(text_);
  }

 private:
  // Shown as a whole, or only its own name.
  enum class Reach : std::uint8_t { kItself, kBelow };

  void rule(const char* verb, const char* operations, const std::string& path, Reach reach) {
    text_.append("(").append(verb).append(" ").append(operations);
    for (const std::string& spelling : spellings(path)) {
      text_.append(reach == Reach::kItself ? " (literal " : " (subpath ")
          .append(seatbelt_string(spelling))
          .append(")");
    }
    text_.append(")\n");
  }

  void regex_rule(const char* verb, const char* operations, const std::string& regex) {
    text_.append("(").append(verb).append(" ").append(operations);
    text_.append(" (regex #\"").append(regex).append("\"))\n");
  }

  /// The directories above what can be seen, as far as a path's walk needs them.
  void print_ways() {
    std::set<std::string> ways;
    for (const BoxPlace& place : plan_.places) {
      if (place.access == BoxAccess::kReadOnly || place.access == BoxAccess::kReadWrite) {
        for (std::string at(parent_of(place.path)); at.size() > 1; at = parent_of(at)) {
          ways.insert(at);
        }
      }
    }
    for (const std::string& way : ways) {
      rule("allow", "file-read-metadata", way, Reach::kItself);
    }
    // The links themselves.
    for (const std::string_view twin : kTwins) {
      rule("allow", "file-read-metadata", std::string(twin), Reach::kItself);
    }
    rule("allow", "file-read-metadata", std::string(kPrivate), Reach::kItself);
  }

  void print_platform() {
    for (const char* path : kPlatform) {
      if (!covers("/proc", path) && !covers("/dev", path) && !covers("/sys", path)) {
        rule("allow", kReads, path, Reach::kBelow);
      }
    }
    for (const std::string_view device : kDevices) {
      rule("allow", "file-read* file-write-data", std::string(device), Reach::kItself);
    }
  }

  void print_place(const BoxPlace& place) {
    const Reach reach = place.type == FileType::kDirectory ? Reach::kBelow : Reach::kItself;
    switch (place.access) {
      case BoxAccess::kHide:
        rule("deny", kAll, place.path, Reach::kBelow);
        return;
      case BoxAccess::kReadOnly:
        if (place.type != FileType::kLink) {
          rule("allow", kReads, place.path, reach);
        }
        rule("deny", "file-write*", place.path, Reach::kBelow);
        return;
      case BoxAccess::kReadWrite:
        rule("allow", kAll, place.path, reach);
        rule("deny", "file-write-unlink", place.path, Reach::kItself);
        return;
      case BoxAccess::kPin:
        rule("deny", "file-write-unlink", place.path, Reach::kItself);
        return;
      case BoxAccess::kAbsent:
        rule("deny", "file-write*", place.path, Reach::kBelow);
        return;
    }
  }

  bool is_shown(const std::string& path, BoxAccess least) const {
    const bool in_place = std::ranges::any_of(plan_.places, [&](const BoxPlace& place) {
      return place.access >= least && place.access <= BoxAccess::kReadWrite &&
             covers(place.path, path);
    });
    return in_place || (least == BoxAccess::kReadOnly &&
                        std::ranges::any_of(kPlatform, [&](const char* platform) {
                          return covers(platform, path);
                        }));
  }

  /// What an exception lifts: its own names, in the places that a box shows, once the denial
  /// stands. A later denial still counts.
  void print_exception(const std::string& except, const char* operations, BoxAccess least) {
    const auto pattern = PathPattern::compile(except, anchors(), Matching::kExact);
    if (!pattern) {
      return;
    }
    if (!pattern->path().empty()) {
      const auto regex = exact_regex(*pattern, "");
      if (regex && is_shown(pattern->path(), least)) {
        regex_rule("allow", operations, with_twin(*regex, *pattern));
      }
      return;
    }
    for (const BoxPlace& place : plan_.places) {
      if (place.access < least || place.access > BoxAccess::kReadWrite) {
        continue;
      }
      for (const std::string& root : spellings(place.path)) {
        if (const auto regex = exact_regex(*pattern, root)) {
          regex_rule("allow", operations, *regex);
        }
      }
    }
  }

  Anchors anchors() const { return {plan_.home, plan_.tree, plan_.scratch}; }

  void print_names() {
    std::vector<const BoxNameRule*> rules;
    for (const BoxNameRule& rule : plan_.names) {
      rules.push_back(&rule);
    }
    // An exception opens what was denied before it, so what has most of them comes first.
    std::ranges::stable_sort(rules, std::ranges::greater{}, [](const BoxNameRule* rule) {
      return rule->except.size() + rule->except_reading.size();
    });
    for (std::size_t i = 0; i < rules.size(); ++i) {
      print_name_rule(*rules[i]);
      const auto is_lifted_before = [&](const std::string& except) {
        return std::all_of(rules.begin(), rules.begin() + static_cast<std::ptrdiff_t>(i),
                           [&](const BoxNameRule* earlier) {
                             return std::ranges::count(earlier->except, except) > 0;
                           });
      };
      for (const std::string& except : rules[i]->except) {
        if (is_lifted_before(except)) {
          print_exception(except, kAll, BoxAccess::kReadWrite);
        }
      }
      for (const std::string& except : rules[i]->except_reading) {
        const auto pattern = PathPattern::compile(except, anchors(), Matching::kExact);
        // In what nobody can change, names of earlier denials may be read: they are not secrets of
        // the agent's user.
        if (pattern && !pattern->path().empty() &&
            !is_shown(pattern->path(), BoxAccess::kReadWrite)) {
          print_exception(except, kReads, BoxAccess::kReadOnly);
        }
      }
    }
  }

  void print_name_rule(const BoxNameRule& rule) {
    const auto pattern = PathPattern::compile(rule.pattern, anchors(), Matching::kFolded);
    if (!pattern) {
      return;
    }
    if (rule.spares_directories) {
      // A profile does not tell a file from a directory that is made. Either would be a repository
      // whose configuration cannot be written.
      regex_rule("deny", "file-write-create", folded_regex(*pattern, /*whole=*/true));
      return;
    }
    regex_rule("deny", rule.access == BoxAccess::kHide ? kAll : "file-write*",
               with_twin(folded_regex(*pattern, /*whole=*/false), *pattern));
  }

  /// What is there, in a place that is shown, has its own answer, which counts more than what its
  /// name alone would say. A root's would open its names again, so it is not repeated.
  void print_places_again() {
    const BoxView view(plan_, no_eyes());
    for (const BoxPlace& place : plan_.places) {
      const BoxPlace* around = view.place_of(parent_of(place.path));
      const bool in_shown = around != nullptr && around->access != BoxAccess::kHide;
      // One in what may not be changed has been closed with it, right before.
      const bool is_root =
          place.access == BoxAccess::kReadWrite && in_shown &&
          around->access == BoxAccess::kReadWrite &&
          view.name_rule(place.path, place.type == FileType::kDirectory) == nullptr;
      if (in_shown && !is_root) {
        print_place(place);
      }
    }
  }

  void print_network() {
    if (input_.proxy_port != 0) {
      text_.append("(allow network-outbound (remote ip \"localhost:")
          .append(std::to_string(input_.proxy_port))
          .append("\"))\n");
    }
    for (const std::string& socket : plan_.sockets) {
      for (const std::string& spelling : spellings(socket)) {
        text_.append("(allow network-outbound (remote unix-socket (path-literal ")
            .append(seatbelt_string(spelling))
            .append(")))\n");
      }
    }
  }

  /// Names are asked for only, which takes no look.
  static const FileEyes& no_eyes() {
    class Blind final : public FileEyes {
      Result<SeenPath> look(const LookAt&) const override {
        return Error{ErrorCode::kUnavailable, "a profile's printer sees nothing"};
      }
      Status walk(const WalkFrom&, const WalkVisitor&) const override {
        return Error{ErrorCode::kUnavailable, "a profile's printer sees nothing"};
      }
    };
    static const Blind kBlind;
    return kBlind;
  }

  const SeatbeltInput& input_;
  const BoxPlan& plan_;
  std::string text_{};
};

bool has_nul(const std::string& text) { return text.find('\0') != std::string::npos; }

}  // namespace

std::string seatbelt_string(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out.push_back('\\');
    }
    out.push_back(c);
  }
  out.push_back('"');
  return out;
}

Result<std::string> seatbelt_profile(const SeatbeltInput& input) {
  if (input.plan.staged) {
    return Error{ErrorCode::kInvalidArgument, "a profile cannot hold an overlay; plan a live box",
                 "staged", "staged"};
  }
  for (const BoxPlace& place : input.plan.places) {
    if (has_nul(place.path)) {
      return Error{ErrorCode::kInvalidArgument,
                   "place " + quoted(place.path) + " holds a NUL",
                   {},
                   "places"};
    }
  }
  if (std::ranges::any_of(input.plan.sockets, has_nul)) {
    return Error{ErrorCode::kInvalidArgument, "a socket's path holds a NUL", {}, "sockets"};
  }
  return Printer(input).print();
}

}  // namespace sandboxkit::gate
