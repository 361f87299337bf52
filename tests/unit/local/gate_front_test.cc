#include "local/gate_front.h"

#include "tests/unit/guest/support.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/socket.h>

using namespace sandboxkit;                  // NOLINT(google-build-using-namespace)
using namespace sandboxkit::guest::testing;  // NOLINT(google-build-using-namespace)
using local::GateFront;

namespace {

GateDecision answer(GateAnswer what, const GateRequest& request,
                    GateBranch branch = GateBranch::kAsk) {
  GateDecision decision;
  decision.answer = what;
  decision.decisive.answer = what;
  decision.decisive.branch = branch;
  decision.decisive.operation = request.items.at(0).operation;
  decision.decisive.requested = request.items.at(0).target;
  decision.decisive.reason = "not_granted";
  return decision;
}

/// A guest with a front before it, in one loop, and a judge that the test gives.
class Fronted {
 public:
  using Judge = std::function<GateDecision(const GateRequest&, std::stop_token)>;

  explicit Fronted(Judge judge) {
    guest_ = std::make_unique<guest::Guest>(
        loop_, guest::GuestOptions{.container_env = {"PATH=/usr/bin:/bin"}});
    local::GateFrontParts parts;
    parts.judge = std::move(judge);
    parts.in_box = [this](const GateRequest& request) {
      return !request.items.at(0).target.starts_with(outside.path());
    };
    parts.open = [this](const OpenRequest& request, const std::stop_token&) {
      return open_outside(request);
    };
    parts.connect = [this]() -> Result<io::Fd> { return to_guest(); };
    parts.places = {folder.path(), folder.path()};
    front_ = std::make_shared<GateFront>(loop_, pool_, std::move(parts));
    thread_ = std::jthread([this] { loop_.run(); });
  }
  ~Fronted() {
    pool_.stop();
    loop_.post([this] { guest_->stop([this] { loop_.stop(); }); });
    thread_.join();
  }

  Client connect() {
    auto [mine, theirs] = pair();
    loop_.post([this, end = theirs.release()] { front_->serve(io::Fd(end)); });
    return Client(std::move(mine));
  }

  Answer call(const std::string& method, const std::string& target, std::string_view body = {},
              Fields fields = {}) {
    return connect().call(method, target, body, std::move(fields));
  }

  Answer rpc(const std::string& method, const json::Value& message) {
    return call("POST", "/" + method, json::dump(message), {{"Content-Type", "application/json"}});
  }

  TemporaryFolder folder;
  TemporaryFolder outside;  ///< What the box does not show.
  bool may_open = true;
  std::atomic<int> reached{0};

 private:
  static std::pair<io::Fd, io::Fd> pair() {
    std::array<int, 2> ends{-1, -1};
    ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data());
    return {io::Fd(ends[0]), io::Fd(ends[1])};
  }

  OpenOutcome open_outside(const OpenRequest& request) const {
    const GateRequest asked{
        .items = {{.operation =
                       request.use == OpenFor::kRead ? GateOperation::kRead : GateOperation::kWrite,
                   .target = request.path}}};
    if (!may_open) {
      return {{answer(GateAnswer::kDeny, asked)}, Error{ErrorCode::kPermissionDenied, "denied"}};
    }
    const int flags = request.use == OpenFor::kRead ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC;
    const int fd = ::open(request.path.c_str(), flags | O_CLOEXEC, 0600);
    return {
        {answer(GateAnswer::kAllow, asked)},
        fd >= 0 ? Result<OpenedFile>(OpenedFile(fd)) : Error{ErrorCode::kNotFound, "no such file"}};
  }

  io::Fd to_guest() {
    ++reached;
    auto [mine, theirs] = pair();
    guest_->serve(std::move(theirs));
    return std::move(mine);
  }

  // Before any thread is made: a guest waits for its children by a signal.
  [[maybe_unused]] const bool signals_ = (guest::prepare_signals(), true);
  io::EventLoop loop_;
  ThreadPool pool_{4, 16};
  std::unique_ptr<guest::Guest> guest_;
  std::shared_ptr<GateFront> front_;
  std::jthread thread_;
};

Fronted::Judge always(GateAnswer what, GateBranch branch = GateBranch::kAsk) {
  return [what, branch](const GateRequest& request, const std::stop_token&) {
    return answer(what, request, branch);
  };
}

}  // namespace

TEST_CASE("what the gate allows reaches the guest, and its answer comes back whole") {
  Fronted world(always(GateAnswer::kAllow));
  const std::string bytes = pattern(3 << 20);
  CHECK(world.call("PUT", "/files?path=big.bin", bytes).status == 200);
  CHECK(read_file(world.folder / "big.bin") == bytes);
  CHECK(world.call("GET", "/files?path=big.bin").body == bytes);
  const Answer ran = world.call("POST", "/exec", R"({"command":["/bin/sh","-c","echo hello"]})");
  CHECK(ran.status == 200);
  CHECK(ran.body.find("hello") != std::string::npos);
}

TEST_CASE("what the gate denies never reaches the guest, and says why in the call's own form") {
  Fronted world(always(GateAnswer::kDeny));
  const Answer file = world.call("PUT", "/files?path=/srv/y", "x");
  CHECK(file.status == 403);
  CHECK(file.json().text("error") == "gate_denied");
  const Answer made = world.rpc("filesystem.Filesystem/MakeDir", json::Object{{"path", "/srv/d"}});
  CHECK(made.status == 403);
  CHECK(made.json().text("code") == "permission_denied");
  const std::string start = wire::connect_envelope(0, R"({"process":{"cmd":"/bin/true"}})");
  const Answer run = world.call("POST", "/process.Process/Start", start,
                                {{"Content-Type", "application/connect+json"}});
  CHECK(run.status == 200);
  CHECK(run.body.find("permission_denied") != std::string::npos);
  CHECK(world.reached == 0);
}

TEST_CASE("what nobody may see does not exist, as far as the agent is told") {
  Fronted world(always(GateAnswer::kDeny, GateBranch::kMandatoryDenial));
  CHECK(world.call("GET", "/files?path=/home/u/.ssh/id_rsa").status == 404);
  CHECK(world.call("PUT", "/files?path=.git/config", "x").status == 403);
}

TEST_CASE("a file outside of the box that was allowed is read and written by its descriptor") {
  Fronted world(always(GateAnswer::kDeny));
  const std::string path = world.outside / "data.bin";
  const std::string bytes = pattern(2 << 20);
  const Answer put = world.call("PUT", "/files?path=" + path, bytes);
  CHECK(put.status == 200);
  CHECK(put.body.find("data.bin") != std::string::npos);
  CHECK(read_file(path) == bytes);
  CHECK(world.call("GET", "/files?path=" + path).body == bytes);
  const std::string form =
      "--b\r\nContent-Disposition: form-data; name=\"file\"; "
      "filename=\"x\"\r\n\r\nhello\r\n--b--\r\n";
  CHECK(world
            .call("POST", "/files?path=" + path, form,
                  {{"Content-Type", "multipart/form-data; boundary=b"}})
            .status == 200);
  CHECK(read_file(path) == "hello");
  CHECK(world.reached == 0);
}

TEST_CASE("a file outside of the box that was denied is not touched") {
  Fronted world(always(GateAnswer::kAllow));
  world.may_open = false;
  const std::string path = world.outside / "data.bin";
  write_file(path, "before");
  CHECK(world.call("PUT", "/files?path=" + path, "after").status == 403);
  CHECK(read_file(path) == "before");
  CHECK(world.reached == 0);
}

TEST_CASE("an answer of `ask` is none: nothing passes") {
  Fronted world(always(GateAnswer::kAsk));
  CHECK(world.call("GET", "/files?path=/srv/x").status == 403);
  CHECK(world.reached == 0);
}

TEST_CASE("a call that waits for a person holds up neither commands nor other calls") {
  std::mutex mutex;
  std::condition_variable changed;
  bool asked = false;
  bool go_on = false;
  Fronted world([&](const GateRequest& request, const std::stop_token&) {
    if (request.items.at(0).target == "/srv/slow") {
      std::unique_lock lock(mutex);
      asked = true;
      changed.notify_all();
      changed.wait(lock, [&] { return go_on; });
    }
    return answer(GateAnswer::kDeny, request);
  });
  Client slow = world.connect();
  slow.send_head("GET", "/files?path=/srv/slow", {});
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return asked; });
  }
  CHECK(world.call("GET", "/health").status == 204);
  CHECK(world.call("GET", "/files?path=/srv/other").status == 403);
  {
    const std::lock_guard lock(mutex);
    go_on = true;
    changed.notify_all();
  }
  CHECK(slow.read_head().status == 403);
}

TEST_CASE("a caller that goes away while it is asked about ends the question") {
  std::atomic<bool> stopped{false};
  std::atomic<bool> asked{false};
  {
    Fronted world([&](const GateRequest& request, const std::stop_token& stop) {
      asked = true;
      while (!stop.stop_requested()) {
        std::this_thread::yield();
      }
      stopped = true;
      return answer(GateAnswer::kAllow, request);
    });
    Client caller = world.connect();
    caller.send_head("GET", "/files?path=/srv/x", {});
    REQUIRE(eventually([&] { return asked.load(); }));
    caller.close();
    CHECK(eventually([&] { return stopped.load(); }));
    CHECK(world.reached == 0);
  }
}

TEST_CASE("calls that wait for the gate are bounded") {
  std::atomic<int> asked{0};
  std::atomic<bool> go_on{false};
  Fronted world([&](const GateRequest& request, const std::stop_token&) {
    ++asked;
    while (!go_on) {
      std::this_thread::yield();
    }
    return answer(GateAnswer::kDeny, request);
  });
  std::vector<Client> callers;
  for (std::size_t i = 0; i < GateFront::kMaxJudged; ++i) {
    callers.push_back(world.connect());
    callers.back().send_head("GET", "/files?path=/srv/x", {});
  }
  const auto refused = [&] { return world.call("GET", "/files?path=/srv/x").status == 503; };
  // The first ones may not have been read yet.
  bool was_refused = false;
  REQUIRE(eventually([&] { return asked > 0; }));
  std::jthread more([&] { was_refused = eventually(refused); });
  more.join();
  go_on = true;
  CHECK(was_refused);
  for (Client& caller : callers) {
    const int status = caller.read_head().status;
    CHECK((status == 403 || status == 503));
  }
}

TEST_CASE("a port of the box is a pipe through the front") {
  Fronted world(always(GateAnswer::kDeny));
  Client pipe = world.connect();
  pipe.send_head("CONNECT", "127.0.0.1:9", {});
  // Nothing listens there: the guest's own answer comes through.
  const Answer closed = pipe.read_head();
  CHECK(closed.status == 502);
  CHECK(world.reached == 1);
}
