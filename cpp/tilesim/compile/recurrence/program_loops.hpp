// The loops of all functions of a program: how they run, and which become one kernel.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tilesim/compile/recurrence/recurrence.hpp"

namespace tilesim::lower {

class ProgramLoops {
 public:
  /// Plans a loop and keeps the plan. `body_name`: name of the function made from its body.
  const LoopPlan& plan(const Graph& graph, const GraphFunction& function, const Op& op, const std::string& body_name);

  /// Whether a planned loop runs as one kernel, by the estimates. `record`: receives a row on it; may be null.
  bool take_recurrence(const Context& context, const Op& op, std::vector<FusionCandidate>* record);

  bool is_counter(const GraphFunction& function, const Op& op, std::size_t operand) const;

  /// Lowers a planned loop as one kernel.
  program::Scope lower(Context& context, const Op& op) const;

 private:
  using Key = std::pair<std::string, std::string>;  ///< function and operation

  std::map<Key, LoopPlan> plans_;
  std::map<Key, Recurrence> recurrences_;
};

}  // namespace tilesim::lower
