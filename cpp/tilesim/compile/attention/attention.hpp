// Lowers attention to one kernel with online softmax, in which scores stay on chip.
#pragma once

#include <map>
#include <optional>

#include "tilesim/compile/plan/plan.hpp"
#include "tilesim/mapping/attention/plan.hpp"

namespace tilesim::lower {

/// The problem of an attention that the machine can compute in one kernel; empty if it must be expanded or cannot run.
std::optional<mapping::AttentionProblem> attention_problem(const GraphFunction& function, const Op& op,
                                                           const Share& machine);

/// Plans by problem. An empty plan means that no tile fits the scratchpad.
struct AttentionPlans { std::map<mapping::AttentionProblem, std::optional<mapping::AttentionPlan>> known; };

/// Lowers an attention for which a problem and a plan exist; the plan may come from `context.choices`.
program::Scope lower_attention(Context& context, const Kernel& kernel);

}  // namespace tilesim::lower
