#include "config/yaml.h"

#include "base/text.h"

#include <algorithm>
#include <exception>
#include <new>
#include <optional>
#include <sstream>
#include <utility>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

namespace sandboxkit::config {
namespace {

/// Ends the reading from inside of the parser's callbacks; never leaves this file.
struct Stop {
  int line;
  std::string message;
};

int line_of(const YAML::Mark& mark) { return std::max(mark.line, 0) + 1; }

class Builder final : public YAML::EventHandler {
 public:
  Builder(Document& document, const std::string& name) : document_(document), name_(name) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) {
      throw Stop{line_of(mark), "a second document begins here; a file has one"};
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    look_at(mark, {}, anchor);
    put({.kind = YamlNode::Kind::kEmpty, .line = line_of(mark)});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw Stop{line_of(mark), "aliases (`*name`) are not taken; write the value out"};
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    look_at(mark, tag, anchor);
    put({.kind = YamlNode::Kind::kScalar,
         .line = line_of(mark),
         .text = value,
         .quoted = tag == kQuotedTag});
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::kList, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::kMap, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  static constexpr const char* kPlainTag = "?";
  static constexpr const char* kQuotedTag = "!";

  struct Key {
    std::string text;
    int line;
  };
  struct Open {
    YamlNode node;
    std::optional<Key> key{};
  };

  bool wants_key() const {
    return !open_.empty() && open_.back().node.kind == YamlNode::Kind::kMap && !open_.back().key;
  }

  void look_at(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) {
      throw Stop{line_of(mark), "anchors (`&name`) are not taken; write the value out"};
    }
    if (!tag.empty() && tag != kPlainTag && tag != kQuotedTag) {
      throw Stop{line_of(mark), "tags (`!name`) are not taken; the option says what its value is"};
    }
    if (++nodes_ > kMaxNodes) {
      throw Stop{line_of(mark), "more than " + std::to_string(kMaxNodes) + " values"};
    }
  }

  void open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor) {
    look_at(mark, tag, anchor);
    if (wants_key()) {
      throw Stop{line_of(mark), "a key must be a word"};
    }
    if (open_.size() == kMaxDepth) {
      throw Stop{line_of(mark), "nested deeper than " + std::to_string(kMaxDepth) + " levels"};
    }
    open_.push_back({.node = {.kind = kind, .line = line_of(mark)}});
  }

  void close() {
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    put(std::move(node));
  }

  void put(YamlNode node) {
    if (open_.empty()) {
      document_.root = std::move(node);
    } else if (wants_key()) {
      if (node.kind != YamlNode::Kind::kScalar) {
        throw Stop{node.line, "a key must be a word"};
      }
      open_.back().key = Key{std::move(node.text), node.line};
    } else if (open_.back().node.kind == YamlNode::Kind::kMap) {
      put_member(open_.back(), std::move(node));
    } else {
      open_.back().node.items.push_back(std::move(node));
    }
  }

  void put_member(Open& map, YamlNode value) {
    const Key key = std::move(*map.key);
    map.key.reset();
    const auto same = std::ranges::find(map.node.items, key.text, &YamlNode::key);
    if (same == map.node.items.end()) {
      value.key = key.text;
      value.key_line = key.line;
      map.node.items.push_back(std::move(value));
    } else if (document_.problems.size() < kMaxProblems) {
      document_.problems.push_back({name_ + ":" + std::to_string(key.line),
                                    "key " + quoted(key.text) + " is given twice: first in line " +
                                        std::to_string(same->key_line)});
    }
  }

  Document& document_;
  const std::string& name_;
  std::vector<Open> open_;
  std::size_t nodes_ = 0;
  int documents_ = 0;
};

/// What no reader of YAML should guess at, before any parser sees it.
std::optional<Stop> look_at_bytes(std::string_view text) {
  if (text.size() > kMaxFileBytes) {
    return Stop{1, "larger than " + std::to_string(kMaxFileBytes) + " bytes"};
  }
  int line = 1;
  for (const std::string_view each : split(text, '\n')) {
    std::string visible(each);
    std::erase(visible, '\t');
    if (!visible.empty() && visible.back() == '\r') {
      visible.pop_back();
    }
    if (!is_utf8(visible) || has_control_characters(visible)) {
      return Stop{line, "not plain UTF-8 text"};
    }
    ++line;
  }
  return std::nullopt;
}

std::optional<Stop> build(std::string_view text, Builder& builder) {
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
    return std::nullopt;
  } catch (const Stop& stop) {
    return stop;
  } catch (const YAML::Exception& error) {
    return Stop{line_of(error.mark), "not YAML: " + error.msg};
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return Stop{1, std::string("not YAML: ") + error.what()};
  }
}

}  // namespace

Document parse_yaml(std::string_view text, const std::string& name) {
  Document document;
  Builder builder(document, name);
  auto stopped = look_at_bytes(text);
  if (!stopped) {
    stopped = build(text, builder);
  }
  if (stopped) {
    document.root = {};
    document.whole = false;
    document.problems.push_back(
        {name + ":" + std::to_string(stopped->line), std::move(stopped->message)});
  } else if (document.root.kind != YamlNode::Kind::kEmpty &&
             document.root.kind != YamlNode::Kind::kMap) {
    document.problems.push_back(
        {name + ":" + std::to_string(document.root.line), "a file is a map of options"});
  }
  return document;
}

}  // namespace sandboxkit::config
