#include "docker/holders.h"

#include "docker/plan.h"

#include <utility>

namespace sandboxkit::docker {
namespace {

constexpr std::int64_t kHolderMemoryBytes = 32LL << 20;
constexpr std::int64_t kHolderPids = 8;

/// What fails is found by its label at the next start of a worker.
void remove_holder(EngineClient& engine, const std::string& holder) {
  static_cast<void>(engine.call(
      EngineCall{.method = "DELETE", .target = "/containers/" + holder + "?force=1&v=1"}));
}

Result<std::string> make_holder(EngineClient& engine, const Owner& owner,
                                const std::string& image) {
  const auto created = engine.call(EngineCall{.method = "POST",
                                              .target = "/containers/create",
                                              .body = json::dump(holder_body(owner, image))});
  if (!created) {
    return created.error();
  }
  std::string holder = created->text("Id");
  const auto started =
      engine.call(EngineCall{.method = "POST", .target = "/containers/" + holder + "/start"});
  if (!started) {
    remove_holder(engine, holder);
    return started.error();
  }
  return holder;
}

void remove_holders(EngineClient& engine, const Owner& owner) {
  const auto found = engine.get("/containers/json?all=1&" + filters_for(owner));
  const json::Array* list = found ? found->as_array() : nullptr;
  if (list == nullptr) {
    return;
  }
  for (const json::Value& entry : *list) {
    if (has_role(entry.find("Labels"), owner, Role::kHolder)) {
      remove_holder(engine, entry.text("Id"));
    }
  }
}

}  // namespace

json::Value holder_body(const Owner& owner, const std::string& image) {
  json::Object host{
      {"NetworkMode", "none"},
      {"CapDrop", json::Array{"ALL"}},
      {"SecurityOpt", json::Array{"no-new-privileges"}},
      {"ReadonlyRootfs", true},
      {"Memory", kHolderMemoryBytes},
      {"MemorySwap", kHolderMemoryBytes},
      {"PidsLimit", kHolderPids},
      {"IpcMode", "private"},
      {"Init", false},
      {"LogConfig", json::Object{{"Type", "none"}}},
  };
  // The files of names and the hostname are the holder's also in the sandbox.
  add_dead_resolver(host);
  return json::Object{
      {"Image", image},
      {"Hostname", kJoinedHostname},
      {"User", "65534:65534"},
      {"Entrypoint", json::Array{kEgressInImage, "--hold"}},
      {"Cmd", json::Array{}},
      {"Labels", labels_for_shared(owner, Role::kHolder)},
      {"HostConfig", std::move(host)},
  };
}

ReadyPool::Maker holder_maker(EngineClient& engine, const Owner& owner,
                              std::function<Result<std::string>()> image) {
  return {
      [&engine, owner, image = std::move(image)](const std::stop_token&) -> Result<std::string> {
        const auto name = image();
        return name ? make_holder(engine, owner, *name) : name.error();
      },
      [&engine](const std::string& holder) { remove_holder(engine, holder); },
      [&engine, owner] { remove_holders(engine, owner); },
  };
}

}  // namespace sandboxkit::docker
