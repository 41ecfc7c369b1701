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

/// Visits every statement of a block, nested statements after the one that contains them. Does not enter functions.
template <class Statements, class Visit>
void for_each(Statements& block, const Visit& visit) {
  for (auto& statement : block) {
    worked(64);
    visit(statement);
    for_each_body(statement, [&](auto& body) { for_each(body, visit); });
  }
}

/// State that a visitor below passes into a statement: copied only for statements with a body.
template <class State>
std::optional<State> inside(const Statement& statement, const State& known) {
  const Action& action = statement.action;
  const bool has = std::holds_alternative<For>(action) || std::holds_alternative<If>(action) ||
                   std::holds_alternative<Scope>(action);
  return has ? std::optional(known) : std::nullopt;
}

/// Visits every statement of a block with a state: `visit(statement, known)` may change it for the rest of the block,
/// and returns the state inside of the statement, or nothing to skip its body.
template <class Statements, class State, class Visit>
void for_each_knowing(Statements& block, State known, const Visit& visit) {
  for (auto& statement : block) {
    worked(64);
    if (std::optional<State> inside = visit(statement, known))
      for_each_body(statement, [&](auto& body) { for_each_knowing(body, *inside, visit); });
  }
}

/// Like `for_each_knowing`; `visit(statement, known, before)` may also insert statements before this one.
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

/// Calls `call` with the body and name of each function, then with the program's body and an empty name.
template <class Made, class Call>
void for_each_function(Made& program, const Call& call) {
  for (auto& function : program.functions) call(function.body, function.name);
  call(program.body, std::string());
}

}  // namespace tilesim::program
