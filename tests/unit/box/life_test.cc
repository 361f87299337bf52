#include "sandboxkit/box.h"

#include "world.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sandboxkit {
namespace {

using namespace box_test;
namespace fs = std::filesystem;
using std::chrono::seconds;

constexpr seconds kLimit{30};

std::string read_until(int fd, const std::string& wanted) {
  std::string out;
  std::array<char, 4096> buffer{};
  pollfd ready{fd, POLLIN, 0};
  while (out.find(wanted) == std::string::npos && poll(&ready, 1, 30'000) == 1) {
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got <= 0) {
      break;
    }
    out.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return out;
}

TEST_CASE("this machine gives a whole box") {
  const BoxKernel kernel = probe_box();
  std::string problems;
  for (const std::string& problem : kernel.problems) {
    problems += problem + "; ";
  }
  INFO(problems);
  CHECK(kernel.strength() != BoxStrength::kNone);
  CHECK(kernel.overlay);
  BoxKernel none;
  CHECK(none.strength() == BoxStrength::kNone);
  BoxKernel partial = kernel;
  partial.landlock_abi = 0;
  CHECK(partial.strength() == BoxStrength::kPartial);
}

TEST_CASE("a command's end is the box's: code, signal, and whatever it started") {
  const World world;
  CHECK(run(world.plan(), shell(world, "exit 7"), world.options()).end->exit_code == 7);
  const Ran killed = run(world.plan(), shell(world, "kill -9 $$"), world.options());
  CHECK(killed.end->signal == SIGKILL);
  // A child that stays behind holds the pipe: its end shows that nothing outlives the command.
  const Ran left = run(world.plan(), shell(world, "sleep 1000 & echo $$"), world.options());
  CHECK(left.end->exit_code == 0);
  CHECK(left.output == "2\n");
}

TEST_CASE("a signal goes to the command's group, and a box that goes takes all with it") {
  const World world;
  int ends[2];
  REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
  const io::Fd reading(ends[0]);
  io::Fd writing(ends[1]);
  BoxCommand command = shell(world, "trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done");
  command.descriptors = {{writing.get(), 1}};
  auto box = Box::start(world.plan(), command, world.options());
  REQUIRE(box);
  CHECK(read_until(reading.get(), "ready") == "ready\n");
  CHECK(!*(*box)->wait(std::chrono::milliseconds(0)));
  REQUIRE((*box)->signal(SIGTERM));
  CHECK((*(*box)->wait(kLimit))->exit_code == 3);

  box = Box::start(world.plan(), command, world.options());
  REQUIRE(box);
  writing.reset();
  CHECK(read_until(reading.get(), "ready") == "ready\n");
  box->reset();
  CHECK(read_until(reading.get(), "more").empty());  // The end of the last process.
}

TEST_CASE("what cannot be started says why, and leaves nothing") {
  const World world;
  const auto refusal = [&](const BoxPlan& plan, const BoxCommand& command) {
    const Ran ran = run(plan, command, world.options());
    REQUIRE(!ran.end);
    return ran.end.error();
  };
  BoxCommand missing = shell(world, "");
  missing.argv = {"no-such-program"};
  CHECK(refusal(world.plan(), missing).reason == "command_not_found");
  BoxCommand forbidden = shell(world, "");
  forbidden.argv = {world.tree() + "/src/a.c"};
  CHECK(refusal(world.plan(), forbidden).reason == "command_not_executable");
  BoxCommand elsewhere = shell(world, "");
  elsewhere.cwd = world.home() + "/.ssh";
  CHECK(refusal(world.plan(), elsewhere).reason == "cwd_not_found");

  BoxPlan other = world.plan();
  other.places[3].identity.inode += 1;
  CHECK(refusal(other, shell(world, "true")).reason == "box_place_changed");
  CHECK(refusal(other, shell(world, "true")).field == "places[3]");
  BoxPlan twice = world.plan();
  twice.places.push_back(twice.places[0]);
  CHECK(refusal(twice, shell(world, "true")).message.find("is there twice") != std::string::npos);
  BoxPlan late = world.plan();
  late.places.push_back(world.place(world.home(), BoxAccess::kReadWrite));
  CHECK(refusal(late, shell(world, "true")).field == "places[10]");
  BoxPlan there = world.plan();
  there.places.push_back({.path = world.tree() + "/src/a.c", .access = BoxAccess::kAbsent});
  CHECK(refusal(there, shell(world, "true")).reason == "box_place_changed");

  BoxOptions within = world.options();
  within.state_dir = world.tree() + "/state";
  CHECK(run(world.plan(), shell(world, "true"), within).end.error().field == "state_dir");
  fs::create_directory(world.root() + "/open");
  fs::permissions(world.root() + "/open", fs::perms::all);
  within.state_dir = world.root() + "/open";
  CHECK(run(world.plan(), shell(world, "true"), within).end.error().reason == "box_state");
  CHECK(!exists(world.tree() + "/.mcp.json"));
  CHECK(fs::is_empty(world.root() + "/open"));
}

// The gate's bypass B36.
// B36.
TEST_CASE("the launcher follows no link that somebody put in its way") {
  const World world;
  const auto reason = [&](const BoxPlan& plan) {
    const Ran ran = run(plan, shell(world, "true"), world.options());
    return ran.end ? "it ran" : ran.end.error().reason;
  };
  // A name that should be held, below a link that leads out: nothing is made there.
  fs::create_directory_symlink(world.outside(), world.tree() + "/evil");
  BoxPlan planted = world.plan();
  planted.places.push_back({.path = world.tree() + "/evil/planted", .access = BoxAccess::kAbsent});
  CHECK(reason(planted) == "box_state");
  CHECK(!exists(world.outside() + "/planted"));

  // A place that became a link after it was judged.
  BoxPlan swapped = world.plan();
  swapped.places.push_back(world.place(world.tree() + "/src", BoxAccess::kReadOnly));
  fs::rename(world.tree() + "/src", world.tree() + "/moved");
  fs::create_directory_symlink(world.home() + "/.ssh", world.tree() + "/src");
  CHECK(reason(swapped) == "box_place_changed");

  // The tree itself.
  const BoxPlan whole = world.plan();
  fs::rename(world.tree(), world.home() + "/old");
  fs::create_directory_symlink(world.home() + "/.ssh", world.tree());
  BoxCommand command = shell(world, "true");
  command.cwd = "/";
  const Ran ran = run(whole, command, world.options());
  REQUIRE(!ran.end);
  CHECK(!exists(world.home() + "/.ssh/.mcp.json"));
}

// The gate's bypass B45.
// B45.
TEST_CASE("placeholders go with the last run that holds them, and after a run that was killed") {
  const World world;
  const std::string held = world.tree() + "/.mcp.json";
  const pid_t pid = fork();
  if (pid == 0) {
    const auto box = Box::start(world.plan(), shell(world, "sleep 1000"), world.options());
    if (box) {
      kill(getpid(), SIGKILL);
    }
    _exit(1);
  }
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  REQUIRE(WIFSIGNALED(status));
  CHECK(exists(held));
  BoxPlan plain = world.plan();
  plain.places.resize(1);
  CHECK(run(plain, shell(world, "test ! -e .mcp.json"), world.options()).end->exit_code == 0);
  CHECK(!exists(held));

  auto first = Box::start(world.plan(), shell(world, "read x"), world.options());
  REQUIRE(first);
  auto second = Box::start(world.plan(), shell(world, "read x"), world.options());
  REQUIRE(second);
  first->reset();
  CHECK(exists(held));
  second->reset();
  CHECK(!exists(held));
}

// B28.
TEST_CASE("a terminal is the box's own: size, job control, and no way to the caller's") {
  const World world;
  BoxCommand command = shell(world,
                             "stty size; tty; trap 'stty size; exit 4' WINCH; echo ready; "
                             "while :; do sleep 0.01; done");
  command.terminal = BoxTerminalSize{100, 40};
  auto box = Box::start(world.plan(), command, world.options());
  REQUIRE_MESSAGE(box, (box ? "" : box.error().message));
  const int terminal = (*box)->terminal();
  const std::string begin = read_until(terminal, "ready");
  CHECK(begin.find("40 100") != std::string::npos);
  CHECK(begin.find("/dev/pts/0") != std::string::npos);
  REQUIRE((*box)->resize({120, 50}));
  CHECK(read_until(terminal, "50 120").find("50 120") != std::string::npos);
  CHECK((*(*box)->wait(kLimit))->exit_code == 4);

  command.argv = {"cat"};
  box = Box::start(world.plan(), command, world.options());
  REQUIRE(box);
  CHECK(write((*box)->terminal(), "x\n", 2) == 2);
  // The terminal's echo, and cat's: it runs.
  CHECK(read_until((*box)->terminal(), "x\r\nx\r\n") == "x\r\nx\r\n");
  CHECK(write((*box)->terminal(), "\x03", 1) == 1);
  CHECK((*(*box)->wait(kLimit))->signal == SIGINT);
}

TEST_CASE("loopback is the box's own, and its listener is served by the host") {
  const World world;
  BoxOptions options = world.options();
  options.listener_port = 3128;
  BoxCommand command =
      shell(world, "exec 3<>/dev/tcp/127.0.0.1/3128; read x <&3; test \"$x\" = hi");
  command.argv[0] = "bash";
  auto box = Box::start(world.plan(), command, options);
  REQUIRE(box);
  const io::Fd listener((*box)->take_listener());
  REQUIRE(listener);
  CHECK((*box)->take_listener() == -1);
  const io::Fd client(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  REQUIRE(client);
  CHECK(write(client.get(), "hi\n", 3) == 3);
  CHECK((*(*box)->wait(kLimit))->exit_code == 0);
}

TEST_CASE("three hundred protections hold, in a tree that is hidden elsewhere") {
  const World world;
  BoxPlan plan = world.plan();
  for (int i = 0; i < 300; ++i) {
    const std::string path = world.tree() + "/f" + std::to_string(i);
    write_text(path, "kept\n");
    plan.places.push_back(world.place(path, BoxAccess::kReadOnly));
  }
  const Ran ran = run(plan, shell(world, "touch f* 2>&1 | grep -c Read-only"), world.options());
  CHECK(ran.output == "300\n");
  CHECK(text_of(world.tree() + "/f299") == "kept\n");
}

TEST_CASE("a link is a place of its own name: kept, or hidden, and never followed") {
  const World world;
  write_text(world.tree() + "/target", "kept\n");
  fs::create_symlink("target", world.tree() + "/kept");
  fs::create_symlink("target", world.tree() + "/hidden");
  BoxPlan plan = world.plan();
  plan.places.push_back(world.place(world.tree() + "/kept", BoxAccess::kReadOnly));
  plan.places.push_back(world.place(world.tree() + "/hidden", BoxAccess::kHide));
  const Ran ran =
      run(plan,
          shell(world,
                "cat kept; readlink hidden; cat hidden 2>/dev/null; for l in kept hidden; do "
                "rm $l 2>/dev/null && echo gone; mv made $l 2>/dev/null && echo replaced; "
                "done; echo x >> target"),
          world.options());
  CHECK(ran.output == "kept\n");
  CHECK(text_of(world.tree() + "/target") == "kept\nx\n");
  CHECK(fs::is_symlink(world.tree() + "/hidden"));
}

TEST_CASE("a hidden directory above the box's own places lets them stand") {
  const World world;
  BoxPlan plan = world.plan();
  plan.places.insert(plan.places.begin(), world.place("/var", BoxAccess::kHide));
  const Ran ran = run(plan,
                      shell(world,
                            "ls /var; echo x > /var/tmp/x && cat /var/tmp/x; "
                            "touch /var/y 2>/dev/null || echo closed"),
                      world.options());
  CHECK(ran.output == "tmp\nx\nclosed\n");
}

TEST_CASE("hidden directories are empty but for what is shown below them") {
  const World world;
  write_text(world.tree() + "/secret/pub/file", "shown\n");
  write_text(world.tree() + "/secret/key", "hidden\n");
  BoxPlan plan = world.plan();
  plan.places.push_back(world.place(world.tree() + "/secret", BoxAccess::kHide));
  plan.places.push_back(world.place(world.tree() + "/secret/pub", BoxAccess::kReadWrite));
  const Ran ran = run(plan,
                      shell(world,
                            "cat secret/pub/file && echo x >> secret/pub/file; ls secret; "
                            "touch secret/new 2>/dev/null || echo closed"),
                      world.options());
  CHECK(ran.output == "shown\npub\nclosed\n");
  CHECK(text_of(world.tree() + "/secret/pub/file") == "shown\nx\n");
}

TEST_CASE("a granted socket connects, and no other of the host's") {
  const World world;
  // Where a path is short and boxes hide it.
  std::string folder = "/tmp/skb-XXXXXX";
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  std::vector<io::Fd> sockets;
  for (const char* name : {"/granted", "/other"}) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (folder + name).copy(address.sun_path, sizeof address.sun_path - 1);
    sockets.emplace_back(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(bind(sockets.back().get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(listen(sockets.back().get(), 4) == 0);
  }
  BoxPlan plan = world.plan();
  plan.sockets = {folder + "/granted"};
  const std::string ask =
      "import socket,sys\nfor p in sys.argv[1:]:\n s=socket.socket(socket.AF_UNIX)\n"
      " print(s.connect_ex(p))";
  BoxCommand command = shell(world, "");
  command.argv = {"python3", "-c", ask, folder + "/granted", folder + "/other"};
  CHECK(run(plan, command, world.options()).output == "0\n2\n");
  fs::remove_all(folder);
}

TEST_CASE("a sandbox in the box needs the plan's word") {
  const World world;
  BoxPlan plan = world.plan();
  const BoxCommand command = shell(world, "unshare -Ur true 2>/dev/null && echo nested");
  CHECK(run(plan, command, world.options()).output.empty());
  plan.allow_nested = true;
  CHECK(run(plan, command, world.options()).output == "nested\n");
}

// Cases 89 and 90.
TEST_CASE("a grant reaches a box that runs, and what is taken back cannot be changed any more") {
  const World world;
  write_text(world.root() + "/later/file", "of the host\n");
  write_text(world.root() + "/secret/below/file", "of the host\n");
  for (const char* name : {"/later/.env", "/later/.git/config", "/later/kept"}) {
    write_text(world.root() + name, "of the host\n");
  }
  BoxPlan plan = world.plan();
  plan.places.push_back(world.place(world.root() + "/later", BoxAccess::kHide));
  plan.places.push_back(world.place(world.root() + "/secret", BoxAccess::kHide));
  BoxOptions options = world.options();
  options.takes_grants = true;
  int in[2];
  int out[2];
  REQUIRE(pipe2(in, O_CLOEXEC) == 0);
  REQUIRE(pipe2(out, O_CLOEXEC) == 0);
  const io::Fd box_in(in[0]);
  const io::Fd ask(in[1]);
  const io::Fd answers(out[0]);
  const io::Fd box_out(out[1]);
  BoxCommand command =
      shell(world, "while read f; do (echo x >> $f) 2>/dev/null && echo yes || echo no; done");
  command.descriptors = {{box_in.get(), 0}, {box_out.get(), 1}};
  auto box = Box::start(plan, command, options);
  REQUIRE_MESSAGE(box, (box ? "" : box.error().message));
  CHECK((*box)->pid() > 0);
  const auto writes = [&](const std::string& path) {
    const std::string line = path + "\n";
    REQUIRE(write(ask.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size()));
    return read_until(answers.get(), "\n");
  };
  const auto give = [&](const std::vector<BoxPlace>& places) { return (*box)->grant(places); };
  const std::string file = world.root() + "/later/file";
  const std::string below = world.root() + "/secret/below";
  CHECK(writes(file) == "no\n");
  REQUIRE(give({world.place(world.root() + "/later", BoxAccess::kReadWrite),
                world.place(world.root() + "/later/.env", BoxAccess::kHide),
                world.place(world.root() + "/later/.git", BoxAccess::kHide),
                world.place(world.root() + "/later/kept", BoxAccess::kReadOnly)}));
  CHECK(writes(file) == "yes\n");
  CHECK(text_of(file) == "of the host\nx\n");
  for (const char* name : {"/later/.env", "/later/.git/config", "/later/.git/new", "/later/kept"}) {
    CAPTURE(name);
    CHECK(writes(world.root() + name) == "no\n");
  }
  // Into a directory that is hidden, where nothing can be made.
  CHECK(writes(below + "/file") == "no\n");
  REQUIRE(give({world.place(below, BoxAccess::kReadWrite)}));
  CHECK(writes(below + "/file") == "yes\n");
  CHECK(writes(world.root() + "/secret/new") == "no\n");

  REQUIRE((*box)->revoke(world.root() + "/later"));
  CHECK(writes(file) == "no\n");
  CHECK((*box)->revoke(world.root() + "/later").error().code == ErrorCode::kNotFound);
  BoxPlace other = world.place(below, BoxAccess::kReadOnly);
  other.identity.inode += 1;
  CHECK(give({other}).error().reason == "box_place_changed");
  CHECK(give({{.path = "/proc/1", .access = BoxAccess::kReadWrite}}).error().field ==
        "places[0].path");
  const BoxPlace elsewhere = world.place(file, BoxAccess::kHide);
  CHECK(give({world.place(below, BoxAccess::kReadOnly), elsewhere}).error().field ==
        "places[1].path");
  CHECK(writes(world.outside() + "/file") == "no\n");
  box->reset();
  const auto plain = Box::start(world.plan(), shell(world, "true"), world.options());
  REQUIRE(plain);
  const std::vector<BoxPlace> late{world.place(below, BoxAccess::kReadOnly)};
  CHECK((*plain)->grant(late).error().code == ErrorCode::kConflict);
}

TEST_CASE("a home of the host's own folder keeps what is written there") {
  const World world;
  BoxOptions options = world.options();
  options.home_folder = world.root() + "/kept";
  fs::create_directory(options.home_folder);
  const std::string text = "ls -A $0; echo x > $0/note; cat src/a.c";
  BoxCommand command = shell(world, text);
  command.argv.push_back(world.home());
  CHECK(run(world.plan(), command, options).output == "proj\nof the host\n");
  CHECK(text_of(options.home_folder + "/note") == "x\n");
  CHECK(text_of(world.home() + "/notes") == "of the host\n");
}

// Case 93 of the gate's design.
TEST_CASE("a staged tree leaves the host's alone, and protects the same") {
  const World world;
  BoxPlan plan = world.plan();
  plan.staged = true;
  const Ran ran = run(plan,
                      shell(world,
                            "echo new > src/a.c; echo y > made; mkdir -p new/.git/hooks; "
                            "echo evil > new/.git/hooks/x; (echo z > hl) 2>/dev/null; "
                            "for f in .git/config .git/hooks/x sub/.git/hooks/x .mcp.json; do "
                            "(echo bad > $f) 2>/dev/null && echo $f; done; "
                            "mv .git .g 2>/dev/null && echo moved; cat src/a.c"),
                      world.options());
  CHECK(ran.output == "new\n");
  CHECK(text_of(world.tree() + "/src/a.c") == "of the host\n");
  CHECK(text_of(world.home() + "/.bashrc") == "of the host\n");
  for (const char* name : {"/made", "/new", "/.mcp.json"}) {
    CHECK(!exists(world.tree() + name));
  }
}

}  // namespace
}  // namespace sandboxkit
