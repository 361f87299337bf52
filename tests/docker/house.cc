#include "tests/docker/house.h"

#include "base/random.h"
#include "io/fd.h"
#include "wire/http.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include <archive.h>
#include <archive_entry.h>
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <ifaddrs.h>
#include <sys/socket.h>
#include <unistd.h>

namespace sandboxkit::test {
namespace {

constexpr const char* kBusybox = "/bin/busybox";
constexpr std::size_t kRandomLength = 8;

void add_entry(archive* out, const char* path, unsigned type, unsigned mode,
               const std::string& text) {
  archive_entry* entry = archive_entry_new();
  archive_entry_set_pathname(entry, path);
  archive_entry_set_filetype(entry, type);
  archive_entry_set_perm(entry, mode);
  if (type == AE_IFLNK) {
    archive_entry_set_symlink(entry, text.c_str());
  } else {
    archive_entry_set_size(entry, static_cast<la_int64_t>(text.size()));
  }
  REQUIRE(archive_write_header(out, entry) == ARCHIVE_OK);
  if (type == AE_IFREG) {
    archive_write_data(out, text.data(), text.size());
  }
  archive_entry_free(entry);
}

/// A gzipped root file system, as a user would hand it in.
void write_image_tar(const std::string& path) {
  std::ifstream file(kBusybox, std::ios::binary);
  const std::string busybox(std::istreambuf_iterator<char>(file), {});
  REQUIRE(busybox.size() > 100'000);
  archive* out = archive_write_new();
  archive_write_set_format_pax_restricted(out);
  archive_write_add_filter_gzip(out);
  REQUIRE(archive_write_open_filename(out, path.c_str()) == ARCHIVE_OK);
  for (const char* folder : {"bin", "etc", "home", "home/user", "root", "run", "sbin"}) {
    add_entry(out, folder, AE_IFDIR, 0755, "");
  }
  add_entry(out, "tmp", AE_IFDIR, 01777, "");
  add_entry(out, "bin/busybox", AE_IFREG, 0755, busybox);
  for (const char* applet :
       {"sh", "cat", "ls", "echo", "wget", "nc", "nslookup", "id", "ip", "ping", "true", "sleep",
        "rm", "ln", "kill", "grep", "timeout", "traceroute"}) {
    add_entry(out, (std::string("bin/") + applet).c_str(), AE_IFLNK, 0777, "busybox");
  }
  add_entry(out, "etc/passwd", AE_IFREG, 0644,
            "root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n");
  add_entry(out, "etc/group", AE_IFREG, 0644, "root:x:0:\nuser:x:1000:\n");
  archive_write_close(out);
  archive_write_free(out);
}

template <typename Id>
Id random_id(const std::string& prefix) {
  return *Id::parse(prefix + system_random().text(kRandomLength, kBase36));
}

std::string call_guest(int fd, const std::string& body) {
  const std::string request =
      "POST /exec HTTP/1.1\r\nHost: guest\r\nContent-Type: application/json\r\n"
      "Connection: close\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body;
  REQUIRE(send(fd, request.data(), request.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(request.size()));
  std::string answer;
  char buffer[65536];
  for (ssize_t got = 0; (got = recv(fd, buffer, sizeof buffer, 0)) > 0;) {
    answer.append(buffer, static_cast<std::size_t>(got));
  }
  return answer;
}

}  // namespace

Programs& programs() {
  static Programs paths;
  return paths;
}

const std::string& test_image() {
  static const std::string image = [] {
    House house;
    const std::string name = "sandboxkit-test/busybox:v1";
    if (!house.driver().has_image(name).value_or(false)) {
      const std::string tar = house.config().state_dir + "/image.tar.gz";
      write_image_tar(tar);
      double last = 0;
      const Status made = house.driver().import_image(
          tar, name, [&](const std::string&, double fraction) { last = fraction; });
      REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message));
      CHECK(last == 1);
    }
    return name;
  }();
  return image;
}

House::House(Options options)
    : folder_("/tmp/sk-" + system_random().text(kRandomLength, kBase36)),
      config_{random_id<ControllerId>("test-"), random_id<WorkerId>("w-"), folder_,
              options.real_helpers ? programs().guest : programs().stub,
              options.real_helpers ? programs().egress : programs().stub} {
  config_.engine_socket = programs().engine_socket;
  config_.egress_hosts = std::move(options.hosts);
  if (!options.egress_ca_file.empty()) {
    config_.egress_ca_file = options.egress_ca_file;
  }
  config_.create_timeout = options.create_timeout;
  config_.call_timeout = std::chrono::minutes(2);
  config_.subnet_pool = options.subnet_pool;
  config_.egress_structure = options.structure;
  config_.wall_pool = options.wall_pool;
  auto engine = docker::EngineClient::connect(config_.engine_socket, config_.call_timeout);
  REQUIRE(engine);
  engine_ = std::move(*engine);
  if (options.judge) {
    std::filesystem::create_directories(folder_);
    config_.engine_socket = folder_ + "/engine.sock";
    proxy_ = std::make_unique<EngineProxy>(config_.engine_socket, programs().engine_socket,
                                           std::move(options.judge));
  }
  restart_driver();
}

House::~House() {
  driver_.reset();
  remove_all();
  std::filesystem::remove_all(folder_);
}

void House::restart_driver() {
  driver_.reset();
  auto driver = DockerDriver::create(config_);
  REQUIRE_MESSAGE(driver.has_value(), (driver ? "" : driver.error().message));
  driver_ = std::move(*driver);
}

void House::remove_all() {
  const std::string filters = docker::filters_for(owner());
  const auto containers = engine_->get("/containers/json?all=1&" + filters);
  if (containers && containers->as_array() != nullptr) {
    for (const json::Value& entry : *containers->as_array()) {
      static_cast<void>(engine_->send(
          {.method = "DELETE", .target = "/containers/" + entry.text("Id") + "?force=1&v=1"}));
    }
  }
  const auto networks = engine_->get("/networks?" + filters);
  if (networks && networks->as_array() != nullptr) {
    for (const json::Value& entry : *networks->as_array()) {
      static_cast<void>(
          engine_->send({.method = "DELETE", .target = "/networks/" + entry.text("Id")}));
    }
  }
}

SandboxOrder House::unwalled() const {
  SandboxOrder order{random_id<SandboxId>("i000000000000"), *TenantId::parse("acme"), 1,
                     SandboxSpec{test_image(), Egress::unwalled(UnwalledEgress{})}};
  order.spec.memory_mb = 128;
  order.expires_at = WallTime(std::chrono::hours(1'000'000));
  return order;
}

SandboxOrder House::walled(const std::vector<std::string>& domains) const {
  SandboxOrder order = unwalled();
  const auto policy = EgressPolicy::create(domains, {});
  REQUIRE(policy);
  order.spec.egress = Egress::walled(*policy);
  order.policy_hash = "test-hash";
  return order;
}

House::Output House::exec(const SandboxId& sandbox, const std::vector<std::string>& command) {
  const auto connection = driver_->connect_guest(sandbox);
  REQUIRE_MESSAGE(connection.has_value(), (connection ? "" : connection.error().message));
  const io::Fd fd(*connection);
  const json::Value order = json::Object{{"command", json::Array(command.begin(), command.end())}};
  const std::string answer = call_guest(fd.get(), json::dump(order));
  const std::size_t head = wire::find_head_end(answer);
  REQUIRE(head > 0);
  const auto value = json::parse(std::string_view(answer).substr(head), {.max_bytes = 32 << 20});
  REQUIRE_MESSAGE(value.has_value(), answer);
  return Output{value->integer("exit_code", -1), value->text("stdout") + value->text("stderr")};
}

House::Output House::shell(const SandboxId& sandbox, const std::string& script) {
  return exec(sandbox, {"/bin/sh", "-c", script});
}

std::string House::leftovers() {
  std::string found;
  const std::string filters = docker::filters_for(owner());
  const auto containers = engine_->get("/containers/json?all=1&" + filters);
  REQUIRE(containers);
  for (const json::Value& entry : *containers->as_array()) {
    found += "container " + json::dump(*entry.find("Names")) + " ";
  }
  const auto networks = engine_->get("/networks?" + filters);
  REQUIRE(networks);
  for (const json::Value& entry : *networks->as_array()) {
    if (entry.text("Name").starts_with("sbx-")) {
      found += "network " + entry.text("Name") + " ";
    }
  }
  for (const char* folder : {"/sandboxes", "/walls"}) {
    std::error_code none;
    for (const auto& entry :
         std::filesystem::directory_iterator(config_.state_dir + folder, none)) {
      found += "folder " + entry.path().string() + " ";
    }
  }
  return found;
}

json::Value House::inspect(const std::string& container) {
  auto answer = engine_->get("/containers/" + container + "/json");
  REQUIRE(answer);
  return std::move(*answer);
}

void House::meddle(const std::string& method, const std::string& target, const std::string& body) {
  const auto answer = engine_->call({.method = method, .target = target, .body = body});
  REQUIRE_MESSAGE(answer.has_value(), problem(answer));
}

std::string House::container_id(const SandboxId& sandbox, docker::Role role) {
  return inspect(role == docker::Role::kSandbox  ? docker::sandbox_name(sandbox)
                 : role == docker::Role::kAnchor ? docker::anchor_name(sandbox)
                                                 : docker::sidecar_name(sandbox))
      .text("Id");
}

bool becomes_true(const std::function<bool()>& fact, std::chrono::seconds limit) {
  constexpr std::chrono::milliseconds kLook{20};
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!fact()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(kLook);
  }
  return true;
}

std::string host_address() {
  ifaddrs* list = nullptr;
  REQUIRE(getifaddrs(&list) == 0);
  std::string found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET &&
        std::string_view(entry->ifa_name) == "docker0") {
      sockaddr_in address{};
      std::memcpy(&address, entry->ifa_addr, sizeof address);
      char text[INET_ADDRSTRLEN] = "";
      found = inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
    }
  }
  freeifaddrs(list);
  REQUIRE(found != "");
  return found;
}

}  // namespace sandboxkit::test
