#include "guest/process_stream.h"

#include "base/text.h"
#include "guest/bounds.h"

namespace sandboxkit::guest {
namespace {

json::Value event(const char* kind, json::Object members) {
  return json::Object{{"event", json::Object{{kind, std::move(members)}}}};
}

const char* name_of(Stream stream) {
  switch (stream) {
    case Stream::kStdout:
      return "stdout";
    case Stream::kStderr:
      return "stderr";
    case Stream::kTerminal:
      return "pty";
  }
  return "";
}

json::Object end_of(const ExitStatus& status) {
  const bool exited = status.signal == 0;
  const std::string text = exit_text(status);
  json::Object end{{"exitCode", exited ? status.code : -1}, {"exited", exited}, {"status", text}};
  if (!exited || status.code != 0) {
    end.emplace_back("error", text);
  }
  return end;
}

}  // namespace

void ProcessStream::open(io::EventLoop& loop, std::shared_ptr<io::HttpExchange> exchange,
                         std::shared_ptr<Process> process, Options options) {
  auto stream = ConnectStream::begin(loop, std::move(exchange), event("keepalive", {}));
  const std::shared_ptr<ProcessStream> self(
      new ProcessStream(loop, std::move(stream), std::move(process), options));
  self->follow();
}

ProcessStream::ProcessStream(io::EventLoop& loop, std::shared_ptr<ConnectStream> stream,
                             std::shared_ptr<Process> process, Options options)
    : loop_(loop), stream_(std::move(stream)), process_(std::move(process)), options_(options) {}

ProcessStream::~ProcessStream() { loop_.cancel(deadline_); }

void ProcessStream::follow() {
  const std::weak_ptr<ProcessStream> weak = weak_from_this();
  stream_->on_gone([weak] {
    if (const auto self = weak.lock()) {
      self->process_->detach(self.get());  // the process lives on
    }
  });
  stream_->on_drain([weak] {
    if (const auto self = weak.lock()) {
      self->process_->listener_drained();
    }
  });
  if (options_.timeout) {
    deadline_ = loop_.run_after(*options_.timeout, [weak] {
      if (const auto self = weak.lock()) {
        self->time_is_up();
      }
    });
  }
  stream_->send(event("start", {{"pid", std::int64_t{process_->pid()}}}));
  if (const Status attached = process_->attach(shared_from_this()); !attached) {
    stream_->end(attached.error());
  }
}

void ProcessStream::on_output(Stream stream, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, kPipeReadBytes);
    stream_->send(event("data", {{name_of(stream), base64_encode(piece)}}));
    bytes.remove_prefix(piece.size());
  }
}

void ProcessStream::on_exit(const ExitStatus& status) {
  stream_->send(event("end", end_of(status)));
  stream_->end(std::nullopt);
}

bool ProcessStream::congested() const { return stream_->congested(); }

void ProcessStream::time_is_up() {
  const auto self = shared_from_this();
  const std::string limit = std::to_string(options_.timeout->count()) + " ms";
  std::string message = "the stream's deadline of " + limit + " passed; the process goes on";
  if (options_.kill_at_timeout) {
    process_->kill_session();
    message = "the command's deadline of " + limit + " passed: process " +
              std::to_string(process_->pid()) + " and its session were killed";
  }
  process_->detach(this);
  stream_->end(Error{ErrorCode::kDeadlineExceeded, std::move(message)});
}

}  // namespace sandboxkit::guest
