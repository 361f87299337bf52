#include "local/guest_call.h"

#include "base/percent.h"
#include "base/text.h"
#include "gate/rules.h"
#include "guest/paths.h"
#include "guest/rpc_message.h"
#include "json/value.h"
#include "wire/connect.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace sandboxkit::local {
namespace {

using guest::RpcMessage;

constexpr std::string_view kProcess = "/process.Process/";
constexpr std::string_view kFilesystem = "/filesystem.Filesystem/";

Error no_such_route(std::string_view path) {
  return {ErrorCode::kNotFound, "the guest has no route " + quoted(path), "route_not_found"};
}

/// A program with its words, and the variables that would take it over.
Result<GateRequest> run_request(std::vector<std::string> words,
                                const std::map<std::string, std::string>& variables,
                                const std::optional<std::string>& cwd, const GuestPlaces& places) {
  auto folder = guest::resolve_path(cwd.value_or(""), places.tree);
  if (!folder) {
    return folder.error();
  }
  GateRequest request;
  request.cwd = std::move(*folder);
  for (const auto& [name, value] : variables) {
    // Others are the caller's own text, and no variables of the machine.
    if (gate::is_locked_variable(name)) {
      request.items.push_back({.operation = GateOperation::kEnv, .target = name});
    }
  }
  request.items.push_back({.operation = GateOperation::kExec, .argv = std::move(words)});
  return request;
}

/// The message of a call: JSON, or for a stream the first envelope's.
Result<json::Value> message_of(const std::string& body, bool stream) {
  std::string text = body.empty() ? std::string("{}") : body;
  if (stream) {
    wire::ConnectDecoder decoder(kMaxJudgedBytes);
    decoder.feed(body);
    auto envelope = decoder.next();
    if (!envelope || !*envelope) {
      return envelope ? Error{ErrorCode::kInvalidArgument, "request holds no whole envelope"}
                      : envelope.error();
    }
    text = (*envelope)->json.empty() ? std::string("{}") : std::move((*envelope)->json);
  }
  return json::parse(text, {.max_bytes = kMaxJudgedBytes});
}

Result<GateRequest> start_request(const std::string& body, const GuestPlaces& places) {
  const auto message = message_of(body, true);
  if (!message) {
    return message.error();
  }
  RpcMessage whole(*message);
  RpcMessage process = whole.message("process");
  std::vector<std::string> words{process.text("cmd")};
  for (std::string& each : process.texts("args")) {
    words.push_back(std::move(each));
  }
  const auto variables = process.text_map("envs");
  const auto cwd = process.optional_text("cwd");
  whole.join(process);
  if (const Status read = whole.status(); !read) {
    return read.error();
  }
  return run_request(std::move(words), variables, cwd, places);
}

/// `{"command": [...], "env": {...}, "cwd": TEXT}`; the guest reads the rest.
Result<GateRequest> exec_request(const std::string& body, const GuestPlaces& places) {
  const auto message = message_of(body, false);
  if (!message) {
    return message.error();
  }
  RpcMessage whole(*message);
  std::vector<std::string> words = whole.texts("command");
  const auto variables = whole.text_map("env");
  const auto cwd = whole.optional_text("cwd");
  if (const Status read = whole.status(); !read) {
    return read.error();
  }
  return run_request(std::move(words), variables, cwd, places);
}

struct FilesystemMethod {
  std::string_view name;
  GateOperation operation;
  const char* path = "path";
  const char* to = nullptr;
  bool stream = false;
};

constexpr FilesystemMethod kFilesystemMethods[] = {
    {"Stat", GateOperation::kStat},
    {"ListDir", GateOperation::kList},
    {"MakeDir", GateOperation::kCreate},
    {"Move", GateOperation::kRename, "source", "destination"},
    {"Remove", GateOperation::kDelete},
    {"WatchDir", GateOperation::kList, "path", nullptr, true},
    {"CreateWatcher", GateOperation::kList},
};

const FilesystemMethod* filesystem_method(std::string_view name) {
  for (const FilesystemMethod& each : kFilesystemMethods) {
    if (each.name == name) {
      return &each;
    }
  }
  return nullptr;
}

Result<GateRequest> filesystem_request(const FilesystemMethod& method, const std::string& body,
                                       const GuestPlaces& places) {
  const auto message = message_of(body, method.stream);
  if (!message) {
    return message.error();
  }
  RpcMessage whole(*message);
  const std::string path = whole.text(method.path);
  const std::string to = method.to == nullptr ? "" : whole.text(method.to);
  if (const Status read = whole.status(); !read) {
    return read.error();
  }
  auto target = guest::resolve_path(path, places.tree);
  auto second = guest::resolve_path(to, places.tree);
  if (!target || !second) {
    return target ? second.error() : target.error();
  }
  GateItem item{.operation = method.operation, .target = std::move(*target)};
  if (method.to != nullptr) {
    item.to = std::move(*second);
  }
  return GateRequest{.cwd = places.tree, .items = {std::move(item)}};
}

Result<GuestCall> files_call(const wire::RequestHead& head, const wire::Target& target,
                             const GuestPlaces& places) {
  const bool upload = head.method == "POST" || head.method == "PUT";
  const auto asked = target.query_value("path");
  if (!asked || asked->empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 upload ? "name the file in the query parameter `path`: names inside of the body "
                          "come too late to be judged"
                        : "query parameter `path` is required",
                 "invalid_argument", "path"};
  }
  auto path = guest::resolve_path(*asked, places.tree);
  if (!path) {
    return path.error();
  }
  GuestCall call;
  call.request.cwd = places.tree;
  call.target = "/files?path=" + percent_encoded(*path);
  if (target.query_value("recursive")) {
    call.target += "&recursive=" + percent_encoded(*target.query_value("recursive"));
  }
  call.request.items.push_back({.operation = upload                    ? GateOperation::kWrite
                                             : head.method == "DELETE" ? GateOperation::kDelete
                                                                       : GateOperation::kRead,
                                .target = std::move(*path)});
  return call;
}

Result<GuestCall> with_target(Result<GateRequest> request, const wire::Target& target) {
  if (!request) {
    return request.error();
  }
  return GuestCall{std::move(*request), target.raw_path};
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  for (const std::string_view each : names) {
    if (name == each) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool needs_body(const wire::RequestHead& head) {
  return head.method == "POST" && (head.target == "/exec" || head.target.starts_with(kFilesystem) ||
                                   head.target == std::string(kProcess) + "Start");
}

Result<GuestCall> read_guest_call(const wire::RequestHead& head, const std::string& body,
                                  const GuestPlaces& places) {
  if (head.method == "CONNECT") {
    return GuestCall{.target = head.target};  // To the box's own loopback.
  }
  const auto target = wire::parse_target(head.target);
  if (!target) {
    return target.error();
  }
  const std::string_view path = target->path;
  if (path == "/files") {
    return files_call(head, *target, places);
  }
  if (is_one_of(path, {"/health", "/metrics", "/envs"})) {
    return GuestCall{.target = target->raw_path};
  }
  // What needs a body must be spelled as `needs_body` saw it.
  if (needs_body(head) && path == head.target) {
    if (path == "/exec") {
      return with_target(exec_request(body, places), *target);
    }
    if (path.starts_with(kProcess)) {
      return with_target(start_request(body, places), *target);
    }
    const FilesystemMethod* method = filesystem_method(path.substr(kFilesystem.size()));
    if (method != nullptr) {
      return with_target(filesystem_request(*method, body, places), *target);
    }
    if (is_one_of(path.substr(kFilesystem.size()), {"GetWatcherEvents", "RemoveWatcher"})) {
      return GuestCall{.target = target->raw_path};
    }
  }
  if (head.method == "POST" && path.starts_with(kProcess) && path == head.target &&
      is_one_of(path.substr(kProcess.size()), {"Connect", "List", "SendInput", "StreamInput",
                                               "SendSignal", "Update", "CloseStdin"})) {
    return GuestCall{.target = target->raw_path};
  }
  return no_such_route(path);
}

}  // namespace sandboxkit::local
