#include "control/metrics.h"

#include "base/text.h"
#include "control/route_table.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

namespace sandboxkit::control {
namespace {

constexpr std::array<std::uint64_t, 7> kGroupBounds = {1, 2, 4, 8, 16, 32, 64};
constexpr double kMicro = 1e-6;
constexpr std::array<const char*, 6> kClassNames = {"other", "1xx", "2xx", "3xx", "4xx", "5xx"};
constexpr std::string_view kOther = "other";

std::size_t class_of(int status) {
  return status >= 100 && status <= 599 ? static_cast<std::size_t>(status / 100) : 0;
}

/// One place in the list of routes.
struct Known {
  std::string_view method;
  std::string_view pattern;
  std::vector<std::string_view> parts;
};

/// The table's routes, the open ones, and last what stands for all others.
const std::vector<Known>& known_routes() {
  static const std::vector<Known> known = [] {
    std::vector<Known> all;
    for (const Route& route : routes()) {
      all.push_back({route.method, route.pattern, split(route.pattern, '/')});
    }
    for (const std::string_view open : kOpenRoutes) {
      const auto pattern = open.substr(open.find(' ') + 1);
      all.push_back({open.substr(0, open.find(' ')), pattern, split(pattern, '/')});
    }
    all.push_back({kOther, kOther, {}});
    return all;
  }();
  return known;
}

bool matches(const Known& route, std::string_view method,
             const std::vector<std::string_view>& path) {
  return route.method == method &&
         std::ranges::equal(route.parts, path, [](std::string_view part, std::string_view segment) {
           return part.starts_with('{') ? !segment.empty() : part == segment;
         });
}

std::size_t route_of(std::string_view method, std::string_view target) {
  const auto path = split(target.substr(0, target.find('?')), '/');
  const auto& known = known_routes();
  const auto found = std::find_if(known.begin(), known.end() - 1,
                                  [&](const Known& each) { return matches(each, method, path); });
  return static_cast<std::size_t>(found - known.begin());
}

}  // namespace

Metrics::Metrics()
    : store_groups(kGroupBounds),
      routes_(known_routes().size()),
      refused_creates_(refusal_names().size() + 1) {}

void Metrics::answered(std::string_view method, std::string_view target, int status,
                       std::chrono::microseconds taken) {
  RouteMetrics& route = routes_[route_of(method, target)];
  route.answers[class_of(status)].add();
  route.seconds.observe(static_cast<std::uint64_t>(std::max<std::int64_t>(taken.count(), 0)));
}

void Metrics::create_decided(std::string_view refusal) {
  if (refusal.empty()) {
    return created_.add();
  }
  const auto names = refusal_names();
  const auto found =
      std::ranges::find_if(names, [&](const RefusalName& each) { return each.name == refusal; });
  refused_creates_[static_cast<std::size_t>(found - names.begin())].add();
}

void Metrics::write(Exposition& out) const {
  out.family("sandboxkit_build_info", "gauge", "The version that runs.");
  out.sample({{"version", SANDBOXKIT_VERSION}}, 1);
  write_routes(out);
  write_creates(out);
  const std::tuple<const char*, const char*, const Counter&> counters[] = {
      {"sandboxkit_auth_failures_total", "Credentials that were refused.", auth_failures},
      {"sandboxkit_rate_limited_total", "Calls that were answered 429.", rate_limited},
      {"sandboxkit_deliveries_sent_total", "Orders sent to workers.", orders_sent},
      {"sandboxkit_deliveries_retried_total", "Orders to be sent again.", orders_retried},
      {"sandboxkit_deliveries_given_up_total", "Orders that were given up.", orders_given_up}};
  for (const auto& [name, help, counter] : counters) {
    out.family(name, "counter", help);
    out.sample(static_cast<double>(counter.value()));
  }
  out.family("sandboxkit_event_loop_lag_seconds", "histogram", "How late the event loop turns.");
  out.histogram({}, loop_lag, kMicro);
  out.family("sandboxkit_store_write_seconds", "histogram",
             "From a write's begin to its durable end.");
  out.histogram({}, store_writes, kMicro);
  out.family("sandboxkit_store_group_size", "histogram", "Writes that shared one commit.");
  out.histogram({}, store_groups, 1);
}

void Metrics::write_routes(Exposition& out) const {
  out.family("sandboxkit_http_requests_total", "counter", "Answers by route and status class.");
  for (std::size_t i = 0; i < routes_.size(); ++i) {
    const auto& [method, route, parts] = known_routes()[i];
    for (std::size_t each = 0; each < kClasses; ++each) {
      if (const auto count = routes_[i].answers[each].value(); count > 0) {
        out.sample({{"method", method}, {"route", route}, {"status", kClassNames[each]}},
                   static_cast<double>(count));
      }
    }
  }
  out.family("sandboxkit_http_request_duration_seconds", "histogram",
             "From a request's head to the begin of its answer.");
  for (std::size_t i = 0; i < routes_.size(); ++i) {
    const auto& answers = routes_[i].answers;
    if (std::ranges::any_of(answers, [](const Counter& each) { return each.value() > 0; })) {
      const auto& [method, route, parts] = known_routes()[i];
      out.histogram({{"method", method}, {"route", route}}, routes_[i].seconds, kMicro);
    }
  }
}

void Metrics::write_creates(Exposition& out) const {
  out.family("sandboxkit_creates_total", "counter", "Creates by outcome: decided, or the refusal.");
  out.sample({{"outcome", "decided"}}, static_cast<double>(created_.value()));
  const auto names = refusal_names();
  for (std::size_t i = 0; i < refused_creates_.size(); ++i) {
    if (const auto count = refused_creates_[i].value(); count > 0) {
      out.sample({{"outcome", i < names.size() ? names[i].name : kOther}},
                 static_cast<double>(count));
    }
  }
}

}  // namespace sandboxkit::control
