#include "tilesim/engine/jobs/job.hpp"

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/program/vector_work.hpp"

namespace tilesim::engine {

namespace {

std::vector<StaticCost> costs_of(const program::CompiledProgram& program) {
  std::vector<StaticCost> costs(program.instructions().size());
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const program::Instruction& instruction = program.instructions()[i];
    if (instruction.opcode != program::Opcode::vector) continue;
    StaticCost& cost = costs[i];
    cost.work = program::work_of(std::get<program::VectorOp>(instruction.statement->action));
    for (const std::int32_t count : cost.work.functions) cost.functions_total += count;
  }
  return costs;
}

}  // namespace

LoadedProgram::LoadedProgram(std::shared_ptr<const program::CompiledProgram> of, const Chip& chip, Units& units,
                             Timeline& timeline)
    : program(std::move(of)),
      tensors(*program, chip),
      costs(costs_of(*program)),
      computes(*program),
      slots_of(program->scopes.size()) {
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
