#include "gate/bwrap_arguments.h"

#include "base/text.h"
#include "gate/path_text.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace sandboxkit::gate {
namespace {

// The first that makes mount points without following links. Source: CVE-2026-87766.
constexpr BwrapVersion kSafeMountPoints{0, 12};

bool has_nul(const std::string& text) { return text.find('\0') != std::string::npos; }

class Printer {
 public:
  explicit Printer(const BwrapInput& input) : input_(input), plan_(input.plan) {}

  Result<BwrapArguments> print() {
    add_frame();
    add_own_places();
    for (std::size_t i = 0; i < plan_.places.size(); ++i) {
      if (auto status = add_place(i); !status) {
        return status.error();
      }
    }
    for (const std::string& socket : plan_.sockets) {
      if (view_of(socket).is_own) {
        add({"--ro-bind", socket, socket});
      }
    }
    for (const std::string& path : sealed_) {
      add({"--remount-ro", path});
    }
    add({"--chdir", input_.cwd});
    if (input_.filter_fd >= 0) {
      add({"--seccomp", std::to_string(input_.filter_fd)});
    } else {
      out_.weaknesses.emplace_back("there is no filter of system calls");
    }
    out_.weaknesses.emplace_back("places are found by their paths, a second time");
    return finished();
  }

 private:
  /// What is seen at a path and below it so far.
  struct View {
    bool is_own;
    BoxAccess access;
  };

  void add(const std::vector<std::string>& words) {
    out_.arguments.insert(out_.arguments.end(), words.begin(), words.end());
  }

  Result<BwrapArguments> finished() {
    if (std::ranges::any_of(out_.arguments, has_nul)) {
      return Error{ErrorCode::kInvalidArgument, "a path, variable or folder holds a NUL"};
    }
    if (out_.arguments.size() > BwrapArguments::kMax) {
      return Error{ErrorCode::kTooLarge,
                   "bubblewrap takes " + std::to_string(BwrapArguments::kMax) +
                       " arguments, and the plan needs " + std::to_string(out_.arguments.size()) +
                       "; the native box has no such limit"};
    }
    return std::move(out_);
  }

  void add_frame() {
    add({"--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--cap-drop",
         "ALL", "--clearenv"});
    if (!plan_.allow_nested) {
      add({"--disable-userns"});
    }
    for (const std::string& variable : input_.environment) {
      const auto equals = variable.find('=');
      add({"--setenv", variable.substr(0, equals),
           equals == std::string::npos ? "" : variable.substr(equals + 1)});
    }
    add({"--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/dev/shm"});
    views_[""] = {false, BoxAccess::kReadOnly};
    views_["/dev"] = {true, BoxAccess::kReadWrite};
    views_["/proc"] = {true, BoxAccess::kReadOnly};
  }

  void add_own_places() {
    for (const std::string& path : input_.own_places) {
      add({"--tmpfs", path});
      views_[path] = {true, BoxAccess::kReadWrite};
    }
    if (!plan_.home.empty() && !view_of(plan_.home).is_own) {
      add({"--tmpfs", plan_.home});
      views_[plan_.home] = {true, BoxAccess::kReadWrite};
    }
    for (const std::string& path : {plan_.home, plan_.scratch}) {
      if (!path.empty() && view_of(path).is_own && !views_.contains(path)) {
        add({"--dir", path});
      }
    }
  }

  const View& view_of(std::string_view path) const {
    for (std::string above(path);; above.resize(above.rfind('/'))) {
      if (const auto found = views_.find(above); found != views_.end()) {
        return found->second;
      }
    }
  }

  Status add_place(std::size_t index) {
    const BoxPlace& place = plan_.places[index];
    const std::string field = "places[" + std::to_string(index) + "]";
    if (!is_plain_absolute(place.path) || place.path == "/") {
      return Error{ErrorCode::kInvalidArgument,
                   quoted(place.path) + " is no canonical path below the root",
                   {},
                   field};
    }
    if (covers("/dev", place.path) || covers("/proc", place.path)) {
      return {};
    }
    if (place.type == FileType::kLink) {
      // A mount would follow it.
      out_.weaknesses.push_back("the link " + quoted(place.path) + " can be replaced");
      return {};
    }
    const View around = view_of(place.path);
    if (around.is_own) {
      if (place.access == BoxAccess::kReadOnly || place.access == BoxAccess::kReadWrite) {
        bind(place);
      }
      return {};
    }
    return add_over(place, around);
  }

  void bind(const BoxPlace& place) {
    const bool writes = place.access != BoxAccess::kReadOnly;
    add({writes ? "--bind" : "--ro-bind", place.path, place.path});
    views_[place.path] = {false, writes ? BoxAccess::kReadWrite : BoxAccess::kReadOnly};
  }

  Status add_over(const BoxPlace& place, const View& around) {
    const bool is_changed = around.access == BoxAccess::kReadWrite;
    switch (place.access) {
      case BoxAccess::kReadWrite:
        bind(place);
        return {};
      case BoxAccess::kReadOnly:
      case BoxAccess::kPin:
        if (is_changed) {
          bind(place);
        }
        return {};
      case BoxAccess::kHide:
        hide(place);
        return {};
      case BoxAccess::kAbsent:
        return is_changed ? hold(place) : Status();
    }
    return {};
  }

  void hide(const BoxPlace& place) {
    const bool is_directory = place.type == FileType::kDirectory;
    views_[place.path] = {is_directory, BoxAccess::kReadOnly};
    if (is_directory) {
      add({"--tmpfs", place.path});
      sealed_.push_back(place.path);
    } else {
      add({"--ro-bind", input_.closed_file, place.path});
    }
  }

  Status hold(const BoxPlace& place) {
    if (!input_.has_placeholders && input_.version < kSafeMountPoints) {
      return Error{ErrorCode::kUnavailable,
                   "bubblewrap before 0.12 follows links of the tree where it makes " +
                       quoted(place.path) + "; make the file before, or use a newer one",
                   "bwrap_too_old"};
    }
    views_[place.path] = {false, BoxAccess::kReadOnly};
    add({"--ro-bind", input_.blank_file, place.path});
    return {};
  }

  const BwrapInput& input_;
  const BoxPlan& plan_;
  BwrapArguments out_{};
  std::map<std::string, View, std::less<>> views_{};
  std::vector<std::string> sealed_{};
};

}  // namespace

std::string BwrapArguments::joined() const {
  std::string all;
  for (const std::string& argument : arguments) {
    all.append(argument).append(1, '\0');
  }
  return all;
}

Result<BwrapArguments> bwrap_arguments(const BwrapInput& input) {
  if (input.plan.staged) {
    return Error{ErrorCode::kInvalidArgument,
                 "bubblewrap holds no overlay here; plan a live box, or use the native one",
                 "staged", "staged"};
  }
  return Printer(input).print();
}

}  // namespace sandboxkit::gate
