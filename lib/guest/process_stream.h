#pragma once

#include "guest/connect_stream.h"
#include "guest/process.h"

#include <memory>
#include <optional>

namespace sandboxkit::guest {

/// One Start or Connect: the process's events as envelopes, from `start` to `end`.
class ProcessStream : public OutputListener, public std::enable_shared_from_this<ProcessStream> {
 public:
  struct Options {
    std::optional<std::chrono::milliseconds> timeout{};
    bool kill_at_timeout = false;  ///< Start's deadline ends the process, Connect's the stream.
  };
  static void open(io::EventLoop& loop, std::shared_ptr<io::HttpExchange> exchange,
                   std::shared_ptr<Process> process, Options options);
  ~ProcessStream() override;

  void on_output(Stream stream, std::string_view bytes) override;
  void on_exit(const ExitStatus& status) override;
  bool congested() const override;

 private:
  ProcessStream(io::EventLoop& loop, std::shared_ptr<ConnectStream> stream,
                std::shared_ptr<Process> process, Options options);
  void follow();
  void time_is_up();

  io::EventLoop& loop_;
  std::shared_ptr<ConnectStream> stream_;
  std::shared_ptr<Process> process_;
  const Options options_;
  io::EventLoop::TimerId deadline_ = 0;
};

}  // namespace sandboxkit::guest
