#include "control/denied_feed.h"

#include "control/proxy.h"
#include "control/refusals.h"

#include <utility>

namespace sandboxkit::control {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kAskTimeout{10'000};
constexpr int kQuietTurns = 15;
/// A follower that reads slower than it is told is told less often, not kept in memory.
constexpr std::size_t kMaxQueued = 256 * 1024;

class DeniedFeed : public std::enable_shared_from_this<DeniedFeed> {
 public:
  DeniedFeed(Services& services, std::shared_ptr<io::HttpExchange> exchange, Followed followed,
             std::function<void()> on_over)
      : services_(services),
        exchange_(std::move(exchange)),
        followed_(std::move(followed)),
        on_over_(std::move(on_over)) {}

  void start() {
    exchange_->on_gone([self = shared_from_this()] { self->finish(); });
    ask();
  }

 private:
  void ask() {
    if (!exchange_) {
      return;
    }
    if (*followed_.draining) {
      return end();
    }
    if (exchange_->queued_bytes() > kMaxQueued) {
      return later();
    }
    const std::string path = "/v1/sandboxes/" + followed_.sandbox + "/" +
                             std::to_string(followed_.generation) + "/denied";
    services_.fleet.call(
        {followed_.worker, "GET", path, {}, kAskTimeout},
        [self = shared_from_this()](const Result<WorkerAnswer>& told) { self->take(told); });
  }

  void take(const Result<WorkerAnswer>& told) {
    if (!exchange_) {
      return;
    }
    const bool well = told && told->status == 200;
    const auto value = well ? json::parse(told->body) : Result<json::Value>(worker_unreachable());
    const auto denied =
        value ? wire::denied_from_json(*value) : Result<std::vector<DeniedEgress>>(value.error());
    if (!denied) {
      return end();  // The sandbox ended, or its worker is away: whoever follows asks again.
    }
    tell(difference_.take(*denied));
    told_ < followed_.lines ? later() : end();
  }

  void tell(const std::vector<DeniedEgress>& lines) {
    if (!begun_) {
      wire::Headers headers;
      headers.add("Content-Type", "application/x-ndjson");
      headers.add("Cache-Control", "no-store");
      headers.add("X-Content-Type-Options", "nosniff");
      exchange_->begin(200, std::move(headers));
    }
    if (!begun_ || !lines.empty()) {
      quiet_ = 0;
      ++told_;
      exchange_->write(json::dump(wire::denied_to_json(lines)) + "\n");
    } else if (++quiet_ >= kQuietTurns) {
      quiet_ = 0;
      exchange_->write("\n");
    }
    begun_ = true;
  }

  void later() {
    services_.context.loop.run_after(kFollowPause, [self = shared_from_this()] { self->ask(); });
  }

  void end() {
    const auto exchange = exchange_;
    if (begun_) {
      exchange->end();
    } else {
      respond(*exchange, refuse(worker_unreachable()));
    }
    finish();
  }

  void finish() {
    exchange_.reset();
    if (const auto once = std::exchange(on_over_, nullptr)) {
      once();
    }
  }

  Services& services_;
  std::shared_ptr<io::HttpExchange> exchange_;
  Followed followed_;
  std::function<void()> on_over_;
  DeniedDifference difference_;
  bool begun_ = false;
  std::uint64_t told_ = 0;
  int quiet_ = 0;
};

}  // namespace

std::vector<DeniedEgress> DeniedDifference::take(const std::vector<DeniedEgress>& denied) {
  std::vector<DeniedEgress> news;
  decltype(counts_) now;
  for (const DeniedEgress& line : denied) {
    const auto key = std::tuple(line.host, line.port, line.reason);
    const auto before = counts_.find(key);
    if (before == counts_.end() || before->second != line.count) {
      news.push_back(line);
    }
    now[key] = line.count;
  }
  counts_ = std::move(now);
  return news;
}

void follow_denied(Services& services, const std::shared_ptr<io::HttpExchange>& exchange,
                   Followed followed, std::function<void()> on_over) {
  std::make_shared<DeniedFeed>(services, exchange, std::move(followed), std::move(on_over))
      ->start();
}

}  // namespace sandboxkit::control
