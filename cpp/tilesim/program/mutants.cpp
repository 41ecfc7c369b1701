// Programs with one synchronizing statement deleted.
#include <functional>

#include "tilesim/program/execute.hpp"

namespace tilesim::program {

namespace {

/// Calls `call` for each block, outer ones first.
void visit(Block& block, const std::function<void(Block&)>& call) {
  call(block);
  for (Statement& statement : block) {
    if (auto* loop = std::get_if<For>(&statement.action)) visit(loop->body, call);
    if (auto* scope = std::get_if<Scope>(&statement.action)) visit(scope->body, call);
    if (auto* branch = std::get_if<If>(&statement.action)) {
      visit(branch->then, call);
      visit(branch->otherwise, call);
    }
  }
}

void visit(Program& program, const std::function<void(Block&)>& call) {
  visit(program.body, call);
  for (Function& function : program.functions) visit(function.body, call);
}

/// What the statement is, or empty if it is none that a mutant lacks.
std::string deletable(const Statement& statement) {
  const std::string label = statement.label.empty() ? "" : " (" + statement.label + ")";
  if (const auto* wait = std::get_if<Wait>(&statement.action)) {
    return "wait of " + statement.queue + " for " + (wait->counter.empty() ? wait->slot : wait->counter) + label;
  }
  if (const auto* commit = std::get_if<Commit>(&statement.action)) {
    return "commit of " + statement.queue + " to " + commit->slot + label;
  }
  if (const auto* release = std::get_if<Release>(&statement.action)) {
    return "release of " + statement.queue + " of " + release->slot + label;
  }
  return {};
}

/// Deletes the `wanted`-th such statement.
Mutant without(const Program& program, int wanted) {
  Mutant mutant{program, {}};
  int seen = 0;
  visit(mutant.program, [&](Block& block) {
    for (std::size_t i = 0; i < block.size(); ++i) {
      const std::string what = deletable(block[i]);
      if (what.empty() || seen++ != wanted) continue;
      mutant.deleted = what;
      block.erase(block.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  });
  return mutant;
}

}  // namespace

std::vector<Mutant> mutants(const Program& program) {
  Program copy = program;
  int total = 0;
  visit(copy, [&](Block& block) {
    for (const Statement& statement : block) total += deletable(statement).empty() ? 0 : 1;
  });
  std::vector<Mutant> result;
  for (int wanted = 0; wanted < total; ++wanted) result.push_back(without(program, wanted));
  return result;
}

}  // namespace tilesim::program
