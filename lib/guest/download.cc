#include "guest/download.h"

#include "guest/bounds.h"
#include "guest/byte_range.h"
#include "guest/reply.h"
#include "guest/small_file.h"

#include <algorithm>
#include <cerrno>
#include <optional>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace sandboxkit::guest {
namespace {

struct OpenedFile {
  io::Fd fd;
  std::uint64_t size;
};

/// O_NONBLOCK so that a FIFO without a writer cannot hold us, O_NOCTTY so that no terminal becomes
/// PID 1's; what is no regular file is closed again unread.
Result<OpenedFile> open_regular(const std::string& path) {
  io::Fd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) {
    return file_error(errno, path);
  }
  if (S_ISDIR(status.st_mode)) {
    return file_error(EISDIR, path);
  }
  if (!S_ISREG(status.st_mode)) {
    return Error{ErrorCode::kInvalidArgument, "path '" + path + "' is not a regular file",
                 "not_a_regular_file", "path"};
  }
  return OpenedFile{std::move(fd), static_cast<std::uint64_t>(status.st_size)};
}

/// Feeds a file to an answer that was begun.
class Download : public std::enable_shared_from_this<Download> {
 public:
  Download(io::EventLoop& loop, std::shared_ptr<io::HttpExchange> exchange, io::Fd file,
           std::optional<std::uint64_t> length)
      : loop_(loop), exchange_(std::move(exchange)), file_(std::move(file)), left_(length) {}

  void run(std::string first_piece) {
    exchange_->on_drain([self = shared_from_this()] { self->pump(); });
    exchange_->on_gone([self = shared_from_this()] { self->exchange_ = nullptr; });
    if (!first_piece.empty()) {
      exchange_->write(first_piece);
    }
    pump();
  }

 private:
  /// Writes until the client is behind or it is somebody else's turn.
  void pump() {
    std::size_t turn = 0;
    while (exchange_ != nullptr && exchange_->queued_bytes() <= io::Socket::kHighWater) {
      if (turn >= kFileTurnBytes) {
        yield();
        return;
      }
      if (left_ && *left_ == 0) {
        finish();
        return;
      }
      const std::size_t wanted =
          left_ ? static_cast<std::size_t>(std::min<std::uint64_t>(*left_, kFilePieceBytes))
                : kFilePieceBytes;
      if (buffer_.size() < wanted) {
        buffer_.resize(wanted);
      }
      const ssize_t got = ::read(file_.get(), buffer_.data(), wanted);
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got <= 0) {
        stop_early(got == 0);
        return;
      }
      turn += static_cast<std::size_t>(got);
      left_ = left_ ? std::optional(*left_ - static_cast<std::uint64_t>(got)) : std::nullopt;
      exchange_->write({buffer_.data(), static_cast<std::size_t>(got)});
    }
  }

  void yield() {
    if (!yielded_) {
      yielded_ = true;
      loop_.post([self = shared_from_this()] {
        self->yielded_ = false;
        self->pump();
      });
    }
  }

  /// A file that shrank meanwhile, or a disk that failed: the client must not take it for whole.
  void stop_early(bool end_of_file) {
    if (end_of_file && !left_) {
      finish();
      return;
    }
    const auto exchange = std::exchange(exchange_, nullptr);
    exchange->abort();
  }

  void finish() {
    const auto exchange = std::exchange(exchange_, nullptr);
    exchange->end();
  }

  io::EventLoop& loop_;
  std::shared_ptr<io::HttpExchange> exchange_;
  io::Fd file_;
  std::optional<std::uint64_t> left_;  // empty: to the end of the file
  std::string buffer_;
  bool yielded_ = false;
};

wire::Headers file_headers() {
  wire::Headers headers;
  headers.add("Content-Type", "application/octet-stream");
  headers.add("Accept-Ranges", "bytes");
  headers.add("Vary", "Accept-Encoding");
  return headers;
}

std::string read_piece(int fd) {
  std::string piece(kFilePieceBytes, '\0');
  const ssize_t got = ::read(fd, piece.data(), piece.size());
  piece.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return piece;
}

/// An empty file, or one of procfs: only reading tells.
void serve_unsized(io::EventLoop& loop, const std::shared_ptr<io::HttpExchange>& exchange,
                   io::Fd fd) {
  std::string piece = read_piece(fd.get());
  wire::Headers headers = file_headers();
  if (piece.empty()) {
    headers.add("Content-Length", "0");
    exchange->begin(200, std::move(headers));
    exchange->end();
    return;
  }
  exchange->begin(200, std::move(headers));
  std::make_shared<Download>(loop, exchange, std::move(fd), std::nullopt)->run(std::move(piece));
}

}  // namespace

void serve_download(io::EventLoop& loop, const std::shared_ptr<io::HttpExchange>& exchange,
                    const std::string& path) {
  auto opened = open_regular(path);
  if (!opened) {
    refuse(*exchange, opened.error());
    return;
  }
  if (opened->size == 0) {
    serve_unsized(loop, exchange, std::move(opened->fd));
    return;
  }
  const wire::Headers& asked = exchange->request().headers;
  const std::string* field = asked.find("Range");
  // We hand out no validators, so a conditional range cannot hold.
  const bool conditional = asked.find("If-Range") != nullptr;
  const auto [answer, range] =
      field != nullptr && !conditional ? decide_range(*field, opened->size) : RangeDecision{};
  const std::string size = std::to_string(opened->size);
  wire::Headers headers = file_headers();
  if (answer == RangeAnswer::kUnsatisfiable) {
    headers.set("Content-Type", "application/json");
    headers.add("Content-Range", "bytes */" + size);
    exchange->respond(416, std::move(headers),
                      io::error_body(416, "range_not_satisfiable", "file has " + size + " bytes"));
    return;
  }
  std::uint64_t length = opened->size;
  if (answer == RangeAnswer::kPart) {
    length = range.length;
    headers.add("Content-Range", "bytes " + std::to_string(range.first) + "-" +
                                     std::to_string(range.first + length - 1) + "/" + size);
    if (::lseek(opened->fd.get(), static_cast<off_t>(range.first), SEEK_SET) < 0) {
      refuse(*exchange, file_error(errno, path));
      return;
    }
  }
  headers.add("Content-Length", std::to_string(length));
  exchange->begin(answer == RangeAnswer::kPart ? 206 : 200, std::move(headers));
  std::make_shared<Download>(loop, exchange, std::move(opened->fd), length)->run({});
}

}  // namespace sandboxkit::guest
