#pragma once

#include "sandboxkit/clock.h"
#include "sandboxkit/result.h"

#include "control/fleet.h"
#include "store/secrets_key.h"
#include "store/store.h"
#include "wire/messages.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

/// The store's side of deliveries: what is due, what an answer means, and what it does to the rows.
/// No threads, tunnels or clocks in here, so that a model can drive it.
namespace sandboxkit::control {

/// What an answer to an order means for its row.
enum class Verdict : std::uint8_t { kDone, kRetry, kFailed, kGivenUp };

/// One order, made ready to be sent.
struct Order {
  std::int64_t seq = 0;  ///< 0: a stray's removal, which no row waits for.
  wire::DeliveryKind kind = wire::DeliveryKind::kRemove;
  std::string sandbox;
  std::string tenant{};
  std::int64_t generation = 0;
  std::int64_t attempts = 0;
  WallTime created{};
  WallTime expires{};
  std::string trace{};
  std::string body;
  std::string policy_hash{};  ///< narrow: of the policy that it brings.
};

/// What is queued for one worker.
struct Due {
  std::int64_t max_creating = 1;
  std::vector<Order> orders;
  std::vector<std::int64_t> stale;  ///< Superseded: finished without being sent.
  std::vector<Order> sealed;        ///< Their secrets do not open: they cannot be sent.
};

/// Orders that are tried this often are given up, but for removes that a row waits for; the next
/// inventory decides.
inline constexpr std::int64_t kMaxAttempts = 30;
inline constexpr std::size_t kMaxDue = 1000;

/// In the order in which they are to be sent: removes and renewals as they were queued, then
/// creates in turn by workspace, so that the burst of one does not keep the others waiting for a
/// start slot. `starting` is how many creates of each workspace are under way already.
void put_in_turn(std::vector<Order>& orders, std::map<std::string, std::int64_t> starting);

/// `key` opens the secrets that orders carry.
Result<Due> read_due(store::Tx& tx, const std::string& worker, WallTime now,
                     const store::SecretsKey* key = nullptr);
Status finish_stale(store::Tx& tx, const Due& due);
/// Ends the orders that cannot be sent, and the creates among them with a tombstone. The changed
/// rows.
Result<std::vector<store::SandboxRow>> fail_sealed(store::Tx& tx, const std::string& worker,
                                                   const Due& due, WallTime now);

/// An order for what runs without a row.
Order stray_order(const wire::Delivery& stray);

/// What an answer means; a create that may be tried again is given up once `create_wait` is over,
/// and a remove is tried again whatever the answer was.
Verdict judge_answer(const Order& order, const Result<WorkerAnswer>& answer, WallTime now,
                     std::chrono::milliseconds create_wait);
/// `name: message` of a refused order: the tombstone's text.
std::string failure_text(const Result<WorkerAnswer>& answer);
std::chrono::milliseconds backoff(std::int64_t attempts);

/// Writes what a verdict does; the row when it is current, whether or not it changed.
Result<std::optional<store::SandboxRow>> settle_order(store::Tx& tx, const std::string& worker,
                                                      const Order& order, Verdict verdict,
                                                      const std::string& failure, WallTime now);

}  // namespace sandboxkit::control
