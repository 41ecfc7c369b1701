#include "tilesim/engine/jobs/job.hpp"

#include <map>
#include <string>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/engine/jobs/custom_instructions.hpp"

namespace tilesim::engine {

namespace {

/// Types of the slots of a vector compute's views.
std::map<std::string, DType> types_of(const program::CompiledProgram& program, const program::Instruction& of) {
  const auto& op = std::get<program::VectorOp>(of.statement->action);
  std::map<std::string, DType> types;
  const std::size_t inputs = op.inputs.size();
  for (std::size_t v = 0; v < of.views.size(); ++v)
    types.emplace(v < inputs ? op.inputs[v].slot : op.outputs[v - inputs].view.slot,
                  program.slots[at(of.views[v].slot)].dtype);
  return types;
}

std::vector<StaticCost> costs_of(const program::CompiledProgram& program, const UserInstructions& taken) {
  std::vector<StaticCost> costs(program.instructions().size());
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const program::Instruction& instruction = program.instructions()[i];
    if (instruction.opcode != program::Opcode::vector) continue;
    StaticCost& cost = costs[i];
    const auto& op = std::get<program::VectorOp>(instruction.statement->action);
    cost.work = program::work_of(op);
    for (const std::int32_t count : cost.work.functions) cost.functions_total += count;
    const auto types = types_of(program, instruction);
    const program::DTypeOf dtype_of = [&](const program::View& view) { return types.at(view.slot); };
    program::CustomInstructions own;
    if (!taken.empty()) own = custom_instructions(op, dtype_of, taken), cost.work = program::work_of(op, own);
    cost.work.pattern = program::pattern_of(op, dtype_of, own);
  }
  return costs;
}

std::string numbers_of(const UserInstruction& one) {
  const auto of = [](double value) {
    const auto whole = static_cast<std::int64_t>(value);
    return value == static_cast<double>(whole) ? std::to_string(whole) : Json(value).dump();
  };
  std::string text;
  if (one.cycles()) text += ", " + of(*one.cycles()) + (one.whole ? " cycles" : " cycles for each register");
  text += " on unit " + (one.custom ? one.custom->name : one.unit);
  if (one.latency) text += ", latency " + of(*one.latency);
  return text;
}

/// Notes on user-defined instructions: functions for which the program uses them, and functions for which it does not.
std::vector<std::string> notes_of(const program::CompiledProgram& program, const UserInstructions& taken) {
  std::map<Function, std::int64_t> counts, others;
  if (!taken.empty())
    for (const program::Instruction& instruction : program.instructions()) {
      if (instruction.opcode != program::Opcode::vector) continue;
      const auto types = types_of(program, instruction);
      const auto& op = std::get<program::VectorOp>(instruction.statement->action);
      const auto own = custom_instructions(op, [&](const program::View& view) { return types.at(view.slot); }, taken);
      for (std::size_t i = 0; i < own.size(); ++i)
        if (op.nodes[i].node.op == VectorNode::Op::function)
          ++(own[i] != nullptr ? counts : others)[op.nodes[i].node.function];
    }
  std::vector<std::string> notes;
  for (const auto& [function, one] : taken) {
    const std::string of(info(function).name), name = "instruction '" + one.name() + "' for " + of;
    if (counts[function] == 0 && others[function] > 0)
      notes.push_back(name + " is not taken: the program computes " + of + " in other elements than " + one.element);
    else if (counts[function] == 0)
      notes.push_back(name + ": the program has no " + of);
    else
      notes.push_back(name + " in " + std::to_string(counts[function]) +
                      (counts[function] == 1 ? " place" : " places") + " of the program" + numbers_of(one) +
                      (one.cycles() ? "" : "; its cycles are not stated: closed forms count it as " + of));
  }
  return notes;
}

}  // namespace

LoadedProgram::LoadedProgram(std::shared_ptr<const program::CompiledProgram> of, const Chip& chip, Units& units,
                             Timeline& timeline)
    : program(std::move(of)),
      tensors(*program, chip),
      costs(costs_of(*program, chip.machine.core.isa.functions)),
      computes(*program),
      slots_of(program->scopes.size()),
      notes(notes_of(*program, chip.machine.core.isa.functions)) {
  constexpr auto most = static_cast<std::size_t>(Agenda::most_ports);
  require(program->slots.size() < most && program->counters.size() < most, "a program has too many slots or counters");
  for (const std::string& queue : program->queues) sorts.push_back(units.sort(queue));
  for (std::size_t i = 0; i < program->slots.size(); ++i)
    if (program->slots[i].scope >= 0) slots_of[at(program->slots[i].scope)].push_back(static_cast<std::int32_t>(i));
  if (!timeline.wanted()) return;
  no_label = timeline.text("-");
  for (const program::CompiledScope& scope : program->scopes) labels.push_back(timeline.text(scope.scope->kernel));
}

}  // namespace tilesim::engine
