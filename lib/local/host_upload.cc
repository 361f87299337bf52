#include "local/host_upload.h"

#include "guest/multipart.h"
#include "guest/paths.h"
#include "guest/reply.h"
#include "json/value.h"

#include <cerrno>
#include <optional>
#include <utility>

#include <unistd.h>

namespace sandboxkit::local {
namespace {

class HostUpload : public std::enable_shared_from_this<HostUpload> {
 public:
  HostUpload(std::shared_ptr<io::HttpExchange> exchange, io::Fd file, std::string path)
      : exchange_(std::move(exchange)), file_(std::move(file)), path_(std::move(path)) {}

  void start() {
    const std::string* type = exchange_->request().headers.find("Content-Type");
    if (const auto boundary = guest::multipart_boundary(type == nullptr ? "" : *type)) {
      parser_.emplace(*boundary, handlers());
    }
    const auto self = shared_from_this();
    exchange_->on_gone([self] { self->over_ = true; });
    exchange_->read_body([self](std::string_view bytes) { self->take(bytes); },
                         [self] { self->finish(); });
  }

 private:
  guest::MultipartParser::Handlers handlers() {
    return {.on_part = [this](const guest::PartHead& head) -> Status {
              in_file_ = head.name == "file";
              if (in_file_ && std::exchange(had_file_, true)) {
                return Error{ErrorCode::kInvalidArgument,
                             "with the query parameter `path` a body holds one file",
                             "bad_multipart"};
              }
              return {};
            },
            .on_data = [this](std::string_view bytes) { return in_file_ ? put(bytes) : Status(); },
            .on_part_end = [] { return Status(); }};
  }

  void take(std::string_view bytes) {
    if (!over_) {
      check(parser_ ? parser_->feed(bytes) : put(bytes));
    }
  }

  void finish() {
    if (over_ || (parser_ && !check(parser_->finish()))) {
      return;
    }
    over_ = true;
    const json::Value entry =
        json::Object{{"path", path_}, {"name", guest::name_of_path(path_)}, {"type", "file"}};
    io::respond_json(*exchange_, 200, json::dump(json::Array{entry}));
  }

  Status put(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t done = ::write(file_.get(), bytes.data(), bytes.size());
      if (done < 0 && errno != EINTR) {
        return io::error_from_errno("write", errno);
      }
      bytes.remove_prefix(done < 0 ? 0 : static_cast<std::size_t>(done));
    }
    return {};
  }

  /// A failure ends the upload with an answer.
  bool check(const Status& status) {
    if (!status) {
      over_ = true;
      guest::refuse(*exchange_, status.error());
    }
    return static_cast<bool>(status);
  }

  const std::shared_ptr<io::HttpExchange> exchange_;
  const io::Fd file_;
  const std::string path_;
  std::optional<guest::MultipartParser> parser_;
  bool in_file_ = false;
  bool had_file_ = false;
  bool over_ = false;
};

}  // namespace

void serve_host_upload(const std::shared_ptr<io::HttpExchange>& exchange, io::Fd file,
                       const std::string& path) {
  std::make_shared<HostUpload>(exchange, std::move(file), path)->start();
}

}  // namespace sandboxkit::local
