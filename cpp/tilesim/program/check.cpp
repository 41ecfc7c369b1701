// Structural check of a program, and its mutants.
#include <algorithm>
#include <functional>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/program/cursor.hpp"
#include "tilesim/program/execute.hpp"

namespace tilesim::program {

namespace {

struct Extent { std::int64_t scratchpad = 0, accumulator = 0; };

/// Highest byte in use by the slots of the program and of all nested scopes; overlapping slots of one scope are an
/// error.
void measure(const std::vector<Slot>& slots, Extent& top, const std::string& where) {
  std::vector<std::pair<std::int64_t, std::int64_t>> used[2];
  for (const Slot& slot : slots) {
    const std::int64_t bytes = round_up(packed_bytes(slot.dtype, slot.elements), 64) * slot.depth;
    auto& list = used[slot.accumulator ? 1 : 0];
    for (const auto& [low, high] : list)
      if (slot.address < high && slot.address + bytes > low)
        throw UserError({"two slots of one scope overlap", where, slot.name, "separate addresses", {}});
    list.emplace_back(slot.address, slot.address + bytes);
    std::int64_t& end = slot.accumulator ? top.accumulator : top.scratchpad;
    end = std::max(end, slot.address + bytes);
  }
}

void measure(const Block& block, Extent& top) {
  for (const Statement& statement : block) {
    if (const auto* loop = std::get_if<For>(&statement.action)) measure(loop->body, top);
    if (const auto* branch = std::get_if<If>(&statement.action))
      measure(branch->then, top), measure(branch->otherwise, top);
    if (const auto* scope = std::get_if<Scope>(&statement.action))
      measure(scope->slots, top, scope->kernel), measure(scope->body, top);
  }
}

}  // namespace

void check(const Program& program, const Machine* machine) {
  const CompiledProgram compiled(program);
  Extent top;
  measure(program.slots, top, program.name);
  measure(program.body, top);
  for (const Function& function : program.functions) measure(function.body, top);
  if (!machine) return;
  const ScratchpadSpec& memory = machine->core.scratchpad;
  if (top.scratchpad > memory.bytes)
    throw UserError({"the slots exceed the scratchpad",
                     program.name,
                     std::to_string(top.scratchpad) + " bytes",
                     "at most " + std::to_string(memory.bytes),
                     {}});
  if (top.accumulator > memory.accumulator_bytes)
    throw UserError({"the slots exceed the accumulator",
                     program.name,
                     std::to_string(top.accumulator) + " bytes",
                     "at most " + std::to_string(memory.accumulator_bytes),
                     {}});
}

namespace {

/// Visits every block with the statements it holds.
void visit(Block& block, const std::function<void(Block&)>& call) {
  call(block);
  for (Statement& statement : block) {
    if (auto* loop = std::get_if<For>(&statement.action)) visit(loop->body, call);
    if (auto* branch = std::get_if<If>(&statement.action)) visit(branch->then, call), visit(branch->otherwise, call);
    if (auto* scope = std::get_if<Scope>(&statement.action)) visit(scope->body, call);
  }
}

void visit(Program& program, const std::function<void(Block&)>& call) {
  visit(program.body, call);
  for (Function& function : program.functions) visit(function.body, call);
}

std::string deletable(const Statement& statement) {
  if (const auto* wait = std::get_if<Wait>(&statement.action))
    return "wait of " + statement.queue + " for " + (wait->counter.empty() ? wait->slot : wait->counter);
  if (const auto* commit = std::get_if<Commit>(&statement.action))
    return "commit of " + statement.queue + " to " + commit->slot;
  if (const auto* release = std::get_if<Release>(&statement.action))
    return "release of " + statement.queue + " of " + release->slot;
  return {};
}

}  // namespace

std::vector<Mutant> mutants(const Program& program) {
  std::vector<Mutant> result;
  int total = 0;
  Program copy = program;
  visit(copy, [&](Block& block) {
    for (const Statement& statement : block) total += !deletable(statement).empty();
  });
  for (int wanted = 0; wanted < total; ++wanted) {
    Mutant mutant{program, {}};
    int seen = 0;
    visit(mutant.program, [&](Block& block) {
      for (std::size_t i = 0; i < block.size(); ++i) {
        const std::string what = deletable(block[i]);
        if (what.empty() || seen++ != wanted) continue;
        mutant.deleted = what;
        block.erase(block.begin() + static_cast<std::ptrdiff_t>(i));
        --i;
      }
    });
    result.push_back(std::move(mutant));
  }
  return result;
}

}  // namespace tilesim::program
