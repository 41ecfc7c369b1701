// Walks over the statements of a program. No other file knows which statements contain statements.
#pragma once

#include <optional>
#include <utility>
#include <variant>

#include "tilesim/base/interrupt.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim::program {

/// Calls `call` with the body of a loop or scope, or with both sides of a branch.
template <class Inside, class Call>
void for_each_body(Inside& statement, const Call& call) {
  if (auto* loop = std::get_if<For>(&statement.action)) {
    call(loop->body);
  } else if (auto* scope = std::get_if<Scope>(&statement.action)) {
    call(scope->body);
  } else if (auto* branch = std::get_if<If>(&statement.action)) {
    call(branch->then);
    call(branch->otherwise);
  }
}

/// Visits every statement of a block, those inside of a statement after it. Called functions are not entered.
template <class Statements, class Visit>
void for_each(Statements& block, const Visit& visit) {
  for (auto& statement : block) {
    worked(64);
    visit(statement);
    for_each_body(statement, [&](auto& body) { for_each(body, visit); });
  }
}

/// What is known inside of a statement, for the visitors below: copied only where there is an inside.
template <class State>
std::optional<State> inside(const Statement& statement, const State& known) {
  const Action& action = statement.action;
  const bool has = std::holds_alternative<For>(action) || std::holds_alternative<If>(action) ||
                   std::holds_alternative<Scope>(action);
  return has ? std::optional(known) : std::nullopt;
}

/// Visits every statement of a block with what is known there: `visit(statement, known)` may change it for the rest of
/// the block, and returns what is known inside of the statement; nothing: what is inside is not visited.
template <class Statements, class State, class Visit>
void for_each_knowing(Statements& block, State known, const Visit& visit) {
  for (auto& statement : block) {
    worked(64);
    if (std::optional<State> inside = visit(statement, known))
      for_each_body(statement, [&](auto& body) { for_each_knowing(body, *inside, visit); });
  }
}

/// As `for_each_knowing`; `visit(statement, known, before)` may also put statements before this one.
template <class State, class Visit>
void rewrite_knowing(Block& block, State known, const Visit& visit) {
  Block result;
  for (Statement& statement : block) {
    worked(64);
    if (std::optional<State> inside = visit(statement, known, result))
      for_each_body(statement, [&](Block& body) { rewrite_knowing(body, *inside, visit); });
    result.push_back(std::move(statement));
  }
  block = std::move(result);
}

/// The bodies of a program: of each function, then its own, with the name of the function; empty for the program's.
template <class Made, class Call>
void for_each_function(Made& program, const Call& call) {
  for (auto& function : program.functions) call(function.body, function.name);
  call(program.body, std::string());
}

}  // namespace tilesim::program
