#pragma once

#include "sandboxkit/client.h"
#include "sandboxkit/result.h"

#include "json/value.h"

#include <map>
#include <memory>
#include <string>

namespace sandboxkit::cli {

/// The controller's JSON calls. Any answer outside of 2xx is an error here.
/// Thread-safety: any thread.
class Api {
 public:
  explicit Api(std::unique_ptr<Client> client) : client_(std::move(client)) {}

  Result<json::Value> get(const std::string& target) { return call({.target = target}); }
  Result<json::Value> post(const std::string& target, const json::Value& body,
                           std::map<std::string, std::string> headers = {});
  Result<json::Value> put(const std::string& target, const json::Value& body) {
    return call({.method = "PUT", .target = target, .body = json::dump(body)});
  }
  /// `status` gets the answer's status where somebody wants to know.
  Result<json::Value> remove(const std::string& target, int* status = nullptr);

  /// For bodies that are not JSON or not collected; an answer outside of 2xx is an error.
  Result<ClientResponse> send(const ClientRequest& request);

 private:
  Result<json::Value> call(const ClientRequest& request, int* status = nullptr);
  std::unique_ptr<Client> client_;
};

/// `/v1/sandboxes/<name or id>` and what follows.
std::string sandbox_target(const std::string& sandbox, const std::string& rest = {});

}  // namespace sandboxkit::cli
