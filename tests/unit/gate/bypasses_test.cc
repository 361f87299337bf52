// The known ways around such gates, section 3 of the gate's design, as far as a pure decision
// answers them. Each is a case of its own, so that one that opens again names itself.

#include "tests/unit/gate/world.h"

#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace sandboxkit;             // NOLINT(google-build-using-namespace)
using namespace sandboxkit::gate_test;  // NOLINT(google-build-using-namespace)

namespace {

struct Row {
  GateItem asked;
  std::string expected;
};

void check(const std::vector<Row>& rows, const Question& with = {}) {
  for (const Row& row : rows) {
    CAPTURE(row.asked.target);
    CAPTURE(row.asked.to);
    CAPTURE(row.asked.command);
    const GateDecision decision = decide(with, {row.asked});
    CHECK_MESSAGE(told(decision) == row.expected, explain(decision));
  }
}

const std::string kInTree = "allow work_tree in_root";
const std::string kAsked = "ask ask not_granted";
const std::string kOpaque = "ask ask opaque";
const std::string kDenied = "deny mandatory_denial denied";
const std::string kHolds = "deny mandatory_denial contains_denied";
const std::string kSame = "deny mandatory_denial same_object";
const std::string kBare = "deny mandatory_denial bare_repository";
const std::string kLocked = "deny hardlock denied";
const std::string kMagic = "deny hardlock magic_link";
const std::string kPrivilege = "deny hardlock privilege";
const std::string kGranted = "allow permanent_grant granted";

/// A machine without a box on which `git status` is granted.
Question git_status_granted() {
  Question with;
  with.box = false;
  with.permanent = {permanent(with.eyes, {.operations = {Op::kExec}, .argv = {"git", "status"}})};
  return with;
}

}  // namespace

TEST_CASE("B1: dots and slashes make no other path") {
  check({{item(Op::kRead, "src/../../.ssh/id_rsa"), kDenied},
         {item(Op::kRead, "/home/u//proj/./../.ssh//id_rsa"), kDenied},
         {item(Op::kRead, "/home/u/.ssh/."), kDenied},
         {item(Op::kWrite, ".git/./hooks/../hooks//x"), kDenied},
         {item(Op::kWrite, "src/../../other"), kAsked},
         {item(Op::kRead, "./src/.././src//a.c"), kInTree}});
}

TEST_CASE("B2: a name that begins like a root, a denial or a grant is none of them") {
  Question with;
  with.permanent = {permanent(with.eyes, {.operations = {Op::kRead}, .target = "/srv/data/**"})};
  check({{item(Op::kRead, "/srv/data/x.csv"), kGranted},
         {item(Op::kRead, "/srv/database"), kAsked},
         {item(Op::kWrite, "/home/u/proj-evil/f"), kAsked},
         {item(Op::kRead, "/home/u/.sshx/notes"), kAsked}},
        with);
}

TEST_CASE("B3: a link is judged by every place that it leads through") {
  Question with;
  with.eyes.link(kTree + "/one", "two");
  with.eyes.link(kTree + "/two", "/home/u/.ssh");
  with.eyes.link(kTree + "/out", "/srv/x");
  with.eyes.link("/srv/back", kTree + "/src/a.c");
  check({{item(Op::kRead, "one/id_rsa"), kDenied},
         {item(Op::kList, "one"), kDenied},
         {item(Op::kWrite, "out/f"), kAsked},
         {item(Op::kRead, "/srv/back"), kAsked}},
        with);
}

TEST_CASE("B5: another hard link of a protected file is as protected, or what cannot be told is") {
  Question with;
  with.eyes.hard_link("/home/u/.bashrc", kTree + "/hl");
  with.eyes.hard_link("/home/u/.ssh/id_rsa", kTree + "/notes");
  check({{item(Op::kWrite, "hl"), kSame},
         {item(Op::kRead, "notes"), kDenied},
         {item(Op::kLink, "/home/u/.ssh/id_rsa", "x"), kDenied}},
        with);
}

TEST_CASE(
    "B6: case and other letters for the same make no other name for a denial, but for a grant") {
  Question with;
  with.permanent = {permanent(with.eyes, {.operations = {Op::kRead}, .target = "/srv/Data/**"})};
  check({{item(Op::kWrite, ".GIT/Hooks/x"), kDenied},
         {item(Op::kCreate, ".cLaUde/settings.json"), kDenied},
         {item(Op::kRead, "/home/u/.SSH/id_rsa"), kDenied},
         {item(Op::kWrite, ".g\u200cit/config"), kDenied},
         {item(Op::kWrite, ".\uff27\uff29\uff34/config"), kDenied},
         {item(Op::kRead, "/srv/data/x.csv"), kAsked},
         {item(Op::kRead, "/srv/Data/x.csv"), kGranted}},
        with);
}

TEST_CASE("B7: no way through the kernel's own links") {
  check({{item(Op::kRead, "/proc/self/root/etc/hosts"), kMagic},
         {item(Op::kRead, "/proc/thread-self/cwd/x"), kMagic},
         {item(Op::kRead, "/proc/1/fd/3"), kMagic},
         {item(Op::kRead, "/proc/self/task/7/root/x"), kMagic},
         {item(Op::kRead, "/dev/fd/3"), kMagic},
         {item(Op::kRead, "../../../proc/self/map_files/x"), kMagic}});
}

TEST_CASE("B8: a protected directory that is mounted elsewhere is the same directory") {
  Question with;
  with.eyes.mount("/home/u/.aws", kTree + "/bound");
  check({{item(Op::kRead, "bound/credentials"), kSame}, {item(Op::kList, "bound"), kSame}}, with);
}

TEST_CASE("B9: what is above something protected is neither moved nor taken away") {
  check({{item(Op::kRename, ".git", ".g2"), kHolds},
         {item(Op::kRename, "sub", "s2"), kHolds},
         {item(Op::kDelete, "sub"), kHolds},
         {item(Op::kRename, kTree, "/home/u/p2"), kHolds},
         {item(Op::kDelete, "/home/u"), "deny hardlock contains_denied"},
         {item(Op::kRename, "src", "moved"), kInTree}});
}

TEST_CASE("B10: what is not there yet is made by no way and under no spelling") {
  for (const char* name : {".mcp.json", ".MCP.json", ".envrc", ".vscode", ".husky", ".claude"}) {
    check({{item(Op::kCreate, name), kDenied},
           {item(Op::kWrite, name), kDenied},
           {item(Op::kRename, "tmp", name), kDenied},
           {item(Op::kLink, "a", name), kDenied}});
    CHECK(decide({}, {item(Op::kSymlink, name, "x")}).answer == GateAnswer::kDeny);
  }
}

TEST_CASE("B11: a new repository, a submodule and a bare one get no hooks and no configuration") {
  Question with;
  with.eyes.file(kTree + "/bare/HEAD");
  with.eyes.directory(kTree + "/bare/objects");
  with.eyes.directory(kTree + "/bare/refs");
  check({{item(Op::kCreate, "new/.git/hooks/x"), kDenied},
         {item(Op::kCreate, "new/.git/config"), kDenied},
         {item(Op::kCreate, ".git/modules/lib/hooks/post-checkout"), kDenied},
         {item(Op::kCreate, "bare/config"), kBare},
         {item(Op::kCreate, "bare/hooks/update"), kBare}},
        with);
}

TEST_CASE("case 29, B12: of a worktree's common folder the hooks and configuration are denied") {
  // Its pointer is not followed, so that the rest of that folder is asked for and not allowed.
  Question with;
  with.eyes.file(kTree + "/.git");
  with.eyes.directory("/home/u/main/.git/worktrees/w");
  check({{item(Op::kWrite, "/home/u/main/.git/hooks/post-commit"), kDenied},
         {item(Op::kWrite, "/home/u/main/.git/config"), kDenied},
         {item(Op::kWrite, "/home/u/main/.git/worktrees/w/commondir"), kDenied},
         {item(Op::kWrite, "/home/u/main/.git/objects/ab"), kAsked},
         {item(Op::kWrite, ".git"), kDenied}},
        with);
}

TEST_CASE("B13: all that git runs or follows is denied, besides hooks and configuration") {
  for (const char* name :
       {".git/config.worktree", ".git/info/attributes", ".git/commondir", ".git/gitdir",
        ".git/modules/a/config", ".git/modules/a/b/hooks/x", ".git/worktrees/w/config.worktree",
        ".git/worktrees/w/gitdir", ".gitmodules", "deep/.gitconfig"}) {
    check({{item(Op::kWrite, name), kDenied}});
  }
}

TEST_CASE("B14: no variable brings code along with a command that was granted") {
  const Question with = git_status_granted();
  check({{command("git status"), kGranted},
         {command("LD_PRELOAD=/tmp/x.so git status"), kLocked},
         {command("BASH_ENV=/tmp/x git status"), kLocked}},
        with);
  for (const char* variable : {"NODE_OPTIONS", "GIT_SSH_COMMAND", "GIT_CONFIG_COUNT",
                               "GIT_EXTERNAL_DIFF", "PYTHONSTARTUP", "PERL5OPT", "PAGER"}) {
    check({{command(std::string(variable) + "=x git status"), kAsked},
           {command(std::string("env ") + variable + "=x git status"), kAsked}},
          with);
  }
}

TEST_CASE("B15: what stands behind a separator is a command by itself") {
  for (const char* text : {"git status; rm x", "git status && rm x", "git status || rm x",
                           "git status | rm x", "git status\nrm x"}) {
    check({{command(text), kAsked}}, git_status_granted());
  }
  check({{command("git status & rm x"), kOpaque}}, git_status_granted());
  std::string long_one = "git status";
  for (int i = 0; i < 60; ++i) {
    long_one += " && git status";
  }
  // However many go before it, the last one counts.
  CHECK(decide(git_status_granted(), {command(long_one + " && rm x")}).answer !=
        GateAnswer::kAllow);
}

TEST_CASE("B16: what the shell makes up is covered by no grant") {
  for (const char* text : {"git status $(id)", "git status `id`", "git status <(id)",
                           "git status >(id)", "git status <<x\nx", "git status ${x@P}",
                           "{ git status; }", "git$IFS$9status", "git status \"$(id)\""}) {
    check({{command(text), kOpaque}}, git_status_granted());
  }
}

TEST_CASE("B17: a program that only starts another is looked through, and granted by no front") {
  for (const char* text :
       {"sudo ls", "env sudo ls", "nice -n 5 sudo ls", "timeout 5 sudo ls", "sh -c 'sudo ls'",
        "ls | xargs sudo rm", "find . -exec sudo rm {} ';'", "nohup bash -c 'env sudo ls'"}) {
    check({{command(text), kPrivilege}});
  }
  const PermissionGate gate = gate_of({});
  for (const char* runner : {"sudo", "env", "xargs", "find", "nice", "timeout", "sh", "ssh",
                             "docker", "npx", "git", "tar", "rg"}) {
    CAPTURE(std::string(runner));
    CHECK_FALSE(
        gate.check_new({.operations = {Op::kExec}, .argv = {runner}, .argv_is_prefix = true})
            .has_value());
  }
}

TEST_CASE("B18: what a shell does by itself is a command too, and lasts for no other request") {
  for (const char* text : {"export X=1; git status", "alias git=rm; git status", "eval git status",
                           "source x; git status"}) {
    CHECK(decide(git_status_granted(), {command(text)}).answer != GateAnswer::kAllow);
  }
  // A folder that one item goes to is not where the next one is judged.
  const auto both = decide({}, {command("cd /home/u"), command("cat .ssh/id_rsa")});
  CHECK(both.answer == GateAnswer::kAllow);
  CHECK(told(decide({}, {command("cd /home/u && cat .ssh/id_rsa")})) == kDenied);
}

TEST_CASE("B19: a redirection is a write of its target") {
  check({{command("git status > ~/.bashrc"), kDenied},
         {command("git status >> .git/hooks/x"), kDenied},
         {command("git status 2> .envrc"), kDenied},
         {command("git status < ~/.ssh/id_rsa"), kDenied},
         {command("git status > /srv/out"), kAsked}},
        git_status_granted());
}

TEST_CASE("B20: a grant of words is for these words") {
  check({{command("git status"), kGranted},
         {command("git status --porcelain"), kAsked},
         {command("git"), kAsked},
         {command("git 'status; rm x'"), kAsked},
         {command("git stat*"), kAsked}},
        git_status_granted());
}

TEST_CASE("B24: sockets that command the machine are closed, whatever was granted") {
  Question with;
  for (const char* path : {"/var/run/docker.sock", "/run/docker.sock", "/run/podman/podman.sock",
                           "/run/containerd/containerd.sock", "/run/libvirt/libvirt-sock"}) {
    with.permanent = {permanent(with.eyes, {.operations = {Op::kUnix}, .target = path})};
    check({{item(Op::kUnix, path), kLocked}}, with);
  }
  check({{command("docker ps"), kLocked}});
}

TEST_CASE("B25: an agent's and a desktop's socket are asked for, one by one; the bus is closed") {
  check({{item(Op::kUnix, "/tmp/ssh-1/agent.1"), kAsked},
         {item(Op::kUnix, "/tmp/.X11-unix/X0"), kAsked},
         {item(Op::kUnix, "/run/user/1000/wayland-0"), kAsked},
         {item(Op::kUnix, "/run/user/1000/bus"), kLocked},
         {item(Op::kUnix, "/run/user/1000/systemd/private"), kLocked},
         {item(Op::kEnv, "SSH_AUTH_SOCK"), kDenied}});
}

TEST_CASE("B31: secrets of the environment and of files beside the code stay outside") {
  check({{item(Op::kEnv, "AWS_SECRET_ACCESS_KEY"), kDenied},
         {item(Op::kEnv, "DATABASE_URL"), kDenied},
         {item(Op::kEnv, "gh_token"), kDenied},
         {item(Op::kEnv, "SOMETHING_ELSE"), kAsked},
         {item(Op::kRead, ".env"), kDenied},
         {item(Op::kRead, "sub/.env.production"), kDenied},
         {command("cat .env"), kDenied}});
}

TEST_CASE("B32: no list allows no host, and a host is what it is whatever it is called") {
  Question with;
  check({{item(Op::kConnect, "x.com:443"), kAsked}}, with);
  with.policy.egress = *EgressPolicy::create(std::vector<std::string>{}, {});
  check({{item(Op::kConnect, "x.com:443"), kAsked}}, with);
  with.policy.egress = *EgressPolicy::create(std::vector<std::string>{"*.example.com"}, {});
  check({{item(Op::kConnect, "a.example.com:443"), "allow permanent_grant egress_allows"},
         {item(Op::kConnect, std::string("evil.test\0.example.com:443", 26)),
          "deny hardlock malformed"},
         {item(Op::kConnect, "evil.test#.example.com:443"), "deny hardlock malformed"},
         {item(Op::kConnect, "0xa9fea9fe:80"), "deny hardlock malformed"},
         {item(Op::kConnect, "[::ffff:169.254.169.254]:80"), "deny hardlock metadata_address"}},
        with);
}

TEST_CASE("B44: a search for protected names that is not complete denies what it was for") {
  Question with;
  with.eyes.hard_link(kTree + "/src/a.c", kTree + "/twice");
  check({{item(Op::kRead, "twice"), kInTree}}, with);
  with.eyes.walk_fails = true;
  check({{item(Op::kRead, "twice"), "deny hardlock cannot_see"},
         {item(Op::kDelete, "src"), "deny hardlock cannot_see"}},
        with);
}
