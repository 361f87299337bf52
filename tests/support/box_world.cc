#include "tests/support/box_world.h"

#include <array>
#include <string_view>
#include <utility>

namespace sandboxkit::box_test {
namespace {

using enum GateOperation;

constexpr std::string_view kFiles[] = {
    "~/.ssh/id_rsa",
    "~/.ssh/known_hosts",
    "~/.bashrc",
    "~/.netrc",
    "~/notes.txt",
    "~/.aws/credentials",
    "~/.local/state/sandboxkit/gate/grants.json",
    "~/other/README",
    "~/proj-evil/f",
    "=/a",
    "=/tmp",
    "=/src/a.c",
    "=/src/deep/er/b.c",
    "=/src/server.pem",
    "=/README.md",
    "=/.env",
    "=/.env.example",
    "=/.git/config",
    "=/.git/HEAD",
    "=/.git/index",
    "=/.git/hooks/pre-commit.sample",
    "=/.git/refs/heads/main",
    "=/.git/objects/aa/bb",
    "=/.git/info/exclude",
    "=/sub/.git/config",
    "=/sub/.git/HEAD",
    "=/sub/.git/objects/cc/dd",
    "=/sub/.git/refs/heads/main",
    "=/sub/lib/c.c",
    "=/x/y/z/.git/config",
    "=/x/y/z/.git/HEAD",
    "=/mirror/HEAD",
    "=/mirror/objects/ee/ff",
    "=/mirror/refs/heads/main",
    "=/mirror/config",
    "=/half/HEAD",
    "=/half/objects/ee/ff",
    "=/half/config",
    "=/.vscode/settings.json",
    "=/worktree/.git",
    "=/.github/workflows/ci.yml",
    "=/.github/labels",
    "=/CLAUDE.md",
    "=/docs/guide.md",
    "=/pkg/.npmrc",
    "=/pkg/index.js",
    "=/.HUSKY/pre-push",
    "=/build/out.o",
    "$/data/x.csv",
    "$/data/deep/y.csv",
    "$/data/secret.key",
    "$/data/.env",
    "$/other/z.csv",
    "$/drop/in.txt",
    "=/own/keep.txt",
    "=/own/secret/key.txt",
};
constexpr std::string_view kDirectories[] = {"=/.git/info", "=/.git/refs/tags", "=/sub/.git/hooks",
                                             "=/empty",     "=/mirror/hooks",   "$/drop/box"};

/// Names that policies speak of, and some that nothing is said about.
constexpr std::string_view kNames[] = {
    ".env",
    ".env.local",
    ".env.example",
    ".mcp.json",
    ".bashrc",
    ".vscode",
    ".vscode/tasks.json",
    ".VSCode",
    ".claude/settings.json",
    ".git",
    ".git/hooks/pre-commit",
    ".git/config",
    ".git/config.worktree",
    ".git/commondir",
    ".git/info/attributes",
    ".GIT/hooks/x",
    ".g\u200cit/hooks/x",
    "config",
    "hooks/post-update",
    "HEAD",
    "objects",
    "refs",
    "server.key",
    "id_rsa",
    "AGENTS.md",
    ".github/workflows/new.yml",
    "plain.txt",
    "new/deep/f",
    "a b\tc",
    "Env",
    "pip.conf",
    ".gitmodules",
    "secret/key.txt",
    "secret/new",
};

std::string placed(const World& world, std::string_view name) {
  const std::string rest(name.substr(1));
  switch (name.front()) {
    case '~':
      return world.home() + rest;
    case '=':
      return world.tree() + rest;
    case '$':
      return world.shared() + rest;
    default:
      return std::string(name);
  }
}

class Questions {
 public:
  Questions(const World& world, std::uint32_t seed) : world_(world), random_(seed) {
    for (const Entry& entry : world.entries) {
      if (entry.kind != Kind::kDirectory) {
        paths_.push_back(entry.path);
      }
    }
    objects_ = paths_.size();
    for (const Entry& entry : world.entries) {
      if (entry.kind == Kind::kDirectory) {
        paths_.push_back(entry.path);
      }
    }
    for (const char* extra :
         {"", "~", "=", "$", "=/src", "=/.git", "=/.git/hooks", "=/sub", "=/sub/.git", "=/x",
          "=/x/y", "=/.github", "=/mirror", "~/.ssh", "$/data", "=/own", "=/own/secret"}) {
      paths_.push_back(*extra == '\0' ? world.base + "/home" : placed(world, extra));
    }
  }

  GateItem next() {
    constexpr std::array kAll = {kRead,   kList,    kStat,   kWrite, kWrite,  kCreate,
                                 kCreate, kCreate,  kDelete, kMeta,  kRename, kRename,
                                 kLink,   kSymlink, kExec,   kUnix};
    const GateOperation operation = kAll[pick(kAll.size())];
    GateItem item{.operation = operation, .target = target(operation)};
    if (operation == kLink) {
      // No file system has two names for a directory.
      item.target = paths_[pick(objects_)];
    }
    if (operation == kRename || operation == kLink) {
      item.to = pick(2) == 0 ? made() : existing();
    } else if (operation == kSymlink) {
      item.to = pick(2) == 0 ? world_.home() + "/.ssh" : "src";
    } else if (operation == kExec) {
      item.argv = {std::exchange(item.target, {})};
    }
    return item;
  }

 private:
  std::size_t pick(std::size_t count) { return random_() % count; }

  std::string existing() { return paths_[pick(paths_.size())]; }

  /// A name of the vocabulary in some directory, or beside some file.
  std::string made() {
    std::string directory = existing();
    const auto slash = directory.rfind('/');
    if (pick(2) == 0) {
      directory.resize(slash);
    } else if (directory.find('.', slash) != std::string::npos) {
      directory = world_.tree();
    }
    return directory + "/" + std::string(kNames[pick(std::size(kNames))]);
  }

  std::string target(GateOperation operation) {
    const bool needs_object = operation == kRead || operation == kList || operation == kStat ||
                              operation == kDelete || operation == kMeta || operation == kRename ||
                              operation == kLink || operation == kExec || operation == kUnix;
    std::string path = needs_object || pick(3) == 0 ? existing() : made();
    return mutated(std::move(path), needs_object);
  }

  std::string mutated(std::string path, bool needs_object) {
    const auto slash = path.rfind('/');
    switch (pick(8)) {
      case 0:
        return path.substr(0, slash) + "/./" + path.substr(slash + 1);
      case 1:
        return path.substr(0, slash) + "//" + path.substr(slash + 1);
      case 2:
        // Through a link of the tree to what is, perhaps, elsewhere.
        return world_.tree() + "/to-src/../" +
               (path.starts_with(world_.tree() + "/") ? path.substr(world_.tree().size() + 1)
                                                      : "a");
      case 3:
        if (!needs_object) {
          for (std::size_t i = slash + 1; i < path.size(); ++i) {
            path[i] = static_cast<char>(path[i] >= 'a' && path[i] <= 'z' ? path[i] - 32 : path[i]);
          }
        }
        return path;
      default:
        return path;
    }
  }

  const World& world_;
  std::mt19937 random_;
  std::vector<std::string> paths_{};
  /// How many of them, at the front, are no directories.
  std::size_t objects_ = 0;
};

}  // namespace

World world_at(const std::string& base) {
  World world{.base = base};
  for (const std::string_view file : kFiles) {
    world.entries.push_back({Kind::kFile, placed(world, file)});
  }
  for (const std::string_view directory : kDirectories) {
    world.entries.push_back({Kind::kDirectory, placed(world, directory)});
  }
  const auto add = [&](Kind kind, std::string_view path, std::string_view to) {
    world.entries.push_back({kind, placed(world, path), placed(world, to)});
  };
  world.entries.push_back({Kind::kProgram, placed(world, "=/run.sh")});
  add(Kind::kLink, "=/to-src", "src");
  add(Kind::kLink, "=/to-key", "~/.ssh/id_rsa");
  add(Kind::kLink, "=/to-home", "~");
  add(Kind::kLink, "=/to-shared", "$/data");
  add(Kind::kLink, "=/src/up", "../README.md");
  add(Kind::kLink, "=/.zed", "src");
  add(Kind::kLink, "~/to-tree", "=/src");
  add(Kind::kLink, "=/dangling", "nowhere");
  // Made before the session: another name of what is protected.
  add(Kind::kHardLink, "=/hl-start", "~/.bashrc");
  add(Kind::kHardLink, "=/hl-key", "~/.ssh/id_rsa");
  add(Kind::kHardLink, "=/src/hl-env", "=/.env");
  add(Kind::kHardLink, "=/hl-plain", "=/README.md");
  return world;
}

GateSession session_of(const World& world, const FileIdentity& tree) {
  return GateSession{.tree = world.tree(),
                     .tree_identity = tree,
                     .home = world.home(),
                     .agent = "agent",
                     .session = "s",
                     .state_dirs = {world.state()},
                     .own_files = {"/usr/bin/sandboxkit*"},
                     .program_dirs = {"/usr/bin"},
                     .box_is_active = true};
}

std::vector<Setting> settings_of(const World& world, const FileIdentity& tree) {
  const std::set<GateOperation> reads = {kRead, kList, kStat};
  const std::set<GateOperation> changes = {kRead,   kList, kStat,   kWrite, kCreate,
                                           kDelete, kMeta, kRename, kLink,  kSymlink};
  const auto permanent = [&](const char* id, std::string target, std::set<GateOperation> use) {
    return PermanentGrant{.id = id,
                          .use = {.operations = std::move(use), .target = std::move(target)},
                          .tree = world.tree(),
                          .tree_identity = tree,
                          .agent = "agent",
                          .needs_box = true,
                          .expires = std::nullopt};
  };
  const auto for_session = [&](const char* id, std::string target, std::set<GateOperation> use) {
    return SessionGrant{.id = id,
                        .use = {.operations = std::move(use), .target = std::move(target)},
                        .session = "s",
                        .agent = "agent",
                        .expires = std::nullopt};
  };
  std::vector<Setting> settings;
  settings.push_back({.name = "shipped", .policy = GatePolicy::shipped()});

  Setting granted{.name = "grants", .policy = GatePolicy::shipped()};
  granted.permanent = {permanent("p-read", world.shared() + "/data/**", reads),
                       permanent("p-late", world.shared() + "/other/**", reads),
                       permanent("p-forged", "~/.ssh/**", changes)};
  granted.permanent[1].expires = kTestNow - std::chrono::seconds{1};
  granted.granted = {for_session("s-drop", world.shared() + "/drop/**", changes),
                     for_session("s-file", world.shared() + "/other/z.csv", {kRead, kWrite}),
                     for_session("s-ci", "${tree}/.github/workflows/ci.yml", changes),
                     for_session("s-glob", "~/other/*", reads)};
  settings.push_back(std::move(granted));

  Setting owned{.name = "owner", .policy = GatePolicy::shipped()};
  owned.policy.denials.push_back(
      {.pattern = "${tree}/own/secret", .operations = changes, .source = "owner"});
  owned.policy.denials.push_back(
      {.pattern = "${tree}/docs/absent/below", .operations = changes, .source = "owner"});
  owned.policy.exceptions.push_back(
      {.pattern = "${tree}/.vscode/settings.json", .operations = changes, .source = "owner"});
  owned.policy.exceptions.push_back(
      {.pattern = "${tree}/.env", .operations = {kRead, kStat}, .source = "owner"});
  owned.policy.roots = {{"~/other", RootAccess::kReadWrite},
                        {world.shared() + "/data", RootAccess::kReadOnly},
                        {world.tree() + "/build", RootAccess::kReadOnly}};
  settings.push_back(std::move(owned));
  return settings;
}

std::vector<GateItem> questions(const World& world, std::uint32_t seed, std::size_t count) {
  Questions from(world, seed);
  std::vector<GateItem> items;
  while (items.size() < count) {
    items.push_back(from.next());
  }
  return items;
}

}  // namespace sandboxkit::box_test
