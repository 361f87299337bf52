#include "daemons/log_sink.h"

#include <algorithm>
#include <memory>
#include <string>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace sandboxkit::daemons {
namespace {

constexpr char kLogger[] = "sandboxkit";

spdlog::level::level_enum level_of(Severity severity) {
  switch (severity) {
    case Severity::kDebug:
      return spdlog::level::debug;
    case Severity::kInfo:
      return spdlog::level::info;
    case Severity::kWarning:
      return spdlog::level::warn;
    case Severity::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

/// Peers have a say in what events quote: a control byte must not forge a second line.
void append_escaped(std::string& line, const std::string& text) {
  static constexpr char kHex[] = "0123456789abcdef";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      line += "\\x";
      line += kHex[byte >> 4];
      line += kHex[byte & 15];
    } else {
      line += c;
    }
  }
}

void append_field(std::string& line, const std::string& key, const std::string& value) {
  const bool plain = !value.empty() && std::ranges::none_of(value, [](char c) {
    return c == ' ' || c == '"' || c == '=';
  });
  line += ' ';
  line += key;
  line += plain ? "=" : "=\"";
  append_escaped(line, value);
  line += plain ? "" : "\"";
}

void append_json_string(std::string& line, const std::string& text) {
  static constexpr char kHex[] = "0123456789abcdef";
  line += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      line += "\\u00";
      line += kHex[byte >> 4];
      line += kHex[byte & 15];
    } else {
      line += c == '"' || c == '\\' ? "\\" : "";
      line += c;
    }
  }
  line += '"';
}

std::string as_json(const Event& event) {
  std::string line = R"("event":)";
  append_json_string(line, event.name);
  line += R"(,"message":)";
  append_json_string(line, event.message);
  for (const auto& [key, value] : event.fields) {
    line += ',';
    append_json_string(line, key);
    line += ':';
    append_json_string(line, value);
  }
  return line;
}

}  // namespace

LogSink::LogSink(Severity least, bool json) : least_(least), json_(json) {
  auto logger =
      std::make_shared<spdlog::logger>(kLogger, std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern(json_ ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v})"
                            : "%Y-%m-%dT%H:%M:%S.%e%z %l %v");
  logger->set_level(level_of(least));
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
}

void LogSink::tell(const Event& event) {
  if (event.severity < least_) {
    return;
  }
  if (json_) {
    spdlog::default_logger_raw()->log(level_of(event.severity),
                                      spdlog::string_view_t(as_json(event)));
    return;
  }
  std::string line = event.name;
  if (!event.message.empty()) {
    line += ": ";
    append_escaped(line, event.message);
  }
  for (const auto& [key, value] : event.fields) {
    append_field(line, key, value);
  }
  spdlog::default_logger_raw()->log(level_of(event.severity), spdlog::string_view_t(line));
}

}  // namespace sandboxkit::daemons
