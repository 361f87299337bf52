#include "guest/upload.h"

#include "base/text.h"
#include "guest/bounds.h"
#include "guest/file_writer.h"
#include "guest/multipart.h"
#include "guest/paths.h"
#include "guest/reply.h"

#include <vector>

namespace sandboxkit::guest {
namespace {

Error no_path() {
  return {ErrorCode::kInvalidArgument, "query parameter `path` is required", {}, "path"};
}

/// Lives in the exchange's body callbacks; the file that it writes is dropped with it.
class Upload : public std::enable_shared_from_this<Upload> {
 public:
  Upload(const std::shared_ptr<io::HttpExchange>& exchange, UploadTarget target)
      : exchange_(exchange), target_(std::move(target)) {}

  void run(const std::optional<std::string>& boundary) {
    const auto exchange = exchange_.lock();
    exchange->on_gone([self = shared_from_this()] { self->drop(); });
    if (boundary) {
      parser_ = std::make_unique<MultipartParser>(
          *boundary, MultipartParser::Handlers{
                         .on_part = [this](const PartHead& head) { return begin_part(head); },
                         .on_data = [this](std::string_view bytes) { return data(bytes); },
                         .on_part_end = [this] { return end_file(); }});
    } else if (!take(target_.path ? begin_file(*target_.path) : Status(no_path()))) {
      return;
    }
    exchange->read_body([self = shared_from_this()](std::string_view bytes) { self->feed(bytes); },
                        [self = shared_from_this()] { self->end(); });
  }

 private:
  void feed(std::string_view bytes) {
    if (!failed_) {
      take(parser_ ? parser_->feed(bytes) : data(bytes));
    }
  }

  void end() {
    if (failed_ || !take(parser_ ? parser_->finish() : end_file())) {
      return;
    }
    if (written_.empty()) {
      take(Error{ErrorCode::kInvalidArgument, "the body holds no part named `file`",
                 "bad_multipart"});
      return;
    }
    if (const auto exchange = exchange_.lock()) {
      io::respond_json(*exchange, 200, json::dump(std::move(written_)));
    }
  }

  Status begin_part(const PartHead& head) {
    if (head.name != "file") {
      return {};  // its bytes are skipped
    }
    if (target_.path && !written_.empty()) {
      return Error{ErrorCode::kInvalidArgument,
                   "with the query parameter `path` a body holds one file", "bad_multipart"};
    }
    if (!target_.path && head.file_name.empty()) {
      return no_path();
    }
    const auto path =
        target_.path ? Result(*target_.path) : resolve_path(head.file_name, target_.workdir);
    return path ? begin_file(*path) : Status(path.error());
  }

  Status begin_file(const std::string& path) {
    auto opened = FileWriter::open(path, target_.user, target_.change_owner);
    if (!opened) {
      return opened.error();
    }
    file_ = std::move(*opened);
    return {};
  }

  Status data(std::string_view bytes) { return file_ ? file_->write(bytes) : Status(); }

  Status end_file() {
    if (!file_) {
      return {};
    }
    if (Status done = file_->commit(); !done) {
      return done;
    }
    written_.emplace_back(json::Object{
        {"path", file_->path()}, {"name", name_of_path(file_->path())}, {"type", "file"}});
    file_.reset();
    return {};
  }

  /// False when the status was a failure, which ends the upload with an answer.
  bool take(const Status& status) {
    if (status) {
      return true;
    }
    drop();
    if (const auto exchange = exchange_.lock()) {
      refuse(*exchange, status.error());
    }
    return false;
  }

  void drop() {
    failed_ = true;
    file_.reset();
  }

  std::weak_ptr<io::HttpExchange> exchange_;
  const UploadTarget target_;
  std::unique_ptr<MultipartParser> parser_;
  std::unique_ptr<FileWriter> file_;
  json::Array written_;
  bool failed_ = false;
};

Status check_headers(const wire::Headers& headers) {
  const std::string* encoding = headers.find("Content-Encoding");
  if (encoding != nullptr && !equal_ignoring_case(trim(*encoding), "identity")) {
    return unimplemented("uploads with Content-Encoding " + quoted(*encoding) + " are not taken");
  }
  for (const auto& [name, value] : headers.fields()) {
    if (ascii_lower(name).starts_with("x-metadata-")) {
      return unimplemented("file metadata (" + name + ") is not implemented by this guest");
    }
  }
  return {};
}

}  // namespace

void serve_upload(const std::shared_ptr<io::HttpExchange>& exchange, UploadTarget target) {
  const wire::Headers& headers = exchange->request().headers;
  if (const Status good = check_headers(headers); !good) {
    refuse(*exchange, good.error());
    return;
  }
  const std::string* type = headers.find("Content-Type");
  const auto boundary = type == nullptr ? std::nullopt : multipart_boundary(*type);
  if (type != nullptr && !boundary && ascii_lower(*type).starts_with("multipart/")) {
    refuse(*exchange, {ErrorCode::kInvalidArgument,
                       "only multipart/form-data with a boundary is taken", "bad_multipart"});
    return;
  }
  std::make_shared<Upload>(exchange, std::move(target))->run(boundary);
}

}  // namespace sandboxkit::guest
