#include "guest/exec.h"

#include "base/text.h"
#include "guest/bounds.h"
#include "guest/reply.h"
#include "json/reader.h"

#include <cmath>
#include <optional>
#include <utility>

namespace sandboxkit::guest {
namespace {

constexpr int kShellSignalBase =
    128;  // a shell's exit code for a signal, as `docker run` has it too

struct ExecRequest {
  LaunchRequest launch;
  std::optional<std::string> input;
  std::optional<std::chrono::milliseconds> timeout;
  bool stream = false;
};

/// Output of one stream, up to a limit.
struct Captured {
  std::string bytes;
  bool truncated = false;

  void append(std::string_view more) {
    const std::size_t room = kMaxCapturedBytes - bytes.size();
    truncated = truncated || more.size() > room;
    bytes.append(more.substr(0, room));
  }
};

Result<ExecRequest> read_request(const std::string& body) {
  const auto value = json::parse(body, {.max_bytes = kMaxRequestBytes});
  if (!value) {
    return value.error();
  }
  json::Reader reader(*value, "");
  ExecRequest request;
  const auto command = reader.optional_strings("command", kMaxArguments, kMaxArgvBytes);
  if (!command || command->empty()) {
    reader.refuse("command", "must be a list of at least one string");
  }
  ProcessConfig& config = request.launch.config;
  config.env = reader.optional_string_map("env", kMaxEnvEntries, kMaxNameBytes, kMaxArgvBytes)
                   .value_or(config.env);
  config.cwd = reader.optional_string("cwd", kMaxPathBytes);
  request.launch.user = reader.optional_string("user", kMaxNameBytes).value_or("");
  if (const auto encoded = reader.optional_string("stdin_base64", kMaxRequestBytes)) {
    request.input = base64_decode(*encoded);
    request.launch.open_stdin = true;
    if (!request.input) {
      reader.refuse("stdin_base64", "is not base64");
    }
  }
  constexpr double kShortest = 0.001;
  if (const auto seconds = reader.optional_number("timeout_seconds", kShortest,
                                                  static_cast<double>(kMaxTimeoutSeconds))) {
    request.timeout = std::chrono::milliseconds(std::llround(*seconds * 1'000));
  }
  request.stream = reader.optional_bool("stream").value_or(false);
  if (const Status read = reader.finish(); !read) {
    return read.error();
  }
  config.command = command->front();
  config.arguments.assign(command->begin() + 1, command->end());
  return request;
}

/// What both kinds of answer share: deadline, the end of the client, back-pressure.
class ExecCall : public OutputListener, public std::enable_shared_from_this<ExecCall> {
 public:
  ExecCall(io::EventLoop& loop, std::shared_ptr<io::HttpExchange> exchange)
      : loop_(loop), exchange_(std::move(exchange)) {}

  void run(std::shared_ptr<Process> process, const ExecRequest& request) {
    process_ = std::move(process);
    const std::weak_ptr<ExecCall> weak = shared_from_this();
    exchange_->on_gone([weak] {
      if (const auto self = weak.lock()) {
        self->client_gone();
      }
    });
    if (request.timeout) {
      deadline_ = loop_.run_after(*request.timeout, [weak] {
        if (const auto self = weak.lock()) {
          self->time_is_up();
        }
      });
    }
    begin();
    if (request.input) {
      feed(*request.input);
    }
    // Cannot fail: nobody else listens to a process that was just made.
    [[maybe_unused]] const Status attached = process_->attach(shared_from_this());
  }

  bool congested() const override { return exchange_->queued_bytes() > io::Socket::kHighWater; }

  void on_exit(const ExitStatus& status) final {
    loop_.cancel(deadline_);
    answer(status);
  }

 protected:
  virtual void begin() = 0;
  virtual void answer(const ExitStatus& status) = 0;
  virtual void stopped() {}

  json::Object outcome(const ExitStatus& status) const {
    const bool killed = status.signal != 0;
    return {{"exit_code", killed ? kShellSignalBase + status.signal : status.code},
            {"signal", killed ? json::Value(signal_name(status.signal)) : json::Value()}};
  }

  io::EventLoop& loop_;
  std::shared_ptr<io::HttpExchange> exchange_;
  std::shared_ptr<Process> process_;
  bool timed_out_ = false;

 private:
  void feed(const std::string& input) {
    // The body's limit is below the buffer's, so the whole input fits.
    [[maybe_unused]] const Status fed = process_->write_input(false, input, [] {});
    [[maybe_unused]] const Status closed = process_->close_stdin();
  }

  void time_is_up() {
    if (process_->exited()) {
      return;  // it made it: only its output is still on the way
    }
    timed_out_ = true;
    process_->kill_session();
  }

  void client_gone() {
    const auto self = shared_from_this();
    loop_.cancel(deadline_);
    stopped();
    process_->kill_session();
    process_->detach(this);
  }

  io::EventLoop::TimerId deadline_ = 0;
};

class WholeCall final : public ExecCall {
 public:
  using ExecCall::ExecCall;

  void on_output(Stream stream, std::string_view bytes) override {
    (stream == Stream::kStderr ? error_output_ : output_).append(bytes);
  }

 private:
  void begin() override {}

  void answer(const ExitStatus& status) override {
    json::Object body = outcome(status);
    const bool truncated = output_.truncated || error_output_.truncated;
    add(body, "stdout", output_);
    add(body, "stderr", error_output_);
    body.emplace_back("truncated", truncated);
    body.emplace_back("timed_out", timed_out_);
    io::respond_json(*exchange_, 200, json::dump(body));
  }

  static void add(json::Object& body, const std::string& name, Captured& captured) {
    // Text that was cut inside of a character is still text.
    std::string_view text = captured.bytes;
    for (int cut = 0; captured.truncated && cut < 3 && !text.empty() && !is_utf8(text); ++cut) {
      text.remove_suffix(1);
    }
    if (is_utf8(text)) {
      body.emplace_back(name, text);
    } else {
      body.emplace_back(name, "");
      body.emplace_back(name + "_base64", base64_encode(captured.bytes));
    }
    captured.bytes = {};
  }

  Captured output_;
  Captured error_output_;
};

class StreamCall final : public ExecCall {
 public:
  using ExecCall::ExecCall;

  void on_output(Stream stream, std::string_view bytes) override {
    send({{"type", stream == Stream::kStderr ? "stderr" : "stdout"},
          {"data", base64_encode(bytes)}});
  }

 private:
  void begin() override {
    wire::Headers headers;
    headers.add("Content-Type", "application/x-ndjson");
    exchange_->begin(200, std::move(headers));
    exchange_->on_drain([weak = weak_from_this()] {
      if (const auto self = weak.lock()) {
        static_cast<StreamCall&>(*self).process_->listener_drained();
      }
    });
    send({{"type", "start"}, {"pid", std::int64_t{process_->pid()}}});
  }

  void answer(const ExitStatus& status) override {
    json::Object event{{"type", "exit"}};
    for (auto& member : outcome(status)) {
      event.push_back(std::move(member));
    }
    event.emplace_back("timed_out", timed_out_);
    send(std::move(event));
    stopped();
    exchange_->end();
  }

  void stopped() override { loop_.cancel(ping_); }

  void send(json::Object event) {
    exchange_->write(json::dump(std::move(event)) + "\n");
    loop_.cancel(ping_);
    ping_ = loop_.run_after(kExecPing, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) {
        static_cast<StreamCall&>(*self).send({{"type", "ping"}});
      }
    });
  }

  io::EventLoop::TimerId ping_ = 0;
};

void run(io::EventLoop& loop, ProcessTable& table, std::shared_ptr<io::HttpExchange> exchange,
         const std::string& body) {
  auto request = read_request(body);
  if (!request) {
    refuse(*exchange, request.error());
    return;
  }
  auto process = table.launch(std::move(request->launch));
  if (!process) {
    Error error = process.error();
    if (error.reason == "unknown_user") {
      error.code = ErrorCode::kInvalidArgument;  // 401 would read as a credential that was refused
    }
    refuse(*exchange, error);
    return;
  }
  std::shared_ptr<ExecCall> call;
  if (request->stream) {
    call = std::make_shared<StreamCall>(loop, exchange);
  } else {
    call = std::make_shared<WholeCall>(loop, exchange);
  }
  call->run(std::move(*process), *request);
}

}  // namespace

void serve_exec(io::EventLoop& loop, ProcessTable& table,
                std::shared_ptr<io::HttpExchange> exchange) {
  // Weak: the exchange keeps this callback, and must not keep itself.
  exchange->collect_body(kMaxRequestBytes,
                         [&loop, &table, weak = std::weak_ptr(exchange)](const std::string& body) {
                           if (const auto self = weak.lock()) {
                             run(loop, table, self, body);
                           }
                         });
}

}  // namespace sandboxkit::guest
