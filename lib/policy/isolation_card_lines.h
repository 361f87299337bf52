#pragma once

#include "policy/isolation_card.h"

#include <string>
#include <vector>

namespace sandboxkit::policy {

/// The parts of the card; each adds its lines.

using CardLines = std::vector<CardLine>;

void add_reach(const CardFacts& facts, CardLines& lines);
void add_wall(const CardFacts& facts, CardLines& lines);
void add_left_open(const CardFacts& facts, CardLines& lines);
void add_secrets(const CardFacts& facts, CardLines& lines);

/// How a wall of agent mode is named in reports.
inline constexpr const char* kLocalBox = "local-box";
/// Whether the sandbox is a box on a person's machine, as its worker tells; it has lines of its
/// own.
bool is_agent_mode(const CardFacts& facts);
void add_box_root(const CardFacts& facts, CardLines& lines);
void add_box_files(const CardFacts& facts, CardLines& lines);
void add_box_kernel(const CardFacts& facts, CardLines& lines);

bool is_over(SandboxState state);
/// `a, b and 3 more`; all of them up to eight.
std::string listed(const std::vector<std::string>& items);

}  // namespace sandboxkit::policy
