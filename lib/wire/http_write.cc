#include "wire/http.h"

#include <algorithm>
#include <array>

namespace sandboxkit::wire {
namespace {

struct StatusName {
  int status;
  const char* name;
};

constexpr std::array kStatusNames{
    StatusName{100, "Continue"},
    StatusName{101, "Switching Protocols"},
    StatusName{200, "OK"},
    StatusName{201, "Created"},
    StatusName{202, "Accepted"},
    StatusName{204, "No Content"},
    StatusName{206, "Partial Content"},
    StatusName{301, "Moved Permanently"},
    StatusName{302, "Found"},
    StatusName{303, "See Other"},
    StatusName{304, "Not Modified"},
    StatusName{307, "Temporary Redirect"},
    StatusName{308, "Permanent Redirect"},
    StatusName{400, "Bad Request"},
    StatusName{401, "Unauthorized"},
    StatusName{403, "Forbidden"},
    StatusName{404, "Not Found"},
    StatusName{405, "Method Not Allowed"},
    StatusName{406, "Not Acceptable"},
    StatusName{408, "Request Timeout"},
    StatusName{409, "Conflict"},
    StatusName{410, "Gone"},
    StatusName{411, "Length Required"},
    StatusName{412, "Precondition Failed"},
    StatusName{413, "Content Too Large"},
    StatusName{414, "URI Too Long"},
    StatusName{415, "Unsupported Media Type"},
    StatusName{416, "Range Not Satisfiable"},
    StatusName{417, "Expectation Failed"},
    StatusName{421, "Misdirected Request"},
    StatusName{422, "Unprocessable Content"},
    StatusName{426, "Upgrade Required"},
    StatusName{429, "Too Many Requests"},
    StatusName{431, "Request Header Fields Too Large"},
    StatusName{499, "Client Closed Request"},
    StatusName{500, "Internal Server Error"},
    StatusName{501, "Not Implemented"},
    StatusName{502, "Bad Gateway"},
    StatusName{503, "Service Unavailable"},
    StatusName{504, "Gateway Timeout"},
    StatusName{505, "HTTP Version Not Supported"},
    StatusName{507, "Insufficient Storage"},
};

/// A line break or a NUL in a value would end the field and start one that nobody meant. No such
/// value comes out of our parsers; one that a program made is written with blanks in their place.
void append_safe(std::string_view text, std::string& out) {
  for (const char c : text) {
    out.push_back(c == '\r' || c == '\n' || c == '\0' ? ' ' : c);
  }
}

void append_fields(const Headers& headers, std::string& out) {
  for (const auto& [name, value] : headers.fields()) {
    append_safe(name, out);
    out += ": ";
    append_safe(value, out);
    out += "\r\n";
  }
  out += "\r\n";
}

const char* version_text(int minor_version) { return minor_version == 0 ? "HTTP/1.0" : "HTTP/1.1"; }

}  // namespace

const char* reason_phrase(int status) {
  const auto* const at = std::ranges::find(kStatusNames, status, &StatusName::status);
  return at == kStatusNames.end() ? "Unknown" : at->name;
}

std::string serialize(const RequestHead& head) {
  std::string out;
  append_safe(head.method, out);
  out.push_back(' ');
  append_safe(head.target, out);
  out.push_back(' ');
  out += version_text(head.minor_version);
  out += "\r\n";
  append_fields(head.headers, out);
  return out;
}

std::string serialize(const ResponseHead& head) {
  std::string out = version_text(head.minor_version);
  out += " " + std::to_string(head.status) + " ";
  append_safe(head.reason.empty() ? std::string_view(reason_phrase(head.status)) : head.reason,
              out);
  out += "\r\n";
  append_fields(head.headers, out);
  return out;
}

}  // namespace sandboxkit::wire
