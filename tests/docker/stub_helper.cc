// A helper that dials like the guest or the egress proxy and does next to nothing: what the driver
// needs to hear. `SANDBOXKIT_STUB=silent` never dials; `=dies` ends at once with words.
//
// As a guest it answers `GET /health`, and `POST /exec` with the output of the command. As a proxy
// it says which policy it was given. As an anchor it waits.
#include "io/event_loop.h"
#include "io/guest_link.h"
#include "io/http_server.h"
#include "json/value.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace sandboxkit;  // NOLINT(google-build-using-namespace)

constexpr std::size_t kMaxBody = 1 << 20;

json::Value run(const std::string& body) {
  const auto order = json::parse(body);
  std::vector<std::string> words;
  const json::Value* command = order ? order->find("command") : nullptr;
  if (command != nullptr && command->as_array() != nullptr) {
    for (const json::Value& word : *command->as_array()) {
      words.push_back(word.as_string() != nullptr ? *word.as_string() : "");
    }
  }
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  int out[2];
  if (words.empty() || pipe2(out, O_CLOEXEC) != 0) {
    return json::Object{{"exit_code", 127}};
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  posix_spawn_file_actions_adddup2(&actions, out[1], 2);
  pid_t child = 0;
  const int problem = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t got = 0; (got = read(out[0], buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  close(out[0]);
  int status = 127 << 8;
  if (problem == 0) {
    waitpid(child, &status, 0);
  }
  return json::Object{{"exit_code", WIFEXITED(status) ? WEXITSTATUS(status) : -1},
                      {"stdout", text}};
}

void serve(std::shared_ptr<io::HttpExchange> exchange) {
  const std::string& target = exchange->request().target;
  if (target == "/exec") {
    exchange->collect_body(kMaxBody, [exchange](const std::string& body) {
      io::respond_json(*exchange, 200, json::dump(run(body)));
    });
  } else if (target == "/denied") {
    io::respond_json(*exchange, 200, "{\"denied\":[]}");
  } else {
    std::ifstream file("/run/sandboxkit-egress/policy.json");
    const auto policy = json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
    wire::Headers headers;
    headers.add("X-Sandboxkit-Policy-Hash", policy ? policy->text("policy_hash") : "");
    exchange->respond(204, std::move(headers), "");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--probe-wall") {
    std::puts("{\"reached\":[],\"tried\":[\"nothing: a stub\"]}");
    return 0;
  }
  const char* mode = std::getenv("SANDBOXKIT_STUB");
  if (mode != nullptr && std::string_view(mode) == "dies") {
    std::fputs("these are my last words\n", stderr);
    return 3;
  }
  if (argc > 1 && std::string_view(argv[1]) == "--hold") {
    pause();
    return 0;
  }
  const bool guest = access("/run/sandboxkit", F_OK) == 0;
  const char* socket = guest ? "/run/sandboxkit/guest.sock" : "/run/sandboxkit-egress/egress.sock";
  io::EventLoop loop;
  std::shared_ptr<io::GuestDialer> dialer;
  if (mode == nullptr || std::string_view(mode) != "silent") {
    dialer = io::GuestDialer::start(loop, socket, [&loop](io::Fd connection) {
      io::serve_http(loop, std::move(connection), io::HttpServerOptions{}, serve);
    });
  }
  loop.run();
  return 0;
}
