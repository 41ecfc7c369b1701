// Programs in which one synchronizing statement is deleted, repeated, weakened or moved behind the next statement.
#include <functional>

#include "tilesim/program/run/execute.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::program {

namespace {

/// Calls `call` for each block, outer blocks first.
void visit(Block& block, const std::function<void(Block&)>& call) {
  call(block);
  for (Statement& statement : block) for_each_body(statement, [&](Block& body) { visit(body, call); });
}

void visit(Program& program, const std::function<void(Block&)>& call) {
  visit(program.body, call);
  for (Function& function : program.functions) visit(function.body, call);
}

/// Description of the statement; empty if this change does not apply to the statement.
std::string changeable(const Statement& statement, Change change) {
  const std::string label = statement.label.empty() ? "" : " (" + statement.label + ")";
  if (const auto* wait = std::get_if<Wait>(&statement.action)) {
    return "wait of " + statement.queue + " for " + (wait->counter.empty() ? wait->slot : wait->counter) + label;
  }
  if (change == Change::fewer) return {};
  if (const auto* commit = std::get_if<Commit>(&statement.action)) {
    return "commit of " + statement.queue + " to " + commit->slot + label;
  }
  if (const auto* release = std::get_if<Release>(&statement.action)) {
    return "release of " + statement.queue + " of " + release->slot + label;
  }
  // Deleting an acquire would renumber versions, so there is no such mutant.
  if (change == Change::erase) return {};
  if (const auto* acquire = std::get_if<Acquire>(&statement.action)) return "acquire of " + acquire->slot + label;
  if (const auto* receive = std::get_if<Receive>(&statement.action)) return "receive of " + receive->slot + label;
  if (const auto* signal = std::get_if<Signal>(&statement.action)) {
    return "signal of " + statement.queue + " to " + signal->counter + label;
  }
  return {};
}

/// Changes the statement number `wanted` to which the change applies.
Mutant changed(const Program& program, Change change, int wanted) {
  Mutant mutant{program, {}};
  int seen = 0;
  visit(mutant.program, [&](Block& block) {
    for (std::size_t i = 0; i < block.size(); ++i) {
      const std::string what = changeable(block[i], change);
      if (what.empty() || seen++ != wanted) continue;
      mutant.changed = what;
      const auto place = block.begin() + static_cast<std::ptrdiff_t>(i);
      if (change == Change::erase) {
        block.erase(place);
      } else if (change == Change::fewer) {
        auto& wait = std::get<Wait>(block[i].action);
        wait.pieces = wait.pieces - 1;
      } else if (change == Change::repeat) {
        const Statement twin = block[i];
        block.insert(place, twin);
      } else if (i + 1 < block.size()) {
        std::swap(block[i], block[i + 1]);
      } else {
        mutant.changed.clear();  // it is the last statement of its block
      }
      return;
    }
  });
  return mutant;
}

}  // namespace

std::vector<Mutant> mutants(const Program& program, Change change) {
  Program copy = program;
  int total = 0;
  visit(copy, [&](Block& block) {
    for (const Statement& statement : block) total += changeable(statement, change).empty() ? 0 : 1;
  });
  std::vector<Mutant> result;
  for (int wanted = 0; wanted < total; ++wanted) {
    Mutant mutant = changed(program, change, wanted);
    if (!mutant.changed.empty()) result.push_back(std::move(mutant));
  }
  return result;
}

}  // namespace tilesim::program
