#include "guest/multipart.h"

#include "base/text.h"
#include "guest/bounds.h"

#include <algorithm>
#include <utility>

namespace sandboxkit::guest {
namespace {

constexpr std::size_t kMaxBoundaryBytes = 70;
constexpr std::string_view kBlankLine = "\r\n\r\n";

Error broken(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message), "bad_multipart"};
}

/// The value of `key="..."` or `key=...` in a header field's parameters. Browsers and SDKs escape a
/// quote as %22 or \"; both are undone.
std::optional<std::string> parameter(std::string_view field, std::string_view key) {
  std::size_t at = field.find(';');
  while (at != std::string_view::npos) {
    field = trim(field.substr(at + 1));
    const auto equals = field.find('=');
    if (equals == std::string_view::npos) {
      return std::nullopt;
    }
    const bool wanted = equal_ignoring_case(trim(field.substr(0, equals)), key);
    field = trim(field.substr(equals + 1));
    std::string value;
    std::size_t i = 0;
    if (field.starts_with('"')) {
      for (i = 1; i < field.size() && field[i] != '"'; ++i) {
        const bool escape = field[i] == '\\' && i + 1 < field.size() && field[i + 1] == '"';
        value.push_back(escape ? field[++i] : field[i]);
      }
    } else {
      i = std::min(field.find(';'), field.size());
      value = trim(field.substr(0, i));
    }
    if (wanted) {
      return value;
    }
    at = field.find(';', i);
  }
  return std::nullopt;
}

std::string undo_form_escapes(std::string text) {
  for (const auto& [escape, plain] : {std::pair{"%22", "\""}, {"%0D", "\r"}, {"%0A", "\n"}}) {
    for (auto at = text.find(escape); at != std::string::npos; at = text.find(escape, at + 1)) {
      text.replace(at, 3, plain);
    }
  }
  return text;
}

PartHead read_part_head(std::string_view text) {
  PartHead head;
  for (std::string_view line : split(text, '\n')) {
    const auto colon = line.find(':');
    if (colon == std::string_view::npos ||
        !equal_ignoring_case(trim(line.substr(0, colon)), "content-disposition")) {
      continue;
    }
    head.name = parameter(line.substr(colon + 1), "name").value_or("");
    head.file_name = undo_form_escapes(parameter(line.substr(colon + 1), "filename").value_or(""));
  }
  return head;
}

}  // namespace

std::optional<std::string> multipart_boundary(std::string_view content_type) {
  const std::string_view type = trim(content_type.substr(0, content_type.find(';')));
  if (!equal_ignoring_case(type, "multipart/form-data")) {
    return std::nullopt;
  }
  auto boundary = parameter(content_type, "boundary");
  const bool good = boundary && !boundary->empty() && boundary->size() <= kMaxBoundaryBytes &&
                    !has_control_characters(*boundary);
  return good ? boundary : std::nullopt;
}

MultipartParser::MultipartParser(std::string_view boundary, Handlers handlers)
    : delimiter_("\r\n--" + std::string(boundary)),
      handlers_(std::move(handlers)),
      buffer_("\r\n") {
  // The first boundary may stand at the very start, where no line ends before it.
}

Status MultipartParser::feed(std::string_view bytes) {
  if (state_ == State::kEpilogue) {
    return {};
  }
  buffer_.append(bytes);
  while (true) {
    const auto more = step();
    if (!more) {
      return more.error();
    }
    if (!*more) {
      return {};
    }
  }
}

Status MultipartParser::finish() const {
  return state_ == State::kEpilogue ? Status() : broken("the body ended before its last boundary");
}

/// False: more bytes are needed.
Result<bool> MultipartParser::step() {
  switch (state_) {
    case State::kPreamble:
      return read_preamble();
    case State::kAfterBoundary:
      return read_after_boundary();
    case State::kHead:
      return read_head();
    case State::kBody:
      return read_body();
    case State::kEpilogue:
      buffer_.clear();
      return false;
  }
  return false;
}

Result<bool> MultipartParser::read_preamble() {
  const auto at = buffer_.find(delimiter_);
  if (at == std::string::npos) {
    if (buffer_.size() > kMaxMultipartHeadBytes) {
      return broken("no boundary at the start of the body");
    }
    return false;
  }
  buffer_.erase(0, at + delimiter_.size());
  state_ = State::kAfterBoundary;
  return true;
}

Result<bool> MultipartParser::read_after_boundary() {
  if (buffer_.size() < 2) {
    return false;
  }
  if (buffer_.starts_with("--")) {
    state_ = State::kEpilogue;
    return true;
  }
  if (!buffer_.starts_with("\r\n")) {
    return broken("a boundary is followed by neither a line's end nor `--`");
  }
  if (++parts_ > kMaxMultipartParts) {
    return Error{ErrorCode::kTooLarge, "more than 1000 parts", "bad_multipart"};
  }
  state_ = State::kHead;  // the line's end stays: a head may have no field at all
  return true;
}

Result<bool> MultipartParser::read_head() {
  const auto end = buffer_.find(kBlankLine);
  if (end == std::string::npos || end > kMaxMultipartHeadBytes) {
    if (buffer_.size() > kMaxMultipartHeadBytes) {
      return Error{ErrorCode::kTooLarge, "a part's head is larger than 8 KiB", "bad_multipart"};
    }
    return false;
  }
  const PartHead head = read_part_head(std::string_view(buffer_).substr(0, end));
  buffer_.erase(0, end + kBlankLine.size());
  buffer_.insert(0, "\r\n");  // an empty part's boundary follows its head at once
  state_ = State::kBody;
  if (const Status taken = handlers_.on_part(head); !taken) {
    return taken.error();
  }
  skip_ = 2;
  return true;
}

Result<bool> MultipartParser::read_body() {
  const auto at = buffer_.find(delimiter_);
  const bool whole = at != std::string::npos;
  // What could be the start of a boundary waits for more.
  const std::size_t keep = delimiter_.size() - 1;
  const std::size_t data = whole ? at : buffer_.size() > keep ? buffer_.size() - keep : 0;
  if (data > skip_) {
    if (const Status taken =
            handlers_.on_data(std::string_view(buffer_).substr(skip_, data - skip_));
        !taken) {
      return taken.error();
    }
  }
  skip_ -= std::min(skip_, data);
  buffer_.erase(0, whole ? at + delimiter_.size() : data);
  if (!whole) {
    return false;
  }
  skip_ = 0;
  state_ = State::kAfterBoundary;
  if (const Status ended = handlers_.on_part_end(); !ended) {
    return ended.error();
  }
  return true;
}

}  // namespace sandboxkit::guest
