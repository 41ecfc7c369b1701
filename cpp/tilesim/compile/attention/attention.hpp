// Lowers attention to one kernel with the online softmax: scores never leave the chip.
#pragma once

#include <map>
#include <optional>

#include "tilesim/compile/plan/plan.hpp"
#include "tilesim/mapping/attention/plan.hpp"

namespace tilesim::lower {

/// The problem of an attention that the machine computes in one kernel; empty if it must be expanded or cannot run.
std::optional<mapping::AttentionProblem> attention_problem(const GraphFunction& function, const Op& op,
                                                           const Share& machine);

/// Plans by problem; empty: no tile fits the scratchpad.
struct AttentionPlans { std::map<mapping::AttentionProblem, std::optional<mapping::AttentionPlan>> known; };

/// Lowers an attention that has a problem and a plan; the plan may come from `context.choices`.
program::Scope lower_attention(Context& context, const Kernel& kernel);

}  // namespace tilesim::lower
