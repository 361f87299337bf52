#pragma once

#include "base/text.h"
#include "guest/guest.h"
#include "guest/reaper.h"
#include "io/event_loop.h"
#include "json/value.h"
#include "wire/connect.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace sandboxkit::guest::testing {

struct Answer {
  int status = 0;
  std::map<std::string, std::string> headers{};  // names in lower case
  std::string body{};
  json::Value json() const {
    return json::parse(body, {.max_bytes = 64 << 20}).value_or(json::Value());
  }
};

using Fields = std::map<std::string, std::string>;

/// A blocking HTTP/1.1 client on one connection; every wait ends after twenty seconds.
class Client {
 public:
  explicit Client(io::Fd fd) : fd_(std::move(fd)) {
    const timeval limit{20, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  }

  bool send_bytes(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t put = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (put <= 0) {
        return false;
      }
      bytes.remove_prefix(static_cast<std::size_t>(put));
    }
    return true;
  }

  bool send_head(const std::string& method, const std::string& target, const Fields& fields) {
    std::string head = method + " " + target + " HTTP/1.1\r\nHost: guest\r\n";
    for (const auto& [name, value] : fields) {
      head += name + ": " + value + "\r\n";
    }
    return send_bytes(head + "\r\n");
  }

  Answer call(const std::string& method, const std::string& target, std::string_view body = {},
              Fields fields = {}) {
    fields["Content-Length"] = std::to_string(body.size());
    send_head(method, target, fields);
    send_bytes(body);
    Answer answer = read_head();
    answer.body = read_all(answer);
    return answer;
  }

  Answer read_head() {
    Answer answer;
    std::istringstream status(read_line());
    std::string version;
    status >> version >> answer.status;
    for (std::string line = read_line(); !line.empty(); line = read_line()) {
      const auto colon = line.find(':');
      answer.headers[ascii_lower(line.substr(0, colon))] =
          trim(std::string_view(line).substr(colon + 1));
    }
    return answer;
  }

  std::string read_all(const Answer& answer) {
    const auto length = answer.headers.find("content-length");
    if (length != answer.headers.end()) {
      return read_exactly(std::stoull(length->second));
    }
    std::string whole;
    if (answer.headers.count("transfer-encoding") == 0) {
      return whole;
    }
    for (auto piece = read_chunk(); piece; piece = read_chunk()) {
      whole += *piece;
    }
    return whole;
  }

  /// One chunk of a chunked body; nullopt at its end, or when it was cut (`cut` says so).
  std::optional<std::string> read_chunk() {
    const std::string size = read_line();
    if (size.empty()) {
      cut = true;
      return std::nullopt;
    }
    std::string data = read_exactly(std::stoull(size, nullptr, 16));
    read_line();
    return data.empty() ? std::nullopt : std::optional(data);
  }

  std::string read_line() {
    for (auto end = buffer_.find("\r\n");; end = buffer_.find("\r\n")) {
      if (end != std::string::npos) {
        std::string line = buffer_.substr(0, end);
        buffer_.erase(0, end + 2);
        return line;
      }
      if (!fill()) {
        return {};
      }
    }
  }

  std::string read_exactly(std::size_t size) {
    while (buffer_.size() < size && fill()) {
    }
    std::string bytes = buffer_.substr(0, size);
    buffer_.erase(0, bytes.size());
    return bytes;
  }

  /// False at the connection's end.
  bool fill() {
    std::array<char, 64 * 1024> piece;
    const ssize_t got = ::recv(fd_.get(), piece.data(), piece.size(), 0);
    if (got > 0) {
      buffer_.append(piece.data(), static_cast<std::size_t>(got));
    }
    return got > 0;
  }

  void close() { fd_.reset(); }

  bool cut = false;

 private:
  io::Fd fd_;
  std::string buffer_;
};

/// A guest in a thread of its own, as whatever user runs the test.
class TestGuest {
 public:
  explicit TestGuest(std::vector<std::string> env = {"PATH=/usr/bin:/bin", "FROM_CONTAINER=yes"}) {
    prepare_signals();
    guest_ = std::make_unique<Guest>(loop_, GuestOptions{.container_env = std::move(env)});
    thread_ = std::jthread([this] { loop_.run(); });
  }
  ~TestGuest() {
    loop_.post([this] { guest_->stop([this] { loop_.stop(); }); });
    thread_.join();
  }

  Client connect() {
    std::array<int, 2> ends{-1, -1};
    ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data());
    loop_.post([this, end = ends[1]] { guest_->serve(io::Fd(end)); });
    return Client(io::Fd(ends[0]));
  }

  Answer call(const std::string& method, const std::string& target, std::string_view body = {},
              Fields fields = {}) {
    return connect().call(method, target, body, std::move(fields));
  }

  Answer exec(const json::Value& request) { return call("POST", "/exec", json::dump(request)); }

  Answer rpc(const std::string& method, const json::Value& message, Fields fields = {}) {
    fields["Content-Type"] = "application/json";
    return call("POST", "/" + method, json::dump(message), std::move(fields));
  }

  std::uint64_t reaped() {
    std::promise<std::uint64_t> promise;
    loop_.post([&] { promise.set_value(guest_->reaped()); });
    return promise.get_future().get();
  }

 private:
  io::EventLoop loop_;
  std::unique_ptr<Guest> guest_;
  std::jthread thread_;
};

/// `{"command": ["/bin/sh", "-c", script], ...more}`.
inline json::Object shell(const std::string& script, json::Object more = {}) {
  json::Object request{{"command", json::Array{"/bin/sh", "-c", script}}};
  for (auto& member : more) {
    request.push_back(std::move(member));
  }
  return request;
}

/// Asks again and again, for at most twenty seconds.
template <typename Predicate>
bool eventually(Predicate&& holds) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

/// Neither running nor a zombie.
inline bool is_gone(const std::string& pid) { return !std::filesystem::exists("/proc/" + pid); }

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "sandboxkit-guest-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  std::size_t entries() const {
    const std::filesystem::directory_iterator all(path_);
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }

 private:
  std::string path_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void write_file(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// Bytes that show when some are lost, doubled or swapped.
inline std::string pattern(std::size_t size) {
  std::string out(size, '\0');
  for (std::size_t i = 0; i < size; ++i) {
    out[i] = static_cast<char>((i * 31 + i / 251) & 0xff);
  }
  return out;
}

/// A stream of Connect messages on a connection.
class RpcStream {
 public:
  RpcStream(TestGuest& guest, const std::string& method, const json::Value& message,
            Fields fields = {})
      : client_(guest.connect()) {
    const std::string body = wire::connect_envelope(0, json::dump(message));
    fields["Content-Type"] = "application/connect+json";
    fields["Content-Length"] = std::to_string(body.size());
    client_.send_head("POST", "/" + method, fields);
    client_.send_bytes(body);
    head = client_.read_head();
    if (head.headers.count("content-length") != 0) {
      decoder_.feed(client_.read_all(head));
    }
  }

  /// The next message; the last one has the end flag. nullopt when the stream was cut.
  std::optional<wire::ConnectMessage> next() {
    while (true) {
      auto message = decoder_.next();
      if (!message) {
        return std::nullopt;
      }
      if (*message) {
        return *message;
      }
      const auto piece = client_.read_chunk();
      if (!piece) {
        return std::nullopt;
      }
      decoder_.feed(*piece);
    }
  }

  /// The member of the next `event`: `start`, `data`, `end`, ... null for anything else.
  json::Value event(std::string_view kind) {
    const auto message = next();
    const auto value = message ? json::parse(message->json) : Result<json::Value>(json::Value());
    const json::Value* event = value ? value->find("event") : nullptr;
    const json::Value* member = event == nullptr ? nullptr : event->find(kind);
    return member == nullptr ? json::Value() : *member;
  }

  /// Reads to the end: the last message's text; `data` collects a stream's bytes meanwhile.
  std::string finish() {
    while (const auto message = next()) {
      if ((message->flags & wire::kConnectEndStream) != 0) {
        return message->json;
      }
      note(json::parse(message->json).value_or(json::Value()));
    }
    return "cut";
  }

  void close() { client_.close(); }

  Answer head;
  std::map<std::string, std::string> data;
  json::Value end;

 private:
  void note(const json::Value& message) {
    const json::Value* event = message.find("event");
    const json::Value* bytes = event == nullptr ? nullptr : event->find("data");
    for (const char* name : {"stdout", "stderr", "pty"}) {
      if (bytes != nullptr && bytes->find(name) != nullptr) {
        data[name] += base64_decode(bytes->text(name)).value_or("?");
      }
    }
    if (event != nullptr && event->find("end") != nullptr) {
      end = *event->find("end");
    }
  }

  Client client_;
  wire::ConnectDecoder decoder_{8 << 20};
};

}  // namespace sandboxkit::guest::testing
