// Walks over the statements of a program: one place that knows which of them have statements inside.
#pragma once

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

}  // namespace tilesim::program
