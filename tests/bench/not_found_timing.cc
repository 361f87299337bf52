// Whether the time of a 404 tells a foreign object from an absent one.
//
// Asks a whole controller over loopback, in random order, for objects that are another workspace's,
// for ones that are not there, and for others that are not there (the control). All answers must be
// the same bytes. The difference of the median times must lie within +-50 us, judged by its 99.9 %
// bootstrap interval: inside of the band is a pass, outside a failure; an interval that reaches
// over its edge takes more samples. The control is judged alike, so a machine that is too busy to
// tell is seen as that.
// Ends with 0: no difference; 1: a difference, or other bytes; 77: the machine cannot tell.

#include "sandboxkit/controller.h"

#include "base/random.h"
#include "store/store.h"
#include "tests/bench/bench.h"
#include "wire/http.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>

namespace {

using namespace sandboxkit;
using namespace sandboxkit::bench;

constexpr double kBandUs = 50;
constexpr int kRequestsPerRound = 12'000;  // Of three groups together.
constexpr int kMostRounds = 4;
constexpr int kResamples = 4'000;
constexpr int kObjects = 200;
constexpr int kInconclusive = 77;

struct NoEvents final : EventSink {
  void tell(const Event&) override {}
};

/// A controller that serves a folder while it lives.
class Serving {
 public:
  explicit Serving(const std::string& folder) {
    ControllerConfig config{folder};
    config.port = 0;
    config.rate_limit_per_key = 0;
    auto made = Controller::create(config, system_clock(), events_);
    if (!made) {
      std::fprintf(stderr, "controller: %s\n", made.error().message.c_str());
      std::exit(1);
    }
    controller_ = std::move(*made);
    thread_ = std::thread([this] { static_cast<void>(controller_->run()); });
  }
  ~Serving() {
    controller_->stop();
    thread_.join();
  }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;
  std::uint16_t port() const { return controller_->port(); }

 private:
  NoEvents events_;
  std::unique_ptr<Controller> controller_;
  std::thread thread_;
};

/// One kept connection with one key.
class Asker {
 public:
  Asker(std::uint16_t port, std::string key) : fd_(connect_loopback(port)), key_(std::move(key)) {}
  ~Asker() { ::close(fd_); }
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;

  /// The whole answer, without what differs from call to call by itself.
  std::string ask(const std::string& method, const std::string& path, const std::string& body) {
    const std::string request =
        method + " " + path + " HTTP/1.1\r\nHost: bench\r\n" + "Authorization: Bearer " + key_ +
        "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    send_all(fd_, request.data(), request.size());
    std::string answer;
    std::size_t whole = std::string::npos;
    std::array<char, 8192> buffer{};
    while (answer.size() < whole) {
      const auto got = ::recv(fd_, buffer.data(), buffer.size(), 0);
      if (got <= 0) {
        give_up("recv");
      }
      answer.append(buffer.data(), static_cast<std::size_t>(got));
      const auto end = answer.find("\r\n\r\n");
      if (whole == std::string::npos && end != std::string::npos) {
        whole = end + 4 + length_in(answer.substr(0, end));
      }
    }
    return answer;
  }

  static std::string stable(const std::string& answer) {
    std::string kept;
    for (std::size_t at = 0; at < answer.size();) {
      const std::size_t end = std::min(answer.find('\n', at), answer.size() - 1) + 1;
      const std::string line = answer.substr(at, end - at);
      if (!is_field(line, "date:") && !is_field(line, "x-request-id:")) {
        kept += line;
      }
      at = end;
    }
    return kept;
  }

 private:
  static bool is_field(const std::string& line, const std::string& name) {
    return line.size() >= name.size() &&
           std::equal(name.begin(), name.end(), line.begin(), [](char a, char b) {
             return a == std::tolower(static_cast<unsigned char>(b));
           });
  }
  static std::size_t length_in(const std::string& head) {
    for (std::size_t at = head.find('\n'); at != std::string::npos; at = head.find('\n', at + 1)) {
      const std::string line = head.substr(at + 1, 64);
      if (is_field(line, "content-length:")) {
        return std::stoul(line.substr(15));
      }
    }
    return 0;
  }

  int fd_;
  std::string key_;
};

std::string member_of(const std::string& answer, const std::string& name) {
  const std::string mark = "\"" + name + "\":\"";
  const std::size_t at = answer.find(mark);
  if (at == std::string::npos) {
    std::fprintf(stderr, "no %s in: %s\n", name.c_str(), answer.c_str());
    std::exit(1);
  }
  return answer.substr(at + mark.size(), answer.find('"', at + mark.size()) - at - mark.size());
}

/// What is asked for: objects of another workspace, and two sets of names that nobody has.
struct Kind {
  const char* name;
  std::string path;
  std::array<std::vector<std::string>, 3> names;  // foreign, absent, absent
};

std::string sandbox_id() { return "i" + system_random().text(20, kBase36); }
std::string worker_id() { return "w-" + system_random().text(12, kBase36); }
std::string sandbox_name() { return "build-" + system_random().text(8, kBase36); }

std::vector<Kind> make_objects(const std::string& folder) {
  std::vector<Kind> kinds = {{"sandboxes by id", "/v1/sandboxes/", {}},
                             {"sandboxes by name", "/v1/sandboxes/", {}},
                             {"workers", "/v1/workers/", {}}};
  for (int group = 0; group < 3; ++group) {
    for (int i = 0; i < kObjects; ++i) {
      kinds[0].names[static_cast<std::size_t>(group)].push_back(sandbox_id());
      kinds[1].names[static_cast<std::size_t>(group)].push_back(sandbox_name());
      kinds[2].names[static_cast<std::size_t>(group)].push_back(worker_id());
    }
  }
  auto store = store::open_sqlite(folder + "/controller.db");
  if (!store) {
    std::fprintf(stderr, "store: %s\n", store.error().message.c_str());
    std::exit(1);
  }
  const Status written = (*store)->write([&](store::Tx& tx) -> Status {
    for (std::size_t i = 0; i < kObjects; ++i) {
      store::WorkerRow worker{.id = kinds[2].names[0][i], .tenant = "acme"};
      worker.name = worker.id;
      store::SandboxRow sandbox{
          .id = kinds[0].names[0][i], .tenant = "acme", .spec = "{}", .spec_hash = "h"};
      sandbox.name = kinds[1].names[0][i];
      sandbox.worker = worker.id;
      sandbox.state = "paused";  // Neither a sweep nor a report changes it.
      sandbox.expires = WallTime::max();
      for (const Status& status : {tx.insert(worker), tx.insert(sandbox)}) {
        if (!status) {
          return status;
        }
      }
    }
    return {};
  });
  if (!written) {
    std::fprintf(stderr, "store: %s\n", written.error().message.c_str());
    std::exit(1);
  }
  return kinds;
}

using Times = std::vector<double>;

double median(Times times) {
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

Times resample(const Times& times, std::mt19937_64& random) {
  Times drawn(times.size());
  for (double& each : drawn) {
    each = times[random() % times.size()];
  }
  return drawn;
}

struct Interval {
  double low = 0;
  double high = 0;
};

/// 99.9 % of the differences of medians of what might have been measured as well.
Interval difference(const Times& a, const Times& b, std::mt19937_64& random) {
  Times differences;
  for (int i = 0; i < kResamples; ++i) {
    differences.push_back(median(resample(a, random)) - median(resample(b, random)));
  }
  std::ranges::sort(differences);
  return {differences[kResamples / 2000], differences[kResamples - 1 - kResamples / 2000]};
}

enum class Verdict { kSame, kDifferent, kUnclear };

Verdict judge(const Interval& interval) {
  if (interval.low > -kBandUs && interval.high < kBandUs) {
    return Verdict::kSame;
  }
  return interval.low > kBandUs || interval.high < -kBandUs ? Verdict::kDifferent
                                                            : Verdict::kUnclear;
}

/// Asks for all three groups in random order, again until both comparisons are clear.
int compare(const Kind& kind, Asker& asker, std::mt19937_64& random) {
  std::array<Times, 3> times;
  std::set<std::string> answers;
  Verdict foreign = Verdict::kUnclear;
  Verdict control = Verdict::kUnclear;
  for (int round = 0;
       round < kMostRounds && (foreign == Verdict::kUnclear || control == Verdict::kUnclear);
       ++round) {
    for (int i = 0; i < kRequestsPerRound; ++i) {
      const auto group = static_cast<std::size_t>(random() % 3);
      const auto& names = kind.names[group];
      const std::string path = kind.path + names[random() % names.size()];
      const auto start = bench::Clock::now();
      const std::string answer = asker.ask("GET", path, {});
      times[group].push_back(seconds_since(start) * 1e6);
      answers.insert(Asker::stable(answer));
    }
    const Interval tells = difference(times[0], times[1], random);
    const Interval same = difference(times[2], times[1], random);
    foreign = judge(tells);
    control = judge(same);
    std::printf(
        "%-18s %6zu requests  median %7.1f us  foreign - absent %+6.1f..%+6.1f us  "
        "absent - absent %+6.1f..%+6.1f us\n",
        kind.name, times[0].size() + times[1].size() + times[2].size(), median(times[1]), tells.low,
        tells.high, same.low, same.high);
  }
  if (answers.size() != 1 || !answers.begin()->starts_with("HTTP/1.1 404")) {
    std::printf("%-18s the answers differ, or are no 404:\n", kind.name);
    for (const std::string& answer : answers) {
      std::printf("---\n%s\n", answer.c_str());
    }
    return 1;
  }
  if (control != Verdict::kSame) {
    std::printf("%-18s the control differs from itself: this machine cannot tell now\n", kind.name);
    return kInconclusive;
  }
  if (foreign == Verdict::kDifferent) {
    std::printf("%-18s the time tells foreign from absent\n", kind.name);
    return 1;
  }
  return foreign == Verdict::kSame ? 0 : kInconclusive;
}

/// A workspace with objects, and the key of another one that asks for them.
std::string make_key(const std::string& folder) {
  const Serving serving(folder);
  std::string operator_key;
  std::getline(std::ifstream(folder + "/operator.key"), operator_key);
  Asker asker(serving.port(), operator_key);
  asker.ask("POST", "/v1/workspaces", R"({"id": "acme"})");
  return member_of(asker.ask("POST", "/v1/workspaces", R"({"id": "rival"})"), "key");
}

}  // namespace

int main() {
  std::string folder =
      (std::filesystem::temp_directory_path() / "sandboxkit-timing-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) {
    give_up("mkdtemp");
  }
  int worst = 0;
  {
    const std::string key = make_key(folder);
    const std::vector<Kind> kinds = make_objects(folder);
    const Serving serving(folder);
    Asker asker(serving.port(), key);
    std::mt19937_64 random(system_random().next_u64());
    for (const Kind& kind : kinds) {
      const int code = compare(kind, asker, random);
      worst = code == 1 || worst == 1 ? 1 : std::max(worst, code);
    }
  }
  std::filesystem::remove_all(folder);
  return worst;
}
