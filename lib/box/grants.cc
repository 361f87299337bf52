#include "box/grants.h"

#include "base/text.h"
#include "box/broker.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string_view>

#include <poll.h>
#include <sys/socket.h>

namespace sandboxkit::box {
namespace {

constexpr int kAnswerMs = 5'000;

Error of_answer(const GrantOrder& order, const BrokerAnswer& answer) {
  const std::string path = quoted(order.path);
  if (answer.is_changed) {
    return {ErrorCode::kConflict,
            path + " is not what was judged any more (or a link leads there); ask the gate again",
            "box_place_changed", "path"};
  }
  if (answer.error_number == EBUSY) {
    return {ErrorCode::kConflict, path + " is open for writing in the box", "box_place_busy",
            "path"};
  }
  return {ErrorCode::kUnavailable, path + ": " + strerror(answer.error_number), "box_unavailable",
          "path"};
}

bool lies_in(std::string_view path, std::string_view folder) {
  return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
}

bool is_plain(const std::string& path) {
  const auto names = split(path, '/');
  return path.size() > 1 && path.size() < kMaxGrantPath && path.front() == '/' &&
         path.find('\0') == std::string::npos &&
         std::none_of(
             names.begin() + 1, names.end(),
             [](std::string_view name) { return name.empty() || name == "." || name == ".."; }) &&
         !lies_in(path, "/dev") && !lies_in(path, "/proc");
}

/// The first is given, the others protect what lies below it.
Status check_place(std::span<const BoxPlace> places, std::size_t index) {
  const BoxPlace& place = places[index];
  const bool protects = index > 0;
  const auto wrong = [&](const char* field, const char* why) {
    return Error{ErrorCode::kInvalidArgument, quoted(place.path) + " " + why, "",
                 "places[" + std::to_string(index) + "]." + field};
  };
  if (!is_plain(place.path)) {
    return wrong("path", "is no canonical path of the host's");
  }
  const std::string& given = places.front().path;
  if (protects && (place.path == given || !lies_in(place.path, given))) {
    return wrong("path", "does not lie below what is granted");
  }
  const bool is_access = place.access == BoxAccess::kReadOnly ||
                         place.access == (protects ? BoxAccess::kHide : BoxAccess::kReadWrite) ||
                         (protects && place.access == BoxAccess::kPin);
  if (!is_access) {
    return wrong("access", "cannot be given to a box that runs");
  }
  if (place.type != FileType::kDirectory && place.type != FileType::kFile &&
      !(protects && place.type == FileType::kLink)) {
    return wrong("type", "is neither a file nor a directory");
  }
  return {};
}

}  // namespace

Status check_grants(std::span<const BoxPlace> places) {
  if (places.empty()) {
    return Error{ErrorCode::kInvalidArgument, "there is nothing to grant", "", "places"};
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (Status good = check_place(places, i); !good) {
      return good;
    }
  }
  return {};
}

Status ask_broker(const Started& started, const GrantOrder& order) {
  if (!started.broker) {
    return Error{ErrorCode::kConflict, "this box takes no grants: BoxOptions::takes_grants",
                 "box_unavailable"};
  }
  BrokerOrder asked{order.act, order.access, order.type, order.identity, {}};
  order.path.copy(asked.path.data(), asked.path.size() - 1, 1);
  BrokerAnswer answer;
  pollfd ready{started.broker.get(), POLLIN, 0};
  if (send(started.broker.get(), &asked, sizeof asked, MSG_NOSIGNAL) != sizeof asked ||
      poll(&ready, 1, kAnswerMs) != 1 ||
      recv(started.broker.get(), &answer, sizeof answer, MSG_DONTWAIT) != sizeof answer) {
    return Error{ErrorCode::kUnavailable, "the box's broker does not answer", "box_unavailable"};
  }
  return answer.error_number == 0 ? Status() : Status(of_answer(order, answer));
}

pid_t pid_of(const Started& started) {
  if (!started.broker) {
    return started.pid;
  }
  std::ifstream about("/proc/self/fdinfo/" + std::to_string(started.pidfd.get()));
  for (std::string line; std::getline(about, line);) {
    if (line.starts_with("Pid:")) {
      const auto number = parse_decimal(trim(std::string_view(line).substr(4)), 1U << 30);
      return number ? static_cast<pid_t>(*number) : 0;
    }
  }
  return 0;
}

}  // namespace sandboxkit::box
