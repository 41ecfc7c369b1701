// Lowers attention to one kernel with the online softmax: scores never leave the chip.
#pragma once

#include <map>
#include <optional>

#include "tilesim/compile/plan/plan.hpp"
#include "tilesim/mapping/attention/plan.hpp"

namespace tilesim::lower {

/// The problem of an attention that the machine's units compute in one kernel; none: expanded it runs, or not at all.
std::optional<mapping::AttentionProblem> attention_problem(const GraphFunction& function, const Op& op,
                                                           const Share& machine);

/// What was planned, by problem; none: no tile fits.
struct AttentionPlans { std::map<mapping::AttentionProblem, std::optional<mapping::AttentionPlan>> known; };

/// Of an operation that has a problem and a plan, which `context.choices` may have.
program::Scope lower_attention(Context& context, const Kernel& kernel);

}  // namespace tilesim::lower
