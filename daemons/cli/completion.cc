#include "daemons/cli/completion.h"

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace sandboxkit::cli {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) {
    out += (out.empty() ? "" : " ") + word;
  }
  return out;
}

/// Names of sub-commands and long options.
std::string words_of(const CLI::App& app) {
  std::vector<std::string> words;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    words.push_back(sub->get_name());
  }
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      words.push_back("--" + name);
    }
  }
  return joined(words);
}

/// One line of the script's table a command: `"egress check") words="..." ;;`.
void add_lines(const CLI::App& app, const std::string& path, std::string& out) {
  out += "    \"" + path + "\") words=\"" + words_of(app) + "\" ;;\n";
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    add_lines(*sub, path.empty() ? sub->get_name() : path + " " + sub->get_name(), out);
  }
}

constexpr const char* kHead =
    R"bash(# bash completion of sandboxkit; load it with:  source <(sandboxkit completion bash)
_sandboxkit() {
  local current=${COMP_WORDS[COMP_CWORD]} path="" words="" word
  for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [[ $word == -- ]] && return
    case "${path:+$path }$word" in
)bash";

constexpr const char* kMiddle = R"bash() path="${path:+$path }$word" ;;
    esac
  done
  case "$path" in
)bash";

constexpr const char* kTail = R"bash(  esac
  case "$path" in
    exec | shell | rm | show | isolation | renew | cp | "egress denied" | "egress set")
      [[ $current == -* ]] || words+=" $(sandboxkit ls --names 2> /dev/null)" ;;
  esac
  if [[ $path == cp && $current != -* ]]; then
    compopt -o nospace -o default
  elif [[ $path == place || $path == "egress check" ]] && [[ $current != -* ]]; then
    compopt -o default
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -F _sandboxkit sandboxkit
)bash";

void add_paths(const CLI::App& app, const std::string& path, std::vector<std::string>& out) {
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    const std::string name = path.empty() ? sub->get_name() : path + " " + sub->get_name();
    out.push_back("\"" + name + "\"");
    add_paths(*sub, name, out);
  }
}

}  // namespace

std::string bash_completion(const CLI::App& app) {
  std::vector<std::string> paths;
  add_paths(app, "", paths);
  std::string alternatives;
  for (const std::string& path : paths) {
    alternatives += (alternatives.empty() ? "" : " | ") + path;
  }
  std::string out = kHead;
  out += "      " + alternatives + kMiddle;
  add_lines(app, "", out);
  return out + kTail;
}

}  // namespace sandboxkit::cli
