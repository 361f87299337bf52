#include "guest/files.h"

#include "base/text.h"
#include "guest/bounds.h"
#include "guest/download.h"
#include "guest/paths.h"
#include "guest/reply.h"
#include "guest/sha256.h"
#include "guest/tree.h"
#include "guest/upload.h"

#include <limits>

namespace sandboxkit::guest {
namespace {

Error unauthenticated(const char* message) { return {ErrorCode::kUnauthenticated, message}; }

/// The texts are compared by the SDKs' tests.
Status check_signature(const Settings& settings, const wire::Target& target, const char* operation,
                       WallTime now) {
  const auto signature = target.query_value("signature");
  if (!signature) {
    return unauthenticated("missing signature query parameter");
  }
  const auto expiration = target.query_value("signature_expiration");
  const std::string expected =
      file_signature({target.query_value("path").value_or(""), operation,
                      target.query_value("username").value_or(""), expiration},
                     settings.access_token());
  if (!equal_constant_time(*signature, expected)) {
    return unauthenticated("invalid signature");
  }
  if (expiration) {
    const auto until = parse_decimal(*expiration, std::numeric_limits<std::int64_t>::max());
    const auto seconds =
        std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
    if (!until || static_cast<std::uint64_t>(seconds) > *until) {
      return unauthenticated("signature is already expired");
    }
  }
  return {};
}

Status check_access(const Settings& settings, const wire::RequestHead& head,
                    const wire::Target& target) {
  const std::string* token = head.headers.find("X-Access-Token");
  if (settings.token_matches(token == nullptr ? "" : *token)) {
    return {};
  }
  return check_signature(settings, target, head.method == "GET" ? "read" : "write",
                         system_clock().now());
}

void serve_delete(io::HttpExchange& exchange, const wire::Target& target, const std::string& path) {
  const std::string recursive = target.query_value("recursive").value_or("false");
  if (recursive != "true" && recursive != "false") {
    refuse(exchange,
           {ErrorCode::kInvalidArgument, "`recursive` must be true or false", {}, "recursive"});
    return;
  }
  if (const Status removed = remove_path(path, recursive == "true"); !removed) {
    refuse(exchange, removed.error());
    return;
  }
  exchange.respond(204, {}, "");
}

}  // namespace

std::string file_signature(const Signed& what, std::string_view token) {
  std::string text = what.path + ":" + what.operation + ":" + what.user + ":" + std::string(token);
  if (what.expiration) {
    text += ":" + *what.expiration;
  }
  const auto digest = sha256(text);
  std::string encoded =
      base64_encode({reinterpret_cast<const char*>(digest.data()), digest.size()});
  encoded.erase(encoded.find_last_not_of('=') + 1);
  return "v1_" + encoded;
}

void serve_files(io::EventLoop& loop, Settings& settings,
                 const std::shared_ptr<io::HttpExchange>& exchange, const wire::Target& target) {
  const wire::RequestHead& head = exchange->request();
  const bool upload = head.method == "POST" || head.method == "PUT";
  if (!upload && head.method != "GET" && head.method != "DELETE") {
    wire::Headers headers;
    headers.add("Allow", "GET, POST, PUT, DELETE");
    headers.add("Content-Type", "application/json");
    exchange->respond(
        405, std::move(headers),
        io::error_body(405, "method_not_allowed", "/files takes GET, POST, PUT, DELETE"));
    return;
  }
  if (const Status allowed = check_access(settings, head, target); !allowed) {
    refuse(*exchange, allowed.error());
    return;
  }
  const auto user =
      settings.user(target.query_value("username").value_or(basic_user(head.headers)));
  if (!user) {
    refuse(*exchange, user.error());
    return;
  }
  const std::string workdir = settings.workdir_of(*user);
  const auto asked = target.query_value("path");
  const auto path = resolve_path(asked.value_or(""), workdir);
  if (!path || (!upload && (!asked || asked->empty()))) {
    refuse(
        *exchange,
        path ? Error{ErrorCode::kInvalidArgument, "query parameter `path` is required", {}, "path"}
             : path.error());
    return;
  }
  if (upload) {
    const bool named = asked && !asked->empty();
    serve_upload(exchange, {.path = named ? std::optional(*path) : std::nullopt,
                            .user = *user,
                            .change_owner = settings.is_root(),
                            .workdir = workdir});
  } else if (head.method == "GET") {
    serve_download(loop, exchange, *path);
  } else {
    serve_delete(*exchange, target, *path);
  }
}

}  // namespace sandboxkit::guest
