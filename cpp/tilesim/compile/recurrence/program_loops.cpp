#include "tilesim/compile/recurrence/program_loops.hpp"

#include <optional>

#include "tilesim/compile/groups/rules.hpp"

namespace tilesim::lower {

const LoopPlan& ProgramLoops::plan(const Graph& graph, const GraphFunction& function, const Op& op,
                                   const std::string& body_name) {
  return plans_[{function.name, op.name}] = plan_loop(graph, function, op, body_name);
}

bool ProgramLoops::take_recurrence(const Context& context, const Op& op, std::vector<FusionCandidate>* record) {
  const Key key{context.function.name, op.name};
  const LoopPlan& plan = plans_.at(key);
  std::optional<Recurrence> found = find_recurrence(context.graph, plan);
  FusionCandidate row;
  row.candidate = (&context.function == &context.graph.entry() ? "" : context.function.name + ".") + op.name;
  row.rule = info(Rule::recurrence).name;
  row.operations = {op.name};
  row.decision = "not legal";
  row.reason = "trips mix elements of the carried state, or use positions that do not follow from the counter";
  bool takes = false;
  if (found) {
    const auto gain = recurrence_gain(*found, plan, context);
    takes = gain && gain->cycles > 0;
    row.reason = gain ? "" : "no tile of it fits the scratchpad, or the vector unit does not compute on its types";
    if (gain) row.decision = takes ? "taken" : "not worth it";
    if (gain) row.bytes_saved = gain->bytes, row.cycles_saved = gain->cycles;
  }
  if (record) record->push_back(std::move(row));
  if (takes) recurrences_.emplace(key, std::move(*found));
  return takes;
}

bool ProgramLoops::is_counter(const GraphFunction& function, const Op& op, std::size_t operand) const {
  const auto plan = plans_.find({function.name, op.name});
  return plan != plans_.end() && plan->second.states[operand] == Carried::counter;
}

program::Scope ProgramLoops::lower(Context& context, const Op& op) const {
  const Key key{context.function.name, op.name};
  const auto found = recurrences_.find(key);
  if (found == recurrences_.end()) return lower_loop(context, op, plans_.at(key));
  return lower_recurrence(context, op, plans_.at(key), found->second);
}

}  // namespace tilesim::lower
