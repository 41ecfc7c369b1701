// Walks over the statements of a program. Only this file lists the statements that contain statements.
#pragma once

#include <optional>
#include <utility>
#include <variant>

#include "tilesim/base/interrupt.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim::program {

/// Calls `call` with the body of a loop or scope, or with both bodies of a branch.
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

/// Visits every statement of a block; nested statements follow the statement that contains them. Skips functions.
template <class Statements, class Visit>
void for_each(Statements& block, const Visit& visit) {
  for (auto& statement : block) {
    worked(64);
    visit(statement);
    for_each_body(statement, [&](auto& body) { for_each(body, visit); });
  }
}

/// Copies the state of a visitor below for the body of a statement; empty if the statement has no body.
template <class State>
std::optional<State> inside(const Statement& statement, const State& known) {
  const Action& action = statement.action;
  const bool has = std::holds_alternative<For>(action) || std::holds_alternative<If>(action) ||
                   std::holds_alternative<Scope>(action);
  return has ? std::optional(known) : std::nullopt;
}

/// Visits every statement of a block with a state. `visit(statement, known)` may change the state for the rest of the
/// block. It returns the state for the statement's body, or nothing to skip the body.
template <class Statements, class State, class Visit>
void for_each_knowing(Statements& block, State known, const Visit& visit) {
  for (auto& statement : block) {
    worked(64);
    if (std::optional<State> inside = visit(statement, known))
      for_each_body(statement, [&](auto& body) { for_each_knowing(body, *inside, visit); });
  }
}

/// Like `for_each_knowing`. `visit(statement, known, before)` may also add statements to `before`, in front of this.
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
